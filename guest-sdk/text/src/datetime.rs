//! Dates and times between Materialize's text form and numbers, over its whole range.
//!
//! Calendar libraries stop at the year 9999; Materialize goes from 4713 BC to 262142 AD. The
//! civil-day arithmetic is the proleptic Gregorian calendar in eras of 400 years.

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Days since 1970-01-01 of a civil date; `year` is astronomical (1 BC is 0).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

fn number(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    text.iter().try_fold(0i64, |n, b| {
        b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0'))
    })
}

/// Splits a trailing ` BC` off.
fn strip_era(text: &[u8]) -> (&[u8], bool) {
    match text.strip_suffix(b" BC") {
        Some(rest) => (rest, true),
        None => (text, false),
    }
}

fn days(date: &[u8], bc: bool) -> Option<i64> {
    let mut parts = date.split(|b| *b == b'-');
    let (year, month, day) = (
        number(parts.next()?)?,
        number(parts.next()?)?,
        number(parts.next()?)?,
    );
    if parts.next().is_some() || year > 300_000 || !(1..=12).contains(&month) {
        return None;
    }
    let year = if bc { 1 - year } else { year };
    let days = days_from_civil(year, month, day);
    (civil_from_days(days) == (year, month, day)).then_some(days)
}

/// Parses a `date` to days since 1970-01-01; `None` when it is not one.
pub fn parse_date(text: &[u8]) -> Option<i64> {
    let (date, bc) = strip_era(text);
    days(date, bc)
}

/// Parses a `time` to microseconds since midnight.
pub fn parse_time(text: &[u8]) -> Option<i64> {
    let (clock, fraction) = match text.iter().position(|b| *b == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &b""[..]),
    };
    let mut parts = clock.split(|b| *b == b':');
    let (h, m, s) = (
        number(parts.next()?)?,
        number(parts.next()?)?,
        number(parts.next()?)?,
    );
    if parts.next().is_some() || h > 23 || m > 59 || s > 59 || fraction.len() > 6 {
        return None;
    }
    let micros = if fraction.is_empty() {
        0
    } else {
        number(fraction)? * 10i64.pow(6 - fraction.len() as u32)
    };
    Some(((h * 60 + m) * 60 + s) * MICROS_PER_SECOND + micros)
}

/// Parses a `timestamp`, or with `utc` a `timestamptz` in UTC (`+00`, as the session asks for),
/// to microseconds since 1970-01-01.
pub fn parse_timestamp(text: &[u8], utc: bool) -> Option<i64> {
    let (text, bc) = strip_era(text);
    let text = if utc {
        text.strip_suffix(b"+00")?
    } else {
        text
    };
    let space = text.iter().position(|b| *b == b' ')?;
    let days = days(&text[..space], bc)?;
    days.checked_mul(MICROS_PER_DAY)?
        .checked_add(parse_time(&text[space + 1..])?)
}

fn write_padded(out: &mut Vec<u8>, n: i64, width: usize) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(n).as_bytes();
    out.extend(std::iter::repeat_n(
        b'0',
        width.saturating_sub(digits.len()),
    ));
    out.extend_from_slice(digits);
}

fn write_civil(days: i64, out: &mut Vec<u8>) -> bool {
    let (year, month, day) = civil_from_days(days);
    let bc = year <= 0;
    write_padded(out, if bc { 1 - year } else { year }, 4);
    out.push(b'-');
    write_padded(out, month, 2);
    out.push(b'-');
    write_padded(out, day, 2);
    bc
}

/// Writes a `date` as Materialize would.
pub fn write_date(days: i64, out: &mut Vec<u8>) {
    if write_civil(days, out) {
        out.extend_from_slice(b" BC");
    }
}

/// Writes a `time` as Materialize would: as many fraction digits as needed.
pub fn write_time(micros: i64, out: &mut Vec<u8>) {
    let seconds = micros.div_euclid(MICROS_PER_SECOND);
    write_padded(out, seconds / 3600, 2);
    out.push(b':');
    write_padded(out, seconds / 60 % 60, 2);
    out.push(b':');
    write_padded(out, seconds % 60, 2);
    let mut fraction = micros.rem_euclid(MICROS_PER_SECOND);
    if fraction != 0 {
        let mut width = 6;
        while fraction % 10 == 0 {
            fraction /= 10;
            width -= 1;
        }
        out.push(b'.');
        write_padded(out, fraction, width);
    }
}

/// Writes a `timestamp`, or with `utc` a `timestamptz`, as Materialize would.
pub fn write_timestamp(micros: i64, utc: bool, out: &mut Vec<u8>) {
    let bc = write_civil(micros.div_euclid(MICROS_PER_DAY), out);
    out.push(b' ');
    write_time(micros.rem_euclid(MICROS_PER_DAY), out);
    if utc {
        out.extend_from_slice(b"+00");
    }
    if bc {
        out.extend_from_slice(b" BC");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(
        text: &str,
        parse: impl Fn(&[u8]) -> Option<i64>,
        write: impl Fn(i64, &mut Vec<u8>),
    ) {
        let number = parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} does not parse"));
        let mut out = Vec::new();
        write(number, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn dates_survive_over_the_whole_range() {
        for text in [
            "1970-01-01",
            "2024-02-29",
            "0001-01-01",
            "15000-12-31",
            "262142-12-31",
            "4713-01-01 BC",
            "0044-03-15 BC",
            "0001-12-31 BC",
        ] {
            through(text, parse_date, write_date);
        }
        assert_eq!(parse_date(b"1970-01-02"), Some(1));
        assert_eq!(parse_date(b"1969-12-31"), Some(-1));
    }

    #[test]
    fn timestamps_survive_with_microseconds_and_eras() {
        for text in [
            "2024-02-29 12:34:56.789012",
            "4713-01-01 00:00:00 BC",
            "15000-12-31 00:00:00",
            "2024-01-01 00:00:00.124",
            "262142-12-31 23:59:59.999999",
        ] {
            through(
                text,
                |t| parse_timestamp(t, false),
                |n, o| write_timestamp(n, false, o),
            );
        }
        for text in ["2024-02-29 07:04:56.789012+00", "0044-03-15 00:00:00+00 BC"] {
            through(
                text,
                |t| parse_timestamp(t, true),
                |n, o| write_timestamp(n, true, o),
            );
        }
    }

    #[test]
    fn times_survive() {
        for text in ["00:00:00", "23:59:59.999999", "12:00:00.5"] {
            through(text, parse_time, write_time);
        }
    }

    #[test]
    fn what_is_not_a_date_is_refused() {
        for text in [
            "",
            "2024-02-30",
            "2024-13-01",
            "2024-1",
            "x-01-01",
            "2024-01-01-01",
            "99999999-01-01",
        ] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_timestamp(b"2024-01-01 00:00:00+05", true), None);
        assert_eq!(parse_time(b"24:00:00"), None);
        assert_eq!(parse_time(b"12:00:00.1234567"), None);
    }
}
