//! Statements that change objects and rows.

use super::{Parsed, Parser};
use crate::error::SqlError;
use crate::object::Kind;
use crate::statement::{DropKind, Literal, Statement};
use crate::types::Column;

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Parsed<Statement> {
        if self.word("table") {
            return self.create_table();
        }
        if self.word("materialized view") {
            return self.create_view(Kind::MaterializedView);
        }
        if self.word("view") {
            return self.create_view(Kind::View);
        }
        if self.word("replacement materialized view") {
            return self.create_replacement();
        }
        if self.word("role") {
            self.identifier()?;
            return Ok(Statement::CreateRole);
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

    /// `[WITH (RETAIN HISTORY [=] FOR '1h')]`.
    pub(super) fn with_retention(&mut self) -> Parsed<Option<u64>> {
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

    fn object_kind(&mut self) -> Option<Kind> {
        if self.word("table") {
            Some(Kind::Table)
        } else if self.word("materialized view") {
            Some(Kind::MaterializedView)
        } else {
            self.word("view").then_some(Kind::View)
        }
    }

    pub(super) fn alter(&mut self) -> Parsed<Statement> {
        if self.word("schema") {
            let schema = self.name()?;
            self.need("swap with")?;
            let with = self.identifier()?;
            return Ok(Statement::SwapSchemas { schema, with });
        }
        if self.word("system") {
            return self.alter_system();
        }
        let kind = self
            .object_kind()
            .ok_or_else(|| SqlError::unsupported("this ALTER"))?;
        let name = self.name()?;
        if self.word("apply replacement") {
            return Ok(Statement::ApplyReplacement {
                view: name,
                replacement: self.name()?,
            });
        }
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

    fn alter_system(&mut self) -> Parsed<Statement> {
        if self.word("reset") {
            let name = self.identifier()?;
            return Ok(Statement::AlterSystem { name, value: None });
        }
        self.need("set")?;
        match self.set()? {
            Statement::Set { name, value } => Ok(Statement::AlterSystem {
                name,
                value: Some(value),
            }),
            _ => Err(self.expected("a value")),
        }
    }

    pub(super) fn drop(&mut self) -> Parsed<Statement> {
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

    pub(super) fn insert(&mut self) -> Parsed<Statement> {
        self.need("into")?;
        let table = self.name()?;
        let columns = if self.symbol("(") {
            Some(self.list(Self::identifier)?)
        } else {
            None
        };
        if columns.is_none() && self.peek().is_some_and(|t| t.is_word("select")) {
            let query = self.tokens[self.at..].to_vec();
            self.at = self.tokens.len();
            return Ok(Statement::InsertSelect { table, query });
        }
        if !self.word("values") {
            let text = "INSERT of anything but VALUES, or SELECT into all columns";
            return Err(SqlError::unsupported(text));
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

    pub(super) fn delete(&mut self) -> Parsed<Statement> {
        self.need("from")?;
        Ok(Statement::Delete {
            table: self.name()?,
            filter: self.filter()?,
        })
    }

    pub(super) fn update(&mut self) -> Parsed<Statement> {
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
}
