//! From text rows to batches: values, rows, release, netting.

use std::sync::Arc;

use mz_sink_core::catalog::column_type;
use mz_sink_core::chunk::{Chunk, Value as Held};
use mz_sink_core::cut;
use mz_sink_core::decode::{DecodeError, Decoded, Decoder, Fields};
use mz_sink_core::netting::net;
use mz_sink_core::release::{Held as HeldRows, Start};
use mz_sink_core::types::{Column, ColumnType, Envelope, Op, View};
use mz_sink_core::{json, text};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{hold, variant};

pub(crate) struct Row(pub(crate) Vec<Option<String>>);

impl Fields for Row {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&self, index: usize) -> Option<&[u8]> {
        self.0[index].as_ref().map(String::as_bytes)
    }
}

fn names<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(Into::into).to_vec()
}

pub(crate) fn column(name: &str, ty: ColumnType, nullable: bool) -> Column {
    Column {
        name: name.into(),
        ty,
        nullable,
    }
}

pub(crate) fn empty(view: &View) -> Chunk {
    Chunk::new(0, view.columns.iter().map(|c| &c.ty))
}

pub(crate) fn error(error: &impl std::fmt::Debug) -> Value {
    json!({ "error": variant(error) })
}

#[derive(Deserialize)]
pub(crate) struct ServerText {
    r#type: String,
    type_mod: i64,
    text: String,
}

pub(crate) fn value(input: ServerText) -> Result<Value, String> {
    let ty = column_type(&input.r#type, input.type_mod);
    let view = View {
        name: "v".into(),
        columns: vec![column("x", ty.clone(), true)],
        key: Vec::new(),
    };
    let names = names(["mz_timestamp", "mz_progressed", "mz_diff", "x"]);
    let decoder = Decoder::new(&view, Envelope::Diff, &names).map_err(|found| found.to_string())?;
    let mut chunk = empty(&view);
    let row = ["1", "f", "1", &input.text].map(|v| Some(v.to_string()));
    if let Err(found) = decoder.decode(&Row(row.to_vec()), &mut chunk) {
        let shown = found.to_string();
        hold(input.text.len() < 3 || !shown.contains(&input.text), || {
            format!("an error tells a value: {shown}")
        })?;
        return Ok(error(&found));
    }
    let value = chunk.columns[0].get(0);
    let again = text_of(value, &ty)?;
    hold(again == input.text, || {
        format!("written out again: {again}")
    })?;
    let column = match value {
        Held::Boolean(b) => json!({ "boolean": b }),
        Held::Int(n) => json!({ "int": n.to_string() }),
        Held::Uint(n) => json!({ "uint": n.to_string() }),
        Held::Float(x) => json!({ "float_bits": format!("{:016x}", x.to_bits()) }),
        Held::Text(t) => json!({ "text": utf8(t.to_vec())? }),
        Held::Bytes(b) => {
            let hex: String = b.iter().map(|b| format!("{b:02x}")).collect();
            json!({ "bytes": hex })
        }
        _ => Value::Null,
    };
    let mut row = Vec::new();
    json::write_rows(&chunk, &view, 0, 0..1, &mut row);
    let row = utf8(row)?;
    let _: Value = serde_json::from_str(&row).map_err(|e| format!("{row} is no JSON: {e}"))?;
    let form = row
        .split_once("\"row\":{\"x\":")
        .and_then(|(_, rest)| rest.strip_suffix("}}]"));
    Ok(json!({ "column": column, "json": form }))
}

/// A value as the server writes it.
pub(crate) fn text_of(value: Held<'_>, ty: &ColumnType) -> Result<String, String> {
    let mut text = Vec::new();
    text::write(value, ty, &mut text);
    utf8(text)
}

fn utf8(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|e| e.to_string())
}

/// A column as the catalog describes it.
#[derive(Deserialize)]
pub(crate) struct InputColumn {
    name: String,
    r#type: String,
    #[serde(default = "any")]
    type_mod: i64,
    nullable: bool,
}

/// Of a type without a modifier.
fn any() -> i64 {
    -1
}

