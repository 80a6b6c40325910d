//! Why a configuration cannot be used.

use std::path::PathBuf;

/// Why a configuration cannot be used. Names the file and the field, never a value.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error(
        "cannot read the configuration {}: {source}; name it with --config, or start from the output of `mz-wasm-sink example-config`",
        file.display()
    )]
    Read {
        /// The configuration.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It is not TOML.
    #[error("{}:{line}: not valid TOML: {message}", file.display())]
    Syntax {
        /// The configuration.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A field is missing, unknown, or has a value it cannot have.
    #[error(
        "{}{}: {field}: {message} (`mz-wasm-sink example-config` explains every setting)",
        file.display(),
        line.map(|line| format!(":{line}")).unwrap_or_default()
    )]
    Field {
        /// The configuration.
        file: PathBuf,
        /// The line, from 1, if the field stands in one.
        line: Option<usize>,
        /// The path of the field, such as `source.key`.
        field: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// A library has refused a setting, with a text that names the field.
    #[error("{}: {message}", file.display())]
    Refused {
        /// The configuration.
        file: PathBuf,
        /// The field, what is wrong and what to do.
        message: String,
    },
    /// The sink's own settings are not what it wants.
    #[error(
        "{}: {} (`mz-wasm-sink inspect` shows the settings of a sink)",
        file.display(),
        wrong.join("; ")
    )]
    Sink {
        /// The configuration.
        file: PathBuf,
        /// One text for each setting.
        wrong: Vec<String>,
    },
    /// The schema that the sink came with cannot be used.
    #[error(
        "the sink's configuration schema is not usable: {0}; the component is broken, ask its author"
    )]
    Schema(
        /// Why.
        String,
    ),
}
