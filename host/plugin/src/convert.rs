//! Between the core's data model and the contract's.

use std::sync::Arc;

use mz_sink_core::batch::{BatchInfo, Failure, PullError, SinkError};
use mz_sink_core::checkpoint::MAX_BYTES;
use mz_sink_core::chunk::{self, Chunk};
use mz_sink_core::types::{self, Envelope, Guarantee, View};

use crate::bindings::exports::materialize::sink::sink as exported;
use crate::bindings::materialize::sink::{changes, types as wit};
use crate::text::clean;

/// The longest code of a failure, in bytes.
const CODE: usize = 64;
/// The longest message of a failure, in bytes.
const MESSAGE: usize = 2 << 10;

/// The guest's form of a view.
pub(crate) fn view(view: &View) -> wit::View {
    wit::View {
        name: view.name.clone(),
        columns: view
            .columns
            .iter()
            .map(|column| wit::Column {
                name: column.name.clone(),
                ty: column_type(&column.ty),
                nullable: column.nullable,
            })
            .collect(),
        key: view.key.iter().map(|&i| i as u32).collect(),
    }
}

fn column_type(ty: &types::ColumnType) -> wit::ColumnType {
    use types::ColumnType as C;
    use wit::ColumnType as W;
    match ty {
        C::Boolean => W::Boolean,
        C::Int16 => W::Int16,
        C::Int32 => W::Int32,
        C::Int64 => W::Int64,
        C::Uint16 => W::Uint16,
        C::Uint32 => W::Uint32,
        C::Uint64 => W::Uint64,
        C::Float32 => W::Float32,
        C::Float64 => W::Float64,
        C::Numeric(scale) => W::Numeric(*scale),
        C::Text => W::Text,
        C::Bytes => W::Bytes,
        C::Uuid => W::Uuid,
        C::Json => W::Json,
        C::Date => W::Date,
        C::Time => W::Time,
        C::Timestamp => W::Timestamp,
        C::TimestampTz => W::TimestampTz,
        C::Interval => W::Interval,
        C::MzTimestamp => W::MzTimestamp,
        C::Other(name) => W::Other(name.clone()),
        // A type that this version of the contract has no name for travels as text.
        other => W::Other(format!("{other:?}")),
    }
}

/// The guest's form of what is known about a batch.
pub(crate) fn info(info: &BatchInfo) -> changes::Info {
    changes::Info {
        lower: info.lower,
        upper: info.upper,
        committed: info.committed,
        generation: info.generation,
        epoch: info.epoch,
        rows: info.rows,
        bytes: info.bytes,
        snapshot_of: info.snapshot_of.clone(),
    }
}

/// The guest's form of a chunk whose first row is number `first_row` of the batch. Moves the
/// columns when nobody else holds them, and copies each once otherwise.
pub(crate) fn chunk(first_row: u64, chunk: Arc<Chunk>) -> Result<wit::Chunk, PullError> {
    let chunk = Arc::unwrap_or_clone(chunk);
    Ok(wit::Chunk {
        view: chunk.view,
        rows: chunk.rows() as u32,
        first_row,
        timestamps: chunk.timestamps,
        ops: chunk.ops,
        counts: chunk.counts,
        ordinals: chunk.ordinals,
        columns: chunk
            .columns
            .into_iter()
            .map(column)
            .collect::<Result<_, _>>()?,
    })
}

fn column(column: chunk::ColumnData) -> Result<wit::ColumnData, PullError> {
    use chunk::Values as C;
    use wit::Values as W;
    let packed = |p: chunk::Packed| wit::Packed {
        offsets: p.offsets,
        data: p.data,
    };
    let values = match column.values {
        C::Booleans(v) => W::Booleans(v),
        C::Ints(v) => W::Ints(v),
        C::Uints(v) => W::Uints(v),
        C::Floats(v) => W::Floats(v),
        C::Texts(p) => W::Texts(packed(p)),
        C::Bytes(p) => W::Bytes(packed(p)),
        _ => {
            return Err(PullError::Limit(
                "the rows have a form that version 0.1 of the contract cannot carry".to_owned(),
            ));
        }
    };
    Ok(wit::ColumnData {
        validity: column.validity,
        values,
    })
}

