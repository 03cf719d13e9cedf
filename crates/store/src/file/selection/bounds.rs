//! Bounds of columns by row group, from trusted statistics ([`Trust`]).
//!
//! - Floats have no upper bound: statistics leave NaN out, which is greater than all numbers. A lower bound
//!   of 0.0 stands for -0.0, too.
//! - A lower bound above the upper one is a contradiction, and neither is used.
//! - Equal bounds that are shortened need not be a value of the column. They would refute `<>` wrongly, so
//!   neither is used.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ::parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use ::parquet::basic::SortOrder;
use ::parquet::file::metadata::RowGroupMetaData;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array, new_null_array};
use arrow::compute::{cast, concat, nullif};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column as ColumnName, ScalarValue};

use super::candidates::Candidates;
use super::places::{Place, Trust};

/// The bounds and counts of a column, by row group or by page.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    pub(super) lower: ArrayRef,
    pub(super) upper: ArrayRef,
    pub(super) nulls: UInt64Array,
}

impl Bounds {
    /// Unknown bounds. `nulls`: the number of NULLs by row group, NULL if unknown.
    fn unknown(table: &DataType, nulls: UInt64Array) -> Self {
        let unknown = new_null_array(table, nulls.len());
        Self {
            lower: Arc::clone(&unknown),
            upper: unknown,
            nulls,
        }
    }

    /// The trusted bounds, cast to the type `table`; the others are NULL. `usable`: whether the format
    /// defines the order of both bounds; `exact`: whether neither bound is shortened.
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

    /// The bounds of the column of the table with this index, by row group.
    pub(super) fn bounds(&self, column: usize) -> Option<&Bounds> {
        self.columns.get(&column)
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
