//! Why a session stops, or tries again: each with a stable code, what happened and what to do.

use crate::batch::Failure;
use crate::catalog::CatalogError;
use crate::checkpoint::CheckpointError;
use crate::classify::ErrorClass;
use crate::release::StreamError;
use crate::server_error::ServerError;

/// Why a session stops, or tries again.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Materialize, or the way to it.
    #[error("Materialize: {error}{}", advice(*.class))]
    Server {
        /// What it means.
        class: ErrorClass,
        /// What was reported.
        error: ServerError,
    },
    /// Materialize did not answer at the first attempt.
    #[error(
        "Materialize cannot be reached: {0}; check materialize.url, and start again once it can be"
    )]
    Unreachable(ServerError),
    /// The object cannot be subscribed to, or is not the same any more.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The stream broke a rule.
    #[error(
        "the change stream of {object} cannot be trusted: {error}; nothing of it was committed. This is a fault in the server or in this program: please report it"
    )]
    Stream {
        /// The object.
        object: String,
        /// Which rule.
        error: StreamError,
    },
    /// The stored checkpoint cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The checkpoint vanished under a running worker.
    #[error(
        "the checkpoint of this sink has disappeared from the target while it was running; somebody deleted it. Start again for a new snapshot, or restore it"
    )]
    CheckpointLost,
    /// The checkpoint is from the past.
    #[error(
        "the target holds a checkpoint (epoch {found}) older than what this worker (epoch {epoch}) has committed: the target was restored from a backup, or reads stale data. Restart to continue from what it holds"
    )]
    CheckpointWentBack {
        /// In the target.
        found: u64,
        /// Ours.
        epoch: u64,
    },
    /// Another worker of the same deployment has taken over.
    #[error(
        "fenced: another worker with this sink_id has taken over with epoch {found} (ours was {epoch}). Run one worker for each sink_id, or give this one its own"
    )]
    Fenced {
        /// In the target.
        found: u64,
        /// Ours.
        epoch: u64,
    },
    /// The sink says that trying again may help.
    #[error("the sink could not write: {} ({})", .0.message, .0.code)]
    SinkRetryable(Failure),
    /// The sink says that trying again cannot help.
    #[error("the sink refuses to go on: {} ({})", .0.message, .0.code)]
    SinkPermanent(Failure),
    /// It is not known whether the sink wrote.
    #[error("the outcome of a write is unknown: {} ({})", .0.message, .0.code)]
    SinkUnknown(Failure),
    /// The component trapped or broke the contract.
    #[error("the component failed: {} ({})", .0.message, .0.code)]
    SinkTrapped(Failure),
    /// The component met a limit that the operator set.
    #[error("the component met a limit: {} ({})", .0.message, .0.code)]
    SinkLimit(Failure),
    /// `open` or `checkpoint` answered `conflict`, which only `write` may.
    #[error(
        "the component answered `conflict` to {0}, which only `write` may do: report this to its author"
    )]
    SinkConfused(&'static str),
    /// One timestamp, or one range between two progress rows, is larger than what may be held.
    #[error(
        "more than {limit} bytes of changes belong together (one timestamp, or a range that the server sends as one), which is the limit of buffer.spill; they are never split between commits: raise buffer.spill"
    )]
    TimestampTooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// Changes could not be kept on disk.
    #[error(
        "changes could not be spilled to disk: {0}; see that the folder is there, may be written and has space, or set buffer.dir to another"
    )]
    Spill(String),
    /// Rows that must not be lost could not be kept.
    #[error(
        "the dead-letter log cannot be written: {0}; nothing was committed past the rows that belong there. Free some space, or set dead_letter.path to another file"
    )]
    DeadLetter(String),
    /// Several rows have one key, and the operator wants to decide.
    #[error(
        "{object} has several rows with one key at {time}, and on_key_violation is \"stall\"; make the key unique, or choose other columns in source.key"
    )]
    KeyViolation {
        /// The object.
        object: String,
        /// When.
        time: u64,
    },
    /// The driver broke the rules of this crate.
    #[error("internal error: {event} is unexpected while {state}")]
    Unexpected {
        /// What came.
        event: &'static str,
        /// What was going on.
        state: &'static str,
    },
}

