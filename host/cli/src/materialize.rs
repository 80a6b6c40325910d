//! Materialize as the driver's source.

use std::path::PathBuf;
use std::time::Duration;

use mz_sink_core::catalog::Table;
use mz_sink_core::server_error::{ErrorKind, ServerError};
use mz_sink_driver::BlockEnd;
use mz_sink_source::{ConnectOptions, Row, RowBlock, Session};

use crate::config;

/// Opens one session after another.
pub struct Materialize {
    options: ConnectOptions,
    /// Read anew for every connection: what is in it may have been replaced since.
    password_file: Option<PathBuf>,
    session: Option<Session>,
}

impl Materialize {
    /// Not connected yet.
    pub fn new(options: ConnectOptions, password_file: Option<PathBuf>) -> Self {
        Self {
            options,
            password_file,
            session: None,
        }
    }

    /// The version of Materialize, while there is a connection to one.
    pub fn version(&self) -> Option<&str> {
        self.session.as_ref()?.mz_version()
    }

    async fn renew_password(&mut self) -> Result<(), ServerError> {
        let Some(path) = self.password_file.clone() else {
            return Ok(());
        };
        // A file that is a pipe may not answer.
        let read = tokio::task::spawn_blocking(move || config::password_from_file(&path));
        let password = read
            .await
            .unwrap_or_else(|_| Err("the password was not read".into()))
            .map_err(|text| not_connected(format!("materialize.password_file: {text}")))?;
        self.options.set_password(password);
        Ok(())
    }

    fn session(&mut self) -> Result<&mut Session, ServerError> {
        self.session
            .as_mut()
            .ok_or_else(|| not_connected("there is no connection".into()))
    }
}

fn not_connected(message: String) -> ServerError {
    ServerError {
        kind: ErrorKind::Connection,
        code: None,
        message,
        detail: None,
        hint: None,
    }
}

/// Rows that arrived together.
#[derive(Default)]
pub struct Block(RowBlock);

impl mz_sink_driver::RowBlock for Block {
    type Row<'a> = Row<'a>;

    fn names(&self) -> &[String] {
        self.0.names()
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.0.rows()
    }
}

impl mz_sink_driver::Source for Materialize {
    type Block = Block;

    async fn connect(&mut self) -> Result<(), ServerError> {
        self.session = None;
        self.renew_password().await?;
        self.session = Some(Session::connect(&self.options).await?);
        Ok(())
    }

    async fn run(&mut self, sql: &str) -> Result<Table, ServerError> {
        self.session()?.query(sql).await
    }

    async fn fetch(&mut self, sql: &str) -> Result<(), ServerError> {
        self.session()?.fetch(sql).await
    }

    async fn next_block(
        &mut self,
        block: &mut Block,
        silence: Duration,
    ) -> Result<BlockEnd, ServerError> {
        let complete = self.session()?.next_block(&mut block.0, silence).await?;
        Ok(if complete {
            BlockEnd::Complete
        } else {
            BlockEnd::More
        })
    }

    async fn disconnect(&mut self) {
        if let Some(session) = self.session.take() {
            session.close().await;
        }
    }
}
