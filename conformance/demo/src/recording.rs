//! What the recording says about its object.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::Context;
use flate2::read::GzDecoder;
use serde_json::Value;

/// A recorded stream.
pub struct Recording {
    /// Where it is.
    pub path: PathBuf,
    /// Columns of the object, in order.
    pub columns: Vec<String>,
    /// Key columns.
    pub key: Vec<String>,
}

impl Recording {
    /// Reads the header of a stream in this repository.
    pub fn open(name: &str) -> anyhow::Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../recordings/streams")
            .join(format!("{name}.jsonl.gz"));
        let file = std::fs::File::open(&path)
            .with_context(|| format!("cannot read the recording {}", path.display()))?;
        let mut header = String::new();
        BufReader::new(GzDecoder::new(file)).read_line(&mut header)?;
        let header: Value = serde_json::from_str(&header)?;
        let names = |list: &Value, name: fn(&Value) -> &Value| -> Vec<String> {
            list.as_array()
                .into_iter()
                .flatten()
                .filter_map(|item| name(item).as_str().map(Into::into))
                .collect()
        };
        Ok(Self {
            columns: names(&header["object_columns"], |column| &column["name"]),
            key: names(&header["key"], |name| name),
            path,
        })
    }

    /// Position of the only key column.
    pub fn key_column(&self) -> anyhow::Result<usize> {
        let [key] = self.key.as_slice() else {
            anyhow::bail!("the demo needs a stream with one key column");
        };
        self.columns
            .iter()
            .position(|column| column == key)
            .context("the key is not a column")
    }
}
