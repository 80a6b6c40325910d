//! Whether an object can be read by a sink as it is.

use std::time::Duration;

use super::{CatalogError, Frontiers, Object};
use crate::types::{CLOSED, Frontier};

/// A checkpoint may be this much ahead of what the catalog says of an object, in milliseconds:
/// the catalog lags by a second or two.
const CATALOG_LAG_MS: u64 = 60_000;

impl Object {
    /// An index would be read instead, and has no history.
    ///
    /// # Errors
    /// [`CatalogError::Indexed`].
    pub fn check_index(&self) -> Result<(), CatalogError> {
        match self.index.clone() {
            None => Ok(()),
            Some(index) => Err(CatalogError::Indexed {
                object: self.name(),
                index,
            }),
        }
    }

    /// Several objects are read at one time only if their times are of one kind.
    ///
    /// # Errors
    /// [`CatalogError::OwnTimeline`].
    pub fn check_timeline(&self, views: usize) -> Result<(), CatalogError> {
        match self.has_own_timeline && views > 1 {
            true => Err(CatalogError::OwnTimeline(self.name())),
            false => Ok(()),
        }
    }

    /// History must outlast a failure that is waited out, `needed`. `kind` is that in SQL.
    ///
    /// # Errors
    /// [`CatalogError::ShortRetention`].
    pub fn check_retention(&self, kind: &str, needed: Duration) -> Result<(), CatalogError> {
        match self.retention < needed {
            true => Err(CatalogError::ShortRetention {
                object: self.sql_name(),
                kind: kind.into(),
                kept: self.retention,
                needed,
                advice: needed.as_secs().div_ceil(3600).max(1),
            }),
            false => Ok(()),
        }
    }

    /// A frontier that the object has not reached was not committed on this server.
    ///
    /// # Errors
    /// [`CatalogError::CheckpointAhead`]; [`CatalogError::GoesOn`].
    pub fn check_reached(&self, from: Frontier) -> Result<(), CatalogError> {
        match self.frontiers {
            Some(found) if from > found.write.saturating_add(CATALOG_LAG_MS) => Err(match from {
                CLOSED => CatalogError::GoesOn(self.name()),
                frontier => CatalogError::CheckpointAhead {
                    object: self.name(),
                    frontier,
                    write: found.write,
                },
            }),
            _ => Ok(()),
        }
    }

    /// A first run begins with a snapshot of now, which must be below `up_to`.
    ///
    /// # Errors
    /// [`CatalogError::Over`].
    pub fn check_not_over(&self, up_to: Frontier) -> Result<(), CatalogError> {
        match self.frontiers {
            Some(found) if found.write != CLOSED && up_to < found.write => {
                Err(CatalogError::Over {
                    object: self.name(),
                    up_to,
                    write: found.write,
                })
            }
            _ => Ok(()),
        }
    }

    /// Whether the history behind `committed` may be gone after a stop of `needed`, `found` being
    /// the frontiers a moment ago.
    ///
    /// A young object remembers less than it will: its history does not shrink until it is as
    /// long as it may be.
    pub fn is_margin_low(&self, found: Frontiers, committed: Frontier, needed: Duration) -> bool {
        let as_of = i128::from(committed) - 1;
        let (read, write) = (i128::from(found.read), i128::from(found.write));
        let oldest = read.min(write - self.retention.as_millis() as i128);
        as_of < read || as_of - oldest < needed.as_millis() as i128
    }
}
