//! Recorded streams: reading them, and growing them without keeping the growth.
//!
//! A recording is one *cycle*: batches of changes at times relative to its start.
//! Growing repeats the cycle with later times and other values in one column (the
//! first key column), so cycle `n` is a function of cycle 0 and takes no memory.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::error::SimError;
use crate::row::{Row, SharedChange, consolidate};
use crate::types::Column;

/// How fast a recording goes by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// This many recorded seconds per second; 1.0 is the recorded pace.
    Times(f64),
    /// As fast as the client takes the rows.
    Max,
}

impl std::str::FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "max" {
            return Ok(Self::Max);
        }
        match text.parse() {
            Ok(times) if times > 0.0 && f64::is_finite(times) => Ok(Self::Times(times)),
            _ => Err(format!(
                "speed must be a positive number or \"max\", not {text:?}"
            )),
        }
    }
}

/// How to replay a recording.
#[derive(Debug, Clone, Copy)]
pub struct ReplayOptions {
    /// The pace, counted from the first FETCH of any subscription to it.
    pub speed: Speed,
    /// Repeat the recording with new keys and later times until it has at least this many rows.
    pub rows: Option<u64>,
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            speed: Speed::Times(1.0),
            rows: None,
        }
    }
}

/// What a recording says about itself.
#[derive(Debug, Clone, serde::Deserialize)]
struct Header {
    object: String,
    envelope: String,
    key: Vec<String>,
    as_of: String,
    object_columns: Vec<HeaderColumn>,
    result_columns: Vec<ResultColumn>,
}

#[derive(Debug, Clone, serde::Deserialize)]
struct HeaderColumn {
    name: String,
    #[serde(rename = "type")]
    sql_type: String,
    type_oid: String,
    type_mod: String,
    nullable: String,
}

#[derive(Debug, Clone, serde::Deserialize)]
struct ResultColumn {
    name: String,
}

/// Changes between two recorded progress rows.
pub(crate) struct Batch {
    /// Exclusive end, relative to the start.
    pub(crate) upper: u64,
    /// Consolidated changes by relative time.
    pub(crate) times: Vec<(u64, Vec<SharedChange>)>,
}

/// A recorded stream, ready to be subscribed to.
pub(crate) struct Recording {
    /// `database.schema.name` as recorded.
    pub(crate) name: String,
    /// The columns of the object.
    pub(crate) columns: Vec<Column>,
    /// The recorded AS OF: where a subscription without AS OF starts.
    pub(crate) start: u64,
    /// Times of one cycle: `start + cycle * span ..`.
    pub(crate) span: u64,
    /// How often the recording is gone through, at least once.
    pub(crate) cycles: u64,
    /// Cycle 0.
    pub(crate) batches: Vec<Batch>,
    /// The column whose values differ between cycles.
    pub(crate) grown_column: usize,
    /// What an integer in that column grows by from cycle to cycle.
    stride: i64,
    speed: Speed,
    started: OnceLock<Instant>,
}

impl Recording {
    pub(crate) fn read(path: &Path, options: ReplayOptions) -> Result<Self, SimError> {
        let fail = |reason: String| SimError::Recording {
            file: path.display().to_string(),
            reason,
        };
        let file = std::fs::File::open(path).map_err(|e| fail(e.to_string()))?;
        let reader: Box<dyn Read> = if path.extension().is_some_and(|e| e == "gz") {
            Box::new(flate2::read::GzDecoder::new(file))
        } else {
            Box::new(file)
        };
        Self::parse(BufReader::new(reader), options).map_err(fail)
    }

