//! A sink with its configuration and its component: what commands that open both ends need.

use std::path::Path;

use mz_sink_core::catalog::IdentityPolicy;
use mz_sink_core::retry::RetryPolicy;
use mz_sink_core::session::{OnFailure, OnHistoryLoss, OnKeyViolation, SessionConfig, ViewConfig};
use mz_sink_core::types::Envelope;
use mz_sink_plugin::{Inspection, PluginOptions, PluginSink, SinkComponent};
use mz_sink_source::ConnectOptions;

use crate::commands::load;
use crate::config::{Config, HistoryLoss, KeyViolation, NewColumns, WriteFailure};
use crate::exit::Failure;
use crate::materialize::Materialize;
use crate::sandbox::Sandboxed;

/// A sink with its configuration and its component.
pub struct Deployment {
    /// The configuration; what the component asks of `[sink]` holds.
    pub config: Config,
    /// What the component says of itself.
    pub inspection: Inspection,
    component: SinkComponent,
    connect: ConnectOptions,
}

impl Deployment {
    /// Loads the component. Contacts nobody.
    ///
    /// # Errors
    /// When the component, the configuration or the password cannot be used.
    pub async fn load(component: &Path, config: Config) -> Result<Self, Failure> {
        let component = load::component(component, &config)?;
        let inspection = component
            .inspect()
            .await
            .map_err(|e| Failure::usage("component", e))?;
        config
            .check_sink(&inspection.config_schema)
            .map_err(|e| Failure::usage("config", e))?;
        let connect = connect_options(&config)?;
        Ok(Self {
            config,
            inspection,
            component,
            connect,
        })
    }

    /// The component in the sandbox, with what is granted to it. Reads the secrets.
    ///
    /// # Errors
    /// When a grant or a secret cannot be used.
    pub fn sink(&self) -> Result<Sandboxed, Failure> {
        let config = &self.config;
        Ok(Sandboxed(PluginSink::new(
            self.component.clone(),
            PluginOptions {
                limits: load::limits(config),
                http: load::http(config)?,
                sink_id: config.sink_id.clone(),
                config_json: config.sink.to_string(),
            },
        )))
    }

    /// Where Materialize is; not connected yet.
    pub fn source(&self) -> Materialize {
        let password_file = self.config.materialize.password_file.clone();
        Materialize::new(self.connect.clone(), password_file)
    }

    /// What the protocol core needs to know.
    pub fn session(&self) -> SessionConfig {
        let has_maintenance = self.component.has_maintenance();
        session_config(&self.config, &self.inspection, has_maintenance)
    }
}

/// Where Materialize is, from a configuration.
///
/// # Errors
/// When the URL or the password cannot be used.
pub fn connect_options(config: &Config) -> Result<ConnectOptions, Failure> {
    let password = config
        .materialize_password()
        .map_err(|e| Failure::usage("config", e))?;
    ConnectOptions::parse(&config.materialize.url, password)
        .map_err(|e| Failure::usage("config", config.refused_url(e)))
}

fn session_config(
    config: &Config,
    inspection: &Inspection,
    has_maintenance: bool,
) -> SessionConfig {
    let views = config.source.views().into_iter().map(|view| ViewConfig {
        object: view.object,
        name: view.name,
        key: view.key,
    });
    SessionConfig {
        sink_id: config.sink_id.clone(),
        component_digest: inspection.digest.clone(),
        views: views.collect(),
        envelope: config.source.envelope.unwrap_or(inspection.envelope),
        netted: inspection.netted && inspection.envelope == Envelope::Upsert,
        cluster: config.materialize.cluster.clone(),
        up_to: config.source.up_to,
        allow_short_retention: config.source.allow_short_retention,
        identity: IdentityPolicy {
            refollow: config.source.refollow,
            ignore_new_columns: config.source.on_new_columns == NewColumns::Ignore,
        },
        on_history_loss: match config.source.on_history_loss {
            HistoryLoss::Stall => OnHistoryLoss::Stall,
            HistoryLoss::Resnapshot => OnHistoryLoss::Resnapshot,
            HistoryLoss::SkipToNow => OnHistoryLoss::SkipToNow,
        },
        on_key_violation: match config.source.on_key_violation {
            KeyViolation::Reject => OnKeyViolation::Reject,
            KeyViolation::Stall => OnKeyViolation::Stall,
        },
        on_failure: match config.retry.on_failure {
            WriteFailure::Stall => OnFailure::Stall,
            WriteFailure::Skip => OnFailure::Skip,
        },
        commit_interval: config.commit.interval,
        idle_commit_interval: config.commit.idle_interval,
        max_commit_bytes: config.commit.max_bytes as usize,
        memory_bytes: config.buffer.memory as usize,
        spill_bytes: config.buffer.spill,
        maintenance_interval: has_maintenance.then_some(config.commit.maintenance_interval),
        retry: RetryPolicy {
            attempts: config.retry.attempts,
            min_backoff: config.retry.min_backoff,
            max_backoff: config.retry.max_backoff,
        },
    }
}
