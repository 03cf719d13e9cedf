//! Results without string and binary views, for libraries that do not support them: most functions of pyarrow
//! take strings and binaries only.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;

/// The maximum bytes of the strings of an array: offsets have 32 bits.
const LIMIT: usize = i32::MAX as usize;

/// The schema with strings and binaries in place of views, also in lists, structs and maps.
pub fn schema_without_views(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(field_without_views).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn field_without_views(field: &FieldRef) -> FieldRef {
    let plain = type_without_views(field.data_type());
    match plain == *field.data_type() {
        true => Arc::clone(field),
        false => Arc::new(Field::clone(field).with_data_type(plain)),
    }
}

fn type_without_views(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) => DataType::List(field_without_views(item)),
        DataType::LargeList(item) => DataType::LargeList(field_without_views(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(field_without_views(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field_without_views).collect()),
        DataType::Map(entries, sorted) => DataType::Map(field_without_views(entries), *sorted),
        other => other.clone(),
    }
}

/// The rows of a batch with the columns of `schema`, which is its schema without views. Columns without views
/// are not copied. A batch whose strings exceed 2 GiB is split.
///
/// # Errors
/// An error of Arrow if a type in a column cannot be converted.
pub fn without_views(batch: RecordBatch, schema: &SchemaRef) -> Result<Vec<RecordBatch>, ArrowError> {
    if batch.schema_ref().fields() == schema.fields() {
        return Ok(vec![batch]);
    }
    let rows = batch.num_rows();
    let largest = batch.columns().iter().map(view_bytes).max().unwrap_or(0);
    if largest > LIMIT && rows > 1 {
        let mut halves = without_views(batch.slice(0, rows / 2), schema)?;
        halves.extend(without_views(batch.slice(rows / 2, rows - rows / 2), schema)?);
        return Ok(halves);
    }
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| match column.data_type() == field.data_type() {
        true => Ok(Arc::clone(column)),
        false => cast(column, field.data_type()),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    Ok(vec![RecordBatch::try_new(Arc::clone(schema), columns)?])
}

/// The bytes of the views in an array, at most.
fn view_bytes(array: &ArrayRef) -> usize {
    /// The bytes that a view itself contains.
    const INLINE: usize = 12;
    match array.data_type() {
        DataType::Utf8View => INLINE * array.len() + array.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => INLINE * array.len() + array.as_binary_view().total_buffer_bytes_used(),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            view_bytes(&items(lists.values(), lists.value_offsets()))
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            view_bytes(&items(lists.values(), lists.value_offsets()))
        }
        DataType::FixedSizeList(..) => view_bytes(array.as_fixed_size_list().values()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(view_bytes).sum(),
        DataType::Map(..) => {
            let maps = array.as_map();
            let (first, last) = ends(maps.value_offsets());
            let entries: ArrayRef = Arc::new(maps.entries().slice(first, last - first));
            view_bytes(&entries)
        }
        _ => 0,
    }
}

/// The items of the lists with these offsets.
fn items<O: OffsetSizeTrait>(values: &ArrayRef, offsets: &[O]) -> ArrayRef {
    let (first, last) = ends(offsets);
    values.slice(first, last - first)
}

fn ends<O: OffsetSizeTrait>(offsets: &[O]) -> (usize, usize) {
    let end = |offset: Option<&O>| offset.map_or(0, |offset| offset.as_usize());
    (end(offsets.first()), end(offsets.last()))
}