    fn parse(reader: impl BufRead, options: ReplayOptions) -> Result<Self, String> {
        let mut lines = reader.lines();
        let first = lines
            .next()
            .ok_or("it is empty")?
            .map_err(|e| e.to_string())?;
        let header: Header =
            serde_json::from_str(&first).map_err(|e| format!("line 1 is no header: {e}"))?;
        let start: u64 = header.as_of.parse().map_err(|_| "as_of is no timestamp")?;
        let columns = header.columns()?;
        let mut cycle = Cycle::new(&header, &columns)?;
        for (number, line) in lines.enumerate() {
            let line = line.map_err(|e| e.to_string())?;
            let row: Row =
                serde_json::from_str(&line).map_err(|e| format!("line {}: {e}", number + 2))?;
            cycle
                .line(start, row)
                .map_err(|e| format!("line {}: {e}", number + 2))?;
        }
        let span = cycle
            .batches
            .last()
            .map(|batch| batch.upper)
            .ok_or("it closes no batch")?;
        let key = header.key.first();
        let grown_column = key
            .and_then(|k| columns.iter().position(|c| c.name == *k))
            .unwrap_or(0);
        let cycles = options
            .rows
            .map_or(1, |rows| rows.div_ceil(cycle.rows.max(1)).max(1));
        let stride = stride(&cycle.batches, grown_column);
        Ok(Self {
            name: header.object,
            columns,
            start,
            span,
            cycles,
            batches: cycle.batches,
            grown_column,
            stride,
            speed: options.speed,
            started: OnceLock::new(),
        })
    }

    /// First time after the last cycle.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.cycles * self.span
    }

    /// Starts the pace, once.
    pub(crate) fn begin(&self) {
        self.started.get_or_init(Instant::now);
    }

    /// Times below this have happened.
    pub(crate) fn revealed(&self) -> u64 {
        let elapsed = self
            .started
            .get()
            .map_or(0.0, |at| at.elapsed().as_secs_f64() * 1000.0);
        match self.speed {
            Speed::Times(times) => self.start + (elapsed * times) as u64,
            Speed::Max => self.end() + elapsed as u64,
        }
    }

    /// When `time` will have happened.
    pub(crate) fn reveals_at(&self, time: u64) -> Option<Instant> {
        match self.speed {
            Speed::Max => None,
            Speed::Times(times) => {
                let seconds = time.saturating_sub(self.start) as f64 / times / 1000.0;
                let wait = std::time::Duration::try_from_secs_f64(seconds).ok()?;
                self.started.get()?.checked_add(wait)
            }
        }
    }

    /// A value of the grown column as it is in `cycle`.
    pub(crate) fn grown(&self, value: &str, cycle: u64) -> String {
        if cycle == 0 {
            return value.to_owned();
        }
        match value.parse::<i64>() {
            Ok(number) => (number + self.stride * cycle as i64).to_string(),
            Err(_) => format!("{value}~{cycle}"),
        }
    }

    /// Cycle and relative time of an absolute time at or after the start.
    pub(crate) fn position(&self, time: u64) -> (u64, u64) {
        let passed = time.saturating_sub(self.start);
        let cycle = (passed / self.span).min(self.cycles);
        (cycle, passed - cycle * self.span)
    }

    /// The contents of one cycle at a relative time.
    pub(crate) fn cycle_contents(&self, until: u64) -> Vec<SharedChange> {
        let changes = self.batches.iter().flat_map(|batch| &batch.times);
        consolidate(
            changes
                .filter(|(time, _)| *time <= until)
                .flat_map(|(_, changes)| changes),
        )
    }

    /// Every row of the contents at `as_of`, cycle by cycle.
    pub(crate) fn for_each_row(&self, as_of: u64, mut each: impl FnMut(&Row, i64)) {
        if as_of < self.start {
            return;
        }
        let (last, rest) = self.position(as_of);
        let complete = self.cycle_contents(u64::MAX);
        let mut cycle_rows = |cycle: u64, rows: &[SharedChange]| {
            for (row, count) in rows {
                let mut row = Row::clone(row);
                if let Some(value) = &mut row[self.grown_column] {
                    *value = self.grown(value, cycle);
                }
                each(&row, *count);
            }
        };
        for cycle in 0..last {
            cycle_rows(cycle, &complete);
        }
        if last < self.cycles {
            cycle_rows(last, &self.cycle_contents(rest));
        }
    }
}

