//! Sends a batch's rows: split by rows and bytes, several requests in flight.
//!
//! A batch is netted, so every key is in it once, and requests may overtake each other.

mod transformed;

use std::collections::VecDeque;

use mz_sink_guest::{Batch, Chunk, Error, Failure, Http};

use crate::checkpoint::Control;
use crate::client::{Client, Trouble, Writing};
use crate::config::Config;
use crate::encode::{self, Made, Mode, Stamp};
use crate::schema::Table;
use crate::screen;

/// Most bytes of rows pulled at once: enough for large requests, small beside a guest's memory.
const MAX_PULL_BYTES: u32 = 4 << 20;

/// Most rows whose vectors are made at once: they are all in memory then.
const MAX_TRANSFORMED_ROWS: usize = 1024;

/// Where a view's rows go.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) namespace: String,
    pub(crate) mode: Mode,
}

/// The rows of one batch on their way.
pub(crate) struct Requests<'a, H: Http> {
    client: &'a Client<H>,
    /// Asked when a namespace is not as it should be.
    control: &'a mut Control,
    tables: &'a [Table],
    /// By view; none when the batch may not have rows for it.
    places: &'a [Option<Place>],
    stamp: Stamp,
    limits: Limits,
    in_flight: VecDeque<InFlight<'a, H::Exchange>>,
    /// Of the last body, to allocate the next one at once.
    bytes_per_row: usize,
}

#[derive(Debug, Clone, Copy)]
struct Limits {
    rows: usize,
    bytes: usize,
    in_flight: usize,
    pull_bytes: u32,
}

struct InFlight<'a, E> {
    writing: Writing<E>,
    rows: u64,
    table: &'a Table,
    place: &'a Place,
}

impl<'a, H: Http> Requests<'a, H> {
    pub(crate) fn new(
        client: &'a Client<H>,
        control: &'a mut Control,
        tables: &'a [Table],
        places: &'a [Option<Place>],
        stamp: Stamp,
        config: &Config,
    ) -> Self {
        Requests {
            client,
            control,
            tables,
            places,
            stamp,
            limits: Limits {
                rows: config.max_request_rows as usize,
                bytes: config.max_request_bytes as usize,
                in_flight: config.requests_in_flight as usize,
                // JSON is at most about twice as large as columns.
                pull_bytes: (config.max_request_bytes / 2).min(MAX_PULL_BYTES),
            },
            in_flight: VecDeque::new(),
            bytes_per_row: 0,
        }
    }

    /// Sends all rows and returns when every request has succeeded.
    pub(crate) fn send_all<B: Batch>(mut self, batch: &mut B) -> Result<(), Error> {
        let tables = self.tables;
        while let Some(chunk) = batch.next(self.limits.pull_bytes)? {
            let table = tables.get(chunk.view()).ok_or_else(|| {
                Error::permanent("malformed-chunk", "a chunk is of a view that is not there")
            })?;
            let screened = screen::screened(table, &chunk, batch)?;
            // Deletes are small in a chunk, and not in a request with vectors.
            let fitting = self.limits.bytes / table.least_bytes();
            let most = self.limits.rows.min(fitting.max(1));
            let most_accepted = if table.transforms.is_empty() {
                most
            } else {
                most.min(MAX_TRANSFORMED_ROWS)
            };
            for part in screened.accepted.chunks(most_accepted) {
                if table.transforms.is_empty() {
                    self.send(table, &chunk, part, &Made::new(), batch)?;
                } else {
                    self.transform(table, &chunk, part, batch)?;
                }
            }
            for part in screened.keyed.chunks(most) {
                self.hide(table, &chunk, part)?;
            }
        }
        while self.await_oldest()? {}
        Ok(())
    }

