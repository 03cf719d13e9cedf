//! Settings of an engine. Its sessions share them, so a single session cannot set them.

use super::{
    AdmissionPolicy, Count, DiskLimit, MemoryAblations, MemoryLimit, PREFIX, PackCodes, ParquetDecoding,
    ReplacementPolicy, unknown_hint,
};
use datafusion::common::config_err;
use datafusion::config::ConfigEntry;
use datafusion::error::Result;
use galatea_memory::regions::Admission;
use parking_lot::RwLock;
use std::fmt;
use std::sync::Arc;

settings! {
    /// The settings of an engine, which hold for all of its sessions.
    pub struct EngineSettings {
        /// Device memory that the process may allocate: a size, a share of the card as a percentage, or auto
        /// (the memory that is free when the device is opened, minus a reserve of a sixteenth of the card, at
        /// most 1 GiB). An allocation beyond the limit fails exactly as on a full card.
        "memory.gpu_limit" => pub gpu_memory_limit: MemoryLimit = MemoryLimit::Auto,
        /// Host memory for encoded columns of tables and of files read before: a size, a share of the
        /// machine's memory as a percentage, or auto (half of it). The least recently used columns of files
        /// are evicted first.
        "memory.store_limit" => pub store_memory_limit: MemoryLimit = MemoryLimit::Auto,
        /// Disk space for encoded columns of files, which later processes read instead of the files: off, a
        /// size, or auto (16 GiB, or a tenth of the free space if that is less). Columns are written to the
        /// folder `columns` of the cache directory, in the background after a load, and are not used if a
        /// file has changed. The least recently used ones are removed first. The command line sets auto.
        "cache.disk" => pub disk_cache: DiskLimit = DiskLimit::Off,
        /// Which columns are evicted from device memory, chunk by chunk, when it is short: frequency (those
        /// with the fewest recent uses; a scan does not evict columns that are used more), lru, mru, lfu,
        /// random, or cost (MultiQx's cost-driven replacement).
        "memory.replacement" => pub replacement: ReplacementPolicy = ReplacementPolicy::Frequency,
        /// Which queries may use the device at once: working, those that fit together by their working
        /// memory; weight and peak, those that fit together including their columns, by their average and
        /// their peak demand; fix-N, at most N; auto, as weight, but at least two, and small queries beside
        /// them. Other queries wait, ordered by priority, then by arrival.
        "memory.admission" => pub admission: AdmissionPolicy = AdmissionPolicy(Admission::Auto),
        /// Parts of the memory manager that are disabled, for experiments: a list of eager (all columns are
        /// copied before the first launch), copied (through a staging buffer), no-reference (launches pin all
        /// columns in device memory), no-access (evictions copy back), whole-region (columns are loaded and
        /// evicted as a whole) and naive (no manager: a query that finds the device full fails), or none.
        "debug.memory_ablations" => pub memory_ablations: MemoryAblations = MemoryAblations::default(),
        /// Rows per chunk of an encoded table. A chunk is the unit of zone maps and of transfers. Parquet row
        /// groups are kept whole.
        "tuning.chunk_rows" => pub chunk_rows: Count<1, { 1 << 30 }> = Count(1 << 20),
        /// Which codes of encoded columns are packed in host memory, in blocks with as few bits as their
        /// values need, and unpacked on the device after the transfer over the link: auto, codes of chunks
        /// with at least 64 KiB of codes, if packing saves an eighth; on, all codes that can be packed; off,
        /// none. Columns that are already in memory are not changed.
        "tuning.transfer_compression" => pub transfer_compression: PackCodes = PackCodes::Auto,
        /// Where pages of Parquet files are decoded and their columns are encoded, if a device is open: auto,
        /// for each column of a chunk, on the side that takes less time by earlier measurements, and never on
        /// the emulated device; device, on the device; host, on the host. The host also decodes columns with
        /// a type, encoding or codec that the device does not support, and all others if device memory is
        /// short.
        "tuning.parquet_decoding" => pub parquet_decoding: ParquetDecoding = ParquetDecoding::Auto,
    }
}

/// The settings of an engine, shared by its sessions: a change holds for all of them at once.
#[derive(Clone, Default)]
pub struct SharedSettings(Arc<RwLock<EngineSettings>>);

impl SharedSettings {
    /// The current settings.
    pub fn get(&self) -> EngineSettings {
        self.0.read().clone()
    }

    /// Every setting with its value.
    pub fn entries(&self) -> Vec<ConfigEntry> {
        self.0.read().values()
    }

    /// Changes the setting with this name, given with or without the prefix, for all sessions.
    ///
    /// # Errors
    /// An unknown name, or a value that the setting does not accept.
    pub(crate) fn set(&self, name: &str, value: &str) -> Result<()> {
        let key = key_of(name);
        match self.0.write().change(key, value) {
            Some(outcome) => outcome,
            None if super::GalateaConfig::NAMES.contains(&key) => config_err!(
                "{PREFIX}.{key} is a setting of a session, not of the engine\n\
                 hint: SET {PREFIX}.{key} = '{value}' changes it for this session"
            ),
            None if key.starts_with("datafusion.") => config_err!(
                "{key} is a setting of a session, not of the engine\n\
                 hint: SET {key} = '{value}' changes it for this session"
            ),
            None => config_err!("unknown setting: {PREFIX}.{key}\nhint: {}", unknown_hint(key)),
        }
    }
}

impl EngineSettings {
    /// Whether the name, given with or without the prefix, is a setting of an engine.
    pub fn contains(name: &str) -> bool {
        Self::NAMES.contains(&key_of(name))
    }
}

fn key_of(name: &str) -> &str {
    let after = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix('.'));
    after.unwrap_or(name)
}

impl fmt::Debug for SharedSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl PartialEq for SharedSettings {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.get() == other.get()
    }
}
