//! Attribute types of a namespace: declared, inferred, fixed once set.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Value as Json;
use serde_json::json;

use crate::error::{Refusal, Result};
use crate::value::Value;

/// What a scalar is, alone or in an array.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    String,
    Int,
    Uint,
    Float,
    Uuid,
    Datetime,
    Bool,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Int => "int",
            Kind::Uint => "uint",
            Kind::Float => "float",
            Kind::Uuid => "uuid",
            Kind::Datetime => "datetime",
            Kind::Bool => "bool",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [
            Kind::String,
            Kind::Int,
            Kind::Uint,
            Kind::Float,
            Kind::Uuid,
            Kind::Datetime,
            Kind::Bool,
        ]
        .into_iter()
        .find(|kind| kind.name() == text)
    }
}

/// An attribute's type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Scalar(Kind),
    Array(Kind),
    /// `half` is `f16`; values are still kept as `f32`, without rounding.
    Vector {
        dims: usize,
        half: bool,
    },
}

impl Type {
    pub(crate) fn name(self) -> String {
        match self {
            Type::Scalar(kind) => kind.name().to_owned(),
            Type::Array(kind) => format!("[]{}", kind.name()),
            Type::Vector { dims, half } => format!("[{dims}]f{}", if half { 16 } else { 32 }),
        }
    }

    pub(crate) fn is_vector(self) -> bool {
        matches!(self, Type::Vector { .. })
    }

    fn parse(text: &str) -> Result<Self> {
        let vector = || {
            let (dims, element) = text.strip_prefix('[')?.split_once(']')?;
            let half = match element {
                "f32" => false,
                "f16" => true,
                _ => return None,
            };
            Some(Type::Vector {
                dims: dims.parse().ok()?,
                half,
            })
        };
        Kind::parse(text)
            .map(Type::Scalar)
            .or_else(|| {
                text.strip_prefix("[]")
                    .and_then(Kind::parse)
                    .map(Type::Array)
            })
            .or_else(vector)
            .ok_or_else(|| match text {
                "{}f16" => Refusal::unsupported("sparse vector type `{}f16`"),
                _ if text.starts_with("[][") => {
                    Refusal::unsupported(format_args!("late-interaction type `{text}`"))
                }
                _ => Refusal::bad(format_args!("unknown attribute type `{text}`")),
            })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DistanceMetric {
    CosineDistance,
    EuclideanSquared,
}

impl DistanceMetric {
    fn name(self) -> &'static str {
        match self {
            DistanceMetric::CosineDistance => "cosine_distance",
            DistanceMetric::EuclideanSquared => "euclidean_squared",
        }
    }
}

/// A `schema` entry in its long form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    r#type: Option<String>,
    filterable: Option<bool>,
    full_text_search: Option<Json>,
    regex: Option<bool>,
    glob: Option<bool>,
    fuzzy: Option<bool>,
    ann: Option<Json>,
    sparse_knn: Option<Json>,
    embed: Option<Json>,
    drop: Option<bool>,
}

#[derive(Clone)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) ty: Type,
    pub(crate) filterable: bool,
    /// `null`, `true` or the configuration as it was sent. Stored, not acted on.
    full_text_search: Json,
    regex: bool,
    glob: bool,
    fuzzy: bool,
}

/// All attributes of a namespace. A document's values are in the order of `attributes`.
#[derive(Clone, Default)]
pub(crate) struct Schema {
    pub(crate) id: Option<Kind>,
    pub(crate) attributes: Vec<Attribute>,
    by_name: HashMap<String, usize>,
    pub(crate) metric: Option<DistanceMetric>,
}

const MAX_ATTRIBUTES: usize = 1024;
const MAX_NAME_BYTES: usize = 128;
const MAX_DIMENSIONS: usize = 10_752;
const MAX_VECTOR_ATTRIBUTES: usize = 8;

impl Schema {
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn vectors(&self) -> impl Iterator<Item = usize> {
        (0..self.attributes.len()).filter(|&index| self.attributes[index].ty.is_vector())
    }

