//! Radix partitioning by the threads of the CPU, as the rival of the first pass.

use std::ops::Range;
use std::sync::Arc;

use galatea_device::{Device, HostMemory, HostView, Result};
use galatea_kernels::RadixBits;
use rayon::prelude::*;

use super::data::Relation;

/// Rows of a cache line, which are written together.
const LINE: usize = 4;

/// Rows partitioned by the CPU, in pinned host memory.
#[derive(Debug)]
pub(super) struct HostRows {
    memory: Arc<HostMemory>,
    address: u64,
    /// Tuples of a task: its rows have their own partitions.
    task: usize,
}

impl HostRows {
    /// Allocates memory for rows. A thread partitions 2^`task_bits` tuples at a time.
    pub(super) fn new(device: &Device, tuples: usize, task_bits: u32) -> Result<Self> {
        let memory = Arc::new(HostMemory::new(16 * tuples.max(1))?);
        let address = device.pin_mapped(&memory)?;
        Ok(Self {
            memory,
            address,
            task: 1 << task_bits,
        })
    }

    /// The device's address of the first row.
    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Tuples of a task.
    pub(super) fn task(&self) -> usize {
        self.task
    }

    /// A view of the first `tuples` rows.
    pub(super) fn view(&self, tuples: usize) -> Result<HostView> {
        HostView::new(Arc::clone(&self.memory), 0, 16 * tuples)
    }

    /// Partitions a range of a relation, a task at a time. Returns the positions of the partitions of each
    /// task, relative to its first row, each list with the end.
    pub(super) fn partition(
        &mut self,
        relation: &Relation,
        range: Range<usize>,
        bits: RadixBits,
    ) -> Result<Vec<Vec<u32>>> {
        let len = self.memory.len() as u64;
        let memory = Arc::get_mut(&mut self.memory)
            .ok_or(galatea_device::DeviceError::HostMemoryShared { bytes: len })?;
        let rows: &mut [[u64; 2]] = bytemuck::cast_slice_mut(memory.as_mut_slice());
        let (keys, values) = relation.columns();
        let (keys, values) = (&keys[range.clone()], &values[range]);
        let rows = rows[..keys.len()].par_chunks_mut(self.task);
        let tasks = rows.zip(keys.par_chunks(self.task));
        let tasks = tasks.zip(values.par_chunks(self.task));
        Ok(tasks
            .map(|((rows, keys), values)| partition(rows, keys, values, bits))
            .collect())
    }
}

/// The positions of all partitions of all tasks of `task` tuples, one after another, with the end.
pub(super) fn all_starts(lists: &[Vec<u32>], task: usize) -> Vec<u32> {
    let of_task = |(number, starts): (usize, &Vec<u32>)| {
        let first = (number * task) as u32;
        let positions = starts.iter().take(starts.len().saturating_sub(1));
        positions.map(|start| first + start).collect::<Vec<u32>>()
    };
    let mut all: Vec<u32> = lists.iter().enumerate().flat_map(of_task).collect();
    let last = lists.last().and_then(|starts| starts.last().copied());
    all.push((lists.len().saturating_sub(1) * task) as u32 + last.unwrap_or(0));
    all
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
