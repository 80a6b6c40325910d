//! Mistakes that the simulator plants into this crate, to show that it finds them.
//!
//! Each stands in one place as `if planted::is(..)`, which is `false` at compile time without the
//! feature `planted-bugs`. Only the simulator may turn that on: `cargo xtask checks` holds
//! everybody else to it, and a release build with it does not compile.

#[cfg(all(feature = "planted-bugs", not(debug_assertions)))]
compile_error!("planted-bugs is for the simulator only: this would be a broken product");

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// The first progress row, which only repeats AS OF, is taken for a closed snapshot.
    CommitAtFirstProgress,
    /// Resumes at the frontier instead of one below: changes at the frontier are lost.
    ResumeAtFrontier,
    /// Resumes two below the frontier, and takes what comes a second time.
    ResumeTooEarly,
    /// Keeps the first change of a key in a batch instead of the last.
    NettingKeepsFirst,
    /// Texts of attempts do not differ.
    NoNonce,
    /// An equal epoch of another worker is taken for ours.
    EpochOfAnother,
    /// After an unknown outcome, writes again without reading back.
    NoReadBack,
    /// An unknown outcome is taken for a success.
    UnknownIsCommitted,
    /// The generation is not raised before the first snapshot.
    GenerationNotRaised,
    /// The generation is not raised before a snapshot that replaces another.
    GenerationNotRaisedAgain,
    /// Releases up to the largest frontier of several views instead of the least.
    LargestFrontier,
    /// A batch ends after its first segment, and so inside a timestamp.
    SplitTimestamp,
    /// Commits the frontier of what is held instead of what was taken.
    FrontierOfHeld,
    /// A changed object is not noticed.
    IdentityIgnored,
    /// A snapshot that is announced already counts as what the target holds.
    FormerForgotten,
    /// A key violation leaves the old row in the target.
    KeyViolationIgnored,
    /// A reconnect resumes from what is committed, though more was handed over.
    HandedOverForgotten,
    /// Changes that were not closed are kept over a reconnect.
    UnclosedKept,
    /// An empty FETCH with a timeout is taken for the end of the stream.
    EmptyFetchIsEnd,
    /// Ordinals go on over timestamps.
    OrdinalGoesOn,
    /// Several views do not start at one time.
    SnapshotsApart,
}

#[cfg(feature = "planted-bugs")]
mod switch {
    use std::cell::Cell;

    use super::Planted;

    thread_local! {
        static NOW: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// Plants a mistake on this thread, or none.
    pub fn plant(bug: Option<Planted>) {
        NOW.set(bug);
    }

    /// Whether it is planted on this thread.
    pub(crate) fn is(bug: Planted) -> bool {
        NOW.get() == Some(bug)
    }
}

#[cfg(feature = "planted-bugs")]
pub(crate) use switch::is;
#[cfg(feature = "planted-bugs")]
pub use switch::plant;

/// Whether it is planted: never.
#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn is(_: Planted) -> bool {
    false
}
