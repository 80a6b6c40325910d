//! A world in small: a server, a transactional target, and workers that crash, stall, lose their
//! connection or the answer to a write, or come back late. Whatever is committed must equal what
//! the server held at that time.

use std::collections::BTreeMap;

use super::*;
use crate::retry::Entropy;

/// The contents of the view: key to name.
type State = BTreeMap<i64, String>;

#[derive(Default)]
struct World {
    clock: u64,
    /// Changes in time order, at most one for each key and time.
    changes: Vec<(u64, i64, Option<String>)>,
    state: State,
    target: State,
    stored: Option<String>,
    /// Writes that are on their way although nobody waits for them.
    late: Vec<Write>,
    /// Commits with rows.
    commits: u32,
}

impl World {
    fn tick(&mut self, dice: &mut Dice) {
        self.clock += 1 + dice.below(3);
        for key in 0..4 {
            if dice.below(3) > 0 {
                continue;
            }
            let name = if self.state.contains_key(&key) && dice.below(3) == 0 {
                self.state.remove(&key);
                None
            } else {
                let name = format!("{key} at {}", self.clock);
                self.state.insert(key, name.clone());
                Some(name)
            };
            self.changes.push((self.clock, key, name));
        }
    }

    /// What the view held below `frontier`.
    fn below(&self, frontier: u64) -> State {
        let mut state = State::new();
        for (time, key, name) in &self.changes {
            if *time < frontier {
                match name {
                    Some(name) => state.insert(*key, name.clone()),
                    None => state.remove(key),
                };
            }
        }
        state
    }

    /// One transaction: data, and compare-and-set of the checkpoint.
    fn apply(&mut self, write: &Write) -> Result<(), SinkError> {
        if self.stored != write.expected {
            return Err(SinkError::Conflict(self.stored.clone()));
        }
        if !write.info.snapshot_of.is_empty() {
            self.target.clear();
        }
        for chunk in write.segments.iter().filter_map(|s| s.chunk.as_ref()) {
            for row in 0..chunk.rows() {
                let crate::chunk::Value::Int(key) = chunk.columns[0].get(row) else {
                    panic!("no key")
                };
                match chunk.columns[1].get(row) {
                    crate::chunk::Value::Text(name) => {
                        let name = String::from_utf8(name.to_vec()).unwrap();
                        self.target.insert(key, name)
                    }
                    _ => self.target.remove(&key),
                };
            }
        }
        self.stored = Some(write.next.clone());
        let stored = Checkpoint::parse(&write.next, "orders").unwrap();
        if let Some(frontier) = stored.frontier {
            assert_eq!(self.target, self.below(frontier), "at frontier {frontier}");
        }
        self.commits += u32::from(write.info.rows > 0);
        Ok(())
    }
}

struct Dice(Entropy);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0.next() % n
    }
}

/// A running SUBSCRIBE.
struct Stream {
    /// Everything below is already in `rows`; `None` while the snapshot is not.
    upper: Option<u64>,
    as_of: u64,
    rows: VecDeque<Row>,
}

struct Worker {
    script: Script,
    source: VecDeque<SourceCommand>,
    sink: VecDeque<Command>,
    stream: Option<Stream>,
    outcome: Option<Outcome>,
}

impl Worker {
    fn new(seed: u64) -> Self {
        let mut script = Script::new(config());
        script.session = Session::new(config(), seed);
        script.session.start(Duration::ZERO);
        let mut worker = Self {
            script,
            source: VecDeque::new(),
            sink: VecDeque::new(),
            stream: None,
            outcome: None,
        };
        worker.collect();
        worker
    }

    fn collect(&mut self) {
        while let Some(command) = self.script.session.poll_command() {
            match command {
                Command::Tell(_) => {}
                Command::Stop(outcome) => self.outcome = Some(outcome),
                Command::OpenSink { .. } | Command::Write(_) | Command::ReadCheckpoint => {
                    self.sink.push_back(command);
                }
                // Margins are nothing to this model.
                Command::Source { connection: 1, .. } | Command::DeadLetter(_) => {}
                Command::Source { command, .. } => match command {
                    SourceCommand::Disconnect => {
                        // What was still running on it is of no interest any more.
                        self.source.clear();
                        self.stream = None;
                    }
                    command => self.source.push_back(command),
                },
                other => drop(other),
            }
        }
    }

    fn on(&mut self, event: Event) {
        self.script.session.handle(self.script.now, event);
        self.collect();
    }

    /// Lets one thing happen.
    fn step(&mut self, world: &mut World, dice: &mut Dice, faults: bool) {
        match dice.below(8) {
            0 => {
                if let Some(at) = self.script.session.poll_timeout() {
                    self.script.now = at.max(self.script.now);
                    self.on(Event::Timeout);
                }
            }
            1..=4 => self.source_step(world, dice, faults),
            _ => self.sink_step(world, dice, faults),
        }
    }

    fn source_step(&mut self, world: &World, dice: &mut Dice, faults: bool) {
        match self.source.front() {
            Some(SourceCommand::Connect) => {
                self.source.pop_front();
                self.on(connected(Ok(())));
            }
            Some(SourceCommand::Run { sql }) => {
                if sql.starts_with("DECLARE") {
                    let resumed = sql.split_once(" AS OF ").map(|(_, t)| t.parse().unwrap());
                    let as_of = resumed.unwrap_or(world.clock);
                    self.stream = Some(Stream {
                        upper: resumed.map(|t: u64| t + 1),
                        as_of,
                        rows: VecDeque::from([progress(as_of)]),
                    });
                }
                let table = self.script.answer(sql);
                self.source.pop_front();
                self.on(ran(Ok(table)));
            }
            Some(SourceCommand::Fetch { .. }) if faults && dice.below(12) == 0 => {
                self.source.pop_front();
                self.on(fetched(Err(broken())));
            }
            Some(SourceCommand::Fetch { .. }) => self.fetch_step(world, dice),
            _ => {}
        }
    }

