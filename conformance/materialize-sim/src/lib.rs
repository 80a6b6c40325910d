//! A simulated Materialize on real pgwire, for tests, the demo and the benchmark.
//!
//! It speaks the PostgreSQL protocol on a socket and answers the statements a SUBSCRIBE
//! consumer sends as a real server did in `conformance/recordings`. Nothing of the host
//! belongs here: the simulator must be able to disagree with it. It is no database either:
//! what a consumer does not look at is left out, and refused with 0A000.
//!
//! ```text
//!  socket ─> startup (TLS, password) ─> session ─┬─> parser ─> changes ─> world (objects, clock)
//!                                                ├─> select ─> relations (SQLite, per query)
//!                                                └─> fetch ──> feed ─────> DataRows ─> socket
//!                                                               │
//!                      ledger (tables) · recording (replay, growth) · bench (generated)
//! ```
//!
//! A `Feed` is the pull side of one subscription: it fills a buffer with encoded
//! rows until that is full, the frontier is reached, or the stream has ended. A slow client
//! therefore holds nothing up and costs nothing.

mod bench;
mod changes;
mod clock;
mod control;
mod datarow;
mod envelope;
mod error;
mod feed;
mod fetch;
mod hold;
mod ledger;
mod lexer;
mod parser;
mod recording;
mod recording_feed;
mod relations;
mod row;
mod select;
mod server;
mod session;
mod startup;
mod statement;
mod timestamp;
mod types;
mod variables;
mod wire;
mod world;

pub(crate) use clock::{lock, wall_clock};

pub use bench::BenchOptions;
pub use control::Control;
pub use error::SimError;
pub use recording::{ReplayOptions, Speed};
pub use row::{Change, Row};
pub use server::{Options, Server, Tls};
pub use types::Column;
pub use world::{DEFAULT_RETENTION_MS, Kind};
