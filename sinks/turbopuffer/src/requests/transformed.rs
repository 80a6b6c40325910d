//! Rows with vectors that are made from them, by an embeddings service.

use std::collections::HashSet;

use mz_sink_guest::{Batch, Chunk, Error, Http, Op};
use serde_json::Value;

use super::Requests;
use crate::client::Writing;
use crate::embeddings::{Embedded, Embeddings};
use crate::encode::{self, Made, Mode};
use crate::schema::Table;

impl<'a, H: Http> Requests<'a, H> {
    /// Sends rows with vectors that are made from them. A document whose sources have not changed
    /// keeps its vectors, and nothing is asked of the embeddings service for it.
    pub(super) fn transform<B: Batch>(
        &mut self,
        table: &'a Table,
        chunk: &Chunk,
        rows: &[u32],
        batch: &mut B,
    ) -> Result<(), Error> {
        let is_delete = |row: &&u32| chunk.op(**row as usize) == Op::Delete;
        let deletes: Vec<u32> = rows.iter().filter(is_delete).copied().collect();
        self.send(table, chunk, &deletes, &Made::new(), batch)?;
        let mut puts: Vec<u32> = rows.iter().filter(|row| !is_delete(row)).copied().collect();
        if self.place(table, chunk)?.mode == Mode::NewerWins {
            puts = self.keep_vectors(table, chunk, &puts, batch)?;
        }
        let mut made = Made::new();
        for transform in &table.transforms {
            let text = |&row: &u32| (row, transform.text(chunk, row as usize));
            let (empty, full): (Vec<_>, Vec<_>) =
                puts.iter().map(text).partition(|(_, text)| text.is_empty());
            let texts: Vec<String> = full.iter().map(|(_, text)| text.clone()).collect();
            let service = Embeddings {
                host: self.client.host(),
                transform,
                timeout_ms: self.client.timeout_ms,
                in_flight: self.limits.in_flight,
            };
            let placeholder = table.placeholder(&transform.attribute);
            for (row, _) in empty {
                made.entry(row).or_default().push(placeholder.to_owned());
            }
            for ((row, _), embedded) in full.into_iter().zip(service.embed(&texts)?) {
                match embedded {
                    Embedded::Vector(vector) => made.entry(row).or_default().push(vector),
                    Embedded::Refused { status } => {
                        let message = format!(
                            "the embeddings service answers {status} for `{}`",
                            transform.attribute
                        );
                        let why = ("embedding-refused", message.as_str());
                        self.refuse(table, chunk, row, why, batch)?;
                        puts.retain(|&put| put != row);
                    }
                }
            }
        }
        self.send(table, chunk, &puts, &made, batch)
    }

    /// Patches the documents that keep their vectors, and returns the other rows.
    fn keep_vectors<B: Batch>(
        &mut self,
        table: &'a Table,
        chunk: &Chunk,
        rows: &[u32],
        batch: &mut B,
    ) -> Result<Vec<u32>, Error> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let place = self.place(table, chunk)?;
        let body = encode::patch(table, chunk, rows, self.stamp)?;
        if body.len() > self.limits.bytes {
            if let &[row] = rows {
                self.too_large(table, chunk, row, body.len(), batch)?;
                return Ok(Vec::new());
            }
            let (first, second) = rows.split_at(rows.len() / 2);
            let mut left = self.keep_vectors(table, chunk, first, batch)?;
            left.extend(self.keep_vectors(table, chunk, second, batch)?);
            return Ok(left);
        }
        let writing = self.client.start_write_of_rows(&place.namespace, body);
        let written = writing.and_then(Writing::wait);
        let written = written.map_err(|trouble| self.explained(trouble, table, place))?;
        let ids = written.patched_ids().iter().map(Value::to_string);
        let patched: HashSet<String> = ids.collect();
        let mut left = Vec::new();
        for &row in rows {
            let id = encode::id(table, chunk, row as usize)?;
            if !patched.contains(&id.to_string()) {
                left.push(row);
            }
        }
        Ok(left)
    }
}
