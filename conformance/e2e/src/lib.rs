//! End-to-end tests of the whole path: the real program and the real turbopuffer component
//! between two servers. Nothing here may know how the program works inside; what is expected
//! comes from Materialize itself, by `SELECT … AS OF`.
//!
//! ```text
//!  World: SQL ──> Materialize ──pgwire──> Host: mz-wasm-sink run ──HTTP──> turbopuffer-sim
//!                     │    simulated, or the one at MZ_TEST_URL                  │
//!                     └──── SELECT * AS OF frontier - 1  ==  documents ──────────┘  (proof)
//! ```

mod config;
mod host;
mod programs;
mod proof;
mod random;
mod refusal;
mod target;
mod traffic;
mod world;

pub use config::{API_KEY, edited};
pub use host::{Ended, Host};
pub use programs::{component, folder, program};
pub use proof::differences;
pub use random::Random;
pub use refusal::{CANARY, SOON, refused, small_world};
pub use target::{Committed, Target};
pub use traffic::{Traffic, change};
pub use world::{Table, World};

/// How long anything may take that a test waits for.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
