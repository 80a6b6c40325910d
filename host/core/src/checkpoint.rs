//! The checkpoint: one opaque text in the target, of which only the host reads the inside.
//!
//! Canonical JSON (RFC 8785), so that equal checkpoints are equal texts. Format 1 is pinned by
//! `conformance/vectors/checkpoint.json`.

use serde::{Deserialize, Serialize};

use crate::types::{Envelope, Frontier};

/// The format that this version writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// Where epochs and generations end: JSON numbers are exact up to here.
const COUNTER_END: u64 = 1 << 53;

/// No store has to keep more.
pub const MAX_BYTES: usize = 64 * 1024;

/// As much of somebody else's sink id is shown, in characters.
const SHOWN: usize = 64;

/// Where a sink stands, and on what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The format of this text.
    pub format: u32,
    /// The deployment it belongs to.
    pub sink_id: String,
    /// The epoch of the worker that wrote it.
    pub epoch: u64,
    /// Makes each text unique, so that a write that lands late is recognised.
    pub nonce: String,
    /// Raised by each worker that starts before the first commit, when it claims its epoch, so
    /// before the first row of its snapshot.
    pub generation: u64,
    /// Every change below it is committed; `None` before the first commit. A string in the text:
    /// JSON numbers stop being exact at 2^53.
    #[serde(with = "frontier_text")]
    pub frontier: Option<Frontier>,
    /// The digest of the component that wrote it.
    pub component: String,
    /// What was subscribed.
    pub views: Vec<ViewIdentity>,
}

/// What was subscribed, precisely enough to notice that it is no longer the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewIdentity {
    /// The view's name in the configuration.
    pub name: String,
    /// The object's full name.
    pub object: String,
    /// Its catalog id, such as `u7`. A replacement changes it.
    pub id: String,
    /// Its storage shard; the same shard means the same history.
    pub shard: Option<String>,
    /// How changes are asked for.
    pub envelope: Envelope,
    /// Key columns, in order.
    pub key: Vec<String>,
    /// Column names and SQL types, in order.
    pub columns: Vec<(String, String)>,
}

/// Why a stored checkpoint cannot be used. Never contains the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// Larger than a checkpoint can be.
    #[error(
        "the stored checkpoint has {0} bytes; at most {MAX_BYTES} are possible, so this is not a checkpoint of ours"
    )]
    TooLong(usize),
    /// Cut, edited by hand, or written by something else.
    #[error(
        "the stored checkpoint cannot be read ({0}); restore it, or delete it to start again with a snapshot"
    )]
    Unreadable(String),
    /// Written by a later version.
    #[error(
        "the stored checkpoint has format {found}; this version reads up to {FORMAT}: run the newer version again, or a newer one than that"
    )]
    NewerFormat {
        /// In the text.
        found: u32,
    },
    /// Two deployments share one place.
    #[error(
        "the stored checkpoint belongs to sink id {found:?}, not {expected:?}: give this deployment its own place in the target, or its former sink id"
    )]
    OtherSink {
        /// In the text.
        found: String,
        /// Configured.
        expected: String,
    },
}

impl Checkpoint {
    /// The text to store.
    ///
    /// # Errors
    /// [`CheckpointError::TooLong`] when there are more columns than a checkpoint can name.
    pub fn encode(&self) -> Result<String, CheckpointError> {
        let text = serde_json_canonicalizer::to_string(self)
            .map_err(|e| CheckpointError::Unreadable(e.to_string()))?;
        if text.len() > MAX_BYTES {
            return Err(CheckpointError::TooLong(text.len()));
        }
        Ok(text)
    }

