//! The columns of files that the device, or the decoder of dictionary indices, decodes to the same values as
//! the parquet crate.

use arrow::datatypes::{DataType, TimeUnit};
use galatea_kernels::ParquetForm;
use galatea_parquet::{ColumnShape, ValueKind};
use parquet::basic::{Encoding, Type as PhysicalType};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::schema::types::ColumnDescriptor;

use crate::decode::plain_type;

/// The shape of a column that the file stores as `stored` and the table has as `table`; none if the host has
/// to convert it.
pub(super) fn column_shape(
    column: &ColumnDescriptor,
    stored: &DataType,
    table: &DataType,
) -> Option<ColumnShape> {
    let (stored, table) = (plain_type(stored), plain_type(table));
    let unit = match stored {
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1000,
        _ => 1,
    };
    let mut shape = ColumnShape::of(column, unit).ok()?;
    let is_text = |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let is_binary = |kind: &DataType| {
        matches!(
            kind,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView
        )
    };
    let same = match &mut shape.kind {
        ValueKind::Strings { utf8 } => {
            *utf8 = is_text(table);
            is_text(stored) && is_text(table) || is_binary(stored) && is_binary(table)
        }
        ValueKind::Fixed { form, .. } => {
            let wide = *form == ParquetForm::BigEndian128 && !matches!(table, DataType::Decimal128(..));
            // Arrow's schema in a file may ask for milliseconds of a column of days.
            let days = *table == DataType::Date64 && shape.physical == PhysicalType::INT32;
            stored == table && !wide && !days && *table != DataType::Null
        }
    };
    same.then_some(shape)
}

/// Whether the values of a column chunk are all in its dictionary page.
pub(super) fn only_dictionary_pages(column: &ColumnChunkMetaData) -> bool {
    column.dictionary_page_offset().is_some()
        && column.page_encoding_stats_mask().is_some_and(|mask| {
            mask.is_only(Encoding::RLE_DICTIONARY) || mask.is_only(Encoding::PLAIN_DICTIONARY)
        })
}
