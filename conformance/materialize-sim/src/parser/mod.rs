//! Tokens into statements.

mod changes;
mod privileges;
mod subscribe;
mod view;

use std::time::Duration;

use crate::error::SqlError;
use crate::lexer::{Kind as TokenKind, Token};
use crate::statement::{Literal, Statement};

type Parsed<T> = Result<T, SqlError>;

/// Parses one statement.
///
/// # Errors
/// 42601 for what is no SQL, 0A000 for SQL that the simulator has no use for.
pub(crate) fn parse(tokens: &[Token]) -> Parsed<Statement> {
    let mut parser = Parser { tokens, at: 0 };
    let statement = parser.statement()?;
    match parser.peek() {
        None => Ok(statement),
        Some(_) => Err(parser.expected("end of statement")),
    }
}

/// A time span as in `'1s'`, `'2 min'`, `'500ms'`; a bare number has the unit `bare`.
pub(crate) fn duration(text: &str, bare: Duration) -> Option<Duration> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" => bare,
        "us" => Duration::from_micros(1),
        "ms" | "millisecond" | "milliseconds" => Duration::from_millis(1),
        "s" | "sec" | "secs" | "second" | "seconds" => Duration::from_secs(1),
        "m" | "min" | "mins" | "minute" | "minutes" => Duration::from_secs(60),
        "h" | "hr" | "hour" | "hours" => Duration::from_secs(3600),
        "d" | "day" | "days" => Duration::from_secs(86_400),
        _ => return None,
    };
    Duration::try_from_secs_f64(number * unit.as_secs_f64()).ok()
}

