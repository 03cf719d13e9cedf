//! The session behind -c, -f and the prompt: a Galatea session with file queries, object stores and
//! DataFusion's command-line functions.

use std::path::Path;
use std::sync::Arc;

use datafusion::common::exec_datafusion_err;
use datafusion::config::ConfigOptions;
use datafusion::execution::cache::cache_manager::CacheManagerConfig;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::ExplainFormat;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_cli::catalog::DynamicObjectStoreCatalog;
use datafusion_cli::functions::ParquetMetadataFunc;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;
use galatea::SessionBuilder;
use url::Url;

use crate::arguments::SessionArguments;
use crate::errors::CliError;
use crate::output::{OutputStore, Target};

/// A session, and the object stores of its queries.
pub(crate) struct Session {
    pub(crate) ctx: SessionContext,
    pub(crate) stores: Arc<InstrumentedObjectStoreRegistry>,
}

/// A session with the settings of `--set`, except those of DataFusion's runtime, which only statements set.
/// `--set galatea.device=emulated` permits the emulated device; SQL alone does not.
pub(crate) fn builder(arguments: &SessionArguments) -> SessionBuilder {
    with_settings(galatea::session(), arguments)
}

fn with_settings(mut builder: SessionBuilder, arguments: &SessionArguments) -> SessionBuilder {
    for (name, value) in arguments.settings.iter().filter(|(name, _)| !is_runtime(name)) {
        builder = builder.with_trusted_setting(name, value);
    }
    builder
}

fn is_runtime(name: &str) -> bool {
    name.starts_with("datafusion.runtime.")
}

/// Registers `target` as the standard output of COPY.
///
/// # Errors
/// Never for the address of this store.
pub(crate) fn register_output(ctx: &SessionContext, target: Target) -> datafusion::error::Result<()> {
    let url = Url::parse(galatea::STANDARD_OUTPUT);
    let url = url.map_err(|cause| exec_datafusion_err!("cannot register standard output: {cause}"))?;
    ctx.register_object_store(&url, Arc::new(OutputStore(target)));
    Ok(())
}

/// Builds the session and applies `--set`.
///
/// `input` is the reason that queries cannot read standard input, if they cannot. `database` is the folder of
/// a database, with tables that last.
pub(crate) async fn build(
    arguments: &SessionArguments,
    input: Option<&'static str>,
    database: Option<&Path>,
) -> Result<Session, CliError> {
    // `DATAFUSION_*` variables set DataFusion's settings, as in its own command.
    let mut options = ConfigOptions::from_env()?;
    let defaults = ConfigOptions::default();
    if options.explain.format == defaults.explain.format {
        options.explain.format = ExplainFormat::Tree;
    }
    if options.format.null == defaults.format.null {
        options.format.null = "NULL".to_string();
    }
    // Errors show their position in the statement.
    options.sql_parser.collect_spans = true;
    let config = SessionConfig::from(options).with_information_schema(true);
    let stores = Arc::new(InstrumentedObjectStoreRegistry::new());
    let runtime = RuntimeEnvBuilder::new()
        .with_object_store_registry(stores.clone())
        // A file that appears while the prompt is open is visible to the next query.
        .with_cache_manager(CacheManagerConfig::default().with_list_files_cache_limit(0))
        .build_arc()?;
    // A setting of the arguments takes precedence.
    let mut builder = with_settings(
        galatea::session().with_setting("galatea.cache.disk", "auto"),
        arguments,
    );
    if let Some(database) = database {
        builder = builder.with_database(database);
    }
    let ctx = builder
        .with_config(config)
        .with_runtime(runtime)
        .with_file_queries(true)
        .with_standard_input(input)
        .build()?;
    register_output(&ctx, Target::default())?;
    for (name, value) in arguments.settings.iter().filter(|(name, _)| is_runtime(name)) {
        ctx.sql(&format!("SET {name} = '{}'", value.replace('\'', "''")))
            .await?;
    }
    let catalogs = Arc::clone(ctx.state().catalog_list());
    ctx.register_catalog_list(Arc::new(DynamicObjectStoreCatalog::new(
        catalogs,
        ctx.state_weak_ref(),
    )));
    ctx.register_udtf("parquet_metadata", Arc::new(ParquetMetadataFunc {}));
    Ok(Session { ctx, stores })
}
