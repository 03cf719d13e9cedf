//! The relations of chapter 4: columns of keys and record numbers in pinned host memory.

use std::sync::Arc;

use galatea_device::{Device, DeviceError, HostMemory, HostView, Result};
use galatea_kernels::flow::mix64;
use galatea_kernels::{JoinRows, RadixCheck, RadixTuples, RadixValues};
use rayon::prelude::*;

/// Seed of the build side's values, which are hashes of its keys.
const BUILD_SEED: u64 = 0x6275_696c_6400_0000;
/// One in this number of probe tuples is rewritten before each run.
const REFRESHED: usize = 61;
/// Tuples that a task fills.
const PIECE: usize = 1 << 16;

/// Two columns in pinned host memory, mapped for a device.
#[derive(Debug)]
pub struct Relation {
    keys: Arc<HostMemory>,
    values: Arc<HostMemory>,
    /// Device addresses of both.
    mapped: (u64, u64),
    /// Number of tuples in use.
    pub(super) count: usize,
}

/// The words of memory that no copy uses.
fn words(memory: &mut Arc<HostMemory>) -> Result<&mut [u64]> {
    let bytes = memory.len() as u64;
    let memory = Arc::get_mut(memory).ok_or(DeviceError::HostMemoryShared { bytes })?;
    Ok(bytemuck::cast_slice_mut(memory.as_mut_slice()))
}

impl Relation {
    /// Allocates and pins columns for at most `tuples` tuples.
    fn new(device: &Device, tuples: usize) -> Result<Self> {
        let column = || {
            let memory = Arc::new(HostMemory::new(8 * tuples.max(1))?);
            let address = device.pin_mapped(&memory)?;
            Ok::<_, DeviceError>((memory, address))
        };
        let ((keys, key_address), (values, value_address)) = (column()?, column()?);
        Ok(Self {
            keys,
            values,
            mapped: (key_address, value_address),
            count: 0,
        })
    }

    /// The most tuples.
    fn capacity(&self) -> usize {
        self.keys.len() / 8
    }

    /// The tuples, for kernels.
    pub(super) fn tuples(&self) -> RadixTuples {
        RadixTuples {
            keys: self.mapped.0,
            values: RadixValues::Column(self.mapped.1),
            count: self.count as u64,
        }
    }

    /// Views of the columns of a range of tuples.
    pub(super) fn views(&self, range: std::ops::Range<usize>) -> Result<[HostView; 2]> {
        let view =
            |memory: &Arc<HostMemory>| HostView::new(Arc::clone(memory), 8 * range.start, 8 * range.len());
        Ok([view(&self.keys)?, view(&self.values)?])
    }

    /// The rows, for a join without partitions.
    pub(super) fn rows(&self) -> JoinRows {
        JoinRows {
            keys: self.mapped.0,
            payloads: self.mapped.1,
            rows: self.count as u64,
        }
    }

    /// The columns.
    pub(super) fn columns(&self) -> (&[u64], &[u64]) {
        let keys: &[u64] = bytemuck::cast_slice(self.keys.as_slice());
        let values: &[u64] = bytemuck::cast_slice(self.values.as_slice());
        (&keys[..self.count], &values[..self.count])
    }
}

/// A build side with each key below its size once, in a scattered order, and a probe side with uniform keys
/// of it: each probe tuple has one match.
#[derive(Debug)]
pub struct Inputs {
    /// The build side, R.
    pub(super) build: Relation,
    /// The probe side, S.
    pub(super) probe: Relation,
    /// Keys of the probe side are less: the number of tuples of the build side, or more.
    domain: u64,
    seed: u64,
    /// Number of calls of [`Self::refresh`].
    refreshed: u64,
    /// The sum of the values of both sides of all matches.
    sum: u64,
    /// The sum of the hashes of the probe side, to check partitionings.
    hash: u64,
}