/// A size as in `'1MB'` or `1000`: in bytes, units being powers of 1024.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].trim() {
        "" | "B" => 1,
        "kB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit)
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<&Token> {
        self.at += 1;
        self.tokens.get(self.at - 1)
    }

    /// Takes these words if they come next, all of them.
    fn word(&mut self, words: &str) -> bool {
        let count = words.split(' ').count();
        let next = self
            .tokens
            .get(self.at..self.at + count)
            .unwrap_or_default();
        let found = !next.is_empty() && words.split(' ').zip(next).all(|(w, t)| t.is_word(w));
        self.at += if found { count } else { 0 };
        found
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let found = self.peek().is_some_and(|t| t.is_symbol(symbol));
        self.at += usize::from(found);
        found
    }

    fn expected(&self, what: &str) -> SqlError {
        let found = self
            .peek()
            .map_or("EOF".to_owned(), |t| format!("\"{}\"", t.text));
        SqlError::syntax(format!("Expected {what}, found {found}"))
    }

    fn need(&mut self, words: &str) -> Parsed<()> {
        if self.word(words) {
            Ok(())
        } else {
            Err(self.expected(&words.to_ascii_uppercase()))
        }
    }

    fn need_symbol(&mut self, symbol: &str) -> Parsed<()> {
        if self.symbol(symbol) {
            Ok(())
        } else {
            Err(self.expected(symbol))
        }
    }

    fn identifier(&mut self) -> Parsed<String> {
        match self.peek() {
            Some(token) if token.is_name() => {
                let text = token.text.clone();
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.expected("identifier")),
        }
    }

    fn name(&mut self) -> Parsed<Vec<String>> {
        let mut parts = vec![self.identifier()?];
        while self.symbol(".") {
            parts.push(self.identifier()?);
        }
        Ok(parts)
    }

    /// `a, b, c` up to and with the closing parenthesis; the opening one is taken.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        loop {
            items.push(item(self)?);
            if !self.symbol(",") {
                self.need_symbol(")")?;
                return Ok(items);
            }
        }
    }

    fn string(&mut self) -> Parsed<String> {
        match self.peek() {
            Some(token) if token.kind == TokenKind::Text => {
                let text = token.text.clone();
                self.at += 1;
                Ok(text)
            }
            _ => Err(self.expected("string")),
        }
    }

    fn interval(&mut self) -> Parsed<Duration> {
        let text = self.string()?;
        duration(&text, Duration::from_secs(1)).ok_or_else(|| {
            SqlError::new(
                "22007",
                format!("invalid input syntax for type interval: \"{text}\""),
            )
        })
    }

    fn timestamp(&mut self) -> Parsed<u64> {
        let parsed = match self.peek() {
            Some(t) if matches!(t.kind, TokenKind::Number | TokenKind::Text) => t.text.parse().ok(),
            _ => None,
        };
        let time = parsed.ok_or_else(|| self.expected("a timestamp in milliseconds"))?;
        self.at += 1;
        // An explicit cast changes nothing.
        if self.symbol("::") {
            self.identifier()?;
        }
        Ok(time)
    }

    fn literal(&mut self) -> Parsed<Literal> {
        let negative = self.symbol("-");
        let Some(token) = self.peek() else {
            return Err(self.expected("a literal"));
        };
        let literal = match token.kind {
            TokenKind::Number if negative => Literal::Number(format!("-{}", token.text)),
            TokenKind::Number => Literal::Number(token.text.clone()),
            TokenKind::Text => Literal::Text(token.text.clone()),
            TokenKind::Word if token.is_word("null") => Literal::Null,
            TokenKind::Word if token.is_word("true") => Literal::Bool(true),
            TokenKind::Word if token.is_word("false") => Literal::Bool(false),
            _ => return Err(SqlError::unsupported("anything but literals here")),
        };
        self.at += 1;
        if self.symbol("::") {
            self.identifier()?;
        }
        Ok(literal)
    }

    fn rows(&mut self) -> Parsed<Vec<Vec<Literal>>> {
        let mut rows = Vec::new();
        loop {
            self.need_symbol("(")?;
            rows.push(self.list(Self::literal)?);
            if !self.symbol(",") {
                return Ok(rows);
            }
        }
    }

    fn statement(&mut self) -> Parsed<Statement> {
        let first = self.next().map(|t| t.text.clone()).unwrap_or_default();
        match first.as_str() {
            "begin" => self.begin(),
            "start" => self.need("transaction").and_then(|()| self.begin()),
            "commit" | "end" => Ok(Statement::Commit),
            "rollback" | "abort" => Ok(Statement::Rollback),
            "set" => self.set(),
            "reset" => Ok(Statement::Reset {
                name: self.identifier()?,
            }),
            "show" => self.show(),
            "declare" => self.declare(),
            "subscribe" => Ok(Statement::Subscribe(self.subscribe()?)),
            "fetch" => self.fetch(),
            "close" if self.word("all") => Ok(Statement::Close { cursor: None }),
            "close" => Ok(Statement::Close {
                cursor: Some(self.identifier()?),
            }),
            "create" => self.create(),
            "alter" => self.alter(),
            "drop" => self.drop(),
            "insert" => self.insert(),
            "delete" => self.delete(),
            "update" => self.update(),
            "grant" => self.grant(true),
            "revoke" => self.grant(false),
            "select" => {
                self.at -= 1;
                self.select()
            }
            other => Err(SqlError::unsupported(format!(
                "{} statements",
                other.to_uppercase()
            ))),
        }
    }

    /// Access modes make no difference here.
    fn begin(&mut self) -> Parsed<Statement> {
        let mode = &self.tokens[self.at..];
        let strict = mode.iter().any(|t| t.is_word("strict"));
        let serializable = !strict && mode.iter().any(|t| t.is_word("serializable"));
        self.at = self.tokens.len();
        Ok(Statement::Begin { serializable })
    }

    fn set(&mut self) -> Parsed<Statement> {
        let _ = self.word("session") || self.word("local");
        let name = self.identifier()?;
        if !self.symbol("=") {
            self.need("to")?;
        }
        let mut value = Vec::new();
        while let Some(token) = self.next() {
            if !token.is_symbol(",") {
                value.push(token.text.clone());
            }
        }
        if value.is_empty() {
            return Err(self.expected("a value"));
        }
        Ok(Statement::Set {
            name,
            value: value.join(", "),
        })
    }

    fn show(&mut self) -> Parsed<Statement> {
        if self.word("transaction isolation level") {
            return Ok(Statement::Show {
                name: "transaction_isolation".to_owned(),
            });
        }
        Ok(Statement::Show {
            name: self.identifier()?,
        })
    }

    fn select(&mut self) -> Parsed<Statement> {
        let mut tokens = Vec::new();
        let mut as_of = None;
        while self.peek().is_some() {
            if self.word("as of") {
                as_of = Some(self.timestamp()?);
            } else if let Some(token) = self.next() {
                tokens.push(token.clone());
            }
        }
        Ok(Statement::Select { tokens, as_of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::statements;
    use crate::statement::Target;

    fn one(sql: &str) -> Parsed<Statement> {
        parse(&statements(sql).unwrap()[0])
    }

    #[test]
    fn a_subscribe_may_name_its_options_in_any_order() {
        for sql in [
            "DECLARE c CURSOR FOR SUBSCRIBE a.t ENVELOPE UPSERT (KEY (k, \"J\")) WITH (PROGRESS, SNAPSHOT = false) AS OF 5 UP TO 9",
            "DECLARE c CURSOR FOR SUBSCRIBE TO a.t WITH (SNAPSHOT false, PROGRESS = true) ENVELOPE UPSERT (KEY (k, \"J\")) AS OF '5' UP TO 9",
        ] {
            let Statement::Declare { cursor, subscribe } = one(sql).unwrap() else {
                panic!("not a DECLARE: {sql}");
            };
            assert_eq!(cursor, "c");
            assert!(matches!(subscribe.target, Target::Name(n) if n == ["a", "t"]));
            assert_eq!(subscribe.key.unwrap(), ["k", "J"]);
            assert!(subscribe.progress && !subscribe.snapshot);
            assert_eq!((subscribe.as_of, subscribe.up_to), (Some(5), Some(9)));
        }
    }

    #[test]
    fn a_fetch_has_a_count_of_one_unless_it_says_otherwise() {
        for (sql, expected) in [
            ("FETCH c", Some(1)),
            ("FETCH 0 c", Some(0)),
            ("FETCH FORWARD 7 FROM c", Some(7)),
            ("FETCH ALL c WITH (timeout = '1s')", None),
        ] {
            let Statement::Fetch { count, .. } = one(sql).unwrap() else {
                panic!("{sql}")
            };
            assert_eq!(count, expected, "{sql}");
        }
    }

    #[test]
    fn what_is_no_sql_is_a_syntax_error_and_the_rest_says_it_is_not_supported() {
        assert_eq!(
            one("FETCH ALL c WITH (timeout = 1s)").unwrap_err().code,
            "42601"
        );
        assert_eq!(one("SUBSCRIBE t nonsense").unwrap_err().code, "42601");
        assert_eq!(one("VACUUM t").unwrap_err().code, "0A000");
        assert_eq!(one("SUBSCRIBE (SELECT 1)").unwrap_err().code, "0A000");
    }

    #[test]
    fn durations_have_the_units_of_the_server() {
        let seconds = |text| duration(text, Duration::from_millis(1)).map(|d| d.as_secs_f64());
        assert_eq!(seconds("2 min"), Some(120.0));
        assert_eq!(seconds("500ms"), Some(0.5));
        assert_eq!(seconds("250"), Some(0.25));
        assert_eq!(seconds("soon"), None);
    }
}
