//! Settings of an engine: what its sessions share cannot be set by each of them.

use super::{
    AdmissionPolicy, Count, MemoryAblations, MemoryLimit, PREFIX, PackCodes, ReplacementPolicy, unknown_hint,
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
        /// Device memory the process may hold: a size, a share of the card as a percentage, or auto (all that
        /// is free when the device is opened but a reserve, a sixteenth of the card and at most 1 GiB).
        /// Reaching it fails exactly as a full card does.
        pub gpu_memory_limit: MemoryLimit = MemoryLimit::Auto,
        /// Host memory for encoded columns of tables and of files read before: a size, a share of the
        /// machine's memory as a percentage, or auto (half of it). Columns of files not used for longest
        /// leave first.
        pub store_memory_limit: MemoryLimit = MemoryLimit::Auto,
        /// Which columns give up device memory, chunk by chunk, when it is short: frequency (least used of
        /// late; a scan does not take from columns that are used more), lru, mru, lfu, random, or cost
        /// (MultiQx's cost-driven replacement).
        pub replacement: ReplacementPolicy = ReplacementPolicy::Frequency,
        /// Which queries may use the device at once: working, those whose working memory fits together;
        /// weight and peak, those whose columns fit too, by their average and their greatest demand; fix-N, N
        /// at most; auto, as weight, but two at least and small ones beside them. The others wait in order.
        pub admission: AdmissionPolicy = AdmissionPolicy(Admission::Auto),
        /// Parts of the memory manager that are left out, for experiments; a list of eager (all columns are
        /// copied before the first launch), copied (through a staging buffer), no-reference (launches pin all
        /// columns in device memory), no-access (evictions copy back), whole-region (columns come and go as a
        /// whole) and naive (no manager: a query that finds the device full fails), or none.
        pub memory_ablations: MemoryAblations = MemoryAblations::default(),
        /// Rows in a chunk of an encoded table, the unit of zone maps and of transfers. Parquet row groups
        /// are kept whole.
        pub chunk_rows: Count<1, { 1 << 30 }> = Count(1 << 20),
        /// Which codes of encoded columns are packed in host memory, in blocks of as few bits as their values
        /// need, and unpacked on the device behind their copy over the link: auto, those of chunks with 64
        /// KiB of them or more where that saves an eighth; on, all that can be; off, none. Columns that are
        /// in memory stay as they are.
        pub pack_codes: PackCodes = PackCodes::Auto,
    }
}

/// The settings of an engine as its sessions see them: a change holds for all of them at once.
#[derive(Clone, Default)]
pub struct SharedSettings(Arc<RwLock<EngineSettings>>);

impl SharedSettings {
    /// The settings now.
    pub fn get(&self) -> EngineSettings {
        self.0.read().clone()
    }

    /// Every setting with its value.
    pub fn entries(&self) -> Vec<ConfigEntry> {
        self.0.read().values()
    }

    /// Changes the setting of that name, with or without the prefix, for all sessions.
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
            None => config_err!("unknown setting: {PREFIX}.{key}\nhint: {}", unknown_hint(key)),
        }
    }
}

impl EngineSettings {
    /// Whether a setting of that name, with or without the prefix, is one of an engine.
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
