//! Session variables.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::SqlError;
use crate::parser::duration;

/// `(name, default, reported to the client at the start)`.
const VARIABLES: &[(&str, &str, bool)] = &[
    ("application_name", "", true),
    ("client_encoding", "UTF8", true),
    ("DateStyle", "ISO, MDY", true),
    ("integer_datetimes", "on", true),
    ("server_version", "9.5.0", true),
    ("standard_conforming_strings", "on", true),
    ("TimeZone", "UTC", true),
    ("IntervalStyle", "postgres", true),
    ("cluster", "quickstart", true),
    ("cluster_replica", "", true),
    ("default_cluster_replication_factor", "1", true),
    ("database", "materialize", true),
    ("search_path", "public", true),
    ("mz_version", "", true),
    ("idle_in_transaction_session_timeout", "2 min", false),
    ("statement_timeout", "1 min", false),
    ("transaction_isolation", "strict serializable", false),
    ("max_result_size", "1GB", false),
    ("max_query_result_size", "1GB", false),
    ("client_min_messages", "notice", false),
    ("extra_float_digits", "3", false),
    ("auto_route_catalog_queries", "on", false),
    ("current_object_missing_warnings", "on", false),
    ("welcome_message", "on", false),
    ("enable_index_options", "on", false),
];

/// The system user, and the cluster it starts in.
const SYSTEM: &str = "mz_system";

/// What ALTER SYSTEM can set besides [`VARIABLES`].
const SYSTEM_VARIABLES: &[&str] = &[
    "enable_rbac_checks",
    "enable_replacement_materialized_views",
    "enable_logical_compaction_window",
];

/// Whether ALTER SYSTEM can set it.
pub(crate) fn is_known_to_the_system(name: &str) -> bool {
    let variables = VARIABLES.iter().map(|(name, _, _)| name);
    variables
        .chain(SYSTEM_VARIABLES)
        .any(|known| known.eq_ignore_ascii_case(name))
}

/// The variables of one session.
pub(crate) struct Variables {
    values: BTreeMap<&'static str, String>,
    defaults: BTreeMap<&'static str, String>,
}

impl Variables {
    /// The defaults, with what the client asked for in its startup message.
    pub(crate) fn new(version: &str, parameters: &BTreeMap<String, String>) -> Self {
        let mut values: BTreeMap<_, _> = VARIABLES
            .iter()
            .map(|(name, value, _)| (*name, (*value).to_owned()))
            .collect();
        values.insert("mz_version", version.to_owned());
        if parameters.get("user").is_some_and(|user| user == SYSTEM) {
            values.insert("cluster", SYSTEM.to_owned());
        }
        let mut variables = Self {
            defaults: values.clone(),
            values,
        };
        for (name, value) in parameters {
            if name == "options" {
                for (name, value) in startup_options(value) {
                    // A startup option that the server does not know is only a notice there.
                    let _ = variables.set(name, value);
                }
            } else {
                let _ = variables.set(name, value);
            }
        }
        variables.defaults = variables.values.clone();
        variables
    }

    fn known(name: &str) -> Result<&'static str, SqlError> {
        let mut names = VARIABLES.iter().map(|(known, _, _)| *known);
        names
            .find(|known| known.eq_ignore_ascii_case(name))
            .ok_or_else(|| {
                SqlError::new(
                    "42704",
                    format!("unrecognized configuration parameter \"{name}\""),
                )
            })
    }

    /// # Errors
    /// 42704 for an unknown name, 22023 for a value that is no time span where one is needed.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), SqlError> {
        let name = Self::known(name)?;
        let value = if name.ends_with("_timeout") {
            span(name, value)?
        } else {
            value.to_owned()
        };
        self.values.insert(name, value);
        Ok(())
    }

    /// # Errors
    /// 42704 for an unknown name.
    pub(crate) fn reset(&mut self, name: &str) -> Result<(), SqlError> {
        let name = Self::known(name)?;
        self.values
            .insert(name, self.defaults.get(name).cloned().unwrap_or_default());
        Ok(())
    }

    /// # Errors
    /// 42704 for an unknown name.
    pub(crate) fn show(&self, name: &str) -> Result<&str, SqlError> {
        Ok(self.get(Self::known(name)?))
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// The schema that unqualified names are looked up in.
    pub(crate) fn schema(&self) -> &str {
        self.get("search_path")
            .split(',')
            .next()
            .unwrap_or_default()
            .trim()
    }

    /// How long a transaction may idle, if not forever.
    pub(crate) fn idle_in_transaction(&self) -> Option<Duration> {
        let text = self.get("idle_in_transaction_session_timeout");
        duration(text, Duration::from_millis(1)).filter(|limit| !limit.is_zero())
    }

    /// What is reported to the client at the start.
    pub(crate) fn reported(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let reported = VARIABLES.iter().filter(|(_, _, reported)| *reported);
        reported.map(|(name, _, _)| (*name, self.get(name)))
    }
}

/// A time span as the server shows it: in the largest unit that divides it.
fn span(name: &str, value: &str) -> Result<String, SqlError> {
    let parsed = duration(value, Duration::from_millis(1)).ok_or_else(|| {
        SqlError::new(
            "22023",
            format!("parameter \"{name}\" requires a \"duration\" value"),
        )
    })?;
    let ms = parsed.as_millis();
    let units = [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1000, "s"),
        (1, "ms"),
    ];
    let (size, unit) = units
        .into_iter()
        .find(|(size, _)| ms > 0 && ms % size == 0)
        .unwrap_or((1, "ms"));
    Ok(if ms == 0 {
        "0".to_owned()
    } else {
        format!("{} {unit}", ms / size)
    })
}

/// `-c name=value` and `--name=value` of a startup message.
fn startup_options(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split_whitespace().filter_map(|word| {
        let word = word.trim_start_matches("--").trim_start_matches("-c");
        word.split_once('=')
    })
}