/// A number near the golden section of `count` that has no divisor in common with it.
fn step(count: usize) -> usize {
    let gcd = |mut a: usize, mut b: usize| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let near = (count as f64 * 0.618_033_988_7) as usize;
    (near.max(1)..).find(|step| gcd(*step, count) == 1).unwrap_or(1)
}

/// A uniform number below `domain`, from a random one.
fn below(random: u64, domain: u64) -> u64 {
    ((u128::from(random) * u128::from(domain)) >> 64) as u64
}

/// The inverse of `step` modulo `count`; both have no divisor in common.
fn inverse(step: u64, count: u64) -> u64 {
    let (mut rest, mut next) = (i128::from(count), i128::from(step));
    let (mut factor, mut of_next) = (0i128, 1i128);
    while next != 0 {
        let times = rest / next;
        (rest, next) = (next, rest - times * next);
        (factor, of_next) = (of_next, factor - times * of_next);
    }
    factor.rem_euclid(i128::from(count)) as u64
}

/// Adds pairs of numbers, modulo 2^64.
fn add(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0.wrapping_add(b.0), a.1.wrapping_add(b.1))
}

impl Inputs {
    /// Allocates relations for at most these numbers of tuples.
    ///
    /// # Errors
    /// Too little host memory; the device's.
    pub fn new(device: &Device, build: usize, probe: usize) -> Result<Self> {
        Ok(Self {
            build: Relation::new(device, build)?,
            probe: Relation::new(device, probe)?,
            domain: 1,
            seed: 0,
            refreshed: 0,
            sum: 0,
            hash: 0,
        })
    }

    /// The most tuples of both sides.
    pub(super) fn capacity(&self) -> (usize, usize) {
        (self.build.capacity(), self.probe.capacity())
    }

