//! Sends to a simulator what a client sent to a real server, at the same times of the clock.
//!
//! ```text
//! recording: > FETCH   < row  < row ..  < FETCH 3  < ready   > next ..
//!              │         │                             │        │
//! clock set to t_sent    time of the row               t_end    t_sent
//! ```
//!
//! The simulator lives in the time of the recording and its time limits follow its clock, so AS OF
//! and UP TO are sent as they stand, nothing waits, and nothing depends on the machine.

use std::collections::HashMap;
use std::time::Duration;

use materialize_sim::{Options, Server, TimeLimits};
use serde_json::{Value, json};

use crate::normal::{Asked, Normal};
use crate::scenarios::{Act, Scenario, When};
use crate::support::{Raw, ends_answer, recorded};

/// A FETCH ends this long after the recorded one at the latest, in milliseconds of the clock.
const SLACK_MS: u64 = 100;

/// In real time: an answer that takes longer will not come.
const PATIENCE: Duration = Duration::from_secs(5);

/// One statement (or login) and its answer, as recorded.
struct Exchange {
    connection: String,
    asked: Value,
    sent_at: u64,
    answer: Vec<Value>,
    ended_at: u64,
}

/// What the two servers said to one statement.
pub struct Compared {
    /// With `[extended] ` before it if it was not sent as a simple query.
    pub statement: String,
    pub real: Vec<Value>,
    pub simulated: Vec<Value>,
}

impl Compared {
    pub fn differs(&self) -> bool {
        self.real != self.simulated
    }
}

fn exchanges(scenario: &str) -> Vec<Exchange> {
    let mut all: Vec<Exchange> = Vec::new();
    for line in recorded(scenario) {
        let at = milliseconds(&line);
        match (line["dir"].as_str(), all.last_mut()) {
            (Some(">"), _) => all.push(Exchange {
                connection: line["conn"].as_str().unwrap().to_owned(),
                asked: line,
                sent_at: at,
                answer: Vec::new(),
                ended_at: at,
            }),
            (Some("<"), Some(exchange)) => {
                assert_eq!(line["conn"].as_str().unwrap(), exchange.connection);
                exchange.answer.push(line);
                exchange.ended_at = at;
            }
            // A note of the recorder's.
            _ => {}
        }
    }
    all
}

fn milliseconds(line: &Value) -> u64 {
    (line["t"].as_f64().unwrap() * 1000.0).round() as u64
}

/// The time of a row of a stream.
fn row_time(message: &Value) -> Option<u64> {
    message["DataRow"][0].as_str()?.parse().ok()
}

struct Replay<'a> {
    scenario: &'a Scenario,
    server: Server,
    connections: HashMap<String, Raw>,
    clock: u64,
    /// Times of the simulator's own, and those in the statements of the recording.
    instead: Vec<(String, String)>,
}

/// Replays a scenario; statements that follow a listed difference in its transaction are left out.
pub async fn replay(scenario: &Scenario) -> Vec<Compared> {
    let exchanges = exchanges(scenario.name);
    let options = Options {
        // Only what the replay does moves the clock.
        tick: Duration::from_secs(3600),
        time_limits: TimeLimits::SimulatedClock,
        first_id: scenario.first_id,
        ..Options::default()
    };
    let mut replay = Replay {
        scenario,
        server: Server::start(options).await.unwrap(),
        connections: HashMap::new(),
        clock: 0,
        instead: Vec::new(),
    };
    let named: Vec<String> = exchanges.iter().flat_map(named_times).collect();
    let (mut real, mut simulated) = (Normal::default(), Normal::default());
    real.named.clone_from(&named);
    simulated.named = named;
    let mut declared: HashMap<&str, bool> = HashMap::new();
    let mut astray: HashMap<&str, bool> = HashMap::new();
    let mut compared = Vec::new();
    for (at, exchange) in exchanges.iter().enumerate() {
        let statement = statement(&exchange.asked);
        let connection = exchange.connection.as_str();
        replay.set_clock(exchange.sent_at);
        replay.act(When::Before, &statement, &exchanges[at..]).await;
        let Some(answer) = replay.ask(exchange, &statement).await else {
            continue;
        };
        let asked = Asked {
            sql: &statement,
            opens_stream: declared.get(connection) == Some(&true) || streams(&statement),
            any_order: scenario.any_order.is_some(),
        };
        declared.insert(connection, statement.contains("DECLARE"));
        if statement.contains("mz_now()") {
            let times = exchange.answer.iter().zip(&answer);
            let times = times.filter_map(|(real, own)| Some((row_time(real)?, row_time(own)?)));
            let instead = times.map(|(real, own)| (own.to_string(), real.to_string()));
            simulated
                .instead
                .extend(instead.filter(|(_, real)| simulated.named.contains(real)));
            replay.instead.clone_from(&simulated.instead);
        }
        let pair = Compared {
            real: real.answer(asked, &exchange.answer),
            simulated: simulated.answer(asked, &answer),
            statement,
        };
        let was_astray = astray.get(connection) == Some(&true);
        let mut before: Vec<&str> = compared
            .iter()
            .map(|pair: &Compared| &*pair.statement)
            .collect();
        before.push(&pair.statement);
        let listed = scenario.lists(&before) && pair.differs();
        let open = exchange.answer.iter().any(|m| {
            m["ReadyForQuery"]
                .as_str()
                .is_some_and(|state| state != "I")
        });
        astray.insert(connection, open && (was_astray || listed));
        if !was_astray {
            compared.push(pair);
        }
    }
    compared
}

