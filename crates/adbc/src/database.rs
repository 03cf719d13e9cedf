//! A database: the tables and the engine that its connections share.

use std::path::Path;
use std::sync::Arc;

use adbc_core::constants::ADBC_OPTION_URI;
use adbc_core::error::Result;
use adbc_core::options::{OptionConnection, OptionDatabase, OptionValue};
use adbc_core::{CancelHandle, Database, Optionable};
use datafusion::config::ConfigOptions;
use datafusion::error::Result as PlanResult;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_cli::catalog::DynamicObjectStoreCatalog;
use datafusion_cli::functions::ParquetMetadataFunc;
use galatea::{EngineSettings, SessionBuilder};

use crate::connection::GalateaConnection;
use crate::failure::{of_engine, wrong_state};
use crate::option::{self, Preferences};
use crate::running::Running;
use crate::threads::Threads;

/// Settings by their full names.
pub(crate) type Settings = Vec<(String, String)>;

/// The setting of the engine for the column cache on disk, on as in the command and in the Python package.
const DISK_CACHE: (&str, &str) = ("galatea.cache.disk", "auto");

/// The tables and the engine of a database.
pub(crate) struct Shared {
    /// The session that opened the database. It plans the views of a folder, and no statement of a connection.
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

impl Shared {
    /// Opens the database of a folder, or one in memory.
    ///
    /// # Errors
    /// Those of the engine: an unknown setting, a folder that is no database.
    pub(crate) fn open(folder: Option<&Path>, settings: &Settings) -> Result<Arc<Self>> {
        let threads = Threads::get()?;
        let mut builder = galatea::session().with_setting(DISK_CACHE.0, DISK_CACHE.1);
        for (name, value) in settings.iter().filter(|(name, _)| !is_runtime_setting(name)) {
            // The program starts the engine, so that it may allow the emulated device.
            builder = builder.with_trusted_setting(name, value);
        }
        if let Some(folder) = folder {
            builder = builder.with_database(folder);
        }
        let own = settings.clone();
        let work = async move {
            let opened = async {
                let ctx = with_defaults(builder)?.build()?;
                set_runtime(&ctx, &own).await?;
                with_stores(&ctx);
                Ok(ctx)
            };
            opened.await.map_err(|error| of_engine(&error))
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

/// A database: a folder, or tables in memory. Its connections share tables, views, macros and the engine.
#[derive(Debug)]
pub struct GalateaDatabase {
    shared: Arc<Shared>,
    /// The settings of new connections.
    settings: Settings,
    preferences: Preferences,
    uri: String,
}

impl GalateaDatabase {
    pub(crate) fn new(
        shared: Arc<Shared>,
        settings: Settings,
        preferences: Preferences,
        uri: String,
    ) -> Self {
        Self {
            shared,
            settings,
            preferences,
            uri,
        }
    }
}

impl Database for GalateaDatabase {
    type ConnectionType = GalateaConnection;

    fn new_connection(&self) -> Result<GalateaConnection> {
        self.new_connection_with_opts([])
    }

    fn new_connection_with_opts(
        &self,
        options: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> Result<GalateaConnection> {
        let ctx = self.shared.session(&self.settings)?;
        let mut connection = GalateaConnection::new(Arc::clone(&self.shared), ctx, self.preferences);
        let mut options: Vec<_> = options.into_iter().collect();
        // The catalog precedes the schema in it.
        options.sort_by_key(|(key, _)| (*key != OptionConnection::CurrentCatalog, key.as_ref().to_owned()));
        for (key, value) in options {
            connection.set_option(key, value)?;
        }
        Ok(connection)
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        // A database runs nothing between its calls.
        Box::new(Running::default())
    }
}

impl Optionable for GalateaDatabase {
    type Option = OptionDatabase;

    fn set_option(&mut self, key: OptionDatabase, value: OptionValue) -> Result<()> {
        let key = key.as_ref();
        if self.preferences.set(key, &value)? {
            return Ok(());
        }
        Err(wrong_state(format!(
            "the option {key} cannot change after the database was opened\nhint: set it before, or set \
             settings of a session on its connection"
        )))
    }

    fn get_option_string(&self, key: OptionDatabase) -> Result<String> {
        let key = key.as_ref();
        if key == ADBC_OPTION_URI {
            return Ok(self.uri.clone());
        }
        let known = self.preferences.get(key);
        let known = known.or_else(|| {
            let setting = self.settings.iter().find(|(name, _)| name == key);
            setting.map(|(_, value)| value.clone())
        });
        known.ok_or_else(|| option::no_value("database", key))
    }

    fn get_option_bytes(&self, key: OptionDatabase) -> Result<Vec<u8>> {
        self.get_option_string(key).map(String::into_bytes)
    }

    fn get_option_int(&self, key: OptionDatabase) -> Result<i64> {
        let name = key.as_ref().to_owned();
        option::number(&name, &self.get_option_string(key)?)
    }

    fn get_option_double(&self, key: OptionDatabase) -> Result<f64> {
        let name = key.as_ref().to_owned();
        option::number(&name, &self.get_option_string(key)?)
    }
}
