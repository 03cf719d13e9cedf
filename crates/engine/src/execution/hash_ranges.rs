//! Ranges of hash buckets with rows that fit a partition, and slices of buckets with more rows.
//!
//! ```text
//! buckets        0   1   2   3   4   5
//! rows           9   2   3  70   1   4       at most 20 fit
//! ranges        [0 .. 3)    [3]  [4 .. 6)
//! slices of 3                5 of the side with more rows, each joined with each slice of the other side
//! ```
//!
//! If a join preserves the rows of one side, their matches in all slices of the other side are merged
//! (`slice_marks.rs`). A row is then returned without a match in the last slice of the other side.

use crate::graph::Slices;
use galatea_expression::BUCKETS;
use std::iter::zip;
use std::ops::Range;

/// Maximum number of partitions that a kernel writes (`partition.cuh`).
pub(super) const MAX_PARTITIONS: u32 = 256;

/// A range of hash buckets. If rows of equal keys are more than fit, slices of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HashRange {
    pub(super) buckets: Range<u32>,
    pub(super) slices: Slices,
    /// Whether no later slice of the other side follows, for rows of the probe side and of the build side.
    pub(super) last: [bool; 2],
}

impl HashRange {
    /// All rows of these buckets.
    pub(super) fn whole(buckets: Range<u32>) -> Self {
        Self {
            buckets,
            slices: Slices::default(),
            last: [true; 2],
        }
    }

    /// Whether it is a slice of a bucket.
    pub(super) fn is_sliced(&self) -> bool {
        self.slices != Slices::default()
    }

    /// The combinations of `numbers` slices of the build side and of the probe side of a bucket.
    fn slices(bucket: u32, numbers: [u32; 2]) -> impl Iterator<Item = Self> {
        let slice = |number: u32, of: u32| {
            let first = |number: u32| (u64::from(number) * u64::from(BUCKETS) / u64::from(of)) as u32;
            (of > 1).then(|| first(number)..first(number + 1))
        };
        let [builds, probes] = numbers;
        (0..builds).flat_map(move |build| {
            (0..probes).map(move |probe| Self {
                buckets: bucket..bucket + 1,
                slices: Slices {
                    build: slice(build, builds),
                    probe: slice(probe, probes),
                },
                last: [build + 1 == builds, probe + 1 == probes],
            })
        })
    }
}

/// The number of slices for this number of rows if `most` fit; 1 if they fit. Slices have about equal numbers
/// of rows. `None` if there are too many.
fn slices_of(rows: u64, most: u64) -> Option<u32> {
    if rows <= most {
        return Some(1);
    }
    // A quarter more than necessary, because the hash does not distribute the rows exactly.
    let number = (rows + rows / 4).div_ceil(most.max(1));
    u32::try_from(number).ok().filter(|number| *number <= BUCKETS)
}

/// The rows of the build side and of the probe side by bucket, and the numbers that fit a partition.
pub(super) struct BucketRows<'a> {
    pub(super) rows: [&'a [u64]; 2],
    /// Maximum number of rows of each side in a partition.
    pub(super) most: [u64; 2],
    /// Whether rows of equal keys may be in several partitions.
    pub(super) may_slice: [bool; 2],
    /// Maximum number of matches in a partition, each of which has a bit.
    pub(super) pairs: u64,
}

impl BucketRows<'_> {
    /// The partitions: each consists of the maximum number of consecutive buckets that fit together, or of
    /// slices of one bucket. Also the maximum number of matches, and of rows without one, in all of them. An
    /// error is the number of rows of a bucket that does not fit.
    pub(super) fn ranges(&self) -> Result<(Vec<HashRange>, u64), u64> {
        let mut ranges = Vec::new();
        let (mut first, mut held, mut held_pairs) = (0, [0; 2], 0u64);
        let mut all = 0u64;
        for bucket in 0..BUCKETS {
            let rows = self
                .rows
                .map(|rows| rows.get(bucket as usize).copied().unwrap_or(0));
            let [own, others] = rows;
            let pairs = own.saturating_mul(others);
            all = [pairs, own, others].into_iter().fold(all, u64::saturating_add);
            let exceeds = |held: [u64; 2], pairs: u64| {
                held[0] + own > self.most[0] || held[1] + others > self.most[1] || pairs > self.pairs
            };
            if exceeds(held, held_pairs.saturating_add(pairs)) {
                if first < bucket {
                    ranges.push(HashRange::whole(first..bucket));
                }
                (first, held, held_pairs) = (bucket, [0; 2], 0);
            }
            match self.numbers(rows)? {
                [1, 1] => {
                    held = [held[0] + own, held[1] + others];
                    held_pairs = held_pairs.saturating_add(pairs);
                }
                numbers => {
                    ranges.extend(HashRange::slices(bucket, numbers));
                    first = bucket + 1;
                }
            }
        }
        if first < BUCKETS {
            ranges.push(HashRange::whole(first..BUCKETS));
        }
        Ok((ranges, all))
    }

    /// The numbers of slices of a bucket with these rows.
    fn numbers(&self, rows: [u64; 2]) -> Result<[u32; 2], u64> {
        let most_rows = rows.into_iter().max().unwrap_or(0);
        let mut numbers = [1; 2];
        for side in 0..2 {
            let number = slices_of(rows[side], self.most[side]);
            numbers[side] = number
                .filter(|number| *number == 1 || self.may_slice[side])
                .ok_or(most_rows)?;
        }
        loop {
            let of_slice = |side: usize| rows[side].div_ceil(u64::from(numbers[side]));
            if of_slice(0).saturating_mul(of_slice(1)) <= self.pairs {
                return Ok(numbers);
            }
            let may_halve = |side: &usize| self.may_slice[*side] && numbers[*side] <= BUCKETS / 2;
            match [0, 1]
                .into_iter()
                .filter(may_halve)
                .max_by_key(|side| of_slice(*side))
            {
                Some(side) if of_slice(side) > 1 => numbers[side] *= 2,
                // Few rows of the bucket may have equal keys.
                _ => return Ok(numbers),
            }
        }
    }
}

