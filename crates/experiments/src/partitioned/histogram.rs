//! Histograms of partitions by the threads of the CPU, for a first pass of kernels.

use galatea_device::{VectorWork, in_vectors};
use galatea_kernels::{RadixBits, RadixGrid};
use rayon::prelude::*;

/// Keys that a task counts.
const PIECE: usize = 1 << 18;
/// Histograms of a task. Adjacent keys have different ones, so that equal keys do not wait for each other.
const LANES: usize = 4;

/// The counts of a piece of keys, in the widest vectors.
struct Count<'a> {
    keys: &'a [u64],
    bits: RadixBits,
    counts: &'a mut [u32],
}

impl VectorWork for Count<'_> {
    type Output = ();

    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let parts = self.bits.parts();
        let mut groups = self.keys.chunks_exact(2 * LANES);
        for group in &mut groups {
            let mut found = [0usize; 2 * LANES];
            for (part, key) in found.iter_mut().zip(group) {
                *part = self.bits.part(*key);
            }
            for (lane, part) in found.into_iter().enumerate() {
                self.counts[lane % LANES * parts + part] += 1;
            }
        }
        for key in groups.remainder() {
            self.counts[self.bits.part(*key)] += 1;
        }
    }
}

/// Adds the counts of the second list to the first.
fn add(mut sums: Vec<u32>, counts: &[u32]) -> Vec<u32> {
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count;
    }
    sums
}

/// The number of keys of each partition, for each block of a grid.
pub(super) fn histogram(keys: &[u64], grid: RadixGrid, bits: RadixBits) -> Vec<u32> {
    let parts = bits.parts();
    let per_block = usize::try_from(grid.per_block).unwrap_or(usize::MAX);
    let piece = |keys: &[u64]| {
        let mut counts = vec![0u32; LANES * parts];
        in_vectors(Count {
            keys,
            bits,
            counts: &mut counts,
        });
        let (sums, others) = counts.split_at(parts);
        others.chunks(parts).fold(sums.to_vec(), add)
    };
    let block = |keys: &[u64]| {
        let pieces = keys.par_chunks(PIECE).map(piece);
        pieces.reduce(|| vec![0; parts], |sums, counts| add(sums, &counts))
    };
    let mut all: Vec<u32> = keys.par_chunks(per_block).flat_map_iter(block).collect();
    all.resize(grid.blocks as usize * parts, 0);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_each_block() {
        let bits = RadixBits {
            shift: 1,
            bits: 5,
            raw: false,
        };
        for count in [0u64, 1, 127, 129, 5000, 1 << 19] {
            let keys: Vec<u64> = (0..count).map(|row| row * 31 % 1009).collect();
            let grid = RadixGrid::new(count, 3);
            let mut expected = vec![0u32; grid.blocks as usize * bits.parts()];
            for (row, key) in keys.iter().enumerate() {
                let block = row / grid.per_block as usize;
                expected[block * bits.parts() + bits.part(*key)] += 1;
            }
            assert_eq!(histogram(&keys, grid, bits), expected, "{count}");
        }
    }
}
