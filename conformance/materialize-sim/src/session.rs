//! One client's session: its transaction, its cursors, and the order of answers.

use std::collections::HashMap;
use std::sync::Arc;

use pgwire::messages::response::{EmptyQueryResponse, TransactionStatus};
use pgwire::messages::startup::{BackendKeyData, ParameterStatus, SecretKey};
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use tokio::sync::{Notify, watch};

use crate::error::SqlError;
use crate::faults::Failure;
use crate::fetch::Cursor;
use crate::hold::Hold;
use crate::parser::parse;
use crate::startup::Client;
use crate::statement::Statement;
use crate::types::{Column, TEXT};
use crate::variables::Variables;
use crate::wire::{Stop, Wire};
use crate::world::World;
use crate::{datarow, lexer};

pub(crate) struct Session {
    pub(crate) world: Arc<World>,
    pub(crate) wire: Wire,
    pub(crate) variables: Variables,
    pub(crate) user: String,
    pub(crate) transaction: TransactionStatus,
    pub(crate) cursors: HashMap<String, Cursor>,
    /// The timestamp of a transaction that has read objects. It cannot SUBSCRIBE any more.
    pub(crate) read_at: Option<u64>,
    /// What such a transaction has read.
    pub(crate) holds: Vec<Hold>,
    /// Whether the transaction is SERIALIZABLE, which may read a little in the past.
    pub(crate) serializable: bool,
    pub(crate) cancel: Arc<Notify>,
    /// Told when the server ends every session.
    pub(crate) ended: watch::Receiver<Option<Failure>>,
    /// As in `mz_sessions`.
    pub(crate) session_id: String,
    pid: i32,
}

impl Session {
    pub(crate) fn new(
        world: Arc<World>,
        wire: Wire,
        client: &Client,
        version: &str,
        pid: i32,
    ) -> Self {
        let variables = Variables::new(version, &client.parameters);
        let user = client.parameters.get("user").cloned().unwrap_or_default();
        let ended = world.ended.subscribe();
        let started = world.inner().now();
        Self {
            world,
            wire,
            variables,
            user,
            transaction: TransactionStatus::Idle,
            cursors: HashMap::new(),
            read_at: None,
            holds: Vec::new(),
            serializable: false,
            cancel: Arc::new(Notify::new()),
            ended,
            session_id: format!(
                "{:08x}-{:04x}-7000-8000-{pid:012x}",
                started >> 16 & 0xffff_ffff,
                started & 0xffff
            ),
            pid,
        }
    }

    /// Serves the client until it leaves.
    pub(crate) async fn run(mut self) {
        let key = self.pid.wrapping_mul(7919);
        self.world
            .inner()
            .backends
            .insert(self.pid, (key, self.cancel.clone()));
        if let Err(Stop::Sql(error)) = self.serve(key).await {
            self.wire.error(&error);
            // The client may be gone already; then nobody is left to be told.
            let _ = self.wire.flush().await;
        }
        self.world.inner().backends.remove(&self.pid);
    }

    fn welcome(&mut self, key: i32) {
        for (name, value) in self.variables.reported() {
            let status = ParameterStatus::new(name.to_owned(), value.to_owned());
            self.wire.put(PgWireBackendMessage::ParameterStatus(status));
        }
        let backend = BackendKeyData::new(self.pid, SecretKey::I32(key));
        self.wire.put(PgWireBackendMessage::BackendKeyData(backend));
        let text = format!(
            "connected to Materialize {}\n  Environment ID: simulated\n  Region: simulated\n  User: {}\n  Cluster: {}\n  Database: {}\n  Schema: {}\n  Session UUID: {}\n\nIssue a SQL query to get started. Need help?\n  View documentation: https://materialize.com/s/docs\n  Join our Slack community: https://materialize.com/s/chat\n    ",
            self.variables
                .get("mz_version")
                .split(' ')
                .next()
                .unwrap_or_default(),
            self.user,
            self.variables.get("cluster"),
            self.variables.get("database"),
            self.variables.schema(),
            self.session_id,
        );
        self.wire.notice("00000", text);
        self.wire.ready(self.transaction);
    }

    async fn serve(&mut self, key: i32) -> Result<(), Stop> {
        self.welcome(key);
        self.wire.flush().await?;
        // After an error in the extended protocol everything up to Sync is skipped.
        let mut skip_to_sync = false;
        loop {
            match self.next_message().await? {
                PgWireFrontendMessage::Terminate(_) => return Ok(()),
                PgWireFrontendMessage::Query(query) => {
                    self.query(&query.query).await?;
                    self.wire.ready(self.transaction);
                }
                PgWireFrontendMessage::Sync(_) => {
                    skip_to_sync = false;
                    self.wire.ready(self.transaction);
                }
                PgWireFrontendMessage::Flush(_) => {}
                message if message.is_extended_query() => {
                    if !skip_to_sync {
                        self.fail(SqlError::unsupported(
                            "the extended query protocol; send simple queries",
                        ))?;
                    }
                    skip_to_sync = true;
                }
                _ => return Err(SqlError::fatal("08P01", "unexpected message").into()),
            }
            self.until_not_stalled().await;
            self.wire.flush().await?;
        }
    }

    async fn next_message(&mut self) -> Result<PgWireFrontendMessage, Stop> {
        let idle_limit = match self.transaction {
            TransactionStatus::Idle => None,
            _ => self.variables.idle_in_transaction(),
        };
        let limit = idle_limit.map(|limit| self.world.deadline(limit));
        tokio::select! {
            biased;
            error = ended(&mut self.ended) => Err(error.into()),
            () = self.world.reached(limit) => Err(Failure::idle_in_transaction().fatal().into()),
            message = self.wire.receive() => message,
        }
    }

