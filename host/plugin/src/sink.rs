//! A sink component behind the calls of the driver.

use mz_sink_core::batch::{BatchRows, SinkError};
use mz_sink_core::types::{Frontier, View};

use crate::bindings::exports::materialize::sink::sink::Context;
use crate::bindings::materialize::sink::types;
use crate::component::{Instance, SinkComponent};
use crate::convert::{self, host_failure};
use crate::http::HttpClient;
use crate::limits::Limits;
use crate::state::{State, Stop};

/// What a sink is given and allowed.
#[derive(Clone)]
pub struct PluginOptions {
    /// What it may use.
    pub limits: Limits,
    /// Its way to the network, with the operator's grants and secrets inside.
    pub http: HttpClient,
    /// The sink's identity, also in its log lines.
    pub sink_id: String,
    /// Its own configuration as JSON, already valid against its schema.
    pub config_json: String,
}

/// Live rows of one view as the target holds them. What they say is the component's account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// A JSON array of objects, as the contract has it; not checked here.
    pub rows: String,
    /// Where the next page begins; none after the last one.
    pub next: Option<Vec<u8>>,
}

/// A sink component with at most one instance.
///
/// After a trap, an exceeded limit or a call that was given up, the instance is gone and
/// [`open`](Self::open) makes a new one. Must be used within a Tokio runtime.
pub struct PluginSink {
    component: SinkComponent,
    options: PluginOptions,
    instance: Option<Instance>,
}

impl PluginSink {
    /// A sink without an instance yet.
    pub fn new(component: SinkComponent, options: PluginOptions) -> Self {
        Self {
            component,
            options,
            instance: None,
        }
    }

    /// Makes the target ready and returns the stored checkpoint. Makes an instance if need be.
    ///
    /// # Errors
    /// What the sink says, or [`SinkError::Trapped`] and [`SinkError::Limit`].
    pub async fn open(&mut self, views: &[View]) -> Result<Option<String>, SinkError> {
        let mut instance = match self.instance.take() {
            Some(instance) => instance,
            None => {
                let options = &self.options;
                let state = State::new(options.limits, options.http.clone(), &options.sink_id);
                self.component.instantiate(state).await.map_err(stopped)?
            }
        };
        let state = instance.store.data_mut();
        state.begin_call();
        state.set_views(views.to_vec());
        let context = Context {
            sink_id: self.options.sink_id.clone(),
            config: self.options.config_json.clone(),
            views: views.iter().map(convert::view).collect(),
        };
        let result = instance.sink.call_open(&mut instance.store, &context).await;
        convert::checkpoint(self.end_call(instance, result)?)
    }

    /// Reads the checkpoint back, seeing the latest commit.
    ///
    /// # Errors
    /// As [`open`](Self::open); without an instance [`SinkError::Trapped`] with code `not-open`.
    pub async fn checkpoint(&mut self) -> Result<Option<String>, SinkError> {
        let mut instance = self.begin_call()?;
        let result = instance.sink.call_checkpoint(&mut instance.store).await;
        convert::checkpoint(self.end_call(instance, result)?)
    }

    /// Writes the rows and replaces the checkpoint `expected` by `next`.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub async fn write(
        &mut self,
        rows: Box<dyn BatchRows>,
        expected: Option<String>,
        next: String,
    ) -> Result<(), SinkError> {
        let mut instance = self.begin_call()?;
        let batch = instance.store.data_mut().lend(rows);
        let result = instance
            .sink
            .call_write(&mut instance.store, batch, expected.as_deref(), &next)
            .await;
        self.end_call(instance, result)
    }

    /// Lets the sink do its housekeeping, if it has any.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub async fn maintain(&mut self, committed: Frontier) -> Result<(), SinkError> {
        let mut instance = self.begin_call()?;
        let result = match &instance.maintenance {
            Some(guest) => guest.call_run(&mut instance.store, committed).await,
            None => Ok(Ok(())),
        };
        self.end_call(instance, result)
    }

    /// A page of what the target holds of a view: at most `max` rows, from where the page before
    /// said. None when the component cannot read back.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub async fn read_back(
        &mut self,
        view: u32,
        after: Option<Vec<u8>>,
        max: u32,
    ) -> Result<Option<Page>, SinkError> {
        let mut instance = self.begin_call()?;
        let Some(guest) = &instance.read_back else {
            self.instance = Some(instance);
            return Ok(None);
        };
        let result = guest
            .call_rows(&mut instance.store, view, after.as_deref(), max)
            .await;
        let page = self.end_call(instance, result)?;
        Ok(Some(Page {
            rows: page.rows,
            next: page.next,
        }))
    }

    /// Lets the sink end in order, and drops the instance. A failure is logged and no more:
    /// everything that counts has been committed before.
    pub async fn close(&mut self) {
        let Ok(mut instance) = self.begin_call() else {
            return;
        };
        if let Err(error) = instance.sink.call_close(&mut instance.store).await {
            let error = stopped(error);
            tracing::warn!(sink = %self.options.sink_id, ?error, "the sink failed to close");
        }
    }

    /// Takes the instance out: a call that is given up half-way must not leave it behind.
    fn begin_call(&mut self) -> Result<Instance, SinkError> {
        let mut instance = self.instance.take().ok_or_else(|| {
            SinkError::Trapped(host_failure(
                "not-open",
                "the sink has no instance: open it",
            ))
        })?;
        instance.store.data_mut().begin_call();
        Ok(instance)
    }

    /// Puts the instance back unless it trapped.
    fn end_call<T>(
        &mut self,
        mut instance: Instance,
        result: wasmtime::Result<Result<T, types::Error>>,
    ) -> Result<T, SinkError> {
        let answer = result.map_err(stopped)?;
        instance.store.data_mut().end_call();
        self.instance = Some(instance);
        answer.map_err(convert::sink_error)
    }
}

impl std::fmt::Debug for PluginSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginSink")
            .field("component", &self.component)
            .field("sink_id", &self.options.sink_id)
            .field("open", &self.instance.is_some())
            .finish_non_exhaustive()
    }
}

/// How the end of an instance is told.
fn stopped(error: wasmtime::Error) -> SinkError {
    tracing::debug!(target: "sink", error = format!("{error:?}"), "the instance was dropped");
    match error.downcast_ref::<Stop>() {
        Some(stop @ Stop::Memory { .. }) => {
            SinkError::Limit(host_failure("memory", &stop.to_string()))
        }
        Some(stop @ Stop::NoProgress { .. }) => {
            SinkError::Trapped(host_failure("no-progress", &stop.to_string()))
        }
        Some(stop @ Stop::Contract(_)) => {
            SinkError::Trapped(host_failure("contract", &stop.to_string()))
        }
        None => SinkError::Trapped(host_failure("trap", &error.root_cause().to_string())),
    }
}