impl SessionError {
    /// A stable code, lower-case with dashes, for scripts.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Server { class, .. } => match class {
                ErrorClass::Transient => "connection",
                ErrorClass::CredentialsExpired => "credentials-expired",
                ErrorClass::Canceled => "canceled",
                ErrorClass::FellBehind => "fell-behind",
                ErrorClass::ResultTooLarge => "result-too-large",
                ErrorClass::HistoryLost => "history-lost",
                ErrorClass::ObjectDropped => "object-dropped",
                ErrorClass::StreamPoisoned => "stream-poisoned",
                ErrorClass::Fatal => "server-error",
            },
            Self::Unreachable(_) => "connection",
            Self::Catalog(error) => match error {
                CatalogError::Unknown(_) => "unknown-object",
                CatalogError::Dropped(_) => "object-dropped",
                CatalogError::NotDurable { .. } => "not-durable",
                CatalogError::NoKey { .. } | CatalogError::NoKeyColumn { .. } => "no-key",
                CatalogError::Indexed { .. } => "indexed-target",
                CatalogError::ShortRetention { .. } => "short-retention",
                CatalogError::SchemaMismatch { .. } => "schema-mismatch",
                CatalogError::Replaced { .. } | CatalogError::GoesOn(_) => "object-replaced",
                CatalogError::ConfigurationChanged { .. }
                | CatalogError::OtherViews { .. }
                | CatalogError::SameName(_) => "configuration-changed",
                CatalogError::OwnTimeline(_) => "own-timeline",
                CatalogError::Over { .. } => "up-to-passed",
                CatalogError::NoCluster { .. } => "unknown-cluster",
                CatalogError::CheckpointAhead { .. } => "checkpoint-ahead",
                CatalogError::BadName(_)
                | CatalogError::Ambiguous { .. }
                | CatalogError::Shape(_) => "catalog",
            },
            Self::Stream { .. } => "stream-broken",
            Self::Checkpoint(_) => "checkpoint-unusable",
            Self::CheckpointLost => "checkpoint-lost",
            Self::CheckpointWentBack { .. } => "checkpoint-went-back",
            Self::Fenced { .. } => "fenced",
            Self::SinkRetryable(_) => "sink-retryable",
            Self::SinkPermanent(_) => "sink-permanent",
            Self::SinkUnknown(_) => "sink-unknown",
            Self::SinkTrapped(_) => "sink-trapped",
            Self::SinkLimit(_) => "sink-limit",
            Self::SinkConfused(_) => "sink-contract",
            Self::TimestampTooLarge { .. } => "timestamp-too-large",
            Self::Spill(_) => "spill",
            Self::DeadLetter(_) => "dead-letter",
            Self::KeyViolation { .. } => "key-violation",
            Self::Unexpected { .. } => "internal",
        }
    }

    /// What happened, without the next step of an operator: for what is tried again.
    pub fn cause(&self) -> String {
        match self {
            Self::Server { error, .. } => format!("Materialize: {error}"),
            other => other.to_string(),
        }
    }

    /// Whether an operator is needed before the same command can work again: fenced, or the
    /// retry budget was spent.
    pub fn needs_operator(&self) -> bool {
        matches!(
            self,
            Self::Fenced { .. }
                | Self::KeyViolation { .. }
                | Self::SinkRetryable(_)
                | Self::SinkUnknown(_)
                | Self::SinkTrapped(_)
                | Self::Server {
                    class: ErrorClass::Transient | ErrorClass::FellBehind | ErrorClass::HistoryLost,
                    ..
                }
        )
    }
}

/// The next step, by class.
fn advice(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Transient => "",
        ErrorClass::CredentialsExpired => "; renew the credentials",
        ErrorClass::Canceled => "; somebody cancelled this session",
        ErrorClass::FellBehind => "; the sink is slower than the changes",
        ErrorClass::ResultTooLarge => {
            "; raise max_result_size in Materialize, or split the object, since a snapshot must fit"
        }
        ErrorClass::HistoryLost => {
            "; the history since the last commit is gone. Raise RETAIN HISTORY on the object, and \
             set source.on_history_loss = \"resnapshot\" to read it anew into the same target, or \
             use a new sink_id"
        }
        ErrorClass::ObjectDropped => "; create again what was dropped, or name another",
        ErrorClass::StreamPoisoned => {
            "; the object computes an error, which repeats until its data or definition changes"
        }
        ErrorClass::Fatal => "",
    }
}
