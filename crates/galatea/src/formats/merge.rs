//! One schema for several files.
//!
//! The table has the columns of all files, in the order of their first occurrence. Each has a type that
//! represents the values of every file. If a file lacks a column, the column is NULL there. Times of day are
//! in nanoseconds, like those of SQL: DataFusion compares no times of different units.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, TimeUnit};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::binary::type_union_resolution;

/// A file's schema, and the file's name.
pub(super) struct Seen {
    pub(super) file: String,
    pub(super) schema: Schema,
}

/// The schema of a table of these files.
///
/// # Errors
/// No type represents all values of a column. The error names the column and two files.
pub(super) fn merged(mut files: Vec<Seen>) -> Result<Schema> {
    for seen in &mut files {
        seen.schema = with_times_of_sql(&seen.schema);
    }
    if let [one] = &files[..] {
        return Ok(one.schema.clone());
    }
    let metadata = files
        .iter()
        .flat_map(|seen| seen.schema.metadata().clone())
        .collect();
    let mut places: HashMap<String, usize> = HashMap::new();
    // Each field with the first file that has it, and the number of files that have it.
    let mut columns: Vec<(Field, String, usize)> = Vec::new();
    let count = files.len();
    for Seen { file, schema } in files {
        for field in schema.fields() {
            let Some(place) = places.get(field.name()) else {
                places.insert(field.name().clone(), columns.len());
                columns.push((field.as_ref().clone(), file.clone(), 1));
                continue;
            };
            let (known, first, seen) = &mut columns[*place];
            *seen += 1;
            match widened(known, field) {
                Some(wide) => *known = wide,
                None => {
                    return plan_err!(
                        "column '{}' is {} in '{first}' and {} in '{file}', and no type holds both\nhint: query \
                         the files separately, and convert the column with CAST(... AS ...)",
                        field.name(),
                        known.data_type(),
                        field.data_type()
                    );
                }
            }
        }
    }
    let fields = columns.into_iter().map(|(field, _, seen)| {
        let nullable = field.is_nullable() || seen < count;
        field.with_nullable(nullable)
    });
    Ok(Schema::new_with_metadata(fields.collect::<Vec<_>>(), metadata))
}

/// The schema, with times of day in nanoseconds.
fn with_times_of_sql(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Time32(_) | DataType::Time64(_) => {
            let field = field.as_ref().clone();
            Arc::new(field.with_data_type(DataType::Time64(TimeUnit::Nanosecond)))
        }
        _ => Arc::clone(field),
    });
    Schema::new_with_metadata(fields.collect::<Fields>(), schema.metadata().clone())
}

/// A field that represents the values of both.
fn widened(one: &Field, other: &Field) -> Option<Field> {
    let nullable = one.is_nullable() || other.is_nullable();
    if one.data_type() == other.data_type() {
        return Some(one.clone().with_nullable(nullable));
    }
    let data_type = wider(one.data_type(), other.data_type())?;
    Some(one.clone().with_data_type(data_type).with_nullable(nullable))
}

/// A type that represents the values of both without loss of digits, if one exists.
fn wider(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{
        Boolean, Date32, Date64, Dictionary, Float16, Float32, Float64, Int8, Int16, Int32, Int64, LargeUtf8,
        Null, Timestamp, UInt8, UInt16, UInt64, Utf8, Utf8View,
    };
    let small = |data_type: &DataType| matches!(data_type, Int8 | Int16 | UInt8 | UInt16);
    Some(match (one, other) {
        (Null, known) | (known, Null) => known.clone(),
        (Dictionary(_, one), other) => wider_or_same(one, other)?,
        (one, Dictionary(_, other)) => wider_or_same(one, other)?,
        (UInt64, Int8 | Int16 | Int32 | Int64) | (Int8 | Int16 | Int32 | Int64, UInt64) => {
            DataType::Decimal128(20, 0)
        }
        (integer, Float16 | Float32) | (Float16 | Float32, integer) if integer.is_integer() => {
            if small(integer) { Float32 } else { Float64 }
        }
        (Utf8View, Utf8 | LargeUtf8) | (Utf8 | LargeUtf8, Utf8View) => Utf8View,
        (Utf8, LargeUtf8) | (LargeUtf8, Utf8) => LargeUtf8,
        (Boolean, text @ (Utf8 | LargeUtf8 | Utf8View)) | (text @ (Utf8 | LargeUtf8 | Utf8View), Boolean) => {
            text.clone()
        }
        (Boolean, number) | (number, Boolean) if number.is_numeric() => Utf8,
        (Date32 | Date64, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date32 | Date64) => {
            Timestamp(*unit, zone.clone())
        }
        (Timestamp(one, zone), Timestamp(other, other_zone)) if zone == other_zone => {
            Timestamp(finer(*one, *other), zone.clone())
        }
        (time, number) | (number, time) if time.is_temporal() && number.is_numeric() => Utf8,
        (text @ (Utf8 | LargeUtf8 | Utf8View), scalar) | (scalar, text @ (Utf8 | LargeUtf8 | Utf8View))
            if scalar.is_numeric() || scalar.is_temporal() =>
        {
            text.clone()
        }
        (DataType::List(one), DataType::List(other)) => DataType::List(Arc::new(widened(one, other)?)),
        (DataType::Struct(one), DataType::Struct(other)) => DataType::Struct(widened_fields(one, other)?),
        (one, other) if one.is_nested() || other.is_nested() => return None,
        (one, other) => type_union_resolution(&[one.clone(), other.clone()])?,
    })
}

