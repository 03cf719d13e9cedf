//! A pipeline of a graph: its source, the build sides that its rows look up, and its plan.

use super::{
    InputPlan, KeptCounts, KeyBounds, KeyScan, OutOfCoreMemory, PipelineId, PlanKey, PrunedChunks, SharedRows,
};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result as DataFusionResult;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use galatea_base::reason::Reason;
use galatea_codegen::{PipelinePlan, RowOrder, SinkPlan, TopRows};
use galatea_expression::{Expr, Rebind};
use galatea_store::{ColumnSource, FileTable};
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The source of a pipeline's rows.
#[derive(Debug, Clone)]
pub enum PipelineSource {
    /// Files that DataFusion scans; their columns are encoded into the store on first use.
    Files {
        /// The scan as DataFusion planned it.
        scan: Arc<DataSourceExec>,
        /// Its table, for executions of one cached plan.
        table: ScannedTable,
    },
    /// A table of the store.
    Stored(Arc<dyn ColumnSource>),
    /// The groups of an aggregate, which another pipeline leaves on the device. A row is an entry of its
    /// group table.
    Groups(Arc<dyn ExecutionPlan>),
    /// The matches of a join with keys that may repeat, which another pipeline leaves on the device. A row is
    /// a match.
    Pairs(Arc<dyn ExecutionPlan>),
    /// The rows of window functions, which another pipeline leaves on the device in the order of the window.
    /// A row is a position in that order.
    Windows(Arc<dyn ExecutionPlan>),
    /// The rows of several pipelines, one input after another, which these leave on the device.
    Union(Arc<dyn ExecutionPlan>),
    /// Any other plan: its batches are encoded as they are collected.
    Plan(InputPlan),
}

/// The table of the store behind a scan, found by the first execution that loads its columns.
#[derive(Debug, Clone, Default)]
pub struct ScannedTable(Arc<OnceLock<Arc<FileTable>>>);

impl ScannedTable {
    /// The table; `make` finds it on the first call. Its loads read the current files.
    ///
    /// # Errors
    /// The errors of `make`.
    pub(crate) fn or_made<E>(
        &self,
        make: impl FnOnce() -> Result<Arc<FileTable>, E>,
    ) -> Result<Arc<FileTable>, E> {
        if let Some(table) = self.0.get() {
            return Ok(Arc::clone(table));
        }
        let table = make()?;
        Ok(Arc::clone(self.0.get_or_init(|| table)))
    }
}

/// A pipeline of a graph.
#[derive(Debug, Clone)]
pub struct Pipeline {
    /// The source of its rows.
    pub source: PipelineSource,
    /// The build sides that its rows look up, by number.
    pub build_sides: Vec<BuildSide>,
    /// The build sides that hold its rows, if other pipelines leave these on the device: columns are looked
    /// up in them by row number. Empty if the source is scanned.
    pub row_sides: Range<usize>,
    /// The computation over the source's columns.
    pub plan: PipelinePlan,
    /// Predicates over the source's schema that zone maps may use to skip chunks.
    pub pruning: Vec<Arc<dyn PhysicalExpr>>,
    /// The chunks left after pruning, which executions of one cached plan share.
    pub pruned: PrunedChunks,
    /// The keys of a partition. Zone maps skip the chunks without these keys.
    pub key_bounds: Vec<KeyBounds>,
    /// The memory of its partitions, if its last run was partitioned.
    pub out_of_core: OutOfCoreMemory,
    /// The numbers of rows in its partitions, counted by earlier executions.
    pub counts: KeptCounts,
    /// Rows of the source, if known.
    pub rows: Option<u64>,
    /// Schema of the source, which the plan's columns index.
    pub schema: SchemaRef,
    /// Rows after which a pipeline that returns rows may stop; its result has no more.
    pub fetch: Option<usize>,
    /// Key under which a refusal at run time is remembered: that of the pipeline as found, before its inputs
    /// were placed in turn.
    pub shape: Option<PlanKey>,
    /// The times that decided its placement, if times did.
    pub prediction: Option<Prediction>,
}

/// Times that the cost model predicts for a subtree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction {
    /// On the device, with columns in device memory and kernels compiled.
    pub hot: Duration,
    /// The warm-up that no run on the CPU has paid for.
    pub unpaid: Duration,
    /// On the CPU.
    pub cpu: Duration,
}

/// Seconds that the cost model predicts for the algorithms of a join, without reading the columns of both
/// sides once (`joins/costs.rs`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JoinCosts {
    /// One table in device memory, probed in the order of the scan; `None` if it does not fit.
    pub hash: Option<f64>,
    /// The same after rows were partitioned in device memory; `None` if these do not fit.
    pub radix: Option<f64>,
    /// Both sides are partitioned once, and stored.
    pub triton: f64,
    /// Both sides are read once per partition.
    pub multipass: f64,
}

impl Pipeline {
    /// A pipeline over all rows of a source with this schema, without build sides.
    pub(crate) fn new(source: PipelineSource, schema: SchemaRef, plan: PipelinePlan) -> Self {
        Self {
            source,
            build_sides: Vec::new(),
            row_sides: 0..0,
            plan,
            pruning: Vec::new(),
            pruned: PrunedChunks::default(),
            key_bounds: Vec::new(),
            out_of_core: OutOfCoreMemory::default(),
            counts: KeptCounts::default(),
            rows: None,
            schema,
            fetch: None,
            shape: None,
            prediction: None,
        }
    }

