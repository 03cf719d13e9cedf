//! Converts values that a format for programs cannot represent.
//!
//! CSV and TSV have no lists, structs and maps: these become the string that a table shows. The names in a
//! JSON object are strings: keys of other types are converted.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::FormatOptions;
use galatea::nested_as_text;

use super::Format;

/// The rows of a result in the types that a format supports.
pub(super) struct Writable<'a> {
    pub(super) format: Format,
    pub(super) schema: SchemaRef,
    pub(super) options: FormatOptions<'a>,
}

impl Writable<'_> {
    /// A batch of the result, with the same columns.
    pub(super) fn of(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let schema = batch.schema();
        if !schema.fields().iter().any(|field| field.data_type().is_nested()) {
            return Ok(batch.clone());
        }
        let mut fields = Vec::new();
        let mut columns = Vec::new();
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            let column = self.column(field.data_type(), column)?;
            fields.push(field.as_ref().clone().with_data_type(column.data_type().clone()));
            columns.push(column);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
    }

    fn column(&self, data_type: &DataType, column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        if !data_type.is_nested() {
            return Ok(Arc::clone(column));
        }
        if !matches!(self.format, Format::Json | Format::NdJson) {
            return nested_as_text(column.as_ref(), &self.options);
        }
        let named = with_names(data_type);
        match named == *data_type {
            true => Ok(Arc::clone(column)),
            // A value that cannot be converted becomes one string.
            false => cast(column, &named).or_else(|_| nested_as_text(column.as_ref(), &self.options)),
        }
    }
}

/// The same type with strings as map keys.
fn with_names(data_type: &DataType) -> DataType {
    let inner = |field: &FieldRef| {
        let inner = with_names(field.data_type());
        Arc::new(Field::clone(field).with_data_type(inner))
    };
    match data_type {
        DataType::List(field) => DataType::List(inner(field)),
        DataType::LargeList(field) => DataType::LargeList(inner(field)),
        DataType::FixedSizeList(field, length) => DataType::FixedSizeList(inner(field), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        DataType::Map(entries, sorted) => {
            let DataType::Struct(fields) = entries.data_type() else {
                return data_type.clone();
            };
            let [key, value] = fields.as_ref() else {
                return data_type.clone();
            };
            let key_type = match key.data_type() {
                text @ (DataType::Utf8 | DataType::LargeUtf8) => text.clone(),
                _ => DataType::Utf8,
            };
            let key = Arc::new(Field::clone(key).with_data_type(key_type));
            let fields = Fields::from(vec![key, inner(value)]);
            let entries = Field::clone(entries).with_data_type(DataType::Struct(fields));
            DataType::Map(Arc::new(entries), *sorted)
        }
        other => other.clone(),
    }
}
