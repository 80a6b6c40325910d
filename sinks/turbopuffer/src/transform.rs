//! Vectors that are made from columns: which, and from what text.

use mz_sink_guest::{Chunk, Column, Error, Op, View};
use sha2::{Digest, Sha256};

use crate::config::{self, Config, Vector, invalid};
use crate::ids;
use crate::schema::{KeyText, Setting, Table};
use crate::types::{Encoding, plain_text};

/// The attribute that tells whether a document's vectors still fit its row.
pub(crate) const SOURCE_HASH: &str = "source_hash";

/// A transform of one view.
#[derive(Debug)]
pub(crate) struct Transform {
    pub(crate) attribute: String,
    pub(crate) vector: Vector,
    pub(crate) endpoint: String,
    pub(crate) model: String,
    /// With the placeholder of the key, which the host puts in.
    pub(crate) authorization: Option<String>,
    pub(crate) batch_texts: usize,
    sources: Vec<(usize, KeyText)>,
}

/// The transforms whose sources are columns of this view.
pub(crate) fn of_view(config: &Config, view: &View) -> Result<Vec<Transform>, Error> {
    let mut transforms = Vec::new();
    for transform in &config.transforms {
        let column = |source: &String| {
            let mut columns = view.columns.iter();
            columns.position(|column| is_called(view, column, source))
        };
        let sources: Vec<_> = transform.sources.iter().filter_map(column).collect();
        if sources.is_empty() {
            continue;
        }
        if sources.len() < transform.sources.len() {
            return Err(invalid(format!(
                "the transform that makes `{}` has some of its sources in view `{}` and others \
                 not: name the columns of one view as `view.column`",
                transform.attribute, view.name
            )));
        }
        transforms.push(Transform::new(transform, view, sources));
    }
    Ok(transforms)
}

fn is_called(view: &View, column: &Column, name: &str) -> bool {
    let setting = Setting { view, column };
    setting.of(|known| (known == name).then_some(&())).is_some()
}

impl Transform {
    fn new(transform: &config::Transform, view: &View, sources: Vec<usize>) -> Self {
        let text = |column: usize| {
            let plain = plain_text(&view.columns[column].ty);
            (column, plain.map_or(KeyText::AsIs, KeyText::Plain))
        };
        let secret = transform.api_key_secret.as_ref();
        Transform {
            attribute: transform.attribute.clone(),
            vector: Vector {
                dimensions: transform.dimensions,
                element: transform.element,
            },
            endpoint: transform.endpoint.clone(),
            model: transform.model.clone(),
            authorization: secret.map(|name| format!("Bearer {{{{secret:{name}}}}}")),
            batch_texts: transform.batch_texts as usize,
            sources: sources.into_iter().map(text).collect(),
        }
    }

    /// What is embedded for a row: each source that is not null, on a line of its own. Empty when
    /// there is nothing to embed.
    pub(crate) fn text(&self, chunk: &Chunk, row: usize) -> String {
        let mut text = Vec::new();
        for (column, kind) in &self.sources {
            let value = chunk.columns().get(*column).and_then(|c| c.get(row));
            let start = text.len();
            if start > 0 {
                text.push(b'\n');
            }
            // Nothing is added for a null.
            if !ids::push_text(value, *kind, &mut text) {
                text.truncate(start);
            }
        }
        String::from_utf8(text).unwrap_or_default()
    }
}

/// Equal as long as all vectors of a row stay what they are: those that are made, and those that
/// are columns, since a patch cannot change either. None for a row that is deleted.
pub(crate) fn source_hash(table: &Table, chunk: &Chunk, row: usize) -> Option<String> {
    if chunk.op(row) == Op::Delete {
        return None;
    }
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    for transform in &table.transforms {
        part(&transform.attribute);
        part(&transform.model);
        part(&transform.vector.dimensions.to_string());
        part(&transform.text(chunk, row));
    }
    for attribute in &table.attributes {
        if matches!(attribute.encoding, Encoding::Vector { .. }) {
            let value = chunk.columns()[attribute.column].get(row);
            let mut text = Vec::new();
            ids::push_text(value, KeyText::AsIs, &mut text);
            part(&attribute.name);
            part(&String::from_utf8_lossy(&text));
        }
    }
    Some(hex::encode(hash.finalize()))
}
