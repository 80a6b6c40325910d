//! The sink's configuration, as an operator writes it.

use std::collections::BTreeMap;

use mz_sink_guest::Error;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::incarnation;
use crate::schema::AttributeType;

/// Configuration of the turbopuffer sink.
///
/// `filterable`, `types` and `rename` name columns: `"column"` in every view that has it, or
/// `"view.column"`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Region, such as `aws-us-east-1`. Gives the base URL unless that is set.
    pub region: Option<String>,
    /// Where the API is, such as `https://aws-us-east-1.turbopuffer.com`.
    pub base_url: Option<String>,
    /// The name that namespaces are derived from: letters, digits, `-`, `_`, `.`.
    pub namespace: String,
    /// The namespace with the checkpoint; `<namespace>-control` when absent.
    pub control_namespace: Option<String>,
    /// Name of the secret that holds the API key.
    #[serde(default = "default_api_key_secret")]
    pub api_key_secret: String,
    /// Most bytes in one request. A row that is larger alone is refused.
    #[serde(default = "default_max_request_bytes")]
    #[schemars(range(min = 65536, max = 268435456))]
    pub max_request_bytes: u32,
    /// Most rows in one request.
    #[serde(default = "default_max_request_rows")]
    #[schemars(range(min = 1))]
    pub max_request_rows: u32,
    /// Most requests in flight.
    #[serde(default = "default_requests_in_flight")]
    #[schemars(range(min = 1, max = 64))]
    pub requests_in_flight: u32,
    /// Time limit of one request, in milliseconds.
    #[serde(default = "default_timeout_ms")]
    #[schemars(range(min = 1))]
    pub timeout_ms: u32,
    /// What a signed integer key becomes.
    #[serde(default)]
    pub id_type: IdType,
    /// Text and JSON columns that can be filtered on. A row whose value is longer than 4 KiB is
    /// then refused.
    #[serde(default)]
    pub filterable: Vec<String>,
    /// Attribute types other than the usual ones, such as `float` for a numeric column.
    #[serde(default)]
    pub types: BTreeMap<String, AttributeType>,
    /// Attribute names other than the column's.
    #[serde(default)]
    pub rename: BTreeMap<String, String>,
}

/// What a signed integer key becomes. Ids are unsigned in turbopuffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IdType {
    /// Its decimal text: exact for every value.
    #[default]
    String,
    /// An unsigned integer; a row with a negative key is refused.
    Uint,
}

fn default_api_key_secret() -> String {
    "turbopuffer_api_key".into()
}

fn default_max_request_bytes() -> u32 {
    16 << 20
}

fn default_max_request_rows() -> u32 {
    50_000
}

fn default_requests_in_flight() -> u32 {
    4
}

fn default_timeout_ms() -> u32 {
    60_000
}

impl Config {
    /// What the JSON Schema cannot say.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (field, value, least, most) in [
            (
                "max_request_bytes",
                self.max_request_bytes,
                64 << 10,
                256 << 20,
            ),
            ("max_request_rows", self.max_request_rows, 1, u32::MAX),
            ("requests_in_flight", self.requests_in_flight, 1, 64),
            ("timeout_ms", self.timeout_ms, 1, u32::MAX),
        ] {
            if !(least..=most).contains(&value) {
                return Err(invalid(format!(
                    "`{field}` is {value}: it must be from {least} to {most}"
                )));
            }
        }
        incarnation::check_base("namespace", &self.namespace)?;
        incarnation::check_base("control_namespace", &self.control_namespace())?;
        if self.control_namespace() == self.namespace {
            return Err(invalid(
                "`control_namespace` is the same as `namespace`: give it another name",
            ));
        }
        let word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        if self.api_key_secret.is_empty() || !self.api_key_secret.chars().all(word) {
            return Err(invalid(
                "`api_key_secret` must be a secret's name, not the key itself: \
                 letters, digits, `_`, `-`, `.`",
            ));
        }
        self.base_url().map(drop)
    }

    /// Without a slash at the end.
    pub(crate) fn base_url(&self) -> Result<String, Error> {
        let url = match (&self.base_url, &self.region) {
            (Some(url), None) => url.trim_end_matches('/').to_owned(),
            (None, Some(region)) => {
                let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                if region.is_empty() || !region.chars().all(word) {
                    return Err(invalid(
                        "`region` must be a region's name, such as `aws-us-east-1`",
                    ));
                }
                format!("https://{region}.turbopuffer.com")
            }
            (Some(_), Some(_)) => {
                return Err(invalid(
                    "`region` and `base_url` are both set: remove one of them",
                ));
            }
            (None, None) => {
                return Err(invalid(
                    "neither `region` nor `base_url` is set: add `region = \"aws-us-east-1\"` \
                     or another region",
                ));
            }
        };
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err(invalid("`base_url` must start with https:// or http://"));
        }
        Ok(url)
    }

    pub(crate) fn control_namespace(&self) -> String {
        self.control_namespace
            .clone()
            .unwrap_or_else(|| format!("{}-control", self.namespace))
    }
}

/// A configuration error; the message names the field and the fix.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::permanent("invalid-config", message)
}
