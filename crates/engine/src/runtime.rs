//! What the queries of a session share: the store, the device, and the columns resident on it.

mod lookup;

use crate::background::Background;
use crate::config::{DeviceChoice, GalateaConfig, MemoryLimit};
use crate::device::DeviceRuntime;
use crate::history::History;
use crate::reason::Reason;
use crate::report::QueryReports;
use crate::spill::{StoreMemory, TemporaryFiles};
use crate::spilling_join::with_spilling_joins;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use galatea_device::{
    Device, DeviceOptions, EmulatorOptions, MachineMemory, Nvrtc, RETRY, driver_is_installed,
};
use galatea_store::{Store, StoreOptions};
use parking_lot::Mutex;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

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
    background: Background,
}

/// How often something has left a device's memory, and the store: equal ones mean that all is where it was.
#[derive(Debug, Clone)]
pub(crate) struct Departures {
    device: Weak<DeviceRuntime>,
    pages: u64,
    columns: u64,
}

impl PartialEq for Departures {
    fn eq(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.device, &other.device)
            && (self.pages, self.columns) == (other.pages, other.columns)
    }
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

    /// Opens a device in place of the GPU.
    #[cfg(test)]
    pub(crate) fn with_open_device(self, device: Device) -> Self {
        let opened = DeviceRuntime::new(device).expect("a device");
        *self.gpu.lock() = Opened::Open(Arc::new(opened));
        self
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

    /// A plan after the session's physical rules beside ours, without which a join may not know how its
    /// inputs are distributed.
    pub(crate) fn finished(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &TaskContext,
    ) -> Result<Arc<dyn ExecutionPlan>, DataFusionError> {
        let (rules, options) = (self.host_rules(), context.session_config().options());
        let plan = (rules.iter()).try_fold(plan, |plan, rule| rule.optimize(plan, options))?;
        with_spilling_joins(plan, context.memory_pool().as_ref())
    }

    /// What is done behind the session's queries.
    pub fn background(&self) -> &Background {
        &self.background
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
        let memory = MachineMemory::total();
        let limit = config.store_memory_limit.resolve(memory, memory / 2);
        let options = StoreOptions {
            memory_limit: Some(limit),
            chunk_rows: config.chunk_rows.0 as usize,
            packing: config.pack_codes.packing(),
        };
        let store = self.store.get_or_init(|| Store::new(options));
        store.set_memory_limit(limit);
        store.set_chunk_rows(options.chunk_rows);
        store.set_packing(options.packing);
        store
    }

    /// Whether the configured device can be expected to work; opens nothing. A driver that has not been
    /// initialised is, which takes a few tenths of a second.
    ///
    /// # Errors
    /// The missing part.
    pub fn usable(&self, config: &GalateaConfig) -> Result<(), Reason> {
        self.usable_within(config, Duration::MAX)
    }

    /// Whether tables should be stored as the configured device reads them. A driver counts as a device,
    /// since initialising it would delay the first query.
    pub fn expects_device(&self, config: &GalateaConfig) -> bool {
        match config.device {
            DeviceChoice::Auto | DeviceChoice::Gpu => driver_is_installed(),
            DeviceChoice::Cpu | DeviceChoice::Emulated => self.usable(config).is_ok(),
        }
    }

    /// Starts the driver of the GPU soon, for the queries to come.
    pub(crate) fn start_gpu_soon() {
        lookup::GPU.look_soon();
    }

    /// As [`Self::usable`], for a caller that waits for a driver no longer than `patience`; without patience
    /// it starts none.
    pub(crate) fn usable_within(&self, config: &GalateaConfig, patience: Duration) -> Result<(), Reason> {
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
            DeviceChoice::Auto | DeviceChoice::Gpu if self.opened(config).is_some() => Ok(()),
            DeviceChoice::Auto | DeviceChoice::Gpu => {
                if let Some(reason) = self.gpu.lock().refusal() {
                    return Err(reason.clone());
                }
                lookup::GPU.within(patience)
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

    /// What tells whether something has left device memory, or the store, since; none where no device is
    /// open.
    pub(crate) fn departures(&self, config: &GalateaConfig) -> Option<Departures> {
        let device = self.opened(config)?;
        Some(Departures {
            pages: device.memory().departures(),
            columns: self.store(config).departures(),
            device: Arc::downgrade(&device),
        })
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
