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

/// The setting that limits device memory.
pub(crate) const LIMIT: &str = "galatea.memory.gpu_limit";

/// A session over a workload's tables. Its clients share its engine.
pub(crate) struct DeviceSession {
    /// The session.
    pub(crate) ctx: SessionContext,
    session: Arc<Session>,
    /// The engine's settings as given.
    given: Vec<ConfigEntry>,
}

impl DeviceSession {
    /// Opens a session with its tables registered.
    ///
    /// # Errors
    /// Those of [`Self::new`], and of tables that cannot be read.
    pub(crate) async fn open(tables: &Tables, settings: &[(String, String)]) -> Result<Self> {
        let session = Self::new(settings)?;
        tables.register(&session.ctx).await?;
        Ok(session)
    }

    /// Creates a session without tables. Unless `settings` name a device, it runs on the GPU, because these
    /// experiments measure the device even if the CPU would be faster.
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

    /// Creates another session over other tables, with the same engine.
    ///
    /// # Errors
    /// A setting that is refused, and tables that cannot be read.
    pub(crate) async fn with_tables(&self, tables: &Tables, settings: &[(String, String)]) -> Result<Self> {
        let builder = galatea::session().with_file_queries(true);
        let mut builder = builder.with_engine(self.session.engine());
        builder = builder.with_setting("galatea.device", "gpu");
        // The engine has its settings already.
        let own = settings
            .iter()
            .filter(|(name, _)| !EngineSettings::contains(name));
        for (name, value) in own {
            builder = builder.with_setting(name, value);
        }
        let ctx = builder.build()?;
        tables.register(&ctx).await?;
        Ok(Self {
            ctx,
            session: Arc::clone(&self.session),
            given: self.given.clone(),
        })
    }

    /// Opens the device with the session's settings, in particular its limit.
    ///
    /// # Errors
    /// The device does not exist.
    pub(crate) fn device(&self) -> Result<Arc<DeviceRuntime>> {
        let config = GalateaConfig::of(self.ctx.state().config_options());
        let device = self.session.engine().device(&config);
        device.map_err(|reason| BenchError::NoDevice {
            reason: reason.to_string(),
        })
    }

    /// The store of its tables.
    pub(crate) fn store(&self) -> Arc<Store> {
        Arc::clone(self.session.engine().store())
    }

    /// Limits device memory from now on, and evicts all pages, because earlier pages could exceed the limit.
    ///
    /// # Errors
    /// A limit that is refused; the device's.
    pub(crate) fn limit(&self, limit: &str) -> Result<Arc<DeviceRuntime>> {
        self.session.engine().set(LIMIT, limit)?;
        let device = self.device()?;
        device.memory().clear()?;
        Ok(device)
    }

    /// Changes a setting: of the engine for all clients, or of the session for itself and later clients.
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

    /// Sets the engine's settings to their given values, except those in `changes`.
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

    /// Creates another session with settings of its own, as a server does for each of its clients. Tables,
    /// store and device are shared.
    pub(crate) fn client(&self) -> SessionContext {
        SessionContext::new_with_state(self.ctx.state())
    }
}

/// The resident bytes of each region in device memory, by the region's name and size. Queries over the same
/// tables share regions.
pub(crate) fn resident(device: &DeviceRuntime) -> Vec<((String, u64), u64)> {
    let regions = device.memory().regions().into_iter();
    let here = regions.filter(|region| region.device_bytes > 0);
    here.map(|region| ((region.name, region.bytes), region.device_bytes))
        .collect()
}
