//! Write a Materialize sink in Rust.
//!
//! A sink is a type that implements [`Sink`]: it says what it is, opens its target, and writes
//! batches. The host does the rest: reading Materialize, closing batches, checkpoints, fencing,
//! retries.
//!
//! ```text
//!   host ──calls──> Sink::{describe, open, write, ...} ──uses──> Batch (pulls chunks of rows)
//!                                                     └───────> Host  (http, log, clock, random)
//! ```
//!
//! ```
//! use mz_sink_guest::*;
//!
//! /// Counts rows and keeps its checkpoint in memory.
//! struct Counter { stored: Option<String>, rows: u64 }
//!
//! impl Sink for Counter {
//!     type Host = Host;
//!     fn describe() -> Description {
//!         Description::new::<()>("counter", Guarantee::AtLeastOnce, Envelope::Diff)
//!     }
//!     fn open(_: Host, _: &Context) -> Result<(Self, Option<String>), Error> {
//!         Ok((Counter { stored: None, rows: 0 }, None))
//!     }
//!     fn checkpoint(&mut self) -> Result<Option<String>, Error> { Ok(self.stored.clone()) }
//!     fn write(&mut self, batch: &mut dyn Batch, expected: Option<&str>, next: &str) -> Result<(), Error> {
//!         if self.stored.as_deref() != expected { return Err(Error::Conflict(self.stored.clone())) }
//!         while let Some(chunk) = batch.next(1 << 20)? { self.rows += u64::from(chunk.rows) }
//!         self.stored = Some(next.into());
//!         Ok(())
//!     }
//! }
//! mz_sink_guest::export!(Counter);
//! ```
//!
//! The same code runs in a component and, for tests, natively: what it needs of its surroundings
//! are the traits [`Batch`], [`Http`], [`Clock`], ... A component imports only the capabilities
//! whose methods it calls, and its imports are the permissions it asks for.
//!
//! This crate must not contain anything of the host, or of one particular target.

#[cfg(target_arch = "wasm32")]
pub mod component;
mod error;
mod host;
mod model;
mod rows;
mod sink;

#[cfg(target_arch = "wasm32")]
pub use component::Host;
pub use error::{Error, Failure};
#[cfg(not(target_arch = "wasm32"))]
pub use host::Host;
pub use host::{Clock, Http, HttpError, Level, Log, Random, Request, Response};
pub use model::{BatchInfo, Column, ColumnType, Context, Description, Envelope, Guarantee, View};
pub use rows::{Chunk, ColumnData, Op, Packed, Value, Values};
pub use sink::{Batch, PullError, Sink};

/// Makes a type that implements [`Sink`] the sink of this component. Does nothing natively.
#[macro_export]
macro_rules! export {
    ($sink:ty) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            thread_local! {
                static SINK: ::std::cell::RefCell<::std::option::Option<$sink>> =
                    const { ::std::cell::RefCell::new(None) };
            }
            struct Component;
            impl $crate::component::Hold for Component {
                type Sink = $sink;
                fn with<R>(f: impl FnOnce(&mut ::std::option::Option<$sink>) -> R) -> R {
                    SINK.with_borrow_mut(f)
                }
            }
            $crate::component::bindings::export!(
                Component with_types_in $crate::component::bindings
            );
        };
    };
}
