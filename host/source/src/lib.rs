//! Materialize over tokio-postgres: a connection that runs one statement at a time and hands
//! out the rows of a FETCH in blocks, as they arrive.
//!
//! Only the simple query protocol is used, so every value is text. Materialize refuses a binary
//! FETCH of rows with list or map columns, COPY (SUBSCRIBE ...) has neither column names nor
//! pacing other than TCP's, and a FETCH streams its rows while it still waits for more.
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
