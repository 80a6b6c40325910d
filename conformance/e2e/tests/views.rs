//! Several views in one sink: every commit is one moment of all of them.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use e2e::{Random, Table, World, edited};
use materialize_sim::Control;

const COLUMNS: [(&str, &str); 2] = [("k", "int"), ("v", "text")];

/// Every SUBSCRIBE that the simulator got so far.
fn subscriptions(control: &Control) -> Vec<String> {
    let mut statements = control.statements();
    statements.retain(|sql| sql.contains("SUBSCRIBE"));
    statements
}

async fn tables<const N: usize>(world: &World) -> [Table; N] {
    let mut tables = Vec::new();
    for _ in 0..N {
        tables.push(world.table(&COLUMNS).await.unwrap());
    }
    tables.try_into().unwrap()
}

/// Changes the tables in turn until told to stop.
async fn write(world: Arc<World>, tables: [Table; 3], mut random: Random, stop: Arc<AtomicBool>) {
    let session = world.session().await.unwrap();
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let table = &tables[random.below(3) as usize].name;
        let (old, v) = (random.below(next.max(1)), random.below(1_000_000));
        let sql = match random.below(5) {
            0 => format!("UPDATE {table} SET v = 'u{v}' WHERE k = {old}"),
            1 => format!("UPDATE {table} SET v = 'all{v}'"),
            2 => format!("DELETE FROM {table} WHERE k = {old}"),
            _ => {
                let keys = next..next + 1 + random.below(40);
                next = keys.end;
                let rows: Vec<_> = keys.map(|k| format!("({k}, 'i{v}')")).collect();
                format!("INSERT INTO {table} VALUES {}", rows.join(", "))
            }
        };
        session.query(&sql).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crashes_at_random_points_leave_all_views_at_one_moment() {
    let world = Arc::new(World::start().await.unwrap());
    let tables: [Table; 3] = tables(&world).await;
    let all = tables.each_ref();
    let config = world.config_of(&all).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut random = Random::new();
    let changes = write(world.clone(), tables.clone(), random.fork(), stop.clone());
    let writer = tokio::spawn(changes);
    for _ in 0..10 {
        let host = world.host_with(&config).unwrap();
        let life = Duration::from_millis(50 + random.below(900 * world.pace()));
        tokio::time::sleep(life).await;
        let ended = host.kill_9().unwrap();
        assert_eq!(ended.code, None, "it ended by itself: {}", ended.output);
    }
    let mut host = world.host_with(&config).unwrap();
    // While changes go on, and after them.
    world.all_caught_up(&all, &mut host).await.unwrap();
    stop.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    world.all_caught_up(&all, &mut host).await.unwrap();
    if let Some(control) = world.control() {
        let resumed = |sql: &String| sql.contains("SNAPSHOT = false");
        let subscriptions = subscriptions(&control);
        let mut after = subscriptions.iter().skip_while(|sql| !resumed(sql));
        assert!(after.all(resumed), "{subscriptions:#?}");
    }
}

#[tokio::test]
async fn all_snapshots_are_of_one_time_whatever_the_retention() {
    let why = "the statements of a real one are not seen";
    let Some((world, control)) = World::controlled(why).await.unwrap() else {
        return;
    };
    let tables: [Table; 3] = tables(&world).await;
    let all = tables.each_ref();
    for table in all {
        control.set_retention(&table.name, 1_000).unwrap();
        let insert = format!("INSERT INTO {} VALUES (1, 'a'), (2, 'b')", table.name);
        world.sql(&[&insert]).await.unwrap();
    }
    let short = "[source]\nallow_short_retention = true\n";
    let config = edited(&world.config_of(&all).unwrap(), "[source]\n", short);
    let mut host = world.host_with(&config).unwrap();
    world.all_caught_up(&all, &mut host).await.unwrap();
    let times: Vec<_> = subscriptions(&control)
        .iter()
        .map(|sql| sql.split_once(" AS OF ").unwrap().1.to_owned())
        .collect();
    assert_eq!(times.len(), 3);
    assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
}

#[tokio::test]
async fn a_view_whose_history_is_gone_is_read_anew_while_the_others_resume() {
    let why = "a real one compacts when it likes";
    let Some((world, control)) = World::controlled(why).await.unwrap() else {
        return;
    };
    let tables: [Table; 2] = tables(&world).await;
    let all = tables.each_ref();
    let [lost, kept] = all.map(|table| table.name.clone());
    for name in [&lost, &kept] {
        let insert = format!("INSERT INTO {name} VALUES (1, 'a'), (2, 'b')");
        world.sql(&[&insert]).await.unwrap();
    }
    let again = "[source]\non_history_loss = \"resnapshot\"\n";
    let config = edited(&world.config_of(&all).unwrap(), "[source]\n", again);
    let mut host = world.host_with(&config).unwrap();
    let before = world.all_caught_up(&all, &mut host).await.unwrap();
    host.kill_9().unwrap();
    for name in [&lost, &kept] {
        let delete = format!("DELETE FROM {name} WHERE k = 1");
        let insert = format!("INSERT INTO {name} VALUES (3, 'c')");
        world.sql(&[&delete, &insert]).await.unwrap();
    }
    let now = world.now(all[0]).await.unwrap();
    control.compact(&lost, now).unwrap();
    let seen = subscriptions(&control).len();
    let mut host = world.host_with(&config).unwrap();
    let after = world.all_caught_up(&all, &mut host).await.unwrap();
    let last: Vec<_> = subscriptions(&control).drain(seen..).collect();
    let of = |name: &str| last.iter().rev().find(|sql| sql.contains(name)).unwrap();
    assert!(!of(&lost).contains("SNAPSHOT = false"), "{last:#?}");
    assert!(of(&kept).contains("SNAPSHOT = false"), "{last:#?}");
    assert_ne!(before.namespaces[&lost], after.namespaces[&lost]);
    assert_eq!(before.namespaces[&kept], after.namespaces[&kept]);
    let output = host.output();
    assert!(output.contains("reading the object anew"), "{output}");
}

#[tokio::test]
async fn one_lost_connection_ends_the_streams_of_all_and_all_resume_at_the_cut() {
    let why = "connections of a real one are not cut";
    let Some((world, control)) = World::controlled(why).await.unwrap() else {
        return;
    };
    let tables: [Table; 2] = tables(&world).await;
    let all = tables.each_ref();
    let config = world.config_of(&all).unwrap();
    let mut host = world.host_with(&config).unwrap();
    world.all_caught_up(&all, &mut host).await.unwrap();
    for round in 0..3 {
        let seen = subscriptions(&control).len();
        control.kill_connections();
        for table in all {
            let insert = format!("INSERT INTO {} VALUES ({round}, 'x')", table.name);
            world.sql(&[&insert]).await.unwrap();
        }
        world.all_caught_up(&all, &mut host).await.unwrap();
        let last: Vec<_> = subscriptions(&control).drain(seen..).collect();
        let times: Vec<_> = last.iter().map(|sql| sql.split_once("AS OF ")).collect();
        assert!(times.len() >= 2, "{last:#?}");
        assert!(last.iter().all(|sql| sql.contains("SNAPSHOT = false")));
    }
}

#[tokio::test]
async fn a_view_with_times_of_its_own_is_refused_beside_others() {
    let why = "a real one has no such source here";
    let Some((world, control)) = World::controlled(why).await.unwrap() else {
        return;
    };
    let tables: [Table; 2] = tables(&world).await;
    control.set_own_timeline(&tables[1].name).unwrap();
    let config = world.config_of(&tables.each_ref()).unwrap();
    let ended = world
        .host_with(&config)
        .unwrap()
        .end(e2e::PATIENCE)
        .await
        .unwrap();
    assert_eq!(ended.code, Some(1), "{}", ended.output);
    assert!(
        ended.output.contains("error[own-timeline]"),
        "{}",
        ended.output
    );
}
