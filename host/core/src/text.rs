//! One value between Materialize's text form and its place in a column.

use crate::chunk::{Value, Values};
use crate::datetime;
use crate::types::ColumnType;

/// Appends the value that `text` stands for; `None` when it is not of type `ty`.
/// Nothing is appended then.
pub(crate) fn push(values: &mut Values, ty: &ColumnType, text: &[u8]) -> Option<()> {
    match values {
        Values::Booleans(v) => v.push(match text {
            b"t" => 1,
            b"f" => 0,
            _ => return None,
        }),
        Values::Ints(v) => v.push(match ty {
            ColumnType::Date => datetime::parse_date(text)?,
            ColumnType::Time => datetime::parse_time(text)?,
            ColumnType::Timestamp => datetime::parse_timestamp(text, false)?,
            ColumnType::TimestampTz => datetime::parse_timestamp(text, true)?,
            _ => std::str::from_utf8(text).ok()?.parse().ok()?,
        }),
        Values::Uints(v) => v.push(std::str::from_utf8(text).ok()?.parse().ok()?),
        Values::Floats(v) => {
            let text = std::str::from_utf8(text).ok()?;
            v.push(match ty {
                // Parsed at its own width: the double nearest to a short decimal is not the
                // real that the server holds.
                ColumnType::Float32 => f64::from(text.parse::<f32>().ok()?),
                _ => text.parse().ok()?,
            });
        }
        Values::Texts(p) => {
            std::str::from_utf8(text).ok()?;
            p.push(text);
        }
        Values::Bytes(p) => {
            let digits = text.strip_prefix(b"\\x")?;
            if digits.len() % 2 != 0 || !digits.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            p.data.extend(
                digits
                    .chunks_exact(2)
                    .map(|d| nibble(d[0]) << 4 | nibble(d[1])),
            );
            p.offsets.push(p.data.len() as u32);
        }
    }
    Some(())
}

fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// Writes a value in Materialize's own text form. NULL writes nothing.
pub fn write(value: Value<'_>, ty: &ColumnType, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Boolean(b) => out.push(if b { b't' } else { b'f' }),
        Value::Int(n) => match ty {
            ColumnType::Date => datetime::write_date(n, out),
            ColumnType::Time => datetime::write_time(n, out),
            ColumnType::Timestamp => datetime::write_timestamp(n, false, out),
            ColumnType::TimestampTz => datetime::write_timestamp(n, true, out),
            _ => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
        },
        Value::Uint(n) => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
        Value::Float(x) => write_float(x, ty, out),
        Value::Text(t) => out.extend_from_slice(t),
        Value::Bytes(b) => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            out.extend_from_slice(b"\\x");
            for byte in b {
                out.push(DIGITS[usize::from(byte >> 4)]);
                out.push(DIGITS[usize::from(byte & 15)]);
            }
        }
    }
}

/// Writes the shortest text that reads back as the same value.
fn write_float(x: f64, ty: &ColumnType, out: &mut Vec<u8>) {
    if x.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if x.is_infinite() {
        out.extend_from_slice(if x > 0.0 { b"Infinity" } else { b"-Infinity" });
    } else if x == x.trunc() && x.abs() < 1e15 {
        if x == 0.0 && x.is_sign_negative() {
            out.push(b'-');
        }
        out.extend_from_slice(itoa::Buffer::new().format(x as i64).as_bytes());
    } else if *ty == ColumnType::Float32 {
        out.extend_from_slice(ryu::Buffer::new().format_finite(x as f32).as_bytes());
    } else {
        out.extend_from_slice(ryu::Buffer::new().format_finite(x).as_bytes());
    }
}
