//! SQL text into tokens.

use crate::error::SqlError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A bare word, in lower case.
    Word,
    /// A "quoted" name.
    Quoted,
    /// A 'string', its escapes resolved.
    Text,
    Number,
    Symbol,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    /// Byte range in the statement.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Token {
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(word)
    }

    pub(crate) fn is_symbol(&self, symbol: &str) -> bool {
        self.kind == Kind::Symbol && self.text == symbol
    }

    pub(crate) fn is_name(&self) -> bool {
        matches!(self.kind, Kind::Word | Kind::Quoted)
    }
}

/// The tokens of each statement of `sql`; empty statements are left out.
pub(crate) fn statements(sql: &str) -> Result<Vec<Vec<Token>>, SqlError> {
    let mut all = Vec::new();
    let mut current = Vec::new();
    let mut at = 0;
    while let Some(token) = next_token(sql, at)? {
        at = token.end;
        if token.is_symbol(";") {
            all.push(std::mem::take(&mut current));
        } else {
            current.push(token);
        }
    }
    all.push(current);
    all.retain(|statement| !statement.is_empty());
    Ok(all)
}

fn skip_blank(sql: &str, mut at: usize) -> usize {
    loop {
        let rest = &sql[at..];
        let blank = rest.len() - rest.trim_start().len();
        if blank > 0 {
            at += blank;
        } else if rest.starts_with("--") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else {
            return at;
        }
    }
}

fn next_token(sql: &str, at: usize) -> Result<Option<Token>, SqlError> {
    let start = skip_blank(sql, at);
    let rest = &sql[start..];
    let mut chars = rest.chars();
    let Some(first) = chars.next() else {
        return Ok(None);
    };
    let second = chars.next();
    let token = |kind, text: String, length: usize| {
        Ok(Some(Token {
            kind,
            text,
            start,
            end: start + length,
        }))
    };
    match (first, second) {
        ('e' | 'E', Some('\'')) => {
            let (text, length) = quoted(&rest[1..], '\'', true)?;
            token(Kind::Text, text, length + 1)
        }
        ('\'', _) => {
            let (text, length) = quoted(rest, '\'', false)?;
            token(Kind::Text, text, length)
        }
        ('"', _) => {
            let (text, length) = quoted(rest, '"', false)?;
            token(Kind::Quoted, text, length)
        }
        (c, _) if c.is_alphabetic() || c == '_' => {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$');
            let word = &rest[..end.unwrap_or(rest.len())];
            token(Kind::Word, word.to_lowercase(), word.len())
        }
        (c, _) if c.is_ascii_digit() => {
            let mut end = rest.len();
            for (position, c) in rest.char_indices() {
                let exponent_sign =
                    matches!(c, '+' | '-') && rest[..position].ends_with(['e', 'E']);
                if !(c.is_ascii_alphanumeric() || c == '.' || exponent_sign) {
                    end = position;
                    break;
                }
            }
            token(Kind::Number, rest[..end].to_owned(), end)
        }
        _ => {
            let double = ["::", "<=", ">=", "<>", "!=", "||", "=>", "->"];
            let symbol = double.iter().find(|s| rest.starts_with(**s)).copied();
            let symbol = symbol.map_or_else(|| first.to_string(), str::to_owned);
            let length = symbol.len();
            token(Kind::Symbol, symbol, length)
        }
    }
}

/// The inside of a quoted piece and its length with both quotes.
fn quoted(rest: &str, quote: char, escapes: bool) -> Result<(String, usize), SqlError> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => {
                if chars.next_if(|(_, next)| *next == quote).is_none() {
                    return Ok((text, at + quote.len_utf8()));
                }
                text.push(quote);
            }
            '\\' if escapes => match chars.next().map(|(_, c)| c) {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some(digits @ ('u' | 'U')) => {
                    let count = if digits == 'u' { 4 } else { 8 };
                    let hex: String = chars.by_ref().take(count).map(|(_, c)| c).collect();
                    let c = u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32);
                    text.push(c.ok_or_else(|| SqlError::syntax("invalid Unicode escape"))?);
                }
                Some(other) => text.push(other),
                None => break,
            },
            c => text.push(c),
        }
    }
    Err(SqlError::syntax("unterminated quoted string"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_split_outside_of_quotes_and_comments() {
        let sql = "SELECT ';' -- a; b\n; /* ; */ INSERT INTO \"a;b\" VALUES (-1.5e-3, e'x\\ty')";
        let all = statements(sql).unwrap();
        let texts: Vec<Vec<&str>> = all
            .iter()
            .map(|s| s.iter().map(|t| t.text.as_str()).collect())
            .collect();
        assert_eq!(texts[0], ["select", ";"]);
        assert_eq!(
            texts[1],
            [
                "insert", "into", "a;b", "values", "(", "-", "1.5e-3", ",", "x\ty", ")"
            ]
        );
        assert!(statements("SELECT 'open").is_err());
    }
}
