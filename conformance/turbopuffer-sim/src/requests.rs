//! What was asked of the server, without bodies.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

const KEPT: usize = 1000;

/// One request that came to an end.
#[derive(Clone, Debug, Serialize)]
pub struct RequestSummary {
    /// Counts up from 1 over all requests, in the order they ended.
    pub number: u64,
    /// HTTP method.
    pub method: String,
    /// Path without the query string.
    pub path: String,
    /// Method and path pattern, such as `POST /v2/namespaces/{ns}`.
    pub route: &'static str,
    /// HTTP status; `None` when the connection was closed without an answer.
    pub status: Option<u16>,
    /// Length of the request body in bytes, as sent.
    pub body_bytes: usize,
    /// `x-stainless-retry-count` of the official clients.
    pub retry_count: Option<u64>,
    /// A fault rule took part in this request.
    pub faulted: bool,
}

/// How many requests of a route ended with a status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestCount {
    /// Method and path pattern.
    pub route: &'static str,
    /// HTTP status; `None` when the connection was closed without an answer.
    pub status: Option<u16>,
    /// Number of requests.
    pub count: u64,
}

#[derive(Default)]
pub(crate) struct RequestLog {
    total: u64,
    counts: BTreeMap<(&'static str, Option<u16>), u64>,
    last: VecDeque<RequestSummary>,
}

impl RequestLog {
    pub(crate) fn add(&mut self, mut summary: RequestSummary) {
        self.total += 1;
        summary.number = self.total;
        *self
            .counts
            .entry((summary.route, summary.status))
            .or_default() += 1;
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back(summary);
    }

    pub(crate) fn counts(&self) -> Vec<RequestCount> {
        self.counts
            .iter()
            .map(|(&(route, status), &count)| RequestCount {
                route,
                status,
                count,
            })
            .collect()
    }

    /// The last 1,000 requests, oldest first.
    pub(crate) fn last(&self) -> Vec<RequestSummary> {
        self.last.iter().cloned().collect()
    }
}
