//! Values of row groups, decoded with the parquet crate.

use std::ops::Range;
use std::sync::Arc;

use ::parquet::arrow::ProjectionMask;
use ::parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReaderBuilder, RowSelection, RowSelectionPolicy,
};
use arrow::array::ArrayRef;
use arrow::compute::cast_with_options;
use arrow::datatypes::{DataType, Field};

use super::column_bytes::ColumnBytes;
use crate::decode::{STRICT, plain_type};
use crate::error::{Result, StoreError};
use crate::version::OpenFile;

/// Rows decoded into one array of values: few enough for the allocator to use the memory of earlier arrays
/// again, whose pages the system has zeroed already.
const BATCH_ROWS: usize = 1 << 16;

/// Rows decoded into one array of dictionary keys. The values of a dictionary are hashed once for each array.
const DICTIONARY_ROWS: usize = 1 << 20;

/// Decodes a row group, or the `partial` ranges of its rows.
pub(super) fn decode(
    source: ColumnBytes,
    metadata: &ArrowReaderMetadata,
    (row_group, partial): (usize, Option<&Vec<Range<usize>>>),
    root: usize,
) -> Result<Vec<ArrayRef>, Box<dyn std::error::Error + Send + Sync>> {
    let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(source, metadata.clone())
        .with_row_groups(vec![row_group])
        .with_projection(ProjectionMask::roots(metadata.parquet_schema(), [root]))
        .with_batch_size(match metadata.schema().field(root).data_type() {
            DataType::Dictionary(_, _) => DICTIONARY_ROWS,
            _ => BATCH_ROWS,
        });
    if let Some(rows) = partial {
        let all = metadata.metadata().row_group(row_group).num_rows().max(0) as usize;
        let selection = RowSelection::from_consecutive_ranges(rows.iter().cloned(), all);
        // For short ranges, the crate would choose a mask and read the pages between them, which `source`
        // does not have.
        builder = builder
            .with_row_selection(selection)
            .with_row_selection_policy(RowSelectionPolicy::Selectors);
    }
    let reader = builder.build()?;
    reader.map(|batch| Ok(Arc::clone(batch?.column(0)))).collect()
}

/// The array in a form that the encoder accepts: of the table's type, possibly in another layout of the same
/// values.
pub(super) fn adapted(file: &OpenFile, array: ArrayRef, field: &Field) -> Result<ArrayRef> {
    let (from, to) = (array.data_type(), field.data_type());
    let same = match (plain_type(from), plain_type(to)) {
        (DataType::Utf8 | DataType::Utf8View, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        | (
            DataType::Binary | DataType::BinaryView,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView,
        ) => true,
        (DataType::Decimal64(_, scale), DataType::Decimal128(_, table_scale)) => scale == table_scale,
        _ => from == to,
    };
    if same {
        return Ok(array);
    }
    cast_with_options(&array, to, &STRICT).map_err(|error| StoreError::SchemaMismatch {
        file: file.source.name(),
        column: field.name().clone(),
        table_type: to.clone(),
        reason: error.to_string(),
    })
}
