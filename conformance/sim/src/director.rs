//! Decides what happens next: traffic, outages, deaths; and in the end calm, in which a worker
//! must reach the present.

use std::time::Duration;

use crate::ending::explain;
use crate::profile::{Blow, Fault};
use crate::state::Shared;
use crate::trouble;
use crate::worker::{self, WorkerId};
use crate::world::Traffic;
use mz_sink_core::session::Outcome;

/// In calm, a worker must have reached the present after this, in seconds.
const CALM: u64 = 900;

/// A deployment with a worker or several.
struct Director {
    sim: Shared,
    /// Places for workers, each with the one that is there.
    places: Vec<Option<WorkerId>>,
    /// Workers whose end was looked at.
    reaped: usize,
    seen: Vec<bool>,
}

/// Runs the whole of it.
pub(crate) async fn direct(sim: Shared) {
    let places = {
        let mut state = sim.state();
        let rivals = state.profile.faults.has(Fault::Rivals);
        let places = if rivals { state.dice.within(2..=3) } else { 1 };
        let strikes = state.profile.strike.map(|strike| strike.blow);
        let places = if strikes == Some(Blow::Pause) {
            2
        } else {
            places
        };
        vec![None; places as usize]
    };
    let mut director = Director {
        sim,
        places,
        reaped: 0,
        seen: Vec::new(),
    };
    director.chaos().await;
    director.calm().await;
}

impl Director {
    fn is_broken(&self) -> bool {
        self.sim.state().violation.is_some()
    }

    async fn chaos(&mut self) {
        let steps = self.sim.state().profile.steps;
        self.place(0);
        for _ in 0..steps {
            let wait = {
                let dice = &mut self.sim.state().dice;
                match dice.below(40) {
                    0 => dice.within(1_000..=12_000),
                    _ => dice.within(1..=400),
                }
            };
            tokio::time::sleep(Duration::from_millis(wait)).await;
            self.tick();
            self.reap().await;
            if self.is_broken() {
                return;
            }
            for index in 0..self.places.len() {
                let starts = self.starts(index);
                if self.places[index].is_none() && starts {
                    self.place(index);
                }
            }
            trouble::cause(&self.sim);
        }
    }

    /// Whether an empty place is filled now.
    fn starts(&self, index: usize) -> bool {
        let mut state = self.sim.state();
        match state.profile.strike {
            // In an outage, mostly nobody is started.
            None if state.world.is_out(self.sim.millis()) => state.dice.chance(20),
            None => state.dice.chance(250),
            // The second one takes over from one that stands still.
            Some(_) => index == 0 || state.workers.iter().any(worker::Worker::is_paused),
        }
    }

    async fn calm(&mut self) {
        if self.is_broken() {
            return;
        }
        let mut goal = self.be_calm();
        let mut reached = false;
        for _ in 0..CALM {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.tick();
            self.reap().await;
            if self.is_broken() {
                return;
            }
            if self.places.iter().all(Option::is_none) {
                self.place(0);
            }
            let state = self.sim.state();
            // One that is fenced, and does not know it yet, may still be ahead.
            if state.workers.iter().filter(|w| w.is_alive()).count() > 1 {
                goal = state.world.clock;
            }
            let target = &state.targets[state.deployment()];
            if target.frontier > Some(goal) && target.in_flight == 0 {
                reached = true;
                break;
            }
        }
        if !reached {
            self.sim.broken(format!(
                "nothing has gone wrong for {CALM} s, and no worker has reached {goal}"
            ));
            return;
        }
        self.stop().await;
        let verdict = {
            let state = self.sim.state();
            let target = &state.targets[state.deployment()];
            target.check_at_rest(&state.world)
        };
        if let Err(broken) = verdict {
            self.sim.broken(broken);
        }
    }

    /// From now on nothing goes wrong; gives the time that must be reached.
    fn be_calm(&mut self) -> u64 {
        self.sim.note(format_args!("all is well from here on"));
        let mut state = self.sim.state();
        state.calm = true;
        let state = &mut *state;
        trouble::repair(state);
        for worker in &mut state.workers {
            worker.pause(false);
        }
        state.world.clock
    }

    /// A clean end of every worker.
    async fn stop(&mut self) {
        for worker in &mut self.sim.state().workers {
            if worker.is_alive() {
                worker.ask_to_stop();
            }
        }
        for _ in 0..200 {
            let alive = self
                .sim
                .state()
                .workers
                .iter()
                .any(worker::Worker::is_alive);
            if !alive {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.reap().await;
        let alive = self
            .sim
            .state()
            .workers
            .iter()
            .position(worker::Worker::is_alive);
        if let Some(id) = alive {
            self.sim
                .broken(format!("worker {id} did not stop when it was asked to"));
        }
    }

    /// Time passes at the server.
    fn tick(&self) {
        let elapsed = self.sim.millis();
        let mut state = self.sim.state();
        let state = &mut *state;
        let before = state.world.clock;
        state.world.advance(elapsed);
        let traffic = Traffic::of(&state.profile);
        state.world.transact(before, traffic, &mut state.dice);
    }

    fn place(&mut self, index: usize) {
        let target = self.sim.state().deployment();
        self.places[index] = Some(worker::start(&self.sim, target));
    }

    /// Looks at workers that have ended, and decides what an operator would do.
    async fn reap(&mut self) {
        let count = self.sim.state().workers.len();
        self.seen.resize(count, false);
        for id in self.reaped..count {
            let (alive, task) = {
                let mut state = self.sim.state();
                let worker = &mut state.workers[id];
                (worker.is_alive(), worker.take_finished())
            };
            if let Some(task) = task
                && let Err(error) = task.await
                && error.is_panic()
            {
                self.sim.broken(format!("worker {id} panicked"));
            }
            if alive || self.seen[id] {
                continue;
            }
            self.seen[id] = true;
            for place in &mut self.places {
                place.take_if(|there| *there == id);
            }
            self.ended(id);
        }
        while self.seen.get(self.reaped) == Some(&true) {
            self.reaped += 1;
        }
    }

    fn ended(&self, id: WorkerId) {
        let explained = explain(&self.sim.state(), id);
        if let Err(broken) = explained {
            self.sim.broken(broken);
        } else if self.needs_new_target(id) {
            trouble::start_again(&self.sim);
        }
    }

    /// Whether what ended this worker will end every other one of its deployment.
    fn needs_new_target(&self, id: WorkerId) -> bool {
        let mut state = self.sim.state();
        let state = &mut *state;
        let error = match &state.workers[id].outcome {
            Some(Outcome::Failed(error)) => error,
            Some(Outcome::Finished) => {
                state.count("end: finished");
                return false;
            }
            Some(Outcome::ShutDown) => {
                state.count("end: shut down");
                return false;
            }
            None => return false,
        };
        let gone = match error.code() {
            "history-lost" => true,
            "object-replaced" | "object-dropped" | "unknown-object" => {
                state.calm || state.dice.chance(300)
            }
            _ => false,
        };
        let code = error.code();
        state.count(code);
        gone && state.workers[id].target == state.deployment()
    }
}
