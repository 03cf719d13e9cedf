//! Bloom filters of row groups: a row group without the values of an equality is skipped.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use ::parquet::bloom_filter::Sbbf;
use ::parquet::file::metadata::ColumnChunkMetaData;
use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::DataType;
use bytes::Bytes;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column as ColumnName, ScalarValue};
use datafusion::datasource::physical_plan::parquet::BloomFilterStatistics;
use datafusion::physical_expr::utils::{Guarantee, LiteralGuarantee};
use object_store::ObjectStoreExt;
use rayon::prelude::*;

use super::super::column_bytes::{ColumnBytes, Piece};
use super::super::files::TableFiles;
use super::candidates::Candidates;
use super::places::{Place, Trust};
use crate::damage::contained;
use crate::decode::plain_type;
use crate::error::Result;
use crate::pool::on_pool;
use crate::prune::by_index;

/// Bytes to read of a filter of unknown length: the size limit of most writers plus the header.
const UNKNOWN_LENGTH: u64 = (1 << 20) + 64;

/// The Bloom filters of columns in equalities and IN, by row group. Columns are named by their index.
#[derive(Default)]
pub(super) struct BloomFilters {
    groups: usize,
    columns: HashMap<usize, Vec<Option<BloomFilterStatistics>>>,
}

/// A filter to read.
#[derive(Debug, Clone)]
struct Wanted {
    column: usize,
    /// Number of the row group among the candidates.
    group: usize,
    file: usize,
    leaf: usize,
    range: Range<u64>,
}

impl BloomFilters {
    /// Reads the filters of the row groups to `keep`, for the columns in equalities and IN. A filter that
    /// cannot be read or is larger than the column chunk is not used.
    ///
    /// # Errors
    /// The threads of the pool have ended.
    pub(super) async fn read(
        files: &TableFiles,
        candidates: &Arc<Candidates>,
        keep: &[bool],
    ) -> Result<Self> {
        let wanted = wanted(candidates, keep);
        if wanted.is_empty() {
            return Ok(Self::default());
        }
        let mut fetched = Vec::with_capacity(wanted.len());
        for filter in &wanted {
            let source = &candidates.row_groups.files[filter.file].source;
            fetched.push(match source.path {
                Some(_) => None,
                None => {
                    let objects = &files.objects;
                    let bytes = objects.get_range(&source.meta.location, filter.range.clone());
                    Some(bytes.await.unwrap_or_default())
                }
            });
        }
        let candidates = Arc::clone(candidates);
        on_pool(move || {
            let read: Vec<_> = (wanted.into_par_iter().zip(fetched))
                .filter_map(|(filter, fetched)| {
                    let statistics = candidates.filter(&filter, fetched)?;
                    Some((filter, statistics))
                })
                .collect();
            let groups = candidates.groups.len();
            let mut columns: HashMap<usize, Vec<Option<BloomFilterStatistics>>> = HashMap::new();
            for (filter, statistics) in read {
                let of_column = columns.entry(filter.column).or_insert_with(|| vec![None; groups]);
                of_column[filter.group] = Some(statistics);
            }
            Ok(Self { groups, columns })
        })
        .await
    }

    pub(super) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }
}

/// The filters of columns in equalities and IN.
fn wanted(candidates: &Candidates, keep: &[bool]) -> Vec<Wanted> {
    let guarantees = candidates.predicates.iter().flat_map(|predicate| {
        let named = by_index(&candidates.schema, predicate);
        named.map_or_else(|_| Vec::new(), |named| LiteralGuarantee::analyze(&named))
    });
    let columns: BTreeSet<usize> = guarantees
        .filter(|guarantee| guarantee.guarantee == Guarantee::In)
        .filter_map(|guarantee| guarantee.column.name.parse().ok())
        .collect();
    let mut wanted = Vec::new();
    let places = candidates.columns.iter();
    for (column, places) in places.filter(|(column, _)| columns.contains(column)) {
        let table = plain_type(candidates.schema.field(*column).data_type());
        let kept = candidates.groups.iter().enumerate();
        for (number, (file, group, _)) in kept.filter(|(number, _)| keep[*number]) {
            let Place::Stored { leaf, field, trust } = &places[*file] else {
                continue;
            };
            let chunk = candidates.metadata(*file, *group).column(*leaf);
            let stored = plain_type(field.data_type());
            // `Trust::Both` excludes floats: a float may have several representations.
            if *trust != Trust::Both || !is_same(stored, table) {
                continue;
            }
            let size = candidates.row_groups.files[*file].source.meta.size;
            wanted.extend(range(chunk, size).map(|range| Wanted {
                column: *column,
                group: number,
                file: *file,
                leaf: *leaf,
                range,
            }));
        }
    }
    wanted
}

