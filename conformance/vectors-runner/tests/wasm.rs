//! The core, built for wasm32 and run by wasmtime, does what the vectors say, and nothing else
//! than natively.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::path::{Path, PathBuf};

use core_vectors::{FILES, Report, run};
use wasmtime::{Engine, Instance, Module, Result, Store, TypedFunc};

/// The module, and the functions that it exports.
struct Guest {
    store: Store<()>,
    give: TypedFunc<(u64, u32), ()>,
    run: TypedFunc<(), ()>,
    take: TypedFunc<(), i32>,
}

impl Guest {
    fn start() -> Result<Self> {
        let engine = Engine::default();
        let module = Module::from_file(&engine, module())?;
        let mut store = Store::new(&engine, ());
        // Without any import: what the core asked of a host would fail here.
        let instance = Instance::new(&mut store, &module, &[])?;
        Ok(Self {
            give: instance.get_typed_func(&mut store, "give")?,
            run: instance.get_typed_func(&mut store, "run")?,
            take: instance.get_typed_func(&mut store, "take")?,
            store,
        })
    }

    fn run(&mut self, file: &str, text: &str) -> Result<Result<Report, String>> {
        let input = [file.as_bytes(), &[0], text.as_bytes()].concat();
        for bytes in input.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            let word = (u64::from_le_bytes(word), bytes.len() as u32);
            self.give.call(&mut self.store, word)?;
        }
        self.run.call(&mut self.store, ())?;
        let mut report = Vec::new();
        while let Ok(byte) = u8::try_from(self.take.call(&mut self.store, ())?) {
            report.push(byte);
        }
        Ok(serde_json::from_slice(&report).unwrap())
    }
}

/// `target/guests` is beside the profile's folder, and test programs are in its `deps`.
fn module() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.ancestors().nth(3).unwrap();
    let module = folder.join("guests/core-vectors.wasm");
    assert!(
        module.exists(),
        "{} is missing: run `cargo xtask guests` first",
        module.display()
    );
    module
}

#[test]
fn every_case_holds_as_it_does_natively() {
    let mut guest = Guest::start().unwrap();
    for file in FILES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors");
        let text = std::fs::read_to_string(path.join(format!("{file}.json"))).unwrap();
        let here = run(file, &text);
        let there = guest.run(file, &text).unwrap();
        assert!(
            there
                .as_ref()
                .is_ok_and(|r| r.cases > 0 && r.failed.is_empty()),
            "{file}: {there:?}"
        );
        assert_eq!(there, here, "{file}");
    }
}

#[test]
fn a_case_that_fails_is_told_there_too() {
    let mut guest = Guest::start().unwrap();
    let case =
        r#"[{"name": "n", "why": "w", "input": {"type": "text", "type_mod": -1}, "expected": 1}]"#;
    let report = guest.run("column_types", case).unwrap().unwrap();
    assert_eq!((report.cases, report.failed.len()), (1, 1));
    assert!(guest.run("column_types", "").unwrap().is_err());
}
