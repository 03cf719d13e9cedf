//! Bounds of columns by row group, from the statistics that are trusted.
//!
//! - Floats have no upper bound: statistics leave NaN out, which is greater than all numbers. A lower bound
//!   of 0.0 stands for -0.0, too.
//! - The order of the values must be defined. Files without it have bounds by bytes with a sign, which are
//!   used for columns of this order only. So are the deprecated bounds.
//! - A lower bound above the upper one is a contradiction, and neither is used.
//! - Bounds that are shortened may be equal without being a value, so that they do not refute an inequality.
//! - The values of the file must have the order of the table's: the same type, or wider integers there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use ::parquet::basic::{ColumnOrder, SortOrder, Type as PhysicalType};
use ::parquet::file::metadata::RowGroupMetaData;
use ::parquet::schema::types::ColumnDescriptor;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array, new_null_array};
use arrow::compute::{cast, concat, nullif};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Schema};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column as ColumnName, ScalarValue};

use super::super::column_reader::{Int96, file_schema, leaf_of};
use super::super::files::TableFiles;
use super::Candidates;
use crate::decode::plain_type;
use crate::error::Result;
use crate::version::RowGroups;

/// Where a file has a column of the table.
#[derive(Debug, Clone)]
pub(in crate::file) enum Place {
    /// It has not: all rows are NULL.
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
    /// In a form without usable statistics.
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

    /// The place of a column of the table in each file.
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

/// Whether values of type `stored`, other than floats, have the same order as values of type `table`, and
/// all of them are among these.
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

/// The bounds and counts of a column, by row group or by page.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    pub(super) lower: ArrayRef,
    pub(super) upper: ArrayRef,
    pub(super) nulls: UInt64Array,
}

impl Bounds {
    /// Without bounds. `nulls`: the numbers of NULLs, if known.
    fn unknown(table: &DataType, nulls: UInt64Array) -> Self {
        let unknown = new_null_array(table, nulls.len());
        Self {
            lower: Arc::clone(&unknown),
            upper: unknown,
            nulls,
        }
    }

    /// The bounds that are usable. `usable`: whether the format defines them; `exact`: whether both are values.
    pub(super) fn trusted(
        (lower, upper): (ArrayRef, ArrayRef),
        nulls: UInt64Array,
        (usable, exact): (&BooleanArray, &BooleanArray),
        (trust, table): (Trust, &DataType),
    ) -> arrow::error::Result<Self> {
        use arrow::compute::kernels::cmp::{eq, gt};
        use arrow::compute::{not, or};

        if trust == Trust::None {
            return Ok(Self::unknown(table, nulls));
        }
        let (lower, upper) = (comparable(&lower)?, comparable(&upper)?);
        let or_no = |flags: &BooleanArray| match flags.null_count() {
            0 => flags.clone(),
            _ => arrow::compute::prep_null_mask_filter(flags),
        };
        let inverted = or_no(&gt(&lower, &upper)?);
        let shortened = arrow::compute::and(&or_no(&eq(&lower, &upper)?), &not(&or_no(exact))?)?;
        let refused = or(&or(&inverted, &shortened)?, &not(&or_no(usable))?)?;
        let lower = nullif(&lower, &refused)?;
        let upper = nullif(&upper, &refused)?;
        let upper = match trust {
            Trust::Both => cast(&upper, table)?,
            Trust::None | Trust::Lower => new_null_array(table, nulls.len()),
        };
        Ok(Self {
            lower: cast(&lower_of_floats(lower), table)?,
            upper,
            nulls,
        })
    }
}

/// The array in a type that can be compared.
fn comparable(array: &ArrayRef) -> arrow::error::Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, values) => cast(array, values),
        _ => Ok(Arc::clone(array)),
    }
}

/// Lower bounds of floats in the order of SQL comparisons: both zeros are equal, and NaN is no bound.
fn lower_of_floats(bounds: ArrayRef) -> ArrayRef {
    match bounds.data_type() {
        DataType::Float32 => {
            let lower = bounds.as_primitive::<Float32Type>();
            let lower = lower.unary_opt::<_, Float32Type>(|bound| match bound {
                bound if bound.is_nan() => None,
                0.0 => Some(-0.0),
                bound => Some(bound),
            });
            Arc::new(lower)
        }
        DataType::Float64 => {
            let lower = bounds.as_primitive::<Float64Type>();
            let lower = lower.unary_opt::<_, Float64Type>(|bound| match bound {
                bound if bound.is_nan() => None,
                0.0 => Some(-0.0),
                bound => Some(bound),
            });
            Arc::new(lower)
        }
        _ => bounds,
    }
}

