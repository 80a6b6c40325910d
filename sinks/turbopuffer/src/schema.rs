//! What each view becomes: its id, its attributes, and the schema sent with every write.

use std::collections::BTreeSet;

use mz_sink_guest::{Column, ColumnType, Error, View};
use serde_json::{Map, Value, json};

use crate::config::{Config, DistanceMetric, FullText, IdType, invalid};
use crate::transform::{self, SOURCE_HASH, Transform};
use crate::types::{AttributeType, Encoding, PlainText, encoding, plain_text, type_name, usual};
use crate::vector::MAX_VECTORS;

/// Attributes that every document has beside the view's columns.
const RESERVED: [&str; 5] = ["id", "mz_timestamp", "generation", "deleted", "written_at"];

/// turbopuffer takes an attribute with this name for a vector; no other column becomes one.
const VECTOR: &str = "vector";

/// Where a column called `id` goes, since the document's `id` is made from the key.
const ID_COLUMN_ATTRIBUTE: &str = "source_id";

/// turbopuffer's limits in bytes: attribute name, filterable value, any value.
const MAX_NAME_LEN: usize = 128;
const MAX_FILTERABLE_LEN: usize = 4 << 10;
const MAX_VALUE_LEN: usize = 8 << 20;

/// turbopuffer's limit of attributes in a namespace.
const MAX_ATTRIBUTES: usize = 1024;

/// One attribute of a view's documents.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) column: usize,
    pub(crate) name: String,
    pub(crate) encoding: Encoding,
    /// Longest text or byte string; a row with a longer one is refused.
    pub(crate) max_len: usize,
}

/// What a document's id is made from, decided by the key's column types.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum IdRule {
    /// The unsigned integer itself.
    Uint { column: usize },
    /// A signed integer that must not be negative.
    NonNegative { column: usize },
    /// The uuid itself.
    Uuid { column: usize },
    /// One column's text.
    Text { column: usize, text: KeyText },
    /// Several columns.
    Composite { parts: Vec<(usize, KeyText)> },
}

/// How a key column becomes text, independent of the attribute types configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyText {
    /// It is text already.
    AsIs,
    Plain(PlainText),
}

/// All about one view.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) view: String,
    /// The names of its columns.
    pub(crate) columns: Vec<String>,
    pub(crate) key: Vec<usize>,
    pub(crate) id: IdRule,
    pub(crate) attributes: Vec<Attribute>,
    /// JSON object, as it goes into requests.
    pub(crate) schema: String,
    /// Where documents have vectors, how far apart two of them are.
    pub(crate) distance_metric: Option<DistanceMetric>,
    /// Vectors: attribute, and what stands where there is none.
    pub(crate) placeholders: Vec<(String, String)>,
    pub(crate) transforms: Vec<Transform>,
}

