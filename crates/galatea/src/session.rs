//! Creates a session: configuration, settings and file queries in one builder.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::catalog::CatalogProviderList;
use datafusion::common::config_err;
use datafusion::config::{ConfigNonZeroUsize, SqlParserOptions};
use datafusion::error::Result;
use datafusion::execution::cache::cache_manager::CacheManagerConfig;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use galatea_device::EmulatorOptions;
use galatea_engine::config::{EngineSettings, GalateaConfig};
use galatea_engine::engine::Engine;
use galatea_engine::plans::PlanCache;
use galatea_engine::repartition_memory::with_growing_repartitions;
use galatea_engine::session::Session;

use crate::database::Database;
use crate::files::FileQueries;
use crate::install_on;
use crate::sql::{self, DefinitionLimit};
use crate::standard_input::StandardInput;

/// The maximum nesting of parentheses, CASE or subqueries in a statement, unless
/// `datafusion.sql_parser.recursion_limit` is set. DataFusion's default refuses statements that other systems
/// accept.
const RECURSION_LIMIT: usize = 400;

/// Starts a [`SessionBuilder`] with DataFusion's and Galatea's defaults.
pub fn session() -> SessionBuilder {
    SessionBuilder {
        config: SessionConfig::new(),
        runtime: None,
        settings: Vec::new(),
        file_queries: false,
        standard_input: None,
        database: None,
        definitions: None,
        engine: None,
        emulator: None,
        tables_of: None,
    }
}

/// Builds a Galatea session.
#[derive(Debug)]
#[must_use]
pub struct SessionBuilder {
    config: SessionConfig,
    runtime: Option<Arc<RuntimeEnv>>,
    settings: Vec<(String, String)>,
    file_queries: bool,
    standard_input: Option<StandardInput>,
    database: Option<PathBuf>,
    definitions: Option<DefinitionLimit>,
    engine: Option<Arc<Engine>>,
    emulator: Option<EmulatorOptions>,
    tables_of: Option<Shared>,
}

impl SessionBuilder {
    /// Replaces DataFusion's configuration.
    pub fn with_config(mut self, config: SessionConfig) -> Self {
        self.config = config;
        self
    }

    /// Replaces DataFusion's runtime: memory pool, disk manager, object stores.
    pub fn with_runtime(mut self, runtime: Arc<RuntimeEnv>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Creates a session of the given engine. It shares devices, the store and settings with the engine's
    /// other sessions. Without this call, the session belongs to the process's engine,
    /// [`Engine::of_process`].
    pub fn with_engine(mut self, engine: &Arc<Engine>) -> Self {
        self.engine = Some(Arc::clone(engine));
        self
    }

    /// Sets a setting by its full name, `galatea.device` or `datafusion.execution.batch_size`. The last value
    /// of a setting wins. [`build`](Self::build) checks names and values. With a setting of
    /// [`EngineSettings`], such as `galatea.memory.gpu_limit`, the session gets an engine of its own.
    pub fn with_setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Like [`with_setting`](Self::with_setting), for a setting from the user who starts the process, such as
    /// on a command line: `galatea.device` = `emulated` permits the emulated device, too.
    pub fn with_trusted_setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        if name == "galatea.device" && value.trim().eq_ignore_ascii_case("emulated") {
            self.emulator.get_or_insert_default();
        }
        self.with_setting(name, value)
    }

    /// Permits queries to name files in place of tables (`FROM 'data/*.parquet'`). Off by default: a client
    /// that may send SQL to such a session may read every file that the process can read.
    pub fn with_file_queries(mut self, enabled: bool) -> Self {
        self.file_queries = enabled;
        self
    }

    /// Permits queries that may name files to read standard input as `'-'` and `'/dev/stdin'`. With a reason,
    /// they are refused with it: a program that reads its statements there has no data there.
    pub fn with_standard_input(mut self, refused: Option<&'static str>) -> Self {
        self.standard_input = Some(StandardInput::new(refused));
        self
    }

