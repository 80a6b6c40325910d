//! The statements the simulator understands.

use std::time::Duration;

use crate::derived::Operator;
use crate::lexer::Token;
use crate::object::Kind;
use crate::types::Column;

/// A statement, parsed but with no name looked up.
#[derive(Debug)]
pub(crate) enum Statement {
    Begin {
        serializable: bool,
    },
    Commit,
    Rollback,
    Set {
        name: String,
        value: String,
    },
    Reset {
        name: String,
    },
    Show {
        name: String,
    },
    Declare {
        cursor: String,
        subscribe: Subscribe,
    },
    Subscribe(Subscribe),
    Fetch {
        cursor: String,
        count: Option<u64>,
        timeout: Option<Duration>,
    },
    Close {
        cursor: Option<String>,
    },
    CreateTable {
        name: Vec<String>,
        columns: Vec<Column>,
        retention_ms: Option<u64>,
    },
    CreateView {
        kind: Kind,
        name: Vec<String>,
        query: ViewQuery,
        retention_ms: Option<u64>,
        /// The view that this one is made to replace.
        replaces: Option<Vec<String>>,
    },
    ApplyReplacement {
        view: Vec<String>,
        replacement: Vec<String>,
    },
    SwapSchemas {
        schema: Vec<String>,
        with: String,
    },
    /// RESET if there is no value.
    AlterSystem {
        name: String,
        value: Option<String>,
    },
    CreateRole,
    Grant(Grant),
    CreateIndex {
        name: Option<String>,
        on: Vec<String>,
        cluster: Option<String>,
    },
    CreateSchema {
        name: Vec<String>,
    },
    CreateCluster {
        name: String,
    },
    AlterRetention {
        name: Vec<String>,
        kind: Kind,
        retention_ms: Option<u64>,
    },
    Drop {
        kind: DropKind,
        name: Vec<String>,
        if_exists: bool,
        cascade: bool,
    },
    Insert {
        table: Vec<String>,
        columns: Option<Vec<String>>,
        rows: Vec<Vec<Literal>>,
    },
    InsertSelect {
        table: Vec<String>,
        query: Vec<Token>,
    },
    Delete {
        table: Vec<String>,
        filter: Option<(String, Literal)>,
    },
    Update {
        table: Vec<String>,
        set: Vec<(String, Literal)>,
        filter: Option<(String, Literal)>,
    },
    Select {
        tokens: Vec<Token>,
        as_of: Option<u64>,
    },
}

/// A SUBSCRIBE as written.
#[derive(Debug, Clone)]
pub(crate) struct Subscribe {
    pub(crate) target: Target,
    pub(crate) key: Option<Vec<String>>,
    pub(crate) progress: bool,
    pub(crate) snapshot: bool,
    pub(crate) as_of: Option<u64>,
    pub(crate) up_to: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) enum Target {
    Name(Vec<String>),
    /// `[u1 AS "db"."schema"."name"]`: only the id counts.
    Id(String),
    /// What a view could be made of.
    Query(ViewQuery),
}

/// What a view selects.
#[derive(Debug, Clone)]
pub(crate) enum ViewQuery {
    /// Columns (all of them if `None`) of one object.
    Object {
        columns: Option<Vec<Output>>,
        name: Vec<String>,
    },
    /// VALUES: a constant collection.
    Values(Vec<Vec<Literal>>),
}

/// A column of a view.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    pub(crate) expression: Expression,
    pub(crate) name: Option<String>,
}

/// A value that a view computes, with no name looked up.
#[derive(Debug, Clone)]
pub(crate) enum Expression {
    Column(String),
    Number(i128),
    Binary(Operator, Box<Expression>, Box<Expression>),
}

/// GRANT or REVOKE of the one privilege that each kind of target has here.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) granted: bool,
    pub(crate) on: GrantOn,
    pub(crate) role: String,
}

#[derive(Debug, Clone)]
pub(crate) enum GrantOn {
    Relation(Vec<String>),
    Cluster(String),
    Schema(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropKind {
    Object(Kind),
    Schema,
    Cluster,
    Index,
}

/// A literal value of an INSERT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Literal {
    Null,
    /// Written as a number.
    Number(String),
    /// Written as true or false.
    Bool(bool),
    /// Written in quotes.
    Text(String),
}

impl Literal {
    /// The text of the value, `None` for NULL.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Null => None,
            Self::Bool(true) => Some("t"),
            Self::Bool(false) => Some("f"),
            Self::Number(text) | Self::Text(text) => Some(text),
        }
    }
}
