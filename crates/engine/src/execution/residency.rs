//! Columns resident in device memory.
//!
//! A query holds the columns it uses by `Arc`; the cache gives up least recently used columns that no query holds when the
//! memory budget asks for it. Columns that do not fit are streamed instead (`chunks.rs`).
//!
//! A resident column is a copy and never owns its original: it knows it by a weak reference to its [`Identity`], and goes with
//! it. The chunks that are missing on the device are copied together, into one allocation with each buffer aligned to 256
//! bytes; chunks that another resident column has (the table before an `INSERT`) are shared with it.

use super::chunks::LaunchInputs;
use super::prepared::Prepared;
use super::row_heap::RowHeap;
use super::run::RunError;
use galatea_device::{Device, DeviceBuffer, DeviceError, Stream};
use galatea_store::{Column, Holder, Identity};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
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
    column: Weak<Identity>,
    chunks: Vec<ResidentChunk>,
}

/// A chunk in device memory.
#[derive(Debug, Clone)]
struct ResidentChunk {
    chunk: Weak<Identity>,
    addresses: ChunkAddresses,
    /// Where it is, with the chunks that were copied together with it.
    memory: Arc<DeviceBuffer<u8>>,
}

impl ResidentColumn {
    /// Whether a chunk of this is a chunk of the other.
    fn shares_with(&self, other: &Self) -> bool {
        let chunks: HashSet<_> = other.chunks.iter().map(|chunk| chunk.chunk.as_ptr()).collect();
        self.chunks
            .iter()
            .any(|chunk| chunks.contains(&chunk.chunk.as_ptr()))
    }

    /// The buffers of chunk `index`.
    pub fn chunk(&self, index: usize) -> ChunkAddresses {
        self.chunks[index].addresses
    }
}

/// The cache of resident columns of one device.
#[derive(Debug, Default)]
pub struct Residency {
    kept: Arc<Kept>,
    /// The heap of the last query that returned rows through one.
    heap: Mutex<Option<RowHeap>>,
}

/// What there is of columns.
#[derive(Debug, Default)]
struct Kept {
    /// Least recently used first.
    columns: Mutex<Vec<Arc<ResidentColumn>>>,
    /// Oldest first.
    launches: Mutex<Vec<ResidentLaunch>>,
}

impl Holder for Kept {
    fn let_go(&self) {
        let mut gone = Vec::new();
        self.columns.lock().retain_mut(|resident| {
            if resident.column.strong_count() > 0 {
                return true;
            }
            // Chunks that a later version of the column has too stay for it.
            let live = |chunk: &&ResidentChunk| chunk.chunk.strong_count() > 0;
            let chunks: Vec<_> = resident.chunks.iter().filter(live).cloned().collect();
            let any = !chunks.is_empty();
            if chunks.len() < resident.chunks.len() {
                let column = Weak::clone(&resident.column);
                gone.push(std::mem::replace(
                    resident,
                    Arc::new(ResidentColumn { column, chunks }),
                ));
            }
            any
        });
        let is_gone = |launch: &mut ResidentLaunch| !launch.is_current();
        let launches: Vec<_> = self.launches.lock().extract_if(.., is_gone).collect();
        // Device memory is freed after the locks.
        drop((gone, launches));
    }
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
    /// The resident form of `column`, copied over as far as it is not there yet. `Ok(None)`: it does not fit beside what
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
        let kept: Arc<dyn Holder> = Arc::clone(&self.kept) as Arc<dyn Holder>;
        let holder = Arc::downgrade(&kept);
        column.identity.tell(&holder);
        let mut chunks = self.shared_chunks(column);
        let mut size = 0;
        let mut layouts = Vec::new();
        for (index, chunk) in chunks.iter().enumerate() {
            if chunk.is_none() {
                let (layout, end) = chunk_layout(column, index, size);
                layouts.push((index, layout));
                size = end;
            }
        }
        let mut copied = 0;
        if !layouts.is_empty() {
            let Some(mut buffer) = self.allocate(device, stream, size)? else {
                return Ok(None);
            };
            for (index, layout) in &layouts {
                let chunk = &column.chunks[*index];
                for view in [Some(&chunk.data), chunk.validity.as_ref(), chunk.offsets.as_ref()]
                    .into_iter()
                    .flatten()
                {
                    device.pin_if_possible(view.memory())?;
                }
                copied += copy_chunk(stream, column, *index, &mut buffer, *layout)?;
            }
            // Other streams will read it without knowing this one: be done before anyone else can find it.
            stream.synchronize()?;
            let (base, memory) = (buffer.address(), Arc::new(buffer));
            for (index, layout) in layouts {
                column.chunks[index].identity.tell(&holder);
                chunks[index] = Some(ResidentChunk {
                    chunk: Arc::downgrade(&column.chunks[index].identity),
                    addresses: addresses(base, layout),
                    memory: Arc::clone(&memory),
                });
            }
        }
        let resident = Arc::new(ResidentColumn {
            column: Arc::downgrade(&column.identity),
            chunks: chunks.into_iter().flatten().collect(),
        });
        let mut columns = self.kept.columns.lock();
        // What an earlier version left has been taken over.
        columns.retain(|earlier| earlier.column.strong_count() > 0 || !earlier.shares_with(&resident));
        columns.push(Arc::clone(&resident));
        drop(columns);
        Ok(Some((resident, copied)))
    }

    /// The chunks of a column that other resident columns have.
    fn shared_chunks(&self, column: &Column) -> Vec<Option<ResidentChunk>> {
        let columns = self.kept.columns.lock();
        let resident = columns.iter().flat_map(|resident| &resident.chunks);
        let resident: HashMap<*const Identity, &ResidentChunk> =
            resident.map(|chunk| (chunk.chunk.as_ptr(), chunk)).collect();
        let find = |identity| resident.get(&identity).map(|chunk| ResidentChunk::clone(chunk));
        (column.chunks.iter())
            .map(|chunk| find(Arc::as_ptr(&chunk.identity)))
            .collect()
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
        let launches = self.kept.launches.lock();
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
        let mut launches = self.kept.launches.lock();
        launches.retain(ResidentLaunch::is_current);
        if launches.len() == KEPT_LAUNCHES {
            launches.remove(0);
        }
        launches.push(launch);
    }

    /// Whether the column is in device memory.
    pub fn holds(&self, column: &Arc<Column>) -> bool {
        (self.kept.columns.lock().iter())
            .any(|resident| std::ptr::eq(resident.column.as_ptr(), Arc::as_ptr(&column.identity)))
    }

    fn touch(&self, column: &Arc<Column>) -> Option<Arc<ResidentColumn>> {
        let mut columns = self.kept.columns.lock();
        let at = columns
            .iter()
            .position(|resident| std::ptr::eq(resident.column.as_ptr(), Arc::as_ptr(&column.identity)))?;
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
        let mut columns = self.kept.columns.lock();
        let unused = columns
            .iter()
            .position(|resident| Arc::strong_count(resident) == 1);
        if let Some(at) = unused {
            columns.remove(at);
        }
        let mut launches = self.kept.launches.lock();
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
        let columns = self.kept.columns.lock();
        let chunks = columns.iter().flat_map(|resident| &resident.chunks);
        let memory: HashMap<_, _> = chunks
            .map(|chunk| (Arc::as_ptr(&chunk.memory), chunk.memory.bytes()))
            .collect();
        memory.values().sum()
    }
}
