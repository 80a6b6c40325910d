//! What a run is made of: drawn from its seed, and made smaller when it fails.

use std::time::Duration;

use mz_sink_core::catalog::IdentityPolicy;
use mz_sink_core::retry::RetryPolicy;
use mz_sink_core::session::{OnFailure, OnHistoryLoss, OnKeyViolation};
use mz_sink_core::types::Envelope;

use crate::dice::Dice;

/// What a target can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Data and compare-and-set in one transaction.
    Transactional,
    /// Separate requests; idempotent by key and time; compare-and-set last.
    Convergent,
    /// Effects that cannot be taken back, then the compare-and-set.
    AtLeastOnce,
}

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A kind of trouble that can be switched off.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Fault { $($(#[$doc])* $name,)* }

        impl Fault {
            pub(crate) const ALL: &[Fault] = &[$(Fault::$name,)*];

            pub(crate) fn name(self) -> &'static str {
                match self { $(Fault::$name => $text,)* }
            }
        }
    };
}

faults! {
    /// A worker is gone, before or after any command; its requests may still land.
    Kill = "kill",
    /// A worker stands still at any point and goes on later.
    Pause = "pause",
    /// More than one worker at a time.
    Rivals = "rivals",
    /// An operator asks for a clean end.
    Shutdown = "shutdown",
    /// A request never reaches the target.
    LostRequest = "lost-request",
    /// A request is applied and its answer is lost.
    LostResponse = "lost-response",
    /// A request is given up, and lands long after.
    LateWrite = "late-write",
    /// The sink asks for another try.
    Retryable = "retryable",
    /// The sink does not know whether it wrote, or wrote and does not know.
    Unknown = "unknown",
    /// The component traps, before or after it wrote.
    Trap = "trap",
    /// The sink refuses to go on.
    Permanent = "permanent",
    /// The component meets a limit.
    Limit = "limit",
    /// The sink answers a conflict without having tried.
    Conflict = "conflict",
    /// The sink refuses rows.
    Rejects = "rejects",
    /// The dead-letter log cannot be written for a while.
    LettersFull = "letters-full",
    /// A connection closes, in the middle of rows too.
    Disconnect = "disconnect",
    /// No connection can be made for a while.
    Refused = "refused",
    /// All connections close, and come back after a while.
    Restart = "restart",
    /// The server accepts nothing but new credentials for a while.
    Expired = "expired",
    /// The server says nothing for a while.
    Hang = "hang",
    /// The server gives up on a slow reader.
    FellBehind = "fell-behind",
    /// Someone cancels the session, or the dataflow fails.
    Poisoned = "poisoned",
    /// The server's clock leaps ahead, and the history window with it.
    Leap = "leap",
    /// Little history is kept.
    ShortHistory = "short-history",
    /// The name belongs to another object.
    Swap = "swap",
    /// The object has a new id on the same shard, and other contents.
    Replacement = "replacement",
    /// An index on the object, in the cluster of the session.
    Index = "index",
    /// The object is gone.
    Drop = "drop",
    /// Several rows have one key.
    KeyViolation = "key-violation",
}

/// What goes wrong at one chosen point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// The worker dies there.
    Kill,
    /// The worker stands still there, another one takes over, and then it wakes.
    Pause,
    /// This request is lost.
    LoseRequest,
    /// This request is applied and its answer is lost.
    LoseResponse,
    /// This request lands long after it was given up.
    Delay,
}

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strike {
    pub(crate) blow: Blow,
    /// Which point in a command, or which request, counted over the whole run.
    pub(crate) at: u64,
}

impl Blow {
    pub(crate) const ALL: &[Blow] = &[
        Blow::Kill,
        Blow::Pause,
        Blow::LoseRequest,
        Blow::LoseResponse,
        Blow::Delay,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Blow::Kill => "kill",
            Blow::Pause => "pause",
            Blow::LoseRequest => "lose-request",
            Blow::LoseResponse => "lose-response",
            Blow::Delay => "delay",
        }
    }

    /// Whether it hits a point in a command, not a request.
    pub(crate) fn is_at_point(self) -> bool {
        matches!(self, Blow::Kill | Blow::Pause)
    }
}

impl Strike {
    /// From the form `kill@17`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, at) = text.split_once('@')?;
        let blow = Blow::ALL.iter().find(|blow| blow.name() == name)?;
        Some(Self {
            blow: *blow,
            at: at.parse().ok()?,
        })
    }
}

/// A set of faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Faults(u64);

impl Faults {
    pub(crate) fn has(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u64) != 0
    }

    pub(crate) fn with(self, fault: Fault) -> Self {
        Self(self.0 | 1 << fault as u64)
    }

    pub(crate) fn without(self, fault: Fault) -> Self {
        Self(self.0 & !(1 << fault as u64))
    }

    pub(crate) fn names(self) -> Vec<&'static str> {
        let on = Fault::ALL.iter().filter(|fault| self.has(**fault));
        on.map(|fault| fault.name()).collect()
    }
}

