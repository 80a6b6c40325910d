//! The target over HTTP, as a reader of it would look.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::API_KEY;

/// Documents asked for at once (API limit).
const PAGE: usize = 10_000;

/// The namespace with the checkpoint, as the tests' configuration has it.
const CONTROL: &str = "checkpoints";

/// What a commit leaves in the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Everything below it is there, in milliseconds since the epoch.
    pub frontier: u64,
    /// The namespace for readers; of several views, that of the first by name.
    pub namespace: String,
    /// The namespaces of several views.
    pub namespaces: BTreeMap<String, String>,
    /// The worker that committed.
    pub epoch: u64,
}

/// The emulator.
pub struct Target {
    url: String,
    client: reqwest::Client,
}

impl Target {
    pub(crate) fn new(url: String) -> Self {
        // For reqwest, which is built without a provider of its own; a second one is refused.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            url,
            client: reqwest::Client::new(),
        }
    }

    async fn query(&self, namespace: &str, query: &Value) -> anyhow::Result<Option<Vec<Value>>> {
        let url = format!("{}/v2/namespaces/{namespace}/query", self.url);
        let request = self.client.post(url).bearer_auth(API_KEY).json(query);
        let response = request.send().await?;
        if response.status().as_u16() == 404 {
            return Ok(None);
        }
        ensure!(
            response.status().is_success(),
            "{} to a query",
            response.status()
        );
        let mut answer: Value = response.json().await?;
        let Value::Array(rows) = answer["rows"].take() else {
            anyhow::bail!("a query was answered without rows");
        };
        Ok(Some(rows))
    }

    /// The last commit; `None` before the first.
    ///
    /// # Errors
    /// When the target does not answer as it should.
    pub async fn committed(&self) -> anyhow::Result<Option<Committed>> {
        let query = json!({
            "rank_by": ["id", "asc"],
            "filters": ["id", "Eq", "e2e"],
            "limit": 1,
            "include_attributes": true,
        });
        let rows = self.query(CONTROL, &query).await?.unwrap_or_default();
        let Some(document) = rows.first() else {
            return Ok(None);
        };
        let text = document["checkpoint"].as_str().context("no checkpoint")?;
        let checkpoint: Value = serde_json::from_str(text)?;
        let Some(frontier) = checkpoint["frontier"].as_str() else {
            return Ok(None);
        };
        let epoch = &checkpoint["epoch"];
        let epoch = epoch
            .as_str()
            .map(str::parse)
            .transpose()?
            .or(epoch.as_u64());
        let attributes = document.as_object().into_iter().flatten();
        let namespaces: BTreeMap<_, _> = attributes
            .filter_map(|(name, value)| {
                let view = name.strip_prefix("active-")?;
                Some((view.to_owned(), value.as_str()?.to_owned()))
            })
            .collect();
        let namespace = document["active"].as_str().map(str::to_owned);
        Ok(Some(Committed {
            frontier: frontier.parse()?,
            namespace: namespace
                .or_else(|| namespaces.values().next().cloned())
                .context("no active namespace")?,
            namespaces,
            epoch: epoch.context("no epoch")?,
        }))
    }

    /// Documents of a namespace that are, or are not, deleted.
    ///
    /// # Errors
    /// When the namespace does not exist.
    pub async fn documents(&self, namespace: &str, deleted: bool) -> anyhow::Result<Vec<Value>> {
        let wanted = json!(["deleted", "Eq", deleted]);
        let mut documents = Vec::new();
        let mut filters = wanted.clone();
        loop {
            let query = json!({
                "rank_by": ["id", "asc"],
                "filters": filters,
                "limit": PAGE,
                "include_attributes": true,
            });
            let page = self.query(namespace, &query).await?;
            let page = page.with_context(|| format!("namespace {namespace} does not exist"))?;
            let last = page.last().map(|document| document["id"].clone());
            let full = page.len() == PAGE;
            documents.extend(page);
            match last {
                Some(id) if full => filters = json!(["And", [wanted, ["id", "Gt", id]]]),
                _ => return Ok(documents),
            }
        }
    }
}