/// The view `v` of these columns.
pub(crate) fn view(columns: &[InputColumn], key: &[String]) -> Result<View, String> {
    let position = |name: &String| {
        let found = columns.iter().position(|c| c.name == *name);
        found.ok_or_else(|| format!("there is no column {name}"))
    };
    let held = |c: &InputColumn| column(&c.name, column_type(&c.r#type, c.type_mod), c.nullable);
    Ok(View {
        name: "v".into(),
        key: key.iter().map(position).collect::<Result<_, _>>()?,
        columns: columns.iter().map(held).collect(),
    })
}

#[derive(Deserialize)]
pub(crate) struct TextRows {
    envelope: Envelope,
    key: Vec<String>,
    columns: Vec<InputColumn>,
    names: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

pub(crate) fn decode(input: TextRows) -> Result<Value, String> {
    let view = view(&input.columns, &input.key)?;
    let told = |found: DecodeError| {
        let shown = found.to_string();
        hold(!shown.contains("secret"), || {
            format!("an error tells a value: {shown}")
        })?;
        Ok(error(&found))
    };
    let decoder = match Decoder::new(&view, input.envelope, &input.names) {
        Ok(decoder) => decoder,
        Err(found) => return told(found),
    };
    let mut chunk = empty(&view);
    let mut results = Vec::new();
    let mut rejected = false;
    for row in input.rows {
        results.push(match decoder.decode(&Row(row), &mut chunk) {
            Ok(Decoded::Progress(time)) => json!({ "progress": time }),
            Ok(Decoded::Change(time)) => json!({ "change": time }),
            Ok(Decoded::KeyViolation(time)) => {
                rejected = true;
                json!({ "key_violation": time })
            }
            Err(found) => return told(found),
        });
    }
    if rejected {
        return Ok(json!({ "results": results }));
    }
    let mut rows = Vec::new();
    json::write_rows(&chunk, &view, 0, 0..chunk.rows(), &mut rows);
    Ok(json!({ "results": results, "json": utf8(rows)? }))
}

/// `t (k bigint, v text)`, keyed by `k`.
fn keyed_view() -> View {
    View {
        name: "t".into(),
        columns: vec![
            column("k", ColumnType::Int64, false),
            column("v", ColumnType::Text, true),
        ],
        key: vec![0],
    }
}

fn keyed_decoder(view: &View) -> Result<Decoder, String> {
    let names = names(["mz_timestamp", "mz_progressed", "mz_state", "k", "v"]);
    Decoder::new(view, Envelope::Upsert, &names).map_err(|found| found.to_string())
}

fn keyed_row(time: u64, state: &str, key: i64, value: Option<&str>) -> Row {
    let (time, key) = (time.to_string(), key.to_string());
    let row = [Some(&*time), Some("f"), Some(state), Some(&*key), value];
    Row(row.map(|v| v.map(Into::into)).to_vec())
}

/// The key of a row, an integer.
fn key(chunk: &Chunk, row: usize) -> Option<i64> {
    match chunk.columns[0].get(row) {
        Held::Int(key) => Some(key),
        _ => None,
    }
}

/// Where a stream starts, as the vectors write it.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum From {
    Snapshot,
    SnapshotAt(u64),
    Resume(u64),
}

impl From {
    pub(crate) fn start(self) -> Start {
        match self {
            Self::Snapshot => Start::Snapshot,
            Self::SnapshotAt(as_of) => Start::SnapshotAt(as_of),
            Self::Resume(frontier) => Start::Resume(frontier),
        }
    }
}

/// Views of which each has a stream, and the cuts that are taken of them.
struct Streams {
    decoder: Decoder,
    views: Vec<HeldRows>,
    lower: Option<u64>,
}

impl Streams {
    fn new(starts: &[From]) -> Result<Self, String> {
        let view = keyed_view();
        let held = starts.iter().zip(0..).map(|(from, index)| {
            let chunk = Chunk::new(index, view.columns.iter().map(|c| &c.ty));
            HeldRows::new(chunk, from.start())
        });
        let lower = starts.iter().map(|from| match from {
            From::Resume(frontier) => Some(*frontier),
            From::Snapshot | From::SnapshotAt(_) => None,
        });
        let mut views: Vec<_> = held.collect();
        // What the session does when some views start with a snapshot.
        for from in starts {
            if let From::SnapshotAt(as_of) = from {
                views
                    .iter_mut()
                    .for_each(|held| held.set_boundary(as_of + 1));
            }
        }
        Ok(Self {
            decoder: keyed_decoder(&view)?,
            lower: lower.flatten().max(),
            views,
        })
    }

    /// Carries out one event of a view; gives what there is to compare.
    fn event(&mut self, view: usize, event: &[Value]) -> Result<Option<Value>, String> {
        let unclear = || format!("{event:?} is no event");
        let number = |i: usize| event.get(i).and_then(Value::as_u64).ok_or_else(unclear);
        let word = event.first().and_then(Value::as_str).ok_or_else(unclear)?;
        let held = self.views.get_mut(view).ok_or_else(unclear)?;
        let accepted = match word {
            "progress" => {
                let time = Some(number(1)?.to_string());
                let row = vec![time, Some("t".into()), None, None, None];
                held.accept(&self.decoder, &Row(row)).map(|_| ())
            }
            "change" => {
                let key = event.get(2).and_then(Value::as_i64).ok_or_else(unclear)?;
                let row = keyed_row(number(1)?, "upsert", key, Some("x"));
                held.accept(&self.decoder, &row).map(|_| ())
            }
            "end" => held.finish(),
            "up-to" => {
                held.set_end(number(1)?);
                Ok(())
            }
            "take" => {
                let taken = cut::take(&mut self.views, self.lower, number(1)? as usize);
                self.lower = taken.as_ref().map(|t| t.upper).or(self.lower);
                return Ok(Some(taken.map_or(Value::Null, |t| batch(&t, event))));
            }
            _ => return Err(unclear()),
        };
        Ok(accepted.err().map(|found| error(&found)))
    }
}

#[derive(Deserialize)]
pub(crate) struct OneStream {
    start: From,
    events: Vec<Vec<Value>>,
}

pub(crate) fn release(input: OneStream) -> Result<Value, String> {
    let mut streams = Streams::new(&[input.start])?;
    let events = input.events.iter();
    events
        .filter_map(|event| streams.event(0, event).transpose())
        .collect()
}

#[derive(Deserialize)]
pub(crate) struct SeveralStreams {
    starts: Vec<From>,
    /// The view, and what happens to it.
    events: Vec<(usize, Vec<Value>)>,
}

pub(crate) fn cut(input: SeveralStreams) -> Result<Value, String> {
    let mut streams = Streams::new(&input.starts)?;
    let events = input.events.iter();
    events
        .filter_map(|(view, event)| streams.event(*view, event).transpose())
        .collect()
}

/// A batch as the vectors write it; `["take", n, "ordinals"]` asks for ordinals too. Keys of
/// several views are written one list for each.
fn batch(taken: &cut::Taken, event: &[Value]) -> Value {
    let chunks: Vec<_> = taken.segments.iter().flat_map(|s| &s.chunk).collect();
    let rows = || {
        chunks
            .iter()
            .flat_map(|c| (0..c.rows()).map(move |r| (c, r)))
    };
    let mut out = json!({
        "upper": taken.upper.to_string(),
        "keys": rows().map(|(c, r)| key(c, r)).collect::<Vec<_>>(),
        "snapshot": taken.snapshot_at.is_some(),
    });
    if chunks.iter().any(|c| c.view > 0) || taken.snapshot_of.iter().any(|view| *view > 0) {
        let keys = |view: u32| {
            let of_view = rows().filter(move |(c, _)| c.view == view);
            of_view.map(|(c, r)| key(c, r)).collect::<Vec<_>>()
        };
        let last = chunks.iter().map(|c| c.view).max().unwrap_or_default();
        out["keys"] = (0..=last).map(keys).collect();
        out["snapshot"] = json!(taken.snapshot_of);
    }
    if event.len() > 2 {
        out["ordinals"] = rows().map(|(c, r)| c.ordinals[r]).collect();
    }
    out
}

#[derive(Deserialize)]
pub(crate) struct Changes {
    changes: Vec<(u64, String, i64, Option<String>)>,
}

pub(crate) fn netting(input: Changes) -> Result<Value, String> {
    let view = keyed_view();
    let decoder = keyed_decoder(&view)?;
    // One change per chunk: how rows are cut into chunks must not matter.
    let mut chunks = Vec::new();
    for (time, op, key, value) in &input.changes {
        let state = if op == "put" { "upsert" } else { "delete" };
        let mut chunk = empty(&view);
        let row = keyed_row(*time, state, *key, value.as_deref());
        decoder
            .decode(&row, &mut chunk)
            .map_err(|found| found.to_string())?;
        chunks.push(Arc::new(chunk));
    }
    let netted = net(&chunks, &view.key);
    let rows = netted
        .iter()
        .flat_map(|c| (0..c.rows()).map(move |r| (c, r)));
    rows.map(|(chunk, row)| {
        let value = match chunk.columns[1].get(row) {
            Held::Text(t) => json!(utf8(t.to_vec())?),
            _ => Value::Null,
        };
        let (time, op) = (chunk.timestamps[row], op(chunk, row));
        Ok(json!([time, op, key(chunk, row), value]))
    })
    .collect()
}

/// What a row does, as the vectors write it.
pub(crate) fn op(chunk: &Chunk, row: usize) -> &'static str {
    match chunk.op(row) {
        Op::Put => "put",
        Op::Delete => "delete",
    }
}
