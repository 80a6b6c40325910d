//! What the catalog says about the object, and whether it is still the one in the checkpoint.

mod error;
mod fitness;
mod identity;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub use error::CatalogError;
pub use identity::{Change, IdentityPolicy, Reconciled, check_identity};

use crate::checkpoint::ViewIdentity;
use crate::statements::{self, identifier, literal};
use crate::types::{CLOSED, Column, ColumnType, Envelope, Frontier, Timestamp, View};

/// The history window of an object without `RETAIN HISTORY`.
const DEFAULT_RETENTION: Duration = Duration::from_secs(1);

/// The rows that a catalog query gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Values as text, `None` for NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

impl Table {
    fn text(&self, row: usize, column: usize) -> Option<&str> {
        self.rows.get(row)?.get(column)?.as_deref()
    }
}

/// What the catalog knows about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Catalog id, such as `u7`.
    pub id: String,
    /// Database, schema and name.
    pub full_name: [String; 3],
    /// Its shard, where it has storage.
    pub shard: Option<String>,
    /// How far back a resume can reach.
    pub retention: Duration,
    /// An index on it in the cluster of the session.
    pub index: Option<String>,
    /// The times at which it can be read.
    pub frontiers: Option<Frontiers>,
    /// Whether its times are not milliseconds since the epoch, but from a source with
    /// `ENVELOPE MATERIALIZE`.
    pub has_own_timeline: bool,
    /// Columns with their SQL types.
    pub columns: Vec<(Column, String)>,
}

/// The times at which an object can be read, as of a moment ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frontiers {
    /// The earliest AS OF.
    pub read: Timestamp,
    /// Everything below it is known; [`CLOSED`] when nothing can change
    /// any more.
    pub write: Frontier,
}

/// Looks an object up, one query at a time.
#[derive(Clone, Debug)]
pub struct LookUp {
    name: String,
    parts: Vec<String>,
    kind: String,
    /// Whether what has no history of its own will do, too.
    is_live: bool,
    found: Option<Object>,
    step: Step,
    /// How often another object had the name by the time that all was known.
    again: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Name,
    Columns,
    Shard,
    Retention,
    Index,
    Frontiers,
    Timeline,
    /// The name once more: the answers are of different moments.
    Confirm,
}

/// A name that changes its object this often within a look-up is given up.
const MAX_AGAIN: u32 = 5;

impl LookUp {
    /// Starts looking up `name`: `object`, `schema.object` or `database.schema.object`.
    ///
    /// # Errors
    /// [`CatalogError::BadName`].
    pub fn new(name: &str) -> Result<Self, CatalogError> {
        Ok(Self {
            name: name.into(),
            parts: split_name(name).ok_or_else(|| CatalogError::BadName(name.into()))?,
            kind: String::new(),
            is_live: false,
            found: None,
            step: Step::Name,
            again: 0,
        })
    }

    /// The same for a subscription that is never resumed: a plain view will do, too.
    ///
    /// # Errors
    /// [`CatalogError::BadName`].
    pub fn live(name: &str) -> Result<Self, CatalogError> {
        let look_up = Self::new(name)?;
        Ok(Self {
            is_live: true,
            ..look_up
        })
    }

    fn id(&self) -> &str {
        self.found.as_ref().map_or("", |o| &o.id)
    }

