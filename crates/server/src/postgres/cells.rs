//! Values of batches in the text and the binary format of the protocol.
//!
//! arrow-pg encodes most types. This module has those that it encodes otherwise than PostgreSQL or not at
//! all: decimals of all lengths, infinity, UUIDs, and NULL of intervals.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Field, Float32Type, Float64Type,
    UInt64Type,
};
use arrow_pg::datatypes::field_into_pg_type;
use arrow_pg::encoder::{Encoder, encode_value};
use bytes::{BufMut, BytesMut};
use pgwire::api::Type;
use pgwire::api::results::{FieldFormat, FieldInfo};
use pgwire::error::PgWireResult;
use pgwire::messages::data::DataRow;
use pgwire::types::ToSqlText;
use postgres_types::{IsNull, Kind, ToSql};

use super::errors::error_state;
use super::uuid_text::uuid_text;

/// The name of the extension type of UUIDs.
const UUID: &str = "arrow.uuid";

/// The type of the protocol of a column; `None` for types that it does not have.
pub(super) fn wire_type(field: &Arc<Field>) -> Option<Type> {
    match field.data_type() {
        // Numbers of rows and lengths are unsigned, and clients expect int8.
        DataType::UInt64 => Some(Type::INT8),
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal256(..) => Some(Type::NUMERIC),
        DataType::FixedSizeBinary(16) if field.extension_type_name() == Some(UUID) => Some(Type::UUID),
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            match (element.data_type(), wire_type(element)?) {
                (DataType::UInt64, _) => Some(Type::INT8_ARRAY),
                (_, Type::NUMERIC) => Some(Type::NUMERIC_ARRAY),
                (_, Type::UUID) => Some(Type::UUID_ARRAY),
                _ => field_into_pg_type(field).ok(),
            }
        }
        _ => field_into_pg_type(field).ok(),
    }
}

/// The rows of a batch.
pub(super) fn rows(
    batch: RecordBatch,
    columns: Arc<Vec<FieldInfo>>,
) -> impl Iterator<Item = PgWireResult<DataRow>> + Send {
    let mut size = 0;
    (0..batch.num_rows()).map(move |row| {
        let mut data = BytesMut::with_capacity(size);
        let schema = batch.schema_ref();
        for ((array, field), column) in batch.columns().iter().zip(schema.fields()).zip(columns.iter()) {
            put_sized(&mut data, |out| put(array, row, field, column, out))?;
        }
        size = data.len();
        let width = i16::try_from(columns.len()).unwrap_or(i16::MAX);
        Ok(DataRow::new(data, width))
    })
}

/// Writes a value after its size, which is -1 for NULL.
fn put_sized(
    out: &mut BytesMut,
    value: impl FnOnce(&mut BytesMut) -> PgWireResult<IsNull>,
) -> PgWireResult<()> {
    let begin = out.len();
    out.put_i32(-1);
    if matches!(value(out)?, IsNull::No) {
        let size = i32::try_from(out.len() - begin - 4)
            .map_err(|_| error_state("54000", "a value exceeds the maximum of 2 GiB"))?;
        out[begin..begin + 4].copy_from_slice(&size.to_be_bytes());
    }
    Ok(())
}

/// Takes the bytes of arrow-pg.
struct Captured<'a> {
    out: &'a mut BytesMut,
    is_null: bool,
}

impl Encoder for Captured<'_> {
    type Item = ();

    fn encode_field<T>(&mut self, value: &T, column: &FieldInfo) -> PgWireResult<()>
    where
        T: ToSql + ToSqlText + Sized,
    {
        let is_null = match column.format() {
            FieldFormat::Text => value.to_sql_text(column.datatype(), self.out, column.format_options())?,
            FieldFormat::Binary => value.to_sql(column.datatype(), self.out)?,
        };
        self.is_null = matches!(is_null, IsNull::Yes);
        Ok(())
    }

    fn take_row(&mut self) {}
}

