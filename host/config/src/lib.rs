//! The configuration: one TOML file, with secrets from elsewhere.
//!
//! ```text
//!  file ─> sections and defaults (file, values) ─> check ─> Config ─> secrets
//!                                         [sink] ─> schema of the component
//! ```

mod check;
mod error;
mod file;
mod schema;
mod secrets;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub use error::ConfigError;
pub use file::{
    Buffer, Commit, Component, DeadLetter, Grants, HistoryLoss, KeyViolation, Limits, Materialize,
    NewColumns, Retry, Source, WriteFailure,
};
pub use secrets::from_file as password_from_file;
pub use secrets::{SecretSource, SecretValue};

/// A configuration with every setting, its default and its meaning.
pub const EXAMPLE: &str = include_str!("example.toml");

/// The newest format that this program knows.
const VERSION: i64 = 1;

/// What `run` is told by its file. Paths are relative to the file's directory.
#[derive(Clone, Debug)]
pub struct Config {
    /// Identifies this sink in its target; another one starts again with a snapshot.
    pub sink_id: String,
    /// How Materialize is reached.
    pub materialize: Materialize,
    /// What is read.
    pub source: Source,
    /// When the sink commits.
    pub commit: Commit,
    /// Where changes wait.
    pub buffer: Buffer,
    /// What happens after an error that may go away.
    pub retry: Retry,
    /// Where rejected rows go.
    pub dead_letter: DeadLetter,
    /// What the sink may reach.
    pub grants: Grants,
    /// Where secrets come from, by name.
    pub secret_sources: BTreeMap<String, SecretSource>,
    /// The limits of the sandbox.
    pub limits: Limits,
    /// The component itself.
    pub component: Component,
    /// The sink's own settings, a JSON object.
    pub sink: Value,
    file: PathBuf,
    /// Whether the URL of Materialize is not from the file.
    url_from_environment: bool,
    variables: Variables,
}

/// The environment variables that the file names.
#[derive(Clone)]
struct Variables(BTreeMap<String, String>);

/// Shows names only: they hold secrets.
impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Config {
    /// Reads a file; `env` gives the content of environment variables.
    ///
    /// # Errors
    /// What is wrong with it, where, and what to do.
    pub fn load(path: &Path, env: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
            file: path.to_owned(),
            source,
        })?;
        Self::parse(&text, path, env)
    }

    /// Reads the text of the file `path`.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(
        text: &str,
        path: &Path,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let syntax = |error: toml::de::Error| ConfigError::Syntax {
            file: path.to_owned(),
            line: line(text, error.span()).unwrap_or(1),
            message: without_values(error.message()),
        };
        let wrong = |line, field: &str, message: String| ConfigError::Field {
            file: path.to_owned(),
            line,
            field: field.to_owned(),
            message,
        };
        // First, because a newer file may well have fields that are not known here.
        let table: toml::Table = text.parse().map_err(syntax)?;
        check_version(&table).map_err(|message| wrong(None, "version", message))?;

        let deserializer = toml::Deserializer::parse(text).map_err(syntax)?;
        let mut file: file::File =
            serde_path_to_error::deserialize(deserializer).map_err(|error| {
                let (field, message) = explain(&error);
                wrong(line(text, error.inner().span()), &field, message)
            })?;
        let url_from_environment = file.materialize.url.is_empty();
        complete(&mut file, path, &env);
        check::check(&file).map_err(|(field, message)| wrong(None, &field, message))?;
        let sink = values::object("sink", &file.sink).map_err(|field| {
            let message = "nan and inf cannot be given to a sink; write a number or a text";
            wrong(None, &field, message.into())
        })?;
        let named = file
            .secrets
            .values()
            .filter_map(|secret| secret.env.as_ref());
        let variables = named
            .chain(&file.materialize.password_env)
            .filter_map(|name| Some((name.clone(), env(name)?)))
            .collect();
        Ok(Self {
            sink_id: file.sink_id,
            materialize: file.materialize,
            source: file.source,
            commit: file.commit,
            buffer: file.buffer,
            retry: file.retry,
            dead_letter: file.dead_letter,
            grants: file.grants,
            secret_sources: file.secrets,
            limits: file.limits,
            component: file.component,
            sink: Value::Object(sink),
            file: path.to_owned(),
            url_from_environment,
            variables: Variables(variables),
        })
    }

    /// The password for Materialize, if one is given apart from the URL.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn materialize_password(&self) -> Result<Option<String>, ConfigError> {
        let Materialize {
            password_env,
            password_file,
            ..
        } = &self.materialize;
        let password = match (password_env, password_file) {
            (Some(name), _) => secrets::from_env(name, self.variables.0.get(name))
                .map_err(|message| self.wrong("materialize.password_env", message))?,
            (_, Some(path)) => secrets::from_file(path)
                .map_err(|message| self.wrong("materialize.password_file", message))?,
            (None, None) => return Ok(None),
        };
        Ok(Some(password))
    }

    /// Reads the secrets; runs their commands, each for 30 s at most.
    ///
    /// # Errors
    /// For the first one that cannot be read.
    pub fn secrets(&self) -> Result<Vec<SecretValue>, ConfigError> {
        let sources = self.secret_sources.iter();
        sources
            .map(|(name, source)| {
                let variable = source
                    .env
                    .as_ref()
                    .and_then(|env| self.variables.0.get(env));
                let value = source.read(variable).map_err(|(field, message)| {
                    self.wrong(&format!("secrets.{name}.{field}"), message)
                })?;
                Ok(SecretValue {
                    name: name.clone(),
                    value,
                    hosts: source.hosts.clone(),
                })
            })
            .collect()
    }

    /// Checks the sink's own settings against the schema that it came with.
    ///
    /// # Errors
    /// For settings that are not what the sink wants, and a schema that is not usable.
    pub fn check_sink(&self, schema_json: &str) -> Result<(), ConfigError> {
        schema::validate(schema_json, &self.sink, &self.file)
    }

    /// An error about one field of this file.
    pub fn wrong(&self, field: &str, message: impl ToString) -> ConfigError {
        ConfigError::Field {
            file: self.file.clone(),
            line: None,
            field: field.to_owned(),
            message: message.to_string(),
        }
    }

    /// An error about this file whose text names the field.
    pub fn refused(&self, message: impl ToString) -> ConfigError {
        ConfigError::Refused {
            file: self.file.clone(),
            message: message.to_string(),
        }
    }

    /// An error about the URL of Materialize, which may come from elsewhere.
    pub fn refused_url(&self, message: impl ToString) -> ConfigError {
        let message = message.to_string();
        self.refused(if self.url_from_environment {
            format!(
                "materialize.url is taken from MATERIALIZE_URL, which cannot be used: {message}"
            )
        } else {
            message
        })
    }
}

