//! All rows of a finished query.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StructArray};
use arrow::datatypes::{Field, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3_arrow::ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule};

use crate::errors::DataError;
use crate::values;

/// The rows of a finished query, in batches.
#[pyclass(frozen, module = "galatea._galatea")]
pub(crate) struct Batches {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Batches {
    pub(crate) fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { schema, batches }
    }
}

#[pymethods]
impl Batches {
    /// The number of rows.
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The rows as tuples of Python values.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let mut rows = Vec::with_capacity(self.__len__());
        for batch in &self.batches {
            rows.extend(values::rows(py, batch)?);
        }
        Ok(rows)
    }

    /// The first `limit` rows as strings, as tables show them.
    fn cells(&self, limit: usize) -> PyResult<Vec<Vec<String>>> {
        let options = FormatOptions::default().with_null("NULL");
        let failed = |cause: arrow::error::ArrowError| DataError::new_err(cause.to_string());
        let mut cells = Vec::new();
        for batch in &self.batches {
            let columns = batch.columns().iter();
            let columns = columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
            let columns = columns.collect::<Result<Vec<_>, _>>().map_err(failed)?;
            for row in 0..batch.num_rows().min(limit - cells.len()) {
                let row = columns.iter().map(|column| column.value(row).try_to_string());
                cells.push(row.collect::<Result<Vec<_>, _>>().map_err(failed)?);
            }
        }
        Ok(cells)
    }

    /// The schema, for readers of Arrow's C data interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.schema.as_ref())?)
    }

    /// The rows, for readers of Arrow's C data interface. If the reader requests another schema, columns are
    /// converted to it.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let arrays: Vec<ArrayRef> = self
            .batches
            .iter()
            .map(|batch| Arc::new(StructArray::from(batch.clone())) as ArrayRef)
            .collect();
        let field = Arc::new(Field::new_struct("", self.schema.fields().clone(), false));
        let reader = ArrayIterator::new(arrays.into_iter().map(Ok), field);
        Ok(to_stream_pycapsule(py, Box::new(reader), requested_schema)?)
    }
}
