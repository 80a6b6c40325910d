//! What each column type can become, and how its values are written.

use mz_sink_guest::ColumnType;
use schemars::JsonSchema;
use serde::Deserialize;

/// An attribute's type in turbopuffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AttributeType {
    /// Text, exact for every type.
    String,
    /// Signed 64 bits.
    Int,
    /// Unsigned 64 bits; a row with a negative value is refused.
    Uint,
    /// 64 bits; numeric values are rounded, a row with NaN or an infinity is refused.
    Float,
    /// True or false.
    Bool,
    /// 128 bits.
    Uuid,
    /// Milliseconds: microseconds are lost; a row outside the years 1 to 9999 is refused.
    Datetime,
}

/// How a value is written into JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Bool,
    /// Digits.
    Integer,
    /// Digits, never negative.
    Unsigned,
    Float,
    /// A float with 32 bits: fewer digits say it exactly.
    Float32,
    /// Decimal text as a number.
    NumericAsFloat,
    /// Text that may need escapes.
    Text,
    /// The text of the type, which needs none.
    Plain(PlainText),
    /// ISO 8601.
    Datetime,
    /// An array or list of as many numbers.
    Vector {
        dimensions: u32,
    },
}

/// Types that do not arrive as text. Their text has nothing that JSON escapes: Materialize's own
/// form, except that booleans are `true` and `false` and bytes are base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlainText {
    Bool,
    Integer,
    Float,
    Float32,
    Date,
    Time,
    Timestamp,
    TimestampTz,
    Base64,
}

/// The attribute type that keeps every value exactly, and whether values may be long.
pub(crate) fn usual(ty: &ColumnType) -> (AttributeType, bool) {
    match ty {
        ColumnType::Boolean => (AttributeType::Bool, false),
        ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64 => (AttributeType::Int, false),
        ColumnType::Uint16 | ColumnType::Uint32 | ColumnType::Uint64 | ColumnType::MzTimestamp => {
            (AttributeType::Uint, false)
        }
        ColumnType::Float32 | ColumnType::Float64 => (AttributeType::Float, false),
        ColumnType::Uuid => (AttributeType::Uuid, false),
        ColumnType::Numeric(_)
        | ColumnType::Date
        | ColumnType::Time
        | ColumnType::Timestamp
        | ColumnType::TimestampTz
        | ColumnType::Interval => (AttributeType::String, false),
        ColumnType::Text | ColumnType::Json | ColumnType::Bytes | ColumnType::Other(_) => {
            (AttributeType::String, true)
        }
    }
}

/// The way from a column type to an attribute type, if there is one.
pub(crate) fn encoding(ty: &ColumnType, attribute: AttributeType) -> Option<Encoding> {
    use AttributeType as To;
    Some(match (ty, attribute) {
        (_, To::String) => plain_text(ty).map_or(Encoding::Text, Encoding::Plain),
        (ColumnType::Boolean, To::Bool) => Encoding::Bool,
        (ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64, To::Int | To::Float)
        | (ColumnType::Uint16 | ColumnType::Uint32, To::Int | To::Uint | To::Float)
        | (ColumnType::Uint64 | ColumnType::MzTimestamp, To::Uint | To::Float) => Encoding::Integer,
        (ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64, To::Uint) => Encoding::Unsigned,
        (ColumnType::Float64, To::Float) => Encoding::Float,
        (ColumnType::Float32, To::Float) => Encoding::Float32,
        (ColumnType::Numeric(_), To::Float) => Encoding::NumericAsFloat,
        (ColumnType::Uuid, To::Uuid) => Encoding::Text,
        (ColumnType::Timestamp | ColumnType::TimestampTz, To::Datetime) => Encoding::Datetime,
        _ => return None,
    })
}

/// The text this sink makes of a type; none when it arrives as text.
pub(crate) fn plain_text(ty: &ColumnType) -> Option<PlainText> {
    Some(match ty {
        ColumnType::Boolean => PlainText::Bool,
        ColumnType::Int16
        | ColumnType::Int32
        | ColumnType::Int64
        | ColumnType::Uint16
        | ColumnType::Uint32
        | ColumnType::Uint64
        | ColumnType::MzTimestamp => PlainText::Integer,
        ColumnType::Float32 => PlainText::Float32,
        ColumnType::Float64 => PlainText::Float,
        ColumnType::Date => PlainText::Date,
        ColumnType::Time => PlainText::Time,
        ColumnType::Timestamp => PlainText::Timestamp,
        ColumnType::TimestampTz => PlainText::TimestampTz,
        ColumnType::Bytes => PlainText::Base64,
        ColumnType::Numeric(_)
        | ColumnType::Text
        | ColumnType::Uuid
        | ColumnType::Json
        | ColumnType::Interval
        | ColumnType::Other(_) => return None,
    })
}

pub(crate) fn type_name(ty: AttributeType) -> &'static str {
    match ty {
        AttributeType::String => "string",
        AttributeType::Int => "int",
        AttributeType::Uint => "uint",
        AttributeType::Float => "float",
        AttributeType::Bool => "bool",
        AttributeType::Uuid => "uuid",
        AttributeType::Datetime => "datetime",
    }
}
