//! One opened device, and the state that queries share on it.

use super::calibration::Calibrated;
use super::demand::{DemandPolicy, Demands};
use super::launches::Launches;
use super::prepared::PreparedPipelines;
use super::shared_scan::SharedScans;
use super::{RunError, calibration};
use crate::config::ParquetDecoding;
use crate::metrics::DeviceUse;
use bytemuck::Pod;
use galatea_device::{Calibration, Device, DeviceBuffer, DeviceError, HostMemory, Program, Stream};
use galatea_layout::model::Machine;
use galatea_memory::regions::MemoryManager;
use galatea_memory::transfer::{Method, TransferError, link_rates};
use galatea_store::PageDecoder;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

/// Bytes that are transferred to measure the transfer methods.
const LINK_BYTES: usize = 64 << 20;

/// One opened device and its state.
#[derive(Debug)]
pub struct DeviceRuntime {
    pub(crate) device: Device,
    pub(crate) memory: MemoryManager,
    launches: Launches,
    shared_scans: SharedScans,
    demands: Demands,
    prepared: PreparedPipelines,
    streams: Mutex<Vec<QueryStreams>>,
    staging: Mutex<Vec<Staging>>,
    calibration: Mutex<Option<Calibration>>,
    page_decoder: Arc<PageDecoder>,
    /// Bytes that pipelines have read from device memory.
    bytes_read: AtomicU64,
    /// The meaning of `galatea.memory.gpu_limit = 'auto'`.
    pub(crate) automatic_limit: u64,
}

/// The streams of one query.
#[derive(Debug, Clone)]
pub struct QueryStreams {
    /// The stream of kernels.
    pub compute: Stream,
    /// Priority of its kernels; a smaller number is more urgent.
    pub priority: i32,
    /// The streams of copies that overlap with kernels. There are two, so that one fills the gap between two
    /// copies of the other.
    pub transfer: [Stream; 2],
    /// The stream of kernels that unpack copied data. They precede all others, because chunks wait for them.
    pub unpack: Stream,
}

/// Priority of unpacking kernels; a smaller number is more urgent. The driver clamps it to its supported
/// range.
const UNPACK_PRIORITY: i32 = -5;

/// Pinned memory for copies of results, and the stream of these copies.
#[derive(Debug)]
pub struct Staging {
    memory: Arc<HostMemory>,
    /// The stream of copies to the memory.
    pub stream: Stream,
}

impl Staging {
    /// Bytes that each keeps pinned.
    pub const BYTES: usize = 8 << 20;

    /// The first `len` bytes; more than [`Staging::BYTES`] only for longer rows.
    pub fn bytes(&mut self, len: usize) -> Result<&mut [u8], DeviceError> {
        if len > self.memory.len() {
            self.memory = Arc::new(HostMemory::new(len)?);
        }
        let shared = DeviceError::HostMemoryShared { bytes: len as u64 };
        let memory = Arc::get_mut(&mut self.memory).ok_or(shared)?;
        Ok(&mut memory.as_mut_slice()[..len])
    }
}

impl DeviceRuntime {
    /// # Errors
    /// Errors of the device.
    pub(crate) fn new(device: Device) -> Result<Self, DeviceError> {
        let calibration = calibration::stored(&device);
        Ok(Self {
            memory: MemoryManager::new(&device)?,
            launches: Launches::default(),
            shared_scans: SharedScans::default(),
            demands: Demands::default(),
            page_decoder: PageDecoder::new(&device, link_rate(calibration.as_ref())),
            calibration: Mutex::new(calibration),
            automatic_limit: device
                .automatic_limit()
                .unwrap_or_else(|_| device.info().total_memory),
            device,
            prepared: PreparedPipelines::default(),
            streams: Mutex::new(Vec::new()),
            staging: Mutex::new(Vec::new()),
            bytes_read: AtomicU64::new(0),
        })
    }

    /// The scans that runs share.
    pub(crate) fn shared_scans(&self) -> &SharedScans {
        &self.shared_scans
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Compiles the kernels that queries launch besides those of their pipelines, on `threads` new threads.
    /// Kernels on disk are skipped: a query loads them when it launches them. A kernel that fails to compile
    /// fails again in the query that launches it.
    pub(crate) fn compile_query_kernels(&self, threads: usize) -> Vec<JoinHandle<()>> {
        let programs: Arc<[Program]> = galatea_kernels::query_programs().into();
        let next = Arc::new(AtomicUsize::new(0));
        let compiler = |_| {
            let (device, programs, next) = (self.device.clone(), Arc::clone(&programs), Arc::clone(&next));
            let compile = move || {
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if device.is_on_disk(program) {
                        continue;
                    }
                    if let Err(error) = device.compile(program) {
                        tracing::debug!(%error, "a kernel of queries was not compiled ahead");
                    }
                }
            };
            let name = "galatea-kernels".to_owned();
            Builder::new().name(name).spawn(compile).ok()
        };
        (0..threads).filter_map(compiler).collect()
    }

