//! Floats and bytes.

/// Writes the shortest text that reads back as the same double.
pub fn write_float64(x: f64, out: &mut Vec<u8>) {
    write_float(x, out, |x, out| {
        out.extend_from_slice(ryu::Buffer::new().format_finite(x).as_bytes());
    });
}

/// Writes the shortest text that reads back as the same real; `x` holds a widened real.
pub fn write_float32(x: f64, out: &mut Vec<u8>) {
    write_float(x, out, |x, out| {
        out.extend_from_slice(ryu::Buffer::new().format_finite(x as f32).as_bytes());
    });
}

fn write_float(x: f64, out: &mut Vec<u8>, finite: impl FnOnce(f64, &mut Vec<u8>)) {
    if x.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if x.is_infinite() {
        out.extend_from_slice(if x > 0.0 { b"Infinity" } else { b"-Infinity" });
    } else if x == x.trunc() && x.abs() < 1e15 {
        if x == 0.0 && x.is_sign_negative() {
            out.push(b'-');
        }
        out.extend_from_slice(itoa::Buffer::new().format(x as i64).as_bytes());
    } else {
        finite(x, out);
    }
}

/// Writes `bytea` in hexadecimal, as `\x00ff`.
pub fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\x");
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Appends what a `bytea` text stands for; `None`, with nothing appended, when it is not one.
pub fn parse_bytes(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let digits = text.strip_prefix(b"\\x")?;
    if digits.len() % 2 != 0 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let nibble = |digit: u8| match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    };
    out.extend(
        digits
            .chunks_exact(2)
            .map(|d| nibble(d[0]) << 4 | nibble(d[1])),
    );
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_their_shortest_text() {
        let texts = |x: f64| {
            let (mut narrow, mut wide) = (Vec::new(), Vec::new());
            write_float32(x, &mut narrow);
            write_float64(x, &mut wide);
            (
                String::from_utf8(narrow).unwrap(),
                String::from_utf8(wide).unwrap(),
            )
        };
        assert_eq!(texts(f64::from(0.1f32)).0, "0.1");
        assert_eq!(texts(0.1).1, "0.1");
        assert_eq!(texts(-0.0).1, "-0");
        assert_eq!(texts(f64::NEG_INFINITY).1, "-Infinity");
        assert_eq!(texts(f64::NAN).0, "NaN");
        assert_eq!(texts(3.0).1, "3");
    }

    #[test]
    fn bytes_survive() {
        let mut bytes = Vec::new();
        assert_eq!(parse_bytes(b"\\x00ff10", &mut bytes), Some(()));
        let mut text = Vec::new();
        write_bytes(&bytes, &mut text);
        assert_eq!(text, b"\\x00ff10");
        for bad in [&b"00"[..], b"\\x0", b"\\xzz"] {
            assert_eq!(parse_bytes(bad, &mut bytes), None);
        }
    }
}
