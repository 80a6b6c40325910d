//! The emulator, as far as a measurement looks at it.

use anyhow::bail;
use serde_json::{Value, json};

/// Whether a snapshot has been committed under sink id `bench`.
pub async fn is_committed(client: &reqwest::Client, url: &str) -> anyhow::Result<bool> {
    let query = json!({
        "rank_by": ["id", "asc"],
        "filters": ["id", "Eq", "bench"],
        "limit": 1,
        "include_attributes": ["active"],
    });
    let response = client
        .post(format!("{url}/v2/namespaces/bench-control/query"))
        .json(&query)
        .send()
        .await?;
    if response.status().as_u16() == 404 {
        return Ok(false);
    }
    let answer: Value = response.json().await?;
    Ok(!answer["rows"][0]["active"]
        .as_str()
        .unwrap_or_default()
        .is_empty())
}

/// Fails unless the only data namespace holds `rows` documents.
pub async fn check_count(client: &reqwest::Client, url: &str, rows: u64) -> anyhow::Result<()> {
    let list: Value = client
        .get(format!("{url}/v1/namespaces"))
        .send()
        .await?
        .json()
        .await?;
    let names: Vec<_> = list["namespaces"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|n| n["id"].as_str())
        .filter(|n| *n != "bench-control")
        .collect();
    let [name] = names.as_slice() else {
        bail!("expected one data namespace, found {names:?}");
    };
    let count: Value = client
        .post(format!("{url}/v2/namespaces/{name}/query"))
        .json(&json!({ "aggregate_by": { "n": ["Count"] } }))
        .send()
        .await?
        .json()
        .await?;
    if count["aggregations"]["n"].as_u64() != Some(rows) {
        bail!(
            "{name} holds {} documents instead of {rows}",
            count["aggregations"]["n"]
        );
    }
    Ok(())
}
