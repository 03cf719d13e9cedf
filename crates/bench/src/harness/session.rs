//! Sessions with access to their device: its memory, its limit, and further sessions that share it.

use std::sync::Arc;

use datafusion::config::ConfigEntry;
use datafusion::prelude::SessionContext;
use galatea::{EngineSettings, GalateaConfig};
use galatea_engine::device::DeviceRuntime;
use galatea_engine::session::Session;
use galatea_store::Store;

use crate::workload::tables::Tables;
use crate::{BenchError, Result};

/// The setting of the limit on device memory.
pub(crate) const LIMIT: &str = "galatea.gpu_memory_limit";

/// A session over a workload's tables; its session is shared with its clients.
pub(crate) struct DeviceSession {
    /// The session.
    pub(crate) ctx: SessionContext,
    session: Arc<Session>,
    /// The engine's settings as they were given.
    given: Vec<ConfigEntry>,
}

impl DeviceSession {
    /// A session with its tables registered.
    ///
    /// # Errors
    /// Those of [`Self::new`], tables that cannot be read.
    pub(crate) async fn open(tables: &Tables, settings: &[(String, String)]) -> Result<Self> {
        let session = Self::new(settings)?;
        tables.register(&session.ctx).await?;
        Ok(session)
    }

    /// A session without tables. It runs on the GPU unless `settings` say otherwise: these experiments
    /// measure the device even where the CPU would be faster.
    ///
    /// # Errors
    /// A setting that is refused.
    pub(crate) fn new(settings: &[(String, String)]) -> Result<Self> {
        let builder = galatea::session().with_file_queries(true);
        let mut builder = builder.with_setting("galatea.device", "gpu");
        for (name, value) in settings {
            builder = builder.with_trusted_setting(name, value);
        }
        let ctx = builder.build()?;
        let session = ctx.state().config().get_extension::<Session>();
        let session = session.ok_or_else(|| BenchError::NoDevice {
            reason: "the context is no Galatea session".to_string(),
        })?;
        let given = session.engine().settings().entries();
        Ok(Self { ctx, session, given })
    }

    /// The device with the session's settings in force, its limit above all.
    ///
    /// # Errors
    /// There is no such device.
    pub(crate) fn device(&self) -> Result<Arc<DeviceRuntime>> {
        let config = GalateaConfig::of(self.ctx.state().config_options());
        let device = self.session.engine().device(&config);
        device.map_err(|reason| BenchError::NoDevice {
            reason: reason.to_string(),
        })
    }

    /// Where its tables are stored.
    pub(crate) fn store(&self) -> Arc<Store> {
        Arc::clone(self.session.engine().store())
    }

    /// Limits device memory from now on, and evicts all pages: those from before the limit could exceed it.
    ///
    /// # Errors
    /// A limit that is refused; the device's.
    pub(crate) fn limit(&self, limit: &str) -> Result<Arc<DeviceRuntime>> {
        self.session.engine().set(LIMIT, limit)?;
        let device = self.device()?;
        device.memory().clear()?;
        Ok(device)
    }

    /// Changes a setting: of the engine for all clients, of the session for itself and later clients.
    ///
    /// # Errors
    /// A value that is refused.
    pub(crate) async fn set(&self, name: &str, value: &str) -> Result<()> {
        if EngineSettings::contains(name) {
            self.session.engine().set(name, value)?;
            return Ok(());
        }
        let value = value.replace('\'', "''");
        self.ctx.sql(&format!("SET galatea.{name} = '{value}'")).await?;
        Ok(())
    }

    /// Sets the engine's settings as they were given, but for those among `changes`.
    ///
    /// # Errors
    /// A value that is refused.
    pub(crate) fn set_engine<'s>(&self, changes: impl Iterator<Item = (&'s str, &'s str)>) -> Result<()> {
        let engine = self.session.engine();
        for setting in &self.given {
            engine.set(&setting.key, setting.value.as_deref().unwrap_or("default"))?;
        }
        for (name, value) in changes.filter(|(name, _)| EngineSettings::contains(name)) {
            engine.set(name, value)?;
        }
        Ok(())
    }

    /// One more session with settings of its own, as a server has for each of its clients. Tables, store and
    /// device are shared.
    pub(crate) fn client(&self) -> SessionContext {
        SessionContext::new_with_state(self.ctx.state())
    }
}

/// The bytes of each region that are in device memory, by the region's name and size. Queries over the same
/// tables share regions.
pub(crate) fn resident(device: &DeviceRuntime) -> Vec<((String, u64), u64)> {
    let regions = device.memory().regions().into_iter();
    let here = regions.filter(|region| region.device_bytes > 0);
    here.map(|region| ((region.name, region.bytes), region.device_bytes))
        .collect()
}
