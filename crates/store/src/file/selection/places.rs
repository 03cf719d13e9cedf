//! Columns of a table in its files, and which of their bounds are trusted.
//!
//! - The order of the values must be defined. In files without column orders, and in deprecated statistics,
//!   bounds are computed by signed comparison. They are used only for types with this order.
//! - The values must have the same order in the file and in the table: the types are equal, or both are
//!   integers and the table's type has all values of the file's type.
//! - Floats have no upper bound that is trusted: statistics leave NaN out, which is greater than all numbers.

use std::sync::Arc;

use ::parquet::basic::{ColumnOrder, SortOrder, Type as PhysicalType};
use ::parquet::schema::types::ColumnDescriptor;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;

use super::super::column_reader::{Int96, file_schema, leaf_of};
use super::super::files::TableFiles;
use crate::decode::plain_type;
use crate::error::Result;
use crate::version::RowGroups;

/// How a file stores a column of the table.
#[derive(Debug, Clone)]
pub(in crate::file) enum Place {
    /// The file does not have the column: all rows are NULL.
    Null,
    /// The same value in every row.
    Constant(ScalarValue),
    Stored {
        /// Its number among the file's leaf columns.
        leaf: usize,
        /// The file's field.
        field: Arc<Field>,
        trust: Trust,
    },
    /// The column is nested, or a partition column without a value: it has no usable statistics.
    Unknown,
}

/// The bounds of a column in a file that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::file) enum Trust {
    None,
    /// The lower bound.
    Lower,
    Both,
}

/// The files of a table with their schemas.
pub(in crate::file) struct FilePlaces<'a> {
    files: &'a TableFiles,
    row_groups: &'a RowGroups,
    schemas: Vec<Schema>,
}

impl<'a> FilePlaces<'a> {
    /// Reads the schemas from the footers.
    pub(in crate::file) fn new(
        files: &'a TableFiles,
        row_groups: &'a RowGroups,
        int96: Option<&Int96>,
    ) -> Result<Self> {
        let schemas = row_groups.files.iter();
        let schemas = schemas.map(|file| file_schema(file, &files.file_schema, int96));
        Ok(Self {
            files,
            row_groups,
            schemas: schemas.collect::<Result<Vec<_>>>()?,
        })
    }

    /// How each file stores a column of the table.
    pub(in crate::file) fn of(&self, column: usize) -> Vec<Place> {
        let table = self.files.schema.field(column);
        let partition = column.checked_sub(self.files.file_schema.fields().len());
        let places = self.row_groups.files.iter().zip(&self.schemas);
        let places = places.map(|(file, schema)| {
            if let Some(partition) = partition {
                let value = file.source.partition_values.get(partition).cloned();
                return value.map_or(Place::Unknown, Place::Constant);
            }
            let metadata = file.metadata.file_metadata();
            let descriptor = metadata.schema_descr();
            let Some((root, field)) = schema.fields().find(table.name()) else {
                return Place::Null;
            };
            let Some(leaf) = leaf_of(descriptor, root) else {
                return Place::Unknown;
            };
            let order = metadata.column_orders().and_then(|orders| orders.get(leaf));
            let order = order.copied().unwrap_or(ColumnOrder::UNDEFINED);
            let column = descriptor.column(leaf);
            Place::Stored {
                leaf,
                trust: trust(&column, order, field.data_type(), table.data_type()),
                field: Arc::clone(field),
            }
        });
        places.collect()
    }
}

/// The bounds to use of a column that a file stores as `stored` and the table has as `table`.
fn trust(column: &ColumnDescriptor, order: ColumnOrder, stored: &DataType, table: &DataType) -> Trust {
    let is_flat = column.max_rep_level() == 0 && column.max_def_level() <= 1;
    let sort_order = column.sort_order();
    let is_defined = match order {
        ColumnOrder::TYPE_DEFINED_ORDER(defined) => defined == sort_order,
        ColumnOrder::UNDEFINED => sort_order == SortOrder::SIGNED,
        ColumnOrder::UNKNOWN => false,
    };
    let is_known = is_flat && is_defined && sort_order != SortOrder::UNDEFINED;
    if !is_known || column.physical_type() == PhysicalType::INT96 {
        return Trust::None;
    }
    let (stored, table) = (plain_type(stored), plain_type(table));
    match stored {
        DataType::Float32 | DataType::Float64 if stored == table => Trust::Lower,
        _ if has_order_of(stored, table) => Trust::Both,
        _ => Trust::None,
    }
}

