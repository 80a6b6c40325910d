//! Faults on order: what goes wrong, and the words in which a client is told.
//!
//! None of them changes what is true: rows and times stay what they are, and a stream that is
//! struck is late, or ends.
//!
//! | fault | ordered by |
//! | --- | --- |
//! | a connection drops at byte n | `cut_next_subscription`, `cut_next_connection` |
//! | all connections drop; the server is away | `kill_connections`; `stop` and `start` |
//! | nothing is answered; one stream is silent | `stall`; `stall_stream` |
//! | an object lags behind the others | `hold_frontier` |
//! | credentials expire, sessions idle, a balancer has no upstream | `end_sessions`, `set_logins`, `set_password`; `SET idle_in_transaction_session_timeout` |
//! | a statement is cancelled | `cancel_statements`; a cancel request, `pg_cancel_backend` |
//! | a client falls behind | `set_max_buffered_bytes`, `fail_subscriptions` |
//! | a batch is too large | `set_max_result_size`; `ALTER SYSTEM SET max_result_size` |
//! | a dataflow fails | `poison` and `cure`; a view that divides by zero |
//! | history is lost | `compact`, `set_retention`, `set_clock`; `ALTER .. SET (RETAIN HISTORY ..)` |
//! | an index takes the place of an object | `create_index`; `CREATE INDEX`, before or while it is read |
//! | an object or its cluster goes away | `drop_object`, `drop_cluster`; `DROP ..` |
//! | names or definitions change | `swap_schemas`, `replace`; `ALTER SCHEMA .. SWAP`, `.. APPLY REPLACEMENT` |
//! | privileges are missing | `ALTER SYSTEM SET enable_rbac_checks`, `GRANT`, `REVOKE` |
//! | the catalog does not answer | `fail_catalog` |
//! | one AS OF for several objects is in the past | `set_serializable_lag` |

use crate::error::SqlError;

/// An error of the server's, to be handed to clients by a [`Control`](crate::Control) call.
///
/// The constructors have the codes and texts of real servers.
#[derive(Debug, Clone)]
pub struct Failure(SqlError);

impl Failure {
    /// Any SQLSTATE and text.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self(SqlError::new(code, message))
    }

    /// The client did not read fast enough, and the server stopped keeping rows for it.
    pub fn fell_behind() -> Self {
        Self::new("53200", FELL_BEHIND)
    }

    /// [`Failure::fell_behind`] with the SQLSTATE that some versions have.
    pub fn fell_behind_as_internal_error() -> Self {
        Self::new("XX000", FELL_BEHIND)
    }

    /// The text of versions after the recorded one for a dropped object.
    pub fn relation_dropped_on_later_versions(name: &str) -> Self {
        Self::new("42704", format!("relation '{name}' was dropped"))
    }

    /// The text of versions after the recorded one for a batch over `max_result_size`.
    pub fn result_too_large_on_later_versions(limit: &str) -> Self {
        Self::new("XX000", format!("total result exceeds max size of {limit}"))
    }

    /// Credentials that were good are good no more.
    pub fn authentication_expired() -> Self {
        Self(SqlError::fatal("28000", "authentication expired"))
    }

    /// A balancer in front of a server that is not there yet.
    pub fn no_upstream() -> Self {
        Self(SqlError::fatal("08004", "upstream server not available"))
    }

    /// The cluster of the catalog has no replica; subscriptions are not concerned.
    pub fn no_catalog_replica() -> Self {
        let text = "CLUSTER \"mz_catalog_server\" has no replicas available to service request";
        Self::new("0A000", text)
    }

    /// A session that idled in its transaction for too long.
    pub fn idle_in_transaction() -> Self {
        let text = "terminating connection due to idle-in-transaction timeout";
        Self(SqlError::fatal("25P03", text))
    }

    pub(crate) fn error(&self) -> SqlError {
        self.0.clone()
    }

    /// The same, ending the session.
    pub(crate) fn fatal(&self) -> SqlError {
        let mut error = self.error();
        error.severity = "FATAL";
        error
    }
}

/// How a server goes on after the first three words is not recorded; nothing may depend on it.
const FELL_BEHIND: &str = "SUBSCRIBE fell behind: the client does not read fast enough";

/// What happens to new connections.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Logins {
    /// They may log in.
    #[default]
    Accepted,
    /// Their sockets are closed without a word: the server is not there.
    Closed,
    /// They are told this, and closed.
    Refused(Failure),
}

/// The faults of one object.
#[derive(Default)]
pub(crate) struct Faults {
    /// Its dataflow fails, now and whenever it is started, until this is taken away.
    pub(crate) poison: Option<Failure>,
    /// Its streams say nothing.
    pub(crate) stalled: bool,
    /// Subscriptions started under a smaller number have failed.
    pub(crate) generation: u64,
    pub(crate) failure: Option<Failure>,
    /// The next subscription's connection closes after this many bytes.
    pub(crate) cut_next_after: Option<u64>,
}
