//! Life after life.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::{Committed, Ended, Host, PATIENCE, Random};

use crate::deployment::Deployment;
use crate::plan::{Life, Moment, Rival, SourceFault};
use crate::report::Report;

/// After so many cycles everything is new: snapshots are attacked again, and servers that keep
/// all history stay quick.
const CYCLES_OF_A_WORLD: u32 = 20;

/// Runs all cycles.
pub async fn run(seed: u64, cycles: u32, report: &mut Report) -> Result<()> {
    let mut random = Random::seeded(seed);
    let mut first = 0;
    while first < cycles {
        let after = cycles.min(first + CYCLES_OF_A_WORLD);
        in_new_worlds(first..after, &mut random, report).await?;
        first = after;
    }
    Ok(())
}

/// Runs some cycles, one deployment after the other.
async fn in_new_worlds(cycles: Range<u32>, random: &mut Random, report: &mut Report) -> Result<()> {
    let mut deployments = [
        Deployment::new("one object", 1, random).await?,
        Deployment::new("three objects", 3, random).await?,
    ];
    for cycle in cycles {
        let which = cycle as usize % deployments.len();
        let deployment = &mut deployments[which];
        let life = Life::new(random, deployment.world().pace());
        let name = deployment.name;
        let ended = one(deployment, &life, report).await;
        ended.with_context(|| {
            let kept = deployment.keep();
            format!(
                "cycle {cycle} of {name}, whose workers' output is in {}: {life:?}",
                kept.display()
            )
        })?;
        report.cycle_done();
    }
    for deployment in deployments {
        let late = deployment.late_snapshots();
        ensure!(late == 0, "{late} snapshots were asked for after a commit");
        report.resumes += deployment.resumes();
        report.changes += deployment.finish().await?;
    }
    Ok(())
}

/// One life that is ended, and the next, which must find everything as it should be.
async fn one(deployment: &mut Deployment, life: &Life, report: &mut Report) -> Result<()> {
    let before = deployment.committed().await?;
    let control = deployment.control();
    match life.source {
        SourceFault::None | SourceFault::Drop => {}
        SourceFault::Cut(bytes) => control.cut_next_subscription(deployment.table(), bytes)?,
    }
    deployment
        .world()
        .turbopuffer
        .add_faults(life.target.clone());
    let host = deployment.start()?;
    let host = match life.rival {
        Rival::None => host,
        Rival::Twin => twin(deployment, host, report).await?,
        Rival::Successor => successor(deployment, host, &before, report).await?,
    };
    if life.source == SourceFault::Drop {
        deployment.control().kill_connections();
    }
    end(deployment, host, life, &before, report).await?;
    deployment.world().turbopuffer.clear_faults();
    deployment.committed().await?;

    let mut next = deployment.start()?;
    report.rows += deployment.prove(&mut next).await?;
    report.proofs += 1;
    let ended = next.kill_9()?;
    is_killed(&ended)?;
    report.killed(Moment::Commit);
    Ok(())
}

/// Lets a worker live until its moment, and ends it.
async fn end(
    deployment: &mut Deployment,
    mut host: Host,
    life: &Life,
    before: &Option<Committed>,
    report: &mut Report,
) -> Result<()> {
    if life.moment == Moment::Commit {
        let started = Instant::now();
        while !deployment.has_committed(before).await? {
            let is_late = started.elapsed() > PATIENCE;
            ensure!(!is_late, "it commits nothing:\n{}", host.output());
            ensure!(host.runs()?, "it ended too early:\n{}", host.output());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    tokio::time::sleep(life.after).await;
    if !host.runs()? {
        let ended = host.end(PATIENCE).await?;
        // Only a connection that fails at the very first try is no reason to try again.
        let is_first = ended.output.contains("error[connection]") && ended.code == Some(3);
        let is_well = is_first && life.source == SourceFault::Drop;
        ensure!(is_well, "it ended by itself:\n{}", ended.output);
        report.ended_by_itself += 1;
        return Ok(());
    }
    if life.is_polite {
        host.terminate()?;
        let ended = host.end(PATIENCE).await?;
        // Before it listens to signals, one ends it.
        let is_well = matches!(ended.code, Some(0) | None);
        ensure!(
            is_well,
            "SIGTERM ended it with {:?}:\n{}",
            ended.code,
            ended.output
        );
        report.terminated += 1;
    } else {
        is_killed(&host.kill_9()?)?;
        report.killed(life.moment);
    }
    Ok(())
}

fn is_killed(ended: &Ended) -> Result<()> {
    let shown = &ended.output;
    ensure!(
        ended.code.is_none(),
        "it ended by itself, {:?}:\n{shown}",
        ended.code
    );
    ensure!(!shown.contains("panicked"), "it panicked:\n{shown}");
    Ok(())
}

/// Two start at the same time: one of them is fenced in the end, and the other goes on.
async fn twin(deployment: &mut Deployment, mut a: Host, report: &mut Report) -> Result<Host> {
    let mut b = deployment.start()?;
    let started = Instant::now();
    while a.runs()? && b.runs()? {
        let is_late = started.elapsed() > PATIENCE;
        ensure!(!is_late, "two run:\n{}\n{}", a.output(), b.output());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (winner, loser) = if a.runs()? { (a, b) } else { (b, a) };
    fenced(loser, report).await?;
    Ok(winner)
}

/// One is paused, another takes over and commits, and the first finds out when it goes on.
async fn successor(
    deployment: &mut Deployment,
    old: Host,
    before: &Option<Committed>,
    report: &mut Report,
) -> Result<Host> {
    let started = Instant::now();
    while !deployment.has_committed(before).await? {
        let is_late = started.elapsed() > PATIENCE;
        ensure!(!is_late, "it commits nothing:\n{}", old.output());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    old.pause(true)?;
    let paused = deployment.committed().await?;
    let mut new = deployment.start()?;
    let started = Instant::now();
    while !deployment.has_committed(&paused).await? {
        let is_late = started.elapsed() > PATIENCE;
        ensure!(!is_late, "the successor commits nothing:\n{}", new.output());
        ensure!(new.runs()?, "the successor ended:\n{}", new.output());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    old.pause(false)?;
    fenced(old, report).await?;
    Ok(new)
}

async fn fenced(old: Host, report: &mut Report) -> Result<()> {
    let ended = old.end(PATIENCE).await?;
    let shown = &ended.output;
    ensure!(
        ended.code == Some(3) && shown.contains("error[fenced]"),
        "it was not fenced, but ended with {:?}:\n{shown}",
        ended.code
    );
    report.fenced += 1;
    Ok(())
}
