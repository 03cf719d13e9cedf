//! A session from nothing: configuration, settings and file queries in one builder.

use std::sync::Arc;

use datafusion::config::{ConfigNonZeroUsize, SqlParserOptions};
use datafusion::error::Result;
use datafusion::execution::cache::cache_manager::CacheManagerConfig;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use galatea_device::EmulatorOptions;
use galatea_engine::config::GalateaConfig;

use crate::files::FileQueries;
use crate::install_with;

/// Levels of parentheses, CASE or subqueries that a statement has at most, unless
/// `datafusion.sql_parser.recursion_limit` says otherwise. DataFusion's default refuses what other systems
/// take.
const RECURSION_LIMIT: usize = 400;

/// Starts a [`SessionBuilder`] with DataFusion's and Galatea's defaults.
pub fn session() -> SessionBuilder {
    SessionBuilder {
        config: SessionConfig::new(),
        runtime: None,
        settings: Vec::new(),
        file_queries: false,
        emulator: None,
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
    emulator: Option<EmulatorOptions>,
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

    /// Sets a setting by its full name, `galatea.device` or `datafusion.execution.batch_size`. Later ones
    /// win. Names and values are checked by [`build`](Self::build).
    pub fn with_setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// As [`with_setting`](Self::with_setting), for a setting given by the user who starts the process, as on
    /// a command line: `galatea.device` = `emulated` allows the emulated device as well.
    pub fn with_trusted_setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        if name == "galatea.device" && value.trim().eq_ignore_ascii_case("emulated") {
            self.emulator.get_or_insert_default();
        }
        self.with_setting(name, value)
    }

    /// Lets queries name files in place of tables (`FROM 'data/*.parquet'`). Off by default: a client that
    /// may send SQL to such a session may read every file that the process can.
    pub fn with_file_queries(mut self, enabled: bool) -> Self {
        self.file_queries = enabled;
        self
    }

    /// Lets the session run kernels on the emulated device (`galatea.device = 'emulated'`): for tests. Off by
    /// default, since it compiles code with the machine's C++ compiler and loads it into this process. Needs
    /// the feature `emulator`, and Linux on x86-64.
    pub fn with_emulated_device(mut self, options: EmulatorOptions) -> Self {
        self.emulator = Some(options);
        self
    }

    /// Builds the session.
    ///
    /// # Errors
    /// An unknown setting, or a value that a setting does not accept.
    pub fn build(self) -> Result<SessionContext> {
        let mut config = self.config;
        if config.options().extensions.get::<GalateaConfig>().is_none() {
            config.options_mut().extensions.insert(GalateaConfig::default());
        }
        let parser = &mut config.options_mut().sql_parser;
        if parser.recursion_limit == SqlParserOptions::default().recursion_limit {
            parser.recursion_limit = ConfigNonZeroUsize::try_new(RECURSION_LIMIT)?;
        }
        for (name, value) in &self.settings {
            config.options_mut().set(name, value)?;
        }
        let runtime = match self.runtime {
            Some(runtime) => runtime,
            // Listings are not cached: a query sees the files that exist when it is planned.
            None => RuntimeEnvBuilder::new()
                .with_cache_manager(CacheManagerConfig::default().with_list_files_cache_limit(0))
                .build_arc()?,
        };
        let ctx = SessionContext::new_with_config_rt(config, runtime);
        install_with(&ctx, self.emulator)?;
        if self.file_queries {
            FileQueries::enable(&ctx);
        }
        Ok(ctx)
    }
}
