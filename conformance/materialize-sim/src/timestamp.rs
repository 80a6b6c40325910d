//! Which timestamps an object can be read at, and how the server refuses the others.

use crate::error::SqlError;
use crate::object::{DEFAULT_RETENTION_MS, Object};
use crate::world::World;

/// Checks `as_of` against the read frontier, that of an index in `cluster` included.
///
/// # Errors
/// 22000 with the constraints, if the history is gone.
pub(crate) fn no_valid_timestamp(
    world: &World,
    object: &Object,
    cluster: &str,
    as_of: u64,
) -> Result<(), SqlError> {
    let frontiers = object.frontiers();
    let id = object.id();
    let indexes = &world.inner().indexes;
    let index = indexes.iter().find(|i| i.on == id && i.cluster == cluster);
    let (inputs, since) = match (index, frontiers.upper) {
        // The dataflow reads the index, whatever the object retains.
        (Some(index), Some(upper)) => (
            format!("Indexed inputs: [(u1, u{})]", index.id),
            frontiers
                .since
                .max(upper.saturating_sub(DEFAULT_RETENTION_MS) / 1000 * 1000)
                .max(index.created_at.min(upper - 1)),
        ),
        _ => (
            format!("Storage inputs: [{}]", object.catalog_id()),
            frontiers.since,
        ),
    };
    if as_of >= since {
        return Ok(());
    }
    let width = since.to_string().len();
    let show = |time: u64| format!("{time:>width$} ({})", date(time));
    Err(
        SqlError::new("22000", "could not find a valid timestamp for the query").detail(format!(
            "Constraints:\nlower:\n  ({inputs}): [{}]\nupper:\n  (Query's AS OF): [{}]\n",
            show(since),
            show(as_of),
        )),
    )
}

/// `2026-12-01 00:16:12.000` for milliseconds since the epoch.
pub(crate) fn date(time: u64) -> String {
    let (days, ms) = (time / 86_400_000, time % 86_400_000);
    // Civil date from days since the epoch, counted in 400-year eras that start in March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, ms) = (ms / 1000 % 60, ms % 1000);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{ms:03}")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_those_a_real_server_printed() {
        assert_eq!(date(1_796_084_172_000), "2026-12-01 00:16:12.000");
        assert_eq!(date(20), "1970-01-01 00:00:00.020");
        assert_eq!(date(951_782_400_000), "2000-02-29 00:00:00.000");
    }
}
