//! Materialize's own text form of values, used by the host and by the Rust SDK alike.
//!
//! Only what both sides need to agree on byte for byte: dates and times over the whole range,
//! floats, and bytes. No types of either side.

mod datetime;
mod scalar;

pub use datetime::{
    parse_date, parse_time, parse_timestamp, write_date, write_time, write_timestamp,
};
pub use scalar::{parse_bytes, write_bytes, write_float32, write_float64};
