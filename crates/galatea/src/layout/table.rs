//! Tables that support conflict layouts of their columns: those of the store, and files.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::datasource::TableType;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use galatea_engine::config::GalateaConfig;
use galatea_engine::hive_table::listing;
use galatea_engine::session::Session;
use galatea_store::{Column, ColumnSource, ConflictLayout, FileTable, LoadHints, Store, StoredTable};

use super::error::ConflictLayoutError;

/// A table that supports conflict layouts.
pub(super) enum LaidOutTable {
    Stored(StoredTable),
    Files(Arc<FileTable>),
}

impl LaidOutTable {
    /// Finds the table.
    pub(super) async fn find(ctx: &SessionContext, name: &TableReference) -> Result<Self> {
        let provider = provider(ctx, name).await?;
        let (session, config) = session(ctx)?;
        if let Err(reason) = session.engine().usable(&config) {
            let reason = reason.to_string();
            return Err(ConflictLayoutError::NoDevice { reason }.into());
        }
        let what = match Self::of(ctx, &provider, session.engine().store()).await? {
            Some(table) => return Ok(table),
            None if provider.table_type() == TableType::View => "a view",
            None => "a table that the store does not hold",
        };
        let table = name.to_string();
        Err(ConflictLayoutError::NotStored { table, what }.into())
    }

    /// The table behind a provider, if it is one of the two.
    pub(super) async fn of(
        ctx: &SessionContext,
        provider: &Arc<dyn TableProvider>,
        store: &Arc<Store>,
    ) -> Result<Option<Self>> {
        if let Some(stored) = provider.downcast_ref::<StoredTable>() {
            return Ok(Some(Self::Stored(stored.clone())));
        }
        if listing(provider.as_ref()).is_none() {
            return Ok(None);
        }
        let plan = provider.scan(&ctx.state(), None, &[], None).await?;
        let Some(scan) = scan_of(&plan) else {
            return Ok(None);
        };
        Ok(Some(Self::Files(store.file_table(scan, &ctx.runtime_env())?)))
    }

    pub(super) fn schema(&self) -> SchemaRef {
        self.source().schema()
    }

    fn source(&self) -> &dyn ColumnSource {
        match self {
            Self::Stored(table) => table,
            Self::Files(table) => table.as_ref(),
        }
    }

    /// The current version of a column.
    pub(super) async fn column(&self, index: usize) -> galatea_store::Result<Arc<Column>> {
        self.load(index, &LoadHints::default()).await
    }

    pub(super) async fn load(&self, index: usize, hints: &LoadHints) -> galatea_store::Result<Arc<Column>> {
        let view = self.source().load(&[index], hints, None).await?;
        Ok(Arc::clone(&view.columns[0]))
    }

    pub(super) async fn set_layout(
        &self,
        index: usize,
        wish: Option<ConflictLayout>,
    ) -> galatea_store::Result<()> {
        match self {
            Self::Stored(table) => table.set_conflict_layout(&[index], wish).await,
            Self::Files(table) => table.set_conflict_layout(&[index], wish).await,
        }
    }
}

/// The file scan of a plan.
fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    match plan.downcast_ref::<DataSourceExec>() {
        Some(source) => source.data_source().downcast_ref(),
        None => plan.children().first().and_then(|child| scan_of(child)),
    }
}

/// The table of that name.
pub(super) async fn provider(ctx: &SessionContext, name: &TableReference) -> Result<Arc<dyn TableProvider>> {
    let schema = ctx.state().schema_for_ref(name.clone())?;
    if let Some(provider) = schema.table(name.table()).await? {
        return Ok(provider);
    }
    let mut tables = schema.table_names();
    tables.sort_unstable();
    let table = name.to_string();
    Err(ConflictLayoutError::Table { table, tables }.into())
}

/// The Galatea session of the context, and its settings.
pub(super) fn session(ctx: &SessionContext) -> Result<(Arc<Session>, GalateaConfig)> {
    let state = ctx.state();
    let session = state.config().get_extension::<Session>();
    let session = session.ok_or(ConflictLayoutError::NoSession)?;
    Ok((session, GalateaConfig::of(state.config_options())))
}

/// The index of a column by its name, or else by its name in lower case.
pub(super) fn column_index(schema: &Schema, table: &TableReference, name: &str) -> Result<usize> {
    let lower = name.to_lowercase();
    let found = [name, &lower]
        .iter()
        .find_map(|name| schema.column_with_name(name));
    let missing = || ConflictLayoutError::Column {
        table: table.to_string(),
        column: name.to_string(),
        columns: schema.fields().iter().map(|field| field.name().clone()).collect(),
    };
    Ok(found.ok_or_else(missing)?.0)
}