impl Table {
    /// Appends the fields that go with every write: without them a type would be inferred from a
    /// row.
    pub(crate) fn push_schema(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#""schema":"#);
        out.extend_from_slice(self.schema.as_bytes());
        if let Some(metric) = self.distance_metric {
            out.extend_from_slice(br#","distance_metric":"#);
            out.extend_from_slice(json!(metric).to_string().as_bytes());
        }
    }

    /// The fewest bytes that a document takes in a request, about.
    pub(crate) fn least_bytes(&self) -> usize {
        let vectors = self.placeholders.iter().map(|(_, text)| text.len() + 3);
        vectors.sum::<usize>() + 64
    }

    /// What stands for a vector where there is none.
    pub(crate) fn placeholder(&self, attribute: &str) -> &str {
        let mut all = self.placeholders.iter();
        let found = all.find(|(name, _)| name == attribute);
        found.map_or("", |(_, placeholder)| placeholder)
    }
}

/// Builds all tables; an error when the configuration names a column that no view has.
pub(crate) fn tables(config: &Config, views: &[View]) -> Result<Vec<Table>, Error> {
    if views.is_empty() {
        return Err(invalid("the sink has no view"));
    }
    let known: BTreeSet<String> = views
        .iter()
        .flat_map(|view| {
            let both = |c: &Column| [c.name.clone(), format!("{}.{}", view.name, c.name)];
            view.columns.iter().flat_map(both)
        })
        .collect();
    let named = [
        ("filterable", config.filterable.iter().collect::<Vec<_>>()),
        ("types", config.types.keys().collect()),
        ("full_text_search", config.full_text_search.keys().collect()),
        ("vectors", config.vectors.keys().collect()),
        (
            "transforms.sources",
            config.transforms.iter().flat_map(|t| &t.sources).collect(),
        ),
        ("rename", config.rename.keys().collect()),
    ];
    for (field, names) in named {
        if let Some(name) = names.into_iter().find(|name| !known.contains(*name)) {
            return Err(invalid(format!(
                "`{field}` names `{name}`, which no view has: use a column's name, or \
                 `view.column`"
            )));
        }
    }
    views.iter().map(|view| table(config, view)).collect()
}

fn table(config: &Config, view: &View) -> Result<Table, Error> {
    let id = id_rule(config, view)?;
    let id_type = match id {
        IdRule::Uint { .. } | IdRule::NonNegative { .. } => "uint",
        IdRule::Uuid { .. } => "uuid",
        IdRule::Text { .. } | IdRule::Composite { .. } => "string",
    };
    let mut schema = Map::new();
    schema.insert("id".into(), json!(id_type));
    schema.insert("mz_timestamp".into(), json!("uint"));
    schema.insert("generation".into(), json!("uint"));
    schema.insert("deleted".into(), json!("bool"));
    schema.insert("written_at".into(), json!("uint"));

    let mut placeholders = Vec::new();
    let mut attributes: Vec<Attribute> = Vec::with_capacity(view.columns.len());
    for (index, column) in view.columns.iter().enumerate() {
        let setting = Setting { view, column };
        let name = match setting.of(|name| config.rename.get(name)) {
            Some(name) => name.clone(),
            // A number or a uuid is its own id; a text may be hashed.
            None if column.name == "id" && view.key == [index] && id_type != "string" => continue,
            None => usual_name(column).to_owned(),
        };
        let vector = setting.of(|name| config.vectors.get(name)).copied();
        if name != VECTOR || vector.is_none() {
            check_name(&name).map_err(|why| setting.rename(config, &why))?;
        }
        if let Some(other) = attributes.iter().find(|other| other.name == name) {
            let other = &view.columns[other.column];
            // The one to rename is the one that does not go by its own name.
            let (column, other) = if name == column.name {
                (other, column)
            } else {
                (column, other)
            };
            let why = format!("the attribute `{name}`, as does column `{}`", other.name);
            return Err(Setting { view, column }.rename(config, &why));
        }
        if let Some(vector) = vector {
            if !matches!(column.ty, ColumnType::Other(_)) || view.key.contains(&index) {
                return Err(invalid(format!(
                    "`vectors` names {setting}, which is not an array or list of numbers outside \
                     the key: remove it"
                )));
            }
            schema.insert(name.clone(), vector.schema(&name)?);
            placeholders.push((name.clone(), vector.placeholder()));
            attributes.push(Attribute {
                column: index,
                name,
                encoding: Encoding::Vector {
                    dimensions: vector.dimensions,
                },
                max_len: MAX_VALUE_LEN,
            });
            continue;
        }
        let (usual, long) = usual(&column.ty);
        let ty = setting
            .of(|name| config.types.get(name))
            .copied()
            .unwrap_or(usual);
        let encoding = encoding(&column.ty, ty).ok_or_else(|| {
            invalid(format!(
                "`types` wants `{}` of {setting}, which cannot be made from its type: remove it",
                type_name(ty)
            ))
        })?;
        let asked = setting.of(|name| config.filterable.iter().find(|entry| *entry == name));
        let filterable = !long || asked.is_some();
        let mut entry = json!({ "type": type_name(ty), "filterable": filterable });
        match setting.of(|name| config.full_text_search.get(name)) {
            None | Some(FullText::Switch(false)) => {}
            Some(_) if ty != AttributeType::String => {
                return Err(invalid(format!(
                    "`full_text_search` names {setting}, which becomes a {} and not a string: \
                     remove it, or make it a string in `types`",
                    type_name(ty)
                )));
            }
            Some(FullText::Switch(true)) => entry["full_text_search"] = json!(true),
            Some(FullText::Options(options)) => entry["full_text_search"] = json!(options),
        }
        schema.insert(name.clone(), entry);
        attributes.push(Attribute {
            column: index,
            name,
            encoding,
            max_len: if filterable {
                MAX_FILTERABLE_LEN
            } else {
                MAX_VALUE_LEN
            },
        });
    }
    let transforms = transform::of_view(config, view)?;
    if !transforms.is_empty() {
        let hash = Map::from_iter([(SOURCE_HASH.into(), json!("string"))]);
        let made = transforms.iter().map(|t| {
            let vector = t.vector.schema(&t.attribute)?;
            placeholders.push((t.attribute.clone(), t.vector.placeholder()));
            Ok((t.attribute.clone(), vector))
        });
        let made = made.collect::<Result<Map<_, _>, Error>>()?;
        for (name, entry) in made.into_iter().chain(hash) {
            if name != VECTOR {
                check_name(&name).map_err(|why| invalid(format!("a transform makes {why}")))?;
            }
            if schema.insert(name.clone(), entry).is_some() {
                return Err(invalid(format!(
                    "a transform makes the attribute `{name}` of `{}`, as something else does: \
                     give it another name, or rename the column",
                    view.name
                )));
            }
        }
    }
    if placeholders.len() > MAX_VECTORS || schema.len() > MAX_ATTRIBUTES {
        return Err(invalid(format!(
            "view `{}` becomes {} attributes with {} vectors among them, and turbopuffer has at \
             most {MAX_ATTRIBUTES} and {MAX_VECTORS}",
            view.name,
            schema.len(),
            placeholders.len()
        )));
    }
    Ok(Table {
        distance_metric: (!placeholders.is_empty()).then_some(config.distance_metric),
        placeholders,
        transforms,
        view: view.name.clone(),
        columns: view.columns.iter().map(|c| c.name.clone()).collect(),
        key: view.key.clone(),
        id,
        attributes,
        schema: Value::Object(schema).to_string(),
    })
}

fn id_rule(config: &Config, view: &View) -> Result<IdRule, Error> {
    let mut parts = Vec::with_capacity(view.key.len());
    for &column in &view.key {
        let ty = &view.columns.get(column).map(|column| &column.ty);
        let ty = ty.ok_or_else(|| invalid(format!("the key of view `{}` is broken", view.name)))?;
        parts.push((column, ty));
    }
    let text = |ty: &ColumnType| plain_text(ty).map_or(KeyText::AsIs, KeyText::Plain);
    Ok(match parts.as_slice() {
        [] => {
            return Err(invalid(format!(
                "view `{}` has no key, and a document needs an id: give the view a unique key",
                view.name
            )));
        }
        &[(column, ty)] => match ty {
            ColumnType::Uint16
            | ColumnType::Uint32
            | ColumnType::Uint64
            | ColumnType::MzTimestamp => IdRule::Uint { column },
            ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64
                if config.id_type == IdType::Uint =>
            {
                IdRule::NonNegative { column }
            }
            ColumnType::Uuid => IdRule::Uuid { column },
            other => IdRule::Text {
                column,
                text: text(other),
            },
        },
        several => IdRule::Composite {
            parts: several
                .iter()
                .map(|&(column, ty)| (column, text(ty)))
                .collect(),
        },
    })
}

/// A column and the names under which the configuration may speak of it.
pub(crate) struct Setting<'a> {
    pub(crate) view: &'a View,
    pub(crate) column: &'a Column,
}