/// Writes a value without its size.
fn put(
    array: &ArrayRef,
    row: usize,
    field: &Field,
    column: &FieldInfo,
    out: &mut BytesMut,
) -> PgWireResult<IsNull> {
    if array.is_null(row) {
        return Ok(IsNull::Yes);
    }
    let is_text = column.format() == FieldFormat::Text;
    match array.data_type() {
        DataType::UInt64 => {
            let value = array.as_primitive::<UInt64Type>().value(row);
            match i64::try_from(value) {
                _ if is_text => out.extend_from_slice(value.to_string().as_bytes()),
                Ok(value) => out.put_i64(value),
                Err(_) => {
                    return Err(error_state(
                        "22003",
                        format!(
                            "the value {value} is out of range for type bigint\nhint: cast the column to DECIMAL(20, 0)"
                        ),
                    ));
                }
            }
        }
        DataType::Float32 if is_text && !array.as_primitive::<Float32Type>().value(row).is_finite() => {
            let value = array.as_primitive::<Float32Type>().value(row);
            out.extend_from_slice(not_finite(f64::from(value)).as_bytes());
        }
        DataType::Float64 if is_text && !array.as_primitive::<Float64Type>().value(row).is_finite() => {
            let value = array.as_primitive::<Float64Type>().value(row);
            out.extend_from_slice(not_finite(value).as_bytes());
        }
        DataType::Decimal32(..) => {
            put_decimal(
                &array.as_primitive::<Decimal32Type>().value_as_string(row),
                is_text,
                out,
            );
        }
        DataType::Decimal64(..) => {
            put_decimal(
                &array.as_primitive::<Decimal64Type>().value_as_string(row),
                is_text,
                out,
            );
        }
        DataType::Decimal128(..) => {
            put_decimal(
                &array.as_primitive::<Decimal128Type>().value_as_string(row),
                is_text,
                out,
            );
        }
        DataType::Decimal256(..) => {
            put_decimal(
                &array.as_primitive::<Decimal256Type>().value_as_string(row),
                is_text,
                out,
            );
        }
        DataType::FixedSizeBinary(_) => {
            let value = array.as_fixed_size_binary().value(row);
            match uuid_text(value).filter(|_| *column.datatype() == Type::UUID) {
                Some(text) if is_text => out.extend_from_slice(text.as_bytes()),
                None if is_text => {
                    value.to_sql_text(&Type::BYTEA, out, column.format_options())?;
                }
                _ => out.extend_from_slice(value),
            }
        }
        DataType::List(element) => {
            put_list(&array.as_list::<i32>().value(row), element, column, out)?;
        }
        DataType::LargeList(element) => {
            put_list(&array.as_list::<i64>().value(row), element, column, out)?;
        }
        DataType::FixedSizeList(element, _) => {
            put_list(&array.as_fixed_size_list().value(row), element, column, out)?;
        }
        data_type => {
            let is_time = matches!(
                data_type,
                DataType::Timestamp(..) | DataType::Time64(_) | DataType::Time32(_)
            );
            let begin = out.len();
            let mut captured = Captured { out, is_null: false };
            encode_value(&mut captured, array, row, field, column)?;
            if captured.is_null {
                return Ok(IsNull::Yes);
            }
            if is_text && is_time {
                shorten_time(out, begin);
            }
        }
    }
    Ok(IsNull::No)
}

fn not_finite(value: f64) -> &'static str {
    match value {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    }
}

/// Removes zeros at the end of the fraction of a second, and of the offset of a zone.
fn shorten_time(out: &mut BytesMut, begin: usize) {
    const DATE: usize = 10;
    let text = String::from_utf8_lossy(&out[begin..]).into_owned();
    let zone = match text.get(DATE..).and_then(|time| time.find(['+', '-'])) {
        Some(place) => DATE + place,
        None => text.len(),
    };
    let (time, zone) = text.split_at(zone);
    let time = match time.contains('.') {
        true => time.trim_end_matches('0').trim_end_matches('.'),
        false => time,
    };
    let zone = match zone.len() {
        6 => zone.strip_suffix(":00").unwrap_or(zone),
        _ => zone,
    };
    out.truncate(begin);
    out.extend_from_slice(time.as_bytes());
    out.extend_from_slice(zone.as_bytes());
}