fn check_version(table: &toml::Table) -> Result<(), String> {
    match table.get("version").map(toml::Value::as_integer) {
        None | Some(Some(VERSION)) => Ok(()),
        Some(Some(newer)) if newer > VERSION => Err(format!(
            "the file is of version {newer} and this mz-wasm-sink knows {VERSION}; use a newer \
             mz-wasm-sink"
        )),
        Some(_) => Err(format!("must be {VERSION}")),
    }
}

/// Fills in what depends on something else.
fn complete(file: &mut file::File, path: &Path, env: impl Fn(&str) -> Option<String>) {
    if file.materialize.url.is_empty() {
        file.materialize.url = env("MATERIALIZE_URL").unwrap_or_default();
    }
    let directory = path.parent().unwrap_or(Path::new(""));
    let paths = [
        &mut file.materialize.password_file,
        &mut file.buffer.dir,
        &mut file.dead_letter.path,
        &mut file.component.cache_dir,
    ];
    let secrets = file.secrets.values_mut().map(|secret| &mut secret.file);
    for path in paths.into_iter().chain(secrets).flatten() {
        *path = directory.join(&*path);
    }
}

/// The field and the text of a serde error.
fn explain(error: &serde_path_to_error::Error<toml::de::Error>) -> (String, String) {
    let path = error.path().to_string();
    let message = error.inner().message();
    let missing = message
        .strip_prefix("missing field `")
        .and_then(|rest| rest.strip_suffix('`'));
    match missing {
        Some(name) if path == "." => (name.into(), "is missing; add it".into()),
        Some(name) => (format!("{path}.{name}"), "is missing; add it".into()),
        None => (path, without_values(message)),
    }
}

/// Takes the value out of a message such as `invalid type: string "...", expected a map`: it may
/// be a URL with a password.
fn without_values(message: &str) -> String {
    match (message.split_once(" \""), message.rsplit_once("\", ")) {
        (Some((before, _)), Some((_, after))) if message.starts_with("invalid ") => {
            format!("{before}, {after}")
        }
        _ => message.into(),
    }
}

fn line(text: &str, span: Option<std::ops::Range<usize>>) -> Option<usize> {
    let before = text.get(..span?.start)?;
    Some(before.matches('\n').count() + 1)
}
