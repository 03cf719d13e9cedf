//! Partitions of state by ranges of an integer key, for tables in the order of the key and for groups that
//! need arrays by key.
//!
//! Zone maps skip the chunks of other partitions, so each chunk of a table in the order of the key is read in
//! one or two partitions. All build sides that rows look up by this key have the same partitions.

use super::error::Failure;
use super::executor::Executor;
use crate::graph::{PipelineRef, PipelineSource};
use crate::joins::out_of_core::{PartitionedState, key_bytes};
use arrow::datatypes::DataType;
use galatea_codegen::{AlignedSide, SinkPlan};
use galatea_expression::BUCKETS;
use galatea_store::KeyZones;

/// Maximum number of keys in a partition: indices of arrays have 32 bits.
const MAX_KEYS: u64 = 1 << 30;

/// Factor of the memory of a partition for arrays by key, because their size is exact.
const KEYS_MEMORY: u64 = 2;

/// The keys of a build side.
struct SideKeys {
    /// The least and the greatest key, or bounds of them.
    bounds: [i64; 2],
    /// Bytes of the arrays for each key.
    entry: u64,
    /// Whether its rows need arrays by key.
    by_key: bool,
    /// Whether its rows are in the order of the key.
    ordered: bool,
}

/// Whether values of this type are integers of at most 64 bits on the device.
fn is_ordered(data_type: &DataType) -> bool {
    use DataType::{Date32, Date64, Time32, Time64, Timestamp, UInt64};
    data_type.is_integer() && *data_type != UInt64
        || matches!(data_type, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..))
}

/// Partitions by the value of an integer key. Chunks of a table in the order of the key are read in few
/// partitions, and arrays by key need no hash table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyPartitions {
    /// The least key.
    pub(super) least: i64,
    /// Binary logarithm of the number of keys in a partition.
    pub(super) shift: u32,
    /// Number of partitions.
    pub(super) number: u32,
}

impl KeyPartitions {
    /// The partitions of the keys from `least` to `greatest` with arrays of at most `bytes` bytes, `entry`
    /// for each key; `None` if there are too many.
    fn new([least, greatest]: [i64; 2], entry: u64, bytes: u64) -> Option<Self> {
        let keys = (bytes / entry.max(1)).clamp(1, MAX_KEYS);
        let shift = keys.ilog2();
        let span = u64::try_from(i128::from(greatest) - i128::from(least)).ok()?;
        let number = u32::try_from(span >> shift).ok()?.checked_add(1)?;
        (number < BUCKETS).then_some(Self { least, shift, number })
    }
}

impl Executor<'_> {
    /// Whether the rows that probe the build side of a join are scanned in the order of the key.
    pub(super) async fn probes_in_order(
        &self,
        pipeline: PipelineRef<'_>,
        join: PartitionedState,
    ) -> Result<bool, Failure> {
        use PipelineSource::{Files, Stored};
        let column = join.keys(pipeline).and_then(|[_, key]| key.as_column());
        let (Some(column), Stored(_) | Files { .. }) = (column, &pipeline.source) else {
            return Ok(false);
        };
        let zones = self.zones_of(pipeline, column).await?;
        Ok(zones.is_some_and(|(zones, _)| zones.are_ordered()))
    }

    /// The zones of a column of a pipeline's table, and the number of rows.
    async fn zones_of(
        &self,
        pipeline: PipelineRef<'_>,
        column: usize,
    ) -> Result<Option<(KeyZones, u64)>, Failure> {
        let plan = pipeline.plan.resolved().map_err(Failure::Input)?;
        let at = plan.columns().iter().position(|source| *source == column);
        let view = self.view(pipeline, &plan, &[], None).await?;
        let column = at.and_then(|at| view.columns.get(at));
        let zones = column.and_then(|column| KeyZones::of(column, 0..column.chunks.len()));
        Ok(zones.map(|zones| (zones, view.rows)))
    }

    /// The build sides of a pipeline that rows look up by the key of a join, and the partitions of this key.
    /// `None` if it is no integer column, or if rows are in another order and need not be in arrays by key.
    pub(super) async fn by_keys(
        &self,
        pipeline: PipelineRef<'_>,
        join: PartitionedState,
        bytes: u64,
    ) -> Result<Option<(Vec<usize>, KeyPartitions)>, Failure> {
        let (PartitionedState::Lookup(side), Some([_, wanted])) = (join, join.keys(pipeline)) else {
            return Ok(None);
        };
        let Some(own) = self.keys_of(pipeline, side).await? else {
            return Ok(None);
        };
        if !own.by_key && !own.ordered {
            return Ok(None);
        }
        let mut all = vec![(side, own)];
        for other in 0..pipeline.build_sides.len() {
            let join = PartitionedState::Lookup(other);
            if other != side
                && matches!(join.keys(pipeline), Some([_, key]) if key == wanted)
                && let Some(keys) = self.keys_of(pipeline, other).await?
            {
                all.push((other, keys));
            }
        }
        let entry = all.iter().map(|(_, keys)| keys.entry).sum();
        let least = all.iter().map(|(_, keys)| keys.bounds[0]).min().unwrap_or(0);
        let greatest = all.iter().map(|(_, keys)| keys.bounds[1]).max().unwrap_or(0);
        let partitions = KeyPartitions::new([least, greatest], entry, KEYS_MEMORY * bytes);
        let sides = all.into_iter().map(|(side, _)| side).collect();
        Ok(partitions.map(|partitions| (sides, partitions)))
    }

    /// The keys of a build side, if it is built from a table with an integer column as its key.
    async fn keys_of(&self, pipeline: PipelineRef<'_>, side: usize) -> Result<Option<SideKeys>, Failure> {
        use PipelineSource::{Files, Stored};
        let Some(build) = PartitionedState::Lookup(side).build(pipeline) else {
            return Ok(None);
        };
        let by_key = matches!(build.plan.sink, SinkPlan::BuildGroups { .. });
        let key = build.plan.key_of(AlignedSide::Own);
        let Some((key, column)) = key.and_then(|key| Some((key, key.as_column()?))) else {
            return Ok(None);
        };
        if !is_ordered(key.data_type()) || !matches!(build.source, Stored(_) | Files { .. }) {
            return Ok(None);
        }
        let Some((zones, rows)) = self.zones_of(build, column).await? else {
            return Ok(None);
        };
        let bounds = [zones.least, zones.greatest].map(i64::try_from);
        let [Ok(least), Ok(greatest)] = bounds else {
            return Ok(None);
        };
        // A hash table has 2 to 4 slots for each row. Arrays with more entries than that take more memory.
        let dense = i128::from(greatest) - i128::from(least) <= 4 * i128::from(rows);
        Ok((by_key || dense).then(|| SideKeys {
            bounds: [least, greatest],
            entry: key_bytes(&build.plan.sink),
            by_key,
            ordered: zones.are_ordered(),
        }))
    }
}
