//! Views are planned again when tables have changed since they were planned.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{CatalogProvider, SchemaProvider, Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::{TableType, ViewTable};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, Expr, LogicalPlan};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};

use crate::create_table::without_keys;
use crate::file_paths::reads_like_a_file;

/// Views within views that one view may have.
const MAX_VIEWS: usize = 32;

/// Plans a statement in a session.
pub(crate) type Planner = fn(String, SessionState) -> BoxFuture<'static, Result<LogicalPlan>>;

/// A name of a table: schema and table.
pub(crate) type Name = (String, String);

tokio::task_local! {
    /// The views and external tables with a definition that is being planned, each within the one before.
    static DEFINING: Vec<Name>;
}

/// Whether the definition of that view or table is being planned.
pub(crate) fn is_being_defined(name: &Name) -> bool {
    DEFINING
        .try_with(|defining| defining.contains(name))
        .unwrap_or(false)
}

/// The statement that defines a view or an external table, planned.
///
/// # Errors
/// Views nested in too many views; those of the planner.
pub(crate) async fn definition(
    name: &Name,
    sql: &str,
    (state, planner): (SessionState, Planner),
) -> Result<DdlStatement> {
    let mut defining = DEFINING.try_with(Vec::clone).unwrap_or_default();
    if defining.len() >= MAX_VIEWS {
        return plan_err!("the view {} is nested in more than {MAX_VIEWS} views", name.1);
    }
    defining.push(name.clone());
    let plan = DEFINING.scope(defining, planner(sql.to_owned(), state));
    match Box::pin(plan).await? {
        LogicalPlan::Ddl(statement) => Ok(statement),
        _ => plan_err!("{} has a wrong definition: {sql}", name.1),
    }
}

/// The views of a catalog as plans over its present tables.
#[derive(Debug, Default)]
pub(crate) struct PlannedViews(Mutex<Planned>);

#[derive(Debug, Default)]
struct Planned {
    /// Number of changes of the catalog's tables.
    changes: u64,
    /// The views that were planned since then.
    views: HashMap<Name, Arc<dyn TableProvider>>,
}

impl PlannedViews {
    /// Called when tables were removed or replaced: all views are planned again.
    pub(crate) fn forget(&self) {
        let mut planned = self.0.lock();
        planned.changes += 1;
        planned.views.clear();
    }

    /// The view with that definition. If it cannot be planned, the result has the columns `known`, so that
    /// catalogs can list it, and reading it fails.
    ///
    /// # Errors
    /// The view is nested in itself.
    pub(crate) async fn get(
        &self,
        name: &Name,
        sql: &str,
        known: Option<SchemaRef>,
        session: (SessionState, Planner),
    ) -> Result<Arc<dyn TableProvider>> {
        if is_being_defined(name) {
            return plan_err!("the view {} is nested in itself", name.1);
        }
        let changes = {
            let planned = self.0.lock();
            if let Some(view) = planned.views.get(name) {
                return Ok(Arc::clone(view));
            }
            planned.changes
        };
        let view = match planned(name, sql, session).await {
            Ok(view) => view,
            // It is planned again for its next use: a table or file may exist then.
            Err(error) => {
                return Ok(Arc::new(InvalidView {
                    name: name.1.clone(),
                    sql: sql.to_owned(),
                    schema: known.unwrap_or_else(|| Arc::new(Schema::empty())),
                    error: error.strip_backtrace(),
                }));
            }
        };
        let is_kept = !names_files(view.logical_plan())?;
        let view: Arc<dyn TableProvider> = Arc::new(view);
        let mut planned = self.0.lock();
        if is_kept && planned.changes == changes {
            planned.views.insert(name.clone(), Arc::clone(&view));
        }
        Ok(view)
    }
}

async fn planned(name: &Name, sql: &str, session: (SessionState, Planner)) -> Result<ViewTable> {
    match definition(name, sql, session).await? {
        DdlStatement::CreateView(view) => {
            let input = analyzed(Arc::unwrap_or_clone(view.input))?;
            Ok(ViewTable::new(input, view.definition))
        }
        _ => plan_err!("the definition is no view: {sql}"),
    }
}