    /// The numbers of tuples of both sides.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.build.count, self.probe.count)
    }

    /// The sum of the values of both sides of all matches.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Keys of the probe side are less.
    pub(super) fn domain(&self) -> u64 {
        self.domain
    }

    /// The sum of the record numbers of both sides of all matches, if each tuple's value is its position.
    #[must_use]
    pub fn numbers(&self) -> u64 {
        let count = self.build.count as u64;
        let inverse = inverse(step(self.build.count) as u64, count);
        let begin = self.seed % count;
        // A build side has fewer than 2^32 tuples, so products have 64 bits.
        let of_build = |key: u64| (key * inverse % count + count - begin) % count;
        let (keys, _) = self.probe.columns();
        let rows = keys.par_iter().enumerate().with_min_len(PIECE);
        rows.map(|(row, key)| of_build(*key).wrapping_add(row as u64))
            .reduce(|| 0, u64::wrapping_add)
    }

    /// The sum of the hashes of the probe side.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// The same, computed from the columns by all threads.
    pub(super) fn hash_by_cpu(&self) -> u64 {
        let (keys, values) = self.probe.columns();
        let pieces = keys.par_chunks(PIECE).zip(values.par_chunks(PIECE));
        let hash = |(keys, values): (&[u64], &[u64])| {
            let pairs = keys.iter().zip(values);
            pairs.fold(0u64, |sum, (key, value)| {
                sum.wrapping_add(RadixCheck::hash(*key, *value))
            })
        };
        pieces.map(hash).reduce(|| 0, u64::wrapping_add)
    }

    /// Number of tuples of both sides.
    pub(super) fn tuples(&self) -> u64 {
        (self.build.count + self.probe.count) as u64
    }

    /// Fills both sides.
    ///
    /// # Errors
    /// [`DeviceError::HostMemoryShared`] while a copy uses the memory.
    pub fn fill(&mut self, build: usize, probe: usize, seed: u64) -> Result<()> {
        self.fill_keys((build, probe), build as u64, seed)
    }

    /// Fills both sides, the probe side with keys below `domain`. [`Self::sum`] is that of a join only if the
    /// build side has all of these keys.
    ///
    /// # Errors
    /// [`DeviceError::HostMemoryShared`] while a copy uses the memory.
    pub(super) fn fill_keys(&mut self, (build, probe): (usize, usize), domain: u64, seed: u64) -> Result<()> {
        (self.build.count, self.probe.count) = (build, probe);
        (self.domain, self.seed) = (domain, seed);
        let step = step(build.max(1)) as u128;
        let keys = words(&mut self.build.keys)?[..build].par_chunks_mut(PIECE);
        let values = words(&mut self.build.values)?[..build].par_chunks_mut(PIECE);
        keys.zip(values).enumerate().for_each(|(piece, (keys, values))| {
            let first = (piece * PIECE) as u128 + u128::from(seed);
            let mut next = (first * step % build as u128) as u64;
            for (key, value) in keys.iter_mut().zip(values) {
                *key = next;
                *value = mix64(BUILD_SEED ^ next);
                next += step as u64;
                if next >= build as u64 {
                    next -= build as u64;
                }
            }
        });
        let keys = words(&mut self.probe.keys)?[..probe].par_chunks_mut(PIECE);
        let values = words(&mut self.probe.values)?[..probe].par_chunks_mut(PIECE);
        let sums = keys.zip(values).enumerate().map(|(piece, (keys, values))| {
            let rows = (piece * PIECE) as u64..;
            let (mut sum, mut hash) = (0u64, 0u64);
            for (row, (key, value)) in rows.zip(keys.iter_mut().zip(values)) {
                let random = mix64((seed << 40) ^ row);
                *key = below(random, domain);
                *value = random.rotate_left(32);
                sum = sum.wrapping_add(*value).wrapping_add(mix64(BUILD_SEED ^ *key));
                hash = hash.wrapping_add(RadixCheck::hash(*key, *value));
            }
            (sum, hash)
        });
        (self.sum, self.hash) = sums.reduce(|| (0, 0), add);
        Ok(())
    }

    /// Rewrites some tuples of the probe side, so that the sum and the histograms of another run are wrong.
    ///
    /// # Errors
    /// [`DeviceError::HostMemoryShared`] while a copy uses the memory.
    pub fn refresh(&mut self, seed: u64) -> Result<()> {
        let (count, domain) = (self.probe.count, self.domain);
        // The same seed twice gives other tuples.
        self.refreshed += 1;
        let seed = mix64(seed ^ mix64(self.refreshed));
        let values = words(&mut self.probe.values)?[..count].par_chunks_mut(REFRESHED);
        let keys = words(&mut self.probe.keys)?[..count].par_chunks_mut(REFRESHED);
        let pieces = keys.zip(values);
        let changes = pieces
            .enumerate()
            .with_min_len(4096)
            .map(|(piece, (keys, values))| {
                let random = mix64(seed ^ ((piece as u64) << 20));
                let new = (below(random, domain), random.rotate_left(32));
                let old = (
                    std::mem::replace(&mut keys[0], new.0),
                    std::mem::replace(&mut values[0], new.1),
                );
                let sum = |(key, value): (u64, u64)| value.wrapping_add(mix64(BUILD_SEED ^ key));
                let hash = |(key, value): (u64, u64)| RadixCheck::hash(key, value);
                (sum(new).wrapping_sub(sum(old)), hash(new).wrapping_sub(hash(old)))
            });
        let change = changes.reduce(|| (0, 0), add);
        (self.sum, self.hash) = add((self.sum, self.hash), change);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_numbers_follow_from_keys() {
        for count in [1, 2, 3, 10, 1000, 4096, 12_345] {
            let step = step(count) as u64;
            let inverse = inverse(step, count as u64);
            assert!((0..count as u64).all(|row| row * step % count as u64 * inverse % count as u64 == row));
        }
    }

    #[test]
    fn steps_visit_every_key() {
        for count in [1, 2, 3, 10, 1000, 4096, 12_345] {
            let step = step(count);
            let mut seen: Vec<usize> = (0..count).map(|row| row * step % count).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count), "{count}");
        }
    }
}
