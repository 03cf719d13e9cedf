//! What the queries of a session share: the store, the device, and the columns resident on it.

use crate::calibration::{self, Calibrated};
use crate::config::{DeviceChoice, GalateaConfig, MemoryLimit};
use crate::execution::RunError;
use crate::execution::demand::Demands;
use crate::execution::launches::Launches;
use crate::execution::prepared::PreparedPipelines;
use crate::history::History;
use crate::metrics::DeviceUse;
use crate::reason::Reason;
use crate::report::QueryReports;
use crate::spill::{StoreMemory, TemporaryFiles};
use bytemuck::Pod;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use galatea_device::{
    Calibration, Device, DeviceBuffer, DeviceError, DeviceOptions, EmulatorOptions, HostMemory,
    MachineMemory, Nvrtc, RETRY, Retried, Stream, probe,
};
use galatea_layout::model::Machine;
use galatea_memory::regions::MemoryManager;
use galatea_store::{Store, StoreOptions};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// One opened device and what lives on it.
#[derive(Debug)]
pub struct DeviceRuntime {
    device: Device,
    memory: MemoryManager,
    launches: Launches,
    demands: Demands,
    prepared: PreparedPipelines,
    streams: Mutex<Vec<QueryStreams>>,
    staging: Mutex<Vec<Staging>>,
    calibration: Mutex<Option<Calibration>>,
    /// What `galatea.gpu_memory_limit = 'auto'` stands for.
    automatic_limit: u64,
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
}

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

    /// Measures the device, which should be idle, keeps what it found, and uses it from now on. Takes a few
    /// seconds.
    ///
    /// # Errors
    /// Those of [`galatea_kernels::calibrate`]: the emulated device has no times of its own.
    pub fn calibrate(&self) -> Result<Calibrated, DeviceError> {
        let (before, start) = (self.machine(), Instant::now());
        let measured = galatea_kernels::calibrate(&self.device)?;
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

    /// Bytes there is room for, once everything is evicted that can be.
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

/// Physical optimizer rules, in order.
pub type OptimizerRules = Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>;

/// What the queries of a session share.
#[derive(Debug, Default)]
pub struct Runtime {
    store: OnceLock<Arc<Store>>,
    gpu: Mutex<Opened>,
    emulated: Mutex<Opened>,
    /// None where the emulated device is not allowed.
    emulator: Option<EmulatorOptions>,
    reports: QueryReports,
    environment: OnceLock<Arc<RuntimeEnv>>,
    host_rules: OnceLock<OptimizerRules>,
    history: History,
}

/// How opening a device ended.
#[derive(Debug, Default)]
enum Opened {
    /// It was not needed yet, or was lost.
    #[default]
    Not,
    /// It is open.
    Open(Arc<DeviceRuntime>),
    /// It could not be opened. It is tried again [`RETRY`] later.
    Failed(Reason, Instant),
}

impl Opened {
    /// Why it is not tried now.
    fn refusal(&self) -> Option<&Reason> {
        match self {
            Self::Failed(reason, at) if at.elapsed() < RETRY => Some(reason),
            _ => None,
        }
    }
}

impl Runtime {
    /// A runtime whose reports go to `reports`; nothing is opened until it is needed.
    pub fn new(reports: QueryReports) -> Self {
        Self {
            reports,
            ..Self::default()
        }
    }

    /// Allows the emulated device, made with these options when it is first needed. It compiles code with the
    /// machine's C++ compiler and loads it into the process, so that the program decides, not who may write
    /// SQL.
    pub fn with_emulator(self, options: EmulatorOptions) -> Self {
        Self {
            emulator: Some(options),
            ..self
        }
    }

    /// Object stores of the session, which placement needs to know what of a file is loaded.
    #[must_use]
    pub fn with_environment(self, environment: Arc<RuntimeEnv>) -> Self {
        let _ = self.environment.set(environment);
        self
    }

    /// The session's physical optimizer rules beside ours: what falls back to the CPU is planned with them.
    #[must_use]
    pub fn with_host_rules(self, rules: OptimizerRules) -> Self {
        let _ = self.host_rules.set(rules);
        self
    }

    /// See [`Self::with_host_rules`]; DataFusion's own where there are none.
    pub(crate) fn host_rules(&self) -> &OptimizerRules {
        self.host_rules.get_or_init(|| PhysicalOptimizer::new().rules)
    }

    /// What the session's earlier queries have shown.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// See [`Self::with_environment`].
    pub(crate) fn environment(&self) -> Option<&Arc<RuntimeEnv>> {
        self.environment.get()
    }

    /// The session's query reports.
    pub fn reports(&self) -> &QueryReports {
        &self.reports
    }

    /// The store, made for the first configuration that needs it and following later ones.
    pub fn store(&self, config: &GalateaConfig) -> &Arc<Store> {
        let memory = MachineMemory::look().total;
        let limit = config.store_memory_limit.resolve(memory, memory / 2);
        let options = StoreOptions {
            memory_limit: Some(limit),
            chunk_rows: config.chunk_rows.0 as usize,
        };
        let store = self.store.get_or_init(|| Store::new(options));
        store.set_memory_limit(limit);
        store.set_chunk_rows(options.chunk_rows);
        store
    }

    /// Whether the configured device can be expected to work; opens nothing.
    pub fn usable(&self, config: &GalateaConfig) -> Result<(), Reason> {
        match config.device {
            DeviceChoice::Cpu => Err(Reason::Setting {
                setting: "galatea.device",
                value: "cpu".into(),
            }),
            DeviceChoice::Emulated => {
                self.emulator.as_ref().ok_or(Reason::EmulatedDevice)?;
                Nvrtc::emulated().map_err(|missing| no_device(&missing.to_string()))?;
                self.emulated
                    .lock()
                    .refusal()
                    .map_or(Ok(()), |reason| Err(reason.clone()))
            }
            DeviceChoice::Auto | DeviceChoice::Gpu => {
                if let Some(reason) = self.gpu.lock().refusal() {
                    return Err(reason.clone());
                }
                static USABLE: Retried<(), Reason> = Retried::new(RETRY);
                let look = || {
                    let found = probe();
                    let usable = found.usable().map(|_| ());
                    usable.map_err(|missing| no_device(&missing.to_string()))
                };
                USABLE.get(look).copied()
            }
        }
    }

    /// The configured device, if it is open.
    pub(crate) fn opened(&self, config: &GalateaConfig) -> Option<Arc<DeviceRuntime>> {
        let slot = match config.device {
            DeviceChoice::Emulated => &self.emulated,
            _ => &self.gpu,
        };
        match &*slot.lock() {
            Opened::Open(runtime) => Some(Arc::clone(runtime)),
            Opened::Not | Opened::Failed(..) => None,
        }
    }

    /// The devices that are open.
    pub fn devices(&self) -> Vec<Arc<DeviceRuntime>> {
        let slots = [&self.gpu, &self.emulated].into_iter();
        slots
            .filter_map(|slot| match &*slot.lock() {
                Opened::Open(runtime) => Some(Arc::clone(runtime)),
                Opened::Not | Opened::Failed(..) => None,
            })
            .collect()
    }

    /// The configured device, opened on first use.
    pub fn device(&self, config: &GalateaConfig) -> Result<Arc<DeviceRuntime>, Reason> {
        let emulated = config.device == DeviceChoice::Emulated;
        let mut slot = if emulated {
            self.emulated.lock()
        } else {
            self.gpu.lock()
        };
        if let Some(reason) = slot.refusal() {
            return Err(reason.clone());
        }
        let runtime = match &*slot {
            Opened::Open(runtime) if runtime.device.alive().is_ok() => Arc::clone(runtime),
            // It may have been lost after the last query had its result, unnoticed.
            Opened::Open(_) | Opened::Not | Opened::Failed(..) => {
                let opened = self.open(emulated).and_then(|device| {
                    let runtime = DeviceRuntime::new(device);
                    runtime.map_err(|error| no_device(&error.to_string()))
                });
                let opened = opened.map(Arc::new);
                if let Ok(runtime) = &opened {
                    let memory = StoreMemory(self.store(config).spill_memory());
                    let files = self.environment.get().map_or_else(
                        || Arc::clone(&RuntimeEnv::default().disk_manager),
                        |environment| Arc::clone(&environment.disk_manager),
                    );
                    runtime
                        .memory
                        .set_spill(Arc::new(memory), Arc::new(TemporaryFiles(files)));
                }
                *slot = match &opened {
                    Ok(runtime) => Opened::Open(Arc::clone(runtime)),
                    Err(reason) => Opened::Failed(reason.clone(), Instant::now()),
                };
                opened?
            }
        };
        drop(slot);
        runtime.memory.set_replacement(config.replacement.policy());
        runtime.memory.set_ablations(config.memory_ablations.0);
        runtime.memory.turns().set_admission(config.admission.0);
        let total = runtime.device.info().total_memory;
        runtime.device.budget().set_limit(match config.gpu_memory_limit {
            MemoryLimit::Auto => Some(runtime.automatic_limit),
            limit => Some(limit.resolve(total, total)),
        });
        Ok(runtime)
    }

    fn open(&self, emulated: bool) -> Result<Device, Reason> {
        let options = DeviceOptions::default();
        let device = if emulated {
            let emulator = self.emulator.clone().ok_or(Reason::EmulatedDevice)?;
            Device::emulated(emulator, options)
        } else {
            Device::gpu(0, options)
        };
        device.map_err(|error| no_device(&error.to_string()))
    }

    /// Forgets a lost GPU, so that the next query opens it anew.
    pub fn forget(&self, lost: &Arc<DeviceRuntime>) {
        for slot in [&self.gpu, &self.emulated] {
            let mut slot = slot.lock();
            if matches!(&*slot, Opened::Open(current) if Arc::ptr_eq(current, lost)) {
                *slot = Opened::Not;
            }
        }
    }
}

fn no_device(detail: &str) -> Reason {
    Reason::Device {
        detail: detail.to_string(),
    }
}