    /// Reads a stored text.
    ///
    /// # Errors
    /// When it is not a checkpoint of `sink_id` in a format that this version knows.
    pub fn parse(text: &str, sink_id: &str) -> Result<Self, CheckpointError> {
        /// Read first, so that a newer format is named rather than called broken.
        #[derive(Deserialize)]
        struct Versioned {
            format: u32,
        }
        if text.len() > MAX_BYTES {
            return Err(CheckpointError::TooLong(text.len()));
        }
        // Only the position of a syntax error is told: its text could quote the content.
        let unreadable = |e: serde_json::Error| {
            CheckpointError::Unreadable(format!("at line {}, column {}", e.line(), e.column()))
        };
        let Versioned { format } = serde_json::from_str(text).map_err(unreadable)?;
        if format > FORMAT {
            return Err(CheckpointError::NewerFormat { found: format });
        }
        if format == 0 {
            return Err(CheckpointError::Unreadable(
                "format 0 does not exist".into(),
            ));
        }
        let checkpoint: Self = serde_json::from_str(text).map_err(unreadable)?;
        if checkpoint.sink_id != sink_id {
            return Err(CheckpointError::OtherSink {
                found: checkpoint.sink_id.chars().take(SHOWN).collect(),
                expected: sink_id.into(),
            });
        }
        // Counted up one by one, neither gets there; an edit does.
        if checkpoint.epoch >= COUNTER_END || checkpoint.generation >= COUNTER_END {
            return Err(CheckpointError::Unreadable(
                "its epoch or generation is out of range".into(),
            ));
        }
        if checkpoint.views.is_empty() {
            return Err(CheckpointError::Unreadable("it names no view".into()));
        }
        Ok(checkpoint)
    }
}

mod frontier_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[allow(
        clippy::ref_option,
        reason = "the signature that serde's `with` asks for"
    )]
    pub fn serialize<S: Serializer>(frontier: &Option<u64>, s: S) -> Result<S::Ok, S::Error> {
        match frontier {
            Some(frontier) => s.collect_str(frontier),
            None => s.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
        Option::<String>::deserialize(d)?
            .map(|text| text.parse().map_err(|_| D::Error::custom("not a frontier")))
            .transpose()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn any_checkpoint() -> impl Strategy<Value = Checkpoint> {
        let text = ".{0,12}";
        let view = (
            text,
            text,
            prop::option::of(text),
            any::<bool>(),
            prop::collection::vec((text, text), 0..4),
        )
            .prop_map(|(name, object, shard, is_diff, columns)| ViewIdentity {
                name,
                object,
                id: "u1".into(),
                shard,
                envelope: if is_diff {
                    Envelope::Diff
                } else {
                    Envelope::Upsert
                },
                key: columns.iter().map(|(name, _)| name.clone()).collect(),
                columns,
            });
        let counter = 0..COUNTER_END;
        (
            counter.clone(),
            counter,
            prop::option::of(any::<u64>()),
            text,
            prop::collection::vec(view, 1..3),
        )
            .prop_map(|(epoch, generation, frontier, nonce, views)| Checkpoint {
                format: FORMAT,
                sink_id: "s".into(),
                epoch,
                nonce,
                generation,
                frontier,
                component: "sha256:0".into(),
                views,
            })
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused_without_being_quoted(text in ".{0,400}") {
            if let Err(error) = Checkpoint::parse(&text, "s") {
                prop_assert!(error.to_string().len() < 300);
            }
        }

        #[test]
        fn what_is_written_is_read_and_written_again_as_the_same_text(written in any_checkpoint()) {
            let text = written.encode().unwrap();
            let read = Checkpoint::parse(&text, "s").unwrap();
            prop_assert_eq!(&read, &written);
            prop_assert_eq!(read.encode().unwrap(), text);
        }

        /// One character replaced or taken out: it is refused, or means something else; never is
        /// it another text of the same meaning that we would have written.
        #[test]
        fn an_edit_is_noticed(written in any_checkpoint(), at in any::<prop::sample::Index>(), to in prop::option::of(any::<char>())) {
            let text = written.encode().unwrap();
            let mut edited: Vec<char> = text.chars().collect();
            let at = at.index(edited.len());
            match to {
                Some(to) => edited[at] = to,
                None => { edited.remove(at); }
            }
            let edited: String = edited.into_iter().collect();
            if let Ok(read) = Checkpoint::parse(&edited, "s")
                && edited != text
            {
                prop_assert!(read != written || read.encode().unwrap() != edited);
            }
        }
    }
}
