//! What several commands need: the configuration, and the component with its grants.

use std::path::{Path, PathBuf};

use mz_sink_plugin::http::{HttpClient, HttpOptions, HttpPolicy, Secret};
use mz_sink_plugin::{Engine, EngineOptions, Limits, LoadError, SinkComponent};

use crate::config::Config;
use crate::exit::Failure;

/// Reads the configuration: the one given, or `mz-wasm-sink.toml` beside the component.
pub fn config(component: &Path, given: Option<&Path>) -> Result<Config, Failure> {
    let path = match given {
        Some(path) => path.to_path_buf(),
        None => component.with_file_name("mz-wasm-sink.toml"),
    };
    Config::load(&path, |name| std::env::var(name).ok()).map_err(|e| Failure::usage("config", e))
}

/// Loads the component, from the cache of compiled ones where possible.
pub fn component(path: &Path, config: &Config) -> Result<SinkComponent, Failure> {
    let component = component_only(path, Some(config))?;
    match &config.component.digest {
        Some(pinned) if pinned != component.digest() => {
            let message = format!(
                "pins {pinned}, but {} is {}; change the pin if you trust it",
                path.display(),
                component.digest()
            );
            Err(Failure::usage(
                "component",
                config.wrong("component.digest", message),
            ))
        }
        _ => Ok(component),
    }
}

/// Loads a component, whichever it is; the configuration, if there is one, says where compiled
/// ones are kept.
pub fn component_only(path: &Path, config: Option<&Config>) -> Result<SinkComponent, Failure> {
    let given = config.and_then(|config| Some((config, config.component.cache_dir.clone()?)));
    let engine = Engine::new(EngineOptions {
        cache_dir: given
            .as_ref()
            .map_or_else(default_cache_dir, |(_, folder)| Some(folder.clone())),
    });
    let engine = engine.map_err(|error| match (&error, given) {
        (LoadError::CacheDirectory { .. }, Some((config, _))) => {
            Failure::usage("component", config.wrong("component.cache_dir", error))
        }
        _ => Failure::usage("component", error),
    })?;
    SinkComponent::load(&engine, path).map_err(|e| Failure::usage("component", e))
}

fn default_cache_dir() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")))?;
    Some(base.join("mz-wasm-sink").join("components"))
}

/// The limits of the sandbox.
pub fn limits(config: &Config) -> Limits {
    Limits {
        memory: config.limits.memory as usize,
        idle_timeout: config.limits.idle_timeout,
        log_lines_per_second: config.limits.log_lines_per_second,
        ..Limits::default()
    }
}

/// The HTTP capability with what is granted.
pub fn http(config: &Config) -> Result<HttpClient, Failure> {
    let grants = &config.grants;
    let policy = HttpPolicy::parse(&grants.http, &grants.http_private)
        .map_err(|e| Failure::usage("config", config.refused(e)))?;
    let secrets = config
        .secrets()
        .map_err(|e| Failure::usage("config", e))?
        .into_iter()
        .map(|secret| Secret::new(secret.name, secret.value, secret.hosts))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| Failure::usage("config", config.refused(e)))?;
    HttpClient::new(HttpOptions {
        policy,
        secrets,
        timeout: config.limits.http_timeout,
        request_bytes: config.limits.http_request as usize,
        response_bytes: config.limits.http_response as usize,
        in_flight: config.limits.http_in_flight,
    })
    .map_err(|e| Failure::failed("http", e))
}
