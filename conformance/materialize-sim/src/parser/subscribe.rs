//! DECLARE, SUBSCRIBE and FETCH.

use super::{Parsed, Parser};
use crate::error::SqlError;
use crate::lexer::Kind as TokenKind;
use crate::statement::{Statement, Subscribe, Target};

impl Parser<'_> {
    pub(super) fn declare(&mut self) -> Parsed<Statement> {
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

    pub(super) fn subscribe(&mut self) -> Parsed<Subscribe> {
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
            let words = ["select", "values", "with", "table", "("];
            let is_query = self
                .peek()
                .is_some_and(|token| words.contains(&&*token.text));
            let query = self.query();
            if is_query && (query.is_err() || !self.peek().is_some_and(|t| t.is_symbol(")"))) {
                return Err(SqlError::unsupported("SUBSCRIBE to this query"));
            }
            let query = query?;
            self.need_symbol(")")?;
            return Ok(Target::Query(query));
        }
        if !self.symbol("[") {
            return Ok(Target::Name(self.name()?));
        }
        let id = self.identifier()?;
        self.need("as")?;
        // Statements here are ASCII where it matters, so bytes are characters.
        let position = self.peek().map(|token| token.start + 1);
        let name = self.name()?;
        self.need_symbol("]")?;
        if name.len() < 2 {
            let text = "table name in square brackets must be fully qualified";
            let error = SqlError::syntax(text);
            return Err(SqlError { position, ..error });
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

    pub(super) fn fetch(&mut self) -> Parsed<Statement> {
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
}
