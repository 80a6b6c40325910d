//! The `[sink]` settings.

use mz_sink_guest::Error;
use schemars::JsonSchema;
use serde::Deserialize;

/// Settings of the turbopuffer sink.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Base name of the namespaces: letters, digits, `-`, `_` and `.`, at most 80.
    pub namespace: String,
    /// The namespace that holds the checkpoint. Default: the base name with `-control`.
    pub control_namespace: Option<String>,
    /// Region of the service, such as `gcp-us-central1`. Either this or `base_url`.
    pub region: Option<String>,
    /// Where the service is, when not in a region.
    pub base_url: Option<String>,
    /// Name of the secret with the API key.
    #[serde(default = "default_api_key_secret")]
    pub api_key_secret: String,
    /// Text columns to filter on. Their values may have at most 4 KiB.
    #[serde(default)]
    pub filterable: Vec<String>,
    /// What becomes of signed integer keys.
    #[serde(default)]
    pub signed_keys: SignedKeys,
    /// What becomes of `numeric`, which is exact to 39 digits.
    #[serde(default)]
    pub numeric: Numeric,
    /// What becomes of timestamps, which are exact to the microsecond.
    #[serde(default)]
    pub timestamps: Timestamps,
    /// What becomes of NaN and the infinities, which JSON numbers cannot say.
    #[serde(default)]
    pub non_finite: NonFinite,
    /// A request is sent when its body has about this many bytes.
    #[serde(default = "default_max_request_bytes")]
    #[schemars(range(min = 4096, max = 268_435_456))]
    pub max_request_bytes: usize,
    /// Requests on their way at the same time.
    #[serde(default = "default_requests_in_flight")]
    #[schemars(range(min = 1, max = 64))]
    pub requests_in_flight: usize,
}

fn default_api_key_secret() -> String {
    "turbopuffer_api_key".into()
}

fn default_max_request_bytes() -> usize {
    8 << 20
}

fn default_requests_in_flight() -> usize {
    4
}

/// What becomes of signed integer keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SignedKeys {
    /// Ids are strings: turbopuffer has no negative integer ids.
    #[default]
    String,
    /// Ids are unsigned integers; a row with a negative key is rejected.
    Uint,
}

/// What becomes of `numeric`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Numeric {
    /// A string with every digit.
    #[default]
    String,
    /// The nearest 64-bit float.
    Float,
}

/// What becomes of timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Timestamps {
    /// A string with every digit.
    #[default]
    String,
    /// Microseconds since 1970 as an integer, which can be compared in filters.
    Micros,
}

/// What becomes of NaN and the infinities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NonFinite {
    /// The row is rejected; the rest goes on.
    #[default]
    Reject,
    /// The attribute becomes null.
    Null,
}

impl Config {
    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// [`Error::Permanent`] naming the setting.
    pub fn check(&self) -> Result<(), Error> {
        let bad = |message: String| Err(Error::permanent("bad-config", message));
        for (setting, name, max) in [
            ("namespace", Some(&self.namespace), 80),
            ("control_namespace", self.control_namespace.as_ref(), 128),
        ] {
            let fits = |name: &String| {
                (1..=max).contains(&name.len())
                    && name
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
            };
            if name.is_some_and(|name| !fits(name)) {
                return bad(format!(
                    "sink.{setting} must have 1 to {max} letters, digits, `-`, `_` or `.`"
                ));
            }
        }
        if self.region.is_some() == self.base_url.is_some() {
            return bad("set either sink.region or sink.base_url".into());
        }
        if self.max_request_bytes < 4096 || self.requests_in_flight == 0 {
            return bad(
                "sink.max_request_bytes must be at least 4096, sink.requests_in_flight at least 1"
                    .into(),
            );
        }
        Ok(())
    }

    /// Where the service is, without a slash at the end.
    pub fn base_url(&self) -> String {
        match (&self.base_url, &self.region) {
            (Some(url), _) => url.trim_end_matches('/').into(),
            (None, region) => format!(
                "https://{}.turbopuffer.com",
                region.as_deref().unwrap_or_default()
            ),
        }
    }

    /// The namespace that holds the checkpoint.
    pub fn control_namespace(&self) -> String {
        match &self.control_namespace {
            Some(name) => name.clone(),
            None => format!("{}-control", self.namespace),
        }
    }
}
