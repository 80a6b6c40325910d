//! Faults that a test asks for, by rule.

use serde::{Deserialize, Serialize};

/// Which requests a rule is about. An empty match is every request.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Match {
    /// HTTP method, upper case.
    pub method: Option<String>,
    /// Beginning of the path, without a query string. `/v2/namespaces/a` also matches the
    /// namespace `ab`.
    pub path_prefix: Option<String>,
    /// The whole path, without a query string: the writes to one namespace but not its queries.
    pub path: Option<String>,
}

/// What happens to a request instead of, or around, its normal answer.
///
/// The parts combine: `delay_ms` comes first. At most one of `status`, `garbage`,
/// `drop_after_apply`, `hang` and `reset` should be set; the first of them in this order wins.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fault {
    /// Wait this long before anything else.
    pub delay_ms: u64,
    /// Answer with this HTTP status and an error body. Nothing is applied, unless
    /// `after_apply`.
    pub status: Option<u16>,
    /// Adds a `retry-after` header, in seconds, to `status`.
    pub retry_after_s: Option<u64>,
    /// Answer 200 with a body that is not JSON. Nothing is applied, unless `after_apply`.
    pub garbage: bool,
    /// Run the request first, then give the answer of `status` or `garbage`.
    pub after_apply: bool,
    /// Run the request, then close the connection without an answer.
    pub drop_after_apply: bool,
    /// Never answer, and apply nothing.
    pub hang: bool,
    /// Reset the connection (TCP RST) and apply nothing.
    pub reset: bool,
    /// For this request, the most rows that a by-filter operation may touch.
    pub by_filter_rows: Option<usize>,
}

/// A fault and when it happens.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// Which requests.
    #[serde(rename = "match", default)]
    pub matches: Match,
    /// Let this many matching requests pass first.
    #[serde(default)]
    pub skip: u64,
    /// Then let the fault happen this often. Once when missing; 0 is never.
    #[serde(default = "once")]
    pub times: u64,
    /// What happens.
    pub fault: Fault,
}

impl FaultRule {
    /// The fault happens to the next request, whatever it is.
    pub fn next(fault: Fault) -> Self {
        Self {
            matches: Match::default(),
            skip: 0,
            times: 1,
            fault,
        }
    }
}

fn once() -> u64 {
    1
}

/// The rules that still have something to do, in the order they were given.
#[derive(Default)]
pub(crate) struct Faults(Vec<FaultRule>);

impl Faults {
    pub(crate) fn add(&mut self, rules: impl IntoIterator<Item = FaultRule>) {
        self.0.extend(rules);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The fault for this request. The first rule that is due takes the request; a rule that
    /// skips it still counts it.
    pub(crate) fn take(&mut self, method: &str, path: &str) -> Option<Fault> {
        self.0.retain(|rule| rule.times > 0);
        for rule in &mut self.0 {
            let method_fits = rule.matches.method.as_deref().is_none_or(|m| m == method);
            let path_fits = rule
                .matches
                .path_prefix
                .as_deref()
                .is_none_or(|prefix| path.starts_with(prefix))
                && rule.matches.path.as_deref().is_none_or(|p| p == path);
            if !method_fits || !path_fits {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            rule.times -= 1;
            return Some(rule.fault.clone());
        }
        None
    }
}
