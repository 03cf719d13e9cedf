//! The tables and the engine of a database, and sessions over them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use adbc_core::error::{Error, Result};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_cli::catalog::DynamicObjectStoreCatalog;
use datafusion_cli::functions::ParquetMetadataFunc;
use galatea::{DatabaseError, EngineSettings, ErrorKind, SessionBuilder};

use crate::failure::{of_engine, of_kind};
use crate::running::Running;
use crate::threads::Threads;

/// Settings by their full names.
pub(crate) type Settings = Vec<(String, String)>;

/// The setting of the engine for the column cache on disk, on as in the command and in the Python package.
const DISK_CACHE: (&str, &str) = ("galatea.cache.disk", "auto");

/// The time that a folder has to be closed by another thread of this process, and the interval between looks.
const CLOSING: Duration = Duration::from_secs(2);
const CLOSING_POLL: Duration = Duration::from_millis(10);

/// The tables and the engine of a database.
pub(crate) struct Shared {
    /// The session that opened the database. It plans the views of a folder, and no statement of a
    /// connection.
    first: SessionContext,
    pub(crate) threads: Arc<Threads>,
    pub(crate) engine_settings: Settings,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// The settings of the engine, which all sessions of a database share. The emulated device is one of them.
pub(crate) fn engine_settings(settings: &Settings) -> Settings {
    let own = settings.iter().filter(|(name, value)| {
        EngineSettings::contains(name)
            || name == "galatea.device" && value.trim().eq_ignore_ascii_case("emulated")
    });
    own.cloned().collect()
}

fn is_runtime_setting(name: &str) -> bool {
    name.starts_with("datafusion.runtime.")
}

/// The configuration of the command and of the Python package.
fn with_defaults(builder: SessionBuilder) -> PlanResult<SessionBuilder> {
    let mut options = ConfigOptions::from_env()?;
    // Errors show their position in the statement.
    options.sql_parser.collect_spans = true;
    let config = SessionConfig::from(options).with_information_schema(true);
    Ok(builder.with_config(config).with_file_queries(true))
}

/// Adds files in object stores, and functions over files.
fn with_stores(ctx: &SessionContext) {
    let catalogs = Arc::clone(ctx.state().catalog_list());
    let stores = DynamicObjectStoreCatalog::new(catalogs, ctx.state_weak_ref());
    ctx.register_catalog_list(Arc::new(stores));
    ctx.register_udtf("parquet_metadata", Arc::new(ParquetMetadataFunc {}));
}

/// Sets settings of the runtime, which a session does not have before it is built.
async fn set_runtime(ctx: &SessionContext, settings: &Settings) -> PlanResult<()> {
    for (name, value) in settings.iter().filter(|(name, _)| is_runtime_setting(name)) {
        let value = value.replace('\'', "''");
        ctx.sql(&format!("SET {name} = '{value}'")).await?;
    }
    Ok(())
}

/// Whether this process has locked the folder. Its last database may be closing on another thread, or a query
/// that was stopped has not ended.
fn is_closing(error: &DataFusionError) -> bool {
    let DataFusionError::External(inner) = error.find_root() else {
        return false;
    };
    let own = format!("process {} ", std::process::id());
    matches!(inner.downcast_ref(), Some(DatabaseError::Locked { process, .. }) if process.starts_with(&own))
}

/// The error for a folder that this process does not close in time.
fn still_used(folder: Option<&Path>) -> Error {
    of_kind(
        ErrorKind::InUse,
        format!(
            "a query of this process that was stopped has not ended, and uses the database '{}'\nhint: open it later",
            folder.unwrap_or(Path::new("")).display()
        ),
    )
}

/// The session that opens a database. If this process closes the folder, it waits for that.
async fn first_session(folder: Option<&Path>, settings: &Settings) -> PlanResult<SessionContext> {
    let begun = Instant::now();
    let ctx = loop {
        let mut builder = galatea::session().with_setting(DISK_CACHE.0, DISK_CACHE.1);
        for (name, value) in settings.iter().filter(|(name, _)| !is_runtime_setting(name)) {
            // The program starts the engine, so that it may allow the emulated device.
            builder = builder.with_trusted_setting(name, value);
        }
        if let Some(folder) = folder {
            builder = builder.with_database(folder);
        }
        match with_defaults(builder)?.build() {
            Err(error) if is_closing(&error) => {
                if begun.elapsed() > CLOSING {
                    return Err(DataFusionError::External(Box::new(still_used(folder))));
                }
                tokio::time::sleep(CLOSING_POLL).await;
            }
            built => break built?,
        }
    };
    set_runtime(&ctx, settings).await?;
    with_stores(&ctx);
    Ok(ctx)
}

impl Shared {
    /// Opens the database of a folder, or one in memory.
    ///
    /// # Errors
    /// Those of the engine: an unknown setting, a folder that is no database.
    pub(crate) fn open(folder: Option<&Path>, settings: &Settings) -> Result<Arc<Self>> {
        let threads = Threads::get()?;
        let (own, folder) = (settings.clone(), folder.map(Path::to_owned));
        let work = async move {
            let opened = first_session(folder.as_deref(), &own).await;
            opened.map_err(|error| of_engine(&error))
        };
        let first = Running::default().begin(&threads, None).run(work)?;
        Ok(Arc::new(Self {
            first,
            threads,
            engine_settings: engine_settings(settings),
        }))
    }

    /// A session over the tables of the database.
    pub(crate) fn session(&self, settings: &Settings) -> Result<SessionContext> {
        let mut builder = galatea::session().with_tables_of(&self.first);
        for (name, value) in settings {
            if !is_runtime_setting(name) && !EngineSettings::contains(name) {
                builder = builder.with_setting(name, value);
            }
        }
        let built = with_defaults(builder).and_then(SessionBuilder::build);
        let ctx = built.map_err(|error| of_engine(&error))?;
        with_stores(&ctx);
        Ok(ctx)
    }
}
