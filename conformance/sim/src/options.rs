//! The worker's configuration for a profile: the one place that follows the driver's interface.

use std::sync::Arc;

use mz_sink_core::session::{Notice, SessionConfig};
use mz_sink_driver::{DeadLetters, Options, Progress};
use tokio::sync::watch;

use crate::profile::Profile;
use crate::source::ModelSource;
use crate::world::{Layout, view_name};

/// One connection for each view.
pub(crate) fn sources(_views: usize, mut source: impl FnMut() -> ModelSource) -> ModelSource {
    source()
}

/// What the session needs to know.
pub(crate) fn session(profile: &Profile, sink_id: &str) -> SessionConfig {
    let strings = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
    SessionConfig {
        sink_id: sink_id.into(),
        component_digest: "sha256:model".into(),
        object: format!("db.s.{}", view_name(0)),
        view_name: None,
        key: strings(Layout(0).key()),
        envelope: profile.envelope,
        netted: profile.netted,
        cluster: None,
        allow_short_retention: true,
        commit_interval: profile.commit_interval,
        idle_commit_interval: profile.idle_commit_interval,
        max_commit_bytes: profile.max_commit_bytes,
        memory_bytes: profile.memory_bytes,
        spill_bytes: 1 << 30,
        retry: profile.retry.clone(),
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