    fn fetch_step(&mut self, world: &World, dice: &mut Dice) {
        let stream = self.stream.as_mut().expect("a FETCH has a cursor");
        if stream.rows.is_empty() {
            let row = |time, key, name: Option<&str>| {
                change(
                    time,
                    if name.is_some() { "upsert" } else { "delete" },
                    key,
                    name,
                )
            };
            let lower = stream.upper.unwrap_or_else(|| {
                for (key, name) in world.below(stream.as_of + 1) {
                    stream.rows.push_back(row(stream.as_of, key, Some(&name)));
                }
                stream.as_of + 1
            });
            let upper = (world.clock + 1).max(lower);
            let new = world
                .changes
                .iter()
                .filter(|c| (lower..upper).contains(&c.0));
            for (time, key, name) in new {
                stream.rows.push_back(row(*time, *key, name.as_deref()));
            }
            stream.rows.push_back(progress(upper));
            stream.upper = Some(upper);
        }
        let some = 1 + dice.below(stream.rows.len() as u64) as usize;
        let rows: Vec<_> = stream.rows.drain(..some).collect();
        let names = ["mz_timestamp", "mz_progressed", "mz_state", "id", "name"].map(String::from);
        self.script
            .session
            .handle_rows(self.script.now, 0, &names, rows);
        self.collect();
        if dice.below(3) == 0 && matches!(self.source.front(), Some(SourceCommand::Fetch { .. })) {
            self.source.pop_front();
            self.on(fetched(Ok(())));
        }
    }

    fn sink_step(&mut self, world: &mut World, dice: &mut Dice, faults: bool) {
        let Some(command) = self.sink.pop_front() else {
            return;
        };
        let fault = if faults { dice.below(10) } else { 9 };
        let retryable = || SinkError::Retryable(failure("503"));
        let event = match command {
            Command::OpenSink { .. } if fault == 0 => Event::SinkOpened(Err(retryable())),
            Command::OpenSink { .. } => Event::SinkOpened(Ok(world.stored.clone())),
            Command::ReadCheckpoint if fault == 0 => Event::CheckpointRead(Err(retryable())),
            Command::ReadCheckpoint => Event::CheckpointRead(Ok(world.stored.clone())),
            Command::Write(write) => {
                let lost = if dice.below(2) == 0 {
                    SinkError::Unknown(failure("timeout"))
                } else {
                    SinkError::Trapped(failure("trap"))
                };
                Event::Written(match fault {
                    0 => Err(retryable()),
                    1 => Err(lost),
                    2 => world.apply(&write).and(Err(lost)),
                    3 => {
                        world.late.push(*write);
                        Err(lost)
                    }
                    _ => world.apply(&write),
                })
            }
            other => panic!("{other:?} is not for a sink"),
        };
        self.on(event);
    }

    /// How a worker may end in a world like this: by another one, or by a spent budget.
    fn check_end(&self) {
        if let Some(Outcome::Failed(error)) = &self.outcome {
            let allowed = [
                "fenced",
                "connection",
                "sink-retryable",
                "sink-unknown",
                "sink-trapped",
            ];
            assert!(allowed.contains(&error.code()), "{}: {error}", error.code());
        }
    }
}

fn live(seed: u64) -> u32 {
    let mut dice = Dice(Entropy::new(seed));
    let mut world = World::default();
    world.tick(&mut dice);
    let mut workers = vec![Worker::new(dice.0.next())];
    for _ in 0..3000 {
        match dice.below(200) {
            0..=20 => world.tick(&mut dice),
            // Another worker is started while the first may still live, or was only paused.
            21 if workers.len() < 3 => workers.push(Worker::new(dice.0.next())),
            // A crash: its write may still be on the way.
            22 => {
                let gone = dice.below(workers.len() as u64) as usize;
                let mut gone = std::mem::replace(&mut workers[gone], Worker::new(dice.0.next()));
                if let Some(Command::Write(write)) = gone.sink.pop_front() {
                    world.late.push(*write);
                }
            }
            23..=28 if !world.late.is_empty() => {
                let write = world
                    .late
                    .swap_remove(dice.below(world.late.len() as u64) as usize);
                let _ = world.apply(&write);
            }
            _ => {
                let one = dice.below(workers.len() as u64) as usize;
                let worker = &mut workers[one];
                worker.step(&mut world, &mut dice, true);
                worker.check_end();
                if worker.outcome.is_some() {
                    *worker = Worker::new(dice.0.next());
                }
            }
        }
    }
    // When all is well again, one worker gets to the end.
    let mut last = Worker::new(dice.0.next());
    for _ in 0..2000 {
        last.step(&mut world, &mut dice, false);
        if last.script.session.committed() == Some(world.clock + 1) {
            break;
        }
    }
    assert_eq!(last.outcome, None);
    assert_eq!(last.script.session.committed(), Some(world.clock + 1));
    assert_eq!(world.target, world.state);
    world.commits
}

#[test]
fn whatever_happens_the_target_equals_the_view_at_the_committed_frontier() {
    let mut commits = 0;
    for seed in 0..200 {
        let result = std::panic::catch_unwind(|| live(seed));
        commits += result.unwrap_or_else(|_| panic!("seed {seed}"));
    }
    assert!(commits > 2000, "only {commits} commits had rows");
}
