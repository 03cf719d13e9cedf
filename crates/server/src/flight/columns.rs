//! Columns in types that all Flight clients read: string and binary views become strings and binaries.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::failure::Failure;

fn plain_type(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Utf8View => Some(DataType::Utf8),
        DataType::BinaryView => Some(DataType::Binary),
        _ => None,
    }
}

/// The schema that clients receive.
pub(super) fn plain_schema(schema: &Schema) -> SchemaRef {
    let fields = schema
        .fields()
        .iter()
        .map(|field| match plain_type(field.data_type()) {
            Some(plain) => Arc::new(Field::clone(field).with_data_type(plain)),
            None => Arc::clone(field),
        });
    Arc::new(Schema::new_with_metadata(
        fields.collect::<Vec<_>>(),
        schema.metadata().clone(),
    ))
}

/// The batch in a schema from [`plain_schema`].
pub(super) fn plain_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Failure> {
    let columns = batch
        .columns()
        .iter()
        .map(|column| match plain_type(column.data_type()) {
            Some(plain) => cast(column, &plain),
            None => Ok(Arc::clone(column)),
        });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int32Array, StringViewArray};

    use super::*;

    #[test]
    fn views_become_strings() {
        let strings: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None]));
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let batch = RecordBatch::try_from_iter([("s", strings), ("n", numbers)]).unwrap();
        let schema = plain_schema(&batch.schema());
        let plain = plain_batch(&batch, &schema).unwrap();
        assert_eq!(plain.column(0).as_string::<i32>().value(0), "a");
        assert!(plain.column(0).is_null(1));
        assert_eq!(plain.schema().field(0).data_type(), &DataType::Utf8);
    }
}
