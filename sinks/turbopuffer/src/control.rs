//! The control document: the checkpoint, and which incarnation readers are to use.
//!
//! One document per sink id. It is created once, with insert-if-absent; every change is a patch
//! conditional on the digest of the checkpoint it replaces, so the sink's own fields are
//! protected by the same compare-and-set. Patches never create, so nobody can revive a deleted
//! checkpoint. The digest is compared because the text itself is longer than what can be
//! filtered on.

use mz_sink_guest::{Error, Http};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::api::Api;

/// What the control document says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// The stored checkpoint.
    pub checkpoint: Option<String>,
    /// The namespace that readers are to use.
    pub active: Option<String>,
    /// Namespaces that were active before.
    pub retired: Vec<String>,
}

/// Where the control document is.
#[derive(Debug)]
pub struct Place {
    /// The control namespace.
    pub namespace: String,
    /// The document's id: the sink id, hashed when it is too long.
    pub id: String,
}

fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

impl Place {
    fn schema() -> Value {
        json!({
            "id": "string",
            "checkpoint": { "type": "string", "filterable": false },
            "digest": "string",
            "active": "string",
            "retired": "[]string",
        })
    }

    /// Reads the document, seeing the latest commit.
    ///
    /// # Errors
    /// When there is no usable answer.
    pub fn read<H: Http>(&self, api: &Api<H>) -> Result<Control, Error> {
        let query = json!({
            "rank_by": ["id", "asc"],
            "filters": ["id", "Eq", self.id],
            "limit": 1,
            "include_attributes": ["checkpoint", "active", "retired"],
            "consistency": { "level": "strong" },
        });
        let Some(answer) = api.query(&self.namespace, &query)? else {
            return Ok(Control::default());
        };
        let Some(rows) = answer["rows"].as_array() else {
            return Err(Error::retryable(
                "bad-answer",
                "turbopuffer answered a query without rows",
            ));
        };
        let Some(row) = rows.first() else {
            return Ok(Control::default());
        };
        let text = |name: &str| row[name].as_str().filter(|t| !t.is_empty()).map(Into::into);
        Ok(Control {
            checkpoint: text("checkpoint"),
            active: text("active"),
            retired: row["retired"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|name| name.as_str().map(Into::into))
                .collect(),
        })
    }

    /// Replaces `expected` by `next`, switching to `next.active` in the same step.
    ///
    /// # Errors
    /// [`Error::Conflict`] with what is stored, when that is not `expected`.
    pub fn compare_and_set<H: Http>(
        &self,
        api: &Api<H>,
        expected: Option<&str>,
        next: &Control,
    ) -> Result<(), Error> {
        let checkpoint = next.checkpoint.as_deref().unwrap_or_default();
        let document = json!({
            "id": self.id,
            "checkpoint": checkpoint,
            "digest": digest(checkpoint),
            "active": next.active.as_deref().unwrap_or_default(),
            "retired": next.retired,
        });
        let (body, counter) = match expected {
            None => (
                json!({
                    "create_namespace": true,
                    "schema": Self::schema(),
                    "upsert_rows": [document],
                    "upsert_condition": ["id", "Eq", null],
                }),
                "rows_upserted",
            ),
            Some(expected) => (
                json!({
                    "create_namespace": false,
                    "schema": Self::schema(),
                    "patch_rows": [document],
                    "patch_condition": ["digest", "Eq", digest(expected)],
                }),
                "rows_patched",
            ),
        };
        let answer = match api.commit(&self.namespace, &body) {
            Ok(answer) => answer,
            // The whole control namespace is gone.
            Err(Error::Permanent(f)) if f.code == "turbopuffer-namespace-missing" => {
                return Err(Error::Conflict(None));
            }
            Err(error) => return Err(error),
        };
        match answer[counter].as_u64() {
            Some(1) => Ok(()),
            Some(0) => {
                let found = self.read(api)?.checkpoint;
                if found == next.checkpoint {
                    Ok(())
                } else {
                    Err(Error::Conflict(found))
                }
            }
            _ => Err(Error::unknown(
                "bad-answer",
                format!("turbopuffer did not say {counter}"),
            )),
        }
    }
}