    /// Applies a request's `schema`. `existing` says that the namespace exists already.
    pub(crate) fn declare(
        &mut self,
        entries: &BTreeMap<String, Json>,
        metric: Option<DistanceMetric>,
        existing: bool,
    ) -> Result<()> {
        for (name, json) in entries {
            let entry = match json {
                Json::String(ty) => serde_json::from_value(json!({ "type": ty }))?,
                Json::Object(_) => Entry::deserialize(json)
                    .map_err(|e| Refusal::shape(format_args!("schema of `{name}`: {e}")))?,
                _ => {
                    return Err(Refusal::shape(format_args!(
                        "schema of `{name}`: expected a type or an object"
                    )));
                }
            };
            self.declare_one(name, &entry, metric, existing)?;
        }
        Ok(())
    }

    fn declare_one(
        &mut self,
        name: &str,
        entry: &Entry,
        metric: Option<DistanceMetric>,
        existing: bool,
    ) -> Result<()> {
        for (sent, what) in [
            (entry.drop.is_some(), "schema setting `drop`"),
            (entry.embed.is_some(), "schema setting `embed`"),
            (entry.sparse_knn.is_some(), "schema setting `sparse_knn`"),
        ] {
            if sent {
                return Err(Refusal::unsupported(what));
            }
        }
        let known = self.find(name);
        let ty = match (&entry.r#type, known) {
            (Some(text), _) => Type::parse(text)?,
            (None, Some(index)) => self.attributes[index].ty,
            (None, None) => {
                return Err(Refusal::shape(format_args!(
                    "schema of `{name}`: missing field `type`"
                )));
            }
        };
        if name == "id" {
            return match ty {
                Type::Scalar(kind @ (Kind::Uint | Kind::Uuid | Kind::String)) => {
                    self.fix_id_kind(kind)
                }
                _ => Err(Refusal::bad("`id` must be of type uint, uuid or string")),
            };
        }
        if ty.is_vector() {
            let ann = matches!(&entry.ann, Some(Json::Bool(true) | Json::Object(_)));
            if !ann {
                return Err(Refusal::bad("vector attribute must have ann:true"));
            }
            if metric.is_none() {
                return Err(Refusal::bad(format_args!(
                    "distance_metric is required when schema declares vector attribute `{name}`"
                )));
            }
        } else if entry.ann.as_ref().is_some_and(|ann| *ann != json!(false)) {
            return Err(Refusal::bad(format_args!(
                "ann is only valid on vector attributes, `{name}` is {}",
                ty.name()
            )));
        }
        let index = match known {
            Some(index) if self.attributes[index].ty == ty => index,
            Some(index) => {
                return Err(Refusal::bad(format_args!(
                    "cannot change type of attribute `{name}` from {} to {}",
                    self.attributes[index].ty.name(),
                    ty.name()
                )));
            }
            None => self.add(name, ty, existing)?,
        };
        let attribute = &mut self.attributes[index];
        if let Some(full_text) = &entry.full_text_search {
            let on = !matches!(full_text, Json::Null | Json::Bool(false));
            if on && !matches!(ty, Type::Scalar(Kind::String) | Type::Array(Kind::String)) {
                return Err(Refusal::bad(format_args!(
                    "full_text_search requires string or []string, `{name}` is {}",
                    ty.name()
                )));
            }
            if on && known.is_none() {
                attribute.filterable = false;
            }
            attribute.full_text_search = if on { full_text.clone() } else { Json::Null };
        }
        for (setting, sent) in [
            (&mut attribute.filterable, entry.filterable),
            (&mut attribute.regex, entry.regex),
            (&mut attribute.glob, entry.glob),
            (&mut attribute.fuzzy, entry.fuzzy),
        ] {
            *setting = sent.unwrap_or(*setting);
        }
        Ok(())
    }