/// Whether a plan reads files by their names. Each query resolves such a name anew, since other files may
/// match it.
fn names_files(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let name = scan.table_name.table();
            // The names of read functions are URLs.
            found |= reads_like_a_file(name);
            if let Some(view) = scan.source.get_logical_plan() {
                found |= names_files(&view)?;
            }
        }
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// A plan as DataFusion analyses that of a view.
fn analyzed(input: LogicalPlan) -> Result<LogicalPlan> {
    let coercion: Arc<dyn AnalyzerRule + Send + Sync> = Arc::new(TypeCoercion::new());
    Analyzer::with_rules(vec![coercion]).execute_and_check(input, &ConfigOptions::default(), |_, _| {})
}

/// A view that cannot be planned over the present tables.
#[derive(Debug)]
struct InvalidView {
    name: String,
    sql: String,
    schema: SchemaRef,
    error: String,
}

#[async_trait]
impl TableProvider for InvalidView {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_table_definition(&self) -> Option<&str> {
        Some(&self.sql)
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Self { name, error, .. } = self;
        Err(plan_datafusion_err!(
            "the view {name} does not fit its tables any more: {error}\nhint: DROP VIEW {name}, or replace it by \
             CREATE OR REPLACE VIEW"
        ))
    }
}

/// A catalog that plans its views over its present tables.
#[derive(Debug)]
struct ViewCatalog {
    inner: Arc<dyn CatalogProvider>,
    views: Arc<PlannedViews>,
    session: Weak<RwLock<SessionState>>,
    planner: Planner,
}

impl CatalogProvider for ViewCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.inner.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        Some(Arc::new(ViewSchema {
            inner: self.inner.schema(name)?,
            name: name.to_owned(),
            views: Arc::clone(&self.views),
            session: Weak::clone(&self.session),
            planner: self.planner,
        }))
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        let replaced = self.inner.register_schema(name, schema);
        self.views.forget();
        replaced
    }

    fn deregister_schema(&self, name: &str, cascade: bool) -> Result<Option<Arc<dyn SchemaProvider>>> {
        let removed = self.inner.deregister_schema(name, cascade);
        self.views.forget();
        removed
    }
}

/// A schema that plans its views over the present tables.
#[derive(Debug)]
struct ViewSchema {
    inner: Arc<dyn SchemaProvider>,
    name: String,
    views: Arc<PlannedViews>,
    session: Weak<RwLock<SessionState>>,
    planner: Planner,
}

#[async_trait]
impl SchemaProvider for ViewSchema {
    fn owner_name(&self) -> Option<&str> {
        self.inner.owner_name()
    }

    fn table_names(&self) -> Vec<String> {
        self.inner.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(table) = self.inner.table(name).await? else {
            return Ok(None);
        };
        // Views that programs register have no definition.
        let view = table.downcast_ref::<ViewTable>();
        let (Some(sql), Some(session)) = (view.and_then(ViewTable::definition), self.session.upgrade())
        else {
            return Ok(Some(table));
        };
        let state = session.read().clone();
        let full = (self.name.clone(), name.to_owned());
        let view = self
            .views
            .get(&full, sql, Some(table.schema()), (state, self.planner));
        view.await.map(Some)
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        self.inner.table_type(name).await
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let table = without_keys(&name, table)?;
        let replaced = self.inner.register_table(name, table)?;
        if replaced.is_some() {
            self.views.forget();
        }
        Ok(replaced)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let removed = self.inner.deregister_table(name);
        self.views.forget();
        removed
    }

    fn table_exist(&self, name: &str) -> bool {
        self.inner.table_exist(name)
    }
}

/// Lets a session plan the views of its default catalog over the present tables.
pub(crate) fn install(ctx: &SessionContext, planner: Planner) {
    let name = ctx.copied_config().options().catalog.default_catalog.clone();
    let Some(inner) = ctx.catalog(&name).filter(|catalog| !catalog.is::<ViewCatalog>()) else {
        return;
    };
    let session = ctx.state_weak_ref();
    let catalog = ViewCatalog {
        inner,
        views: Arc::default(),
        session,
        planner,
    };
    ctx.register_catalog(name, Arc::new(catalog));
}
