//! Tables over Python objects: everything that exports an Arrow stream or array, and planned queries.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use datafusion::catalog::TableProvider;
use datafusion::datasource::{MemTable, ViewTable};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3_arrow::input::AnyRecordBatch;

use crate::errors::{InterfaceError, exception};
use crate::frame::Frame;

/// The maximum number of rows of a batch. Operators process batches in parallel, and objects of Python often
/// consist of a single one.
const ROWS: usize = 64 << 10;

/// A table over `object`: a view over a planned query, or a table of the rows that it exports. Their buffers
/// are not copied. A stream is read to its end.
///
/// # Errors
/// [`InterfaceError`] if the object exports no rows, or if the export fails.
pub(crate) fn table(object: &Bound<'_, PyAny>) -> PyResult<Arc<dyn TableProvider>> {
    let py = object.py();
    if let Ok(frame) = object.cast::<Frame>() {
        return Ok(Arc::new(ViewTable::new(frame.get().plan(), None)));
    }
    let of_type = || object.get_type().name().map(|name| name.to_string());
    let exports = |name| object.hasattr(name);
    if !exports(intern!(py, "__arrow_c_stream__"))? && !exports(intern!(py, "__arrow_c_array__"))? {
        return Err(InterfaceError::new_err(format!(
            "an object of type {} is not a table\nhint: tables are data frames of pandas and polars, tables of \
             pyarrow, and other objects that export Arrow streams (__arrow_c_stream__)",
            of_type()?
        )));
    }
    let input: AnyRecordBatch = match object.extract() {
        Ok(input) => input,
        // An exception of the object itself, such as of mixed types in a column of pandas, states the cause.
        Err(raised) => {
            let failed = InterfaceError::new_err(format!(
                "an object of type {} cannot be read as a table: {}",
                of_type()?,
                raised.value(py)
            ));
            failed.set_cause(py, Some(raised));
            return Err(failed);
        }
    };
    let reader = input.into_reader()?;
    // Metadata of the whole table, such as the index columns of pandas, does not apply to results.
    let schema = Arc::new(Schema::new(reader.schema().fields().clone()));
    let read = py.detach(|| {
        let mut batches = Vec::new();
        for batch in reader {
            let batch = batch?;
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let columns = batch.columns().to_vec();
            let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?;
            let starts = (0..batch.num_rows()).step_by(ROWS);
            batches.extend(starts.map(|start| batch.slice(start, ROWS.min(batch.num_rows() - start))));
        }
        Ok::<_, ArrowError>(batches)
    });
    let batches = read.map_err(|cause| {
        InterfaceError::new_err(format!("the rows of the object cannot be read: {cause}"))
    })?;
    let table = MemTable::try_new(schema, vec![batches]).map_err(exception)?;
    Ok(Arc::new(table))
}