/// Writes the decimal of a text.
fn put_decimal(text: &str, is_text: bool, out: &mut BytesMut) {
    if is_text {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    /// The decimal digits of a digit of the binary format.
    const GROUP: usize = 4;
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let whole_groups = whole.len().div_ceil(GROUP);
    let padded = format!(
        "{whole:0>0$}{fraction:0<1$}",
        whole_groups * GROUP,
        fraction.len().div_ceil(GROUP) * GROUP
    );
    let groups = padded.as_bytes().chunks(GROUP).map(|group| {
        let digits = group.iter().map(|digit| u16::from(digit.saturating_sub(b'0')));
        digits.fold(0, |sum, digit| sum * 10 + digit)
    });
    let groups: Vec<u16> = groups.collect();
    let first = groups
        .iter()
        .position(|group| *group != 0)
        .unwrap_or(groups.len());
    let last = groups
        .iter()
        .rposition(|group| *group != 0)
        .map_or(first, |last| last + 1);
    let digits = &groups[first..last];
    // No type has so many digits that these numbers are out of range.
    let short = |number: usize| i16::try_from(number).unwrap_or(i16::MAX);
    let weight = match digits.is_empty() {
        true => 0,
        false => short(whole_groups) - short(first) - 1,
    };
    let is_negative = text.starts_with('-') && !digits.is_empty();
    out.put_i16(short(digits.len()));
    out.put_i16(weight);
    out.put_u16(if is_negative { 0x4000 } else { 0 });
    out.put_i16(short(fraction.len()));
    for digit in digits {
        out.put_u16(*digit);
    }
}

/// Writes an array of one dimension.
fn put_list(values: &ArrayRef, element: &Field, column: &FieldInfo, out: &mut BytesMut) -> PgWireResult<()> {
    let wire = match column.datatype().kind() {
        Kind::Array(wire) => wire.clone(),
        _ => Type::TEXT,
    };
    let options = Arc::clone(column.format_options());
    let single =
        FieldInfo::new(String::new(), None, None, wire.clone(), column.format()).with_format_options(options);
    if column.format() == FieldFormat::Text {
        out.put_u8(b'{');
        let mut text = BytesMut::new();
        for index in 0..values.len() {
            if index > 0 {
                out.put_u8(b',');
            }
            text.clear();
            match put(values, index, element, &single, &mut text)? {
                IsNull::Yes => out.extend_from_slice(b"NULL"),
                IsNull::No => put_element(&text, out),
            }
        }
        out.put_u8(b'}');
        return Ok(());
    }
    let count = i32::try_from(values.len()).unwrap_or(i32::MAX);
    out.put_i32(i32::from(count > 0));
    out.put_i32(i32::from(values.logical_null_count() > 0));
    out.put_u32(wire.oid());
    if count > 0 {
        out.put_i32(count);
        out.put_i32(1);
    }
    for index in 0..values.len() {
        put_sized(out, |out| put(values, index, element, &single, out))?;
    }
    Ok(())
}

/// Writes an element of an array as text, in quotes if it has other letters than those of words and numbers.
fn put_element(text: &[u8], out: &mut BytesMut) {
    let is_special =
        |byte: &u8| matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\') || byte.is_ascii_whitespace();
    if !text.is_empty() && !text.iter().any(is_special) && !text.eq_ignore_ascii_case(b"null") {
        out.extend_from_slice(text);
        return;
    }
    out.put_u8(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_groups_of_digits() {
        let binary = |text: &str| {
            let mut out = BytesMut::new();
            put_decimal(text, false, &mut out);
            let fields = out.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
            fields.collect::<Vec<_>>()
        };
        assert_eq!(binary("12345.678"), [3, 1, 0, 3, 1, 2345, 6780]);
        assert_eq!(binary("-0.0001"), [1, 0xffff, 0x4000, 4, 1]);
        assert_eq!(binary("0.00"), [0, 0, 0, 2]);
        assert_eq!(binary("10000"), [1, 1, 0, 0, 1]);
    }

    #[test]
    fn times_have_no_zeros_at_their_end() {
        for (text, expected) in [
            ("2024-01-01 00:00:00.000000", "2024-01-01 00:00:00"),
            ("2024-01-01 00:00:00.120000+00:00", "2024-01-01 00:00:00.12+00"),
            ("2024-01-01 00:00:00-05:30", "2024-01-01 00:00:00-05:30"),
            ("03:00:10", "03:00:10"),
        ] {
            let mut out = BytesMut::from(text.as_bytes());
            shorten_time(&mut out, 0);
            assert_eq!(out, expected.as_bytes());
        }
    }
}
