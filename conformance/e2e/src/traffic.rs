//! Changes of a table, for as long as a test takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mz_sink_core::server_error::ErrorKind;
use mz_sink_source::Session;
use tokio::sync::{RwLock, RwLockWriteGuard};

use crate::{Random, World};

/// What goes on and what does not, for several tables together.
#[derive(Default)]
pub struct Traffic {
    stop: AtomicBool,
    /// Held while a change is made; who holds it alone sees none.
    gate: RwLock<()>,
}

impl Traffic {
    /// Ends it.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Nothing changes for as long as this is kept.
    pub async fn quiet(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().await
    }
}

/// Changes a table `(k int, v text)` until told to stop; how often it did. One INSERT has many
/// rows. Keys stay unique.
///
/// # Errors
/// When Materialize refuses a change.
pub async fn change(
    world: Arc<World>,
    table: String,
    mut random: Random,
    traffic: Arc<Traffic>,
) -> anyhow::Result<u64> {
    let mut session = world.session().await?;
    let mut next = 0;
    let mut changes = 0;
    while !traffic.stop.load(Ordering::Relaxed) {
        let open = traffic.gate.read().await;
        // A key that was there: keys stay unique.
        let (old, v) = (random.below(next.max(1)), random.below(1_000_000));
        let sql = match random.below(6) {
            0 => format!("UPDATE {table} SET v = 'u{v}' WHERE k = {old}"),
            1 => format!("UPDATE {table} SET v = 'all{v}'"),
            2 => format!("DELETE FROM {table} WHERE k = {old}"),
            3 if random.below(10) == 0 => format!("DELETE FROM {table}"),
            4 if next > 0 => {
                // A key that comes back.
                let delete = format!("DELETE FROM {table} WHERE k = {old}");
                if !run(&world, &mut session, &delete).await? {
                    // A row that may still be there must not get a twin.
                    continue;
                }
                format!("INSERT INTO {table} VALUES ({old}, 'again{v}')")
            }
            _ => {
                let keys = next..next + 1 + random.below(40);
                next = keys.end;
                let rows: Vec<_> = keys.map(|k| format!("({k}, 'i{v}')")).collect();
                format!("INSERT INTO {table} VALUES {}", rows.join(", "))
            }
        };
        run(&world, &mut session, &sql).await?;
        changes += 1;
        drop(open);
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    Ok(changes)
}

/// Runs a statement; `false` if the connection was lost, and whether it was carried out is not
/// known.
async fn run(world: &World, session: &mut Session, sql: &str) -> anyhow::Result<bool> {
    if let Err(error) = session.query(sql).await {
        if error.kind != ErrorKind::Connection {
            return Err(error.into());
        }
        *session = world.session().await?;
        return Ok(false);
    }
    Ok(true)
}
