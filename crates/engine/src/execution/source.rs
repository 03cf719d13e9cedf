//! Loads the encoded columns of a pipeline's source.

use crate::config::GalateaConfig;
use crate::device::RunError;
use crate::graph::{KeyBounds, Pipeline, PipelineSource, ScannedTable};
use crate::session::Session;
use arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use galatea_base::reason::Reason;
use galatea_codegen::PipelinePlan;
use galatea_expression::{Expr, ExprKind, Function};
use galatea_store::{
    ColumnSource, LoadHints, ProgressCallback, StoreError, StoredTable, TableId, TableView, supports_type,
};
use std::sync::Arc;

/// Loads the columns of a pipeline, in ascending order, and encodes those that are not encoded yet. Rows
/// outside of the bounds `matches` may be left out.
pub(super) async fn load(
    session: &Session,
    (pipeline, plan, matches): (&Pipeline, &PipelinePlan, &[KeyBounds]),
    config: &GalateaConfig,
    context: &Arc<TaskContext>,
    progress: ProgressCallback,
) -> Result<TableView, StoreError> {
    let store = session.engine().store();
    let mut columns: Vec<usize> = plan.columns().into_iter().collect();
    let mut dictionary: Vec<usize> = plan.dictionary_columns().into_iter().collect();
    let source = &pipeline.source;
    let table: Arc<dyn ColumnSource> = match source {
        PipelineSource::Stored(table) => Arc::clone(table),
        PipelineSource::Files { scan, table } => file_table(session, (scan, table), context)?,
        PipelineSource::Groups(_)
        | PipelineSource::Pairs(_)
        | PipelineSource::Windows(_)
        | PipelineSource::Union { .. } => {
            return Err(StoreError::UnsupportedSource {
                table: "what pipelines make".into(),
                reason: "they are on the device".into(),
            });
        }
        PipelineSource::Plan(input) => {
            let wanted = only(input.instance()?, &columns)?;
            let stored = StoredTable::from_plan(store, "batches", &wanted, context, None).await?;
            let place = |column: &usize| columns.binary_search(column).ok();
            dictionary = dictionary.iter().filter_map(place).collect();
            columns = (0..columns.len()).collect();
            stored.snapshot() as Arc<dyn ColumnSource>
        }
    };
    let hints = LoadHints {
        dictionary,
        predicates: match (source, is_sampled(plan)) {
            (PipelineSource::Files { .. }, false) => pipeline.pruning_by(matches),
            _ => Vec::new(),
        },
        is_temporary: !config.cache_files.0,
    };
    let view = table.load(&columns, &hints, Some(progress)).await?;
    if !config.cache_files.0 && matches!(source, PipelineSource::Files { .. }) {
        // The view keeps the data that this query needs.
        store.clear_cache();
    }
    Ok(view)
}

/// The table of the files of a scan.
pub(super) fn file_table(
    session: &Session,
    (scan, table): (&DataSourceExec, &ScannedTable),
    context: &TaskContext,
) -> Result<Arc<dyn ColumnSource>, StoreError> {
    let table = table.or_made(|| {
        let scan = scan.data_source().downcast_ref::<FileScanConfig>();
        let scan = scan.ok_or_else(|| StoreError::UnsupportedSource {
            table: "a scan".into(),
            reason: "it is not of files".into(),
        })?;
        let store = session.engine().store();
        store.file_table(scan, &context.runtime_env())
    })?;
    Ok(table)
}

/// Whether a filter draws a sample by the numbers of rows in the table. Such a pipeline needs all rows.
fn is_sampled(plan: &PipelinePlan) -> bool {
    let is_drawn = |filter: &Expr| {
        matches!(
            filter.kind(),
            ExprKind::Call {
                function: Function::Drawn { .. },
                ..
            }
        )
    };
    plan.filters.iter().any(is_drawn)
}

/// The plan projected to those columns, the only ones that are encoded. If rows are only counted, any one
/// column is kept.
fn only(plan: Arc<dyn ExecutionPlan>, columns: &[usize]) -> Result<Arc<dyn ExecutionPlan>, StoreError> {
    let schema = plan.schema();
    let fields = schema.fields();
    let any = fields
        .iter()
        .position(|field| supports_type(field.data_type()).is_ok());
    let kept = match columns {
        [] => any.as_slice(),
        columns => columns,
    };
    let column = |index: &usize| {
        let name = fields[*index].name();
        ProjectionExpr::new(Arc::new(Column::new(name, *index)), name.clone())
    };
    let kept: Vec<ProjectionExpr> = kept.iter().map(column).collect();
    Ok(Arc::new(ProjectionExec::try_new(kept, plan)?))
}

/// Chunks of the view that may contain rows which pass the predicates. The predicates are over the source's
/// schema; the view contains its `columns`, in ascending order.
pub(super) fn surviving(
    view: &TableView,
    predicates: &[Arc<dyn PhysicalExpr>],
    columns: &[usize],
) -> Vec<usize> {
    let rewritten: Vec<_> = predicates
        .iter()
        .filter_map(|p| to_view(p, view, columns))
        .collect();
    let kept = galatea_store::prune(view, &rewritten);
    (0..view.chunk_rows.len())
        .filter(|chunk| kept[*chunk] && view.chunk_rows[*chunk] > 0)
        .collect()
}

/// The predicate over the view's columns.
fn to_view(
    predicate: &Arc<dyn PhysicalExpr>,
    view: &TableView,
    columns: &[usize],
) -> Option<Arc<dyn PhysicalExpr>> {
    let mut known = true;
    let rewritten = Arc::clone(predicate)
        .transform(|e| {
            let Some(column) = e.downcast_ref::<Column>() else {
                return Ok(Transformed::no(e));
            };
            match columns.binary_search(&column.index()) {
                Ok(at) => {
                    let name = view.schema.field(at).name();
                    Ok(Transformed::yes(
                        Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>
                    ))
                }
                Err(_) => {
                    known = false;
                    Ok(Transformed::no(e))
                }
            }
        })
        .ok()?
        .data;
    known.then_some(rewritten)
}

/// A view of the rows that another pipeline left on the device: the entries of a group table, positions in
/// the order of a window, or partitioned rows.
pub(super) fn entries(rows: u64) -> Result<TableView, RunError> {
    let limit = |_| {
        RunError::Unsupported(Reason::Limit {
            expression: "what a pipeline left on the device as the rows of another".into(),
            asked: rows,
            limit: u64::from(u32::MAX),
            unit: "of them",
        })
    };
    Ok(TableView {
        id: TableId::next(),
        schema: Arc::new(Schema::empty()),
        rows,
        chunk_rows: vec![u32::try_from(rows).map_err(limit)?],
        columns: Vec::new(),
        loaded: None,
    })
}

/// A view of the rows that other pipelines left on the device, with one chunk for each pipeline.
pub(super) fn parts(rows: &[u64]) -> Result<TableView, RunError> {
    let parts = rows.iter().map(|rows| entries(*rows));
    let parts = parts.collect::<Result<Vec<TableView>, RunError>>()?;
    Ok(TableView {
        rows: rows.iter().sum(),
        chunk_rows: parts.iter().flat_map(|part| &part.chunk_rows).copied().collect(),
        ..entries(0)?
    })
}

/// Converts an error of the store to a DataFusion error.
pub(crate) fn store_error(error: StoreError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