    /// The query to run now.
    pub fn query(&self) -> String {
        let id = literal(self.id());
        match self.step {
            Step::Name | Step::Confirm => {
                let columns = ["name", "schema_name", "database_name"];
                let conditions: Vec<_> = columns
                    .iter()
                    .zip(self.parts.iter().rev())
                    .map(|(column, part)| format!("{column} = {}", literal(part)))
                    .collect();
                format!(
                    "SELECT id, object_type, database_name, schema_name, name \
                     FROM mz_internal.mz_object_fully_qualified_names WHERE {} ORDER BY id",
                    conditions.join(" AND ")
                )
            }
            Step::Columns => format!(
                "SELECT name, nullable, type, type_mod FROM mz_catalog.mz_columns \
                 WHERE id = {id} ORDER BY position"
            ),
            // A replacement leaves several global ids on one shard.
            Step::Shard => format!(
                "SELECT DISTINCT s.shard_id FROM mz_internal.mz_object_global_ids g \
                 JOIN mz_internal.mz_storage_shards s ON s.object_id = g.global_id \
                 WHERE g.id = {id} ORDER BY s.shard_id"
            ),
            Step::Retention => format!(
                "SELECT strategy, value FROM mz_internal.mz_history_retention_strategies \
                 WHERE id = {id}"
            ),
            // With the clusters that have none, to see whether the session's is there.
            Step::Index => format!(
                "SELECT i.name, c.name FROM mz_catalog.mz_clusters c \
                 LEFT JOIN mz_catalog.mz_indexes i ON i.cluster_id = c.id AND i.on_id = {id} \
                 ORDER BY c.name"
            ),
            Step::Frontiers => statements::frontiers([self.id()]),
            Step::Timeline => statements::own_timeline(self.id()),
        }
    }

    /// Takes the answer to [`Self::query`]; gives the object after the last one. `cluster` is
    /// the cluster of the session.
    ///
    /// # Errors
    /// When the object cannot be subscribed to.
    pub fn answer(&mut self, table: &Table, cluster: &str) -> Result<Option<Object>, CatalogError> {
        match self.step {
            Step::Name => {
                self.found = Some(self.identify(table)?);
                self.step = Step::Columns;
            }
            Step::Columns => {
                self.object()?.columns = columns(table)?;
                // An object that has gone since has no columns.
                self.step = match table.rows.is_empty() {
                    true => Step::Confirm,
                    false => Step::Shard,
                };
            }
            Step::Shard => {
                self.object()?.shard = table.text(0, 0).map(Into::into);
                self.step = Step::Retention;
            }
            Step::Retention => {
                if let Some(value) = table.text(0, 1) {
                    let millis = value
                        .parse()
                        .map_err(|_| CatalogError::Shape("mz_history_retention_strategies"))?;
                    self.object()?.retention = Duration::from_millis(millis);
                }
                self.step = Step::Index;
            }
            Step::Index => {
                self.object()?.index = index(table, cluster)?;
                self.step = Step::Frontiers;
            }
            Step::Frontiers => {
                let id = self.id().to_string();
                self.object()?.frontiers = frontiers(table)?.remove(&id);
                self.step = Step::Timeline;
            }
            Step::Timeline => {
                self.object()?.has_own_timeline = !table.rows.is_empty();
                self.step = Step::Confirm;
            }
            Step::Confirm => {
                let still = self.identify(table)?;
                let found = self.object()?;
                if still.id == found.id && !found.columns.is_empty() {
                    return Ok(self.found.take());
                }
                self.again += 1;
                if self.again > MAX_AGAIN {
                    return Err(CatalogError::Shape("mz_object_fully_qualified_names"));
                }
                self.found = Some(still);
                self.step = Step::Columns;
            }
        }
        Ok(None)
    }

    fn object(&mut self) -> Result<&mut Object, CatalogError> {
        self.found
            .as_mut()
            .ok_or(CatalogError::Shape("mz_object_fully_qualified_names"))
    }

