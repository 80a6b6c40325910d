//! A connection of a worker to the model of Materialize.

use std::sync::Arc;
use std::time::Duration;

use mz_sink_core::catalog::Table;
use mz_sink_core::decode::Fields;
use mz_sink_core::server_error::ServerError;
use mz_sink_driver::{BlockEnd, RowBlock, Source};
use tokio::time::Instant;

use crate::dice::Dice;
use crate::profile::Fault;
use crate::state::Shared;
use crate::worker::{Mark, WorkerId, point};
use crate::world::{Session, TextRow, connection_lost, server_error};

/// One connection; reconnects keep the worker.
pub(crate) struct ModelSource {
    sim: Shared,
    worker: WorkerId,
    dice: Dice,
    session: Option<Session>,
    /// When the running FETCH ends; never, without a timeout.
    deadline: Option<Instant>,
}

impl ModelSource {
    pub(crate) fn new(sim: Shared, worker: WorkerId, dice: Dice) -> Self {
        Self {
            sim,
            worker,
            dice,
            session: None,
            deadline: None,
        }
    }

    async fn pass(&mut self, most: u64) {
        let millis = self.dice.within(1..=most);
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    /// Waits while the server says nothing, but no longer than `silence`.
    async fn answering(&mut self, silence: Duration) -> Result<(), ServerError> {
        let until = self.sim.state().world.hangs_until;
        let wait = until.saturating_sub(self.sim.millis());
        if wait == 0 {
            return Ok(());
        }
        let wait = Duration::from_millis(wait);
        tokio::time::sleep(wait.min(silence)).await;
        if wait > silence {
            return Err(connection_lost("the server went silent"));
        }
        Ok(())
    }

    /// The session, while its connection is open.
    fn alive(&mut self) -> Result<&mut Session, ServerError> {
        let lost = || connection_lost("the connection was closed");
        let session = self.session.as_mut().ok_or_else(lost)?;
        if self.sim.state().world.connections.contains(&session.id) {
            Ok(session)
        } else {
            Err(lost())
        }
    }

    /// A fault of the server in the middle of a FETCH.
    fn trouble(&mut self) -> Option<ServerError> {
        let state = self.sim.state();
        if !self.dice.chance(state.profile.trouble / 2) {
            return None;
        }
        let fault = self.dice.pick(&[
            Fault::Disconnect,
            Fault::Disconnect,
            Fault::FellBehind,
            Fault::Poisoned,
        ]);
        let rare = fault != Fault::Poisoned || self.dice.chance(100);
        if !state.may(fault) || !rare {
            return None;
        }
        Some(match fault {
            Fault::Disconnect => connection_lost("connection reset by peer"),
            Fault::FellBehind if self.dice.chance(500) => {
                server_error("53200", "SUBSCRIBE fell behind its limits")
            }
            Fault::FellBehind => server_error("XX000", "SUBSCRIBE fell behind its limits"),
            _ => match self.dice.below(3) {
                0 => server_error("57014", "canceling statement due to user request"),
                1 => server_error("XX000", "result exceeds max size of 1.0 MiB"),
                _ => server_error("XX000", "Evaluation error: division by zero"),
            },
        })
    }

    /// Tells the trace and the worker's record of an error that is about to be reported.
    fn report<T>(&mut self, what: &str, result: Result<T, ServerError>) -> Result<T, ServerError> {
        if let Err(error) = &result {
            self.sim.note(format_args!(
                "worker {} {what}: {} {error}",
                self.worker,
                error.code.as_deref().unwrap_or("lost")
            ));
            self.sim.state().workers[self.worker].source_failed(error);
        }
        result
    }

    async fn try_connect(&mut self) -> Result<(), ServerError> {
        point(&self.sim, self.worker, "connect").await;
        self.disconnect().await;
        self.pass(20).await;
        self.answering(Duration::from_secs(10)).await?;
        let elapsed = self.sim.millis();
        let id = self.sim.state().world.connect(elapsed)?;
        self.session = Some(Session::new(id));
        self.sim.state().workers[self.worker].mark(Mark::Connected);
        point(&self.sim, self.worker, "connected").await;
        Ok(())
    }

    async fn try_run(&mut self, sql: &str) -> Result<Table, ServerError> {
        point(&self.sim, self.worker, "statement").await;
        self.pass(5).await;
        self.answering(Duration::from_secs(30)).await?;
        self.alive()?;
        let session = self
            .session
            .as_mut()
            .ok_or_else(|| connection_lost("not connected"))?;
        let table = self.sim.state().world.answer(session, sql)?;
        self.sim.note(format_args!(
            "worker {} ran {}: {} row(s)",
            self.worker,
            gist(sql),
            table.rows.len()
        ));
        if sql.contains("SNAPSHOT = false") {
            self.sim.state().workers[self.worker].mark(Mark::Resumed);
        }
        if sql.contains("mz_indexes") && table.rows.iter().any(|row| row[0].is_some()) {
            self.sim.state().workers[self.worker].mark(Mark::SawIndex);
        }
        if sql.contains("mz_object_fully_qualified_names") && table.rows.is_empty() {
            self.sim.state().workers[self.worker].mark(Mark::SawNoObject);
        }
        point(&self.sim, self.worker, "statement done").await;
        Ok(table)
    }

    async fn try_fetch(&mut self, sql: &str) -> Result<(), ServerError> {
        point(&self.sim, self.worker, "fetch").await;
        self.pass(3).await;
        let timeout = sql
            .split_once("timeout = '")
            .and_then(|(_, rest)| rest.split_once("ms"))
            .and_then(|(millis, _)| millis.parse().ok());
        self.deadline = timeout.map(|millis| Instant::now() + Duration::from_millis(millis));
        self.alive()?;
        let mut state = self.sim.state();
        let cursor = self.session.as_mut().and_then(|s| s.cursor.as_mut());
        let Some(cursor) = cursor else {
            return Err(server_error("34000", "cursor does not exist"));
        };
        cursor.start(&mut state.world, &mut self.dice)
    }

    /// What can be sent now: nothing is an empty block, and `None` the end of the stream.
    fn rows(&mut self) -> Result<Option<ModelBlock>, ServerError> {
        self.alive()?;
        let most = self.dice.within(1..=12) as usize;
        let state = self.sim.state();
        let Some(cursor) = self.session.as_mut().and_then(|s| s.cursor.as_mut()) else {
            return Err(server_error("34000", "cursor does not exist"));
        };
        let there = state.world.objects.iter().any(|o| {
            // A replacement keeps the shard, and the stream goes on.
            o.id == cursor.object.id || o.shard == cursor.object.shard
        });
        if !there {
            let name = &cursor.object.name;
            return Err(if self.dice.chance(500) {
                server_error("42704", &format!("relation 'db.s.{name}' was dropped"))
            } else {
                server_error(
                    "XX000",
                    &format!(
                        "subscribe has been terminated because underlying relation \"db.s.{name}\" was dropped"
                    ),
                )
            });
        }
        let mut rows = cursor.take(most);
        if rows.is_empty() {
            cursor.advance(&state.world, &mut self.dice);
            rows = cursor.take(most);
        }
        let names = cursor.names.clone();
        let ended = rows.is_empty() && cursor.is_ended();
        drop(state);
        Ok((!ended).then_some(ModelBlock { names, rows }))
    }

    async fn try_next(
        &mut self,
        block: &mut ModelBlock,
        silence: Duration,
    ) -> Result<BlockEnd, ServerError> {
        let quiet_until = Instant::now() + silence;
        loop {
            point(&self.sim, self.worker, "rows").await;
            self.answering(quiet_until - Instant::now()).await?;
            if let Some(error) = self.trouble() {
                if error.code.is_none()
                    && let Some(session) = &self.session
                {
                    let id = session.id;
                    self.sim.state().world.disconnect(id);
                }
                return Err(error);
            }
            if self.dice.chance(150) {
                // Rows of one time do not all come at once.
                self.pass(60).await;
            }
            match self.rows()? {
                None => return Ok(BlockEnd::Complete),
                Some(ready) if !ready.rows.is_empty() => {
                    if ready.has_violation() {
                        self.sim.state().workers[self.worker].mark(Mark::KeyViolation);
                    }
                    self.sim.note(format_args!(
                        "worker {} gets {} row(s) up to {}",
                        self.worker,
                        ready.rows.len(),
                        ready.last_time()
                    ));
                    *block = ready;
                    return Ok(BlockEnd::More);
                }
                Some(_) => {}
            }
            let now = Instant::now();
            if self.deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(BlockEnd::Complete);
            }
            if now >= quiet_until {
                return Err(connection_lost("the server went silent"));
            }
            self.pass(400).await;
        }
    }
}

