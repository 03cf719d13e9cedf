//! The chunk table of a launch, and how chunks reach the device.

use super::residency::{ChunkAddresses, Residency, addresses, chunk_layout, copy_chunk};
use super::run::RunError;
use crate::pipeline::bind::{AccessForm, ColumnAccess};
use crate::pipeline::generate::BoundPipeline;
use crate::runtime::{DeviceRuntime, QueryStreams};
use galatea_device::{Device, DeviceBuffer, Event, Stream};
use galatea_kernels::{CHUNK_HEADER_WORDS, COLUMN_WORDS};
use galatea_store::{Column, TableView};
use std::sync::Arc;

/// Chunks a slot ring keeps in flight: one computed on, two copied, one waiting.
const SLOTS: usize = 4;

/// The chunks of a launch, as the kernel reads them (`tile.cuh`).
#[derive(Debug, Clone)]
pub(super) struct ChunkTable {
    /// The words, sentinel included; empty once they are on the device.
    pub words: Vec<u64>,
    /// Words per chunk.
    pub stride: usize,
    /// First unit of each chunk, and the number of units.
    pub first_units: Vec<u32>,
    /// Most units of one chunk.
    pub units_per_chunk: u32,
}

impl ChunkTable {
    /// The table of `chunks` (indices into the view) whose buffers `place` knows.
    pub(super) fn new(
        view: &TableView,
        chunks: &[usize],
        columns: &[ColumnAccess],
        unit_rows: u32,
        place: impl Fn(usize, usize) -> ChunkAddresses,
    ) -> Self {
        let stride = CHUNK_HEADER_WORDS + columns.len() * COLUMN_WORDS;
        let mut words = Vec::with_capacity((chunks.len() + 1) * stride);
        let mut first_units = Vec::with_capacity(chunks.len() + 1);
        let mut units = 0u32;
        let mut units_per_chunk = 1;
        for (position, &chunk) in chunks.iter().enumerate() {
            let rows = view.chunk_rows[chunk];
            words.extend([u64::from(rows), u64::from(units)]);
            for (k, access) in columns.iter().enumerate() {
                let at = place(position, k);
                let base = match access.form {
                    AccessForm::Integer { .. } => view.columns[k].chunks[chunk].base as u64,
                    _ => 0,
                };
                words.extend([at.data, at.validity, base, at.offsets]);
            }
            first_units.push(units);
            let own = rows.div_ceil(unit_rows);
            units_per_chunk = units_per_chunk.max(own);
            units += own;
        }
        first_units.push(units);
        // The sentinel: no rows, and a first unit past every unit.
        words.extend([0, u64::from(u32::MAX)]);
        words.resize((chunks.len() + 1) * stride, 0);
        Self {
            words,
            stride,
            first_units,
            units_per_chunk,
        }
    }

    /// Number of units.
    pub(super) fn units(&self) -> u32 {
        self.first_units.last().copied().unwrap_or(0)
    }
}

/// What a launch reads beside columns: the chunk table and the lookup tables, in device memory.
#[derive(Debug)]
pub(crate) struct LaunchInputs {
    /// The table, whose words are on the device.
    pub(super) table: ChunkTable,
    pub(super) words: DeviceBuffer<u64>,
    pub(super) lookups: Vec<DeviceBuffer<u8>>,
}

impl LaunchInputs {
    /// Uploads the inputs of a launch of `bound` over `chunks`.
    pub(super) fn upload(
        device: &Device,
        stream: &Stream,
        bound: &BoundPipeline,
        view: &TableView,
        chunks: &[usize],
        placement: &Placement,
    ) -> Result<Self, RunError> {
        let mut table =
            ChunkTable::new(
                view,
                chunks,
                &bound.columns,
                bound.unit_rows,
                |position, k| match placement {
                    Placement::Resident { columns } => columns[k].chunk(chunks[position]),
                    Placement::Streamed(ring) => ring.place(position, k),
                },
            );
        let words = device.upload(stream, &std::mem::take(&mut table.words))?;
        let lookups = (bound.parameters.tables.iter())
            .map(|t| device.upload(stream, if t.bytes.is_empty() { &[0] } else { &t.bytes[..] }))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            table,
            words,
            lookups,
        })
    }
}

/// How the chunks of a query reach the device.
#[derive(Debug)]
pub(super) enum Placement {
    /// All columns are resident: one launch over everything.
    Resident {
        /// By kernel column.
        columns: Vec<Arc<super::residency::ResidentColumn>>,
    },
    /// Chunks are copied through a ring of slots, a launch each.
    Streamed(SlotRing),
}

