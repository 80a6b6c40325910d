//! Dates and times as ISO 8601 text, for every value Materialize can have.

/// Appends `YYYY-MM-DD` for days since 1970-01-01. Years outside 0 to 9999 have a sign and at
/// least six digits, as ISO 8601 asks; year 0 is 1 BC.
pub(crate) fn push_date(days: i64, out: &mut Vec<u8>) {
    // Civil from days, with years that start in March: no table, no loop.
    let shifted = i128::from(days) + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i128::from(month <= 2);

    if (0..=9999).contains(&year) {
        push_padded(year as u64, 4, out);
    } else {
        out.push(if year < 0 { b'-' } else { b'+' });
        push_padded(year.unsigned_abs() as u64, 6, out);
    }
    out.push(b'-');
    push_padded(month as u64, 2, out);
    out.push(b'-');
    push_padded(day as u64, 2, out);
}

/// Appends `HH:MM:SS.ffffff` for microseconds since midnight: always six digits, so that text
/// sorts like time.
pub(crate) fn push_time(micros: i64, out: &mut Vec<u8>) {
    let micros = micros.unsigned_abs();
    let seconds = micros / 1_000_000;
    push_padded(seconds / 3600, 2, out);
    out.push(b':');
    push_padded(seconds / 60 % 60, 2, out);
    out.push(b':');
    push_padded(seconds % 60, 2, out);
    out.push(b'.');
    push_padded(micros % 1_000_000, 6, out);
}

/// Appends date, `T` and time for microseconds since 1970-01-01.
pub(crate) fn push_timestamp(micros: i64, out: &mut Vec<u8>) {
    const DAY: i64 = 86_400_000_000;
    push_date(micros.div_euclid(DAY), out);
    out.push(b'T');
    push_time(micros.rem_euclid(DAY), out);
}

/// Whether microseconds since 1970-01-01 are in the years 0 to 9999.
pub(crate) fn has_four_digit_year(micros: i64) -> bool {
    (-62_167_219_200_000_000..253_402_300_800_000_000).contains(&micros)
}

fn push_padded(value: u64, width: usize, out: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(value).as_bytes();
    out.resize(out.len() + width.saturating_sub(digits.len()), b'0');
    out.extend_from_slice(digits);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(push: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        push(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_are_iso_8601_also_far_away() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (19_782, "2024-02-29"),
            (11_016, "2000-02-29"),
            (4_759_475, "+015001-01-01"),
            (-719_528, "0000-01-01"),
            (-719_529, "-000001-12-31"),
            (2_932_896, "9999-12-31"),
        ] {
            assert_eq!(text(|out| push_date(days, out)), expected);
        }
    }

    #[test]
    fn timestamps_keep_microseconds() {
        assert_eq!(
            text(|out| push_timestamp(1_709_380_800_123_456, out)),
            "2024-03-02T12:00:00.123456"
        );
        assert_eq!(
            text(|out| push_timestamp(-1, out)),
            "1969-12-31T23:59:59.999999"
        );
    }

    #[test]
    fn extreme_counts_do_not_overflow() {
        for value in [i64::MIN, i64::MAX] {
            text(|out| push_date(value, out));
            text(|out| push_time(value, out));
            text(|out| push_timestamp(value, out));
        }
    }

    #[test]
    fn four_digit_years_end_where_the_date_says() {
        assert!(has_four_digit_year(253_402_300_799_999_999));
        assert!(!has_four_digit_year(253_402_300_800_000_000));
        assert!(has_four_digit_year(-62_167_219_200_000_000));
        assert!(!has_four_digit_year(-62_167_219_200_000_001));
    }
}
