//! Emulated devices: the list of them, and what belongs to each.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use cudarc::driver::sys::CUresult;
use parking_lot::{Mutex, RwLock};

use crate::counters::Counters;
use crate::injection::{DriverCall, FaultCode};
use crate::memory::Memory;
use crate::options::EmulatorOptions;
use crate::pool::Pool;
use crate::report::{Failure, FailureKind};
use crate::stream::Stream;

/// One emulated device and its primary context.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) ordinal: i32,
    options: EmulatorOptions,
    seed: AtomicU64,
    launches: AtomicU64,
    pub(crate) memory: Memory,
    pub(crate) pool: Pool,
    streams: Mutex<Vec<Weak<Stream>>>,
    default_stream: Mutex<Option<Arc<Stream>>>,
    /// Retains of the primary context.
    retained: AtomicU32,
    /// The sticky error, `CUDA_SUCCESS` if none.
    error: Mutex<CUresult>,
    report: Mutex<Option<String>>,
    counters: Mutex<Counters>,
}

static DEVICES: RwLock<Vec<Arc<Device>>> = RwLock::new(Vec::new());

impl Device {
    /// Makes a device; its ordinal is its position in the list.
    pub(crate) fn add(mut options: EmulatorOptions) -> i32 {
        options.shared_memory_per_block = options
            .shared_memory_per_block
            .clamp(1 << 10, crate::shared::MOST as u32);
        options.multiprocessors = options.multiprocessors.max(1);
        options.max_resident_blocks = options.max_resident_blocks.max(1);
        let mut devices = DEVICES.write();
        let ordinal = devices.len() as i32;
        devices.push(Arc::new(Device {
            ordinal,
            seed: AtomicU64::new(options.seed),
            launches: AtomicU64::new(0),
            memory: Memory::new(options.memory),
            pool: Pool::new(options.workers(), options.stack_bytes),
            streams: Mutex::new(Vec::new()),
            default_stream: Mutex::new(None),
            retained: AtomicU32::new(0),
            error: Mutex::new(CUresult::CUDA_SUCCESS),
            report: Mutex::new(None),
            counters: Mutex::new(Counters::default()),
            options,
        }));
        ordinal
    }

    /// The device with an ordinal.
    pub(crate) fn get(ordinal: i32) -> Option<Arc<Device>> {
        DEVICES.read().get(usize::try_from(ordinal).ok()?).cloned()
    }

    /// How many there are.
    pub(crate) fn count() -> i32 {
        DEVICES.read().len() as i32
    }

    pub(crate) fn options(&self) -> &EmulatorOptions {
        &self.options
    }

    /// The seed of launches from now on.
    pub(crate) fn seed(&self) -> u64 {
        self.seed.load(Ordering::Relaxed)
    }

    pub(crate) fn set_seed(&self, seed: u64) {
        self.seed.store(seed, Ordering::Relaxed);
        // The same seed gives the same choices again.
        self.launches.store(0, Ordering::Relaxed);
    }

    /// The number of the next launch.
    pub(crate) fn next_launch(&self) -> u64 {
        self.launches.fetch_add(1, Ordering::Relaxed)
    }

    /// The sticky error of the context, if a launch failed.
    pub(crate) fn check(&self) -> Result<(), CUresult> {
        match *self.error.lock() {
            CUresult::CUDA_SUCCESS => Ok(()),
            error => Err(error),
        }
    }

    /// As [`Device::check`], before a call that a test may have asked to fail.
    pub(crate) fn admit(&self, call: DriverCall) -> Result<(), CUresult> {
        self.check()?;
        let Some(code) = self.options.faults.count(call) else {
            return Ok(());
        };
        if code == FaultCode::Lost {
            let failure = Failure {
                kind: FailureKind::Fault,
                what: format!("asked for by a test, at a call of the kind {call:?}"),
                place: String::new(),
            };
            self.fail("(fault injection)", self.seed(), &failure);
            return self.check();
        }
        Err(code.result())
    }

    /// A launch failed: the context is lost. The first failure is kept.
    pub(crate) fn fail(&self, kernel: &str, seed: u64, failure: &Failure) {
        let mut error = self.error.lock();
        if *error == CUresult::CUDA_SUCCESS {
            *error = failure.kind.result();
            let text = failure.text(kernel, seed);
            tracing::error!(device = self.ordinal, "{text}");
            *self.report.lock() = Some(text);
        }
    }

    pub(crate) fn report(&self) -> Option<String> {
        self.report.lock().clone()
    }

    pub(crate) fn retain(&self) {
        self.retained.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives up one retain; the last one ends the context and with it the sticky error. False if there was
    /// none.
    pub(crate) fn release(&self) -> bool {
        let released = self
            .retained
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
        if released == Ok(1) {
            self.synchronize();
            *self.error.lock() = CUresult::CUDA_SUCCESS;
        }
        released.is_ok()
    }

    pub(crate) fn register_stream(&self, stream: &Arc<Stream>) {
        let mut streams = self.streams.lock();
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    /// The stream that handle 0 names.
    pub(crate) fn default_stream(self: &Arc<Self>) -> Arc<Stream> {
        Arc::clone(
            self.default_stream
                .lock()
                .get_or_insert_with(|| Stream::new(self)),
        )
    }

    /// Waits for everything on all streams.
    pub(crate) fn synchronize(&self) {
        let streams: Vec<_> = self.streams.lock().iter().filter_map(Weak::upgrade).collect();
        for stream in streams {
            stream.synchronize();
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        *self.counters.lock()
    }

    pub(crate) fn add_counters(&self, counters: &Counters) {
        *self.counters.lock() += *counters;
    }

    pub(crate) fn reset_counters(&self) {
        *self.counters.lock() = Counters::default();
    }
}