    fn identify(&mut self, table: &Table) -> Result<Object, CatalogError> {
        let found: Vec<_> = (0..table.rows.len())
            .map(|row| {
                let text = |column| table.text(row, column).unwrap_or_default().to_string();
                (text(0), text(1), [text(2), text(3), text(4)])
            })
            .collect();
        match found.as_slice() {
            [] => Err(CatalogError::Unknown(self.name.clone())),
            [(id, kind, full_name)] => {
                self.kind = kind.clone();
                let remedy = match kind.as_str() {
                    "table" | "source" | "materialized-view" => None,
                    "view" if self.is_live => None,
                    "view" => {
                        Some("create a materialized view of it WITH (RETAIN HISTORY FOR '1h')")
                    }
                    "index" => Some("name the object that the index is on"),
                    _ => Some("name one of those"),
                };
                if let Some(remedy) = remedy {
                    return Err(CatalogError::NotDurable {
                        name: full_name.join("."),
                        kind: match kind.as_str() {
                            "view" => "plain view".into(),
                            other => other.into(),
                        },
                        remedy: remedy.into(),
                    });
                }
                Ok(Object {
                    id: id.clone(),
                    full_name: full_name.clone(),
                    shard: None,
                    retention: DEFAULT_RETENTION,
                    index: None,
                    frontiers: None,
                    has_own_timeline: false,
                    columns: Vec::new(),
                })
            }
            several => Err(CatalogError::Ambiguous {
                name: self.name.clone(),
                found: several
                    .iter()
                    .map(|(_, _, name)| name.join("."))
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
        }
    }

    /// The object's kind as SQL writes it, once known.
    pub fn sql_kind(&self) -> String {
        self.kind.replace('-', " ").to_uppercase()
    }
}

impl Object {
    /// The full name, for messages and checkpoints.
    pub fn name(&self) -> String {
        self.full_name.join(".")
    }

    /// The full name, quoted where SQL needs it.
    pub fn sql_name(&self) -> String {
        self.full_name.each_ref().map(|p| identifier(p)).join(".")
    }

    /// The view that a sink sees.
    ///
    /// # Errors
    /// When the key is missing or names a column that is not there.
    pub fn view(
        &self,
        name: &str,
        key: &[String],
        envelope: Envelope,
    ) -> Result<View, CatalogError> {
        let names = || {
            let all: Vec<_> = self.columns.iter().map(|(c, _)| c.name.clone()).collect();
            all.join(", ")
        };
        if envelope == Envelope::Upsert && key.is_empty() {
            return Err(CatalogError::NoKey {
                object: self.name(),
                columns: names(),
            });
        }
        let key = key
            .iter()
            .map(|column| {
                self.columns
                    .iter()
                    .position(|(c, _)| c.name == *column)
                    .ok_or_else(|| CatalogError::NoKeyColumn {
                        object: self.name(),
                        column: column.clone(),
                        columns: names(),
                    })
            })
            .collect::<Result<_, _>>()?;
        Ok(View {
            name: name.into(),
            columns: self.columns.iter().map(|(c, _)| c.clone()).collect(),
            key,
        })
    }

    /// What the checkpoint records of it.
    pub fn identity(&self, view: &View, envelope: Envelope) -> ViewIdentity {
        ViewIdentity {
            name: view.name.clone(),
            object: self.name(),
            id: self.id.clone(),
            shard: self.shard.clone(),
            envelope,
            key: view
                .key
                .iter()
                .map(|i| view.columns[*i].name.clone())
                .collect(),
            columns: self
                .columns
                .iter()
                .map(|(c, ty)| (c.name.clone(), ty.clone()))
                .collect(),
        }
    }
}

/// Reads the answer to [`statements::frontiers`]: by catalog id, those of the newest global id.
///
/// # Errors
/// [`CatalogError::Shape`].
pub fn frontiers(table: &Table) -> Result<BTreeMap<String, Frontiers>, CatalogError> {
    let shape = || CatalogError::Shape("mz_frontiers");
    let time = |text: &str| text.parse().map_err(|_| shape());
    let mut newest: BTreeMap<String, (u64, Frontiers)> = BTreeMap::new();
    for row in 0..table.rows.len() {
        let id = table.text(row, 0).ok_or_else(shape)?;
        let global = table.text(row, 1).ok_or_else(shape)?;
        let age = global.trim_start_matches(char::is_alphabetic).parse();
        let age = age.map_err(|_| shape())?;
        // An object without a read frontier cannot be read at any time.
        let read = table.text(row, 2).map_or(Ok(CLOSED), time)?;
        let write = table.text(row, 3).map_or(Ok(CLOSED), time)?;
        let found = (age, Frontiers { read, write });
        let known = newest.entry(id.into()).or_insert(found);
        if known.0 < age {
            *known = found;
        }
    }
    let frontiers = newest.into_iter().map(|(id, (_, found))| (id, found));
    Ok(frontiers.collect())
}

/// Database, schema and name, by catalog id.
pub type Names = BTreeMap<String, [String; 3]>;

/// Reads the answer to [`statements::names`]. An id that is missing was dropped.
///
/// # Errors
/// [`CatalogError::Shape`].
pub fn names(table: &Table) -> Result<Names, CatalogError> {
    let name_of = |row| {
        let text = |column| table.text(row, column).map(str::to_owned);
        Some((text(0)?, [text(1)?, text(2)?, text(3)?]))
    };
    let names: Option<Names> = (0..table.rows.len()).map(name_of).collect();
    names.ok_or(CatalogError::Shape("mz_object_fully_qualified_names"))
}

/// The index that is in the cluster, which must be there.
fn index(table: &Table, cluster: &str) -> Result<Option<String>, CatalogError> {
    let rows = || 0..table.rows.len();
    let in_cluster = |row: &usize| table.text(*row, 1) == Some(cluster);
    if !rows().any(|row| in_cluster(&row)) {
        let known = rows().filter_map(|row| table.text(row, 1));
        // Nothing of a user runs in the system's own.
        let known: BTreeSet<_> = known.filter(|name| !name.starts_with("mz_")).collect();
        return Err(CatalogError::NoCluster {
            name: cluster.into(),
            known: known.into_iter().collect::<Vec<_>>().join(", "),
        });
    }
    let index = rows().filter(in_cluster).find_map(|row| table.text(row, 0));
    Ok(index.map(Into::into))
}

fn columns(table: &Table) -> Result<Vec<(Column, String)>, CatalogError> {
    (0..table.rows.len())
        .map(|row| {
            let text = |column| {
                table
                    .text(row, column)
                    .ok_or(CatalogError::Shape("mz_columns"))
            };
            let ty = text(2)?;
            let type_mod = text(3)?
                .parse()
                .map_err(|_| CatalogError::Shape("mz_columns"))?;
            let column = Column {
                name: text(0)?.into(),
                ty: column_type(ty, type_mod),
                nullable: text(1)? == "t",
            };
            Ok((column, ty.to_string()))
        })
        .collect()
}

/// The type that the catalog calls `name`. `numeric` without a fixed scale has scale 39 there.
pub fn column_type(name: &str, type_mod: i64) -> ColumnType {
    use ColumnType as T;
    match name {
        "boolean" => T::Boolean,
        "smallint" => T::Int16,
        "integer" => T::Int32,
        "bigint" => T::Int64,
        "uint2" => T::Uint16,
        "uint4" | "oid" => T::Uint32,
        "uint8" => T::Uint64,
        "real" => T::Float32,
        "double precision" => T::Float64,
        "numeric" => {
            let scale = (type_mod - 4) & 0x7ff;
            T::Numeric((type_mod >= 4 && scale < 39).then_some(scale as u8))
        }
        "text" | "character varying" | "character" => T::Text,
        "bytea" => T::Bytes,
        "uuid" => T::Uuid,
        "jsonb" => T::Json,
        "date" => T::Date,
        "time" => T::Time,
        "timestamp without time zone" => T::Timestamp,
        "timestamp with time zone" => T::TimestampTz,
        "interval" => T::Interval,
        "mz_timestamp" => T::MzTimestamp,
        other => T::Other(other.into()),
    }
}

/// Splits a name at dots outside quotes, folding what is unquoted to lower case as SQL does.
fn split_name(name: &str) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut chars = name.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        let part = parts.last_mut()?;
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                part.push('"');
            }
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            c if quoted => part.push(c),
            c if c.is_whitespace() => return None,
            c => part.extend(c.to_lowercase()),
        }
    }
    (!quoted && parts.len() <= 3 && parts.iter().all(|p| !p.is_empty())).then_some(parts)
}
