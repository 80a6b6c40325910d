//! DECLARE, FETCH and SUBSCRIBE: when rows are sent, and when a FETCH ends.

use std::sync::Arc;
use std::time::Duration;

use pgwire::messages::response::TransactionStatus;
use tokio::time::Instant;

use crate::datarow::RowBuffer;
use crate::envelope::Shape;
use crate::error::SqlError;
use crate::faults::Failure;
use crate::feed::{Feed, Request, Step};
use crate::lock;
use crate::object::{Name, Object};
use crate::privileges::Target as Privilege;
use crate::session::{Session, ended, no_cursor};
use crate::statement::{Subscribe, Target};
use crate::timestamp::no_valid_timestamp;
use crate::types::Column;
use crate::wire::Stop;
use crate::world::{Deadline, Subscription, World};

/// The longest timeout of a FETCH.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// A declared subscription. Its dataflow starts at the first FETCH.
pub(crate) struct Cursor {
    subscribe: Subscribe,
    object: Arc<Object>,
    shape: Shape,
    columns: Vec<Column>,
    cluster: String,
    running: Option<Running>,
}

/// A started dataflow.
struct Running {
    feed: Box<dyn Feed>,
    /// Whether its first row was sent.
    opened: bool,
    /// Failures ordered for the object before this one are not meant for it.
    generation: u64,
    _listed: Listed,
}

/// An entry of `mz_subscriptions`, for as long as it lives.
struct Listed {
    world: Arc<World>,
    number: u64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.world.inner().subscriptions.remove(&self.number);
    }
}

/// When to stop sending rows.
#[derive(Clone, Copy)]
enum Until {
    /// There were rows, and no more are ready.
    Drained,
    /// This time has come.
    Deadline(Deadline),
    /// The stream ends.
    End,
}

