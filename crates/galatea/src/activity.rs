//! The activity of an engine at one moment, for monitors such as the server's page.

use galatea_engine::device::DeviceActivity;
use galatea_engine::engine::Engine;

/// The activity of an engine at one moment.
#[derive(Debug, Clone)]
pub struct EngineActivity {
    /// The open devices.
    pub devices: Vec<DeviceActivity>,
    /// The store; `None` before its first use.
    pub store: Option<StoreActivity>,
    /// Number of sessions.
    pub sessions: usize,
}

/// Encoded columns in host memory and on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreActivity {
    /// Bytes of host memory in use.
    pub used: u64,
    /// The limit of these bytes (`galatea.memory.store_limit`).
    pub limit: u64,
    /// Number of cached columns of files.
    pub columns: usize,
    /// Maximum bytes of the column cache on disk (`galatea.cache.disk`); 0 if it is off.
    pub disk_limit: u64,
    /// Bytes written to the column cache on disk by this engine.
    pub disk_written: u64,
    /// Bytes read from the column cache on disk by this engine.
    pub disk_read: u64,
}

/// The activity of an engine now. It opens no device and creates no store.
///
/// ```
/// let engine = galatea::Engine::builder().build()?;
/// let activity = galatea::engine_activity(&engine);
/// assert!(activity.devices.is_empty() && activity.store.is_none());
/// # Ok::<(), datafusion::error::DataFusionError>(())
/// ```
pub fn engine_activity(engine: &Engine) -> EngineActivity {
    let devices = engine.devices();
    let store = engine.opened_store().map(|store| {
        let disk = store.disk_cache();
        let counts = disk.as_ref().map(|disk| disk.counts()).unwrap_or_default();
        StoreActivity {
            used: store.memory_used(),
            limit: store.memory_limit(),
            columns: store.cached_columns(),
            disk_limit: disk.as_ref().map_or(0, |disk| disk.limit()),
            disk_written: counts.bytes_written,
            disk_read: counts.bytes_read,
        }
    });
    EngineActivity {
        devices: devices.iter().map(|device| device.activity()).collect(),
        store,
        sessions: engine.sessions(),
    }
}