impl Source for ModelSource {
    type Block = ModelBlock;

    async fn connect(&mut self) -> Result<(), ServerError> {
        let result = self.try_connect().await;
        self.report("could not connect", result)
    }

    async fn run(&mut self, sql: &str) -> Result<Table, ServerError> {
        let result = self.try_run(sql).await;
        self.report(sql, result)
    }

    async fn fetch(&mut self, sql: &str) -> Result<(), ServerError> {
        let result = self.try_fetch(sql).await;
        self.report(sql, result)
    }

    async fn next_block(
        &mut self,
        block: &mut ModelBlock,
        silence: Duration,
    ) -> Result<BlockEnd, ServerError> {
        let result = self.try_next(block, silence).await;
        self.report("was fetching", result)
    }

    async fn disconnect(&mut self) {
        if let Some(session) = self.session.take() {
            self.sim.state().world.disconnect(session.id);
        }
    }
}

impl Drop for ModelSource {
    /// The server notices when a client is gone.
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.sim.state().world.disconnect(session.id);
        }
    }
}

/// A look-up by what it looks at; anything else in full.
fn gist(sql: &str) -> &str {
    let rest = sql.split_once(" FROM mz_").map_or(sql, |(_, rest)| rest);
    match sql.contains("mz_frontiers f") {
        true => "mz_frontiers",
        false => rest
            .split(' ')
            .next()
            .filter(|_| rest != sql)
            .unwrap_or(sql),
    }
}

/// Rows on their way.
#[derive(Default)]
pub(crate) struct ModelBlock {
    names: Arc<Vec<String>>,
    rows: Vec<TextRow>,
}

impl ModelBlock {
    fn has_violation(&self) -> bool {
        let violates = |row: &TextRow| row[2].as_deref() == Some("key_violation");
        self.rows.iter().any(violates)
    }

    fn last_time(&self) -> &str {
        let last = self.rows.last().and_then(|row| row[0].as_deref());
        last.unwrap_or_default()
    }
}

/// One of them.
pub(crate) struct ModelRow<'a>(&'a TextRow);

impl Fields for ModelRow<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> Option<&[u8]> {
        self.0[index].as_deref().map(str::as_bytes)
    }
}

impl RowBlock for ModelBlock {
    type Row<'a> = ModelRow<'a>;

    fn names(&self) -> &[String] {
        &self.names
    }

    fn rows(&self) -> impl Iterator<Item = ModelRow<'_>> {
        self.rows.iter().map(ModelRow)
    }
}