    /// Adds an attribute, which must not be there yet.
    pub(crate) fn add(&mut self, name: &str, ty: Type, existing: bool) -> Result<usize> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            return Err(Refusal::bad(format_args!(
                "attribute name must have 1 to {MAX_NAME_BYTES} bytes, one has {}",
                name.len()
            )));
        }
        if name.starts_with('$') {
            return Err(Refusal::bad(format_args!(
                "attribute name `{name}` must not start with `$`"
            )));
        }
        if self.attributes.len() == MAX_ATTRIBUTES {
            return Err(Refusal::bad(format_args!(
                "too many attributes: a namespace can have {MAX_ATTRIBUTES}"
            )));
        }
        if let Type::Vector { dims, .. } = ty {
            if dims == 0 || dims > MAX_DIMENSIONS {
                return Err(Refusal::bad(format_args!(
                    "vector attribute `{name}` must have 1 to {MAX_DIMENSIONS} dimensions"
                )));
            }
            if existing {
                return Err(Refusal::bad(format_args!(
                    "vector attribute `{name}` cannot be added to an existing namespace"
                )));
            }
            if self.vectors().count() == MAX_VECTOR_ATTRIBUTES {
                return Err(Refusal::bad(format_args!(
                    "too many vector attributes: a namespace can have {MAX_VECTOR_ATTRIBUTES}"
                )));
            }
        }
        self.attributes.push(Attribute {
            name: name.to_owned(),
            ty,
            filterable: !ty.is_vector(),
            full_text_search: Json::Null,
            regex: false,
            glob: false,
            fuzzy: false,
        });
        let index = self.attributes.len() - 1;
        self.by_name.insert(name.to_owned(), index);
        Ok(index)
    }

    pub(crate) fn fix_id_kind(&mut self, kind: Kind) -> Result<()> {
        match self.id {
            Some(known) if known != kind => Err(Refusal::bad(format_args!(
                "id type mismatch: this namespace has {} ids, got {}",
                known.name(),
                kind.name()
            ))),
            _ => {
                self.id = Some(kind);
                Ok(())
            }
        }
    }

    /// Sets the distance metric; it cannot change.
    pub(crate) fn fix_metric(&mut self, metric: Option<DistanceMetric>) -> Result<()> {
        match (self.metric, metric) {
            (Some(known), Some(sent)) if known != sent => Err(Refusal::bad(format_args!(
                "cannot change distance_metric from {} to {}",
                known.name(),
                sent.name()
            ))),
            (known, sent) => {
                self.metric = known.or(sent);
                Ok(())
            }
        }
    }

    /// The answer of the schema endpoint. The metadata endpoint omits nulls and tells the
    /// metric of a vector.
    pub(crate) fn to_json(&self, metadata: bool) -> Json {
        let mut map = serde_json::Map::new();
        if let Some(kind) = self.id {
            map.insert(
                "id".to_owned(),
                json!({ "type": kind.name(), "filterable": null, "full_text_search": null }),
            );
        }
        for attribute in &self.attributes {
            let mut entry = json!({
                "type": attribute.ty.name(),
                "filterable": attribute.filterable,
                "full_text_search": attribute.full_text_search,
            });
            if attribute.ty.is_vector() {
                entry["filterable"] = Json::Null;
                entry["ann"] = match self.metric {
                    Some(metric) if metadata => json!({ "distance_metric": metric.name() }),
                    _ => json!(true),
                };
            }
            for (name, on) in [
                ("regex", attribute.regex),
                ("glob", attribute.glob),
                ("fuzzy", attribute.fuzzy),
            ] {
                if on {
                    entry[name] = json!(true);
                }
            }
            map.insert(attribute.name.clone(), entry);
        }
        if metadata {
            for entry in map.values_mut().filter_map(Json::as_object_mut) {
                entry.retain(|_, setting| !setting.is_null());
            }
        }
        Json::Object(map)
    }
}

/// The type of an undeclared attribute, from its first value that is not null. `None` if
/// there is none.
pub(crate) fn infer(name: &str, values: &[Value]) -> Result<Option<Type>> {
    let Some(first) = values.iter().find(|value| !value.is_null()) else {
        return Ok(None);
    };
    if name == "vector" {
        let dims = match first {
            Value::Array(values) => values.len(),
            // Base64 of four bytes for each dimension.
            Value::Text(text) => crate::coerce::decode_vector(text.as_str())?.len(),
            _ => {
                return Err(Refusal::bad(
                    "attribute `vector` must be an array of numbers",
                ));
            }
        };
        return Ok(Some(Type::Vector { dims, half: false }));
    }
    let kind = |value: &Value| match value {
        Value::Text(_) => Some(Kind::String),
        Value::Bool(_) => Some(Kind::Bool),
        Value::Int(_) | Value::Uint(_) => Some(Kind::Int),
        Value::Float(_) => Some(Kind::Float),
        _ => None,
    };
    let ty = match first {
        Value::Array(elements) => elements.first().and_then(kind).map(Type::Array),
        scalar => kind(scalar).map(Type::Scalar),
    };
    ty.map(Some).ok_or_else(|| {
        Refusal::bad(format_args!(
            "cannot infer the type of attribute `{name}`, declare it in schema"
        ))
    })
}
