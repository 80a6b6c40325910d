//! The sink: the order in which the other files are used.

use mz_sink_guest::{
    Batch, Clock, Context, Description, Envelope, Error, Guarantee, Http, Info, Level, Log, Sink,
};

use crate::checkpoint::{self, Control, Incarnations};
use crate::client::{Client, Trouble};
use crate::config::Config;
use crate::encode::{Mode, Stamp};
use crate::incarnation;
use crate::requests::{Place, Requests};
use crate::schema::{self, Table};

/// How often namespaces that are not there are looked for under newer names.
const MAX_LOOKS: usize = 5;

/// The turbopuffer sink. `H` gives it HTTP, a clock, and a log.
pub struct Turbopuffer<H> {
    pub(crate) config: Config,
    pub(crate) client: Client<H>,
    pub(crate) tables: Vec<Table>,
    /// What the names of each view's incarnations begin with.
    pub(crate) prefixes: Vec<String>,
    pub(crate) control: Control,
    /// Of this worker, as the last batch told it.
    pub(crate) epoch: u64,
}

impl<H: Http + Clock + Log> Sink for Turbopuffer<H> {
    type Host = H;
    type Config = Config;

    fn describe() -> Description {
        Description {
            name: "turbopuffer".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            guarantee: Guarantee::Convergent,
            envelope: Envelope::Upsert,
            netted: true,
        }
    }

    fn open(host: H, context: Context<Config>) -> Result<(Self, Option<String>), Error> {
        let Context {
            sink_id,
            config,
            views,
        } = context;
        config.check()?;
        let namings = incarnation::namings(&config, &views)?;
        let attributes = namings.iter().map(|naming| naming.attribute.clone());
        let owner = incarnation::owner(&config.control_namespace(), &sink_id);
        let bases = namings.iter().map(|naming| &naming.base);
        let prefixes = bases
            .map(|base| incarnation::prefix(base, &owner))
            .collect();
        let mut sink = Turbopuffer {
            client: Client::new(host, &config)?,
            tables: schema::tables(&config, &views)?,
            control: Control::new(config.control_namespace(), &sink_id, attributes.collect()),
            prefixes,
            epoch: 0,
            config,
        };
        let stored = sink.find_incarnations()?;
        Ok((sink, stored))
    }

    fn checkpoint(&mut self) -> Result<Option<String>, Error> {
        self.control.read(&self.client)
    }

    fn write<B: Batch>(
        &mut self,
        batch: &mut B,
        expected: Option<&str>,
        next: &str,
    ) -> Result<(), Error> {
        // What is known of the incarnations must be what belongs to `expected`; and a fenced
        // worker stops here, before it writes a row.
        if self.control.text() != expected {
            let found = self.checkpoint()?;
            if found.as_deref() != expected {
                return Err(Error::Conflict(found));
            }
        }
        let info = batch.info();
        self.epoch = info.epoch;
        let mut incarnations = self.control.incarnations();
        let fresh = self.fresh_views(&info, &incarnations)?;
        for &view in &fresh {
            let name = incarnation::name(&self.prefixes[view], &info, &checkpoint::digest(next));
            self.create(view, &name)?;
            incarnations.switch(view, name, self.client.host().now_ms());
        }
        if info.rows > 0 {
            let place = |(view, active): (usize, &Option<String>)| {
                Some(Place {
                    namespace: active.clone()?,
                    mode: if fresh.contains(&view) {
                        Mode::Load
                    } else {
                        Mode::NewerWins
                    },
                })
            };
            let places: Vec<_> = incarnations.active.iter().enumerate().map(place).collect();
            let stamp = Stamp {
                generation: info.generation,
                written_at_ms: self.client.host().now_ms(),
            };
            Requests::new(
                &self.client,
                &mut self.control,
                &self.tables,
                &places,
                stamp,
                &self.config,
            )
            .send_all(batch)?;
        }
        let changed = (!fresh.is_empty()).then_some(incarnations);
        let now_ms = self.client.host().now_ms();
        self.control
            .replace(&self.client, expected, next, changed, now_ms)
    }
}

impl<H: Http + Clock + Log> Turbopuffer<H> {
    /// Reads the checkpoint, and makes sure that the namespaces which it names are there: without
    /// changes it would be found out late.
    fn find_incarnations(&mut self) -> Result<Option<String>, Error> {
        let mut stored = self.checkpoint()?;
        for _ in 0..MAX_LOOKS {
            let Some((view, namespace)) = self.first_missing()? else {
                return Ok(stored);
            };
            let view = self.tables[view].view.clone();
            match self.control.missing(&self.client, &view, &namespace) {
                // Another worker has made new ones since.
                Error::Conflict(found) => stored = found,
                error => return Err(error),
            }
        }
        Err(Error::retryable(
            "changing",
            "the namespaces of this sink change faster than they can be looked at",
        ))
    }

    fn first_missing(&self) -> Result<Option<(usize, String)>, Error> {
        let active = self.control.incarnations().active.into_iter().enumerate();
        for (view, namespace) in active {
            if let Some(namespace) = namespace
                && !self
                    .client
                    .exists(&namespace)
                    .map_err(Trouble::of_idempotent)?
            {
                return Ok(Some((view, namespace)));
            }
        }
        Ok(None)
    }

    /// Views that need a new incarnation: those with a snapshot, and before the first commit
    /// those that have none.
    fn fresh_views(&self, info: &Info, known: &Incarnations) -> Result<Vec<usize>, Error> {
        let mut fresh = Vec::new();
        for (view, active) in known.active.iter().enumerate() {
            let first = info.committed.is_none() && info.upper > info.lower && active.is_none();
            if first || info.snapshot_of.contains(&(view as u32)) {
                fresh.push(view);
            } else if self.control.text().is_some() && info.committed.is_some() && active.is_none()
            {
                return Err(self.control.unnamed(&self.tables[view].view));
            }
        }
        match info.snapshot_of.iter().max() {
            Some(&view) if view as usize >= self.tables.len() => Err(Error::permanent(
                "malformed-batch",
                "the batch is a snapshot of a view that is not there",
            )),
            _ => Ok(fresh),
        }
    }

    /// Also when the snapshot has no rows: readers must find a namespace.
    fn create(&self, view: usize, name: &str) -> Result<(), Error> {
        let table = &self.tables[view];
        let written = self.client.declare(name, true, table);
        written.map_err(|trouble| trouble.of_idempotent())?;
        self.client.host().log(
            Level::Info,
            "loading a snapshot into a new namespace",
            &[("view", &table.view), ("namespace", name)],
        );
        Ok(())
    }
}