    /// The device parameters of the cost model of grouped aggregation.
    pub fn machine(&self) -> Machine {
        let measured = self.calibration().map(|measured| measured.grouping);
        calibration::machine(self.device.info(), measured.as_ref())
    }

    /// The measured rates of the device, if it was calibrated, by `galatea calibrate` or [`Self::calibrate`].
    pub fn calibration(&self) -> Option<Calibration> {
        *self.calibration.lock()
    }

    /// Bytes per second over the link to the device: the measured rate of pinned copies, or a typical one.
    pub(crate) fn link_rate(&self) -> f64 {
        link_rate(self.calibration().as_ref())
    }

    /// The decoder of Parquet pages on this device, if the setting allows it.
    pub(crate) fn page_decoder(&self, setting: ParquetDecoding) -> Option<Arc<PageDecoder>> {
        match setting {
            ParquetDecoding::Host => return None,
            // Its kernels run on the cores of the host.
            ParquetDecoding::Auto if self.device.info().emulated => return None,
            ParquetDecoding::Auto | ParquetDecoding::Device => {}
        }
        self.page_decoder.set_always(setting == ParquetDecoding::Device);
        Some(Arc::clone(&self.page_decoder))
    }

    /// The transfer method for chunks of columns: the fastest measured method among those that copy memory of
    /// the store and leave it in place. Pinned copies if nothing was measured.
    pub fn chunk_transfer(&self) -> Method {
        let rates = self
            .calibration()
            .map(|measured| measured.link)
            .unwrap_or_default();
        let ways = [Method::Pinned, Method::Staged, Method::Pageable];
        Method::fastest(&ways, rates).unwrap_or(Method::Pinned)
    }

    /// Measures the device, which should be idle, stores the result, and uses it from now on. Takes a few
    /// seconds.
    ///
    /// # Errors
    /// Those of [`galatea_kernels::calibrate`]: the emulated device has no times of its own.
    pub fn calibrate(&self) -> Result<Calibrated, DeviceError> {
        let (before, start) = (self.machine(), Instant::now());
        let mut measured = galatea_kernels::calibrate(&self.device)?;
        match link_rates(&self.device, LINK_BYTES) {
            Ok(rates) => measured.link = rates,
            Err(TransferError::Device(error)) => return Err(error),
            Err(error) => tracing::warn!("the ways across the link were not measured: {error}"),
        }
        measured.store(&self.device)?;
        *self.calibration.lock() = Some(measured);
        Ok(Calibrated {
            device: self.device.info().name.clone(),
            measured,
            assumed: calibration::rates(&before),
            assumed_measured: before.measured,
            path: Calibration::path(&self.device)?,
            took: start.elapsed(),
        })
    }

