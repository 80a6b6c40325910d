//! The way between a sink and its target: a request lands on its own, whatever becomes of the
//! worker that sent it; it may be lost, its answer may be lost, or it may be late.

use std::time::Duration;

use tokio::sync::oneshot;

use crate::dice::Dice;
use crate::profile::{Blow, Fault};
use crate::state::{Shared, State};
use crate::target::TargetId;

/// After this a sink gives a request up.
const PATIENCE: Duration = Duration::from_secs(3);

/// The latest that a late request lands, in milliseconds.
const LATEST: u64 = 45_000;

/// Nothing is known of the request: it may have been applied, or may still be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    /// Never lands.
    Lost,
    /// Lands, and nobody is told.
    Mute,
    /// The connection is reset after it landed.
    Reset,
    /// Lands long after it was given up.
    Late,
}

fn fate(state: &mut State, dice: &mut Dice) -> Fate {
    match state.strikes(false) {
        Some(Blow::LoseRequest) => return Fate::Lost,
        Some(Blow::LoseResponse) => return Fate::Mute,
        Some(_) => return Fate::Late,
        None => {}
    }
    if !dice.chance(state.profile.trouble) {
        return Fate::Answered;
    }
    let (fault, fate) = dice.pick(&[
        (Fault::LostRequest, Fate::Lost),
        (Fault::LostResponse, Fate::Mute),
        (Fault::LostResponse, Fate::Reset),
        (Fault::LateWrite, Fate::Late),
        (Fault::LateWrite, Fate::Late),
    ]);
    if state.may(fault) {
        fate
    } else {
        Fate::Answered
    }
}

/// Sends a request, which is `apply` where it lands.
pub(crate) async fn send<T: Send + 'static>(
    sim: &Shared,
    target: TargetId,
    dice: &mut Dice,
    apply: impl FnOnce(&Shared) -> T + Send + 'static,
) -> Result<T, Unanswered> {
    let fate = {
        let mut state = sim.state();
        state.targets[target].in_flight += 1;
        let fate = fate(&mut state, dice);
        match fate {
            Fate::Answered => {}
            Fate::Lost => state.count("request lost"),
            Fate::Mute | Fate::Reset => state.count("answer lost"),
            Fate::Late => state.count("request late"),
        }
        fate
    };
    let there = match fate {
        Fate::Late => dice.within(3_100..=LATEST),
        _ if dice.chance(50) => dice.within(20..=1_500),
        _ => dice.within(1..=20),
    };
    let back = dice.within(1..=20);
    let (answer, answered) = oneshot::channel();
    let world = sim.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(there)).await;
        world.state().targets[target].in_flight -= 1;
        if fate == Fate::Lost {
            drop(answer);
            return;
        }
        let result = apply(&world);
        match fate {
            Fate::Reset => return,
            Fate::Mute => tokio::time::sleep(PATIENCE * 2).await,
            _ => tokio::time::sleep(Duration::from_millis(back)).await,
        }
        // Nobody may be left who waits for it.
        let _ = answer.send(result);
    });
    match tokio::time::timeout(PATIENCE, answered).await {
        Ok(Ok(result)) => Ok(result),
        _ => Err(Unanswered),
    }
}
