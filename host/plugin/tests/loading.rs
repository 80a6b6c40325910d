//! What happens to files that are not, or not quite, sinks; and the cache of compiled ones.

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mz_sink_core::types::{Envelope, Guarantee};
use mz_sink_plugin::{Engine, EngineOptions, LoadError, SinkComponent};
use support::{Guest, save};

fn engine() -> Engine {
    Engine::new(EngineOptions::default()).expect("an engine")
}

fn load(bytes: &[u8]) -> Result<SinkComponent, LoadError> {
    let dir = tempfile::tempdir().expect("a directory");
    SinkComponent::load(&engine(), &save(dir.path(), bytes))
}

fn refusal(bytes: &[u8]) -> LoadError {
    load(bytes).expect_err("this is no sink")
}

/// A component with these lines of text in it.
fn component(body: &str) -> Vec<u8> {
    wat::parse_str(format!("(component {body})")).expect("valid WAT")
}

#[tokio::test]
async fn a_sink_says_what_it_is_without_being_granted_anything() {
    let bytes = Guest::default().build();
    let component = load(&bytes).expect("a sink");
    let found = component.inspect().await.expect("a description");
    assert_eq!((&*found.name, &*found.version), ("hand-made", "1.2.3"));
    assert_eq!(found.guarantee, Guarantee::Convergent);
    assert_eq!(found.envelope, Envelope::Upsert);
    assert!(found.netted);
    assert_eq!(found.config_schema, "{}");
    assert_eq!(found.wit_version, "0.1.0");
    assert_eq!(found.size, bytes.len() as u64);
    assert!(found.digest.starts_with("sha256:") && found.digest.len() == 7 + 64);
    assert!(
        found
            .imports
            .contains(&"materialize:sink/changes@0.1.0".to_owned())
    );
    assert!(!found.imports.iter().any(|name| name.contains("http")));
    assert_eq!(found.exports, ["materialize:sink/sink@0.1.0"]);
}

#[test]
fn a_missing_file_is_named() {
    let error = SinkComponent::load(&engine(), Path::new("no/such.wasm")).expect_err("no file");
    assert!(error.to_string().contains("no/such.wasm"), "{error}");
}

#[test]
fn text_and_empty_files_are_not_wasm() {
    assert!(matches!(refusal(b"#!/bin/sh"), LoadError::NotWasm { .. }));
    assert!(matches!(refusal(b""), LoadError::NotWasm { .. }));
}

#[test]
fn a_core_module_is_refused_with_the_command_that_helps() {
    let error = refusal(&wat::parse_str("(module)").expect("valid WAT"));
    assert!(matches!(error, LoadError::CoreModule { .. }));
    assert!(error.to_string().contains("wasm-tools component new"));
}

#[test]
fn a_sink_cut_short_anywhere_is_refused() {
    let bytes = Guest::default().build();
    for len in [4, 6, 9, bytes.len() / 2, bytes.len() - 1] {
        let error = refusal(&bytes[..len]);
        assert!(
            matches!(error, LoadError::Invalid { .. }),
            "{len} bytes: {error}"
        );
    }
}

#[test]
fn a_component_for_another_world_is_told_which_export_is_missing() {
    let error = refusal(&component(""));
    assert!(
        error.to_string().contains("`materialize:sink/sink@0.1.0`"),
        "{error}"
    );
}

#[test]
fn a_component_for_another_world_is_refused_before_its_code_is_looked_at() {
    // A function without the result that it promises: compiling it fails.
    let error = refusal(&component("(core module (func (result i32)))"));
    assert!(matches!(error, LoadError::NotASink { .. }), "{error}");
}

#[test]
fn what_a_nested_component_exports_does_not_make_a_sink() {
    let error = refusal(&component(
        r#"(component (instance $i) (export "materialize:sink/sink@0.1.0" (instance $i)))"#,
    ));
    assert!(matches!(error, LoadError::NotASink { .. }), "{error}");
}

#[test]
fn another_version_of_the_contract_is_refused_with_the_versions_found_and_supported() {
    let error = refusal(&component(
        r#"(instance $i) (export "materialize:sink/sink@0.2.0" (instance $i))"#,
    ));
    let text = error.to_string();
    assert!(text.contains("materialize:sink/sink@0.2.0"), "{text}");
    assert!(text.contains("0.1.x"), "{text}");
}

