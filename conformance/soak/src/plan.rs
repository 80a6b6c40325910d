//! What happens in a life, from a seed.

use std::time::Duration;

use e2e::Random;
use turbopuffer_sim::{Fault, FaultRule, Match};

/// When a worker is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moment {
    /// While it starts and takes its epoch.
    Start,
    /// While it reads what is there.
    Early,
    /// Amid writes.
    Writes,
    /// After a commit of its own.
    Commit,
}

/// What stands in a worker's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rival {
    /// Nobody.
    None,
    /// Another worker starts at the same time.
    Twin,
    /// It is paused, another takes over, and it goes on.
    Successor,
}

/// What the source does meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFault {
    /// Nothing unusual.
    None,
    /// A subscription's connection drops after so many bytes.
    Cut(u64),
    /// All connections drop once.
    Drop,
}

/// One life.
#[derive(Debug)]
pub struct Life {
    /// When it ends.
    pub moment: Moment,
    /// How long after that moment begins.
    pub after: Duration,
    /// With SIGTERM instead of SIGKILL.
    pub is_polite: bool,
    /// Who else there is.
    pub rival: Rival,
    /// What the source does.
    pub source: SourceFault,
    /// What the target does.
    pub target: Vec<FaultRule>,
}

impl Life {
    /// The next one. `pace` stretches it on slow servers.
    pub fn new(random: &mut Random, pace: u64) -> Self {
        let (moment, longest) = match random.below(10) {
            0 | 1 => (Moment::Start, 60),
            2 | 3 => (Moment::Early, 200),
            4..=7 => (Moment::Writes, 700),
            _ => (Moment::Commit, 60),
        };
        Self {
            moment,
            after: Duration::from_millis(random.below(longest * pace)),
            is_polite: random.below(6) == 0,
            rival: match random.below(8) {
                0 => Rival::Twin,
                1 => Rival::Successor,
                _ => Rival::None,
            },
            source: match random.below(8) {
                0 => SourceFault::Cut(random.below(20_000)),
                1 => SourceFault::Drop,
                _ => SourceFault::None,
            },
            target: (0..random.below(3)).map(|_| target_fault(random)).collect(),
        }
    }
}

fn target_fault(random: &mut Random) -> FaultRule {
    let plain = Fault::default();
    let fault = match random.below(7) {
        0 => Fault {
            status: Some(500),
            ..plain
        },
        1 => Fault {
            status: Some(503),
            after_apply: true,
            ..plain
        },
        2 => Fault {
            status: Some(429),
            ..plain
        },
        3 | 4 => Fault {
            drop_after_apply: true,
            ..plain
        },
        5 => Fault {
            reset: true,
            ..plain
        },
        _ => Fault {
            delay_ms: 40,
            ..plain
        },
    };
    FaultRule {
        matches: Match {
            method: Some("POST".into()),
            path_prefix: Some("/v2/namespaces/".into()),
            ..Match::default()
        },
        skip: random.below(12),
        times: 1 + random.below(3),
        fault,
    }
}
