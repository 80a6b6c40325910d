//! What goes wrong around the workers, and how it is put right again.

use crate::dice::Dice;
use crate::profile::Fault;
use crate::state::{Shared, State};
use crate::target::Target;
use crate::world::view_name;

/// Lets something happen, or nothing.
pub(crate) fn cause(sim: &Shared) {
    let now = sim.millis();
    mend(&mut sim.state());
    let (fault, done) = {
        let mut state = sim.state();
        let state = &mut *state;
        let fault = state.dice.pick(Fault::ALL);
        let mut dice = state.dice.fork();
        if !state.may(fault) || !dice.chance(600) {
            return;
        }
        (fault, happen(state, fault, now, &mut dice))
    };
    if let Some(done) = done {
        sim.state().count(fault.name());
        sim.note(format_args!("{done}"));
    }
}

/// What somebody would soon put right.
fn mend(state: &mut State) {
    if !state.dice.chance(100) {
        return;
    }
    let history = Some(state.profile.history);
    if let Some(view) = state.world.missing() {
        state.world.recreate(&view_name(view), history);
    }
    for object in &mut state.world.objects {
        object.indexed = false;
    }
}

fn happen(state: &mut State, fault: Fault, now: u64, dice: &mut Dice) -> Option<String> {
    let alive: Vec<_> = (0..state.workers.len())
        .filter(|id| state.workers[*id].is_alive())
        .collect();
    let one = (!alive.is_empty()).then(|| alive[dice.index(alive.len())]);
    let view = view_name(dice.index(state.profile.views));
    let world = &mut state.world;
    match fault {
        Fault::Kill => {
            let id = one?;
            state.workers[id].kill();
            Some(format!("worker {id} is killed"))
        }
        Fault::Pause => {
            let id = one?;
            let paused = !state.workers[id].is_paused();
            state.workers[id].pause(paused);
            Some(format!("worker {id} is paused: {paused}"))
        }
        Fault::Shutdown => {
            let id = one?;
            state.workers[id].ask_to_stop();
            Some(format!("worker {id} is asked to stop"))
        }
        Fault::Disconnect => {
            let open: Vec<_> = world.connections.iter().copied().collect();
            let id = *open.get(dice.index(open.len().max(1)))?;
            world.disconnect(id);
            Some(format!("connection {id} closes"))
        }
        Fault::Restart => {
            world.restart(now + dice.within(0..=8_000));
            Some(format!("the server restarts, until {}", world.down_until))
        }
        Fault::Refused => {
            world.refused_until = now + dice.within(0..=5_000);
            Some("no connections for a while".into())
        }
        Fault::Expired => {
            world.expired_until = now + dice.within(0..=2_000);
            Some("the credentials have expired".into())
        }
        Fault::Hang => {
            world.hangs_until = now + dice.within(0..=60_000);
            Some(format!("the server hangs until {}", world.hangs_until))
        }
        Fault::LettersFull => {
            state.letters_full_until = now + dice.within(0..=10_000);
            Some("no dead letter can be kept for a while".into())
        }
        Fault::Leap => {
            let ahead = dice.pick(&[5_000, 60_000, 7_200_000]);
            world.leap(ahead);
            Some(format!("the clock leaps {ahead} ms ahead"))
        }
        Fault::Index => {
            let object = world.object_mut(&view)?;
            object.indexed = !object.indexed;
            Some(format!("{view} has an index: {}", object.indexed))
        }
        Fault::Replacement => {
            let id = world.replace(&view, dice.pick(&[None, Some(3_600_000)]))?;
            Some(format!("a replacement of {view}: it is u{id} now"))
        }
        Fault::Swap => {
            world.swap(&view, dice)?;
            Some(format!("{view} is another object now"))
        }
        Fault::Drop => {
            if world.object(&view).is_some() {
                world.objects.retain(|object| object.name != view);
                return Some(format!("{view} is dropped"));
            }
            let history = Some(state.profile.history);
            world.recreate(&view, history);
            Some(format!("{view} is created again"))
        }
        // These happen elsewhere: on the wire, in a sink, in a FETCH, or with the traffic.
        _ => None,
    }
}

/// Puts everything right.
pub(crate) fn repair(state: &mut State) {
    state.letters_full_until = 0;
    let world = &mut state.world;
    world.recover();
    for view in 0..state.profile.views {
        let name = view_name(view);
        if world.object(&name).is_none() {
            world.recreate(&name, None);
        }
        if let Some(object) = world.object_mut(&name) {
            object.indexed = false;
            object.history = Some(3_600_000);
        }
    }
}

/// What an operator does when nothing else helps: another sink id, and a new target.
pub(crate) fn start_again(sim: &Shared) {
    let number = {
        let mut state = sim.state();
        let number = state.targets.len();
        let target = Target::new(number, &state.profile);
        state.targets.push(target);
        for worker in &mut state.workers {
            if worker.target < number {
                worker.kill();
            }
        }
        number
    };
    sim.state().count("new deployment");
    sim.note(format_args!("a new deployment, with target {number}"));
}
