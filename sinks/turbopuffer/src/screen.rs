//! Rows that turbopuffer would refuse are refused here, one by one: there, one of them would fail
//! the whole request.

use mz_sink_guest::{Batch, Chunk, Error, Op, Values};

use crate::schema::{Attribute, IdRule, Table};
use crate::types::{Encoding, PlainText};
use crate::vector;

/// Years 1 to 9999, in microseconds since 1970-01-01: what ISO 8601 writes with four digits.
const DATETIME_MICROS: std::ops::Range<i64> = -62_135_596_800_000_000..253_402_300_800_000_000;

/// Why a row is refused.
struct Refusal {
    row: usize,
    category: &'static str,
    message: String,
}

/// The rows of a chunk, by what becomes of them.
pub(crate) struct Screened {
    /// To be written.
    pub(crate) accepted: Vec<u32>,
    /// Refused, but with a good key: an older document of that key must not stay.
    pub(crate) keyed: Vec<u32>,
}

/// Refuses what cannot be written.
pub(crate) fn screened<B: Batch>(
    table: &Table,
    chunk: &Chunk,
    batch: &mut B,
) -> Result<Screened, Error> {
    if chunk.columns().len() != table.columns.len() {
        return Err(Error::permanent(
            "malformed-chunk",
            format!(
                "a chunk of view `{}` has {} columns instead of {}",
                table.view,
                chunk.columns().len(),
                table.columns.len()
            ),
        ));
    }
    let mut refusals = Vec::new();
    screen_key(table, chunk, &mut refusals);
    let without_id: Vec<usize> = refusals.iter().map(|refusal| refusal.row).collect();
    for attribute in &table.attributes {
        screen_attribute(attribute, chunk, &mut refusals);
    }
    if refusals.is_empty() {
        return Ok(Screened {
            accepted: (0..chunk.len() as u32).collect(),
            keyed: Vec::new(),
        });
    }
    refusals.sort_by_key(|refusal| refusal.row);
    refusals.dedup_by_key(|refusal| refusal.row);
    let mut accepted = vec![true; chunk.len()];
    let mut keyed = Vec::new();
    for refusal in refusals {
        batch.reject(
            chunk.position(refusal.row),
            refusal.category,
            &refusal.message,
        )?;
        accepted[refusal.row] = false;
        if !without_id.contains(&refusal.row) {
            keyed.push(refusal.row as u32);
        }
    }
    let kept = |&row: &u32| accepted[row as usize];
    Ok(Screened {
        accepted: (0..chunk.len() as u32).filter(kept).collect(),
        keyed,
    })
}

fn screen_key(table: &Table, chunk: &Chunk, refusals: &mut Vec<Refusal>) {
    for &index in &table.key {
        let column = &chunk.columns()[index];
        if column.has_nulls() {
            let null = |&row: &usize| column.is_null(row);
            refusals.extend((0..chunk.len()).filter(null).map(|row| Refusal {
                row,
                category: "null-key",
                message: format!("a key column of `{}` is null", table.view),
            }));
        }
    }
    let IdRule::NonNegative { column } = table.id else {
        return;
    };
    if let Values::Ints(values) = chunk.columns()[column].values() {
        for (row, _) in values.iter().enumerate().filter(|(_, value)| **value < 0) {
            refusals.push(Refusal {
                row,
                category: "negative-id",
                message: "the key is negative and ids are unsigned: set `id_type = \"string\"`"
                    .into(),
            });
        }
    }
}

fn screen_attribute(attribute: &Attribute, chunk: &Chunk, refusals: &mut Vec<Refusal>) {
    let column = &chunk.columns()[attribute.column];
    let mut refuse = |rows: &mut dyn Iterator<Item = usize>, category, why: &str| {
        refusals.extend(rows.filter(|&row| !column.is_null(row)).map(|row| Refusal {
            row,
            category,
            message: format!("attribute `{}` {why}", attribute.name),
        }));
    };
    match (attribute.encoding, column.values()) {
        (Encoding::Unsigned, Values::Ints(values)) => refuse(
            &mut matching(values, |value| *value < 0),
            "negative-value",
            "is negative and declared as uint",
        ),
        (Encoding::Float | Encoding::Float32, Values::Floats(values)) => refuse(
            &mut matching(values, |value| !value.is_finite()),
            "not-finite",
            "is NaN or infinite: declare it as string in `types` to keep it",
        ),
        (Encoding::NumericAsFloat, Values::Texts(texts)) => refuse(
            &mut (0..chunk.len()).filter(|&row| {
                let value: Result<f64, _> = texts.get(row).parse();
                !value.is_ok_and(f64::is_finite)
            }),
            "not-finite",
            "does not fit a float: declare it as string in `types` to keep it",
        ),
        (Encoding::Datetime, Values::Ints(values)) => refuse(
            &mut matching(values, |value| !DATETIME_MICROS.contains(value)),
            "year-out-of-range",
            "is outside the years 1 to 9999: declare it as string in `types` to keep it",
        ),
        (Encoding::Text, Values::Texts(texts)) if texts.longest() > attribute.max_len => refuse(
            &mut (0..chunk.len()).filter(|&row| texts.get(row).len() > attribute.max_len),
            "value-too-long",
            &format!("is longer than {} bytes", attribute.max_len),
        ),
        (Encoding::Vector { dimensions }, Values::Texts(texts)) => {
            for row in 0..chunk.len() {
                let numbers = (!column.is_null(row)).then(|| vector::parsed(texts.get(row)));
                let is_deleted = chunk.op(row) == Op::Delete;
                let why = match numbers {
                    None if is_deleted => continue,
                    None => "is null, and every document must have a vector",
                    Some(Some(numbers)) if numbers.len() == dimensions as usize => continue,
                    Some(Some(_)) => "has another number of dimensions than `vectors` says",
                    Some(None) => "is not a list of finite numbers",
                };
                refusals.push(Refusal {
                    row,
                    category: "not-a-vector",
                    message: format!("attribute `{}` {why}", attribute.name),
                });
            }
        }
        (Encoding::Plain(PlainText::Base64), Values::Bytes(bytes))
            if base64_len(bytes.longest()) > attribute.max_len =>
        {
            refuse(
                &mut (0..chunk.len())
                    .filter(|&row| base64_len(bytes.get(row).len()) > attribute.max_len),
                "value-too-long",
                &format!("is longer than {} bytes in base64", attribute.max_len),
            );
        }
        _ => {}
    }
}

fn matching<T>(values: &[T], refused: impl Fn(&T) -> bool) -> impl Iterator<Item = usize> {
    let rows = values.iter().enumerate();
    rows.filter(move |(_, value)| refused(value))
        .map(|(row, _)| row)
}

fn base64_len(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}
