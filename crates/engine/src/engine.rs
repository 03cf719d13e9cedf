//! The engine of a process, or of a part of it: devices, the store, and the state that sessions share.
//!
//! ```text
//! Engine                                   its own settings (ALTER SYSTEM SET), changed for all sessions
//!   devices: GPU 0, .., emulated           each opened when a query needs it; reopened after it was lost
//!   store                                  encoded columns in host memory, with a memory limit
//!   history                                outcomes of earlier runs
//!   background                             warm-up of devices
//!   ^ Session, Session, ..                 per context: settings, reports, object stores
//! ```
//!
//! A program that builds no engine uses the engine of the process ([`Engine::of_process`]). Two engines share
//! only the driver, the folder of compiled kernels and that of columns on disk.

mod lookup;

use crate::background::Background;
use crate::config::{DeviceChoice, DiskLimit, EngineSettings, GalateaConfig, MemoryLimit, SharedSettings};
use crate::device::DeviceRuntime;
use crate::history::History;
use crate::shared_results::SharedResults;
use crate::spill::{StoreMemory, TemporaryFiles};
use datafusion::error::Result;
use datafusion::execution::disk_manager::DiskManager;
use datafusion::execution::runtime_env::RuntimeEnv;
use galatea_base::reason::Reason;
use galatea_device::{
    CacheFolder, Device, DeviceOptions, EmulatorOptions, MachineMemory, Nvrtc, RETRY, driver_is_installed,
    free_disk_space,
};
use galatea_store::{DiskCache, Store, StoreOptions};
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// The state that the sessions of a process share; see the [module](self).
#[derive(Debug)]
pub struct Engine {
    settings: SharedSettings,
    /// Held while settings change or are applied to a new store.
    applying: Mutex<()>,
    /// GPUs by number, followed by the emulated device, if it is allowed.
    devices: Vec<DeviceSlot>,
    store: OnceLock<Arc<Store>>,
    files: Arc<DiskManager>,
    /// The folder of columns on disk, if it is not the default one.
    columns: Option<PathBuf>,
    /// The limit of columns on disk that was applied to the store.
    disk_limit: Mutex<Option<DiskLimit>>,
    history: History,
    shared_results: SharedResults,
    background: Background,
    sessions: AtomicUsize,
}

/// Builds an [`Engine`].
#[derive(Debug, Default)]
#[must_use]
pub struct EngineBuilder {
    settings: Vec<(String, String)>,
    emulator: Option<EmulatorOptions>,
    files: Option<Arc<DiskManager>>,
    columns: Option<PathBuf>,
}

impl EngineBuilder {
    /// Sets an engine setting by its name, `galatea.memory.gpu_limit`. The last value of a setting takes
    /// effect. [`build`](Self::build) checks names and values.
    pub fn with_setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Allows the emulated device, which is created with these options when it is first needed. It compiles
    /// code with the machine's C++ compiler and loads it into the process, so the program has to allow it,
    /// not a user who writes SQL.
    pub fn with_emulated_device(mut self, options: EmulatorOptions) -> Self {
        self.emulator = Some(options);
        self
    }

    /// The disk manager of temporary files; by default DataFusion's default one.
    pub fn with_temporary_files(mut self, files: Arc<DiskManager>) -> Self {
        self.files = Some(files);
        self
    }

    /// The folder of encoded columns on disk (`galatea.cache.disk`), an absolute path that only this user can
    /// write. It is created if necessary. By default, it is `columns` in the user's cache directory.
    pub fn with_column_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.columns = Some(folder.into());
        self
    }

    /// Builds the engine. Devices and the store are opened when they are first needed.
    ///
    /// # Errors
    /// An unknown setting, or a value that a setting does not accept.
    pub fn build(self) -> Result<Arc<Engine>> {
        let settings = SharedSettings::default();
        for (name, value) in &self.settings {
            settings.set(name, value)?;
        }
        let mut devices = vec![DeviceSlot::new(DeviceKind::Gpu(0))];
        devices.extend(
            self.emulator
                .map(|options| DeviceSlot::new(DeviceKind::Emulated(options))),
        );
        Ok(Arc::new(Engine {
            settings,
            applying: Mutex::default(),
            devices,
            store: OnceLock::new(),
            files: self
                .files
                .unwrap_or_else(|| Arc::clone(&RuntimeEnv::default().disk_manager)),
            columns: self.columns,
            disk_limit: Mutex::default(),
            history: History::default(),
            shared_results: SharedResults::default(),
            background: Background::default(),
            sessions: AtomicUsize::new(0),
        }))
    }
}

