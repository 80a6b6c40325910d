//! Materialize over tokio-postgres: a connection that runs one statement at a time and hands
//! out the rows of a FETCH in blocks, as they arrive.
//!
//! Only the simple query protocol is used, so every value is text. Materialize refuses a binary
//! FETCH of rows with list or map columns, COPY (SUBSCRIBE ...) has neither column names nor
//! pacing other than TCP's, and a FETCH streams its rows while it still waits for more.
//!
//! What that costs: CPU time of the client for each of 2 million rows of 11 columns and 137 bytes,
//! the mean of three runs on a shared machine, from a PostgreSQL 15 in the place of Materialize,
//! which answers all four. What COPY gives was split into values, not decoded; the rows of the
//! binary FETCH were only counted.
//!
//! | FETCH, text, with this crate | COPY, text | COPY, binary | FETCH, binary |
//! | --- | --- | --- | --- |
//! | 0.40 µs | 0.28 µs | 0.26 µs | 0.27 µs |
//!
//! So COPY would save about an eighth of a microsecond for each row: 2.5 million rows/s are enough.
//!
//! ```text
//!  URL, password ─> ConnectOptions ─> Session ─┬─ query ──────────────> Table
//!                                              └─ fetch, next_block ──> RowBlock ─> Row, Row, ...
//!                        anything that fails ─────────────────────────> ServerError, as reported
//! ```
//!
//! No SQL belongs here, and no opinion on what an error means: both are in `mz-sink-core`.

mod block;
mod error;
mod options;
mod session;
mod tls;

pub use block::{Row, RowBlock};
pub use options::{ConnectOptions, OptionsError};
pub use session::Session;
