//! Columns resident in device memory.
//!
//! The unit is a whole encoded column: all its chunks in one allocation, each buffer aligned to 256 bytes. A query
//! holds the columns it uses by `Arc`; the cache gives up least recently used columns that no query holds when the
//! memory budget asks for it. Columns that do not fit are streamed instead (`chunks.rs`).

use super::chunks::LaunchInputs;
use super::prepared::Prepared;
use super::row_heap::RowHeap;
use super::run::RunError;
use galatea_device::{Device, DeviceBuffer, DeviceError, Stream};
use galatea_store::Column;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// Alignment of every buffer of a chunk, and of its size: vector loads may read past the last row.
pub(crate) const ALIGNMENT: u64 = 256;

/// Where the buffers of a chunk lie in device memory; 0 is "none".
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChunkAddresses {
    /// Codes, values or text bytes.
    pub data: u64,
    /// Validity bitmap.
    pub validity: u64,
    /// Text offsets.
    pub offsets: u64,
}

/// A column in device memory.
#[derive(Debug)]
pub struct ResidentColumn {
    /// Keeps the encoded column alive: its address is the cache key.
    column: Arc<Column>,
    buffer: DeviceBuffer<u8>,
    addresses: Vec<ChunkAddresses>,
}

impl ResidentColumn {
    /// The buffers of chunk `index`.
    pub fn chunk(&self, index: usize) -> ChunkAddresses {
        self.addresses[index]
    }

    /// Bytes of device memory.
    pub fn bytes(&self) -> u64 {
        self.buffer.bytes()
    }
}

/// The cache of resident columns of one device.
#[derive(Debug, Default)]
pub struct Residency {
    /// Least recently used first.
    columns: Mutex<Vec<Arc<ResidentColumn>>>,
    /// Oldest first.
    launches: Mutex<Vec<ResidentLaunch>>,
    /// The heap of the last query that returned rows through one.
    heap: Mutex<Option<RowHeap>>,
}

/// Launches kept at most; each is some kilobytes of device memory.
const KEPT_LAUNCHES: usize = 64;

/// What a launch over resident columns reads beside them: the same for every run over the same data.
#[derive(Debug)]
struct ResidentLaunch {
    pipeline: Weak<Prepared>,
    columns: Vec<Weak<ResidentColumn>>,
    chunks: Vec<usize>,
    inputs: Arc<LaunchInputs>,
}

impl ResidentLaunch {
    /// Whether what it was made for still exists.
    fn is_current(&self) -> bool {
        self.pipeline.strong_count() > 0 && self.columns.iter().all(|column| column.strong_count() > 0)
    }
}

/// Layout of a chunk's buffers from `start`: addresses relative to the allocation, and the end.
pub(crate) fn chunk_layout(column: &Column, index: usize, start: u64) -> ([Option<u64>; 3], u64) {
    let chunk = &column.chunks[index];
    let mut at = start;
    let mut place = |bytes: Option<usize>| {
        bytes.map(|bytes| {
            let here = at;
            at += (bytes as u64).max(1).next_multiple_of(ALIGNMENT);
            here
        })
    };
    let layout = [
        place(Some(chunk.data.len())),
        place(chunk.validity.as_ref().map(galatea_device::HostView::len)),
        place(chunk.offsets.as_ref().map(galatea_device::HostView::len)),
    ];
    (layout, at)
}

/// Queues the copies of a chunk's buffers into `buffer` at `layout`; returns the bytes copied.
pub(crate) fn copy_chunk(
    stream: &Stream,
    column: &Column,
    index: usize,
    buffer: &mut DeviceBuffer<u8>,
    layout: [Option<u64>; 3],
) -> Result<u64, DeviceError> {
    let chunk = &column.chunks[index];
    let views = [Some(&chunk.data), chunk.validity.as_ref(), chunk.offsets.as_ref()];
    let mut copied = 0;
    for (view, place) in views.into_iter().zip(layout) {
        if let (Some(view), Some(place)) = (view, place)
            && !view.is_empty()
        {
            let place = place as usize;
            stream.copy_to_device(buffer.slice_mut(place..place + view.len())?, view)?;
            copied += view.len() as u64;
        }
    }
    Ok(copied)
}

/// Addresses of a chunk laid out at `layout` in an allocation at `base`.
pub(crate) fn addresses(base: u64, layout: [Option<u64>; 3]) -> ChunkAddresses {
    let [data, validity, offsets] = layout.map(|place| place.map_or(0, |place| base + place));
    ChunkAddresses {
        data,
        validity,
        offsets,
    }
}

