//! Batches as rows of the Postgres protocol.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions as Display};
use futures::{Stream, StreamExt, stream};
use pgwire::api::Type;
use pgwire::api::portal::Format;
use pgwire::api::results::{FieldFormat, FieldInfo, QueryResponse};
use pgwire::error::PgWireResult;
use pgwire::types::format::FormatOptions;

use super::cells::{self, wire_type};
use super::errors::error;
use crate::failure::Failure;
use crate::query::Rows;

/// The schema in types that the protocol has. Columns of other types become strings.
fn presentable(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| match wire_type(field) {
        Some(_) => Arc::clone(field),
        None => Arc::new(Field::new(field.name(), DataType::Utf8, true)),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The values of a column as strings.
fn strings(column: &ArrayRef) -> Result<ArrayRef, Failure> {
    let options = Display::default();
    let formatter = ArrayFormatter::try_new(column.as_ref(), &options)?;
    let values = (0..column.len()).map(|row| match column.is_null(row) {
        true => Ok(None),
        false => formatter.value(row).try_to_string().map(Some),
    });
    Ok(Arc::new(values.collect::<Result<StringArray, _>>()?))
}

fn presented(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, Failure> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| match column.data_type() == field.data_type() {
        true => Ok(Arc::clone(column)),
        false => strings(column),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

/// The description of the columns.
pub(super) fn fields(schema: &Schema, format: &Format) -> PgWireResult<Vec<FieldInfo>> {
    Ok(described(&presentable(schema), format, &Arc::default()))
}

/// The description of columns in types of the protocol.
fn described(schema: &Schema, format: &Format, options: &Arc<FormatOptions>) -> Vec<FieldInfo> {
    let columns = schema.fields().iter().enumerate();
    let columns = columns.map(|(index, field)| {
        let wire = wire_type(field).unwrap_or(Type::TEXT);
        let format = match format {
            Format::Individual(formats) => FieldFormat::from(formats.get(index).copied().unwrap_or_default()),
            format => format.format_for(index),
        };
        FieldInfo::new(field.name().clone(), None, None, wire, format)
            .with_format_options(Arc::clone(options))
    });
    columns.collect()
}

/// The rows of a running query, encoded as they are sent.
pub(super) fn response(
    rows: Rows,
    format: &Format,
    options: FormatOptions,
    command: &str,
) -> PgWireResult<QueryResponse> {
    let schema = Arc::clone(&rows.schema);
    response_of(&schema, rows.into_stream(), format, options, command)
}

/// Batches of a schema, encoded as they are sent.
pub(super) fn response_of(
    schema: &Schema,
    batches: impl Stream<Item = Result<RecordBatch, Failure>> + Send + 'static,
    format: &Format,
    options: FormatOptions,
    command: &str,
) -> PgWireResult<QueryResponse> {
    let schema = presentable(schema);
    let fields = Arc::new(described(&schema, format, &Arc::new(options)));
    let own = Arc::clone(&fields);
    let encoded = batches.flat_map(move |batch| {
        let batch = batch.and_then(|batch| presented(&batch, &schema));
        match batch {
            Ok(batch) => stream::iter(cells::rows(batch, Arc::clone(&own))).boxed(),
            Err(failure) => stream::iter([Err(error(failure))]).boxed(),
        }
    });
    let mut response = QueryResponse::new(fields, encoded);
    response.set_command_tag(command);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray, Int32Array, ListArray};
    use arrow::buffer::{NullBuffer, OffsetBuffer};
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn columns_of_other_types_become_strings() {
        let nested = ListArray::from_iter_primitive::<Int32Type, _, _>([None, Some(vec![Some(1)])]);
        let field = Arc::new(Field::new_list_field(nested.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths([0, 2]);
        let nulls = Some(NullBuffer::from(vec![false, true]));
        let wide: ArrayRef = Arc::new(ListArray::new(field, offsets, Arc::new(nested), nulls));
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let batch = RecordBatch::try_from_iter([("wide", wide), ("n", numbers)]).unwrap();
        let schema = presentable(&batch.schema());
        let shown = presented(&batch, &schema).unwrap();
        assert_eq!(shown.column(0).as_string::<i32>().value(1), "[, [1]]");
        assert!(shown.column(0).is_null(0));
        assert_eq!(shown.column(1).data_type(), &DataType::Int32);
    }
}
