//! One opened device, and what queries share on it.

use super::calibration::Calibrated;
use super::demand::Demands;
use super::launches::Launches;
use super::prepared::PreparedPipelines;
use super::{RunError, calibration};
use crate::metrics::DeviceUse;
use bytemuck::Pod;
use galatea_device::{Calibration, Device, DeviceBuffer, DeviceError, HostMemory, Stream};
use galatea_layout::model::Machine;
use galatea_memory::regions::MemoryManager;
use galatea_memory::transfer::{Method, TransferError, link_rates};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

/// Bytes by which the ways across the link are measured.
const LINK_BYTES: usize = 64 << 20;

/// One opened device and what lives on it.
#[derive(Debug)]
pub struct DeviceRuntime {
    pub(crate) device: Device,
    pub(crate) memory: MemoryManager,
    launches: Launches,
    demands: Demands,
    prepared: PreparedPipelines,
    streams: Mutex<Vec<QueryStreams>>,
    staging: Mutex<Vec<Staging>>,
    calibration: Mutex<Option<Calibration>>,
    /// What `galatea.gpu_memory_limit = 'auto'` stands for.
    pub(crate) automatic_limit: u64,
}

/// The streams one query works on.
#[derive(Debug, Clone)]
pub struct QueryStreams {
    /// Kernels.
    pub compute: Stream,
    /// Priority of its kernels; less is sooner.
    pub priority: i32,
    /// Copies that overlap them. Two, so that the gap between two copies on one is filled by the other.
    pub transfer: [Stream; 2],
    /// Kernels that unpack what was copied, before all others: chunks wait for them.
    pub unpack: Stream,
}

/// Priority of kernels that unpack; less is sooner, and the driver has no less than it knows.
const UNPACK_PRIORITY: i32 = -5;

/// Pinned memory that results are copied to, and the stream that copies.
#[derive(Debug)]
pub struct Staging {
    memory: Arc<HostMemory>,
    /// Copies to the memory.
    pub stream: Stream,
}

impl Staging {
    /// Bytes kept pinned by each.
    pub const BYTES: usize = 8 << 20;

    /// The first `len` bytes; more than [`Staging::BYTES`] only for rows that are longer.
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
    /// The device's.
    pub(crate) fn new(device: Device) -> Result<Self, DeviceError> {
        Ok(Self {
            memory: MemoryManager::new(&device)?,
            launches: Launches::default(),
            demands: Demands::default(),
            calibration: Mutex::new(calibration::stored(&device)),
            automatic_limit: device
                .automatic_limit()
                .unwrap_or_else(|_| device.info().total_memory),
            device,
            prepared: PreparedPipelines::default(),
            streams: Mutex::new(Vec::new()),
            staging: Mutex::new(Vec::new()),
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// What the model of grouped aggregation knows of the device.
    pub fn machine(&self) -> Machine {
        let measured = self.calibration().map(|measured| measured.grouping);
        calibration::machine(self.device.info(), measured.as_ref())
    }

    /// What was measured of the device, if it was: `galatea calibrate` does, and [`Self::calibrate`].
    pub fn calibration(&self) -> Option<Calibration> {
        *self.calibration.lock()
    }

    /// The way by which chunks of columns come over the link: the fastest that was measured of those that
    /// copy memory of the store, which stays where it is. Pinned copies where nothing was measured.
    pub fn chunk_transfer(&self) -> Method {
        let rates = self
            .calibration()
            .map(|measured| measured.link)
            .unwrap_or_default();
        let ways = [Method::Pinned, Method::Staged, Method::Pageable];
        Method::fastest(&ways, rates).unwrap_or(Method::Pinned)
    }

    /// Measures the device, which should be idle, keeps what it found, and uses it from now on. Takes a few
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

    /// Removes what was measured; whether something was.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn forget_calibration(&self) -> Result<bool, DeviceError> {
        let was_there = Calibration::forget(&self.device)?;
        *self.calibration.lock() = None;
        Ok(was_there)
    }

    /// Who owns its memory: columns kept there, and whose turn it is.
    pub fn memory(&self) -> &MemoryManager {
        &self.memory
    }

    /// Gives up all device memory that no query is using: pages, spare working memory, inputs of launches
    /// that are kept.
    ///
    /// # Errors
    /// The device's.
    pub fn clear(&self) -> Result<(), DeviceError> {
        self.launches.clear();
        self.memory.clear()
    }

    /// How much of the device is in use.
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

    /// Launches whose inputs are kept.
    pub(crate) fn launches(&self) -> &Launches {
        &self.launches
    }

    /// What earlier runs of pipelines have shown of their demand for memory.
    pub(crate) fn demands(&self) -> &Demands {
        &self.demands
    }

    /// Tries an allocation, giving up what no launch is about to use as long as it does not fit. `None`: not
    /// even then.
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

    /// A copy of a slice in working memory, which is called `what` where it does not fit.
    pub(crate) fn upload<T: Pod>(
        &self,
        stream: &Stream,
        values: &[T],
        what: &'static str,
    ) -> Result<DeviceBuffer<T>, RunError> {
        let made = self.making_room(|| self.device.upload(stream, values))?;
        made.ok_or_else(|| RunError::full(self.device.budget(), what, size_of_val(values) as u64))
    }

    /// Working memory of that many zeroes, which is called `what` where it does not fit.
    pub(crate) fn zeroed<T: Pod>(
        &self,
        stream: &Stream,
        len: usize,
        what: &'static str,
    ) -> Result<DeviceBuffer<T>, RunError> {
        let made = self.making_room(|| self.device.zeroed(stream, len))?;
        made.ok_or_else(|| RunError::full(self.device.budget(), what, (len * size_of::<T>()) as u64))
    }

    /// That many words of 0 that streams store into, which are called `what` where they do not fit.
    pub(crate) fn words(
        &self,
        stream: &Stream,
        len: usize,
        what: &'static str,
    ) -> Result<DeviceBuffer<u32>, RunError> {
        let made = self.making_room(|| self.device.words(stream, len))?;
        made.ok_or_else(|| RunError::full(self.device.budget(), what, (len * size_of::<u32>()) as u64))
    }

    /// Working memory of so many bytes, as [`Self::making_room`].
    pub(crate) fn allocate(&self, stream: &Stream, bytes: u64) -> Result<Option<DeviceBuffer<u8>>, RunError> {
        self.making_room(|| {
            let buffer = self.device.alloc::<u8>(stream, bytes.max(1) as usize)?;
            Ok::<_, DeviceError>(buffer.assume_written())
        })
    }

    /// Pipelines bound and compiled before.
    pub fn prepared(&self) -> &PreparedPipelines {
        &self.prepared
    }

    /// Streams of a finished query, or new ones, whose kernels have that priority: less is sooner.
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

    /// Gives idle streams back for the next query.
    pub fn give_streams(&self, streams: QueryStreams) {
        self.streams.lock().push(streams);
    }

    /// Staging memory of an earlier result, or new one.
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

    /// Gives staging memory back for the next result.
    pub fn give_staging(&self, staging: Staging) {
        self.staging.lock().push(staging);
    }
}
