//! Errors of statements that change the rows of a table.

use std::fmt;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;

/// An error of a statement that changes the rows of a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// NULL in a column that is not nullable.
    #[error("{statement}: a row has NULL in the column '{column}', which is NOT NULL in the table {table}")]
    NotNull {
        /// The statement.
        statement: String,
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
}

impl From<ChangeError> for DataFusionError {
    fn from(error: ChangeError) -> Self {
        Self::External(Box::new(error))
    }
}

/// Checks that columns which are not nullable have no NULL.
///
/// # Errors
/// [`ChangeError::NotNull`].
pub(crate) fn check_nulls(
    statement: impl fmt::Display,
    columns: &[ArrayRef],
    schema: &SchemaRef,
    table: impl fmt::Display,
) -> Result<(), ChangeError> {
    let mut columns = schema.fields().iter().zip(columns);
    match columns.find(|(field, column)| !field.is_nullable() && column.logical_null_count() > 0) {
        Some((field, _)) => Err(ChangeError::NotNull {
            statement: statement.to_string(),
            table: table.to_string(),
            column: field.name().clone(),
        }),
        None => Ok(()),
    }
}