impl Placement {
    /// Makes the columns resident if they fit together, else sets up streaming. Returns the bytes copied so far.
    pub(super) fn choose(
        runtime: &DeviceRuntime,
        streams: &QueryStreams,
        view: &TableView,
        chunks: &[usize],
        keep: bool,
    ) -> Result<(Self, u64), RunError> {
        if keep {
            let mut columns = Vec::new();
            let mut copied = 0;
            for column in &view.columns {
                match runtime
                    .residency()
                    .acquire(runtime.device(), &streams.transfer[0], column)?
                {
                    Some((resident, bytes)) => {
                        columns.push(resident);
                        copied += bytes;
                    }
                    None => break,
                }
            }
            if columns.len() == view.columns.len() {
                return Ok((Self::Resident { columns }, copied));
            }
        }
        Ok((Self::Streamed(SlotRing::new(runtime, streams, view, chunks)?), 0))
    }
}

/// Device buffers that chunks pass through, in turn.
#[derive(Debug)]
pub(super) struct SlotRing {
    slots: Vec<Slot>,
    layouts: Vec<Vec<[Option<u64>; 3]>>,
}

#[derive(Debug)]
struct Slot {
    buffer: DeviceBuffer<u8>,
    /// Recorded in the compute stream after the last launch that read the slot.
    free: Option<Event>,
}

impl SlotRing {
    fn new(
        runtime: &DeviceRuntime,
        streams: &QueryStreams,
        view: &TableView,
        chunks: &[usize],
    ) -> Result<Self, RunError> {
        let mut largest = 0;
        let mut layouts = Vec::with_capacity(chunks.len());
        for &chunk in chunks {
            let mut end = 0;
            let layout: Vec<_> = view
                .columns
                .iter()
                .map(|column| {
                    let (layout, after) = chunk_layout(column, chunk, end);
                    end = after;
                    layout
                })
                .collect();
            largest = largest.max(end);
            layouts.push(layout);
        }
        for column in &view.columns {
            for chunk in &column.chunks {
                for part in [Some(&chunk.data), chunk.validity.as_ref(), chunk.offsets.as_ref()]
                    .into_iter()
                    .flatten()
                {
                    runtime.device().pin_if_possible(part.memory())?;
                }
            }
        }
        let residency: &Residency = runtime.residency();
        let mut slots = Vec::new();
        while slots.len() < SLOTS.min(chunks.len().max(1)) {
            match residency.allocate(runtime.device(), &streams.transfer[0], largest)? {
                Some(buffer) => slots.push(Slot { buffer, free: None }),
                // One slot still works, without overlap.
                None if !slots.is_empty() => break,
                None => {
                    let budget = runtime.device().budget();
                    return Err(RunError::Memory {
                        what: "one chunk of the scanned columns",
                        needed: largest,
                        available: budget.available(),
                        limit: budget.limit(),
                    });
                }
            }
        }
        // The slots were allocated in the order of one stream; the other copies into them too.
        streams.transfer[1].wait(&streams.transfer[0].record()?)?;
        Ok(Self { slots, layouts })
    }

    /// Where column `k` of the chunk at `position` will lie.
    pub(super) fn place(&self, position: usize, k: usize) -> ChunkAddresses {
        let slot = &self.slots[position % self.slots.len()];
        addresses(slot.buffer.address(), self.layouts[position][k])
    }

    /// Chunks that can be ahead of the one computed on.
    pub(super) fn depth(&self) -> usize {
        self.slots.len()
    }

    /// Queues the copy of a chunk into its slot once the slot is free; the event says when it is there.
    pub(super) fn fetch(
        &mut self,
        streams: &QueryStreams,
        columns: &[Arc<Column>],
        chunk: usize,
        position: usize,
    ) -> Result<(Event, u64), RunError> {
        let index = position % self.slots.len();
        let slot = &mut self.slots[index];
        let stream = &streams.transfer[position % streams.transfer.len()];
        if let Some(free) = slot.free.take() {
            stream.wait(&free)?;
        }
        let mut copied = 0;
        for (k, column) in columns.iter().enumerate() {
            copied += copy_chunk(stream, column, chunk, &mut slot.buffer, self.layouts[position][k])?;
        }
        Ok((stream.record()?, copied))
    }

    /// Marks the slot of a chunk free once everything queued on `compute` is done.
    pub(super) fn release(&mut self, streams: &QueryStreams, position: usize) -> Result<(), RunError> {
        let index = position % self.slots.len();
        self.slots[index].free = Some(streams.compute.record()?);
        Ok(())
    }
}