    /// The rows that it returns, if not all.
    pub fn top(&self) -> Option<&TopRows> {
        match &self.plan.sink {
            SinkPlan::Rows {
                order: Some(RowOrder::First(top)),
                ..
            } => Some(top),
            _ => None,
        }
    }

    /// The rows after which it may stop, if any rows will do: not those that are first in an order.
    pub(crate) fn fetch_in_any_order(&self) -> Option<usize> {
        self.fetch.filter(|_| self.top().is_none())
    }

    /// Whether it returns all of its rows in an order.
    pub fn sorts(&self) -> bool {
        let SinkPlan::Rows { order, .. } = &self.plan.sink else {
            return false;
        };
        matches!(order, Some(RowOrder::All(_)))
    }

    /// Whether it returns every row of its source.
    pub(crate) fn is_whole(&self) -> bool {
        self.plan.filters.is_empty() && self.build_sides.is_empty()
    }

    /// Whether it returns rows rather than groups.
    pub fn returns_rows(&self) -> bool {
        matches!(self.plan.sink, SinkPlan::Rows { .. })
    }

    /// Replaces DataFusion's expressions in it.
    pub(super) fn rebind(&mut self, replace: &Rebind<'_>) -> DataFusionResult<()> {
        self.plan = self.plan.rebound(replace)?;
        self.pruned = PrunedChunks::default();
        for predicate in &mut self.pruning {
            *predicate = replace(predicate)?;
        }
        for side in &mut self.build_sides {
            side.key = replace(&side.key)?;
            side.wanted = side.wanted.rebound(replace)?;
        }
        Ok(())
    }

    /// Its build sides that other pipelines build.
    pub(super) fn builds_mut(&mut self) -> impl Iterator<Item = &mut Build> {
        self.build_sides.iter_mut().filter_map(|side| side.build.as_mut())
    }

    /// The plans of CPU operators that feed it: that of its rows, then those of its build sides.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &InputPlan> {
        let rows = match &self.source {
            PipelineSource::Plan(input) => Some(input),
            _ => None,
        };
        let sides = self.build_sides.iter().filter(|side| side.build.is_none());
        rows.into_iter().chain(sides.map(|side| &side.plan))
    }

    /// The same in the same order, mutable.
    pub(super) fn inputs_mut(&mut self) -> impl Iterator<Item = &mut InputPlan> {
        let rows = match &mut self.source {
            PipelineSource::Plan(input) => Some(input),
            _ => None,
        };
        let sides = self.build_sides.iter_mut().filter(|side| side.build.is_none());
        rows.into_iter().chain(sides.map(|side| &mut side.plan))
    }
}

/// A table that a pipeline looks up by key.
#[derive(Debug, Clone)]
pub struct BuildSide {
    /// The plan that computes its rows.
    pub plan: InputPlan,
    /// The key, over the plan's columns.
    pub key: Arc<dyn PhysicalExpr>,
    /// The key that rows look up, over the pipeline's columns.
    pub wanted: Expr,
    /// Whether no two rows may have the same key.
    pub unique: bool,
    /// Rows it is expected to have.
    pub rows: Option<u64>,
    /// Whether it is predicted to exceed device memory, so that the join runs in partitions.
    pub exceeds_memory: bool,
    /// The predicted times of the join's algorithms, if a pipeline builds it and its table exceeds the cache.
    pub costs: Option<JoinCosts>,
    /// Key under which a refusal of its rows at run time is remembered, for all pipelines that look them up.
    pub shape: Option<PlanKey>,
    /// Key of its rows, with constants, under which the range of its keys is remembered.
    pub rows_key: Option<PlanKey>,
    /// Finds the range of its keys before a pipeline builds it, if its table is small.
    pub key_scan: Option<KeyScan>,
    /// Why the host cannot build its table, if that is known in advance.
    pub limit: Option<Reason>,
    /// The pipeline that builds it on the device; otherwise its plan runs and the host builds its table.
    pub build: Option<Build>,
    /// Its rows on the host, which executions of one cached plan share.
    pub shared: SharedRows,
}

/// A build side that a pipeline of the same graph builds.
#[derive(Debug, Clone, Copy)]
pub struct Build {
    /// The pipeline.
    pub pipeline: PipelineId,
    /// Key under which a refusal at run time is remembered.
    pub shape: Option<PlanKey>,
}

/// Name of a key, for EXPLAIN and errors.
pub(crate) fn key_name(key: &Arc<dyn PhysicalExpr>) -> String {
    key.downcast_ref::<Column>()
        .map_or_else(|| key.to_string(), |column| column.name().to_owned())
}

impl BuildSide {
    /// A build side of the rows of `plan` by `key`, without further properties.
    pub(crate) fn new(
        plan: &Arc<dyn ExecutionPlan>,
        key: &Arc<dyn PhysicalExpr>,
        wanted: Expr,
        unique: bool,
    ) -> Self {
        Self {
            plan: InputPlan::from(plan),
            key: Arc::clone(key),
            wanted,
            unique,
            rows: None,
            exceeds_memory: false,
            costs: None,
            shape: None,
            rows_key: None,
            key_scan: None,
            limit: None,
            build: None,
            shared: SharedRows::default(),
        }
    }

    /// Name of the key.
    pub fn key_name(&self) -> String {
        key_name(&self.key)
    }
}
