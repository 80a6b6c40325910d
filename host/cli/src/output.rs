//! The only place that writes to standard output and standard error.
//!
//! `println!` and `eprintln!` panic when the reader has gone, as `head` does: they are denied in
//! this crate. What comes from servers and components goes through [`one_line`] or [`json`] first.

use std::io::{self, ErrorKind, Write};

use crate::exit::Failure;

/// Writes to standard output. A reader that has seen enough is no failure.
///
/// # Errors
/// When it cannot be written for any other reason, such as a full disk.
pub fn print(text: &str) -> Result<(), Failure> {
    write(io::stdout().lock(), text)
}

fn write(mut out: impl Write, text: &str) -> Result<(), Failure> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::failed(
            "output",
            format!(
                "cannot write to standard output: {error}; check the file or device that it goes \
                 to"
            ),
        )),
        _ => Ok(()),
    }
}

/// Writes a line for people to standard error.
///
/// # Errors
/// When nobody can read it any more. There is no other place to tell, so most callers go on.
pub fn tell(line: &str) -> io::Result<()> {
    let mut line = one_line(line);
    line.push('\n');
    io::stderr().lock().write_all(line.as_bytes())
}

/// Where log lines go: standard error. A reader that has gone stops the log, not the program.
pub struct Log {
    /// Whether the lines are JSON.
    pub json: bool,
}

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let written = match std::str::from_utf8(line) {
            Ok(text) if self.json => io::stderr().lock().write_all(json(text).as_bytes()),
            _ => io::stderr().lock().write_all(line),
        };
        // Nobody is left to tell.
        drop(written);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a character could end a line, control a terminal, or turn the direction of writing.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text of somebody else as a part of one line: a line break and the indent after it become one
/// space, and what could control a terminal is shown as `\u{1b}`.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut after_break = false;
    for c in text.trim_end().chars() {
        match c {
            '\n' | '\r' | '\t' | '\u{2028}' | '\u{2029}' => {
                if !line.ends_with(' ') {
                    line.push(' ');
                }
                after_break = true;
                continue;
            }
            ' ' if after_break => continue,
            c if is_unsafe(c) => line.extend(c.escape_unicode()),
            c => line.push(c),
        }
        after_break = false;
    }
    line
}

/// JSON that means the same and cannot control a terminal. Newlines between values stay.
pub fn json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && is_unsafe(c) {
            // All of them are in strings, where JSON allows this form, and below U+10000.
            safe.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            safe.push(c);
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_failure_but_a_full_disk_is() {
        write(Broken(ErrorKind::BrokenPipe), "text").unwrap();
        write(Broken(ErrorKind::StorageFull), "text").unwrap_err();
    }

    #[test]
    fn a_text_of_somebody_else_stays_on_one_line_and_controls_nothing() {
        for (text, line) in [
            ("plain: 'é' {x}", "plain: 'é' {x}"),
            ("first\n\tsecond \r\n  third\n", "first second third"),
            ("two  spaces", "two  spaces"),
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("a\u{9b}2Jb\u{7}", "a\\u{9b}2Jb\\u{7}"),
            ("a\u{202e}b\u{2028}c", "a\\u{202e}b c"),
        ] {
            assert_eq!(one_line(text), line);
        }
    }

    #[test]
    fn safe_json_means_the_same() {
        let value = serde_json::json!({ "a": "\u{9b}2J\u{202e}\u{1b}\nb" });
        let safe = json(&format!("{value}\n"));
        assert!(!safe.trim_end().chars().any(is_unsafe), "{safe:?}");
        let read: serde_json::Value = serde_json::from_str(&safe).unwrap();
        assert_eq!(read, value);
    }
}