impl Session {
    pub(crate) fn declare(&mut self, name: String, subscribe: Subscribe) -> Result<(), Stop> {
        if self.transaction == TransactionStatus::Idle {
            let text = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new("25P01", text).into());
        }
        if self.cursors.contains_key(&name) {
            return Err(SqlError::new("42P03", format!("cursor \"{name}\" already exists")).into());
        }
        let cursor = self.plan(subscribe)?;
        self.cursors.insert(name, cursor);
        self.wire.complete("DECLARE CURSOR");
        Ok(())
    }

    /// Looks up names and nothing else, as the server does at DECLARE.
    fn plan(&self, subscribe: Subscribe) -> Result<Cursor, SqlError> {
        let object = match &subscribe.target {
            Target::Id(id) => self
                .world
                .inner()
                .find_id(id)
                .cloned()
                .ok_or_else(|| SqlError::new("XX000", format!("invalid id {id}")))?,
            Target::Name(parts) => self.resolve(parts)?,
            Target::Query(query) => self.object_of(query.clone())?,
        };
        let shape = Shape::new(
            subscribe.progress,
            subscribe.key.as_deref(),
            &object.columns,
        )?;
        let columns = shape.columns(&object.columns);
        let cluster = self.variables.get("cluster").to_owned();
        Ok(Cursor {
            subscribe,
            object,
            shape,
            columns,
            cluster,
            running: None,
        })
    }

    /// The object of this name.
    pub(crate) fn resolve(&self, parts: &[String]) -> Result<Arc<Object>, SqlError> {
        let name = self.full_name(parts);
        let found = self.world.inner().find(&name).cloned();
        found.ok_or_else(|| SqlError::unknown_item(&parts.join(".")))
    }

    pub(crate) fn full_name(&self, parts: &[String]) -> Name {
        Name::from_parts(
            parts,
            self.variables.get("database"),
            self.variables.schema(),
        )
    }

    pub(crate) async fn fetch(
        &mut self,
        name: String,
        count: Option<u64>,
        timeout: Option<Duration>,
    ) -> Result<(), Stop> {
        let mut cursor = self.cursors.remove(&name).ok_or_else(|| no_cursor(&name))?;
        self.wire.describe(&cursor.columns);
        let until = match timeout {
            None => Until::Drained,
            Some(timeout) if timeout > LONGEST_TIMEOUT => {
                let text = format!("timeout out of range: {}s", timeout.as_secs());
                return Err(SqlError::new("XX000", text).into());
            }
            Some(timeout) => Until::Deadline(self.world.deadline(timeout)),
        };
        let sent = self
            .send(&mut cursor, count.unwrap_or(u64::MAX), until)
            .await?;
        self.cursors.insert(name, cursor);
        self.wire.complete(format!("FETCH {sent}"));
        Ok(())
    }

    /// A SUBSCRIBE without a cursor: rows until the stream ends.
    pub(crate) async fn stream(&mut self, subscribe: Subscribe) -> Result<(), Stop> {
        let mut cursor = self.plan(subscribe)?;
        self.wire.describe(&cursor.columns);
        cursor.running = Some(self.start(&cursor)?);
        self.wire.notice(
            "01000",
            "streaming SUBSCRIBE rows directly requires a client that does not buffer output",
        );
        let sent = self.send(&mut cursor, u64::MAX, Until::End).await?;
        self.wire.complete(format!("SELECT {sent}"));
        Ok(())
    }

    /// Decides AS OF, checks it, and starts the dataflow.
    fn start(&mut self, cursor: &Cursor) -> Result<Running, SqlError> {
        if self.read_at.is_some() {
            let text =
                "SELECT queries cannot be combined with other query types, including SUBSCRIBE.";
            return Err(SqlError::new("25006", "transaction in read-only mode").detail(text));
        }
        let Cursor {
            subscribe,
            object,
            shape,
            cluster,
            ..
        } = cursor;
        self.check_privileges(object, cluster)?;
        let now = self.world.inner().now();
        let as_of = subscribe.as_of.unwrap_or_else(|| object.default_as_of(now));
        no_valid_timestamp(&self.world, object, cluster, as_of)?;
        if let Some(up_to) = subscribe.up_to.filter(|up_to| *up_to < as_of) {
            return Err(SqlError::new(
                "22000",
                format!(
                    "subscription lower bound (`AS OF`) is greater than its upper bound (`UP TO`): {as_of} > {up_to}"
                ),
            ));
        }
        let (described, sent) = (shape.order.len(), object.columns.len());
        if described != sent {
            // A key that names a column twice; the real server finds out as late and as badly.
            let meta = shape.meta_columns();
            let text = format!(
                "internal error: internal error: row descriptor has {} columns but row has {} columns",
                described + meta,
                sent + meta,
            );
            return Err(SqlError::new("XX000", text));
        }
        let max_batch_bytes = self.world.inner().max_result_size;
        let feed = object.subscribe(Request {
            shape: shape.clone(),
            as_of,
            // The snapshot is at AS OF, which UP TO may leave out.
            snapshot: subscribe.snapshot && subscribe.up_to.is_none_or(|up_to| as_of < up_to),
            up_to: subscribe.up_to,
            max_batch_bytes,
        })?;
        let number = self.world.inner().list_subscription(Subscription {
            session: self.session_id.clone(),
            cluster: cluster.clone(),
            created_at: now,
            object: object.catalog_id(),
        });
        let mut faults = lock(&object.faults);
        if let Some(bytes) = faults.cut_next_after.take() {
            self.wire.cut_after(bytes);
        }
        Ok(Running {
            feed,
            opened: false,
            generation: faults.generation,
            _listed: Listed {
                world: self.world.clone(),
                number,
            },
        })
    }

    fn check_privileges(&self, object: &Object, cluster: &str) -> Result<(), SqlError> {
        // A query is not in the catalog: what it reads counts.
        let query = object.derivation().filter(|_| object.id() == 0);
        let name = query.map_or_else(|| object.name(), |query| query.input.name());
        let schema = format!("{}.{}", name.database, name.schema);
        let privileges = &self.world.inner().privileges;
        for target in [
            Privilege::Cluster(cluster.to_owned()),
            Privilege::Schema(schema),
            Privilege::Relation(name.to_string()),
        ] {
            privileges.check(&self.user, target)?;
        }
        Ok(())
    }

    /// Whether what a running subscription reads was taken away, or a failure was ordered for it.
    fn terminated(&self, cursor: &Cursor) -> Result<(), SqlError> {
        let lost = if let Some(name) = cursor.object.dropped_input() {
            format!("relation \"{name}\"")
        } else if !self.world.inner().clusters.contains(&cursor.cluster) {
            format!("cluster \"{}\"", cursor.cluster)
        } else {
            let faults = lock(&cursor.object.faults);
            return match (&faults.failure, &cursor.running) {
                (Some(failure), Some(running)) if running.generation < faults.generation => {
                    Err(failure.error())
                }
                _ => Ok(()),
            };
        };
        let text = format!("subscribe has been terminated because underlying {lost} was dropped");
        Err(SqlError::new("XX000", text))
    }

    /// A client that left too much unread is not served any more.
    fn keeps_up(&self, cursor: &Cursor) -> Result<(), SqlError> {
        let limit = self.world.inner().max_buffered_bytes;
        match &cursor.running {
            Some(running) if limit < u64::MAX && running.feed.waiting_bytes() > limit => {
                Err(Failure::fell_behind().error())
            }
            _ => Ok(()),
        }
    }

    /// Sends rows as they come; the number sent.
    async fn send(&mut self, cursor: &mut Cursor, limit: u64, until: Until) -> Result<u64, Stop> {
        self.keeps_up(cursor)?;
        if cursor.running.is_none() {
            cursor.running = Some(self.start(cursor)?);
        }
        let mut buffer = RowBuffer::new(limit);
        let mut changed = self.world.changed.subscribe();
        let mut expired = false;
        loop {
            changed.mark_unchanged();
            if *self.world.stalled.borrow() {
                self.until_not_stalled().await;
            }
            self.terminated(cursor)?;
            let Some(running) = cursor.running.as_mut().filter(|_| buffer.room > 0) else {
                break;
            };
            let (poison, stalled) = {
                let faults = lock(&cursor.object.faults);
                (faults.poison.clone(), faults.stalled)
            };
            let step = match poison {
                _ if stalled => Ok(Step::Idle(None)),
                None => running.feed.fill(&mut buffer),
                Some(poison) => {
                    if !running.opened && cursor.shape.progress {
                        // AS OF is told before anything is computed.
                        let mut first = RowBuffer::new(1);
                        running.feed.fill(&mut first)?;
                        buffer.bytes.append(&mut first.bytes);
                    }
                    Err(poison.error())
                }
            };
            running.opened |= !stalled;
            if !buffer.bytes.is_empty() {
                self.wire.send_rows(&buffer.bytes).await?;
                buffer.bytes.clear();
            }
            let drained = matches!(until, Until::Drained) && buffer.room < limit;
            match step? {
                Step::Ended => break,
                Step::Full => {}
                Step::Idle(_) if drained || expired => break,
                Step::Idle(wake) => {
                    self.wire.flush().await?;
                    // What is ready at the deadline is still sent.
                    let wake = wake.map(Instant::from_std);
                    expired = !self.wait(&mut changed, until, wake).await?;
                }
            }
        }
        Ok(limit - buffer.room)
    }

    /// Waits for something to happen; false at the deadline.
    async fn wait(
        &mut self,
        changed: &mut tokio::sync::watch::Receiver<u64>,
        until: Until,
        wake: Option<Instant>,
    ) -> Result<bool, Stop> {
        let deadline = match until {
            Until::Deadline(deadline) => Some(deadline),
            Until::Drained | Until::End => None,
        };
        loop {
            tokio::select! {
                biased;
                error = ended(&mut self.ended) => return Err(error.into()),
                () = self.cancel.notified() => {
                    let text = "canceling statement due to user request";
                    return Err(SqlError::new("57014", text).into());
                }
                () = self.world.reached(deadline) => return Ok(false),
                _ = changed.changed() => return Ok(true),
                () = self.world.reached(wake.map(Deadline::Real)) => return Ok(true),
                // A client that is gone is noticed; what it sends early is kept.
                more = self.wire.read_more() => more?,
            }
        }
    }
}