    /// Removes the calibration. Returns whether one existed.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn forget_calibration(&self) -> Result<bool, DeviceError> {
        let was_there = Calibration::forget(&self.device)?;
        *self.calibration.lock() = None;
        Ok(was_there)
    }

    /// The memory manager: cached columns, and admission of queries.
    pub fn memory(&self) -> &MemoryManager {
        &self.memory
    }

    /// Frees all device memory that no query is using: pages, spare working memory, cached launch inputs.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn clear(&self) -> Result<(), DeviceError> {
        self.launches.clear();
        self.memory.clear()
    }

    /// Memory and link use of the device.
    pub(crate) fn device_use(&self) -> DeviceUse {
        let budget = self.device().budget();
        DeviceUse {
            columns: self.memory().page_bytes(),
            used: budget.used(),
            limit: budget.limit(),
            evicted: self.memory().evicted(),
            link: self.device().link_use(),
        }
    }

    /// Counts bytes that a pipeline has read from device memory.
    pub(crate) fn count_read(&self, bytes: u64) {
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that pipelines have read from device memory since it was opened. A pipeline counts when it ends.
    pub(crate) fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// The cache of launch inputs.
    pub(crate) fn launches(&self) -> &Launches {
        &self.launches
    }

    /// Measured memory demands of earlier pipeline runs.
    pub(crate) fn demands(&self) -> &Demands {
        &self.demands
    }

    /// Tries an allocation, and evicts memory that no launch is about to use until it fits. `None` if it does
    /// not fit even then.
    pub(crate) fn making_room<T, E: Into<RunError>>(
        &self,
        mut attempt: impl FnMut() -> Result<T, E>,
    ) -> Result<Option<T>, RunError> {
        let mut attempt = || attempt().map_err(Into::into);
        let made = self.memory.making_room(&mut attempt, RunError::is_full)?;
        if made.is_none() && self.launches.clear() {
            return self.memory.making_room(attempt, RunError::is_full);
        }
        Ok(made)
    }

    /// Bytes that can be allocated once everything evictable is evicted.
    pub(crate) fn room(&self) -> u64 {
        self.device.budget().available() + self.memory.evictable()
    }

    /// A copy of a slice in working memory. `what` names it in out-of-memory errors.
    pub(crate) fn upload<T: Pod>(
        &self,
        stream: &Stream,
        values: &[T],
        what: &'static str,
    ) -> Result<DeviceBuffer<T>, RunError> {
        let made = self.making_room(|| self.device.upload(stream, values))?;
        made.ok_or_else(|| RunError::full(self.device.budget(), what, size_of_val(values) as u64))
    }

    /// Working memory of `len` zeroed values. `what` names it in out-of-memory errors.
    pub(crate) fn zeroed<T: Pod>(
        &self,
        stream: &Stream,
        len: usize,
        what: &'static str,
    ) -> Result<DeviceBuffer<T>, RunError> {
        let made = self.making_room(|| self.device.zeroed(stream, len))?;
        made.ok_or_else(|| RunError::full(self.device.budget(), what, (len * size_of::<T>()) as u64))
    }

    /// `len` zeroed words that streams can store to. `what` names them in out-of-memory errors.
    pub(crate) fn words(
        &self,
        stream: &Stream,
        len: usize,
        what: &'static str,
    ) -> Result<DeviceBuffer<u32>, RunError> {
        let made = self.making_room(|| self.device.words(stream, len))?;
        made.ok_or_else(|| RunError::full(self.device.budget(), what, (len * size_of::<u32>()) as u64))
    }

    /// Working memory of `bytes` bytes, as [`Self::making_room`].
    pub(crate) fn allocate(&self, stream: &Stream, bytes: u64) -> Result<Option<DeviceBuffer<u8>>, RunError> {
        self.making_room(|| {
            let buffer = self.device.alloc::<u8>(stream, bytes.max(1) as usize)?;
            Ok::<_, DeviceError>(buffer.assume_written())
        })
    }

    /// The cache of bound and compiled pipelines.
    pub fn prepared(&self) -> &PreparedPipelines {
        &self.prepared
    }

    /// The streams of a finished query, or new ones, with kernels of this priority; a smaller number is more
    /// urgent.
    pub fn take_streams(&self, priority: i32) -> Result<QueryStreams, DeviceError> {
        let mut idle = self.streams.lock();
        let found = idle.iter().rposition(|streams| streams.priority == priority);
        let streams = found.map(|at| idle.swap_remove(at));
        drop(idle);
        match streams {
            Some(streams) => Ok(streams),
            None => Ok(QueryStreams {
                compute: self.device.stream_with_priority(priority)?,
                priority,
                transfer: [self.device.stream()?, self.device.stream()?],
                unpack: self.device.stream_with_priority(UNPACK_PRIORITY)?,
            }),
        }
    }

    /// Returns idle streams for the next query.
    pub fn give_streams(&self, streams: QueryStreams) {
        self.streams.lock().push(streams);
    }

    /// Staging memory of an earlier result, or newly allocated.
    pub fn take_staging(&self) -> Result<Staging, DeviceError> {
        if let Some(staging) = self.staging.lock().pop() {
            return Ok(staging);
        }
        let memory = Arc::new(HostMemory::new(Staging::BYTES)?);
        self.device.pin_if_possible(&memory)?;
        Ok(Staging {
            memory,
            stream: self.device.stream()?,
        })
    }

    /// Returns staging memory for the next result.
    pub fn give_staging(&self, staging: Staging) {
        self.staging.lock().push(staging);
    }
}

/// Bytes per second over the link: the measured rate of pinned copies, or a typical one.
fn link_rate(measured: Option<&Calibration>) -> f64 {
    measured.map_or(DemandPolicy::DEFAULT.link_rate, |measured| measured.h2d)
}

#[cfg(test)]
mod tests {
    use super::*;
    use galatea_device::{DeviceOptions, EmulatorOptions, Origin};

    /// Compiles the query kernels on a new device with the cache `folder`. Returns the origin of each kernel
    /// when it is compiled again.
    fn origins(folder: &std::path::Path) -> Vec<(String, Origin)> {
        let options = DeviceOptions {
            cache_directory: Some(folder.to_owned()),
            ..DeviceOptions::default()
        };
        let device = Device::emulated(EmulatorOptions::default(), options).expect("an emulated device");
        let runtime = DeviceRuntime::new(device).expect("a device");
        for compiler in runtime.compile_query_kernels(2) {
            compiler.join().expect("no panic");
        }
        let programs = galatea_kernels::query_programs().into_iter();
        let origin = |program: Program| {
            let compiled = runtime.device.compile(&program).expect("it compiles");
            (program.name.clone(), compiled.origin)
        };
        programs.map(origin).collect()
    }

    #[test]
    fn query_kernels_are_compiled_when_the_device_is_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        for (kernel, origin) in origins(folder.path()) {
            assert_eq!(origin, Origin::Memory, "{kernel}");
        }
        for (kernel, origin) in origins(folder.path()) {
            assert_eq!(origin, Origin::Disk, "{kernel} of an earlier process");
        }
    }
}
