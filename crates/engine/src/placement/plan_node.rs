//! The operators of DataFusion's physical plans, in the classes that placement distinguishes.
//!
//! Placement downcasts DataFusion's nodes only in this module. Its steps match [`PlanNode::of`]: chains
//! (`find.rs`), sorts (`sort/`), aggregates (`aggregate/`), costs (`cost/host.rs`), limits (`placer.rs`) and
//! reasons (`nodes.rs`). [`below`](super::find::below) lists the nodes that pipelines support.

use crate::report::PlanReport;
use crate::sample::SampleExec;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use galatea_store::StoreScanExec;
use std::sync::Arc;

/// A node of a physical plan.
pub(super) enum PlanNode<'p> {
    /// Reads the rows of a table.
    Scan(Scan<'p>),
    /// Moves batches between partitions, and returns all rows of its input.
    Arrangement(&'p Arc<dyn ExecutionPlan>),
    Filter(&'p FilterExec),
    /// TABLESAMPLE.
    Sample(&'p SampleExec),
    Projection(&'p ProjectionExec),
    Aggregate(&'p AggregateExec),
    Join(Join<'p>),
    Window(Window<'p>),
    /// UNION ALL.
    Union(&'p UnionExec),
    Sort(&'p SortExec),
    /// Merges sorted partitions.
    Merge(&'p SortPreservingMergeExec),
    /// Requires an order of its input, and returns its rows.
    Requirement(&'p Arc<dyn ExecutionPlan>),
    Limit {
        skip: usize,
        fetch: Option<usize>,
    },
    Recursion(&'p RecursiveQueryExec),
    /// Returns constants: no rows, or one without columns.
    Constant,
    /// Has no work for a device: it writes, explains, reads another source of rows, or selects its device at
    /// run time.
    Passive,
    Other,
}

/// The source of the rows of a scan.
pub(super) enum Scan<'p> {
    /// A table of the store.
    Stored(&'p StoreScanExec),
    Files(&'p DataSourceExec, &'p FileScanConfig),
    /// Batches in host memory, or a source of a program that embeds the engine.
    Other(&'p DataSourceExec),
}

/// A join, by its algorithm on the CPU.
#[derive(Clone, Copy)]
pub(super) enum Join<'p> {
    Hash(&'p HashJoinExec),
    SortMerge(&'p SortMergeJoinExec),
    NestedLoop(&'p NestedLoopJoinExec),
    Cross(&'p CrossJoinExec),
}

/// Window functions.
pub(super) struct Window<'p> {
    pub(super) functions: &'p [Arc<dyn WindowExpr>],
    pub(super) input: &'p Arc<dyn ExecutionPlan>,
    /// Whether each function is computed while rows arrive, and not over whole partitions.
    pub(super) bounded: bool,
}

/// Nodes without work for a device that have no variant of their own.
const PASSIVE: [&str; 8] = [
    "LazyMemoryExec",
    "StreamingTableExec",
    "WorkTableExec",
    "WorkRowsExec",
    "ExplainExec",
    "AnalyzeExec",
    "DataSinkExec",
    "ScalarSubqueryExec",
];

impl<'p> PlanNode<'p> {
    pub(super) fn of(plan: &'p Arc<dyn ExecutionPlan>) -> Self {
        Self::arranging(plan)
            .or_else(|| Self::scanning(plan))
            .or_else(|| Self::computing(plan))
            .unwrap_or_else(|| match plan.name() {
                "EmptyExec" | "PlaceholderRowExec" => Self::Constant,
                name if PASSIVE.contains(&name) || PlanReport::READERS.contains(&name) => Self::Passive,
                _ => Self::Other,
            })
    }

    /// Nodes that return the rows of their input unchanged.
    fn arranging(plan: &'p Arc<dyn ExecutionPlan>) -> Option<Self> {
        let moves = plan.is::<CoalescePartitionsExec>()
            || plan.is::<CooperativeExec>()
            || plan.is::<RepartitionExec>()
            || plan.name() == "CoalesceBatchesExec";
        if moves {
            return match plan.fetch() {
                None => plan.children().first().copied().map(Self::Arrangement),
                fetch if plan.is::<CoalescePartitionsExec>() => Some(Self::Limit { skip: 0, fetch }),
                Some(_) => Some(Self::Passive),
            };
        }
        if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
            return Some(Self::Limit {
                skip: limit.skip(),
                fetch: limit.fetch(),
            });
        }
        if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
            return Some(Self::Limit {
                skip: 0,
                fetch: Some(limit.fetch()),
            });
        }
        if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
            return Some(Self::Merge(merge));
        }
        if plan.is::<OutputRequirementExec>() {
            return plan.children().first().copied().map(Self::Requirement);
        }
        let sort = plan.downcast_ref::<SortExec>()?;
        Some(Self::Sort(sort))
    }

    fn scanning(plan: &'p Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(scan) = plan.downcast_ref::<StoreScanExec>() {
            return Some(Self::Scan(Scan::Stored(scan)));
        }
        let scan = plan.downcast_ref::<DataSourceExec>()?;
        Some(Self::Scan(
            match scan.data_source().downcast_ref::<FileScanConfig>() {
                Some(files) => Scan::Files(scan, files),
                None => Scan::Other(scan),
            },
        ))
    }

    fn computing(plan: &'p Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            return Some(Self::Filter(filter));
        }
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            return Some(Self::Projection(projection));
        }
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            return Some(Self::Aggregate(aggregate));
        }
        if let Some(join) = Join::of(plan) {
            return Some(Self::Join(join));
        }
        if let Some(window) = Window::of(plan) {
            return Some(Self::Window(window));
        }
        if let Some(union) = plan.downcast_ref::<UnionExec>() {
            return Some(Self::Union(union));
        }
        if let Some(sample) = plan.downcast_ref::<SampleExec>() {
            return Some(Self::Sample(sample));
        }
        let recursion = plan.downcast_ref::<RecursiveQueryExec>()?;
        Some(Self::Recursion(recursion))
    }
}

impl<'p> Join<'p> {
    /// Name of the node.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hash(_) => "HashJoinExec",
            Self::SortMerge(_) => "SortMergeJoinExec",
            Self::NestedLoop(_) => "NestedLoopJoinExec",
            Self::Cross(_) => "CrossJoinExec",
        }
    }

    fn of(plan: &'p Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return Some(Self::Hash(join));
        }
        if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
            return Some(Self::SortMerge(join));
        }
        if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            return Some(Self::NestedLoop(join));
        }
        let join = plan.downcast_ref::<CrossJoinExec>()?;
        Some(Self::Cross(join))
    }
}

impl<'p> Window<'p> {
    fn of(plan: &'p Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
            return Some(Self {
                functions: window.window_expr(),
                input: window.input(),
                bounded: true,
            });
        }
        let window = plan.downcast_ref::<WindowAggExec>()?;
        Some(Self {
            functions: window.window_expr(),
            input: window.input(),
            bounded: false,
        })
    }

    /// Name of the node.
    pub(super) fn name(&self) -> &'static str {
        match self.bounded {
            true => "BoundedWindowAggExec",
            false => "WindowAggExec",
        }
    }
}