/// Number of rows that are read in the time that the launches of a join take: about a millisecond.
const JOIN_ROWS: u64 = 1 << 20;

/// The partitions of a Triton join, which partitions both sides once: ranges of equal numbers of buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EqualRanges {
    /// Number of ranges, a power of two.
    pub(super) number: u32,
    /// Maximum number of rows of the build side, and of the probe side, that are joined at once.
    pub(super) most: [u64; 2],
    /// Number of joins of these rows: more than one for a range with more rows.
    pub(super) joins: u64,
    /// Whether rows of the probe side, and of the build side, are joined with the other side in several parts
    /// and preserved: their matches in all parts are merged.
    pub(super) numbered: [bool; 2],
    /// Number of rows of both sides that all joins read.
    read: u64,
}

/// One side of a join in equal ranges of buckets.
#[derive(Debug, Clone, Copy)]
pub(super) struct RangedSide<'a> {
    /// Number of rows by bucket; empty if they were not counted.
    pub(super) rows: &'a [u64],
    /// Maximum number of rows that are joined at once.
    pub(super) most: u64,
    /// Whether the rows of a range may be joined in several parts, each with all rows of the other side.
    pub(super) may_divide: bool,
    /// Whether the join preserves its rows.
    pub(super) is_preserved: bool,
}

impl RangedSide<'_> {
    /// The number of rows of each of `number` ranges.
    fn ranges(&self, number: u32) -> impl Iterator<Item = u64> {
        let buckets = (BUCKETS / number) as usize;
        let rows = self.rows.iter().copied().chain(std::iter::repeat(0));
        let mut rows = rows.take(BUCKETS as usize);
        (0..number).map(move |_| rows.by_ref().take(buckets).sum())
    }

    /// The number of parts of a range with this number of rows; `None` if the side may not be divided.
    fn parts(&self, rows: u64) -> Option<u64> {
        let parts = rows.div_ceil(self.most.max(1)).max(1);
        (parts == 1 || self.may_divide).then_some(parts)
    }
}

impl EqualRanges {
    /// The number of ranges, up to [`MAX_PARTITIONS`], with the least expected time. `None` if the rows of a
    /// range exceed the maximum for any number of ranges, and may not be divided.
    pub(super) fn of(build: RangedSide<'_>, probe: RangedSide<'_>) -> Option<Self> {
        let ranges = (1..=MAX_PARTITIONS.ilog2()).map(|bits| 1 << bits);
        let ranges = ranges.filter_map(|number| Self::new(number, build, probe));
        ranges.min_by_key(|ranges| ranges.read.saturating_add(ranges.joins.saturating_mul(JOIN_ROWS)))
    }