impl Setting<'_> {
    /// The setting for `view.column`, else for `column`.
    pub(crate) fn of<'c, T: ?Sized>(&self, find: impl Fn(&str) -> Option<&'c T>) -> Option<&'c T> {
        let qualified = format!("{}.{}", self.view.name, self.column.name);
        find(&qualified).or_else(|| find(&self.column.name))
    }

    /// The error for a column that cannot have the name it would get.
    fn rename(&self, config: &Config, why: &str) -> Error {
        let qualified = format!("{}.{}", self.view.name, self.column.name);
        let (verb, key) = if config.rename.contains_key(&qualified) {
            ("change", &qualified)
        } else if config.rename.contains_key(&self.column.name) {
            ("change", &self.column.name)
        } else {
            ("add", &self.column.name)
        };
        // A JSON string is a TOML one as well.
        let key = json!(key);
        invalid(format!(
            "{self} would become {why}: {verb} `rename = {{ {key} = \"another_name\" }}`"
        ))
    }
}

impl std::fmt::Display for Setting<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "column `{}` of `{}`", self.column.name, self.view.name)
    }
}

/// The attribute that a column becomes unless it is renamed.
fn usual_name(column: &Column) -> &str {
    match column.name.as_str() {
        "id" => ID_COLUMN_ATTRIBUTE,
        name => name,
    }
}

/// Why no column can become this attribute.
fn check_name(name: &str) -> Result<(), String> {
    if RESERVED.contains(&name) {
        Err(format!(
            "the attribute `{name}`, which the sink itself writes"
        ))
    } else if name == VECTOR {
        Err(format!(
            "the attribute `{name}`, which turbopuffer keeps for vectors"
        ))
    } else if name.is_empty() || name.len() > MAX_NAME_LEN || name.starts_with('$') {
        Err(format!(
            "the attribute `{name}`, and names have 1 to {MAX_NAME_LEN} bytes and do not start \
             with `$`"
        ))
    } else {
        Ok(())
    }
}