#[test]
fn every_unknown_import_is_named() {
    let error = refusal(&component(
        r#"(import "wasi:cli/environment@0.2.0" (instance))
           (import "materialize:sink/telepathy@0.1.0" (instance))
           (instance $i) (export "materialize:sink/sink@0.1.0" (instance $i))"#,
    ));
    let LoadError::UnknownImports { imports, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(
        imports,
        [
            "materialize:sink/telepathy@0.1.0",
            "wasi:cli/environment@0.2.0"
        ]
    );
}

#[test]
fn postgres_is_refused_as_not_supported_yet() {
    let error = refusal(&component(
        r#"(import "materialize:sink/postgres@0.1.0" (instance))
           (instance $i) (export "materialize:sink/sink@0.1.0" (instance $i))"#,
    ));
    let text = error.to_string();
    assert!(text.contains("not supported by this version yet"), "{text}");
}

#[test]
fn the_right_names_with_the_wrong_shapes_are_refused() {
    let error = refusal(&component(
        r#"(instance $i) (export "materialize:sink/sink@0.1.0" (instance $i))"#,
    ));
    assert!(matches!(error, LoadError::Shape(_)), "{error}");
}

/// A cache directory, a file with a sink, and a way to load it afresh.
struct Cached {
    root: tempfile::TempDir,
    file: PathBuf,
}

impl Cached {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let file = save(root.path(), &Guest::default().build());
        Self { root, file }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("cache/inner")
    }

    fn engine(&self) -> Result<Engine, LoadError> {
        Engine::new(EngineOptions {
            cache_dir: Some(self.dir()),
        })
    }

    async fn load(&self) {
        let engine = self.engine().expect("an engine");
        let component = SinkComponent::load(&engine, &self.file).expect("a sink");
        component.inspect().await.expect("it runs");
    }

    /// The only entry.
    fn entry(&self) -> PathBuf {
        let entries: Vec<PathBuf> = std::fs::read_dir(self.dir())
            .expect("the cache")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        let [entry] = &entries[..] else {
            panic!("one entry, not {entries:?}")
        };
        entry.clone()
    }
}

fn inode(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).expect("a file").ino()
}

#[tokio::test]
async fn a_compiled_sink_is_kept_and_used_again() {
    let cached = Cached::new();
    cached.load().await;
    let mode = std::fs::metadata(cached.dir()).expect("it").permissions();
    assert_eq!(mode.mode() & 0o777, 0o700);
    let before = inode(&cached.entry());
    cached.load().await;
    assert_eq!(inode(&cached.entry()), before, "nothing was written again");
}

#[tokio::test]
async fn a_damaged_cut_or_foreign_entry_is_compiled_again_and_written_over() {
    let cached = Cached::new();
    cached.load().await;
    let sound = std::fs::read(cached.entry()).expect("an entry");
    let mut flipped = sound.clone();
    flipped[sound.len() / 2] ^= 1;
    // A right checksum over something that is no artifact.
    let mut foreign = {
        use sha2::Digest;
        sha2::Sha256::digest(b"no artifact").to_vec()
    };
    foreign.extend_from_slice(b"no artifact");
    for bad in [flipped, sound[..40].to_vec(), Vec::new(), foreign] {
        std::fs::write(cached.entry(), &bad).expect("written");
        cached.load().await;
        assert_ne!(std::fs::read(cached.entry()).expect("an entry"), bad);
        let before = inode(&cached.entry());
        cached.load().await;
        assert_eq!(inode(&cached.entry()), before, "the new entry is sound");
    }
}

#[test]
fn a_directory_that_others_can_write_to_is_refused() {
    for mode in [0o777, 0o770, 0o702] {
        let cached = Cached::new();
        std::fs::create_dir_all(cached.dir()).expect("a directory");
        std::fs::set_permissions(cached.dir(), std::fs::Permissions::from_mode(mode))
            .expect("a mode");
        let error = cached.engine().expect_err("refused");
        assert!(matches!(error, LoadError::CacheDirectory { .. }));
        assert!(error.to_string().contains("chmod go-w"), "{error}");
    }
}

#[tokio::test]
async fn a_directory_opened_up_later_is_not_used() {
    let cached = Cached::new();
    let engine = cached.engine().expect("an engine");
    SinkComponent::load(&engine, &cached.file).expect("a sink");
    let before = inode(&cached.entry());
    std::fs::set_permissions(cached.dir(), std::fs::Permissions::from_mode(0o777)).expect("a mode");
    let component = SinkComponent::load(&engine, &cached.file).expect("it is compiled again");
    component.inspect().await.expect("it runs");
    assert_ne!(inode(&cached.entry()), before);
}

#[tokio::test]
async fn an_entry_that_others_could_have_written_is_compiled_again() {
    let cached = Cached::new();
    cached.load().await;
    for mode in [0o666, 0o620, 0o602, 0o755] {
        let before = inode(&cached.entry());
        std::fs::set_permissions(cached.entry(), std::fs::Permissions::from_mode(mode))
            .expect("a mode");
        cached.load().await;
        assert_ne!(inode(&cached.entry()), before, "mode {mode:o}");
    }
    std::fs::set_permissions(cached.entry(), std::fs::Permissions::from_mode(0o644))
        .expect("a mode");
    let before = inode(&cached.entry());
    cached.load().await;
    assert_eq!(inode(&cached.entry()), before, "0644 is as good as 0600");
}

#[test]
fn a_file_in_place_of_the_directory_is_refused() {
    let root = tempfile::tempdir().expect("a directory");
    let file = root.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let options = EngineOptions {
        cache_dir: Some(file),
    };
    assert!(matches!(
        Engine::new(options).expect_err("refused"),
        LoadError::CacheDirectory { .. }
    ));
}