/// What a run is made of.
#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) seed: u64,
    /// How many of the last events are shown.
    pub(crate) kept: usize,
    /// Things that happen before all is well again.
    pub(crate) steps: u64,
    pub(crate) views: usize,
    pub(crate) kind: Kind,
    pub(crate) envelope: Envelope,
    pub(crate) netted: bool,
    pub(crate) faults: Faults,
    /// How often a command meets a fault, in a thousand.
    pub(crate) trouble: u64,
    /// How often a point in a command is where a worker dies, in a thousand.
    pub(crate) deadly: u64,
    /// Values of this length now and then, so that segments fill up.
    pub(crate) fat_value: usize,
    pub(crate) keys: u64,
    /// Views that never change: all below this.
    pub(crate) constant: usize,
    /// Something that goes wrong at one chosen point.
    pub(crate) strike: Option<Strike>,
    /// What every object keeps, in milliseconds.
    pub(crate) history: u64,
    pub(crate) commit_interval: Duration,
    pub(crate) idle_commit_interval: Duration,
    pub(crate) max_commit_bytes: usize,
    pub(crate) memory_bytes: usize,
    pub(crate) retry: RetryPolicy,
    pub(crate) identity: IdentityPolicy,
    pub(crate) on_history_loss: OnHistoryLoss,
    pub(crate) on_key_violation: OnKeyViolation,
    pub(crate) on_failure: OnFailure,
}

/// The most views of a run.
pub(crate) const MAX_VIEWS: u64 = 3;

impl Profile {
    /// The profile of `seed`.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut dice = Dice::new(seed ^ 0x70_72_6f_66);
        let kind = dice.pick(&[
            Kind::Transactional,
            Kind::Transactional,
            Kind::Transactional,
            Kind::Convergent,
            Kind::Convergent,
            Kind::Convergent,
            Kind::AtLeastOnce,
            Kind::AtLeastOnce,
        ]);
        let upsert = match kind {
            Kind::Transactional => !dice.chance(250),
            Kind::Convergent => true,
            Kind::AtLeastOnce => false,
        };
        // Few kinds at once in some runs and all of them in others: trouble can hide trouble.
        let share = dice.pick(&[0, 150, 400, 700, 1000]);
        let mut faults = Faults::default();
        for fault in Fault::ALL {
            if dice.chance(share) {
                faults = faults.with(*fault);
            }
        }
        let views = dice.within(1..=MAX_VIEWS) as usize;
        let fat = dice.chance(25);
        let history = if faults.has(Fault::ShortHistory) {
            dice.within(1_000..=20_000)
        } else {
            3_600_000
        };
        Self {
            seed,
            kept: 80,
            steps: dice.within(40..=400),
            views,
            constant: if dice.chance(60) {
                dice.within(1..=views as u64) as usize
            } else {
                0
            },
            strike: None,
            kind,
            envelope: if upsert {
                Envelope::Upsert
            } else {
                Envelope::Diff
            },
            netted: upsert && (kind == Kind::Convergent || dice.chance(500)),
            faults,
            trouble: dice.pick(&[20, 60, 150]),
            deadly: dice.pick(&[1, 5, 20]),
            fat_value: if fat { 60_000 } else { 0 },
            keys: if fat { 30 } else { dice.pick(&[2, 4, 12]) },
            history,
            commit_interval: Duration::from_millis(dice.pick(&[0, 0, 300, 2_000])),
            idle_commit_interval: Duration::from_millis(dice.pick(&[200, 1_000, 5_000])),
            max_commit_bytes: if fat { 1 << 20 } else { 64 << 20 },
            memory_bytes: match fat {
                // Spilling large values is slow without optimisation.
                true => dice.pick(&[2_000, 64 << 20, 64 << 20, 64 << 20]),
                false => dice.pick(&[0, 2_000, 64 << 20]),
            },
            retry: RetryPolicy {
                attempts: dice.pick(&[3, 6, 10]) as u32,
                min_backoff: Duration::from_millis(100),
                max_backoff: Duration::from_millis(3_000),
            },
            identity: IdentityPolicy {
                refollow: dice.chance(500),
                ..IdentityPolicy::default()
            },
            on_history_loss: if dice.chance(500) {
                OnHistoryLoss::Resnapshot
            } else {
                OnHistoryLoss::Stall
            },
            on_key_violation: if dice.chance(100) {
                OnKeyViolation::Stall
            } else {
                OnKeyViolation::Reject
            },
            // Where a batch is not one transaction, a part of what is skipped may be there.
            on_failure: if kind == Kind::Transactional && dice.chance(400) {
                OnFailure::Skip
            } else {
                OnFailure::Stall
            },
        }
    }

    /// A short run in which nothing goes wrong but `strike`; the seed chooses the kind of target.
    pub(crate) fn quiet(seed: u64, strike: Option<Strike>) -> Self {
        let mut quiet = Self::draw(seed);
        quiet.kind = match seed % 4 {
            0 | 1 => Kind::Transactional,
            2 => Kind::Convergent,
            _ => Kind::AtLeastOnce,
        };
        let upsert = matches!(seed % 4, 0 | 2);
        quiet.envelope = if upsert {
            Envelope::Upsert
        } else {
            Envelope::Diff
        };
        quiet.netted = upsert;
        quiet.steps = 16;
        quiet.constant = 0;
        quiet.fat_value = 0;
        quiet.history = 3_600_000;
        quiet.faults = Faults::default().with(Fault::Rejects);
        quiet.strike = strike;
        quiet
    }

    /// In one line, for people.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{:?} target, {:?} envelope{}, {} view(s), {} steps, faults: {}",
            self.kind,
            self.envelope,
            if self.netted { " netted" } else { "" },
            self.views,
            self.steps,
            self.faults.names().join(" ")
        )
    }
}