    /// Waits while the server pretends to hang.
    pub(crate) async fn until_not_stalled(&self) {
        // The sender lives in the world that this session holds.
        let _ = self
            .world
            .stalled
            .subscribe()
            .wait_for(|stalled| !stalled)
            .await;
    }

    /// Runs the statements of one simple query; the first error ends them.
    async fn query(&mut self, sql: &str) -> Result<(), Stop> {
        self.world.inner().statements.push(sql.to_owned());
        self.until_not_stalled().await;
        let statements = match lexer::statements(sql) {
            Ok(statements) => statements,
            Err(error) => return self.fail(error),
        };
        if statements.is_empty() {
            self.wire.put(PgWireBackendMessage::EmptyQueryResponse(
                EmptyQueryResponse::new(),
            ));
        }
        for tokens in statements {
            let result = match parse(&tokens) {
                Ok(statement) => self.execute(statement).await,
                Err(error) => Err(error.into()),
            };
            match result {
                Ok(()) => {}
                Err(Stop::Sql(error)) => return self.fail(error),
                Err(Stop::Gone) => return Err(Stop::Gone),
            }
        }
        Ok(())
    }

    /// Tells the client, and fails its transaction.
    fn fail(&mut self, error: SqlError) -> Result<(), Stop> {
        if error.severity == "FATAL" {
            return Err(error.into());
        }
        self.wire.error(&error);
        if self.transaction != TransactionStatus::Idle {
            self.transaction = TransactionStatus::Error;
            self.cursors.clear();
        }
        Ok(())
    }

    async fn execute(&mut self, statement: Statement) -> Result<(), Stop> {
        let ends = matches!(statement, Statement::Commit | Statement::Rollback);
        if self.transaction == TransactionStatus::Error && !ends {
            let text =
                "current transaction is aborted, commands ignored until end of transaction block";
            return Err(SqlError::new("25P02", text).into());
        }
        match statement {
            Statement::Begin { serializable } => {
                self.serializable = serializable;
                if self.transaction != TransactionStatus::Idle {
                    self.wire
                        .notice("25001", "there is already a transaction in progress");
                }
                self.transaction = TransactionStatus::Transaction;
                self.wire.complete("BEGIN");
            }
            Statement::Commit => self.end("COMMIT"),
            Statement::Rollback => self.end("ROLLBACK"),
            Statement::Set { name, value } => {
                self.variables.set(&name, &value)?;
                self.report(&name);
                self.wire.complete("SET");
            }
            Statement::Reset { name } => {
                self.variables.reset(&name)?;
                self.report(&name);
                self.wire.complete("RESET");
            }
            Statement::Show { name } => {
                let name = name.to_ascii_lowercase();
                self.wire
                    .describe(&[Column::exact(&name, "text", TEXT, -1)]);
                let value = self.variables.show(&name)?.to_owned();
                self.answer(&[vec![Some(value)]]).await?;
                self.wire.complete("SELECT 1");
            }
            Statement::Declare { cursor, subscribe } => self.declare(cursor, subscribe)?,
            Statement::Subscribe(subscribe) => self.stream(subscribe).await?,
            Statement::Fetch {
                cursor,
                count,
                timeout,
            } => {
                self.fetch(cursor, count, timeout).await?;
            }
            Statement::Close { cursor: None } => {
                self.cursors.clear();
                self.wire.complete("CLOSE CURSOR");
            }
            Statement::Close { cursor: Some(name) } => {
                if self.cursors.remove(&name).is_none() {
                    return Err(no_cursor(&name).into());
                }
                self.wire.complete("CLOSE CURSOR");
            }
            Statement::Select { tokens, as_of } => self.select(tokens, as_of).await?,
            change => {
                let tag = self.change(change)?;
                self.wire.complete(tag);
            }
        }
        Ok(())
    }

    fn end(&mut self, tag: &str) {
        let failed = self.transaction == TransactionStatus::Error;
        if self.transaction == TransactionStatus::Idle {
            self.wire
                .notice("25P01", "there is no transaction in progress");
        }
        self.transaction = TransactionStatus::Idle;
        self.cursors.clear();
        self.read_at = None;
        self.holds.clear();
        self.wire.complete(if failed { "ROLLBACK" } else { tag });
    }

    /// Some variables are reported whenever they change.
    fn report(&mut self, name: &str) {
        let found = self
            .variables
            .reported()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        if let Some((name, value)) = found {
            let status = ParameterStatus::new(name.to_owned(), value.to_owned());
            self.wire.put(PgWireBackendMessage::ParameterStatus(status));
        }
    }

    /// Sends rows whose columns were described.
    pub(crate) async fn answer(&mut self, rows: &[Vec<Option<String>>]) -> Result<(), Stop> {
        let mut bytes = Vec::new();
        for row in rows {
            datarow::text_row(&mut bytes, row);
        }
        self.wire.send_rows(&bytes).await
    }
}

/// Waits until the server ends every session.
pub(crate) async fn ended(ended: &mut watch::Receiver<Option<Failure>>) -> SqlError {
    match ended.changed().await {
        Ok(()) => {
            let failure = ended.borrow_and_update().clone();
            failure
                .unwrap_or_else(Failure::authentication_expired)
                .fatal()
        }
        // The sender lives in the world that the session holds.
        Err(_) => std::future::pending().await,
    }
}

pub(crate) fn no_cursor(name: &str) -> SqlError {
    SqlError::new("34000", format!("cursor \"{name}\" does not exist"))
}
