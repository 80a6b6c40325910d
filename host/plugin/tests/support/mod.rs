//! Sinks written by hand in WebAssembly text, and rows to feed them.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mz_sink_core::batch::{BatchInfo, BatchRows, PullError};
use mz_sink_core::chunk::{Chunk, Values};
use mz_sink_core::types::{Column, ColumnType, View};
use mz_sink_plugin::http::HttpClient;
use mz_sink_plugin::{Engine, EngineOptions, Limits, PluginOptions, PluginSink, SinkComponent};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

/// What a guest of the tests does; instructions in WebAssembly text.
pub struct Guest {
    /// More imports than `core` has.
    pub imports: &'static str,
    /// Body of `open`: leaves the address of its result.
    pub open: &'static str,
    /// Body of `checkpoint`, likewise.
    pub checkpoint: &'static str,
    /// Body of `write`, with the batch's handle in `$batch`.
    pub write: &'static str,
}

/// The address of an all-zero result: success, nothing found.
pub const OK: &str = "(i32.const 512)";

impl Default for Guest {
    fn default() -> Self {
        Self {
            imports: "",
            open: OK,
            checkpoint: OK,
            write: OK,
        }
    }
}

impl Guest {
    /// The guest as a component.
    pub fn build(&self) -> Vec<u8> {
        let Self {
            imports,
            open,
            checkpoint,
            write,
        } = self;
        let module = format!(
            r#"(module
  (import "materialize:sink/changes@0.1.0" "[method]batch.next-json"
    (func $next_json (param i32 i32 i32)))
  (import "materialize:sink/changes@0.1.0" "[method]batch.next"
    (func $next (param i32 i32 i32)))
  (import "materialize:sink/changes@0.1.0" "[method]batch.rewind" (func $rewind (param i32)))
  (import "materialize:sink/changes@0.1.0" "[method]batch.reject"
    (func $reject (param i32 i64 i32 i32 i32 i32 i32)))
  (import "materialize:sink/changes@0.1.0" "[method]batch.info"
    (func $info (param i32 i32)))
  (import "materialize:sink/random@0.1.0" "bytes" (func $random (param i32 i32)))
  (import "materialize:sink/clock@0.1.0" "now" (func $now (result i64)))
  (import "materialize:sink/clock@0.1.0" "monotonic" (func $monotonic (result i64)))
  (import "materialize:sink/log@0.1.0" "emit" (func $emit (param i32 i32 i32 i32 i32)))
  {imports}
  (memory (export "memory") 1)
  (global $heap (mut i32) (i32.const 4096))
  (global $kept (mut i32) (i32.const 0))
  (data (i32.const 16) "hand-made")
  (data (i32.const 32) "1.2.3")
  (data (i32.const 48) "{{}}")
  (data (i32.const 64) "\10\00\00\00\09\00\00\00\20\00\00\00\05\00\00\00\01\00\01\00\30\00\00\00\02\00\00\00")
  (data (i32.const 96) "echo")
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
    (global.set $heap (i32.add (local.get $at) (local.get 3)))
    (block $enough
      (loop $more
        (br_if $enough (i32.le_u (global.get $heap)
          (i32.mul (memory.size) (i32.const 65536))))
        (drop (memory.grow (i32.const 16)))
        (br $more)))
    (local.get $at))
  ;; Permanent failure "echo" with this message.
  (func $echo (param $text i32) (param $len i32) (result i32)
    (i32.store8 (i32.const 640) (i32.const 1))
    (i32.store8 (i32.const 644) (i32.const 1))
    (i32.store (i32.const 648) (i32.const 96))
    (i32.store (i32.const 652) (i32.const 4))
    (i32.store (i32.const 656) (local.get $text))
    (i32.store (i32.const 660) (local.get $len))
    (i32.const 640))
  ;; The next rows as JSON, or the text of the failed pull, as a failure; success at the end.
  (func $echo_rows (param $batch i32) (result i32)
    (call $next_json (local.get $batch) (i32.const 65536) (i32.const 768))
    (if (i32.load8_u (i32.const 768))
      (then (return (call $echo (i32.load (i32.const 776)) (i32.load (i32.const 780))))))
    (if (i32.load8_u (i32.const 772))
      (then (return (call $echo (i32.load (i32.const 776)) (i32.load (i32.const 780))))))
    (i32.const 512))
  (func (export "materialize:sink/sink@0.1.0#describe") (result i32) (i32.const 64))
  (func (export "materialize:sink/sink@0.1.0#open")
    (param i32 i32 i32 i32 i32 i32) (result i32) {open})
  (func (export "materialize:sink/sink@0.1.0#checkpoint") (result i32) {checkpoint})
  (func (export "materialize:sink/sink@0.1.0#write")
    (param $batch i32) (param i32 i32 i32 i32 i32) (result i32) {write})
  (func (export "materialize:sink/sink@0.1.0#close")))"#
        );
        component(&module, "http-plugin", &wit())
    }

    /// A sink of this guest that is allowed `limits`.
    pub fn sink(&self, limits: Limits) -> PluginSink {
        let dir = tempfile::tempdir().expect("a directory");
        let engine = Engine::new(EngineOptions::default()).expect("an engine");
        let file = save(dir.path(), &self.build());
        let component = SinkComponent::load(&engine, &file).expect("a sink");
        PluginSink::new(
            component,
            PluginOptions {
                limits,
                http: HttpClient::deny_all(),
                sink_id: "test".to_owned(),
                config_json: "{}".to_owned(),
            },
        )
    }
}