    fn new(number: u32, build: RangedSide<'_>, probe: RangedSide<'_>) -> Option<Self> {
        let (mut joins, mut read) = (0u64, 0u64);
        let mut numbered = [false; 2];
        for (own, others) in zip(build.ranges(number), probe.ranges(number)) {
            let (own_parts, other_parts) = (build.parts(own)?, probe.parts(others)?);
            numbered[0] |= probe.is_preserved && own_parts > 1;
            numbered[1] |= build.is_preserved && other_parts > 1;
            joins = joins.saturating_add(own_parts.saturating_mul(other_parts));
            let rows = own.saturating_mul(other_parts);
            read = read.saturating_add(rows.saturating_add(others.saturating_mul(own_parts)));
        }
        Some(Self {
            number,
            most: [build.most, probe.most],
            joins,
            numbered,
            read,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(counts: &[(usize, u64)]) -> Vec<u64> {
        let mut rows = vec![0; BUCKETS as usize];
        counts.iter().for_each(|(bucket, count)| rows[*bucket] = *count);
        rows
    }

    /// Each combination of slices is in one partition, and only the last slice of the other side completes
    /// the rows of a slice.
    #[test]
    fn heavy_bucket_is_sliced_on_both_sides() {
        let (build, probe) = (rows(&[(1, 5), (7, 70), (9, 3)]), rows(&[(7, 35), (8, 2)]));
        let sides = BucketRows {
            rows: [&build, &probe],
            most: [20, 20],
            may_slice: [true; 2],
            pairs: u64::MAX,
        };
        let (ranges, pairs) = sides.ranges().expect("slices");
        assert_eq!(pairs, 70 * 35 + 5 + 70 + 3 + 35 + 2);
        let sliced: Vec<&HashRange> = ranges.iter().filter(|range| range.is_sliced()).collect();
        assert_eq!((ranges.len(), sliced.len()), (2 + 5 * 3, 5 * 3));
        assert!(sliced.iter().all(|range| range.buckets == (7..8)));
        for (side, slices) in [(0, 3), (1, 5)] {
            assert_eq!(sliced.iter().filter(|range| range.last[side]).count(), slices);
        }
        let [first, last] = [0, ranges.len() - 1].map(|at| ranges[at].clone());
        assert_eq!(first, HashRange::whole(0..7));
        assert_eq!(last, HashRange::whole(8..BUCKETS));
        for may_slice in [[true, false], [false, true]] {
            assert_eq!(BucketRows { may_slice, ..sides }.ranges().err(), Some(70));
        }
    }

    /// Matches with a bit each are limited by smaller slices of the side with more rows, if it may be sliced.
    #[test]
    fn bits_of_matches_limit_slices() {
        let (build, probe) = (rows(&[(3, 16)]), rows(&[(3, 64)]));
        let numbers = |may_slice, pairs| {
            let sides = BucketRows {
                rows: [&build, &probe],
                most: [20, 100],
                may_slice,
                pairs,
            };
            sides.numbers([16, 64])
        };
        assert_eq!(numbers([true; 2], 1024), Ok([1, 1]));
        assert_eq!(numbers([true; 2], 256), Ok([1, 4]));
        assert_eq!(numbers([true, false], 256), Ok([4, 1]));
        assert_eq!(numbers([false; 2], 256), Ok([1, 1]));
        assert_eq!(numbers([true; 2], 0), Ok([16, 64]));
    }

    #[test]
    fn equal_ranges_fit_both_sides() {
        let even = vec![1; BUCKETS as usize];
        let side = |most| RangedSide {
            rows: &even,
            most,
            may_divide: false,
            is_preserved: false,
        };
        let ranges = |build, probe| EqualRanges::of(side(build), side(probe));
        let number = |build, probe| ranges(build, probe).map(|ranges| ranges.number);
        assert_eq!(number(1024, u64::MAX), Some(4));
        let not_counted = RangedSide { rows: &[], ..side(0) };
        let uncounted = EqualRanges::of(side(1024), not_counted);
        assert_eq!(uncounted.map(|ranges| ranges.number), Some(4));
        assert_eq!(number(1024, 16), Some(256));
        assert_eq!(number(15, u64::MAX), None);
    }

    /// Only the range of a key with many rows is joined in several parts, if its side may be divided.
    #[test]
    fn ranges_of_heavy_keys_are_divided() {
        let mut heavy = vec![1; BUCKETS as usize];
        heavy[7] = 1000;
        let even = vec![1; BUCKETS as usize];
        let side = |rows, may_divide| RangedSide {
            rows,
            most: 128,
            may_divide,
            is_preserved: false,
        };
        let ranges = EqualRanges::of(side(&heavy, true), side(&even, false)).expect("ranges");
        let parts = (1000 + u64::from(BUCKETS / ranges.number - 1)).div_ceil(128);
        assert_eq!(ranges.joins, u64::from(ranges.number) - 1 + parts);
        assert_eq!(ranges.number, BUCKETS / 128);
        assert_eq!(EqualRanges::of(side(&heavy, false), side(&even, true)), None);
        let both = EqualRanges::of(side(&heavy, true), side(&heavy, true)).expect("ranges");
        assert_eq!(both.joins, u64::from(both.number) - 1 + parts * parts);
        let preserved = |side| RangedSide {
            is_preserved: true,
            ..side
        };
        let heavy = || side(&heavy, true);
        let numbered = |build, probe| EqualRanges::of(build, probe).map(|ranges| ranges.numbered);
        let even = || side(&even, true);
        assert_eq!(numbered(heavy(), preserved(even())), Some([true, false]));
        assert_eq!(numbered(preserved(even()), heavy()), Some([false, true]));
        assert_eq!(numbered(preserved(heavy()), even()), Some([false; 2]));
    }
}
