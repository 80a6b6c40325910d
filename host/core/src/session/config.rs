//! What does not change while a session runs.

use std::time::Duration;

use crate::catalog::IdentityPolicy;
use crate::retry::RetryPolicy;
use crate::types::{CLOSED, Envelope, Frontier};

/// What a restart takes: a supervisor's delay, the connections, the look-up, the epoch.
const RESTART: Duration = Duration::from_secs(10);

/// What does not change while a session runs.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Identity of the deployment.
    pub sink_id: String,
    /// Digest of the component.
    pub component_digest: String,
    /// What to subscribe to; at least one. Several are read at one time.
    pub views: Vec<ViewConfig>,
    /// How changes are asked for.
    pub envelope: Envelope,
    /// Whether the sink wants only the last change per key of a batch.
    pub netted: bool,
    /// The cluster to subscribe on; the role's default when absent.
    pub cluster: Option<String>,
    /// Read up to here and end; exclusive.
    pub up_to: Option<Frontier>,
    /// Start although a failure may outlast the object's history.
    pub allow_short_retention: bool,
    /// What may change about an object.
    pub identity: IdentityPolicy,
    /// When the history since the last commit is gone.
    pub on_history_loss: OnHistoryLoss,
    /// When several rows have one key.
    pub on_key_violation: OnKeyViolation,
    /// When a write has failed until the retry budget was spent.
    pub on_failure: OnFailure,
    /// Minimum time between commits.
    pub commit_interval: Duration,
    /// Minimum time between commits that only move the frontier.
    pub idle_commit_interval: Duration,
    /// A batch is split at timestamps when it is larger, in bytes of memory.
    pub max_commit_bytes: usize,
    /// Changes held in memory, in bytes, before they are spilled.
    pub memory_bytes: usize,
    /// Changes held on disk, in bytes, before reading pauses; each view has an equal part.
    pub spill_bytes: u64,
    /// Minimum time between calls of the sink's housekeeping; none when it has none.
    pub maintenance_interval: Option<Duration>,
    /// For everything that is tried again.
    pub retry: RetryPolicy,
}

/// One object to subscribe to.
#[derive(Clone, Debug)]
pub struct ViewConfig {
    /// `object`, `schema.object` or `database.schema.object`.
    pub object: String,
    /// The view's name for the sink; the object's last part when absent.
    pub name: Option<String>,
    /// Key columns, in order.
    pub key: Vec<String>,
}

/// What to do when the history since the last commit is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnHistoryLoss {
    /// Stop, for an operator to decide.
    #[default]
    Stall,
    /// Read the object anew and replace what the target holds of it.
    Resnapshot,
    /// Go on from now. The changes in between never reach the target.
    SkipToNow,
}

/// What to do when several rows have one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnKeyViolation {
    /// Put the key into the dead-letter log and leave it out of the target.
    #[default]
    Reject,
    /// Stop.
    Stall,
}

/// What to do when a write has failed until the retry budget was spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Stop, for an operator to decide.
    #[default]
    Stall,
    /// Put the whole batch into the dead-letter log and go on after it. A snapshot is never
    /// skipped.
    Skip,
}

impl SessionConfig {
    /// A configuration with the default of everything that has one.
    pub fn new(
        sink_id: String,
        component_digest: String,
        views: Vec<ViewConfig>,
        envelope: Envelope,
    ) -> Self {
        Self {
            sink_id,
            component_digest,
            views,
            envelope,
            netted: false,
            cluster: None,
            up_to: None,
            allow_short_retention: false,
            identity: IdentityPolicy::default(),
            on_history_loss: OnHistoryLoss::default(),
            on_key_violation: OnKeyViolation::default(),
            on_failure: OnFailure::default(),
            commit_interval: Duration::ZERO,
            idle_commit_interval: Duration::from_secs(10),
            max_commit_bytes: 64 << 20,
            memory_bytes: 64 << 20,
            spill_bytes: 4 << 30,
            maintenance_interval: None,
            retry: RetryPolicy::default(),
        }
    }

    /// How many connections to Materialize are used: one for each view and, after those, one for
    /// what is asked beside them.
    pub fn connections(&self) -> usize {
        self.views.len() + 1
    }

    /// How far the last commit may lie back when a failure was waited out and the process
    /// started again.
    pub fn commit_lag(&self) -> Duration {
        let interval = self.commit_interval.max(self.idle_commit_interval);
        interval
            .saturating_add(self.retry.budget())
            .saturating_add(RESTART)
    }

    /// Where everything ends.
    pub(super) fn end(&self) -> Frontier {
        self.up_to.unwrap_or(CLOSED)
    }

    /// Bytes that one view may spill.
    pub(super) fn spill_quota(&self) -> u64 {
        self.spill_bytes / self.views.len().max(1) as u64
    }
}