/// Makes a component of a core module and a world.
pub fn component(module: &str, world: &str, wit: &[(String, String)]) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in wit {
        std::fs::write(dir.path().join(name), text).expect("a file");
    }
    let (package, _) = resolve.push_dir(dir.path()).expect("valid WIT");
    let world = resolve
        .select_world(&[package], Some(world))
        .expect("a world");
    let mut module = wat::parse_str(module).expect("valid WAT");
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false)
        .expect("metadata");
    ComponentEncoder::default()
        .module(&module)
        .expect("a module that fits")
        .encode()
        .expect("a component")
}

/// The contract's files.
pub fn wit() -> Vec<(String, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/v0.1");
    std::fs::read_dir(dir)
        .expect("the contract")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "wit"))
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            (
                name.into_owned(),
                std::fs::read_to_string(&path).expect("text"),
            )
        })
        .collect()
}

/// Puts bytes into a file `sink.wasm`.
pub fn save(dir: &Path, bytes: &[u8]) -> PathBuf {
    let path = dir.join("sink.wasm");
    std::fs::write(&path, bytes).expect("a file");
    path
}

/// One view with one column.
pub fn view() -> View {
    View {
        name: "orders".to_owned(),
        columns: vec![Column {
            name: "id".to_owned(),
            ty: ColumnType::Int64,
            nullable: false,
        }],
        key: vec![0],
    }
}

/// Rows with these ids, one chunk each.
pub struct Rows {
    info: BatchInfo,
    ids: Vec<i64>,
    next: usize,
}

impl Rows {
    /// A batch of these rows.
    pub fn of(ids: &[i64]) -> Box<dyn BatchRows> {
        Box::new(Self {
            info: BatchInfo {
                lower: 1,
                upper: 2,
                committed: None,
                generation: 1,
                epoch: 1,
                rows: ids.len() as u64,
                bytes: 0,
                snapshot_of: Vec::new(),
            },
            ids: ids.to_vec(),
            next: 0,
        })
    }
}

impl BatchRows for Rows {
    fn info(&self) -> &BatchInfo {
        &self.info
    }

    fn next(&mut self, _max_bytes: usize) -> Result<Option<(u64, Arc<Chunk>)>, PullError> {
        let Some(&id) = self.ids.get(self.next) else {
            return Ok(None);
        };
        let mut chunk = Chunk::new(0, [&ColumnType::Int64]);
        chunk.timestamps.push(1);
        chunk.ops.push(0);
        chunk.ordinals.push(0);
        chunk.columns[0].values = Values::Ints(vec![id]);
        self.next += 1;
        Ok(Some((self.next as u64 - 1, Arc::new(chunk))))
    }

    fn rewind(&mut self) {
        self.next = 0;
    }

    fn reject(&mut self, row: u64, category: &str, message: &str) -> Result<(), PullError> {
        if row < self.info.rows {
            return Ok(());
        }
        Err(PullError::Limit(format!("{row} {category} {message}")))
    }
}
