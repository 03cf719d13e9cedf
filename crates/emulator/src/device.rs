//! The part of an emulated device that launches and streams use: memory, settings, and its sticky error.

use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys::CUresult;
use parking_lot::Mutex;

use crate::counters::Counters;
use crate::injection::{DriverCall, FaultCode};
use crate::memory::Memory;
use crate::options::EmulatorOptions;
use crate::report::{Failure, FailureKind};

/// One emulated device.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) ordinal: i32,
    options: EmulatorOptions,
    seed: AtomicU64,
    launches: AtomicU64,
    pub(crate) memory: Memory,
    /// The sticky error; `CUDA_SUCCESS` if none.
    error: Mutex<CUresult>,
    report: Mutex<Option<String>>,
    counters: Mutex<Counters>,
}

impl Device {
    pub(crate) fn new(ordinal: i32, mut options: EmulatorOptions) -> Device {
        options.shared_memory_per_block = options
            .shared_memory_per_block
            .clamp(1 << 10, crate::shared::MOST as u32);
        options.multiprocessors = options.multiprocessors.max(1);
        options.max_resident_blocks = options.max_resident_blocks.max(1);
        Device {
            ordinal,
            seed: AtomicU64::new(options.seed),
            launches: AtomicU64::new(0),
            memory: Memory::new(options.memory),
            error: Mutex::new(CUresult::CUDA_SUCCESS),
            report: Mutex::new(None),
            counters: Mutex::new(Counters::default()),
            options,
        }
    }

    pub(crate) fn options(&self) -> &EmulatorOptions {
        &self.options
    }

    /// The seed of the launches from now on.
    pub(crate) fn seed(&self) -> u64 {
        self.seed.load(Ordering::Relaxed)
    }

    pub(crate) fn set_seed(&self, seed: u64) {
        self.seed.store(seed, Ordering::Relaxed);
        // The same seed yields the same choices again.
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

    /// Like [`Device::check`], for a call that a test may have injected a failure into.
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

    /// Records a failed launch: the context is lost. The first failure is kept.
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

    /// Clears the sticky error.
    pub(crate) fn recover(&self) {
        *self.error.lock() = CUresult::CUDA_SUCCESS;
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
