//! Filters and conditions: compiled once against a schema, then run on many documents.
//!
//! Rules for null, as documented: `Eq null` is "missing"; `Lt` and `Lte` match a missing
//! attribute unless the literal itself is null; `Gt` and `Gte` never do; every `Not*` is the
//! plain inverse, so it matches a missing attribute.

use std::cmp::Ordering;
use std::ops::Bound;

use serde::Deserialize;
use serde_json::Value as Json;

use crate::coerce::{coerce, coerce_id};
use crate::error::{Refusal, Result};
use crate::schema::{Kind, Schema, Type};
use crate::value::{Id, Value, View};

/// What a condition or filter may look at.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) id: &'a Id,
    pub(crate) stored: &'a [Value],
    /// Values of the write that is being decided on, for `$ref_new`. Empty outside of
    /// conditions, and for deletes.
    pub(crate) new: &'a [Value],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Id,
    Attribute(usize),
}

pub(crate) enum Operand {
    Literal(Value),
    New(Field),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    Lt,
    Lte,
    Gt,
    Gte,
}

pub(crate) enum Filter {
    Compare(Field, Comparison, Operand),
    /// An array attribute equals this array. `$ref_new` of arrays is not supported.
    ArrayEq(usize, Value),
    /// The value, or any element of an array, is in this sorted list.
    In(Field, Vec<Value>),
    And(Vec<Filter>),
    Or(Vec<Filter>),
    Not(Box<Filter>),
}

fn view<'a>(field: Field, id: &'a Id, values: &'a [Value]) -> View<'a> {
    match field {
        Field::Id => id.view(),
        Field::Attribute(index) => values.get(index).map_or(View::Null, Value::view),
    }
}

fn arrays_equal(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| a.view().compare(b.view()).is_eq())
}

impl Filter {
    pub(crate) fn matches(&self, subject: Subject<'_>) -> bool {
        match self {
            Filter::Compare(field, comparison, operand) => {
                let left = view(*field, subject.id, subject.stored);
                let right = match operand {
                    Operand::Literal(value) => value.view(),
                    Operand::New(field) => view(*field, subject.id, subject.new),
                };
                let order = left.compare(right);
                match comparison {
                    Comparison::Eq => order.is_eq(),
                    Comparison::Lt => order.is_lt(),
                    Comparison::Lte => order.is_le(),
                    Comparison::Gt => order.is_gt() && !left.is_null(),
                    Comparison::Gte => order.is_ge() && !left.is_null(),
                }
            }
            Filter::ArrayEq(index, literal) => match (subject.stored.get(*index), literal) {
                (Some(Value::Array(stored)), Value::Array(literal)) => {
                    arrays_equal(stored, literal)
                }
                (stored, literal) => stored.is_none_or(Value::is_null) && literal.is_null(),
            },
            Filter::In(field, list) => {
                let contains = |view: View<'_>| {
                    list.binary_search_by(|candidate| candidate.view().compare(view))
                        .is_ok()
                };
                match field {
                    Field::Attribute(index) => match subject.stored.get(*index) {
                        Some(Value::Array(elements)) => {
                            elements.iter().any(|element| contains(element.view()))
                        }
                        stored => contains(stored.map_or(View::Null, Value::view)),
                    },
                    Field::Id => contains(subject.id.view()),
                }
            }
            Filter::And(filters) => filters.iter().all(|filter| filter.matches(subject)),
            Filter::Or(filters) => filters.iter().any(|filter| filter.matches(subject)),
            Filter::Not(filter) => !filter.matches(subject),
        }
    }

    /// Ids outside of these bounds cannot match. Lets a scan by id pages start in place.
    pub(crate) fn id_bounds(&self) -> (Bound<Id>, Bound<Id>) {
        match self {
            Filter::Compare(Field::Id, comparison, Operand::Literal(value)) => {
                let id = match value {
                    Value::Uint(number) => Id::Uint(*number),
                    Value::Uuid(uuid) => Id::Uuid(*uuid),
                    Value::Text(text) => Id::Text(text.clone()),
                    _ => return (Bound::Unbounded, Bound::Unbounded),
                };
                match comparison {
                    Comparison::Eq => (Bound::Included(id.clone()), Bound::Included(id)),
                    Comparison::Lt => (Bound::Unbounded, Bound::Excluded(id)),
                    Comparison::Lte => (Bound::Unbounded, Bound::Included(id)),
                    Comparison::Gt => (Bound::Excluded(id), Bound::Unbounded),
                    Comparison::Gte => (Bound::Included(id), Bound::Unbounded),
                }
            }
            Filter::And(filters) => {
                let mut bounds = (Bound::Unbounded, Bound::Unbounded);
                for (lower, upper) in filters.iter().map(Filter::id_bounds) {
                    // Any bound is a correct one; the first is kept.
                    if matches!(bounds.0, Bound::Unbounded) {
                        bounds.0 = lower;
                    }
                    if matches!(bounds.1, Bound::Unbounded) {
                        bounds.1 = upper;
                    }
                }
                bounds
            }
            _ => (Bound::Unbounded, Bound::Unbounded),
        }
    }

    /// Compiles a filter. `conditional` allows `$ref_new`.
    pub(crate) fn compile(json: &Json, schema: &Schema, conditional: bool) -> Result<Self> {
        Compiler {
            schema,
            conditional,
        }
        .filter(json)
    }
}

