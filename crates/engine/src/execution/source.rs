//! From a pipeline's source to encoded columns.

use crate::config::GalateaConfig;
use crate::pipeline::PipelinePlan;
use crate::placement::PipelineSource;
use crate::runtime::Runtime;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use galatea_store::{ColumnSource, LoadHints, StoreError, StoredTable, TableView};
use std::sync::Arc;

/// Loads the columns of a pipeline, ascending; encodes what is not encoded yet.
pub async fn load(
    runtime: &Runtime,
    source: &PipelineSource,
    plan: &PipelinePlan,
    config: &GalateaConfig,
    context: &Arc<TaskContext>,
) -> Result<TableView, StoreError> {
    let store = runtime.store(config);
    let table: Arc<dyn ColumnSource> = match source {
        PipelineSource::Stored(table) => Arc::clone(table),
        PipelineSource::Files { scan } => store.file_table(scan, context, config.cache_files.0).await?,
        PipelineSource::Plan(child) => {
            let stream = execute_stream(Arc::clone(child), Arc::clone(context)).map_err(StoreError::from)?;
            Arc::new(StoredTable::from_stream(store, stream).await?)
        }
    };
    let columns: Vec<usize> = plan.columns().into_iter().collect();
    let hints = LoadHints { dictionary: plan.dictionary_columns().into_iter().collect() };
    table.load(&columns, &hints, None).await
}

/// Chunks of the view that may hold rows that pass the predicates over the source's schema.
pub fn surviving(view: &TableView, predicates: &[Arc<dyn PhysicalExpr>], columns: &[usize]) -> Vec<usize> {
    let kept = galatea_store::prune(view, predicates, columns);
    (0..view.chunk_rows.len()).filter(|chunk| kept[*chunk] && view.chunk_rows[*chunk] > 0).collect()
}

/// The children of a source in the plan.
pub fn children(source: &PipelineSource) -> Vec<&Arc<dyn ExecutionPlan>> {
    match source {
        PipelineSource::Plan(child) => vec![child],
        _ => Vec::new(),
    }
}

/// An error of the store in DataFusion's terms.
pub fn store_error(error: StoreError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
