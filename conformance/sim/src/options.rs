//! The worker's configuration for a profile: the one place that follows the driver's interface.

use std::sync::Arc;

use mz_sink_core::session::{Notice, SessionConfig, ViewConfig};
use mz_sink_driver::{DeadLetters, Options, Progress};
use tokio::sync::watch;

use crate::profile::Profile;
use crate::world::{Layout, view_name};

/// What the session needs to know.
pub(crate) fn session(profile: &Profile, sink_id: &str) -> SessionConfig {
    let views = (0..profile.views).map(|view| ViewConfig {
        object: format!("db.s.{}", view_name(view)),
        name: None,
        key: Layout(view)
            .key()
            .iter()
            .map(|name| name.to_string())
            .collect(),
    });
    SessionConfig {
        netted: profile.netted,
        allow_short_retention: true,
        identity: profile.identity,
        on_history_loss: profile.on_history_loss,
        on_key_violation: profile.on_key_violation,
        on_failure: profile.on_failure,
        commit_interval: profile.commit_interval,
        idle_commit_interval: profile.idle_commit_interval,
        max_commit_bytes: profile.max_commit_bytes,
        memory_bytes: profile.memory_bytes,
        spill_bytes: 1 << 30,
        retry: profile.retry.clone(),
        ..SessionConfig::new(
            sink_id.into(),
            "sha256:model".into(),
            views.collect(),
            profile.envelope,
        )
    }
}

pub(crate) fn options(
    session: SessionConfig,
    seed: u64,
    dead_letters: Arc<dyn DeadLetters>,
    tell: Box<dyn FnMut(&Notice) + Send>,
    shutdown: watch::Receiver<bool>,
) -> Options {
    Options {
        session,
        seed,
        spill_folder: std::env::temp_dir(),
        dead_letters,
        progress: Arc::new(Progress::default()),
        tell,
        shutdown,
    }
}
