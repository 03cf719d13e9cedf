//! Payload columns of the probe side, in pinned host memory.

use std::sync::Arc;

use galatea_device::{Device, DeviceError, HostMemory, HostView, Result};
use galatea_kernels::flow::mix64;
use rayon::prelude::*;

/// One in this number of values is rewritten before each run.
const REFRESHED: usize = 61;
/// Values that a task fills.
const PIECE: usize = 1 << 16;

/// Columns of 64-bit values in one memory, mapped for a device.
#[derive(Debug)]
pub(super) struct Columns {
    memory: Arc<HostMemory>,
    /// Device address of the first column.
    address: u64,
    rows: usize,
    /// The sum of each column.
    sums: Vec<u64>,
    /// Number of calls of [`Self::refresh`].
    refreshed: u64,
}

impl Columns {
    /// Allocates and pins memory for at most `values` values of all columns.
    pub(super) fn new(device: &Device, values: usize) -> Result<Self> {
        let memory = Arc::new(HostMemory::new(8 * values.max(1))?);
        let address = device.pin_mapped(&memory)?;
        Ok(Self {
            memory,
            address,
            rows: 0,
            sums: Vec::new(),
            refreshed: 0,
        })
    }

    /// The values of the first columns.
    fn values(&mut self, columns: usize) -> Result<&mut [u64]> {
        let bytes = self.memory.len() as u64;
        let memory = Arc::get_mut(&mut self.memory).ok_or(DeviceError::HostMemoryShared { bytes })?;
        let values: &mut [u64] = bytemuck::cast_slice_mut(memory.as_mut_slice());
        Ok(&mut values[..columns * self.rows])
    }

    /// Fills columns with random values.
    pub(super) fn fill(&mut self, columns: usize, rows: usize, seed: u64) -> Result<()> {
        self.rows = rows;
        let of_column = |(column, values): (usize, &mut [u64])| {
            let pieces = values.par_chunks_mut(PIECE).enumerate();
            let sums = pieces.map(|(piece, values)| {
                let first = ((column as u64) << 40) + (piece * PIECE) as u64;
                (first..).zip(values).fold(0u64, |sum, (number, value)| {
                    *value = mix64(mix64(seed) ^ number);
                    sum.wrapping_add(*value)
                })
            });
            sums.reduce(|| 0, u64::wrapping_add)
        };
        let values = self.values(columns)?;
        self.sums = values
            .chunks_mut(rows.max(1))
            .enumerate()
            .map(of_column)
            .collect();
        Ok(())
    }

    /// Rewrites some values of the first columns, so that the sum of another run is wrong.
    pub(super) fn refresh(&mut self, columns: usize) -> Result<()> {
        self.refreshed += 1;
        let (rows, seed) = (self.rows.max(1), mix64(self.refreshed));
        let changes = |(column, values): (usize, &mut [u64])| {
            let pieces = values.par_chunks_mut(REFRESHED).enumerate();
            let changes = pieces.with_min_len(4096).map(|(piece, values)| {
                let value = mix64(seed ^ ((column as u64) << 40) ^ piece as u64);
                value.wrapping_sub(std::mem::replace(&mut values[0], value))
            });
            changes.reduce(|| 0, u64::wrapping_add)
        };
        let values = self.values(columns)?.chunks_mut(rows);
        let changes: Vec<u64> = values.enumerate().map(changes).collect();
        for (sum, change) in self.sums.iter_mut().zip(changes) {
            *sum = sum.wrapping_add(change);
        }
        Ok(())
    }

    /// The sum of the first columns.
    pub(super) fn sum(&self, columns: usize) -> u64 {
        self.sums.iter().take(columns).copied().fold(0, u64::wrapping_add)
    }

    /// The device's addresses of the first columns.
    pub(super) fn addresses(&self, columns: usize) -> Vec<u64> {
        let address = |column: usize| self.address + (8 * column * self.rows) as u64;
        (0..columns).map(address).collect()
    }

    /// A view of a column.
    pub(super) fn view(&self, column: usize) -> Result<HostView> {
        let bytes = 8 * self.rows;
        HostView::new(Arc::clone(&self.memory), column * bytes, bytes)
    }
}
