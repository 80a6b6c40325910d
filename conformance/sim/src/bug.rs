//! Mistakes that can be planted, to show that the simulator finds them.

#[cfg(feature = "planted-bugs")]
use mz_sink_core::planted::Planted;

/// A mistake of a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModelBug {
    /// The checkpoint is changed before the data of the batch is written.
    CheckpointBeforeData,
    /// A delete removes the document instead of leaving a tombstone.
    TombstoneAsDelete,
    /// A write of nothing stores its text whatever is there.
    ClaimWithoutCompare,
    /// A snapshot goes into the namespace that readers look at.
    SnapshotInPlace,
    /// A row is left out and nobody is told.
    SilentReject,
    /// The idempotency key of a row of a snapshot is that of a change at that time.
    SnapshotKeysAsChanges,
    /// A lost answer is taken for a success.
    UnknownIsDone,
}

/// Where a mistake is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Model(ModelBug),
    #[cfg(feature = "planted-bugs")]
    Core(Planted),
}

/// A mistake that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bug {
    /// What the command line calls it.
    pub name: &'static str,
    place: Place,
}

const fn model(name: &'static str, bug: ModelBug) -> Bug {
    let place = Place::Model(bug);
    Bug { name, place }
}

const SINK_BUGS: [Bug; 7] = [
    model("checkpoint-before-data", ModelBug::CheckpointBeforeData),
    model("tombstone-as-delete", ModelBug::TombstoneAsDelete),
    model("claim-without-compare", ModelBug::ClaimWithoutCompare),
    model("snapshot-in-place", ModelBug::SnapshotInPlace),
    model("silent-reject", ModelBug::SilentReject),
    model("snapshot-keys-as-changes", ModelBug::SnapshotKeysAsChanges),
    model("unknown-is-done", ModelBug::UnknownIsDone),
];

#[cfg(not(feature = "planted-bugs"))]
const CORE_BUGS: [Bug; 0] = [];

#[cfg(feature = "planted-bugs")]
const fn core(name: &'static str, bug: Planted) -> Bug {
    let place = Place::Core(bug);
    Bug { name, place }
}

#[cfg(feature = "planted-bugs")]
const CORE_BUGS: [Bug; 21] = [
    core("commit-at-first-progress", Planted::CommitAtFirstProgress),
    core("resume-at-frontier", Planted::ResumeAtFrontier),
    core("resume-too-early", Planted::ResumeTooEarly),
    core("netting-keeps-first", Planted::NettingKeepsFirst),
    core("no-nonce", Planted::NoNonce),
    core("epoch-of-another", Planted::EpochOfAnother),
    core("no-read-back", Planted::NoReadBack),
    core("unknown-is-committed", Planted::UnknownIsCommitted),
    core("generation-not-raised", Planted::GenerationNotRaised),
    core(
        "generation-not-raised-again",
        Planted::GenerationNotRaisedAgain,
    ),
    core("largest-frontier", Planted::LargestFrontier),
    core("split-timestamp", Planted::SplitTimestamp),
    core("frontier-of-held", Planted::FrontierOfHeld),
    core("identity-ignored", Planted::IdentityIgnored),
    core("former-forgotten", Planted::FormerForgotten),
    core("key-violation-ignored", Planted::KeyViolationIgnored),
    core("handed-over-forgotten", Planted::HandedOverForgotten),
    core("unclosed-kept", Planted::UnclosedKept),
    core("empty-fetch-is-end", Planted::EmptyFetchIsEnd),
    core("ordinal-goes-on", Planted::OrdinalGoesOn),
    core("snapshots-apart", Planted::SnapshotsApart),
];

impl Bug {
    /// Every mistake that can be planted; those inside the core only with the feature
    /// `planted-bugs`.
    pub fn all() -> impl Iterator<Item = Self> {
        SINK_BUGS.into_iter().chain(CORE_BUGS)
    }

    /// The mistake called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|bug| bug.name == name)
    }

    /// The mistake of a sink, if it is one.
    pub(crate) fn model(self) -> Option<ModelBug> {
        match self.place {
            Place::Model(bug) => Some(bug),
            #[cfg(feature = "planted-bugs")]
            Place::Core(_) => None,
        }
    }
}

/// Plants the mistake into the core, on this thread, if it belongs there; else takes out the one
/// that may be there.
#[cfg(feature = "planted-bugs")]
pub(crate) fn plant(bug: Option<Bug>) {
    mz_sink_core::planted::plant(match bug.map(|bug| bug.place) {
        Some(Place::Core(bug)) => Some(bug),
        _ => None,
    });
}

#[cfg(not(feature = "planted-bugs"))]
pub(crate) fn plant(_: Option<Bug>) {}
