//! Several views at one time: what may be released of all of them together.
//!
//! A commit is a consistent cut: for every view exactly what is below one frontier. The joint
//! frontier is the least of the views', and a snapshot of any view is a cut by itself, together
//! with the changes of the others up to it.

use crate::planted::{self, Planted};
use crate::release::{Held, Segment};
use crate::types::{Frontier, Timestamp};

#[cfg(test)]
mod tests;

/// Segments taken for a batch.
#[derive(Clone, Debug)]
pub struct Taken {
    /// View by view, each in time order.
    pub segments: Vec<Segment>,
    /// Everything below it that was held is in `segments`.
    pub upper: Frontier,
    /// The time of the snapshots in it, if there are any.
    pub snapshot_at: Option<Timestamp>,
    /// The views whose rows are a whole snapshot.
    pub snapshot_of: Vec<u32>,
}

/// The frontier below which everything is closed in every view; `None` until there is one.
pub fn closed(views: &[Held]) -> Option<Frontier> {
    if planted::is(Planted::LargestFrontier) {
        return views.iter().filter_map(Held::closed).max();
    }
    views
        .iter()
        .map(Held::closed)
        .try_fold(Frontier::MAX, |least, closed| Some(least.min(closed?)))
}

/// Whether changes below the joint frontier are held.
pub fn has_closed_rows(views: &[Held]) -> bool {
    closed(views).is_some_and(|closed| views.iter().any(|held| held.has_rows_below(closed)))
}

/// Takes what is closed in every view: at most about `max_bytes` of each, but whole timestamps.
/// `lower` is where the last cut was. `None` when nothing is closed beyond it, or when rows that
/// lie across the joint frontier have to wait.
///
/// The unit of the split is a segment, so a `max_bytes` below
/// [`CHUNK_BYTES`](crate::release::CHUNK_BYTES) acts like it.
pub fn take(views: &mut [Held], lower: Option<Frontier>, max_bytes: usize) -> Option<Taken> {
    let closed = closed(views)?;
    let snapshot_at = views.iter().find_map(Held::snapshot_at);
    let upper = match snapshot_at {
        // The snapshots are at one time, and the segments of the other views end there.
        Some(as_of) if closed > as_of => as_of.saturating_add(1),
        Some(_) => return None,
        None => {
            let split = common_cut(views, closed, max_bytes);
            // A limit in one view can fall into the middle of a segment of another: then only
            // what is closed counts.
            if lower.is_some_and(|lower| split <= lower) {
                common_cut(views, closed, usize::MAX)
            } else {
                split
            }
        }
    };
    // A snapshot just below the last cut moves no frontier, and replaces what is there.
    if lower.is_some_and(|lower| upper < lower || (upper == lower && snapshot_at.is_none())) {
        return None;
    }
    let snapshot_of = views.iter().zip(0..);
    let snapshot_of = snapshot_of.filter(|(held, _)| held.snapshot_at().is_some());
    Some(Taken {
        snapshot_at,
        snapshot_of: snapshot_of.map(|(_, view)| view).collect(),
        upper: if planted::is(Planted::FrontierOfHeld) {
            closed
        } else {
            upper
        },
        segments: views
            .iter_mut()
            .flat_map(|held| held.take_below(upper))
            .collect(),
    })
}

/// The greatest frontier at which every view can be cut.
fn common_cut(views: &[Held], closed: Frontier, max_bytes: usize) -> Frontier {
    let mut upper = closed;
    loop {
        let least = views
            .iter()
            .map(|held| held.cut_at(upper, max_bytes))
            .min()
            .unwrap_or(upper);
        if least >= upper {
            return upper;
        }
        upper = least;
    }
}
