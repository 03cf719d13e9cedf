//! Bound batches: their rows as values of placeholders.

use std::collections::HashMap;

use adbc_core::error::Result;
use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::error::Result as PlanResult;
use galatea::{BoundStatement, Placeholders};

use crate::failure::of_engine;

/// The batches that a program has bound.
pub(crate) type Bound = Box<dyn RecordBatchReader + Send>;

/// The next batch, read on a thread that may wait: the program computes it.
pub(crate) fn next(bound: &mut Bound) -> PlanResult<Option<RecordBatch>> {
    let batch = tokio::task::block_in_place(|| bound.next());
    Ok(batch.transpose()?)
}

/// The names of the columns as placeholders, checked against those of a statement: positions, or the names of
/// the columns if the placeholders have names.
///
/// # Errors
/// The columns do not fit the placeholders.
pub(crate) fn names(placeholders: &Placeholders, schema: &SchemaRef) -> Result<Vec<String>> {
    let columns = schema.fields().iter();
    if !placeholders.is_named() {
        placeholders
            .check_count(columns.len())
            .map_err(|error| of_engine(&error.into()))?;
        return Ok((1..=columns.len()).map(|number| number.to_string()).collect());
    }
    let names: Vec<String> = columns.map(|field| field.name().clone()).collect();
    let named = names.iter().map(|name| (name.clone(), ())).collect();
    placeholders
        .check_names(&named)
        .map_err(|error| of_engine(&error.into()))?;
    Ok(names)
}

/// The statement with the values of a row of a batch.
pub(crate) fn bind<'s>(
    text: &'s str,
    placeholders: &Placeholders,
    names: &[String],
    batch: &RecordBatch,
    row: usize,
) -> PlanResult<BoundStatement<'s>> {
    let mut values = HashMap::with_capacity(names.len());
    for (name, column) in names.iter().zip(batch.columns()) {
        values.insert(name.clone(), ScalarValue::try_from_array(column.as_ref(), row)?);
    }
    Ok(placeholders.numbered(text, &values))
}

/// The statement with a NULL of each column's type: its plan has the columns of the result.
pub(crate) fn bind_nulls<'s>(
    text: &'s str,
    placeholders: &Placeholders,
    names: &[String],
    schema: &SchemaRef,
) -> PlanResult<BoundStatement<'s>> {
    let mut values = HashMap::with_capacity(names.len());
    for (name, field) in names.iter().zip(schema.fields()) {
        values.insert(name.clone(), ScalarValue::try_from(field.data_type())?);
    }
    Ok(placeholders.numbered(text, &values))
}

/// Checks a statement that runs without bound values. PREPARE has placeholders of its own.
///
/// # Errors
/// The statement has placeholders.
pub(crate) fn check_unbound(placeholders: &Placeholders, text: &str) -> Result<()> {
    let first = text.split_whitespace().next().unwrap_or_default();
    if placeholders.is_empty() || first.eq_ignore_ascii_case("PREPARE") {
        return Ok(());
    }
    let checked = match placeholders.is_named() {
        true => placeholders.check_names(&HashMap::<String, ()>::new()),
        false => placeholders.check_count(0),
    };
    checked.map_err(|error| of_engine(&error.into()))
}