impl Header {
    fn columns(&self) -> Result<Vec<Column>, String> {
        self.object_columns
            .iter()
            .map(|c| {
                let oid = c.type_oid.parse().map_err(|_| "a type_oid is no number")?;
                let typmod = c.type_mod.parse().map_err(|_| "a type_mod is no number")?;
                let mut column = Column::exact(&c.name, &c.sql_type, oid, typmod);
                column.nullable = c.nullable == "t";
                Ok(column)
            })
            .collect()
    }
}

/// Reads the rows of a stream back into changes.
struct Cycle {
    upsert: bool,
    /// For each object column its position in a recorded row.
    source: Vec<usize>,
    key: Vec<usize>,
    current: BTreeMap<Vec<Option<String>>, Arc<Row>>,
    open: BTreeMap<u64, Vec<SharedChange>>,
    batches: Vec<Batch>,
    rows: u64,
}

impl Cycle {
    fn new(header: &Header, columns: &[Column]) -> Result<Self, String> {
        let find = |name: &String| {
            header
                .result_columns
                .iter()
                .skip(3)
                .position(|c| c.name == *name)
                .map(|at| at + 3)
                .ok_or(format!("column {name:?} is not in the rows"))
        };
        let source = columns
            .iter()
            .map(|c| find(&c.name))
            .collect::<Result<_, _>>()?;
        let key = header.key.iter().map(find).collect::<Result<_, _>>()?;
        Ok(Self {
            upsert: header.envelope == "upsert",
            source,
            key,
            current: BTreeMap::new(),
            open: BTreeMap::new(),
            batches: Vec::new(),
            rows: 0,
        })
    }

    fn line(&mut self, start: u64, row: Row) -> Result<(), String> {
        let text = |at: usize| row.get(at).and_then(Option::as_deref);
        let time: u64 = text(0)
            .and_then(|t| t.parse().ok())
            .ok_or("no mz_timestamp")?;
        let time = time.checked_sub(start).ok_or("a time before as_of")?;
        if text(1) == Some("t") {
            // The first progress row only repeats as_of.
            if time > 0 {
                let times = std::mem::take(&mut self.open)
                    .into_iter()
                    .map(|(time, changes)| (time, consolidate(&changes)))
                    .collect();
                self.batches.push(Batch { upper: time, times });
            }
            return Ok(());
        }
        self.rows += 1;
        let state = text(2).ok_or("no mz_diff or mz_state")?;
        let values = |at: &usize| row.get(*at).cloned().ok_or("a short row");
        let object: Row = self.source.iter().map(values).collect::<Result<_, _>>()?;
        let changes = self.open.entry(time).or_default();
        if !self.upsert {
            let diff = state.parse().map_err(|_| "mz_diff is no number")?;
            changes.push((Arc::new(object), diff));
            return Ok(());
        }
        let key: Row = self.key.iter().map(values).collect::<Result<_, _>>()?;
        let object = Arc::new(object);
        let old = match state {
            "upsert" => {
                changes.push((object.clone(), 1));
                self.current.insert(key, object)
            }
            "delete" => self.current.remove(&key),
            other => return Err(format!("a recording with {other:?} cannot be replayed")),
        };
        if let Some(old) = old {
            changes.push((old, -1));
        }
        Ok(())
    }
}

/// One more than the distance between the least and the greatest integer of a column.
fn stride(batches: &[Batch], column: usize) -> i64 {
    let changes = batches
        .iter()
        .flat_map(|b| &b.times)
        .flat_map(|(_, changes)| changes);
    let numbers = changes.filter_map(|(row, _)| row[column].as_deref()?.parse::<i64>().ok());
    let (least, most) = numbers.fold((0, 0), |(a, b), n| (a.min(n), b.max(n)));
    most - least + 1
}
