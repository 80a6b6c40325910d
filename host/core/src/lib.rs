//! The SUBSCRIBE protocol, once, as a pure state machine.
//!
//! ```text
//!   text rows ─> decode ─> release ─> [batch] ─> netting ─> a sink, through the driver
//!                             ^          │
//!   catalog, statements ─> session <─────┘ what came of the write: checkpoint, retry, classify
//! ```
//!
//! Everything that decides what is released, committed, retried, resumed or refused lives
//! here. This crate must not contain I/O, async, a clock, randomness or logging: time and
//! entropy come in as arguments, decisions come out as commands, and a check builds it for
//! `wasm32-unknown-unknown` and fails if the result imports anything.

pub mod batch;
pub mod catalog;
pub mod check;
pub mod checkpoint;
pub mod chunk;
pub mod classify;
pub mod cut;
pub mod dead_letter;
pub mod decode;
pub mod json;
pub mod keys;
pub mod live;
pub mod netting;
pub mod planted;
pub mod release;
pub mod replay;
pub mod retry;
pub mod server_error;
pub mod session;
pub mod statements;
pub mod text;
pub mod types;