/// A device, open or not.
#[derive(Debug)]
struct DeviceSlot {
    kind: DeviceKind,
    opened: Mutex<Opened>,
}

#[derive(Debug)]
enum DeviceKind {
    /// The GPU with this number.
    Gpu(usize),
    Emulated(EmulatorOptions),
}

/// The state of a device.
#[derive(Debug)]
enum Opened {
    /// It has not been needed yet, or was lost.
    Not,
    /// It is open.
    Open(Arc<DeviceRuntime>),
    /// It could not be opened. Opening is retried after [`RETRY`].
    Failed(Reason, Instant),
}

impl Opened {
    /// The reason why opening is not retried now.
    fn refusal(&self) -> Option<&Reason> {
        match self {
            Self::Failed(reason, at) if at.elapsed() < RETRY => Some(reason),
            _ => None,
        }
    }
}

impl DeviceSlot {
    fn new(kind: DeviceKind) -> Self {
        Self {
            kind,
            opened: Mutex::new(Opened::Not),
        }
    }

    /// The device, if it is open.
    fn get(&self) -> Option<Arc<DeviceRuntime>> {
        match &*self.opened.lock() {
            Opened::Open(device) => Some(Arc::clone(device)),
            Opened::Not | Opened::Failed(..) => None,
        }
    }

    /// The reason why opening is not retried now.
    fn refusal(&self) -> Result<(), Reason> {
        let opened = self.opened.lock();
        opened.refusal().map_or(Ok(()), |reason| Err(reason.clone()))
    }

    fn make(&self) -> Result<DeviceRuntime, Reason> {
        let options = DeviceOptions::default();
        let device = match &self.kind {
            DeviceKind::Gpu(number) => Device::gpu(*number, options),
            DeviceKind::Emulated(emulator) => Device::emulated(emulator.clone(), options),
        };
        let opened = device.and_then(DeviceRuntime::new);
        opened.map_err(|error| no_device(&error.to_string()))
    }
}

/// The number of evictions from a device's memory and from the store. Equal epochs mean that nothing was
/// evicted in between.
#[derive(Debug, Clone)]
pub(crate) struct EvictionEpoch {
    device: Weak<DeviceRuntime>,
    pages: u64,
    columns: u64,
}

impl PartialEq for EvictionEpoch {
    fn eq(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.device, &other.device)
            && (self.pages, self.columns) == (other.pages, other.columns)
    }
}