    fn send<B: Batch>(
        &mut self,
        table: &'a Table,
        chunk: &Chunk,
        rows: &[u32],
        made: &Made,
        batch: &mut B,
    ) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let place = self.place(table, chunk)?;
        let capacity = self.bytes_per_row * rows.len() * 9 / 8 + 1024;
        let body = encode::body(table, chunk, rows, self.stamp, place.mode, made, capacity)?;
        if body.len() > self.limits.bytes {
            return match rows {
                &[row] => self.too_large(table, chunk, row, body.len(), batch),
                _ => {
                    drop(body);
                    let (first, second) = rows.split_at(rows.len() / 2);
                    self.send(table, chunk, first, made, batch)?;
                    self.send(table, chunk, second, made, batch)
                }
            };
        }
        self.bytes_per_row = body.len() / rows.len().max(1);
        self.start(table, place, body, rows.len())
    }

    /// Where the rows of a chunk go.
    fn place(&self, table: &Table, chunk: &Chunk) -> Result<&'a Place, Error> {
        let places = self.places;
        let Some(place) = places.get(chunk.view()).and_then(Option::as_ref) else {
            return Err(self.control.unnamed(&table.view));
        };
        Ok(place)
    }

    fn too_large<B: Batch>(
        &mut self,
        table: &'a Table,
        chunk: &Chunk,
        row: u32,
        bytes: usize,
        batch: &mut B,
    ) -> Result<(), Error> {
        let message = format!("the row makes a request of {bytes} bytes");
        self.refuse(table, chunk, row, ("row-too-large", &message), batch)
    }

    fn refuse<B: Batch>(
        &mut self,
        table: &'a Table,
        chunk: &Chunk,
        row: u32,
        (category, message): (&str, &str),
        batch: &mut B,
    ) -> Result<(), Error> {
        batch.reject(chunk.position(row as usize), category, message)?;
        self.hide(table, chunk, &[row])
    }

    /// A refused row leaves no older document of its key behind. A namespace that is being
    /// loaded has none.
    fn hide(&mut self, table: &'a Table, chunk: &Chunk, rows: &[u32]) -> Result<(), Error> {
        let places = self.places;
        match places.get(chunk.view()).and_then(Option::as_ref) {
            Some(place) if place.mode == Mode::NewerWins => {
                let body = encode::tombstones(table, chunk, rows, self.stamp)?;
                self.start(table, place, body, rows.len())
            }
            _ => Ok(()),
        }
    }

    fn start(
        &mut self,
        table: &'a Table,
        place: &'a Place,
        body: Vec<u8>,
        rows: usize,
    ) -> Result<(), Error> {
        while self.in_flight.len() >= self.limits.in_flight {
            self.await_oldest()?;
        }
        let writing = self.client.start_write_of_rows(&place.namespace, body);
        self.in_flight.push_back(InFlight {
            writing: writing.map_err(|trouble| trouble.of_idempotent())?,
            rows: rows as u64,
            table,
            place,
        });
        Ok(())
    }

    /// False when nothing is in flight.
    fn await_oldest(&mut self) -> Result<bool, Error> {
        let Some(oldest) = self.in_flight.pop_front() else {
            return Ok(false);
        };
        let InFlight { table, place, .. } = oldest;
        let written = oldest.writing.wait();
        let written = written.map_err(|trouble| self.explained(trouble, table, place))?;
        // Without a condition nothing is skipped, so the snapshot is counted as it goes.
        if place.mode == Mode::Load && written.rows_upserted() != oldest.rows {
            return Err(Error::retryable(
                "incomplete-load",
                format!(
                    "turbopuffer wrote {} of {} rows of a snapshot",
                    written.rows_upserted(),
                    oldest.rows
                ),
            ));
        }
        Ok(true)
    }

    /// What follows from a write of rows that did not succeed.
    fn explained(&mut self, trouble: Trouble, table: &Table, place: &Place) -> Error {
        match trouble {
            // Another try makes it again.
            Trouble::NoNamespace(failure) if place.mode == Mode::Load => Error::Retryable(failure),
            Trouble::NoNamespace(_) => {
                self.control
                    .missing(self.client, &table.view, &place.namespace)
            }
            // Is it the schema? The server's words about that alone hold no row values.
            Trouble::BadRequest(failure) => {
                let written = self.client.declare(&place.namespace, false, table);
                match written {
                    Err(Trouble::BadRequest(conflict)) => self.conflicting(&conflict, table),
                    _ => Error::Permanent(failure),
                }
            }
            other => other.of_idempotent(),
        }
    }

    fn conflicting(&self, failure: &Failure, table: &Table) -> Error {
        Error::permanent(
            "schema-conflict",
            format!(
                "what is stored of view `{}` does not fit what it should become: {}. If `types` or \
                 `id_type` was changed, put it back; otherwise {}",
                table.view,
                failure.message,
                self.control.start_again()
            ),
        )
    }
}