/// The statistics of row groups. Columns are named by their index in the table.
pub(super) struct GroupStatistics {
    rows: UInt64Array,
    columns: HashMap<usize, Bounds>,
}

impl GroupStatistics {
    /// The statistics of all row groups, for the columns of the predicates.
    pub(super) fn of(candidates: &Candidates) -> Self {
        let rows = candidates.groups.iter().map(|(_, _, rows)| *rows as u64);
        let columns = candidates.columns.iter().filter_map(|(column, places)| {
            let table = candidates.schema.field(*column).data_type();
            match column_bounds(candidates, places, table) {
                Ok(bounds) => Some((*column, bounds)),
                Err(error) => {
                    tracing::debug!(column, %error, "the statistics of a column are unusable");
                    None
                }
            }
        });
        Self {
            rows: UInt64Array::from_iter_values(rows),
            columns: columns.collect(),
        }
    }

    fn column(&self, name: &ColumnName) -> Option<&Bounds> {
        self.columns.get(&name.name.parse().ok()?)
    }
}

/// The bounds of a column in all row groups.
fn column_bounds(
    candidates: &Candidates,
    places: &[Place],
    table: &DataType,
) -> arrow::error::Result<Bounds> {
    let mut parts = Vec::new();
    for (file, place) in places.iter().enumerate() {
        let in_file = candidates.groups.iter().filter(|(other, _, _)| *other == file);
        let groups: Vec<&RowGroupMetaData> = in_file
            .map(|(_, group, _)| candidates.metadata(file, *group))
            .collect();
        let rows = || groups.iter().map(|group| group.num_rows().max(0) as u64);
        let part = match place {
            Place::Null => Bounds::unknown(table, UInt64Array::from_iter_values(rows())),
            Place::Unknown => Bounds::unknown(table, UInt64Array::new_null(groups.len())),
            Place::Constant(value) if value.is_null() => {
                Bounds::unknown(table, UInt64Array::from_iter_values(rows()))
            }
            Place::Constant(value) => {
                let values = cast(&value.to_array_of_size(groups.len())?, table)?;
                Bounds {
                    lower: Arc::clone(&values),
                    upper: values,
                    nulls: UInt64Array::from_value(0, groups.len()),
                }
            }
            Place::Stored { leaf, field, trust } => {
                let descriptor = candidates.row_groups.files[file].metadata.file_metadata();
                let descriptor = descriptor.schema_descr();
                let converter = StatisticsConverter::from_column_index(*leaf, field, descriptor)?
                    .with_missing_null_counts_as_zero(false);
                let groups = || groups.iter().copied();
                let is_signed = descriptor.column(*leaf).sort_order() == SortOrder::SIGNED;
                let usable = groups().map(|group| {
                    let statistics = group.column(*leaf).statistics()?;
                    Some(is_signed || !statistics.is_min_max_deprecated())
                });
                let exact = groups().map(|group| {
                    let statistics = group.column(*leaf).statistics()?;
                    Some(statistics.min_is_exact() && statistics.max_is_exact())
                });
                Bounds::trusted(
                    (
                        converter.row_group_mins(groups())?,
                        converter.row_group_maxes(groups())?,
                    ),
                    converter.row_group_null_counts(groups())?,
                    (&usable.collect(), &exact.collect()),
                    (*trust, table),
                )?
            }
        };
        parts.push(part);
    }
    let all = |side: fn(&Bounds) -> &dyn Array| {
        let arrays: Vec<&dyn Array> = parts.iter().map(side).collect();
        concat(&arrays)
    };
    Ok(Bounds {
        lower: all(|part| &part.lower)?,
        upper: all(|part| &part.upper)?,
        nulls: all(|part| &part.nulls)?.as_primitive().clone(),
    })
}

impl PruningStatistics for GroupStatistics {
    fn min_values(&self, column: &ColumnName) -> Option<ArrayRef> {
        Some(Arc::clone(&self.column(column)?.lower))
    }

    fn max_values(&self, column: &ColumnName) -> Option<ArrayRef> {
        Some(Arc::clone(&self.column(column)?.upper))
    }

    fn num_containers(&self) -> usize {
        self.rows.len()
    }

    fn null_counts(&self, column: &ColumnName) -> Option<ArrayRef> {
        Some(Arc::new(self.column(column)?.nulls.clone()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(self.rows.clone()))
    }

    fn contained(&self, _: &ColumnName, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
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
