//! Properties of the driver and of the engine.

use std::collections::HashSet;
use std::sync::Arc;

use adbc_core::error::{Error, Result};
use adbc_core::options::{AdbcVersion, InfoCode};
use adbc_core::schemas::GET_INFO_SCHEMA;
use arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array, UnionArray,
    new_empty_array,
};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, UnionFields};

/// The name that the server reports, too.
const VENDOR: &str = "Galatea";

/// A value of the union of `get_info`, with its type code there.
enum Value {
    Text(Option<&'static str>),
    Truth(bool),
    Number(i64),
}

fn value(code: InfoCode) -> Option<Value> {
    Some(match code {
        InfoCode::VendorName => Value::Text(Some(VENDOR)),
        InfoCode::VendorVersion | InfoCode::DriverVersion => Value::Text(Some(env!("CARGO_PKG_VERSION"))),
        InfoCode::VendorArrowVersion | InfoCode::DriverArrowVersion => {
            Value::Text(Some(arrow::ARROW_VERSION))
        }
        InfoCode::VendorSql => Value::Truth(true),
        InfoCode::VendorSubstrait => Value::Truth(false),
        InfoCode::VendorSubstraitMinVersion | InfoCode::VendorSubstraitMaxVersion => Value::Text(None),
        InfoCode::DriverName => Value::Text(Some("ADBC driver of Galatea")),
        InfoCode::DriverAdbcVersion => Value::Number(i64::from(i32::from(AdbcVersion::V110))),
        _ => return None,
    })
}

const ALL: [InfoCode; 11] = [
    InfoCode::VendorName,
    InfoCode::VendorVersion,
    InfoCode::VendorArrowVersion,
    InfoCode::VendorSql,
    InfoCode::VendorSubstrait,
    InfoCode::VendorSubstraitMinVersion,
    InfoCode::VendorSubstraitMaxVersion,
    InfoCode::DriverName,
    InfoCode::DriverVersion,
    InfoCode::DriverArrowVersion,
    InfoCode::DriverAdbcVersion,
];

/// The requested properties, or all. Codes that the driver does not have are left out, as ADBC demands.
pub(crate) fn info(codes: Option<HashSet<InfoCode>>) -> Result<RecordBatch> {
    let wanted = |code: &InfoCode| codes.as_ref().is_none_or(|codes| codes.contains(code));
    let mut names = Vec::new();
    let (mut types, mut offsets) = (Vec::new(), Vec::new());
    let (mut texts, mut truths, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for code in ALL.iter().filter(|code| wanted(code)) {
        let Some(value) = value(*code) else { continue };
        names.push(u32::from(code));
        let (kind, offset) = match value {
            Value::Text(text) => (0, place(&mut texts, text)),
            Value::Truth(truth) => (1, place(&mut truths, truth)),
            Value::Number(number) => (2, place(&mut numbers, number)),
        };
        types.push(kind);
        offsets.push(offset);
    }
    let mut children: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(texts)),
        Arc::new(BooleanArray::from(truths)),
        Arc::new(Int64Array::from(numbers)),
        Arc::new(Int32Array::from(Vec::<i32>::new())),
    ];
    let fields = fields()?;
    children.extend(
        fields
            .iter()
            .skip(children.len())
            .map(|(_, field)| new_empty_array(field.data_type())),
    );
    let union = UnionArray::try_new(
        fields,
        ScalarBuffer::from(types),
        Some(ScalarBuffer::from(offsets)),
        children,
    )?;
    let columns: Vec<ArrayRef> = vec![Arc::new(UInt32Array::from(names)), Arc::new(union)];
    Ok(RecordBatch::try_new(GET_INFO_SCHEMA.clone(), columns)?)
}

/// Appends a value, and returns its place.
fn place<T>(values: &mut Vec<T>, value: T) -> i32 {
    values.push(value);
    // The number of properties is small.
    i32::try_from(values.len() - 1).unwrap_or_default()
}

/// The types of values that ADBC prescribes.
fn fields() -> Result<UnionFields> {
    match GET_INFO_SCHEMA.field(1).data_type() {
        DataType::Union(fields, _) => Ok(fields.clone()),
        other => Err(Error::with_message_and_status(
            format!("internal error: ADBC has values of the type {other}"),
            adbc_core::error::Status::Internal,
        )),
    }
}