/// Whether values of the two types have the same bytes in a filter.
fn is_same(stored: &DataType, table: &DataType) -> bool {
    let family = |kind: &DataType| match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        other => other.clone(),
    };
    family(stored) == family(table)
}

/// The bytes of a column chunk's filter.
fn range(chunk: &ColumnChunkMetaData, file_size: u64) -> Option<Range<u64>> {
    let start = u64::try_from(chunk.bloom_filter_offset()?).ok()?;
    let length = match chunk.bloom_filter_length() {
        Some(length) => {
            let length = u64::try_from(length).ok()?;
            let column = u64::try_from(chunk.compressed_size()).unwrap_or(0);
            (length <= column).then_some(length)?
        }
        None => UNKNOWN_LENGTH.min(file_size.checked_sub(start)?),
    };
    let end = start.checked_add(length)?;
    (start < end && end <= file_size).then_some(start..end)
}

impl Candidates {
    /// Reads and parses a filter.
    fn filter(&self, wanted: &Wanted, fetched: Option<Bytes>) -> Option<BloomFilterStatistics> {
        let file = &self.row_groups.files[wanted.file];
        let length = wanted.range.end - wanted.range.start;
        let bytes = match fetched {
            Some(bytes) => bytes,
            None => file.read((wanted.range.start, length)).ok()?,
        };
        let piece = Piece {
            start: wanted.range.start,
            bytes,
        };
        let source = ColumnBytes {
            pieces: vec![piece],
            file_size: file.source.meta.size,
        };
        let (_, group, _) = self.groups[wanted.group];
        let chunk = self.metadata(wanted.file, group).column(wanted.leaf);
        let filter = contained(|| Sbbf::read_from_column_chunk(chunk, &source));
        let filter = filter.ok()?.ok()??;
        let mut statistics = BloomFilterStatistics::with_capacity(1);
        let descriptor = chunk.column_descr();
        statistics.insert(
            wanted.column.to_string(),
            filter,
            descriptor.physical_type(),
            descriptor.type_length(),
        );
        Some(statistics)
    }
}

/// The value in the type that a filter hashes; `None` for types with several representations of a value.
fn stored_value(value: &ScalarValue) -> Option<ScalarValue> {
    use ScalarValue::{
        Date32, Decimal128, Dictionary, Float16, Float32, Float64, Int8, Int16, Int32, Int64,
        Time32Millisecond, Time32Second, Time64Microsecond, Time64Nanosecond, TimestampMicrosecond,
        TimestampMillisecond, TimestampNanosecond, UInt8, UInt16,
    };
    Some(match value {
        Float16(_) | Float32(_) | Float64(_) => return None,
        Dictionary(_, value) => stored_value(value)?,
        Int8(Some(value)) => Int32(Some((*value).into())),
        Int16(Some(value)) => Int32(Some((*value).into())),
        UInt8(Some(value)) => Int32(Some((*value).into())),
        UInt16(Some(value)) => Int32(Some((*value).into())),
        Date32(Some(value)) | Time32Second(Some(value)) | Time32Millisecond(Some(value)) => {
            Int32(Some(*value))
        }
        Time64Microsecond(Some(value))
        | Time64Nanosecond(Some(value))
        | TimestampMillisecond(Some(value), _)
        | TimestampMicrosecond(Some(value), _)
        | TimestampNanosecond(Some(value), _) => Int64(Some(*value)),
        Decimal128(Some(_), ..) => value.clone(),
        other => other.clone(),
    })
}

impl PruningStatistics for BloomFilters {
    fn min_values(&self, _: &ColumnName) -> Option<ArrayRef> {
        None
    }

    fn max_values(&self, _: &ColumnName) -> Option<ArrayRef> {
        None
    }

    fn num_containers(&self) -> usize {
        self.groups
    }

    fn null_counts(&self, _: &ColumnName) -> Option<ArrayRef> {
        None
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        None
    }

    fn contained(&self, column: &ColumnName, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        let filters = self.columns.get(&column.name.parse().ok()?)?;
        // No comparison with NULL is true.
        let values = values.iter().filter(|value| !value.is_null());
        let values = values.map(stored_value).collect::<Option<HashSet<_>>>()?;
        if values.is_empty() {
            return None;
        }
        let contained = filters.iter().map(|filter| {
            let contained = filter.as_ref()?.contained(column, &values)?;
            contained.iter().next()?
        });
        Some(contained.collect())
    }
}
