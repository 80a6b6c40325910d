//! An emulator of the turbopuffer HTTP API, with which the official clients work unchanged.
//!
//! It exists to test a sink: conditions, schemas, limits and refusals are strict, and faults
//! can be ordered. It is not a search engine: there is no full-text search, and vectors are
//! searched by looking at all of them. State is in memory. Nothing here may know the sink.
//!
//! ```text
//! connection ─► exchange ─► api ─┬► write: parse ► plan ► apply ─┐
//!   (server)    body, faults,    ├► query: filter ► rank ► rows  ├─► store: one lock
//!               key, log         └► list, schema, metadata, ...  ┘   for each namespace
//! ```
//!
//! # Control endpoints
//!
//! | request | what it does |
//! | --- | --- |
//! | `POST /_sim/faults` | adds a JSON list of [`FaultRule`] |
//! | `DELETE /_sim/faults` | removes all rules |
//! | `GET /_sim/requests` | `counts` by route and status, and the `last` requests |
//!
//! # Where the emulator had to choose
//!
//! The public documentation does not say these, so a test must not depend on them:
//!
//! | case | here |
//! | --- | --- |
//! | every text of 400, 401, 404, 413 not listed as known in the API's documentation | our own |
//! | an unknown field in a body | 422 |
//! | JSON that is not JSON | 400 |
//! | `deletes` without a condition, of ids that are missing | counted |
//! | a patch that changes nothing | counted |
//! | patches or deletes only, on a missing namespace | 404 |
//! | `$ref_new` of an attribute that a patch does not mention | null |
//! | a filter on an attribute that the schema does not have | 400 |
//! | `Lte null`, `Gt null` | null is the lowest value; `Gt` and `Gte` never match null |
//! | an undeclared attribute whose first value is 9.99 | float |
//! | an undeclared attribute that is null in all rows | ignored |
//! | null inside an array | 400 |
//! | `5.0` for an int or uint attribute | 400 |
//! | a query without `limit` and `top_k` | 400, unless it aggregates |
//! | cosine distance of a zero vector | 1 |
//! | counts in metadata | exact, at once |

mod aggregate;
mod api;
mod coerce;
mod error;
mod exchange;
mod fault;
mod filter;
mod plan;
mod query;
mod rank;
mod requests;
mod schema;
mod server;
mod store;
mod table;
mod text;
mod value;
mod write;

pub use fault::{Fault, FaultRule, Match};
pub use requests::{RequestCount, RequestSummary};
pub use server::{Limits, Options, Server};
