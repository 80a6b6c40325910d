//! Every value that a real Materialize was recorded sending arrives in its document.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::collections::BTreeMap;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use e2e::{Table, World, edited};
use materialize_sim::Column;
use serde_json::Value;

type Row = Vec<Option<String>>;

/// Columns as the catalog described them, and all rows, each behind a unique number.
fn recorded() -> (Vec<Column>, Vec<Row>) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recordings/wire/type_formats.jsonl");
    let (mut columns, mut rows) = (vec![Column::new("n0", "int").unwrap()], Vec::new());
    for line in std::fs::read_to_string(file).unwrap().lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        let Ok(row) = serde_json::from_value::<Row>(message["DataRow"].clone()) else {
            continue;
        };
        let text = |at: usize| row[at].clone().unwrap();
        match message["conn"].as_str() {
            // mz_timestamp, mz_progressed, mz_diff, then the values.
            Some("client") if text(1) == "f" => {
                let number = Some(rows.len().to_string());
                rows.push(
                    [number]
                        .into_iter()
                        .chain(row[3..].iter().cloned())
                        .collect(),
                );
            }
            Some("setup") if row.len() == 4 => {
                let (oid, typmod) = (text(2).parse().unwrap(), text(3).parse().unwrap());
                columns.push(Column::exact(text(0), &text(1), oid, typmod));
            }
            _ => {}
        }
    }
    (columns, rows)
}

/// Documents of the recorded rows by number, with these lines in `[sink]`.
async fn documents(settings: &str) -> (Vec<Column>, Vec<Row>, BTreeMap<usize, Value>) {
    let options = materialize_sim::Options::default();
    let world = World::simulated(options).await.unwrap();
    let (columns, rows) = recorded();
    let control = world.control().unwrap();
    let hour = Some(3_600_000);
    control
        .create_table("types", columns.clone(), hour)
        .unwrap();
    let changes = rows.iter().map(|row| (row.clone(), 1)).collect();
    let time = control.apply("types", changes).unwrap();
    let table = Table {
        name: "types".into(),
        columns: columns.iter().map(|column| column.name.clone()).collect(),
    };
    let sink = "namespace = \"e2e\"\n";
    let config = edited(
        &world.config(&table).unwrap(),
        sink,
        &format!("{sink}{settings}"),
    );
    let mut host = world.host_with(&config).unwrap();
    let committed = world.committed(time, &mut host).await.unwrap();
    let documents = world
        .target
        .documents(&committed.namespace, false)
        .await
        .unwrap();
    let number = |document: &Value| document["n0"].as_u64().unwrap() as usize;
    let documents = documents.into_iter().map(|d| (number(&d), d)).collect();
    (columns, rows, documents)
}

fn expected(column: &Column, text: &str) -> Value {
    match column.sql_type.as_str() {
        "boolean" => (text == "t").into(),
        "smallint" | "integer" | "bigint" | "uint2" | "uint4" | "uint8" | "mz_timestamp"
        | "oid" => serde_json::from_str(text).unwrap(),
        "bytea" => {
            let digits = text.strip_prefix("\\x").unwrap();
            let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
            let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
            STANDARD.encode(bytes).into()
        }
        _ => text.into(),
    }
}

#[tokio::test]
async fn every_recorded_value_arrives_exactly() {
    let settings = "types = { f4 = \"string\", f8 = \"string\" }\n";
    let (columns, rows, documents) = documents(settings).await;
    assert_eq!(columns.len(), rows[0].len());
    assert!(rows.len() > 50, "{} rows are recorded", rows.len());
    assert_eq!(documents.len(), rows.len());
    for (number, row) in rows.iter().enumerate() {
        for (column, value) in columns.iter().zip(row) {
            let found = &documents[&number][&column.name];
            let expected = value
                .as_ref()
                .map_or(Value::Null, |text| expected(column, text));
            assert_eq!(
                *found, expected,
                "{} {} of row {number}",
                column.name, column.sql_type
            );
        }
    }
}

#[tokio::test]
async fn floats_are_numbers_and_rows_with_nan_or_infinity_are_refused() {
    let (columns, rows, documents) = documents("").await;
    let floats = ["f4", "f8"].map(|name| columns.iter().position(|c| c.name == name).unwrap());
    let mut refused = 0;
    for (number, row) in rows.iter().enumerate() {
        let values = floats.map(|at| row[at].as_ref().map(|text| text.parse::<f64>().unwrap()));
        if values.iter().flatten().any(|value| !value.is_finite()) {
            assert!(!documents.contains_key(&number), "row {number}: {values:?}");
            refused += 1;
            continue;
        }
        for (at, value) in floats.iter().zip(values) {
            let found = documents[&number][&columns[*at].name].as_f64();
            // Text for text: a real is not shown with the digits of a double.
            let text = |value: Option<f64>| value.map(|value| value.to_string());
            assert_eq!(
                text(found),
                text(value),
                "{} of row {number}",
                columns[*at].name
            );
        }
    }
    assert!(refused > 0, "no recorded row is refused");
}
