//! Relations that the copy engine copies by chunk, while kernels use the chunk before: the thesis' pinned
//! copy.
//!
//! With relations that kernels read in place, rates of tables in both memories follow the model of accesses
//! in series (bench/results/2026-11-27-nvidia-h100/papers, `skew`). The likely reason is that reads of rows
//! queue behind the address translations of random accesses to the table, which limit their rate and not
//! their bytes. Copies do not depend on the kernels' accesses.

use galatea_device::{Device, DeviceBuffer, DeviceSliceMut, Event, Result, Stream};
use galatea_kernels::JoinRows;

use super::workload::Shape;

/// Maximum number of bytes of a chunk.
const CHUNK: u64 = 32 << 20;
/// Columns of a chunk begin at multiples of this number of bytes.
const ALIGNMENT: usize = 256;

/// Memory of the device for two chunks.
#[derive(Debug)]
pub(super) struct Chunks {
    copies: Stream,
    slots: [Slot; 2],
    next: usize,
    rows: u64,
    word_bytes: u32,
}

/// Memory for a chunk, and the end of its last use.
#[derive(Debug)]
struct Slot {
    columns: [DeviceBuffer<u8>; 2],
    used: Option<Event>,
}

impl Chunks {
    /// Memory for chunks of a shape, at most a quarter of S.
    pub(super) fn new(device: &Device, shape: &Shape) -> Result<Self> {
        let copies = device.stream()?;
        let rows = (CHUNK / shape.tuple_bytes())
            .min(shape.probe_rows.div_ceil(4))
            .max(1);
        let bytes = (rows as usize * shape.word_bytes as usize).next_multiple_of(ALIGNMENT);
        let column =
            || Ok::<_, galatea_device::DeviceError>(device.alloc::<u8>(&copies, bytes)?.assume_written());
        let slot = || {
            Ok::<_, galatea_device::DeviceError>(Slot {
                columns: [column()?, column()?],
                used: None,
            })
        };
        Ok(Self {
            slots: [slot()?, slot()?],
            copies,
            next: 0,
            rows,
            word_bytes: shape.word_bytes,
        })
    }

    /// Processes `rows` rows on a stream. `copy` queues the copy of a part of a column, the keys (0) or the
    /// payloads (1), from a byte on; `kernel` queues the work on a chunk.
    pub(super) fn each(
        &mut self,
        stream: &Stream,
        rows: u64,
        mut copy: impl FnMut(&Stream, DeviceSliceMut<'_, u8>, usize, usize) -> Result<()>,
        mut kernel: impl FnMut(JoinRows) -> Result<()>,
    ) -> Result<()> {
        let width = self.word_bytes as usize;
        for first in (0..rows).step_by(self.rows as usize) {
            let count = self.rows.min(rows - first);
            self.next = 1 - self.next;
            let slot = &mut self.slots[self.next];
            if let Some(used) = slot.used.take() {
                self.copies.wait(&used)?;
            }
            for (number, column) in slot.columns.iter_mut().enumerate() {
                let part = column.slice_mut(..count as usize * width)?;
                copy(&self.copies, part, number, first as usize * width)?;
            }
            stream.wait(&self.copies.record()?)?;
            for column in &slot.columns {
                column.used_by(stream)?;
            }
            let [keys, payloads] = &slot.columns;
            kernel(JoinRows {
                keys: keys.address(),
                payloads: payloads.address(),
                rows: count,
            })?;
            slot.used = Some(stream.record()?);
        }
        Ok(())
    }

    /// Waits for copies, after which the stream holds no host memory.
    pub(super) fn finish(&self) -> Result<()> {
        self.copies.synchronize()
    }
}
