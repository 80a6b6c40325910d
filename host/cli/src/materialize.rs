//! Materialize as the driver's source.

use std::time::Duration;

use mz_sink_core::catalog::Table;
use mz_sink_core::server_error::{ErrorKind, ServerError};
use mz_sink_driver::BlockEnd;
use mz_sink_source::{ConnectOptions, Row, RowBlock, Session};

/// Opens one session after another.
pub struct Materialize {
    options: ConnectOptions,
    session: Option<Session>,
}

impl Materialize {
    /// Not connected yet.
    pub fn new(options: ConnectOptions) -> Self {
        Self {
            options,
            session: None,
        }
    }

    fn session(&mut self) -> Result<&mut Session, ServerError> {
        self.session.as_mut().ok_or_else(|| ServerError {
            kind: ErrorKind::Connection,
            code: None,
            message: "there is no connection".into(),
            detail: None,
            hint: None,
        })
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
