//! Which attribute each column becomes, decided once from types and settings, never from values.

use mz_sink_guest::{ColumnType, Error, View};

use crate::config::{Config, Numeric, SignedKeys, Timestamps};

/// Attributes that the sink keeps for itself in every document.
const RESERVED: [&str; 4] = ["mz_timestamp", "generation", "deleted", "written_at"];

/// Longest attribute name, in bytes (API limit).
const MAX_NAME: usize = 128;

/// How a column's values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A JSON boolean; type `bool`.
    Bool,
    /// A JSON integer; type `int`.
    Int,
    /// A JSON integer; type `uint`.
    Uint,
    /// A JSON number; type `float`.
    Float,
    /// `numeric` text as a JSON number; type `float`.
    NumericFloat,
    /// Materialize's own text form; type `string`.
    Text,
    /// Type `uuid`.
    Uuid,
}

/// One column as an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Index of the column.
    pub column: usize,
    /// How values are written.
    pub form: Form,
    /// Whether it can be filtered on; limits text to 4 KiB.
    pub filterable: bool,
}

/// What document ids are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdForm {
    /// The key itself, as an unsigned integer.
    Uint,
    /// The key itself, a uuid.
    Uuid,
    /// A string made from the key.
    String,
}

/// How rows become documents.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// What ids are.
    pub id: IdForm,
    /// Key columns.
    pub key: Vec<usize>,
    /// All columns but the one that is the id.
    pub attributes: Vec<Attribute>,
    /// Types of all columns, by index.
    pub types: Vec<ColumnType>,
    /// The `schema` that goes with every write, as JSON.
    pub schema: String,
}

impl Mapping {
    /// Decides the mapping of a view.
    ///
    /// # Errors
    /// [`Error::Permanent`] when names collide or settings name columns that are not there.
    pub fn new(view: &View, config: &Config) -> Result<Self, Error> {
        let bad = |message: String| Error::permanent("bad-mapping", message);
        let key: Vec<usize> = view.key.iter().map(|i| *i as usize).collect();
        if key.is_empty() {
            return Err(bad(format!(
                "view {:?} has no key: set source.key to the columns that identify a row",
                view.name
            )));
        }
        for name in &config.filterable {
            if !view.columns.iter().any(|c| c.name == *name) {
                return Err(bad(format!(
                    "sink.filterable names {name:?}, which is not a column of view {:?}",
                    view.name
                )));
            }
        }
        let mut attributes = Vec::new();
        for (index, column) in view.columns.iter().enumerate() {
            let name = &column.name;
            if name == "id" {
                if key == [index] {
                    // It is the document's id; long ones are hashed, so text is kept beside it.
                    if id_form(&column.ty, config) == IdForm::String && is_text(&column.ty) {
                        attributes.push(Attribute {
                            name: "id_text".into(),
                            column: index,
                            form: Form::Text,
                            filterable: false,
                        });
                    }
                    continue;
                }
                return Err(bad(format!(
                    "view {:?} has a column \"id\" that is not its whole key, but turbopuffer \
                     keeps that name for the document id: rename the column in the view",
                    view.name
                )));
            }
            if RESERVED.contains(&name.as_str()) || name.starts_with('$') || name.len() > MAX_NAME {
                return Err(bad(format!(
                    "view {:?} has a column {name:?}, a name that the sink or turbopuffer keeps \
                     for itself (or longer than {MAX_NAME} bytes): rename it in the view",
                    view.name
                )));
            }
            let form = form(&column.ty, config);
            attributes.push(Attribute {
                name: name.clone(),
                column: index,
                form,
                filterable: form != Form::Text || config.filterable.contains(name),
            });
        }
        for (i, attribute) in attributes.iter().enumerate() {
            if attributes[..i].iter().any(|a| a.name == attribute.name) {
                return Err(bad(format!(
                    "two columns of view {:?} would be the attribute {:?}: rename one in the view",
                    view.name, attribute.name
                )));
            }
        }
        let id = match key.as_slice() {
            [only] => id_form(&view.columns[*only].ty, config),
            _ => IdForm::String,
        };
        Ok(Self {
            id,
            key,
            schema: schema(id, &attributes),
            attributes,
            types: view.columns.iter().map(|c| c.ty.clone()).collect(),
        })
    }
}

fn is_text(ty: &ColumnType) -> bool {
    form_of_type(ty) == Form::Text
        && !matches!(
            ty,
            ColumnType::Numeric(_) | ColumnType::Date | ColumnType::Time
        )
}

fn id_form(ty: &ColumnType, config: &Config) -> IdForm {
    use ColumnType as T;
    match ty {
        T::Uint16 | T::Uint32 | T::Uint64 | T::MzTimestamp => IdForm::Uint,
        T::Int16 | T::Int32 | T::Int64 if config.signed_keys == SignedKeys::Uint => IdForm::Uint,
        T::Uuid => IdForm::Uuid,
        _ => IdForm::String,
    }
}

fn form_of_type(ty: &ColumnType) -> Form {
    use ColumnType as T;
    match ty {
        T::Boolean => Form::Bool,
        T::Int16 | T::Int32 | T::Int64 => Form::Int,
        T::Uint16 | T::Uint32 | T::Uint64 | T::MzTimestamp => Form::Uint,
        T::Float32 | T::Float64 => Form::Float,
        T::Uuid => Form::Uuid,
        T::Numeric(_)
        | T::Text
        | T::Bytes
        | T::Json
        | T::Date
        | T::Time
        | T::Timestamp
        | T::TimestampTz
        | T::Interval
        | T::Other(_) => Form::Text,
    }
}

fn form(ty: &ColumnType, config: &Config) -> Form {
    match ty {
        ColumnType::Numeric(_) if config.numeric == Numeric::Float => Form::NumericFloat,
        ColumnType::Timestamp | ColumnType::TimestampTz
            if config.timestamps == Timestamps::Micros =>
        {
            Form::Int
        }
        other => form_of_type(other),
    }
}

fn schema(id: IdForm, attributes: &[Attribute]) -> String {
    let mut schema = serde_json::Map::new();
    let id = match id {
        IdForm::Uint => "uint",
        IdForm::Uuid => "uuid",
        IdForm::String => "string",
    };
    for (name, ty) in [
        ("id", id),
        ("mz_timestamp", "uint"),
        ("generation", "uint"),
        ("deleted", "bool"),
        ("written_at", "uint"),
    ] {
        schema.insert(name.into(), ty.into());
    }
    for attribute in attributes {
        let ty = match attribute.form {
            Form::Bool => "bool",
            Form::Int => "int",
            Form::Uint => "uint",
            Form::Float | Form::NumericFloat => "float",
            Form::Text => "string",
            Form::Uuid => "uuid",
        };
        schema.insert(
            attribute.name.clone(),
            serde_json::json!({ "type": ty, "filterable": attribute.filterable }),
        );
    }
    serde_json::Value::Object(schema).to_string()
}
