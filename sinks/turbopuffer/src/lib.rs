//! The turbopuffer sink: a document for every key, in namespaces that only it writes to.
//!
//! Convergent: after each completed batch every namespace equals the views at the committed
//! frontier; a reader may see part of a batch while it is written. Each document carries
//! `mz_timestamp`, `generation`, `deleted` and `written_at`; a row deleted upstream stays as a
//! tombstone, so searches filter on `deleted = false`.
//!
//! ```text
//!            ┌ schema: what each column becomes ┐
//!  chunk ─►  screen ─► encode ─► requests ───────────► namespace of the active incarnation
//!            (refuse    (JSON,    (several in flight,         upserts, newer wins
//!             rows)      ids)      split by size)
//!                                     │ all answered
//!                                     ▼
//!                                 checkpoint ────────► control namespace
//!                                 (compare-and-set)    one document per sink id: the checkpoint
//!                                                      and the names of the incarnations
//! ```
//!
//! A snapshot never goes into a namespace that already has rows: it fills a new incarnation, and
//! the patch that moves the checkpoint also switches readers to it.
//!
//! Nothing here may know how it is run: capabilities come in as traits, and the same code is a
//! component and a native library.

mod checkpoint;
mod client;
mod config;
mod embeddings;
mod encode;
mod ids;
mod incarnation;
mod maintenance;
mod read_back;
mod requests;
mod schema;
mod screen;
mod sink;
mod transform;
mod types;
mod vector;

pub use config::{
    Config, DistanceMetric, Element, FullText, FullTextOptions, IdType, Transform, Vector,
};
pub use sink::Turbopuffer;
pub use types::AttributeType;

mz_sink_guest::export!(Turbopuffer<mz_sink_guest::Imports>, Maintain, ReadBack);
