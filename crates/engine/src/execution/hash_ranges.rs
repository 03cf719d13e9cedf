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
    u32::try_from(number)
        .ok()
        .filter(|number| *number <= MAX_PARTITIONS)
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
            let may_halve = |side: &usize| self.may_slice[*side] && numbers[*side] <= MAX_PARTITIONS / 2;
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

/// The least number of equal ranges of buckets, a power of two up to [`MAX_PARTITIONS`], so that each side,
/// given as its rows by bucket and a maximum, has at most that number of rows in a range.
pub(super) fn equal_ranges(sides: &[(&[u64], u64)]) -> Option<u32> {
    let fits = |number: u32, (rows, most): &(&[u64], u64)| {
        let mut ranges = rows.chunks(rows.len().div_ceil(number as usize).max(1));
        ranges.all(|range| range.iter().sum::<u64>() <= *most)
    };
    (1..=MAX_PARTITIONS.ilog2())
        .map(|bits| 1 << bits)
        .find(|number| sides.iter().all(|side| fits(*number, side)))
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
        assert_eq!(equal_ranges(&[(&even, 1024)]), Some(4));
        assert_eq!(equal_ranges(&[(&even, 1024), (&even, 16)]), Some(256));
        assert_eq!(equal_ranges(&[(&even, 15)]), None);
    }
}
