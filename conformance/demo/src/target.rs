//! The target over HTTP, as a reader of it would look.

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::host::API_KEY;
use crate::proof::Rows;
use crate::recording::Recording;

/// Documents asked for at once (API limit).
const PAGE: usize = 10_000;

/// The emulator.
pub struct Target {
    url: String,
    client: reqwest::Client,
}

impl Target {
    /// The emulator at `url`.
    pub fn new(url: String) -> Self {
        Self {
            url,
            client: reqwest::Client::new(),
        }
    }

    async fn query(&self, namespace: &str, query: &Value) -> anyhow::Result<Option<Vec<Value>>> {
        let response = self
            .client
            .post(format!("{}/v2/namespaces/{namespace}/query", self.url))
            .bearer_auth(API_KEY)
            .json(query)
            .send()
            .await?;
        if response.status().as_u16() == 404 {
            return Ok(None);
        }
        if !response.status().is_success() {
            bail!("the emulator answers {} to a query", response.status());
        }
        let mut answer: Value = response.json().await?;
        match answer["rows"].take() {
            Value::Array(rows) => Ok(Some(rows)),
            _ => bail!("the emulator answers a query without rows"),
        }
    }

    /// The committed frontier and the namespace that readers are to use; `None` before the
    /// first commit.
    pub async fn committed(&self) -> anyhow::Result<Option<(u64, String)>> {
        let query = json!({
            "rank_by": ["id", "asc"],
            "filters": ["id", "Eq", "demo"],
            "limit": 1,
            "include_attributes": true,
        });
        let Some(rows) = self.query("demo-control", &query).await? else {
            return Ok(None);
        };
        let Some(document) = rows.first() else {
            return Ok(None);
        };
        let text = document["checkpoint"]
            .as_str()
            .context("the control document holds no checkpoint")?;
        let checkpoint: Value = serde_json::from_str(text)?;
        let frontier = checkpoint["frontier"]
            .as_str()
            .map(str::parse)
            .transpose()?;
        let active = document["active"].as_str().map(Into::into);
        Ok(frontier.zip(active))
    }

    /// All live documents, as rows of the view.
    pub async fn documents(&self, namespace: &str, recording: &Recording) -> anyhow::Result<Rows> {
        let key = recording.key_column()?;
        let mut rows = Rows::new();
        let mut after: Option<String> = None;
        loop {
            let live = json!(["deleted", "Eq", false]);
            let filters = match &after {
                None => live,
                Some(id) => json!(["And", [live, ["id", "Gt", id]]]),
            };
            let page = self
                .query(
                    namespace,
                    &json!({
                        "rank_by": ["id", "asc"],
                        "filters": filters,
                        "limit": PAGE,
                        "include_attributes": true,
                    }),
                )
                .await?
                .context("the active namespace does not exist")?;
            for document in &page {
                let row: Vec<_> = recording
                    .columns
                    .iter()
                    .map(|c| text(&document[c]))
                    .collect();
                rows.insert(row[key].clone().unwrap_or_default(), row);
            }
            after = match page.last() {
                Some(last) if page.len() == PAGE => last["id"].as_str().map(Into::into),
                _ => return Ok(rows),
            };
        }
    }
}

/// A value in Materialize's text form.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Bool(b) => Some(if *b { "t" } else { "f" }.into()),
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
