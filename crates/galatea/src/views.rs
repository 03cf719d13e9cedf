//! Views are planned for each use, because their tables may have changed since they were created.

use std::borrow::Cow;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{CatalogProvider, SchemaProvider, Session, TableProvider};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::{TableType, ViewTable};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, Expr, LogicalPlan, TableProviderFilterPushDown};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use futures::future::BoxFuture;
use parking_lot::RwLock;

use crate::create_table::without_keys;

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

/// The view with that definition, over the present tables. A view that cannot be planned has the columns
/// `known` and fails when it is read, so that catalogs can list it.
///
/// # Errors
/// The view is nested in itself.
pub(crate) async fn planned(
    name: &Name,
    sql: &str,
    known: Option<SchemaRef>,
    session: (SessionState, Planner),
) -> Result<Arc<dyn TableProvider>> {
    if is_being_defined(name) {
        return plan_err!("the view {} is nested in itself", name.1);
    }
    let view = match definition(name, sql, session).await {
        Ok(DdlStatement::CreateView(view)) => analyzed(Arc::unwrap_or_clone(view.input)).map(|input| {
            Arc::new(PlannedView(ViewTable::new(input, view.definition))) as Arc<dyn TableProvider>
        }),
        Ok(_) => plan_err!("the definition is no view: {sql}"),
        Err(error) => Err(error),
    };
    Ok(view.unwrap_or_else(|error| {
        Arc::new(InvalidView {
            name: name.1.clone(),
            sql: sql.to_owned(),
            schema: known.unwrap_or_else(|| Arc::new(Schema::empty())),
            error: error.strip_backtrace(),
        })
    }))
}

/// A plan as DataFusion analyses that of a view.
fn analyzed(input: LogicalPlan) -> Result<LogicalPlan> {
    let coercion: Arc<dyn AnalyzerRule + Send + Sync> = Arc::new(TypeCoercion::new());
    Analyzer::with_rules(vec![coercion]).execute_and_check(input, &ConfigOptions::default(), |_, _| {})
}

/// A view as it was planned in its own session. Sessions with fewer tables use it as it is.
#[derive(Debug)]
struct PlannedView(ViewTable);

#[async_trait]
impl TableProvider for PlannedView {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.0.get_table_definition()
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        self.0.get_logical_plan()
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.0.supports_filters_pushdown(filters)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.scan(state, projection, filters, limit).await
    }
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

/// A catalog that plans its views for each use.
#[derive(Debug)]
struct ViewCatalog {
    inner: Arc<dyn CatalogProvider>,
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
            session: Weak::clone(&self.session),
            planner: self.planner,
        }))
    }

    fn register_schema(
        &self,
        name: &str,
        schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.inner.register_schema(name, schema)
    }

    fn deregister_schema(&self, name: &str, cascade: bool) -> Result<Option<Arc<dyn SchemaProvider>>> {
        self.inner.deregister_schema(name, cascade)
    }
}

/// A schema that plans its views for each use.
#[derive(Debug)]
struct ViewSchema {
    inner: Arc<dyn SchemaProvider>,
    name: String,
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
        planned(&full, sql, Some(table.schema()), (state, self.planner))
            .await
            .map(Some)
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        self.inner.table_type(name).await
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.register_table(name, without_keys(table)?)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.inner.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.inner.table_exist(name)
    }
}

/// Lets a session plan the views of its default catalog for each use.
pub(crate) fn install(ctx: &SessionContext, planner: Planner) {
    let name = ctx.copied_config().options().catalog.default_catalog.clone();
    let Some(inner) = ctx.catalog(&name).filter(|catalog| !catalog.is::<ViewCatalog>()) else {
        return;
    };
    let session = ctx.state_weak_ref();
    let catalog = ViewCatalog {
        inner,
        session,
        planner,
    };
    ctx.register_catalog(name, Arc::new(catalog));
}
