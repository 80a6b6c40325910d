//! The control document: the checkpoint, and which incarnation readers should look at.
//!
//! | attribute | what it is |
//! | --- | --- |
//! | `checkpoint` | the host's text; too long to filter on |
//! | `digest` | its SHA-256 in hexadecimal: what compare-and-set compares |
//! | `active` | the view's namespace; `active-<view>` for each of several views |
//! | `retired` | namespaces that were active once, oldest first |
//! | `retired_at` | when each of them was retired, in milliseconds since 1970 |
//! | `written_at` | milliseconds since 1970 |
//!
//! Every change is a patch conditional on the digest, and a patch never creates: nobody can
//! revive a deleted document, and nobody can change a field on the basis of another state.

use mz_sink_guest::{Error, Failure, Http};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::client::{Client, Trouble};
use crate::{ids, incarnation};

/// Most retired namespaces that are listed. What was retired before them is found by its name.
const MAX_RETIRED: usize = 100;

/// Which namespaces hold the views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Incarnations {
    /// By view; none for a view that was never loaded.
    pub(crate) active: Vec<Option<String>>,
    /// Oldest first.
    pub(crate) retired: Vec<Retired>,
}

/// A namespace that was active once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Retired {
    pub(crate) namespace: String,
    /// In milliseconds since 1970.
    pub(crate) at_ms: u64,
}

impl Incarnations {
    /// Makes a namespace the active one of a view and retires the one before.
    pub(crate) fn switch(&mut self, view: usize, namespace: String, now_ms: u64) {
        let before = self.active.get_mut(view);
        if let Some(namespace) = before.and_then(|active| active.replace(namespace)) {
            self.retired.push(Retired {
                namespace,
                at_ms: now_ms,
            });
        }
        let too_many = self.retired.len().saturating_sub(MAX_RETIRED);
        self.retired.drain(..too_many);
    }
}

/// What is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stored {
    text: String,
    incarnations: Incarnations,
}

/// The control document of one sink id.
pub(crate) struct Control {
    namespace: String,
    id: String,
    /// The attribute for each view's active namespace.
    attributes: Vec<String>,
    /// As last seen or written; none when there is no document.
    stored: Option<Stored>,
}

#[derive(Deserialize)]
struct Page {
    rows: Vec<Document>,
}

/// A document as it comes back from a query. A null attribute is left out.
#[derive(Deserialize)]
struct Document {
    checkpoint: Option<String>,
    digest: Option<String>,
    #[serde(default)]
    retired: Vec<String>,
    #[serde(default)]
    retired_at: Vec<u64>,
    /// The active namespaces are among these.
    #[serde(flatten)]
    others: Map<String, Value>,
}

impl Control {
    pub(crate) fn new(namespace: String, sink_id: &str, attributes: Vec<String>) -> Self {
        Control {
            namespace,
            id: ids::bounded(sink_id),
            attributes,
            stored: None,
        }
    }

    /// The checkpoint text as last seen or written.
    pub(crate) fn text(&self) -> Option<&str> {
        self.stored.as_ref().map(|stored| stored.text.as_str())
    }

    /// The incarnations as last seen or written.
    pub(crate) fn incarnations(&self) -> Incarnations {
        match &self.stored {
            Some(stored) => stored.incarnations.clone(),
            None => Incarnations {
                active: vec![None; self.attributes.len()],
                retired: Vec::new(),
            },
        }
    }

    /// What an operator can do when the documents of a view cannot be continued: they cannot be
    /// rebuilt from a checkpoint.
    pub(crate) fn start_again(&self) -> String {
        format!(
            "use a new `sink_id`, or delete document `{}` of namespace `{}`: both start again with \
             a snapshot",
            self.id, self.namespace
        )
    }

    /// The error for an incarnation that is not there, although the document as last seen names
    /// it.
    pub(crate) fn missing<H: Http>(
        &mut self,
        client: &Client<H>,
        view: &str,
        incarnation: &str,
    ) -> Error {
        let known = self.text().map(str::to_owned);
        match self.read(client) {
            // Another worker has retired it, or the document is gone as well.
            Ok(found) if found != known => Error::Conflict(found),
            Ok(_) => Error::permanent(
                "no-namespace",
                format!(
                    "namespace `{incarnation}`, which the checkpoint names for view `{view}`, \
                     does not exist: somebody deleted it. A worker cannot rebuild it from the \
                     checkpoint: {}",
                    self.start_again()
                ),
            ),
            Err(error) => error,
        }
    }

    /// The error for a view that was loaded and has no namespace.
    pub(crate) fn unnamed(&self, view: &str) -> Error {
        Error::permanent(
            "no-incarnation",
            format!(
                "the checkpoint names no namespace for view `{view}`, which was loaded before: \
                 somebody changed document `{}` by hand. Put the namespace back, or {}",
                self.id,
                self.start_again()
            ),
        )
    }

    /// The error for a control namespace that does not take what this sink stores.
    fn unfit(&self, failure: &Failure) -> Error {
        Error::permanent(
            "schema-conflict",
            format!(
                "the checkpoint cannot be kept in namespace `{}`: {}. If something else uses that \
                 namespace, set `control_namespace` to another name",
                self.namespace, failure.message
            ),
        )
    }

    /// Reads the document, seeing every write that was acknowledged before.
    pub(crate) fn read<H: Http>(&mut self, client: &Client<H>) -> Result<Option<String>, Error> {
        let query = json!({
            "rank_by": ["id", "asc"],
            "filters": ["id", "Eq", self.id],
            "limit": 1,
            "include_attributes": true,
            "consistency": { "level": "strong" },
        });
        let page: Page = match client.query(&self.namespace, query.to_string().into_bytes()) {
            Ok(page) => page,
            Err(Trouble::NoNamespace(_)) => Page { rows: Vec::new() },
            Err(Trouble::BadRequest(failure)) => return Err(self.unfit(&failure)),
            Err(trouble) => return Err(trouble.of_idempotent()),
        };
        let document = page.rows.into_iter().next();
        self.stored = match document {
            Some(document) => Some(self.understand(document)?),
            None => None,
        };
        Ok(self.text().map(str::to_owned))
    }

