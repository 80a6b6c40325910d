//! The sink's configuration, as an operator writes it.

use std::collections::BTreeMap;
use std::time::Duration;

use mz_sink_guest::Error;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::incarnation;
use crate::types::AttributeType;

/// Configuration of the turbopuffer sink.
///
/// `filterable`, `types`, `rename`, `full_text_search`, `vectors` and the sources of transforms name
/// columns: `"column"` in every view that has it, or `"view.column"`.
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
    /// How long a namespace that a newer snapshot has replaced is kept for readers that still look
    /// at it, such as `30min`.
    #[serde(default = "default_retired_grace")]
    pub retired_grace: String,
    /// After how long a deleted row's document is removed for good, such as `48h`; kept for ever
    /// when absent. It must exceed the longest pause of a worker: a write that is older than this
    /// could bring a deleted row back.
    pub tombstone_grace: Option<String>,
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
    /// Text columns with a full-text index: `true`, or the index's options.
    #[serde(default)]
    pub full_text_search: BTreeMap<String, FullText>,
    /// Columns that hold vectors: arrays or lists of numbers.
    #[serde(default)]
    pub vectors: BTreeMap<String, Vector>,
    /// How far apart two vectors are.
    #[serde(default)]
    pub distance_metric: DistanceMetric,
    /// Vectors that are made from columns by an embeddings service.
    #[serde(default)]
    pub transforms: Vec<Transform>,
}

/// A full-text index.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FullText {
    /// With turbopuffer's defaults, or none.
    Switch(bool),
    /// With options.
    Options(FullTextOptions),
}

/// Options of a full-text index; turbopuffer's defaults where absent.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FullTextOptions {
    /// Such as `english`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Whether forms of a word are one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stemming: Option<bool>,
    /// Whether frequent words are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_stopwords: Option<bool>,
    /// Whether capital letters matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub case_sensitive: Option<bool>,
    /// Whether accents are dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ascii_folding: Option<bool>,
    /// How text becomes words, such as `word_v2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<String>,
    /// BM25's k1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k1: Option<f64>,
    /// BM25's b.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<f64>,
}

/// A vector's size and precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// How many numbers it has. A row with another number is refused.
    #[schemars(range(min = 1, max = 10752))]
    pub dimensions: u32,
    /// How precisely they are stored.
    #[serde(default)]
    pub element: Element,
}

/// How precisely the numbers of a vector are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Element {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits.
    F16,
}

/// How far apart two vectors are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DistanceMetric {
    /// One minus the cosine of the angle.
    #[default]
    CosineDistance,
    /// The square of the straight distance.
    EuclideanSquared,
}

/// A vector that is made from columns by a service with OpenAI's embeddings API.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transform {
    /// The attribute that it becomes.
    pub attribute: String,
    /// The columns whose text is embedded, each that is not null on a line of its own.
    pub sources: Vec<String>,
    /// The service, such as `https://api.openai.com/v1/embeddings`. It must be granted.
    pub endpoint: String,
    /// The model, such as `text-embedding-3-small`.
    pub model: String,
    /// How many numbers the model gives.
    #[schemars(range(min = 1, max = 10752))]
    pub dimensions: u32,
    /// How precisely they are stored.
    #[serde(default)]
    pub element: Element,
    /// Name of the secret with the service's key; none when it needs none.
    pub api_key_secret: Option<String>,
    /// Most texts in one request to the service.
    #[serde(default = "default_batch_texts")]
    #[schemars(range(min = 1, max = 2048))]
    pub batch_texts: u32,
}

fn default_batch_texts() -> u32 {
    128
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

fn default_retired_grace() -> String {
    "1h".into()
}

/// The shortest grace for tombstones: what a write may take with the usual retries.
const LEAST_TOMBSTONE_GRACE: Duration = Duration::from_secs(15 * 60);

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
        self.retired_grace()?;
        self.tombstone_grace()?;
        check_secret("api_key_secret", &self.api_key_secret)?;
        for transform in &self.transforms {
            transform.check()?;
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

    pub(crate) fn retired_grace(&self) -> Result<Duration, Error> {
        duration("retired_grace", &self.retired_grace)
    }

    pub(crate) fn tombstone_grace(&self) -> Result<Option<Duration>, Error> {
        let Some(text) = &self.tombstone_grace else {
            return Ok(None);
        };
        let grace = duration("tombstone_grace", text)?;
        if grace < LEAST_TOMBSTONE_GRACE {
            return Err(invalid(format!(
                "`tombstone_grace` must be at least {}: a worker may still be writing for that \
                 long after another has taken over",
                humantime::format_duration(LEAST_TOMBSTONE_GRACE)
            )));
        }
        Ok(Some(grace))
    }

    pub(crate) fn control_namespace(&self) -> String {
        self.control_namespace
            .clone()
            .unwrap_or_else(|| format!("{}-control", self.namespace))
    }
}

impl Transform {
    fn check(&self) -> Result<(), Error> {
        if let Some(secret) = &self.api_key_secret {
            check_secret("transforms.api_key_secret", secret)?;
        }
        let endpoint = &self.endpoint;
        if !endpoint.starts_with("https://") && !endpoint.starts_with("http://") {
            return Err(invalid(
                "`transforms.endpoint` must start with https:// or http://",
            ));
        }
        if self.sources.is_empty() {
            return Err(invalid("`transforms.sources` must name a column"));
        }
        if !(1..=2048).contains(&self.batch_texts) {
            return Err(invalid("`transforms.batch_texts` must be from 1 to 2048"));
        }
        Ok(())
    }
}

fn check_secret(field: &str, name: &str) -> Result<(), Error> {
    let word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || !name.chars().all(word) {
        return Err(invalid(format!(
            "`{field}` must be a secret's name, not the key itself: letters, digits, `_`, `-`, `.`"
        )));
    }
    Ok(())
}

fn duration(field: &str, text: &str) -> Result<Duration, Error> {
    humantime::parse_duration(text).map_err(|_| {
        invalid(format!(
            "`{field}` must be a time such as `30min`, `48h` or `7days`"
        ))
    })
}

/// A configuration error; the message names the field and the fix.
pub(crate) fn invalid(message: impl Into<String>) -> Error {
    Error::permanent("invalid-config", message)
}
