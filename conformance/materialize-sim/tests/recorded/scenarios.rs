//! Every recorded scenario: what happened besides its statements, and what is not simulated.

/// A recording and how it is replayed.
pub struct Scenario {
    /// The name of its file in `conformance/recordings/wire`.
    pub name: &'static str,
    /// The number in the catalog id of the first object it makes.
    pub first_id: u64,
    /// What happened to the real server besides the statements.
    pub outside: &'static [Outside],
    /// Why rows of one time are compared in any order, if they are.
    pub any_order: Option<&'static str>,
    /// What the simulator answers otherwise. What follows in the transaction of such a statement
    /// is not compared.
    pub differs: &'static [Differs],
}

/// Statements whose answers differ, and why that is so.
pub struct Differs {
    /// Their beginning.
    pub statement: &'static str,
    /// Which of them, counted from 1; all if `None`.
    pub only: Option<usize>,
    pub because: &'static str,
}

impl Scenario {
    /// Whether the last of these statements is known to be answered otherwise.
    pub fn lists(&self, statements: &[&str]) -> bool {
        self.differs.iter().any(|listed| listed.covers(statements))
    }
}

impl Differs {
    /// Whether this is about the last of these statements.
    pub fn covers(&self, statements: &[&str]) -> bool {
        let alike = |statement: &&&str| statement.starts_with(self.statement);
        let number = statements.iter().filter(alike).count();
        statements.last().iter().any(alike) && self.only.is_none_or(|only| only == number)
    }
}

/// All statements that begin so.
const fn all(statement: &'static str, because: &'static str) -> Differs {
    Differs {
        statement,
        only: None,
        because,
    }
}

/// The n-th statement that begins so.
const fn nth(only: usize, statement: &'static str, because: &'static str) -> Differs {
    Differs {
        statement,
        only: Some(only),
        because,
    }
}

/// Something that happened while or before a statement that begins like this ran.
pub struct Outside {
    pub when: When,
    pub statement: &'static str,
    pub act: Act,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    Before,
    During,
}

#[derive(Clone, Copy)]
pub enum Act {
    /// A cancel request for this connection.
    Cancel(&'static str),
    /// The server is stopped and started again.
    Restart,
    /// SERIALIZABLE transactions read that far behind.
    ReadBehind { ms: u64 },
    /// A table of this name is there from an earlier run.
    Exists { table: &'static str },
    /// The table has what the next answer contains.
    Contents { table: &'static str },
}

const PLAIN: Scenario = Scenario {
    name: "",
    first_id: 1,
    outside: &[],
    any_order: None,
    differs: &[],
};

const EXTENDED: Differs = all(
    "[extended]",
    "the host sends simple queries; the rest is refused with 0A000, never answered wrongly",
);

/// In the order of `record.py`, which recorded them; the last two were recorded by hand.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "session_start",
        ..PLAIN
    },
    Scenario {
        name: "snapshot_then_stream",
        ..PLAIN
    },
    Scenario {
        name: "diff_multiplicity",
        ..PLAIN
    },
    Scenario {
        name: "resume_without_snapshot",
        ..PLAIN
    },
    Scenario {
        name: "history_lost",
        first_id: 4,
        ..PLAIN
    },
    Scenario {
        name: "upsert_envelope",
        differs: &[all(
            "DECLARE c CURSOR FOR SUBSCRIBE u ENVELOPE DEBEZIUM",
            "behind a flag that is off by default, and not used by the host",
        )],
        ..PLAIN
    },
    Scenario {
        name: "bounded_up_to",
        ..PLAIN
    },
    Scenario {
        name: "constant_collection",
        first_id: 8,
        ..PLAIN
    },
    Scenario {
        name: "empty_table",
        ..PLAIN
    },
    Scenario {
        name: "by_id",
        first_id: 10,
        ..PLAIN
    },
    Scenario {
        name: "object_dropped",
        ..PLAIN
    },
    Scenario {
        name: "poisoned_dataflow",
        ..PLAIN
    },
    Scenario {
        name: "result_too_large",
        ..PLAIN
    },
    Scenario {
        name: "fell_behind",
        ..PLAIN
    },
    Scenario {
        name: "cancelled",
        outside: &[Outside {
            when: When::During,
            statement: "FETCH 1000 c WITH (timeout = '10s')",
            act: Act::Cancel("client"),
        }],
        ..PLAIN
    },
    Scenario {
        name: "session_limits",
        ..PLAIN
    },
    Scenario {
        name: "indexed_object",
        first_id: 19,
        ..PLAIN
    },
    Scenario {
        name: "schema_swap",
        first_id: 21,
        ..PLAIN
    },
    Scenario {
        name: "replacement",
        first_id: 23,
        differs: &[nth(
            2,
            "SELECT o.id, o.name, o.type, g.global_id",
            "mz_storage_shards knew the shard of the first replacement a little later",
        )],
        ..PLAIN
    },
    Scenario {
        name: "catalog",
        first_id: 27,
        differs: &[all(
            "EXPLAIN TIMESTAMP",
            "a text for people; the host reads frontiers from mz_frontiers",
        )],
        ..PLAIN
    },
    Scenario {
        name: "type_formats",
        any_order: Some("the order of packed rows is not simulated for every type"),
        outside: &[Outside {
            when: When::Before,
            statement: "BEGIN",
            act: Act::Contents { table: "ty" },
        }],
        differs: &[
            all(
                "INSERT INTO ty",
                "literals are stored as written, without the checks of their types; what a \
                 SUBSCRIBE sends is loaded by the replay",
            ),
            EXTENDED,
        ],
        ..PLAIN
    },
    Scenario {
        name: "extended_protocol",
        differs: &[EXTENDED],
        ..PLAIN
    },
    Scenario {
        name: "copy_out",
        differs: &[all("COPY", "the host uses FETCH, which the client paces")],
        ..PLAIN
    },
    Scenario {
        name: "one_as_of_for_two",
        first_id: 35,
        outside: &[Outside {
            when: When::Before,
            statement: "BEGIN READ ONLY ISOLATION LEVEL SERIALIZABLE",
            act: Act::ReadBehind { ms: 166 },
        }],
        ..PLAIN
    },
    Scenario {
        name: "privileges",
        outside: &[Outside {
            when: When::Before,
            statement: "DROP TABLE IF EXISTS pr",
            act: Act::Exists { table: "pr" },
        }],
        differs: &[all(
            "SELECT count(*) FROM mz_internal.mz_frontiers",
            "a real server counts several hundred objects of its own",
        )],
        ..PLAIN
    },
    Scenario {
        name: "server_restart",
        outside: &[Outside {
            when: When::During,
            statement: "FETCH 100000 c",
            act: Act::Restart,
        }],
        ..PLAIN
    },
    Scenario {
        name: "verify_queries",
        first_id: 72,
        differs: &[all(
            "SHOW CREATE TABLE",
            "a text for people, not used by the host",
        )],
        ..PLAIN
    },
];