fn statement(asked: &Value) -> String {
    match (asked["query"].as_str(), asked["extended"].as_str()) {
        (Some(sql), _) => sql.to_owned(),
        (_, Some(sql)) => format!("[extended] {sql}"),
        _ if asked.get("startup").is_some() => "[login]".to_owned(),
        _ => "[terminate]".to_owned(),
    }
}

fn streams(statement: &str) -> bool {
    statement.starts_with("SUBSCRIBE") || statement.starts_with("COPY")
}

fn named_times(exchange: &Exchange) -> Vec<String> {
    let statement = statement(&exchange.asked);
    let words = statement.split(|c: char| !c.is_ascii_digit());
    words.filter(|w| w.len() == 13).map(str::to_owned).collect()
}

impl Replay<'_> {
    /// The clock of a server does not go back.
    fn set_clock(&mut self, time: u64) {
        if time > self.clock {
            self.clock = time;
            self.server.control().set_clock(Some(time));
        }
    }

    /// The answer, `None` to a message that has none.
    async fn ask(&mut self, exchange: &Exchange, statement: &str) -> Option<Vec<Value>> {
        let name = &exchange.connection;
        if let Some(parameters) = exchange.asked["startup"].as_object() {
            let parameters = parameters.iter();
            let parameters: Vec<_> = parameters
                .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
                .collect();
            let raw = Raw::open(&self.server, &parameters).await;
            self.connections.insert(name.clone(), raw);
        } else if let Some(sql) = exchange.asked["query"].as_str() {
            let sql = self.own_values(sql);
            self.connections.get_mut(name)?.send_query(&sql).await;
        } else if let Some(sql) = exchange.asked["extended"].as_str() {
            self.connections.get_mut(name)?.send_extended(sql).await;
        } else {
            self.connections.remove(name);
            return None;
        }
        let mut answer = Vec::new();
        self.read(name, &mut answer, |_| true).await;
        // What the server said while it waited, at the times it said it.
        for message in &exchange.answer {
            let said_at = milliseconds(message);
            let Some(time) = row_time(message).map(|time| time.min(said_at)) else {
                continue;
            };
            // Rows are sent once their time is over.
            let over = time + u64::from(message["DataRow"][1] == "f");
            if over > self.clock {
                self.set_clock(over);
                let enough = |m: &Value| row_time(m).is_some_and(|own| own >= time);
                self.read(name, &mut answer, enough).await;
            }
        }
        self.act(When::During, statement, &[]).await;
        if statement.starts_with("FETCH") || streams(statement) {
            self.set_clock(exchange.ended_at + SLACK_MS);
        }
        self.read(name, &mut answer, |_| false).await;
        Some(answer)
    }

    /// Reads until a message is `enough`, at most to the end of the answer.
    async fn read(&mut self, name: &str, answer: &mut Vec<Value>, enough: impl Fn(&Value) -> bool) {
        let raw = self.connections.get_mut(name).unwrap();
        while !answer.last().is_some_and(ends_answer) {
            let Ok(message) = tokio::time::timeout(PATIENCE, raw.next()).await else {
                // The comparison shows where.
                answer.push(json!({"nothing": "came"}));
                return;
            };
            answer.push(message);
            if answer.last().is_some_and(&enough) {
                return;
            }
        }
    }

    /// Process ids and times that a client had from its server.
    fn own_values(&self, sql: &str) -> String {
        let renamed = self.instead.iter();
        let sql = renamed.fold(sql.to_owned(), |sql, (own, real)| sql.replace(real, own));
        match (
            sql.split_once("pg_cancel_backend("),
            self.connections.get("client"),
        ) {
            (Some((before, _)), Some(client)) => {
                format!("{before}pg_cancel_backend({})", client.pid)
            }
            _ => sql,
        }
    }

    /// Does what happened to the real server besides the statements.
    async fn act(&mut self, when: When, statement: &str, ahead: &[Exchange]) {
        let control = self.server.control();
        for outside in self.scenario.outside {
            if outside.when != when || !statement.starts_with(outside.statement) {
                continue;
            }
            match outside.act {
                Act::Cancel(connection) => self.connections[connection].cancel(&self.server).await,
                Act::Restart => {
                    control.stop();
                    control.start();
                }
                Act::ReadBehind { ms } => control.set_serializable_lag(ms),
                Act::Exists { table } => control.create_table(table, Vec::new(), None).unwrap(),
                Act::Contents { table } => {
                    let rows = ahead
                        .iter()
                        .find(|e| e.answer.iter().any(|m| row_time(m).is_some()));
                    let rows = &rows.unwrap().answer;
                    let data = rows.iter().filter(|m| m["DataRow"][1] == "f");
                    let row = |m: &Value| serde_json::from_value(m["DataRow"].clone()).unwrap();
                    let mut changes: Vec<(Vec<Option<String>>, i64)> = data
                        .map(|m| (row(m), 1))
                        .map(|(row, diff): (Vec<_>, _)| (row[3..].to_vec(), diff))
                        .collect();
                    let there = control.fold(table, u64::MAX).unwrap();
                    changes.extend(there.into_iter().map(|(row, count)| (row, -count)));
                    control.apply(table, changes).unwrap();
                }
            }
        }
    }
}
