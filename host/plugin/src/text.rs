//! Making a guest's texts safe to print.

/// `text` without control characters, cut to at most `max` bytes between characters.
/// The characters that change the direction of writing count as control characters: they can
/// make a log line read differently from what it says.
pub(crate) fn clean(text: &str, max: usize) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let hidden = c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if hidden {
            continue;
        }
        if out.len() + c.len_utf8() > max {
            break;
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_move_the_cursor_or_turn_the_line_is_left_out() {
        assert_eq!(clean("a\r\n\u{1b}[2Jb\u{202e}c\u{9b}d", 100), "a[2Jbcd");
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(clean("aéé", 4), "aé");
        assert_eq!(clean("aéé", 5), "aéé");
    }
}