/// The guest's form of a failed pull.
pub(crate) fn pull_error(error: PullError) -> changes::PullError {
    match error {
        PullError::SourceLost(text) => changes::PullError::SourceLost(text),
        PullError::Limit(text) => changes::PullError::Limit(text),
        other => changes::PullError::SourceLost(other.to_string()),
    }
}

/// A guest's error, its texts made safe to log.
pub(crate) fn sink_error(error: wit::Error) -> SinkError {
    match error {
        wit::Error::Retryable(f) => SinkError::Retryable(failure(f)),
        wit::Error::Permanent(f) => SinkError::Permanent(failure(f)),
        wit::Error::Unknown(f) => SinkError::Unknown(failure(f)),
        wit::Error::Conflict(found) => match checkpoint(found) {
            Ok(found) => SinkError::Conflict(found),
            Err(error) => error,
        },
    }
}

/// A checkpoint text as a guest gives it.
pub(crate) fn checkpoint(text: Option<String>) -> Result<Option<String>, SinkError> {
    match text {
        Some(text) if text.len() > MAX_BYTES => Err(SinkError::Permanent(host_failure(
            "contract",
            &format!(
                "the sink gave a checkpoint of {} bytes; the contract allows {MAX_BYTES}",
                text.len()
            ),
        ))),
        text => Ok(text),
    }
}

fn failure(failure: wit::Failure) -> Failure {
    let code = clean(&failure.code, CODE);
    Failure {
        code: if code.is_empty() {
            "unnamed".to_owned()
        } else {
            code
        },
        message: clean(&failure.message, MESSAGE),
        retry_after_ms: failure.retry_after_ms,
    }
}

/// A failure of the host's own making.
pub(crate) fn host_failure(code: &str, message: &str) -> Failure {
    Failure {
        code: code.to_owned(),
        message: clean(message, MESSAGE),
        retry_after_ms: None,
    }
}

pub(crate) fn guarantee(guarantee: exported::Guarantee) -> Guarantee {
    match guarantee {
        exported::Guarantee::Transactional => Guarantee::Transactional,
        exported::Guarantee::Convergent => Guarantee::Convergent,
        exported::Guarantee::AtLeastOnce => Guarantee::AtLeastOnce,
    }
}

pub(crate) fn envelope(envelope: wit::Envelope) -> Envelope {
    match envelope {
        wit::Envelope::Upsert => Envelope::Upsert,
        wit::Envelope::Diff => Envelope::Diff,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_texts_lose_control_characters_and_excess_length() {
        let error = sink_error(wit::Error::Retryable(wit::Failure {
            code: "rate\u{1b}[31m-limited".to_owned(),
            message: "é".repeat(MESSAGE),
            retry_after_ms: Some(7),
        }));
        let SinkError::Retryable(failure) = error else {
            panic!("{error:?}")
        };
        assert_eq!(failure.code, "rate[31m-limited");
        assert!(failure.message.len() <= MESSAGE);
        assert!(failure.message.starts_with("éé"));
        assert_eq!(failure.retry_after_ms, Some(7));
    }

    #[test]
    fn a_code_that_is_empty_gets_a_name() {
        let SinkError::Permanent(failure) = sink_error(wit::Error::Permanent(wit::Failure {
            code: "\n".to_owned(),
            message: String::new(),
            retry_after_ms: None,
        })) else {
            panic!("permanent stays permanent")
        };
        assert_eq!(failure.code, "unnamed");
    }

    #[test]
    fn the_only_holder_of_a_chunk_hands_it_over_without_a_copy() {
        let mut rows = Chunk::new(3, [&types::ColumnType::Int64]);
        rows.timestamps = vec![5, 6];
        rows.ops = vec![0, 1];
        rows.ordinals = vec![0, 0];
        rows.columns[0].values = chunk::Values::Ints(vec![10, -1]);
        let before = rows.timestamps.as_ptr();
        let moved = chunk(40, Arc::new(rows)).expect("every form is known");
        assert_eq!(moved.timestamps.as_ptr(), before);
        assert_eq!((moved.view, moved.rows, moved.first_row), (3, 2, 40));
        assert!(matches!(&moved.columns[0].values, wit::Values::Ints(v) if v == &[10, -1]));
    }
}
