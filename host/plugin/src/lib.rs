//! Loads, grants, limits and calls sink components.
//!
//! ```text
//!   file ── SinkComponent::load ──> check ──> compile or cache ──> linked component
//!                                                                    │ instantiate
//!   driver ── open, checkpoint, write, close ──> PluginSink ──> one instance, one store
//!                                                                    │ imports
//!             rows <── changes ──┐                                   v
//!          network <── http ─────┴── log, clock, random <──────── State (limits)
//! ```
//!
//! A guest gets nothing but what [`PluginOptions`] grants; whatever it does, the host only sees
//! a [`SinkError`](mz_sink_core::batch::SinkError). This crate must not contain the protocol
//! (when to write, retry or give up is decided in `mz-sink-core`), nor know any target.

mod bindings;
mod cache;
mod component;
mod convert;
mod engine;
mod error;
pub mod http;
mod json_size;
mod limits;
mod log;
mod sink;
mod state;
mod text;

pub use component::{Inspection, SinkComponent};
pub use engine::{Engine, EngineOptions, TICK};
pub use error::LoadError;
pub use limits::Limits;
pub use sink::{Page, PluginOptions, PluginSink};