struct Compiler<'a> {
    schema: &'a Schema,
    conditional: bool,
}

impl Compiler<'_> {
    fn filter(&self, json: &Json) -> Result<Filter> {
        let parts = json
            .as_array()
            .ok_or_else(|| Refusal::bad("filter error: a filter must be an array"))?;
        match parts.as_slice() {
            [Json::String(word), filters] if word == "And" || word == "Or" => {
                let filters = filters
                    .as_array()
                    .ok_or_else(|| {
                        Refusal::bad(format_args!(
                            "filter error: {word} expects an array of filters"
                        ))
                    })?
                    .iter()
                    .map(|filter| self.filter(filter))
                    .collect::<Result<_>>()?;
                Ok(if word == "And" {
                    Filter::And(filters)
                } else {
                    Filter::Or(filters)
                })
            }
            [Json::String(word), filter] if word == "Not" => {
                Ok(Filter::Not(Box::new(self.filter(filter)?)))
            }
            [Json::String(key), Json::String(operator), operand] => {
                self.leaf(key, operator, operand)
            }
            _ => Err(Refusal::bad(
                "filter error: expected [attribute, operator, value], [\"And\"|\"Or\", filters] or [\"Not\", filter]",
            )),
        }
    }

    fn field(&self, key: &str) -> Result<(Field, Type)> {
        if key == "id" {
            let kind = self.schema.id.unwrap_or(Kind::Uint);
            return Ok((Field::Id, Type::Scalar(kind)));
        }
        let index = self.schema.find(key).ok_or_else(|| {
            Refusal::bad(format_args!(
                "filter error in key `{key}`: attribute not found in schema"
            ))
        })?;
        let attribute = &self.schema.attributes[index];
        if attribute.ty.is_vector() || !attribute.filterable {
            return Err(Refusal::bad(format_args!(
                "filter error in key `{key}`: attribute is not filterable"
            )));
        }
        Ok((Field::Attribute(index), attribute.ty))
    }

    fn leaf(&self, key: &str, operator: &str, operand: &Json) -> Result<Filter> {
        let (field, ty) = self.field(key)?;
        let negated = |filter| Filter::Not(Box::new(filter));
        let comparison = match operator {
            "Eq" => Comparison::Eq,
            "NotEq" => return Ok(negated(self.leaf(key, "Eq", operand)?)),
            "Lt" => Comparison::Lt,
            "Lte" => Comparison::Lte,
            "Gt" => Comparison::Gt,
            "Gte" => Comparison::Gte,
            "In" => return self.list(key, operator, operand, field, ty),
            "NotIn" => return Ok(negated(self.list(key, operator, operand, field, ty)?)),
            "Contains" | "ContainsAny" | "NotContains" | "NotContainsAny" => {
                if !matches!(ty, Type::Array(_)) {
                    return Err(mismatch(key, operator, "an array attribute", &ty.name()));
                }
                let filter = if operator.ends_with("Any") {
                    self.list(key, operator, operand, field, ty)?
                } else {
                    Filter::In(field, vec![self.literal(key, operator, operand, ty)?])
                };
                return Ok(if operator.starts_with("Not") {
                    negated(filter)
                } else {
                    filter
                });
            }
            "AnyLt"
            | "AnyLte"
            | "AnyGt"
            | "AnyGte"
            | "Glob"
            | "NotGlob"
            | "IGlob"
            | "NotIGlob"
            | "Regex"
            | "Fuzzy"
            | "ContainsAllTokens"
            | "ContainsAnyToken"
            | "ContainsTokenSequence" => {
                return Err(Refusal::unsupported(format_args!(
                    "filter operator {operator}"
                )));
            }
            _ => {
                return Err(Refusal::bad(format_args!(
                    "filter error in key `{key}`: unknown operator {operator}"
                )));
            }
        };
        if let Some(reference) = operand.as_object() {
            return self
                .reference(key, reference, ty)
                .map(|new| Filter::Compare(field, comparison, Operand::New(new)));
        }
        if let (Type::Array(_), Field::Attribute(index)) = (ty, field) {
            if comparison != Comparison::Eq {
                return Err(mismatch(key, operator, "a scalar attribute", &ty.name()));
            }
            let mut literal = Value::deserialize(operand)?;
            coerce(&mut literal, ty).map_err(|problem| {
                Refusal::bad(format_args!("filter error in key `{key}`: {problem}"))
            })?;
            return Ok(Filter::ArrayEq(index, literal));
        }
        let literal = self.literal(key, operator, operand, ty)?;
        if literal.is_null() && comparison == Comparison::Lt {
            // Nothing is lower than null; kept as an empty `Or`.
            return Ok(Filter::Or(Vec::new()));
        }
        Ok(Filter::Compare(
            field,
            comparison,
            Operand::Literal(literal),
        ))
    }

    fn reference(
        &self,
        key: &str,
        reference: &serde_json::Map<String, Json>,
        ty: Type,
    ) -> Result<Field> {
        let name = match reference.get("$ref_new") {
            Some(Json::String(name)) if reference.len() == 1 => name,
            _ => {
                return Err(Refusal::bad(format_args!(
                    "filter error in key `{key}`: an object must be {{\"$ref_new\": attribute}}"
                )));
            }
        };
        if !self.conditional {
            return Err(Refusal::bad(format_args!(
                "filter error in key `{key}`: $ref_new is only valid in conditions"
            )));
        }
        let (field, new_type) = self.field(name)?;
        if new_type != ty || matches!(ty, Type::Array(_)) {
            return Err(mismatch(key, "$ref_new", &ty.name(), &new_type.name()));
        }
        Ok(field)
    }

    /// One scalar, of the attribute's type or of an array attribute's element type.
    fn literal(&self, key: &str, operator: &str, json: &Json, ty: Type) -> Result<Value> {
        let (Type::Scalar(kind) | Type::Array(kind)) = ty else {
            return Err(mismatch(key, operator, "a scalar", &ty.name()));
        };
        let mut literal =
            Value::deserialize(json).map_err(|_| mismatch(key, operator, kind.name(), "map"))?;
        if matches!(literal, Value::Array(_)) {
            return Err(mismatch(key, operator, kind.name(), "array"));
        }
        if key == "id" && !literal.is_null() {
            let id = coerce_id(literal, kind).map_err(|refusal| {
                Refusal::bad(format_args!("filter error in key `id`: {}", refusal.text))
            })?;
            return Ok(match id {
                Id::Uint(number) => Value::Uint(number),
                Id::Uuid(uuid) => Value::Uuid(uuid),
                Id::Text(text) => Value::Text(text),
            });
        }
        let got = literal.json_kind();
        coerce(&mut literal, Type::Scalar(kind))
            .map_err(|_| mismatch(key, operator, kind.name(), got))?;
        Ok(literal)
    }

    /// A list of scalars. `In` takes a bare scalar too when the attribute is an array.
    fn list(
        &self,
        key: &str,
        operator: &str,
        json: &Json,
        field: Field,
        ty: Type,
    ) -> Result<Filter> {
        let mut list = match json {
            Json::Array(items) => items
                .iter()
                .map(|item| self.literal(key, operator, item, ty))
                .collect::<Result<Vec<_>>>()?,
            scalar if operator == "In" && matches!(ty, Type::Array(_)) => {
                vec![self.literal(key, operator, scalar, ty)?]
            }
            _ => {
                let (Type::Scalar(kind) | Type::Array(kind)) = ty else {
                    return Err(mismatch(key, operator, "an array", &ty.name()));
                };
                let expected = format!("[]{}", kind.name());
                return Err(mismatch(key, operator, &expected, json_kind(json)));
            }
        };
        list.sort_by(|a, b| a.view().compare(b.view()));
        Ok(Filter::In(field, list))
    }
}

fn json_kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "map",
    }
}

fn mismatch(key: &str, operator: &str, expected: &str, got: &str) -> Refusal {
    Refusal::bad(format_args!(
        "filter error in key `{key}`: type mismatch, {operator} expects {expected}, but got {got}"
    ))
}

/// Orders two documents by one attribute or id, nulls lowest.
pub(crate) fn compare_by(
    attribute: Option<usize>,
    a: (&Id, &[Value]),
    b: (&Id, &[Value]),
) -> Ordering {
    let field = attribute.map_or(Field::Id, Field::Attribute);
    view(field, a.0, a.1).compare(view(field, b.0, b.1))
}
