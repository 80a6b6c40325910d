//! Materialize views in turbopuffer namespaces.
//!
//! ```text
//!   write(batch) ──> Documents ──> several upsert requests in flight ──> active namespace
//!        │            (ids, columns, tombstones; each document only if newer)
//!        └── all done ──> control document: checkpoint by compare-and-set, and the switch
//! ```
//!
//! The guarantee is convergence: one request is atomic, nothing spans requests, so readers may
//! see part of a batch while it is written; after each completed batch the active namespace
//! equals the view. Deletes are tombstones, since a stale upsert would bring a deleted document
//! back; every snapshot goes into a namespace of its own, since tombstones protect only keys
//! that a namespace has seen.

mod api;
mod config;
mod control;
mod encode;
mod ids;
mod mapping;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use mz_sink_guest::{
    Batch, Clock, Context, Description, Envelope, Error, Guarantee, Http, Sink, Value,
};
use serde_json::json;

use api::Api;
pub use config::{Config, NonFinite, Numeric, SignedKeys, Timestamps};
use control::{Control, Place};
use encode::Documents;
use mapping::Mapping;

/// How much is pulled from the host at once, in bytes.
const PULL_BYTES: u32 = 4 << 20;

/// The sink. `H` is what it reaches the outside with.
#[derive(Debug)]
pub struct Turbopuffer<H> {
    api: Api<H>,
    config: Config,
    mapping: Mapping,
    place: Place,
    control: Control,
}

impl<H: Http + Clock> Sink for Turbopuffer<H> {
    type Host = H;

    fn describe() -> Description {
        Description {
            version: env!("CARGO_PKG_VERSION").into(),
            netted: true,
            ..Description::new::<Config>("turbopuffer", Guarantee::Convergent, Envelope::Upsert)
        }
    }

    fn open(host: H, context: &Context) -> Result<(Self, Option<String>), Error> {
        let config: Config = context.parse_config()?;
        config.check()?;
        let [view] = context.views.as_slice() else {
            return Err(Error::permanent(
                "one-view",
                "this version of the turbopuffer sink takes exactly one view",
            ));
        };
        let mapping = Mapping::new(view, &config)?;
        let api = Api::new(host, config.base_url(), &config.api_key_secret);
        let mut id = Vec::new();
        let parts = [(
            Value::Text(&context.sink_id),
            &mz_sink_guest::ColumnType::Text,
        )];
        // A text is not NULL, so there is an id.
        let _ = ids::write(parts.into_iter(), &mut Vec::new(), &mut id);
        let place = Place {
            namespace: config.control_namespace(),
            id: String::from_utf8_lossy(&id).into_owned(),
        };
        let control = place.read(&api)?;
        let stored = control.checkpoint.clone();
        let sink = Self {
            api,
            config,
            mapping,
            place,
            control,
        };
        Ok((sink, stored))
    }

    fn checkpoint(&mut self) -> Result<Option<String>, Error> {
        self.control = self.place.read(&self.api)?;
        Ok(self.control.checkpoint.clone())
    }

    fn write(
        &mut self,
        batch: &mut dyn Batch,
        expected: Option<&str>,
        next: &str,
    ) -> Result<(), Error> {
        let info = batch.info();
        let mut control = Control {
            checkpoint: Some(next.into()),
            ..self.control.clone()
        };
        if !info.snapshot_of.is_empty() {
            let fresh = self.create_incarnation(info.generation, info.epoch)?;
            control.retired.extend(control.active.replace(fresh));
        }
        if info.rows > 0 {
            let Some(active) = &control.active else {
                return Err(Error::permanent(
                    "no-incarnation",
                    "the control document names no active namespace; somebody changed it by \
                     hand. Restore it, or use a new sink_id to start again with a snapshot",
                ));
            };
            self.write_documents(batch, active, info.generation)?;
        }
        self.place.compare_and_set(&self.api, expected, &control)?;
        self.control = control;
        Ok(())
    }
}

impl<H: Http + Clock> Turbopuffer<H> {
    /// A namespace for one attempt at a snapshot: nobody else ever has its name.
    fn create_incarnation(&self, generation: u64, epoch: u64) -> Result<String, Error> {
        let name = format!("{}-g{generation}-e{epoch}", self.config.namespace);
        let schema: serde_json::Value = serde_json::from_str(&self.mapping.schema)
            .map_err(|e| Error::permanent("internal", e.to_string()))?;
        let body = json!({ "create_namespace": true, "schema": schema });
        self.api.write(&name, &body)?;
        Ok(name)
    }

    /// Writes all rows. Keys are disjoint, since the batch is netted, so requests may overtake
    /// each other; each document is written only where an older one is, or none.
    fn write_documents(
        &self,
        batch: &mut dyn Batch,
        namespace: &str,
        generation: u64,
    ) -> Result<(), Error> {
        let now_ms = self.api.host.now_ms();
        let empty = || Documents::new(&self.mapping, self.config.non_finite, generation, now_ms);
        let mut in_flight = VecDeque::new();
        let mut documents = empty();
        loop {
            let chunk = batch.next(PULL_BYTES)?;
            let ended = chunk.is_none();
            if let Some(chunk) = chunk {
                for unfit in documents.push(&chunk) {
                    let row = chunk.first_row + unfit.row as u64;
                    batch.reject(row, unfit.category, &unfit.message)?;
                }
            }
            let full = documents.byte_len() >= self.config.max_request_bytes;
            if !documents.is_empty() && (full || ended) {
                let body = std::mem::replace(&mut documents, empty()).into_body();
                if in_flight.len() >= self.config.requests_in_flight
                    && let Some(oldest) = in_flight.pop_front()
                {
                    self.api.finish_write(oldest)?;
                }
                in_flight.push_back(self.api.start_write(namespace, body)?);
            }
            if ended {
                break;
            }
        }
        for exchange in in_flight {
            self.api.finish_write(exchange)?;
        }
        Ok(())
    }
}

mz_sink_guest::export!(Turbopuffer<mz_sink_guest::Host>);
