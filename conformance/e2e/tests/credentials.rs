//! Credentials that change while the program runs.
#![allow(clippy::unwrap_used, reason = "only tests use it")]

use e2e::{PATIENCE, World, edited};
use materialize_sim::{Failure, Options};

const COLUMNS: [(&str, &str); 2] = [("k", "int"), ("v", "text")];

/// A table that is committed over a connection whose password, `first`, is in a file.
async fn running() -> (World, e2e::Host) {
    let world = World::simulated(Options::default()).await.unwrap();
    let table = world.table(&COLUMNS).await.unwrap();
    let insert = format!("INSERT INTO {} VALUES (1, 'a')", table.name);
    world.sql(&[&insert]).await.unwrap();
    world.control().unwrap().set_password("first");
    std::fs::write(world.file("password"), "first\n").unwrap();
    let config = edited(
        &world.config(&table).unwrap(),
        "[source]",
        "password_file = \"password\"\n\n[source]",
    );
    let mut host = world.host_with(&config).unwrap();
    world.committed(1, &mut host).await.unwrap();
    (world, host)
}

#[tokio::test]
async fn a_password_that_was_replaced_in_its_file_is_used_for_the_next_connection() {
    let (world, mut host) = running().await;
    let before = world.target.committed().await.unwrap().unwrap();
    let control = world.control().unwrap();
    std::fs::write(world.file("password"), "second\n").unwrap();
    control.set_password("second");
    control.end_sessions(Failure::authentication_expired());
    let after = world
        .committed(before.frontier + 200, &mut host)
        .await
        .unwrap();
    assert_eq!(
        after.epoch,
        before.epoch,
        "it began again:\n{}",
        host.output()
    );
    assert!(
        host.output().contains("credentials-expired"),
        "{}",
        host.output()
    );
}

#[tokio::test]
async fn a_password_that_is_no_longer_good_ends_it_and_is_not_shown() {
    let (world, host) = running().await;
    let control = world.control().unwrap();
    control.set_password("second");
    control.end_sessions(Failure::authentication_expired());
    let ended = host.end(PATIENCE).await.unwrap();
    assert_eq!(ended.code, Some(1), "{}", ended.output);
    assert!(
        ended.output.contains("invalid password"),
        "{}",
        ended.output
    );
    assert!(!ended.output.contains("first"), "{}", ended.output);
}
