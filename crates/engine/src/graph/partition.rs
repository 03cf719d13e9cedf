//! Partitions of rows by a key, for state that is computed out of core: the conditions that restrict the
//! pipelines of a build side and of the rows that probe it.

use super::{KeyBounds, OutOfCoreMemory, PipelineGraph, PipelineRef};
use galatea_codegen::PipelinePlan;
use galatea_expression::{BUCKETS, BuildPart, Expr, Interval};
use std::ops::Range;

/// Bits of a key's hash below the number of its bucket.
pub(crate) const HASH_SHIFT: u32 = u32::BITS - BUCKETS.ilog2();

/// The assignment of rows to buckets by their keys. Rows of equal keys are in one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Buckets {
    /// By a hash of the key.
    Hashes,
    /// `2^shift` consecutive integer keys each, from `least` on. The last bucket also has all other keys, and
    /// NULL.
    Keys {
        /// The least key of the build side.
        least: i64,
        /// Binary logarithm of the number of keys.
        shift: u32,
    },
}

/// A partition of rows by a key: a range of buckets.
#[derive(Debug, Clone)]
pub(crate) struct Partition {
    pub(crate) buckets: Buckets,
    /// The buckets.
    pub(crate) range: Range<u32>,
    /// Maximum number of rows of the build side, for buckets of hashes.
    pub(crate) most: u64,
    /// The slices of both sides, if rows of equal keys are more than fit.
    pub(crate) slices: Slices,
    /// Whether rows of the probe side, and of the build side, have their row number as a column of the join:
    /// their matches in all slices of the other side are merged.
    pub(crate) numbered: [bool; 2],
}

/// The numbers of the columns of a join with the row numbers of the probe side, and of the build side.
pub(crate) const ROW_COLUMNS: [usize; 2] = [usize::MAX - 1, usize::MAX];

/// Slices of the build side and of the probe side of a partition: buckets of the hash of a row's number in
/// its table. Without a slice, the partition has all rows of its keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Slices {
    pub(crate) build: Option<Range<u32>>,
    pub(crate) probe: Option<Range<u32>>,
}

/// The condition that a row is in a slice.
pub(crate) fn in_slice(buckets: &Range<u32>) -> Expr {
    let bucket = Expr::key_hash(&Expr::table_row(), false).bucket(0, HASH_SHIFT);
    bucket.within(buckets.start.into(), i64::from(buckets.end) - 1)
}

/// A key as a word in the order of integer keys, see `Function::KeyOrder`.
fn order_word(key: i64) -> i64 {
    key ^ i64::MIN
}

impl Partition {
    /// The partition without rows.
    pub(crate) fn none() -> Self {
        Self {
            buckets: Buckets::Hashes,
            range: 0..0,
            most: 1,
            slices: Slices::default(),
            numbered: [false; 2],
        }
    }

    /// The partition with all rows, at most `most` of the build side at a time.
    pub(crate) fn all(most: u64, numbered: [bool; 2]) -> Self {
        Self {
            range: 0..BUCKETS,
            most,
            numbered,
            ..Self::none()
        }
    }

    /// Whether it has all rows.
    pub(crate) fn is_whole(&self) -> bool {
        self.buckets == Buckets::Hashes && self.range == (0..BUCKETS)
    }

    /// The condition that a row of the probe side is in the partition.
    pub(crate) fn probes(&self, key: &Expr, spreads: bool) -> Expr {
        let bucket = match self.buckets {
            Buckets::Hashes => Expr::key_hash(key, spreads).bucket(0, HASH_SHIFT),
            Buckets::Keys { least, shift } => Expr::key_order(key).bucket(order_word(least), shift),
        };
        match self.range.is_empty() {
            true => bucket.within(1, 0),
            false => bucket.within(self.range.start.into(), i64::from(self.range.end) - 1),
        }
    }

    /// The condition that a row of the build side is in the partition.
    pub(crate) fn builds(&self, key: &Expr, spreads: bool) -> Expr {
        match self.bounds() {
            // Arrays by key have no entries for keys outside of this interval.
            Some([least, greatest]) => Expr::key_order(key).within(order_word(least), order_word(greatest)),
            None => self.probes(key, spreads),
        }
    }

    /// The keys of the build side, for buckets of keys. All partitions have the same number of keys, so that
    /// they share a kernel; the last ones may exceed 64 bits.
    pub(crate) fn keys(&self) -> Option<Interval> {
        let Buckets::Keys { least, shift } = self.buckets else {
            return None;
        };
        let low = i128::from(least) + (i128::from(self.range.start) << shift);
        let high = low + (1_i128 << shift) - 1;
        Some(Interval { low, high })
    }

    /// The least and the greatest key of 64 bits in [`Self::keys`].
    fn bounds(&self) -> Option<[i64; 2]> {
        let Interval { low, high } = self.keys()?;
        Some([low, high].map(|key| key.clamp(i64::MIN.into(), i64::MAX.into()) as i64))
    }

    /// The keys or rows of the build side.
    pub(crate) fn part(&self) -> BuildPart {
        match self.keys() {
            Some(keys) => BuildPart::Keys(keys),
            None => BuildPart::Rows(self.most),
        }
    }

    /// The values of the key's column in the rows of the build side or of the probe side. Zone maps skip
    /// chunks with them. `None` for hashes, and for keys that are no columns.
    pub(crate) fn pruning(&self, key: &Expr, probes: bool) -> Option<KeyBounds> {
        let [least, greatest] = self.bounds()?;
        let outside = match self.buckets {
            // The last partition has the rows without a bucket of their own.
            Buckets::Keys { least, .. } if probes && self.range.end == BUCKETS => Some(least),
            _ => None,
        };
        let keys = least.into()..=match outside {
            Some(_) => i128::MAX,
            None => greatest.into(),
        };
        Some(KeyBounds::new(key.as_column()?, keys, outside))
    }
}

/// The graph with a pipeline that counts the rows in each bucket of the hashes of a key, for the rows that
/// pass these filters.
pub(crate) fn counting(
    pipeline: PipelineRef<'_>,
    filters: &[Expr],
    key: &Expr,
    spreads: bool,
) -> PipelineGraph {
    let number = Expr::key_hash(key, spreads).bucket(0, HASH_SHIFT);
    let mut graph = pipeline.graph().clone();
    let counts = graph.pipeline_mut(pipeline.id());
    counts.plan = PipelinePlan::counts(filters.to_vec(), Some(number));
    counts.fetch = None;
    counts.out_of_core = OutOfCoreMemory::default();
    graph
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_by_key_cover_all_keys() {
        let partition = |number: u32, end| Partition {
            buckets: Buckets::Keys { least: -5, shift: 3 },
            range: number..end,
            most: 8,
            slices: Slices::default(),
            numbered: [false; 2],
        };
        assert_eq!(partition(0, 1).bounds(), Some([-5, 2]));
        assert_eq!(partition(1, 2).bounds(), Some([3, 10]));
        assert_eq!(
            partition(1, BUCKETS).part(),
            BuildPart::Keys(Interval { low: 3, high: 10 })
        );
        let extreme = Partition {
            buckets: Buckets::Keys {
                least: i64::MAX - 1,
                shift: 3,
            },
            ..partition(0, BUCKETS)
        };
        assert_eq!(extreme.bounds(), Some([i64::MAX - 1, i64::MAX]));
        assert_eq!(order_word(i64::MIN), 0, "the least word");
        assert!((order_word(-1) as u64) < order_word(0) as u64);
    }
}