    /// Opens a database, or creates it: a folder with tables, views, macros and settings that last. Its
    /// settings give way to those of this builder. See [`open`](crate::open).
    pub fn with_database(mut self, folder: impl Into<PathBuf>) -> Self {
        self.database = Some(folder.into());
        self
    }

    /// Limits the macros of the session to `most`, and its variables to `most`. `setting` is the name of the
    /// limit in the error.
    pub fn with_definition_limit(mut self, most: usize, setting: &'static str) -> Self {
        self.definitions = Some(DefinitionLimit { most, setting });
        self
    }

    /// Creates a further session over the tables, views, macros, database, engine and runtime of `session`:
    /// another connection of the same program. Settings, variables, reports, prepared statements, the default
    /// catalog and the default schema are its own. `session` has to exist as long as the new one, because it
    /// plans the views of a database.
    pub fn with_tables_of(mut self, session: &SessionContext) -> Self {
        self.tables_of = Some(Shared::of(session));
        self
    }

    /// Permits the session to run kernels on the emulated device (`galatea.device = 'emulated'`), with an
    /// engine of its own: for tests. Off by default, because the emulated device compiles code with the
    /// machine's C++ compiler and loads it into this process. Needs the feature `emulator`, and Linux on
    /// x86-64.
    pub fn with_emulated_device(mut self, options: EmulatorOptions) -> Self {
        self.emulator = Some(options);
        self
    }

    /// Builds the session.
    ///
    /// # Errors
    /// An unknown setting; a value that a setting does not accept; a setting of an engine together with
    /// [`with_engine`](Self::with_engine) or [`with_tables_of`](Self::with_tables_of).
    pub fn build(self) -> Result<SessionContext> {
        let (of_engine, settings): (Vec<_>, Vec<_>) =
            (self.settings.into_iter()).partition(|(name, _)| EngineSettings::contains(name));
        let mut config = self.config;
        if config.options().extensions.get::<GalateaConfig>().is_none() {
            config.options_mut().extensions.insert(GalateaConfig::default());
        }
        let parser = &mut config.options_mut().sql_parser;
        if parser.recursion_limit == SqlParserOptions::default().recursion_limit {
            parser.recursion_limit = ConfigNonZeroUsize::try_new(RECURSION_LIMIT)?;
        }
        let other = self.tables_of;
        let opened = match &self.database {
            Some(folder) => Some(Database::open(folder, &config.options().catalog.default_schema)?),
            None => None,
        };
        let database = match (&opened, &other) {
            (Some(opened), _) => Some(Arc::clone(opened)),
            (None, Some(other)) => other.database.clone(),
            (None, None) => None,
        };
        for (name, value) in database.iter().flat_map(|database| database.settings()) {
            // Another version of the program may not have the setting.
            if let Err(error) = config.options_mut().set(&name, &value) {
                tracing::warn!(name, %error, "a setting of the database is not used");
            }
        }
        for (name, value) in &settings {
            config.options_mut().set(name, value)?;
        }
        let shared_runtime = other.as_ref().map(|other| Arc::clone(&other.runtime));
        let runtime = match self.runtime.or(shared_runtime) {
            Some(runtime) => runtime,
            // Listings are not cached: a query sees the files that exist when it is planned.
            None => RuntimeEnvBuilder::new()
                .with_cache_manager(CacheManagerConfig::default().with_list_files_cache_limit(0))
                .build_arc()?,
        };
        let shared_engine = other.as_ref().and_then(|other| other.engine.clone());
        let engine = match (self.engine.or(shared_engine), of_engine.first(), self.emulator) {
            (Some(engine), None, None) => engine,
            (Some(_), first, _) => {
                let name = first.map_or("the emulated device", |(name, _)| name);
                return config_err!(
                    "{name} belongs to the engine, which this session shares\n\
                     hint: set it by Engine::builder(), or leave with_engine and with_tables_of out"
                );
            }
            (None, None, None) => Arc::clone(Engine::of_process()),
            (None, _, emulator) => {
                let mut builder = Engine::builder().with_temporary_files(Arc::clone(&runtime.disk_manager));
                for (name, value) in of_engine {
                    builder = builder.with_setting(name, value);
                }
                match emulator {
                    Some(options) => builder.with_emulated_device(options).build()?,
                    None => builder.build()?,
                }
            }
        };
        if let Some(input) = self.standard_input {
            config = config.with_extension(Arc::new(input));
        }
        if let Some(database) = &database {
            config = config.with_extension(Arc::clone(database));
        }
        if let Some(definitions) = self.definitions {
            config = config.with_extension(Arc::new(definitions));
        }
        let ctx = SessionContext::new_with_config_rt(config, with_growing_repartitions(runtime));
        install_on(&ctx, &engine)?;
        // The context is DataFusion's default one, with our rules.
        {
            let state = ctx.state_ref();
            let state = state.read();
            if let Some(plans) = state.config().get_extension::<PlanCache>() {
                plans.declare_usual_rules(&state);
            }
        }
        if let Some(database) = &opened {
            database.attach(&ctx, sql::plan);
            for text in database.macros() {
                if let Err(error) = sql::create_macro(&ctx, &text) {
                    tracing::warn!(text, %error, "a macro of the database cannot be created");
                }
            }
        }
        if let Some(other) = other {
            other.share(&ctx);
        }
        let catalogs = Arc::clone(ctx.state_ref().read().catalog_list());
        let state = ctx.state_ref();
        let catalogs = Arc::new(SharedCatalogs(catalogs));
        state.write().config_mut().set_extension(catalogs);
        if self.file_queries {
            FileQueries::enable(&ctx);
        }
        Ok(ctx)
    }
}

