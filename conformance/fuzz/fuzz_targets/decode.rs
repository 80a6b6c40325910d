//! Rows are anything that a server sends: decoded exactly, or refused with nothing left behind.
//!
//! What was decoded gives the server's own text back, and is JSON for scripting guests.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use mz_sink_core::catalog::column_type;
use mz_sink_core::chunk::{Chunk, Value};
use mz_sink_core::decode::{Decoded, Decoder, Fields};
use mz_sink_core::types::{Column, Envelope, View};
use mz_sink_core::{json, text};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    is_upsert: bool,
    types: Vec<(u8, u16)>,
    key: u8,
    rows: Vec<Vec<Option<&'a [u8]>>>,
}

const TYPES: [&str; 26] = [
    "boolean",
    "smallint",
    "integer",
    "bigint",
    "uint2",
    "uint4",
    "uint8",
    "oid",
    "real",
    "double precision",
    "numeric",
    "text",
    "character varying",
    "bytea",
    "uuid",
    "jsonb",
    "date",
    "time",
    "timestamp without time zone",
    "timestamp with time zone",
    "interval",
    "mz_timestamp",
    "list",
    "map",
    "int4range",
    "no such type",
];

struct Row<'a>(&'a [Option<&'a [u8]>]);

impl Fields for Row<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, index: usize) -> Option<&[u8]> {
        self.0[index]
    }
}

fuzz_target!(|input: Input<'_>| {
    let columns: Vec<Column> = (input.types.iter().take(6).enumerate())
        .map(|(i, (ty, type_mod))| Column {
            name: format!("c{i}"),
            ty: column_type(TYPES[usize::from(*ty) % TYPES.len()], i64::from(*type_mod)),
            nullable: i % 2 == 1,
        })
        .collect();
    let key: Vec<usize> = (0..columns.len())
        .filter(|i| input.key & (1 << i) != 0)
        .collect();
    let (envelope, what) = match input.is_upsert {
        true => (Envelope::Upsert, "mz_state"),
        false => (Envelope::Diff, "mz_diff"),
    };
    let mut names = vec![
        "mz_timestamp".to_owned(),
        "mz_progressed".into(),
        what.into(),
    ];
    names.extend(columns.iter().map(|c| c.name.clone()));
    let view = View {
        name: "v".into(),
        columns,
        key,
    };
    let Ok(decoder) = Decoder::new(&view, envelope, &names) else {
        return;
    };
    let mut chunk = Chunk::new(0, view.columns.iter().map(|c| &c.ty));
    for row in &input.rows {
        let before = chunk.rows();
        match decoder.decode(&Row(row), &mut chunk) {
            Err(error) => {
                let shown = error.to_string();
                assert!(shown.len() < 300, "an error quotes a value: {shown}");
                // A stream that broke a rule is given up, with all that was half done.
                return;
            }
            Ok(Decoded::Progress(_)) => assert_eq!(chunk.rows(), before),
            Ok(Decoded::Change(time) | Decoded::KeyViolation(time)) => {
                assert_eq!(chunk.rows(), before + 1);
                assert_eq!(chunk.timestamps[before], time);
            }
        }
        if chunk.rows() == before {
            continue;
        }
        for (i, column) in view.columns.iter().enumerate() {
            let value = chunk.columns[i].get(before);
            if matches!(value, Value::Null) {
                continue;
            }
            let mut again = Vec::new();
            text::write(value, &column.ty, &mut again);
            let mut chunk = Chunk::new(0, [&column.ty]);
            let one = View {
                name: "w".into(),
                columns: vec![Column {
                    name: "x".into(),
                    ..column.clone()
                }],
                key: Vec::new(),
            };
            let names = ["mz_timestamp", "mz_progressed", "mz_diff", "x"].map(String::from);
            let decoder = Decoder::new(&one, Envelope::Diff, &names).expect("it has a column");
            let row = [Some(&b"1"[..]), Some(b"f"), Some(b"1"), Some(&again)];
            decoder
                .decode(&Row(&row), &mut chunk)
                .expect("a text of ours can be read");
            let mut third = Vec::new();
            text::write(chunk.columns[0].get(0), &column.ty, &mut third);
            assert_eq!(again, third, "{:?}", column.ty);
        }
    }
    let mut rows = Vec::new();
    json::write_rows(&chunk, &view, 0, 0..chunk.rows(), &mut rows);
    let rows: serde_json::Value = serde_json::from_slice(&rows).expect("rows are JSON");
    assert_eq!(rows.as_array().map(Vec::len), Some(chunk.rows()));
});
