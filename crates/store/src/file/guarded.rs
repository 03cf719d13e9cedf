//! DataFusion's Parquet source, with errors and panics that contain the file's name.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource, ParquetSource};
use datafusion::error::Result;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use datafusion_datasource::{PartitionedFile, TableSchema};
use futures::stream::{BoxStream, StreamExt};
use object_store::ObjectStore;

use crate::damage::{contained, contained_async, panicked, parquet_error};

/// Reads Parquet files as DataFusion does. An error or a panic of reading becomes an error with the file's
/// name.
#[derive(Clone)]
pub struct GuardedParquet(Arc<dyn FileSource>);

impl GuardedParquet {
    /// The same files, guarded.
    pub fn new(source: ParquetSource) -> Self {
        Self(Arc::new(source))
    }

    fn of(source: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        Arc::new(Self(source))
    }
}

/// The Parquet source of a scan, guarded or not.
pub fn parquet_source(source: &dyn FileSource) -> Option<&ParquetSource> {
    let inner = source
        .downcast_ref::<GuardedParquet>()
        .map(|guarded| guarded.0.as_ref());
    inner.unwrap_or(source).downcast_ref::<ParquetSource>()
}

/// A copy of a source, guarded if the source is.
pub fn guarded_as(source: &dyn FileSource, copy: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
    match source.is::<GuardedParquet>() {
        true => GuardedParquet::of(copy),
        false => copy,
    }
}

impl FileSource for GuardedParquet {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        self.0.create_file_opener(object_store, base_config, partition)
    }

    fn create_morselizer(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let inner = self.0.create_morselizer(object_store, base_config, partition)?;
        let local = base_config.object_store_url.as_str().starts_with("file://");
        Ok(Box::new(Guard { inner, local }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.0.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Self::of(self.0.with_batch_size(batch_size))
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.0.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.0.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.0.metrics()
    }

    fn file_type(&self) -> &str {
        self.0.file_type()
    }

    fn fmt_extra(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_extra(t, f)
    }

    fn supports_repartitioning(&self) -> bool {
        self.0.supports_repartitioning()
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        self.0.repartitioned(
            target_partitions,
            repartition_file_min_size,
            output_ordering,
            config,
        )
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let pushed = self.0.try_pushdown_filters(filters, config)?;
        Ok(FilterPushdownPropagation {
            filters: pushed.filters,
            updated_node: pushed.updated_node.map(Self::of),
        })
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        eq_properties: &EquivalenceProperties,
    ) -> Result<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        Ok(match self.0.try_pushdown_sort(order, eq_properties)? {
            SortOrderPushdownResult::Exact { inner } => SortOrderPushdownResult::Exact {
                inner: Self::of(inner),
            },
            SortOrderPushdownResult::Inexact { inner } => SortOrderPushdownResult::Inexact {
                inner: Self::of(inner),
            },
            SortOrderPushdownResult::Unsupported => SortOrderPushdownResult::Unsupported,
        })
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.0.reorder_files(files)
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        Ok(self.0.try_pushdown_projection(projection)?.map(Self::of))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.0.apply_expressions(f)
    }
}

#[derive(Debug)]
struct Guard {
    inner: Box<dyn Morselizer>,
    /// Whether the object store is the file system.
    local: bool,
}

impl Morselizer for Guard {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let location = &file.object_meta.location;
        let name: Arc<str> = match self.local {
            true => format!("/{location}").into(),
            false => location.to_string().into(),
        };
        let inner = named(&name, contained(|| self.inner.plan_file(file)))?;
        Ok(Box::new(GuardedPlanner { inner, file: name }))
    }
}

/// The outcome of work on a file. An error gets the file's name.
fn named<T>(file: &str, outcome: Result<Result<T>, String>) -> Result<T> {
    match outcome {
        Ok(done) => done.map_err(|error| parquet_error(file, error)),
        Err(panic) => Err(panicked(file, &panic).into()),
    }
}

#[derive(Debug)]
struct GuardedPlanner {
    inner: Box<dyn MorselPlanner>,
    file: Arc<str>,
}

impl GuardedPlanner {
    fn boxed(inner: Box<dyn MorselPlanner>, file: &Arc<str>) -> Box<dyn MorselPlanner> {
        let file = Arc::clone(file);
        Box::new(Self { inner, file })
    }
}

impl MorselPlanner for GuardedPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Self { inner, file } = *self;
        let Some(mut plan) = named(&file, contained(|| inner.plan()))? else {
            return Ok(None);
        };
        let morsels = plan.take_morsels().into_iter().map(|inner| {
            let file = Arc::clone(&file);
            Box::new(GuardedMorsel { inner, file }) as Box<dyn Morsel>
        });
        let planners = plan.take_ready_planners().into_iter();
        let planners = planners.map(|inner| Self::boxed(inner, &file));
        let mut guarded = MorselPlan::new()
            .with_morsels(morsels.collect())
            .with_planners(planners.collect());
        if let Some(pending) = plan.take_pending_planner() {
            guarded.set_pending_planner(async move {
                let inner = named(&file, contained_async(pending).await)?;
                Ok(Self::boxed(inner, &file))
            });
        }
        Ok(Some(guarded))
    }
}

#[derive(Debug)]
struct GuardedMorsel {
    inner: Box<dyn Morsel>,
    file: Arc<str>,
}

impl Morsel for GuardedMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let Self { inner, file } = *self;
        let mut stream = match contained(|| inner.into_stream()) {
            Ok(stream) => Some(stream),
            Err(panic) => {
                let failed = panicked(&file, &panic).into();
                return futures::stream::iter([Err(failed)]).boxed();
            }
        };
        // A stream that has panicked is not polled again.
        let guarded = futures::stream::poll_fn(move |context| {
            let Some(running) = &mut stream else {
                return std::task::Poll::Ready(None);
            };
            match contained(|| running.poll_next_unpin(context)) {
                Ok(poll) => poll.map(|next| next.map(|batch| named(&file, Ok(batch)))),
                Err(panic) => {
                    stream = None;
                    std::task::Poll::Ready(Some(Err(panicked(&file, &panic).into())))
                }
            }
        });
        guarded.boxed()
    }
}