/// Whether the type `table` has all values of the type `stored`, in the same order. False for floats.
fn has_order_of(stored: &DataType, table: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Duration, Int8, Int16,
        Int32, Int64, LargeBinary, LargeUtf8, Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8,
        Utf8View,
    };
    let is_text = |kind: &DataType| matches!(kind, Utf8 | LargeUtf8 | Utf8View);
    let is_binary = |kind: &DataType| matches!(kind, Binary | LargeBinary | BinaryView);
    let bits = |kind: &DataType| match kind {
        Int8 => Some((true, 8)),
        Int16 => Some((true, 16)),
        Int32 => Some((true, 32)),
        Int64 => Some((true, 64)),
        UInt8 => Some((false, 8)),
        UInt16 => Some((false, 16)),
        UInt32 => Some((false, 32)),
        UInt64 => Some((false, 64)),
        _ => None,
    };
    match (bits(stored), bits(table)) {
        (Some((from_signed, from)), Some((to_signed, to))) => {
            (from_signed == to_signed && from <= to) || (!from_signed && to_signed && from < to)
        }
        (None, None) if is_text(stored) => is_text(table),
        (None, None) if is_binary(stored) => is_binary(table),
        (None, None) => {
            let is_ordered = matches!(
                stored,
                Boolean
                    | Date32
                    | Date64
                    | Time32(_)
                    | Time64(_)
                    | Timestamp(..)
                    | Duration(_)
                    | Decimal32(..)
                    | Decimal64(..)
                    | Decimal128(..)
            );
            is_ordered && stored == table
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::parquet::arrow::ArrowSchemaConverter;

    fn column(data_type: &DataType) -> Arc<ColumnDescriptor> {
        let schema = Schema::new(vec![Field::new("c", data_type.clone(), true)]);
        let descriptor = ArrowSchemaConverter::new().convert(&schema);
        descriptor.expect("a column of Parquet").column(0)
    }

    fn trusted(data_type: &DataType, order: impl Fn(SortOrder) -> ColumnOrder) -> Trust {
        let column = column(data_type);
        trust(&column, order(column.sort_order()), data_type, data_type)
    }

    #[test]
    fn bounds_need_a_defined_order() {
        use DataType::{Boolean, Date32, Decimal128, Float64, Int32, UInt32, Utf8};
        for (data_type, legacy) in [
            (Int32, Trust::Both),
            (Date32, Trust::Both),
            (Decimal128(30, 2), Trust::Both),
            (Utf8, Trust::None),
            (UInt32, Trust::None),
            (Boolean, Trust::None),
        ] {
            let defined = trusted(&data_type, ColumnOrder::TYPE_DEFINED_ORDER);
            assert_eq!(defined, Trust::Both, "{data_type}");
            assert_eq!(
                trusted(&data_type, |_| ColumnOrder::UNDEFINED),
                legacy,
                "{data_type}"
            );
            assert_eq!(
                trusted(&data_type, |_| ColumnOrder::UNKNOWN),
                Trust::None,
                "{data_type}"
            );
        }
        let float = trusted(&Float64, ColumnOrder::TYPE_DEFINED_ORDER);
        assert_eq!(float, Trust::Lower);
    }

    #[test]
    fn bounds_are_used_if_the_order_survives_the_cast() {
        use DataType::{
            Dictionary, Float32, Float64, Int16, Int32, Int64, UInt16, UInt32, UInt64, Utf8, Utf8View,
        };
        let text = Dictionary(Box::new(Int32), Box::new(Utf8));
        for (stored, table, expected) in [
            (Int32, Int64, Trust::Both),
            (UInt16, Int32, Trust::Both),
            (UInt32, UInt64, Trust::Both),
            (Utf8, Utf8View, Trust::Both),
            (Utf8, text, Trust::Both),
            (Int64, Int32, Trust::None),
            (UInt32, Int32, Trust::None),
            (Int16, UInt32, Trust::None),
            (Utf8, Int64, Trust::None),
            (Int64, Utf8, Trust::None),
            (Int64, Float64, Trust::None),
            (Float32, Float64, Trust::None),
        ] {
            let column = column(&stored);
            let order = ColumnOrder::TYPE_DEFINED_ORDER(column.sort_order());
            assert_eq!(
                trust(&column, order, &stored, &table),
                expected,
                "{stored} as {table}"
            );
        }
    }
}
