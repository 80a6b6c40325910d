//! Tokens into statements.

use std::time::Duration;

use crate::error::SqlError;
use crate::lexer::{Kind as TokenKind, Token};
use crate::statement::{DropKind, Literal, Statement, Subscribe, Target, ViewQuery};
use crate::types::Column;
use crate::world::Kind;

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

    /// Isolation levels and access modes make no difference here.
    fn begin(&mut self) -> Parsed<Statement> {
        self.at = self.tokens.len();
        Ok(Statement::Begin)
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

    fn declare(&mut self) -> Parsed<Statement> {
        let cursor = self.identifier()?;
        self.need("cursor")?;
        let _ = self.word("without hold");
        self.need("for")?;
        if !self.word("subscribe") {
            return Err(SqlError::unsupported("a cursor for anything but SUBSCRIBE"));
        }
        Ok(Statement::Declare {
            cursor,
            subscribe: self.subscribe()?,
        })
    }

    fn subscribe(&mut self) -> Parsed<Subscribe> {
        let _ = self.word("to");
        let target = self.target()?;
        let mut subscribe = Subscribe {
            target,
            key: None,
            progress: false,
            snapshot: true,
            as_of: None,
            up_to: None,
        };
        loop {
            if self.word("envelope upsert") {
                self.need_symbol("(")?;
                self.need("key")?;
                self.need_symbol("(")?;
                subscribe.key = Some(self.list(Self::identifier)?);
                self.need_symbol(")")?;
            } else if self.word("envelope") || self.word("within") {
                return Err(SqlError::unsupported("this envelope or order of SUBSCRIBE"));
            } else if self.word("with") {
                self.need_symbol("(")?;
                self.list(|p| p.subscribe_option(&mut subscribe))?;
            } else if self.word("as of") {
                let _ = self.word("at least");
                subscribe.as_of = Some(self.timestamp()?);
            } else if self.word("up to") {
                subscribe.up_to = Some(self.timestamp()?);
            } else {
                return Ok(subscribe);
            }
        }
    }

    fn target(&mut self) -> Parsed<Target> {
        if self.symbol("(") {
            return Err(SqlError::unsupported("SUBSCRIBE to a query"));
        }
        if !self.symbol("[") {
            return Ok(Target::Name(self.name()?));
        }
        let id = self.identifier()?;
        self.need("as")?;
        let name = self.name()?;
        self.need_symbol("]")?;
        if name.len() < 2 {
            return Err(SqlError::syntax(
                "table name in square brackets must be fully qualified",
            ));
        }
        Ok(Target::Id(id))
    }

    fn subscribe_option(&mut self, subscribe: &mut Subscribe) -> Parsed<()> {
        let name = self.identifier()?;
        let assigned = self.symbol("=");
        let value = match self.peek() {
            Some(token) if !token.is_symbol(",") && !token.is_symbol(")") => {
                let value = !matches!(token.text.as_str(), "false" | "off" | "f" | "0");
                self.at += 1;
                value
            }
            _ if assigned => return Err(self.expected("a value")),
            _ => true,
        };
        match name.as_str() {
            "progress" => subscribe.progress = value,
            "snapshot" => subscribe.snapshot = value,
            other => {
                return Err(SqlError::syntax(format!(
                    "unknown SUBSCRIBE option {other}"
                )));
            }
        }
        Ok(())
    }

    fn fetch(&mut self) -> Parsed<Statement> {
        let _ = self.word("forward") || self.word("next");
        let number = self.peek().filter(|t| t.kind == TokenKind::Number);
        let count = match number.map(|t| t.text.parse().ok()) {
            Some(count) => {
                let count = count.ok_or_else(|| self.expected("a count"))?;
                self.at += 1;
                Some(count)
            }
            None if self.word("all") => None,
            None => Some(1),
        };
        let _ = self.word("from") || self.word("in");
        let cursor = self.identifier()?;
        let mut timeout = None;
        if self.word("with") {
            self.need_symbol("(")?;
            self.need("timeout")?;
            let _ = self.symbol("=");
            timeout = Some(self.interval()?);
            self.need_symbol(")")?;
        }
        Ok(Statement::Fetch {
            cursor,
            count,
            timeout,
        })
    }

    fn create(&mut self) -> Parsed<Statement> {
        if self.word("table") {
            return self.create_table();
        }
        if self.word("materialized view") {
            return self.create_view(Kind::MaterializedView);
        }
        if self.word("view") {
            return self.create_view(Kind::View);
        }
        if self.word("schema") {
            return Ok(Statement::CreateSchema { name: self.name()? });
        }
        if self.word("cluster") {
            let name = self.identifier()?;
            self.at = self.tokens.len();
            return Ok(Statement::CreateCluster { name });
        }
        let default = self.word("default");
        self.need("index")?;
        let named = !default
            && !self
                .peek()
                .is_some_and(|t| t.is_word("on") || t.is_word("in"));
        let name = if named {
            Some(self.identifier()?)
        } else {
            None
        };
        let mut cluster = if self.word("in cluster") {
            Some(self.identifier()?)
        } else {
            None
        };
        self.need("on")?;
        let on = self.name()?;
        if self.word("in cluster") {
            cluster = Some(self.identifier()?);
        }
        // The columns of an index change nothing here.
        self.at = self.tokens.len();
        Ok(Statement::CreateIndex { name, on, cluster })
    }

    fn create_table(&mut self) -> Parsed<Statement> {
        let name = self.name()?;
        self.need_symbol("(")?;
        let columns = self.list(Self::column)?;
        Ok(Statement::CreateTable {
            name,
            columns,
            retention_ms: self.with_retention()?,
        })
    }

    fn column(&mut self) -> Parsed<Column> {
        let name = self.identifier()?;
        let mut written = String::new();
        let mut depth = 0;
        let mut nullable = true;
        while let Some(token) = self.peek() {
            if depth == 0 {
                if token.is_symbol(",") || token.is_symbol(")") {
                    break;
                }
                if self.word("not null") {
                    nullable = false;
                    continue;
                }
            }
            let Some(token) = self.next() else { break };
            match token.text.as_str() {
                "(" | "[" => depth += 1,
                ")" | "]" => depth -= 1,
                _ if !written.is_empty() && token.is_name() && depth == 0 => written.push(' '),
                _ => {}
            }
            written.push_str(&token.text);
        }
        let mut column = Column::new(&name, &written)
            .map_err(|_| SqlError::new("XX000", format!("unknown catalog item '{written}'")))?;
        column.nullable = nullable;
        Ok(column)
    }

    /// `[WITH ([...,] RETAIN HISTORY [=] FOR '1h')]`.
    fn with_retention(&mut self) -> Parsed<Option<u64>> {
        if !self.word("with") {
            return Ok(None);
        }
        self.need_symbol("(")?;
        let retention = self.retention()?;
        self.need_symbol(")")?;
        Ok(Some(retention))
    }

    fn retention(&mut self) -> Parsed<u64> {
        self.need("retain history")?;
        let _ = self.symbol("=");
        self.need("for")?;
        Ok(u64::try_from(self.interval()?.as_millis()).unwrap_or(u64::MAX))
    }

    fn create_view(&mut self, kind: Kind) -> Parsed<Statement> {
        let name = self.name()?;
        if self.word("in cluster") {
            self.identifier()?;
        }
        let retention_ms = self.with_retention()?;
        self.need("as")?;
        if self.word("values") {
            let query = ViewQuery::Values(self.rows()?);
            return Ok(Statement::CreateView {
                kind,
                name,
                query,
                retention_ms,
            });
        }
        self.need("select")?;
        let columns = if self.symbol("*") {
            None
        } else {
            let mut columns = vec![self.identifier()?];
            while self.symbol(",") {
                columns.push(self.identifier()?);
            }
            Some(columns)
        };
        self.need("from")?;
        let query = ViewQuery::Object {
            columns,
            name: self.name()?,
        };
        Ok(Statement::CreateView {
            kind,
            name,
            query,
            retention_ms,
        })
    }

    fn object_kind(&mut self) -> Option<Kind> {
        if self.word("table") {
            Some(Kind::Table)
        } else if self.word("materialized view") {
            Some(Kind::MaterializedView)
        } else {
            self.word("view").then_some(Kind::View)
        }
    }

    fn alter(&mut self) -> Parsed<Statement> {
        let kind = self
            .object_kind()
            .ok_or_else(|| SqlError::unsupported("this ALTER"))?;
        let name = self.name()?;
        let reset = self.word("reset");
        if !reset {
            self.need("set")?;
        }
        self.need_symbol("(")?;
        let retention_ms = if reset {
            self.need("retain history")?;
            None
        } else {
            Some(self.retention()?)
        };
        self.need_symbol(")")?;
        Ok(Statement::AlterRetention {
            name,
            kind,
            retention_ms,
        })
    }

    fn drop(&mut self) -> Parsed<Statement> {
        let kind = match self.object_kind() {
            Some(kind) => DropKind::Object(kind),
            None if self.word("schema") => DropKind::Schema,
            None if self.word("cluster") => DropKind::Cluster,
            None if self.word("index") => DropKind::Index,
            None => return Err(SqlError::unsupported("this DROP")),
        };
        let if_exists = self.word("if exists");
        let name = self.name()?;
        let cascade = self.word("cascade");
        let _ = self.word("restrict");
        Ok(Statement::Drop {
            kind,
            name,
            if_exists,
            cascade,
        })
    }

    fn insert(&mut self) -> Parsed<Statement> {
        self.need("into")?;
        let table = self.name()?;
        let columns = if self.symbol("(") {
            Some(self.list(Self::identifier)?)
        } else {
            None
        };
        if !self.word("values") {
            return Err(SqlError::unsupported("INSERT of anything but VALUES"));
        }
        Ok(Statement::Insert {
            table,
            columns,
            rows: self.rows()?,
        })
    }

    fn assignment(&mut self) -> Parsed<(String, Literal)> {
        let column = self.identifier()?;
        self.need_symbol("=")?;
        Ok((column, self.literal()?))
    }

    fn filter(&mut self) -> Parsed<Option<(String, Literal)>> {
        if self.word("where") {
            Ok(Some(self.assignment()?))
        } else {
            Ok(None)
        }
    }

    fn delete(&mut self) -> Parsed<Statement> {
        self.need("from")?;
        Ok(Statement::Delete {
            table: self.name()?,
            filter: self.filter()?,
        })
    }

    fn update(&mut self) -> Parsed<Statement> {
        let table = self.name()?;
        self.need("set")?;
        let mut set = vec![self.assignment()?];
        while self.symbol(",") {
            set.push(self.assignment()?);
        }
        Ok(Statement::Update {
            table,
            set,
            filter: self.filter()?,
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
