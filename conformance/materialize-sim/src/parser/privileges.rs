//! GRANT and REVOKE.

use super::{Parsed, Parser};
use crate::error::SqlError;
use crate::statement::{Grant, GrantOn, Statement};

impl Parser<'_> {
    pub(super) fn grant(&mut self, granted: bool) -> Parsed<Statement> {
        let on = if self.word("select on") {
            let _ = self.word("table");
            GrantOn::Relation(self.name()?)
        } else if self.word("usage on cluster") {
            GrantOn::Cluster(self.identifier()?)
        } else if self.word("usage on schema") {
            GrantOn::Schema(self.name()?)
        } else {
            return Err(SqlError::unsupported("this privilege"));
        };
        self.need(if granted { "to" } else { "from" })?;
        let role = self.identifier()?;
        Ok(Statement::Grant(Grant { granted, on, role }))
    }
}
