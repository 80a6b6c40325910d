//! Why an object cannot be subscribed to, each with the remedy.

use std::time::Duration;

/// Why an object cannot be subscribed to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// A name with more than three parts, or none.
    #[error(
        "source.object: {0:?} is not a name of the form database.schema.object (quote parts that hold dots: \"my.db\".public.t)"
    )]
    BadName(String),
    /// No such object.
    #[error(
        "source.object: there is no object {0:?} in Materialize, or this user may not see it; check the name and the database in materialize.url"
    )]
    Unknown(String),
    /// An object that was there before.
    #[error(
        "{0} is no longer there: it was dropped or renamed; create it again and set source.refollow = true, to read it anew into the same target, or use a new sink_id to start again with a snapshot"
    )]
    Dropped(String),
    /// A short name that several objects have.
    #[error(
        "source.object: {name:?} is the name of several objects ({found}); write it as database.schema.object"
    )]
    Ambiguous {
        /// Configured.
        name: String,
        /// The full names.
        found: String,
    },
    /// Not something with a history that a resume can use.
    #[error(
        "source.object: {name} is a {kind}, and only a table, a source or a materialized view keeps the history that a restart resumes from; {remedy}"
    )]
    NotDurable {
        /// The object.
        name: String,
        /// As the catalog calls it.
        kind: String,
        /// What to do.
        remedy: String,
    },
    /// A key column that is not there.
    #[error("source.key: {object} has no column {column:?}; it has {columns}")]
    NoKeyColumn {
        /// The object.
        object: String,
        /// Configured.
        column: String,
        /// What there is.
        columns: String,
    },
    /// The upsert envelope without a key.
    #[error(
        "source.key is missing: the sink wants the upsert envelope, which needs the columns that identify a row of {object}; they are among {columns}"
    )]
    NoKey {
        /// The object.
        object: String,
        /// What there is.
        columns: String,
    },
    /// An index serves reads with a one-second history.
    #[error(
        "{object} has the index {index} in this cluster, and a SUBSCRIBE would read the index, which keeps one second of history; drop the index, or set materialize.cluster to a cluster without one"
    )]
    Indexed {
        /// The object.
        object: String,
        /// The index.
        index: String,
    },
    /// History shorter than a failure that the retry policy waits out.
    #[error(
        "{object} keeps {kept:?} of history, but commits may lag by {needed:?} (commit.interval and the retry budget); run: ALTER {kind} {object} SET (RETAIN HISTORY FOR '{advice}h'), or set source.allow_short_retention = true"
    )]
    ShortRetention {
        /// The object.
        object: String,
        /// Its kind in SQL.
        kind: String,
        /// Kept.
        kept: Duration,
        /// Needed.
        needed: Duration,
        /// Hours that would do, at least 1.
        advice: u64,
    },
    /// An answer without the columns that were asked for.
    #[error(
        "the catalog answered {0} in an unexpected shape; this Materialize version may not be supported"
    )]
    Shape(&'static str),
    /// Other columns than the checkpoint was written for.
    #[error(
        "the columns of {object} have changed since the checkpoint was written: {difference}; use a new sink_id to start again with a snapshot"
    )]
    SchemaMismatch {
        /// The object.
        object: String,
        /// Which.
        difference: String,
    },
    /// Another object has the name now.
    #[error(
        "{object} is another object than the checkpoint was written for (its storage changed from {from} to {to}): it was swapped or recreated; set source.refollow = true to read it anew into the same target, or use a new sink_id to start again with a snapshot"
    )]
    Replaced {
        /// The object.
        object: String,
        /// Then.
        from: String,
        /// Now.
        to: String,
    },
    /// The configuration has changed in a way that the target's contents do not survive.
    #[error(
        "{setting} is {now} but the checkpoint was written with {then}; put it back, or use a new sink_id to start again with a snapshot"
    )]
    ConfigurationChanged {
        /// Which setting.
        setting: &'static str,
        /// Configured.
        now: String,
        /// In the checkpoint.
        then: String,
    },
    /// Times that cannot be compared with those of the other views.
    #[error(
        "{0} has its times from a source with ENVELOPE MATERIALIZE, and cannot be read at one time with other objects; give it a sink of its own"
    )]
    OwnTimeline(String),
    /// Two views with one name.
    #[error(
        "two objects have the name {0:?} for the sink; give one of them another by source.name"
    )]
    SameName(String),
    /// The checkpoint is of other views.
    #[error(
        "the checkpoint was written for {then}, and the configuration has {now}; put it back, or use a new sink_id to start again with a snapshot"
    )]
    OtherViews {
        /// Views in the checkpoint.
        then: String,
        /// Views in the configuration.
        now: String,
    },
    /// The end lies before the beginning.
    #[error(
        "source.up_to is {up_to}, and {object} is already at {write}: a first run begins with a snapshot of now, so there is nothing before that to read; choose a later time"
    )]
    Over {
        /// The object.
        object: String,
        /// Configured.
        up_to: u64,
        /// Of the object.
        write: u64,
    },
    /// A cluster that is not there.
    #[error(
        "materialize.cluster: there is no cluster {name:?}; name one that is there ({known}), or create it"
    )]
    NoCluster {
        /// That of the session.
        name: String,
        /// What there is.
        known: String,
    },
    /// A checkpoint that is ahead of the object.
    #[error(
        "the checkpoint is at {frontier}, and {object} has only got to {write}: this is not the Materialize that it was written for, or that one was restored, or the checkpoint was edited, or the object is new and still being filled. Nothing would be written until that time; use a new sink_id to start again with a snapshot"
    )]
    CheckpointAhead {
        /// The object.
        object: String,
        /// In the checkpoint.
        frontier: u64,
        /// Of the object.
        write: u64,
    },
    /// An object that was complete has changes again.
    #[error(
        "the checkpoint says that {0} is complete and never changes again, and now it does: it is another object; use a new sink_id to start again with a snapshot"
    )]
    GoesOn(String),
}
