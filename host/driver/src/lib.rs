//! Carries out the commands of the protocol core against a source and a sink.
//!
//! ```text
//!   Source task ──rows──> run loop ──commands──> Sink task
//!                         (Session)                  │
//!                             └──spill──> files <──pull┘
//! ```
//!
//! Reading, deciding and writing are three tasks, so that reading goes on during a write. This
//! crate must not contain SQL text, wasmtime, tokio-postgres or retry decisions: what is done is
//! decided by `mz-sink-core`.

mod batch;
mod dead_letter;
mod live;
pub mod look_up;
mod progress;
mod replay;
mod run;
mod sink;
mod source;
mod spill;

pub use batch::BatchReader;
pub use dead_letter::{DeadLetters, FileDeadLetters, LetterFile, LetterFileError, LogDeadLetters};
pub use live::{LiveFailure, tail};
pub use progress::{Progress, Snapshot};
pub use replay::{ReplayFailure, replay};
pub use run::{Options, run};
pub use sink::{Sink, sink_error};
pub use source::{BlockEnd, RowBlock, Source};
pub use spill::check_spill_folder;
