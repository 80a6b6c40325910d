//! What is in Materialize arrives in turbopuffer, whatever happens on the way.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use e2e::{PATIENCE, World};

const COLUMNS: [(&str, &str); 2] = [("k", "int"), ("v", "text")];

#[tokio::test]
async fn a_snapshot_arrives_and_then_every_change() {
    let world = World::start().await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let t = &table.name;
    let insert = format!("INSERT INTO {t} VALUES (1, 'one'), (2, 'two'), (3, NULL)");
    world.sql(&[&insert]).await.unwrap();
    let mut host = world.host(&table).unwrap();
    let first = world.caught_up(&table, &mut host).await.unwrap();
    for statement in [
        format!("INSERT INTO {t} VALUES (4, 'four')"),
        format!("UPDATE {t} SET v = 'zwei' WHERE k = 2"),
        format!("DELETE FROM {t} WHERE k = 1"),
    ] {
        world.sql(&[&statement]).await.unwrap();
        let next = world.caught_up(&table, &mut host).await.unwrap();
        assert_eq!(next.namespace, first.namespace);
    }
    host.terminate().unwrap();
    let ended = host.end(PATIENCE).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.output);
}
