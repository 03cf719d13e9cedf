//! Radix partitioning by the threads of the CPU, as the rival of the first pass.

use std::sync::Arc;

use galatea_device::{Device, HostMemory, Result};
use galatea_kernels::RadixBits;
use rayon::prelude::*;

use super::data::Relation;

/// Tuples of a task: its rows have their own partitions.
pub(super) const TASK: usize = 1 << 20;
/// Rows of a cache line, which are written together.
const LINE: usize = 4;

/// Rows partitioned by the CPU, in pinned host memory.
#[derive(Debug)]
pub(super) struct HostRows {
    memory: Arc<HostMemory>,
    address: u64,
}

impl HostRows {
    /// Allocates memory for rows.
    pub(super) fn new(device: &Device, tuples: usize) -> Result<Self> {
        let memory = Arc::new(HostMemory::new(16 * tuples.max(1))?);
        let address = device.pin_mapped(&memory)?;
        Ok(Self { memory, address })
    }

    /// The device's address of the first row.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Partitions a relation, [`TASK`] tuples at a time. Returns the positions of the partitions of each
    /// task, relative to its first row, each list with the end.
    pub(super) fn partition(&mut self, relation: &Relation, bits: RadixBits) -> Result<Vec<Vec<u32>>> {
        let len = self.memory.len() as u64;
        let memory = Arc::get_mut(&mut self.memory)
            .ok_or(galatea_device::DeviceError::HostMemoryShared { bytes: len })?;
        let rows: &mut [[u64; 2]] = bytemuck::cast_slice_mut(memory.as_mut_slice());
        let (keys, values) = relation.columns();
        let rows = rows[..keys.len()].par_chunks_mut(TASK);
        let tasks = rows.zip(keys.par_chunks(TASK)).zip(values.par_chunks(TASK));
        Ok(tasks
            .map(|((rows, keys), values)| partition(rows, keys, values, bits))
            .collect())
    }
}

/// Partitions the tuples of a task. A buffer of a cache line for each partition collects its rows.
fn partition(rows: &mut [[u64; 2]], keys: &[u64], values: &[u64], bits: RadixBits) -> Vec<u32> {
    let parts = bits.parts();
    let mut starts = vec![0u32; parts + 1];
    for key in keys {
        starts[bits.part(*key) + 1] += 1;
    }
    for part in 0..parts {
        starts[part + 1] += starts[part];
    }
    let mut next: Vec<u32> = starts[..parts].to_vec();
    let mut lines = vec![[[0u64; 2]; LINE]; parts];
    let mut filled = vec![0u8; parts];
    for (key, value) in keys.iter().zip(values) {
        let part = bits.part(*key);
        let count = usize::from(filled[part]);
        lines[part][count] = [*key, *value];
        if count + 1 < LINE {
            filled[part] += 1;
            continue;
        }
        let at = next[part] as usize;
        rows[at..at + LINE].copy_from_slice(&lines[part]);
        next[part] += LINE as u32;
        filled[part] = 0;
    }
    for part in 0..parts {
        let (at, count) = (next[part] as usize, usize::from(filled[part]));
        rows[at..at + count].copy_from_slice(&lines[part][..count]);
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_the_cpu_have_all_tuples() {
        let bits = RadixBits {
            shift: 2,
            bits: 4,
            raw: false,
        };
        for count in [0, 1, 100, 5000] {
            let keys: Vec<u64> = (0..count).map(|row| row * 7 % 999).collect();
            let values: Vec<u64> = (0..count).collect();
            let mut rows = vec![[0; 2]; keys.len()];
            let starts = partition(&mut rows, &keys, &values, bits);
            for part in 0..bits.parts() {
                let range = starts[part] as usize..starts[part + 1] as usize;
                assert!(rows[range].iter().all(|row| bits.part(row[0]) == part));
            }
            rows.sort_unstable_by_key(|row| row[1]);
            let expected: Vec<[u64; 2]> = keys
                .iter()
                .zip(&values)
                .map(|(key, value)| [*key, *value])
                .collect();
            assert_eq!(rows, expected);
        }
    }
}
