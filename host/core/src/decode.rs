//! From the text rows of a SUBSCRIBE to typed changes, by column *name*, never by position.
//!
//! The server puts key columns first under the upsert envelope, in the order of `KEY (...)`, so
//! a position means nothing (a recorded fact).

use crate::chunk::Chunk;
use crate::text;
use crate::types::{ColumnType, Envelope, Op, Timestamp, View};

#[cfg(test)]
pub(crate) mod tests;

/// A row as the source holds it: text values, `None` for NULL.
pub trait Fields {
    /// Number of values.
    fn len(&self) -> usize;
    /// Whether there are no values.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The value at `index`.
    fn get(&self, index: usize) -> Option<&[u8]>;
}

impl Fields for [Option<&[u8]>] {
    fn len(&self) -> usize {
        <[_]>::len(self)
    }
    fn get(&self, index: usize) -> Option<&[u8]> {
        self[index]
    }
}

/// The stream is not what SUBSCRIBE promises, or not what the catalog said. No values inside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A column that every SUBSCRIBE has, or that the catalog listed, is not in the result.
    #[error("the SUBSCRIBE result has no column {0:?}")]
    MissingColumn(String),
    /// Two columns of one name cannot be told apart.
    #[error("the SUBSCRIBE result has two columns named {0:?}; rename one in the object")]
    DuplicateColumn(String),
    /// A row with another number of values than there are columns.
    #[error("a row has {found} values where the result has {expected} columns")]
    WrongWidth {
        /// Columns.
        expected: usize,
        /// Values.
        found: usize,
    },
    /// NULL where the protocol has a value, such as in `mz_timestamp`.
    #[error("column {0:?} is NULL where it may not be")]
    UnexpectedNull(String),
    /// A value that is not of its column's type.
    #[error("column {column:?} holds a value that is not a valid {ty}")]
    BadValue {
        /// The column.
        column: String,
        /// The expected type.
        ty: String,
    },
    /// An `mz_state` that this version does not know.
    #[error("mz_state is {0:?}, which this version does not know")]
    UnknownState(String),
    /// A change of multiplicity zero.
    #[error("mz_diff is 0: a change that changes nothing")]
    ZeroDiff,
}

/// What one row said. A change has been appended to the chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// Everything below this time is closed, once it is above AS OF.
    Progress(Timestamp),
    /// A change at this time was appended.
    Change(Timestamp),
    /// At this time, several rows had the key whose columns were appended as a `Delete` row with
    /// the key only: the caller keeps it, or takes it out again, and reports the key.
    KeyViolation(Timestamp),
}

/// Where each thing is in the rows of one subscription.
#[derive(Clone, Debug)]
pub struct Decoder {
    envelope: Envelope,
    width: usize,
    timestamp: usize,
    progressed: usize,
    /// `mz_state` or `mz_diff`.
    change: usize,
    data: Vec<DataColumn>,
}

#[derive(Clone, Debug)]
struct DataColumn {
    position: usize,
    name: String,
    ty: ColumnType,
    nullable: bool,
    is_key: bool,
}

impl Decoder {
    /// A decoder for a result with these column names.
    ///
    /// # Errors
    /// When a column is missing, or two have one name.
    pub fn new(view: &View, envelope: Envelope, names: &[String]) -> Result<Self, DecodeError> {
        let find = |name: &str| {
            let mut found = names.iter().enumerate().filter(|(_, n)| *n == name);
            match (found.next(), found.next()) {
                (Some((i, _)), None) => Ok(i),
                (None, _) => Err(DecodeError::MissingColumn(name.into())),
                _ => Err(DecodeError::DuplicateColumn(name.into())),
            }
        };
        let data = view
            .columns
            .iter()
            .enumerate()
            .map(|(i, column)| {
                Ok(DataColumn {
                    position: find(&column.name)?,
                    name: column.name.clone(),
                    ty: column.ty.clone(),
                    nullable: column.nullable,
                    is_key: view.key.contains(&i),
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            envelope,
            width: names.len(),
            timestamp: find("mz_timestamp")?,
            progressed: find("mz_progressed")?,
            change: find(match envelope {
                Envelope::Upsert => "mz_state",
                Envelope::Diff => "mz_diff",
            })?,
            data,
        })
    }

    /// Decodes one row; a change is appended to `chunk` with ordinal 0, for the caller to set.
    ///
    /// # Errors
    /// Any [`DecodeError`]; the chunk must then be given up.
    pub fn decode(
        &self,
        row: &(impl Fields + ?Sized),
        chunk: &mut Chunk,
    ) -> Result<Decoded, DecodeError> {
        if row.len() != self.width {
            return Err(DecodeError::WrongWidth {
                expected: self.width,
                found: row.len(),
            });
        }
        let needed = |i: usize, name: &str| {
            row.get(i)
                .ok_or_else(|| DecodeError::UnexpectedNull(name.into()))
        };
        let bad = |column: &str, ty: &str| DecodeError::BadValue {
            column: column.into(),
            ty: ty.into(),
        };
        let time = parse_number::<Timestamp>(needed(self.timestamp, "mz_timestamp")?)
            .ok_or_else(|| bad("mz_timestamp", "time in milliseconds"))?;
        match needed(self.progressed, "mz_progressed")? {
            b"t" => return Ok(Decoded::Progress(time)),
            b"f" => {}
            _ => return Err(bad("mz_progressed", "boolean")),
        }
        let at = chunk.rows();
        let mut key_only = false;
        let mut violation = false;
        let op;
        match self.envelope {
            Envelope::Upsert => match needed(self.change, "mz_state")? {
                b"upsert" => op = Op::Put,
                b"delete" => (op, key_only) = (Op::Delete, true),
                b"key_violation" => (op, key_only, violation) = (Op::Delete, true, true),
                other => {
                    let shown: String = String::from_utf8_lossy(other).chars().take(40).collect();
                    return Err(DecodeError::UnknownState(shown));
                }
            },
            Envelope::Diff => {
                let diff = parse_number::<i64>(needed(self.change, "mz_diff")?)
                    .ok_or_else(|| bad("mz_diff", "bigint"))?;
                op = match diff {
                    0 => return Err(DecodeError::ZeroDiff),
                    1.. => Op::Put,
                    _ => Op::Delete,
                };
                chunk.push_count(at, diff.unsigned_abs());
            }
        }
        chunk.timestamps.push(time);
        chunk.ops.push(op as u8);
        chunk.ordinals.push(0);
        for (column, data) in self.data.iter().zip(&mut chunk.columns) {
            let value = match row.get(column.position) {
                _ if key_only && !column.is_key => None,
                None if column.nullable || key_only => None,
                None => return Err(DecodeError::UnexpectedNull(column.name.clone())),
                some => some,
            };
            match value {
                Some(value) => text::push(&mut data.values, &column.ty, value)
                    .ok_or_else(|| bad(&column.name, &type_name(&column.ty)))?,
                None => data.values.push_null(),
            }
            data.mark(at, value.is_none());
        }
        Ok(if violation {
            Decoded::KeyViolation(time)
        } else {
            Decoded::Change(time)
        })
    }
}

fn parse_number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The type's name for messages.
fn type_name(ty: &ColumnType) -> String {
    match ty {
        ColumnType::Other(name) => name.clone(),
        other => format!("{other:?}").to_lowercase(),
    }
}
