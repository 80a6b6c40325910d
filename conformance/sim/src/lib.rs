//! Attacks the whole worker, driver and core, in simulated time.
//!
//! ```text
//!   seed ──> Profile ──> Director: traffic, outages, deaths, rivals; then calm
//!                            │
//!   World (a model of        v                         Target (three kinds)
//!   Materialize, all    Worker: the real driver        judged at every change
//!   history) ──Source──>   and core        ──Sink──wire──>  against the World
//! ```
//!
//! A seed says everything that happens in a run. Each seed is run twice, and the two must be the
//! same. What must hold is in `target/judge.rs` (contents), `ending.rs` (how workers end),
//! `sink.rs` (calls of the sink) and `director.rs` (a worker reaches the present). This crate
//! must not contain a clock, randomness of its own, or anything of the system.

mod bites;
mod bug;
mod dice;
mod director;
mod ending;
mod options;
mod profile;
mod run;
mod search;
mod sink;
mod source;
mod state;
mod sweep;
mod target;
mod trace;
mod trouble;
mod wire;
mod worker;
mod world;

pub use bites::{Bite, WITHIN, bite};
pub use bug::Bug;
pub use run::Report;
pub use search::{Cut, Failure, Search, Tally, run_seed};
pub use sweep::sweep;
