//! What a view computes from the rows of its input.

use std::sync::Arc;

use crate::error::SqlError;
use crate::ledger::Ledger;
use crate::lock;
use crate::object::{Content, Object};
use crate::row::{Row, SharedChange, consolidate};
use crate::types::{Column, INT4, INT8, NUMERIC};

/// A view: one value for every column, from each row of one input.
pub(crate) struct Derivation {
    pub(crate) input: Arc<Object>,
    /// Each with the type of its column.
    pub(crate) outputs: Vec<(Scalar, u32)>,
}

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// The column at this position.
    Column(usize),
    Number(i128),
    Binary(Operator, Box<Scalar>, Box<Scalar>),
}

/// Arithmetic of integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Plus,
    Minus,
    Times,
    Divide,
}

/// Changes of rows, and of rows that could not be computed (the text of the error, not the row).
#[derive(Default)]
pub(crate) struct Derived {
    pub(crate) changes: Vec<SharedChange>,
    pub(crate) errors: Vec<(String, i64)>,
}

impl Derivation {
    /// The changes of the view that changes of its input make.
    pub(crate) fn apply(&self, input: &[SharedChange]) -> Derived {
        let mut derived = Derived::default();
        for (row, diff) in input {
            match self.row(row) {
                Ok(row) => derived.changes.push((Arc::new(row), *diff)),
                Err(text) => derived.errors.push((text, *diff)),
            }
        }
        derived.changes = consolidate(&derived.changes);
        derived
    }

    /// The history of a view made now.
    pub(crate) fn ledger(&self, now: u64) -> Ledger {
        let Content::Ledger(input) = &self.input.content else {
            return Ledger::new(now + 1);
        };
        let input = lock(input);
        let mut contents = self.apply(&input.contents(u64::MAX));
        contents.errors.extend(input.errors(u64::MAX));
        if input.finished() {
            Ledger::constant(contents)
        } else {
            Ledger::beginning(input.reached(), contents)
        }
    }

    fn row(&self, input: &Row) -> Result<Row, String> {
        self.outputs
            .iter()
            .map(|(output, oid)| match output {
                // The text as it is, whatever its type.
                Scalar::Column(at) => Ok(input[*at].clone()),
                computed => match computed.integer(input)? {
                    Some(number) if !fits(number, *oid) => Err("integer out of range".to_owned()),
                    number => Ok(number.map(|number| number.to_string())),
                },
            })
            .collect()
    }
}

fn fits(number: i128, oid: u32) -> bool {
    match oid {
        INT4 => i32::try_from(number).is_ok(),
        _ => i64::try_from(number).is_ok(),
    }
}

impl Scalar {
    /// The value, `None` for NULL.
    fn integer(&self, row: &Row) -> Result<Option<i128>, String> {
        let (operator, left, right) = match self {
            Self::Number(number) => return Ok(Some(*number)),
            Self::Column(at) => {
                let number = row[*at].as_deref().map(str::parse);
                return number.transpose().map_err(|_| "invalid integer".to_owned());
            }
            Self::Binary(operator, left, right) => (operator, left, right),
        };
        let (Some(left), Some(right)) = (left.integer(row)?, right.integer(row)?) else {
            return Ok(None);
        };
        let result = match operator {
            Operator::Plus => left.checked_add(right),
            Operator::Minus => left.checked_sub(right),
            Operator::Times => left.checked_mul(right),
            Operator::Divide if right == 0 => return Err("division by zero".to_owned()),
            Operator::Divide => left.checked_div(right),
        };
        result.map(Some).ok_or("integer out of range".to_owned())
    }

    /// The column that holds the value.
    pub(crate) fn column(
        &self,
        name: Option<String>,
        input: &[Column],
    ) -> Result<Column, SqlError> {
        let oid = match self {
            Self::Column(at) => {
                let mut column = input[*at].clone();
                column.name = name.unwrap_or(column.name);
                return Ok(column);
            }
            other => other.integer_type(input)?,
        };
        let name = name.unwrap_or_else(|| "?column?".to_owned());
        let sql_type = if oid == INT4 { "integer" } else { "bigint" };
        Ok(Column::exact(name, sql_type, oid, -1))
    }

    fn integer_type(&self, input: &[Column]) -> Result<u32, SqlError> {
        match self {
            Self::Number(number) if i32::try_from(*number).is_ok() => Ok(INT4),
            Self::Number(_) => Ok(INT8),
            Self::Column(at) => match input[*at].oid {
                oid @ (INT4 | INT8) => Ok(oid),
                NUMERIC => Err(SqlError::unsupported("arithmetic of numerics")),
                _ => Err(SqlError::unsupported("arithmetic of anything but integers")),
            },
            Self::Binary(_, left, right) => {
                let (left, right) = (left.integer_type(input)?, right.integer_type(input)?);
                Ok(if left == INT4 { right } else { left })
            }
        }
    }
}