impl Engine {
    /// Starts an [`EngineBuilder`].
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// The engine of the process, which sessions use by default. The first call builds it, with the default
    /// settings and without the emulated device.
    pub fn of_process() -> &'static Arc<Self> {
        static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
        ENGINE.get_or_init(|| Self::builder().build().expect("no setting is set"))
    }

    /// The settings of this engine, as its sessions see them.
    pub fn settings(&self) -> &SharedSettings {
        &self.settings
    }

    /// Changes a setting for all sessions, including running queries. Returns the number of sessions.
    ///
    /// # Errors
    /// An unknown setting, or a value that the setting does not accept.
    pub fn set(&self, name: &str, value: &str) -> Result<usize> {
        let _alone = self.applying.lock();
        self.settings.set(name, value)?;
        let settings = self.settings.get();
        if let Some(store) = self.store.get() {
            self.apply_to_store(&settings, store);
        }
        for device in self.devices() {
            apply_to_device(&settings, &device);
        }
        self.set_page_decoder(&settings);
        Ok(self.sessions())
    }

    fn apply_to_store(&self, settings: &EngineSettings, store: &Store) {
        store.set_memory_limit(store_limit(settings));
        store.set_chunk_rows(settings.chunk_rows.0 as usize);
        store.set_packing(settings.transfer_compression.packing());
        let mut applied = self.disk_limit.lock();
        let limit = settings.disk_cache;
        if applied.replace(limit) != Some(limit) {
            let is_on = limit != DiskLimit::Off;
            let folder = self.columns.clone();
            let open = move || open_disk_cache(folder.as_deref(), limit);
            store.set_disk_cache(is_on.then(|| DiskCache::opened_by(open)));
        }
    }

    /// Gives the store the decoder of an open device, or takes it away, as the setting demands.
    fn set_page_decoder(&self, settings: &EngineSettings) {
        let Some(store) = self.store.get() else { return };
        let mut decoders = self.devices().into_iter();
        let decoder = decoders.find_map(|device| device.page_decoder(settings.parquet_decoding));
        store.set_page_decoder(decoder);
    }

    /// The same, after a device was opened or lost. The caller must not hold the lock of a device.
    fn devices_changed(&self) {
        let _alone = self.applying.lock();
        self.set_page_decoder(&self.settings.get());
    }

    /// Number of sessions that use this engine.
    pub fn sessions(&self) -> usize {
        self.sessions.load(Ordering::Relaxed)
    }

    pub(crate) fn count_session(&self, begins: bool) {
        match begins {
            true => self.sessions.fetch_add(1, Ordering::Relaxed),
            false => self.sessions.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// The background work of this engine.
    pub fn background(&self) -> &Background {
        &self.background
    }

    /// The outcomes of earlier queries.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The results that sessions share.
    pub(crate) fn shared_results(&self) -> &SharedResults {
        &self.shared_results
    }

    /// The store, created when it is first needed.
    pub fn store(&self) -> &Arc<Store> {
        if let Some(store) = self.store.get() {
            return store;
        }
        let _alone = self.applying.lock();
        self.store.get_or_init(|| {
            let settings = self.settings.get();
            let store = Store::new(StoreOptions {
                memory_limit: Some(store_limit(&settings)),
                chunk_rows: settings.chunk_rows.0 as usize,
                packing: settings.transfer_compression.packing(),
            });
            self.apply_to_store(&settings, &store);
            store
        })
    }

    /// The store, if it was needed before.
    pub fn opened_store(&self) -> Option<&Arc<Store>> {
        self.store.get()
    }

    /// Waits until loaded columns have been written to the column cache on disk, at most for `time`. Blocks
    /// the thread. Returns whether all have been written.
    pub fn wait_for_column_writes(&self, time: Duration) -> bool {
        let cache = self.store.get().and_then(|store| store.disk_cache());
        cache.is_none_or(|cache| cache.wait(time))
    }

    /// Whether the session's chosen device is expected to work. It is not opened, but a driver that has not
    /// been initialised is, which takes a few tenths of a second.
    ///
    /// # Errors
    /// The missing component.
    pub fn usable(&self, config: &GalateaConfig) -> Result<(), Reason> {
        self.usable_within(config, Duration::MAX)
    }

    /// Whether tables should be stored in the layout of the chosen device. An installed driver counts as a
    /// device, since initialising it would delay the first query.
    pub fn expects_device(&self, config: &GalateaConfig) -> bool {
        match config.device {
            DeviceChoice::Auto | DeviceChoice::Gpu => driver_is_installed(),
            DeviceChoice::Cpu | DeviceChoice::Emulated => self.usable(config).is_ok(),
        }
    }

    /// Starts the GPU driver soon, for later queries.
    pub(crate) fn start_gpu_soon() {
        lookup::GPU.look_soon();
    }

    /// As [`Self::usable`], for a caller that waits for a driver for at most `patience`. With a patience of
    /// zero no driver is started.
    pub(crate) fn usable_within(&self, config: &GalateaConfig, patience: Duration) -> Result<(), Reason> {
        if config.device == DeviceChoice::Cpu {
            return Err(Reason::Setting {
                setting: "galatea.device",
                value: "cpu".into(),
            });
        }
        let slot = self.slot(config)?;
        match slot.kind {
            DeviceKind::Emulated(_) => {
                Nvrtc::emulated().map_err(|missing| no_device(&missing.to_string()))?;
                slot.refusal()
            }
            DeviceKind::Gpu(_) if slot.get().is_some() => Ok(()),
            DeviceKind::Gpu(_) => {
                slot.refusal()?;
                lookup::GPU.within(patience)
            }
        }
    }

    /// The slot of the session's chosen device.
    fn slot(&self, config: &GalateaConfig) -> Result<&DeviceSlot, Reason> {
        let is_emulated = config.device == DeviceChoice::Emulated;
        let chosen = |slot: &&DeviceSlot| matches!(slot.kind, DeviceKind::Emulated(_)) == is_emulated;
        self.devices.iter().find(chosen).ok_or(Reason::EmulatedDevice)
    }

    /// The session's chosen device, if it is open.
    pub(crate) fn opened(&self, config: &GalateaConfig) -> Option<Arc<DeviceRuntime>> {
        self.slot(config).ok()?.get()
    }

    /// The number of evictions from device memory and from the store so far; `None` if no device is open.
    pub(crate) fn eviction_epoch(&self, config: &GalateaConfig) -> Option<EvictionEpoch> {
        let device = self.opened(config)?;
        Some(EvictionEpoch {
            pages: device.memory().eviction_epoch(),
            columns: self.store().eviction_epoch(),
            device: Arc::downgrade(&device),
        })
    }

    /// The open devices.
    pub fn devices(&self) -> Vec<Arc<DeviceRuntime>> {
        self.devices.iter().filter_map(DeviceSlot::get).collect()
    }

    /// The session's chosen device, opened on first use.
    ///
    /// # Errors
    /// The missing component, or an error of the device.
    pub fn device(&self, config: &GalateaConfig) -> Result<Arc<DeviceRuntime>, Reason> {
        let (slot, store) = (self.slot(config)?, self.store());
        let mut opened = slot.opened.lock();
        if let Some(reason) = opened.refusal() {
            return Err(reason.clone());
        }
        // The device may have been lost, unnoticed, after the last query received its result.
        if let Opened::Open(device) = &*opened
            && device.device.alive().is_ok()
        {
            return Ok(Arc::clone(device));
        }
        let made = slot.make().map(Arc::new);
        *opened = match &made {
            Ok(device) => {
                let memory = StoreMemory(store.spill_memory());
                let files = TemporaryFiles(Arc::clone(&self.files));
                device.memory.set_spill(Arc::new(memory), Arc::new(files));
                apply_to_device(&self.settings.get(), device);
                if !device.device.info().emulated {
                    let cores = std::thread::available_parallelism().map_or(1, usize::from);
                    // The threads end by themselves.
                    drop(device.compile_query_kernels(cores.div_ceil(2)));
                }
                Opened::Open(Arc::clone(device))
            }
            Err(reason) => Opened::Failed(reason.clone(), Instant::now()),
        };
        drop(opened);
        self.devices_changed();
        made
    }

    /// Removes a lost device, so that the next query opens it again.
    pub fn forget(&self, lost: &Arc<DeviceRuntime>) {
        for slot in &self.devices {
            let mut opened = slot.opened.lock();
            if matches!(&*opened, Opened::Open(current) if Arc::ptr_eq(current, lost)) {
                *opened = Opened::Not;
            }
        }
        self.devices_changed();
    }

    /// Opens a given device in place of the GPU.
    #[cfg(test)]
    pub(crate) fn with_open_device(device: Device) -> Arc<Self> {
        let engine = Self::builder().build().expect("an engine");
        let opened = DeviceRuntime::new(device).expect("a device");
        *engine.devices[0].opened.lock() = Opened::Open(Arc::new(opened));
        engine
    }
}

fn store_limit(settings: &EngineSettings) -> u64 {
    let memory = MachineMemory::total();
    settings.store_memory_limit.resolve(memory, memory / 2)
}

/// Maximum bytes of columns on disk if the setting is auto.
const AUTOMATIC_DISK_LIMIT: u64 = 16 << 30;

/// The folder of columns on disk, by default in the user's cache directory, and the maximum bytes of its
/// files. `None` if the folder was refused, which is logged once.
fn open_disk_cache(folder: Option<&Path>, limit: DiskLimit) -> Option<(PathBuf, u64)> {
    let opened = match folder {
        Some(folder) => CacheFolder::open(Some(folder)).map(|folder| folder.path().to_owned()),
        None => CacheFolder::open(None).and_then(|cache| cache.subfolder("columns")),
    };
    match opened {
        Ok(path) => {
            let limit = disk_limit(limit, &path);
            Some((path, limit))
        }
        Err(refused) => {
            static WARNED: AtomicBool = AtomicBool::new(false);
            if !WARNED.swap(true, Ordering::Relaxed) {
                tracing::warn!("columns are not cached on disk: {refused}");
            }
            None
        }
    }
}

fn disk_limit(limit: DiskLimit, folder: &Path) -> u64 {
    match limit {
        DiskLimit::Off => 0,
        DiskLimit::Bytes(bytes) => bytes,
        DiskLimit::Auto => free_disk_space(folder).map_or(0, |free| (free / 10).min(AUTOMATIC_DISK_LIMIT)),
    }
}

fn apply_to_device(settings: &EngineSettings, device: &DeviceRuntime) {
    device.memory.set_replacement(settings.replacement.policy());
    device.memory.set_ablations(settings.memory_ablations.0);
    device.memory.admission().set_admission(settings.admission.0);
    let total = device.device.info().total_memory;
    device.device.budget().set_limit(match settings.gpu_memory_limit {
        MemoryLimit::Auto => Some(device.automatic_limit),
        limit => Some(limit.resolve(total, total)),
    });
}

fn no_device(detail: &str) -> Reason {
    Reason::Device {
        detail: detail.to_string(),
    }
}