impl Residency {
    /// The resident form of `column`, copied over when it is not there yet. `Ok(None)`: it does not fit beside what
    /// running queries hold. Also returns the bytes copied.
    pub fn acquire(
        &self,
        device: &Device,
        stream: &Stream,
        column: &Arc<Column>,
    ) -> Result<Option<(Arc<ResidentColumn>, u64)>, RunError> {
        if let Some(found) = self.touch(column) {
            return Ok(Some((found, 0)));
        }
        let mut size = 0;
        let mut layouts = Vec::with_capacity(column.chunks.len());
        for index in 0..column.chunks.len() {
            let (layout, end) = chunk_layout(column, index, size);
            layouts.push(layout);
            size = end;
        }
        let Some(mut buffer) = self.allocate(device, stream, size)? else {
            return Ok(None);
        };
        let mut copied = 0;
        for (index, layout) in layouts.iter().enumerate() {
            let chunk = &column.chunks[index];
            for view in [Some(&chunk.data), chunk.validity.as_ref(), chunk.offsets.as_ref()]
                .into_iter()
                .flatten()
            {
                device.pin_if_possible(view.memory())?;
            }
            copied += copy_chunk(stream, column, index, &mut buffer, *layout)?;
        }
        // Other streams will read it without knowing this one: be done before anyone else can find it.
        stream.synchronize()?;
        let base = buffer.address();
        let resident = Arc::new(ResidentColumn {
            column: Arc::clone(column),
            addresses: layouts
                .into_iter()
                .map(|layout| addresses(base, layout))
                .collect(),
            buffer,
        });
        self.columns.lock().push(Arc::clone(&resident));
        Ok(Some((resident, copied)))
    }

    /// Allocates, giving up unused resident columns as needed. `None`: not even then.
    pub fn allocate(
        &self,
        device: &Device,
        stream: &Stream,
        bytes: u64,
    ) -> Result<Option<DeviceBuffer<u8>>, RunError> {
        self.making_room(|| {
            let buffer = device.alloc::<u8>(stream, bytes.max(1) as usize)?;
            Ok::<_, DeviceError>(buffer.assume_written())
        })
    }

    /// Tries an allocation, giving up what no query holds as long as it does not fit. `None`: not even then.
    pub fn making_room<T, E: Into<RunError>>(
        &self,
        mut attempt: impl FnMut() -> Result<T, E>,
    ) -> Result<Option<T>, RunError> {
        loop {
            match attempt().map_err(Into::into) {
                Ok(made) => return Ok(Some(made)),
                Err(RunError::Device(error)) if error.is_out_of_memory() => {
                    if !self.evict_one() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// What an earlier launch of `pipeline` over the same chunks of the same columns read beside them, if it was kept.
    pub(crate) fn launch(
        &self,
        pipeline: &Arc<Prepared>,
        columns: &[Arc<ResidentColumn>],
        chunks: &[usize],
    ) -> Option<Arc<LaunchInputs>> {
        let launches = self.launches.lock();
        let found = launches.iter().find(|launch| {
            std::ptr::eq(launch.pipeline.as_ptr(), Arc::as_ptr(pipeline))
                && launch.chunks == chunks
                && launch.columns.len() == columns.len()
                && (launch.columns.iter().zip(columns))
                    .all(|(kept, now)| std::ptr::eq(kept.as_ptr(), Arc::as_ptr(now)))
        });
        found.map(|launch| Arc::clone(&launch.inputs))
    }

    /// Keeps the inputs of a launch for the next run of `pipeline` over the same chunks of the same columns. They must
    /// be on the device already: the next run's stream does not wait for this one's.
    pub(crate) fn keep_launch(
        &self,
        pipeline: &Arc<Prepared>,
        columns: &[Arc<ResidentColumn>],
        chunks: &[usize],
        inputs: Arc<LaunchInputs>,
    ) {
        let launch = ResidentLaunch {
            pipeline: Arc::downgrade(pipeline),
            columns: columns.iter().map(Arc::downgrade).collect(),
            chunks: chunks.to_vec(),
            inputs,
        };
        let mut launches = self.launches.lock();
        launches.retain(ResidentLaunch::is_current);
        if launches.len() == KEPT_LAUNCHES {
            launches.remove(0);
        }
        launches.push(launch);
    }

    fn touch(&self, column: &Arc<Column>) -> Option<Arc<ResidentColumn>> {
        let mut columns = self.columns.lock();
        let at = columns
            .iter()
            .position(|resident| Arc::ptr_eq(&resident.column, column))?;
        let resident = columns.remove(at);
        columns.push(Arc::clone(&resident));
        Some(resident)
    }

    /// The kept heap, if it fits.
    pub(crate) fn take_heap(&self, fits: impl FnOnce(&RowHeap) -> bool) -> Option<RowHeap> {
        let mut kept = self.heap.lock();
        kept.take_if(|heap| fits(heap))
    }

    /// Keeps a heap for the next query that needs one.
    pub(crate) fn keep_heap(&self, heap: RowHeap) {
        *self.heap.lock() = Some(heap);
    }

    /// Gives up the kept heap; without one the least recently used column that no query holds; without one every kept launch.
    pub fn evict_one(&self) -> bool {
        if self.heap.lock().take().is_some() {
            return true;
        }
        let mut columns = self.columns.lock();
        let unused = columns
            .iter()
            .position(|resident| Arc::strong_count(resident) == 1);
        if let Some(at) = unused {
            columns.remove(at);
        }
        let mut launches = self.launches.lock();
        let kept = launches.len();
        launches.retain(|launch| unused.is_some() && launch.is_current());
        unused.is_some() || launches.len() < kept
    }

    /// Gives up every column that no query holds.
    pub fn clear(&self) {
        while self.evict_one() {}
    }

    /// Bytes of device memory held.
    pub fn bytes(&self) -> u64 {
        self.columns.lock().iter().map(|resident| resident.bytes()).sum()
    }
}
