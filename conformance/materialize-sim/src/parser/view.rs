//! What views are made of.

use super::{Parsed, Parser};
use crate::derived::Operator;
use crate::error::SqlError;
use crate::lexer::Kind as TokenKind;
use crate::object::Kind;
use crate::statement::{Expression, Output, Statement, ViewQuery};

impl Parser<'_> {
    pub(super) fn create_view(&mut self, kind: Kind) -> Parsed<Statement> {
        let name = self.name()?;
        self.rest_of_view(kind, name, None)
    }

    pub(super) fn create_replacement(&mut self) -> Parsed<Statement> {
        let name = self.name()?;
        self.need("for")?;
        let replaced = self.name()?;
        self.rest_of_view(Kind::MaterializedView, name, Some(replaced))
    }

    fn rest_of_view(
        &mut self,
        kind: Kind,
        name: Vec<String>,
        replaces: Option<Vec<String>>,
    ) -> Parsed<Statement> {
        if self.word("in cluster") {
            self.identifier()?;
        }
        let retention_ms = self.with_retention()?;
        self.need("as")?;
        let query = self.query()?;
        Ok(Statement::CreateView {
            kind,
            name,
            query,
            retention_ms,
            replaces,
        })
    }

    /// What a view can be made of.
    pub(super) fn query(&mut self) -> Parsed<ViewQuery> {
        if self.word("values") {
            Ok(ViewQuery::Values(self.rows()?))
        } else {
            self.view_query()
        }
    }

    fn view_query(&mut self) -> Parsed<ViewQuery> {
        self.need("select")?;
        let columns = if self.symbol("*") {
            None
        } else {
            let mut columns = vec![self.output()?];
            while self.symbol(",") {
                columns.push(self.output()?);
            }
            Some(columns)
        };
        self.need("from")?;
        Ok(ViewQuery::Object {
            columns,
            name: self.name()?,
        })
    }

    fn output(&mut self) -> Parsed<Output> {
        let expression = self.sum()?;
        let name = if self.word("as") {
            Some(self.identifier()?)
        } else {
            None
        };
        Ok(Output { expression, name })
    }

    fn sum(&mut self) -> Parsed<Expression> {
        let mut left = self.product()?;
        loop {
            let operator = if self.symbol("+") {
                Operator::Plus
            } else if self.symbol("-") {
                Operator::Minus
            } else {
                return Ok(left);
            };
            let right = self.product()?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
    }

    fn product(&mut self) -> Parsed<Expression> {
        let mut left = self.operand()?;
        loop {
            let operator = if self.symbol("*") {
                Operator::Times
            } else if self.symbol("/") {
                Operator::Divide
            } else {
                return Ok(left);
            };
            let right = self.operand()?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
    }

    fn operand(&mut self) -> Parsed<Expression> {
        let number = self
            .peek()
            .filter(|token| token.kind == TokenKind::Number)
            .map(|token| token.text.parse());
        match number {
            Some(Ok(number)) => {
                self.at += 1;
                Ok(Expression::Number(number))
            }
            Some(Err(_)) => Err(SqlError::unsupported("views of anything but integers")),
            None => Ok(Expression::Column(self.identifier()?)),
        }
    }
}
