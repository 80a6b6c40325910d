//! Write a Materialize sink in Rust.
//!
//! A sink is a type that implements [`Sink`]: it says what it needs ([`Sink::describe`]), gets
//! ready ([`Sink::open`]), and writes batches ([`Sink::write`]). The same type runs as a
//! component inside `mz-wasm-sink` and as plain Rust in a test or a benchmark.
//!
//! ```text
//!              component                                      native
//!  host ─WIT─► export! ─► component.rs ─► Sink ◄── your own Batch, Http, Clock, Log, Random
//!                           (Imports)      │
//!                                          └─ reads Chunks, asks for capabilities by trait
//! ```
//!
//! # Capabilities
//!
//! What a sink may do to the outside is a trait bound on its host type: [`Http`], [`Log`],
//! [`Clock`], [`Random`]. A finished component imports only what the sink really calls, and that
//! import list is the list of permissions an operator sees and grants.
//!
//! ```
//! use mz_sink_guest::{Batch, Context, Description, Envelope, Error, Guarantee, Log, Sink};
//! use mz_sink_guest::Level;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Config { greeting: String }
//!
//! struct Greeter<H> { host: H, config: Config, checkpoint: Option<String> }
//!
//! impl<H: Log> Sink for Greeter<H> {
//!     type Host = H;
//!     type Config = Config;
//!
//!     fn describe() -> Description {
//!         Description {
//!             name: "greeter".into(),
//!             version: env!("CARGO_PKG_VERSION").into(),
//!             guarantee: Guarantee::AtLeastOnce,
//!             envelope: Envelope::Upsert,
//!             netted: true,
//!         }
//!     }
//!
//!     fn open(host: H, context: Context<Config>) -> Result<(Self, Option<String>), Error> {
//!         Ok((Greeter { host, config: context.config, checkpoint: None }, None))
//!     }
//!
//!     fn checkpoint(&mut self) -> Result<Option<String>, Error> {
//!         Ok(self.checkpoint.clone())
//!     }
//!
//!     fn write<B: Batch>(
//!         &mut self, batch: &mut B, expected: Option<&str>, next: &str,
//!     ) -> Result<(), Error> {
//!         if self.checkpoint.as_deref() != expected {
//!             return Err(Error::Conflict(self.checkpoint.clone()));
//!         }
//!         while let Some(chunk) = batch.next(1 << 20)? {
//!             for row in chunk.rows() {
//!                 self.host.log(Level::Info, &self.config.greeting, &[]);
//!                 let _first_column = row.value(0);
//!             }
//!         }
//!         self.checkpoint = Some(next.to_owned());
//!         Ok(())
//!     }
//! }
//!
//! // Becomes a component when the crate is built for wasm32, and nothing otherwise.
//! mz_sink_guest::export!(Greeter<mz_sink_guest::Imports>);
//! ```
//!
//! Generated bindings must not appear in the signatures of a sink; nothing here does I/O.

mod batch;
mod capability;
mod chunk;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod component;
mod error;
mod http;
mod sink;
mod view;

pub use batch::{Batch, Info, PullError};
pub use capability::{Clock, Level, Log, Random};
pub use chunk::{
    Chunk, ChunkParts, ColumnData, Op, PackedBytes, PackedTexts, Row, ValueRef, Values,
};
#[cfg(target_arch = "wasm32")]
pub use component::Imports;
pub use error::{Error, Failure};
pub use http::{Exchange, Http, HttpError, Request, Response};
/// Materialize's own text form of values.
pub use mz_sink_text as text;
pub use sink::{Context, Description, Envelope, Guarantee, Maintain, Page, ReadBack, Sink};
pub use view::{Column, ColumnType, View};

/// Makes a component of a sink type: `export!(MySink<mz_sink_guest::Imports>);`, once per crate.
/// What else it implements, [`Maintain`] and [`ReadBack`], is named after it.
///
/// Expands to nothing when the crate is not built for wasm32, so that the same crate is a
/// library for native tests.
#[macro_export]
macro_rules! export {
    (@also Maintain) => {
        impl $crate::component::Maintenance for Component {
            fn run(committed: u64) -> ::std::result::Result<(), $crate::component::wire::Error> {
                OPENED.with_borrow_mut(|sink| $crate::component::maintain(sink, committed))
            }
        }

        $crate::component::maintained::export_maintenance!(
            Component with_types_in $crate::component::maintained
        );
    };
    (@also ReadBack) => {
        impl $crate::component::Readable for Component {
            fn rows(
                view: u32,
                after: ::std::option::Option<::std::vec::Vec<u8>>,
                max: u32,
            ) -> ::std::result::Result<
                $crate::component::wire::Page,
                $crate::component::wire::Error,
            > {
                OPENED.with_borrow_mut(|sink| $crate::component::rows(sink, view, after, max))
            }
        }

        $crate::component::readable::export_read_back!(
            Component with_types_in $crate::component::readable
        );
    };
    ($sink:ty $(, $extra:ident)* $(,)?) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code)]
        const _: () = {
            struct Component;

            ::std::thread_local! {
                static OPENED: ::std::cell::RefCell<::std::option::Option<$sink>> =
                    const { ::std::cell::RefCell::new(None) };
            }

            impl $crate::component::Guest for Component {
                fn describe() -> $crate::component::wire::Description {
                    $crate::component::describe::<$sink>()
                }
                fn open(
                    context: $crate::component::wire::Context,
                ) -> ::std::result::Result<
                    ::std::option::Option<::std::string::String>,
                    $crate::component::wire::Error,
                > {
                    OPENED.with_borrow_mut(|sink| $crate::component::open(sink, context))
                }
                fn checkpoint() -> ::std::result::Result<
                    ::std::option::Option<::std::string::String>,
                    $crate::component::wire::Error,
                > {
                    OPENED.with_borrow_mut($crate::component::checkpoint)
                }
                fn write(
                    batch: $crate::component::wire::Batch,
                    expected: ::std::option::Option<::std::string::String>,
                    next: ::std::string::String,
                ) -> ::std::result::Result<(), $crate::component::wire::Error> {
                    OPENED.with_borrow_mut(|sink| {
                        $crate::component::write(sink, batch, expected, next)
                    })
                }
                fn close() {
                    OPENED.with_borrow_mut($crate::component::close)
                }
            }

            $crate::component::bindings::export_component!(
                Component with_types_in $crate::component::bindings
            );
            $($crate::export!(@also $extra);)*
        };
    };
}