/// The union of the fields by name. A field of only one side is NULL in the other.
fn widened_fields(one: &Fields, other: &Fields) -> Option<Fields> {
    let mut fields = Vec::with_capacity(one.len());
    for field in one {
        fields.push(match other.find(field.name()) {
            Some((_, also)) => widened(field, also)?,
            None => field.as_ref().clone().with_nullable(true),
        });
    }
    let added = other.iter().filter(|field| one.find(field.name()).is_none());
    fields.extend(added.map(|field| field.as_ref().clone().with_nullable(true)));
    Some(fields.into())
}

fn wider_or_same(one: &DataType, other: &DataType) -> Option<DataType> {
    match one == other {
        true => Some(one.clone()),
        false => wider(one, other),
    }
}

fn finer(one: TimeUnit, other: TimeUnit) -> TimeUnit {
    let rank = |unit: TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    if rank(one) < rank(other) { other } else { one }
}

/// The schema, with strings in place of columns that have no values and therefore no type.
pub(super) fn without_nulls(schema: &Schema) -> Schema {
    Schema::new_with_metadata(typed(schema.fields()), schema.metadata().clone())
}

fn typed(fields: &Fields) -> Fields {
    let typed_field = |field: &FieldRef| {
        let data_type = match field.data_type() {
            DataType::Null => DataType::Utf8,
            DataType::List(element) => {
                DataType::List(Arc::clone(&typed(&Fields::from(vec![Arc::clone(element)]))[0]))
            }
            DataType::Struct(fields) => DataType::Struct(typed(fields)),
            known => known.clone(),
        };
        Arc::new(field.as_ref().clone().with_data_type(data_type))
    };
    fields.iter().map(typed_field).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(file: &str, columns: &[(&str, DataType)]) -> Seen {
        let fields = columns
            .iter()
            .map(|(name, data_type)| Field::new(*name, data_type.clone(), false));
        Seen {
            file: file.to_owned(),
            schema: Schema::new(fields.collect::<Vec<_>>()),
        }
    }

    #[test]
    fn merged_schema_has_all_columns_and_widest_types() {
        let schema = merged(vec![
            seen("a", &[("i", DataType::Int64), ("s", DataType::Utf8)]),
            seen(
                "b",
                &[
                    ("i", DataType::Int32),
                    ("z", DataType::Float32),
                    ("s", DataType::Int8),
                ],
            ),
        ]);
        let schema = schema.expect("a schema");
        let columns: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| {
                (
                    field.name().as_str(),
                    field.data_type().clone(),
                    field.is_nullable(),
                )
            })
            .collect();
        assert_eq!(
            columns,
            [
                ("i", DataType::Int64, false),
                ("s", DataType::Utf8, false),
                ("z", DataType::Float32, true)
            ]
        );
    }

    #[test]
    fn widened_types_lose_no_digits() {
        let wide = |one: DataType, other: DataType| {
            assert_eq!(wider(&one, &other), wider(&other, &one), "{one} {other}");
            wider(&one, &other)
        };
        assert_eq!(wide(DataType::Int64, DataType::Float64), Some(DataType::Float64));
        assert_eq!(wide(DataType::Int32, DataType::Float32), Some(DataType::Float64));
        assert_eq!(
            wide(DataType::UInt64, DataType::Int64),
            Some(DataType::Decimal128(20, 0))
        );
        assert_eq!(wide(DataType::UInt32, DataType::Int64), Some(DataType::Int64));
        assert_eq!(
            wide(DataType::Decimal128(10, 2), DataType::Decimal128(12, 1)),
            Some(DataType::Decimal128(13, 2))
        );
        assert_eq!(wide(DataType::Boolean, DataType::Int64), Some(DataType::Utf8));
        assert_eq!(wide(DataType::Date32, DataType::Int64), Some(DataType::Utf8));
    }

    #[test]
    fn incompatible_column_types_error_names_the_files() {
        let list = DataType::new_list(DataType::Int64, true);
        let error = merged(vec![
            seen("a", &[("i", DataType::Int64)]),
            seen("b", &[("i", list)]),
        ]);
        let error = error.expect_err("no type").to_string();
        assert!(
            error.contains("column 'i' is Int64 in 'a'") && error.contains("in 'b'"),
            "{error}"
        );
    }
}
