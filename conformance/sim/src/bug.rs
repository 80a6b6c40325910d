//! Mistakes that can be planted, to show that the simulator finds them.

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
pub enum Place {
    /// In a model sink.
    #[doc(hidden)]
    Model(ModelBugName),
}

/// Hides the inside of a [`Place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelBugName(pub(crate) ModelBug);

/// A mistake that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bug {
    /// What the command line calls it.
    pub name: &'static str,
    pub(crate) place: Place,
}

const fn model(name: &'static str, bug: ModelBug) -> Bug {
    Bug {
        name,
        place: Place::Model(ModelBugName(bug)),
    }
}

/// Every mistake that can be planted.
pub const BUGS: &[Bug] = &[
    model("checkpoint-before-data", ModelBug::CheckpointBeforeData),
    model("tombstone-as-delete", ModelBug::TombstoneAsDelete),
    model("claim-without-compare", ModelBug::ClaimWithoutCompare),
    model("snapshot-in-place", ModelBug::SnapshotInPlace),
    model("silent-reject", ModelBug::SilentReject),
    model("snapshot-keys-as-changes", ModelBug::SnapshotKeysAsChanges),
    model("unknown-is-done", ModelBug::UnknownIsDone),
];

impl Bug {
    /// The mistake called `name`.
    pub fn named(name: &str) -> Option<Self> {
        BUGS.iter().find(|bug| bug.name == name).copied()
    }

    pub(crate) fn model(self) -> Option<ModelBug> {
        match self.place {
            Place::Model(ModelBugName(bug)) => Some(bug),
        }
    }
}
