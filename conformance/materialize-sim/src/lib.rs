//! A simulated Materialize on real pgwire, for tests, the demo and the benchmark.
//!
//! It speaks the PostgreSQL protocol on a socket and answers the statements a SUBSCRIBE
//! consumer sends as a real server did in `conformance/recordings`. Nothing of the host
//! belongs here: the simulator must be able to disagree with it. It is no database either:
//! what a consumer does not look at is left out, and refused with 0A000.
//!
//! ```text
//!  socket ─> startup (TLS, password) ─> session ─┬─> parser ─> changes, definitions ─> world
//!                                                │                 (objects, clock, faults)
//!                                                ├─> select ─> relations, catalog (SQLite)
//!                                                └─> fetch ──> feed ─────> DataRows ─> socket
//!                                                               │
//!              ledger (tables, views) · recording (replay, growth) · bench (generated)
//! ```
//!
//! A `Feed` is the pull side of one subscription: it fills a buffer with encoded
//! rows until that is full, the frontier is reached, or the stream has ended. A slow client
//! therefore holds nothing up and costs nothing.

mod bench;
mod catalog;
mod changes;
mod clock;
mod control;
mod datarow;
mod definitions;
mod derived;
mod envelope;
mod error;
mod fault_control;
mod faults;
mod feed;
mod fetch;
mod hold;
mod ledger;
mod lexer;
mod object;
mod parser;
mod privileges;
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
pub use faults::{Failure, Logins};
pub use object::{DEFAULT_RETENTION_MS, Kind};
pub use recording::{ReplayOptions, Speed};
pub use row::{Change, Row};
pub use server::{Options, Server, TimeLimits, Tls};
pub use types::Column;