/// The catalogs of a session before the wrappers of its file queries, which belong to one session.
struct SharedCatalogs(Arc<dyn CatalogProviderList>);

/// The parts of a session that another one shares.
struct Shared {
    engine: Option<Arc<Engine>>,
    database: Option<Arc<Database>>,
    catalogs: Arc<dyn CatalogProviderList>,
    macros: Option<Arc<sql::Macros>>,
    runtime: Arc<RuntimeEnv>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("catalogs", &self.catalogs)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn of(ctx: &SessionContext) -> Self {
        let state = ctx.state_ref();
        let state = state.read();
        let config = state.config();
        let catalogs = config.get_extension::<SharedCatalogs>();
        Self {
            engine: config
                .get_extension::<Session>()
                .map(|session| Arc::clone(session.engine())),
            database: config.get_extension(),
            catalogs: match catalogs {
                Some(catalogs) => Arc::clone(&catalogs.0),
                None => Arc::clone(state.catalog_list()),
            },
            macros: config.get_extension(),
            runtime: Arc::clone(state.runtime_env()),
        }
    }

    /// Replaces the catalogs and the macros of a new session.
    fn share(self, ctx: &SessionContext) {
        ctx.register_catalog_list(self.catalogs);
        if let Some(macros) = self.macros {
            let state = ctx.state_ref();
            state.write().config_mut().set_extension(macros);
        }
    }
}

/// Opens a database, and returns a session with its tables, views, macros and settings. The folder is created
/// if it does not exist. The database is closed when the last clone of the session is dropped.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let folder = tempfile::tempdir().expect("a folder");
/// let path = folder.path().join("my.db");
/// let ctx = galatea::open(&path)?;
/// galatea::sql(&ctx, "CREATE TABLE t AS SELECT 41 AS a").await?.collect().await?;
/// drop(ctx);
///
/// let ctx = galatea::open(&path)?;
/// let rows = galatea::sql(&ctx, "SELECT a + 1 AS answer FROM t").await?.collect().await?;
/// assert_eq!(rows[0].num_rows(), 1);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`DatabaseError`](crate::DatabaseError); those of [`SessionBuilder::build`].
pub fn open(path: impl AsRef<Path>) -> Result<SessionContext> {
    session()
        .with_database(path.as_ref())
        .with_file_queries(true)
        .build()
}
