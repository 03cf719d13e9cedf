//! The SQL names of Arrow types.

use arrow::datatypes::{DataType, Field, TimeUnit};

/// The SQL name of a column's type: `BIGINT`, `DECIMAL(10, 2)`, `VARCHAR[]`. Types without a name in SQL have
/// Arrow's.
pub fn sql_name(data_type: &DataType) -> String {
    let name = match data_type {
        DataType::Null => "NULL",
        DataType::Boolean => "BOOLEAN",
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INTEGER",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INTEGER UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Float32 => "REAL",
        DataType::Float64 => "DOUBLE",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "BYTEA"
        }
        DataType::Date32 | DataType::Date64 => "DATE",
        DataType::Time32(_) | DataType::Time64(_) => "TIME",
        DataType::Interval(_) => "INTERVAL",
        DataType::Timestamp(unit, zone) => return timestamp(*unit, zone.as_deref()),
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => return format!("DECIMAL({precision}, {scale})"),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => return format!("{}[]", sql_name(item.data_type())),
        DataType::Struct(fields) => {
            let fields: Vec<_> = fields.iter().map(|field| named(field)).collect();
            return format!("STRUCT<{}>", fields.join(", "));
        }
        DataType::Dictionary(_, values) => return sql_name(values),
        DataType::RunEndEncoded(_, values) => return sql_name(values.data_type()),
        other => return other.to_string(),
    };
    name.to_string()
}

fn named(field: &Field) -> String {
    format!("{} {}", field.name(), sql_name(field.data_type()))
}

/// `TIMESTAMP` has nanoseconds; other units are written as digits of the second.
fn timestamp(unit: TimeUnit, zone: Option<&str>) -> String {
    let digits = match unit {
        TimeUnit::Second => "(0)",
        TimeUnit::Millisecond => "(3)",
        TimeUnit::Microsecond => "(6)",
        TimeUnit::Nanosecond => "",
    };
    match zone {
        Some(_) => format!("TIMESTAMP{digits} WITH TIME ZONE"),
        None => format!("TIMESTAMP{digits}"),
    }
}
