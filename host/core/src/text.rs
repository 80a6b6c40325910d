//! One value between Materialize's text form and its place in a column.

use crate::chunk::{Value, Values};
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
            ColumnType::Date => mz_sink_text::parse_date(text)?,
            ColumnType::Time => mz_sink_text::parse_time(text)?,
            ColumnType::Timestamp => mz_sink_text::parse_timestamp(text, false)?,
            ColumnType::TimestampTz => mz_sink_text::parse_timestamp(text, true)?,
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
            mz_sink_text::parse_bytes(text, &mut p.data)?;
            p.offsets.push(p.data.len() as u32);
        }
    }
    Some(())
}

/// Writes a value in Materialize's own text form. NULL writes nothing.
pub fn write(value: Value<'_>, ty: &ColumnType, out: &mut Vec<u8>) {
    match value {
        Value::Null => {}
        Value::Boolean(b) => out.push(if b { b't' } else { b'f' }),
        Value::Int(n) => match ty {
            ColumnType::Date => mz_sink_text::write_date(n, out),
            ColumnType::Time => mz_sink_text::write_time(n, out),
            ColumnType::Timestamp => mz_sink_text::write_timestamp(n, false, out),
            ColumnType::TimestampTz => mz_sink_text::write_timestamp(n, true, out),
            _ => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
        },
        Value::Uint(n) => out.extend_from_slice(itoa::Buffer::new().format(n).as_bytes()),
        Value::Float(x) if *ty == ColumnType::Float32 => mz_sink_text::write_float32(x, out),
        Value::Float(x) => mz_sink_text::write_float64(x, out),
        Value::Text(t) => out.extend_from_slice(t),
        Value::Bytes(b) => mz_sink_text::write_bytes(b, out),
    }
}