    fn damaged(&self, how: &str) -> Error {
        Error::permanent(
            "damaged-checkpoint",
            format!(
                "document `{}` of namespace `{}` {how}: delete it to start again with a snapshot; \
                 if something else uses that namespace, set `control_namespace` to another name",
                self.id, self.namespace
            ),
        )
    }

    fn understand(&self, document: Document) -> Result<Stored, Error> {
        let text = document.checkpoint.unwrap_or_default();
        if document.digest != Some(digest(&text)) {
            return Err(self.damaged("was not written by this sink"));
        }
        let active = |attribute: &String| match document.others.get(attribute) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(name)) if incarnation::is_name(name) => Ok(Some(name.clone())),
            Some(_) => Err(self.damaged(&format!(
                "has something in `{attribute}` that is no name of a namespace"
            ))),
        };
        let times = document.retired_at.into_iter().chain(std::iter::repeat(0));
        let retired = document.retired.into_iter().zip(times);
        Ok(Stored {
            text,
            incarnations: Incarnations {
                active: self
                    .attributes
                    .iter()
                    .map(active)
                    .collect::<Result<_, _>>()?,
                retired: retired
                    .map(|(namespace, at_ms)| Retired { namespace, at_ms })
                    .collect(),
            },
        })
    }

    /// Replaces `expected` by `next`, and the incarnations when they changed.
    pub(crate) fn replace<H: Http>(
        &mut self,
        client: &Client<H>,
        expected: Option<&str>,
        next: &str,
        changed: Option<Incarnations>,
        now_ms: u64,
    ) -> Result<(), Error> {
        let incarnations = changed.clone().unwrap_or_else(|| self.incarnations());
        let next = Stored {
            text: next.to_owned(),
            incarnations,
        };
        let outcome = match expected {
            None => {
                let request = self.creation(&next, now_ms);
                let written = client.write(&self.namespace, request.to_string().into_bytes());
                written.map(|written| written.rows_upserted())
            }
            Some(expected) => {
                let request = self.patch(expected, &next, changed.is_some(), now_ms);
                let written = client.write(&self.namespace, request.to_string().into_bytes());
                written.map(|written| written.rows_patched())
            }
        };
        match outcome {
            Ok(1) => {
                self.stored = Some(next);
                Ok(())
            }
            // Another text, or none, or our own from a request sent twice.
            Ok(_) => {
                let found = self.read(client).map_err(unknown)?;
                if found.as_deref() == Some(&next.text) {
                    Ok(())
                } else {
                    Err(Error::Conflict(found))
                }
            }
            Err(Trouble::NoNamespace(failure)) if expected.is_none() => {
                Err(Error::Permanent(failure))
            }
            Err(Trouble::NoNamespace(_)) => {
                self.stored = None;
                Err(Error::Conflict(None))
            }
            Err(Trouble::NotProcessed(failure)) => Err(Error::Retryable(failure)),
            Err(Trouble::MaybeProcessed(failure)) => Err(Error::Unknown(failure)),
            Err(Trouble::BadRequest(failure)) => Err(self.unfit(&failure)),
            Err(Trouble::Refused(failure)) => Err(Error::Permanent(failure)),
        }
    }

    /// Only when there is no document; the namespace is made if need be.
    fn creation(&self, next: &Stored, now_ms: u64) -> Value {
        json!({
            "create_namespace": true,
            "upsert_rows": [self.row(next, true, now_ms)],
            "upsert_condition": ["id", "Eq", null],
            "schema": self.schema(),
        })
    }

    fn patch(&self, expected: &str, next: &Stored, switches: bool, now_ms: u64) -> Value {
        json!({
            "create_namespace": false,
            "patch_rows": [self.row(next, switches, now_ms)],
            "patch_condition": ["digest", "Eq", digest(expected)],
            "schema": self.schema(),
        })
    }

    fn row(&self, next: &Stored, with_incarnations: bool, now_ms: u64) -> Value {
        let mut row = json!({
            "id": self.id,
            "checkpoint": next.text,
            "digest": digest(&next.text),
            "written_at": now_ms,
        });
        if with_incarnations {
            for (attribute, namespace) in self.attributes.iter().zip(&next.incarnations.active) {
                row[attribute] = json!(namespace);
            }
            let retired = next.incarnations.retired.iter();
            row["retired"] = retired.clone().map(|r| json!(r.namespace)).collect();
            row["retired_at"] = retired.map(|r| json!(r.at_ms)).collect();
        }
        row
    }

    fn schema(&self) -> Value {
        let mut schema = json!({
            "id": "string",
            "checkpoint": { "type": "string", "filterable": false },
            "digest": "string",
            "retired": { "type": "[]string", "filterable": false },
            "retired_at": { "type": "[]uint", "filterable": false },
            "written_at": "uint",
        });
        for attribute in &self.attributes {
            schema[attribute] = json!("string");
        }
        schema
    }
}

/// SHA-256 in hexadecimal.
pub(crate) fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

/// The checkpoint could not be read after a write of it: the host must find out.
fn unknown(error: Error) -> Error {
    match error {
        Error::Retryable(failure) => Error::Unknown(Failure {
            message: format!("the checkpoint could not be read back: {}", failure.message),
            ..failure
        }),
        other => other,
    }
}
