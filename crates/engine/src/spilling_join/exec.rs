//! The node above a hash join that executes it, and spills if its build side does not fit.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, JoinType, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::limit::LimitStream;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, Statistics,
    StatisticsArgs,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, TryStreamExt, stream};
use parking_lot::Mutex;

use super::buckets::Buckets;
use super::collect::Collected;
use super::join::{GraceJoin, Joined};
use super::lent::{is_bounded, sorting};
use super::source::{InputExec, held_rows};

/// Executes the hash join that is its child, and spills both sides to disk if the build side exceeds the
/// memory pool.
pub struct SpillingJoinExec {
    join: Arc<HashJoinExec>,
    child: Arc<dyn ExecutionPlan>,
    /// Whether operators above rely on the order of the join's rows.
    keeps_order: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// The build side that is shared by all partitions of the probe side.
    shared: Mutex<Option<SharedBuild>>,
}

/// A build side after it was read, for several partitions.
type SharedBuild = Shared<BoxFuture<'static, Result<Arc<Build>, Arc<DataFusionError>>>>;

enum Build {
    /// It fits: the join over it, and the context with its memory.
    Held(Box<HashJoinExec>, Arc<TaskContext>),
    /// It does not fit.
    Spilled(Buckets),
}

impl SpillingJoinExec {
    /// The node above a hash join; `None` above another node, and above joins that cannot run bucket by
    /// bucket.
    pub(super) fn above(plan: &Arc<dyn ExecutionPlan>, keeps_order: bool) -> Option<Self> {
        let any = Arc::clone(plan) as Arc<dyn std::any::Any + Send + Sync>;
        let join = any.downcast::<HashJoinExec>().ok()?;
        if join.null_aware || *join.partition_mode() == PartitionMode::Auto {
            return None;
        }
        let keeps_order = keeps_order && plan.output_ordering().is_some();
        let properties = match keeps_order {
            true => Arc::clone(join.properties()),
            false => {
                let mut equal = plan.equivalence_properties().clone();
                equal.clear_orderings();
                Arc::new(join.properties().as_ref().clone().with_eq_properties(equal))
            }
        };
        Some(Self {
            child: Arc::clone(plan),
            join,
            keeps_order,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            shared: Mutex::new(None),
        })
    }

    /// The build side of all partitions. Each partition that awaits it polls it, so none depends on another
    /// one to continue.
    fn shared_build(&self, grace: &Arc<GraceJoin>) -> Result<SharedBuild> {
        let mut shared = self.shared.lock();
        if let Some(shared) = shared.as_ref() {
            return Ok(shared.clone());
        }
        let rows = self.join.left().execute(0, Arc::clone(&grace.context))?;
        let grace = Arc::clone(grace);
        let made = async move { read_build(&grace, rows).await.map_err(Arc::new) };
        Ok(shared.insert(made.boxed().shared()).clone())
    }

    /// The rows of a partition of the join.
    fn rows(
        &self,
        partition: usize,
        context: &Arc<TaskContext>,
    ) -> Result<BoxFuture<'static, Result<Joined>>> {
        let grace = Arc::new(GraceJoin::new(&self.join, context, &self.metrics, partition));
        if *self.join.partition_mode() == PartitionMode::CollectLeft {
            let build = self.shared_build(&grace)?;
            return Ok(Box::pin(with_shared_build(grace, build, partition)));
        }
        let build = self.join.left().execute(partition, Arc::clone(context))?;
        let probe = self.join.right().execute(partition, Arc::clone(context))?;
        Ok(Box::pin(grace.run(build, probe)))
    }
}

/// Reads the build side of all partitions; writes it to buckets if it does not fit.
async fn read_build(grace: &GraceJoin, rows: SendableRecordBatchStream) -> Result<Arc<Build>> {
    let build = match grace.collect(rows).await? {
        Collected::Whole(held) => {
            let lent = grace.lend(held);
            let left = InputExec::held(lent.batches, Arc::clone(grace.build.schema()));
            let right = InputExec::plan(grace.join.right(), &grace.context);
            let join = grace.join.builder().with_new_children(vec![left, right])?;
            Build::Held(Box::new(join.build()?), lent.context)
        }
        Collected::Part(held, rest) => Build::Spilled(grace.divide_build(held, rest, 0).await?),
    };
    Ok(Arc::new(build))
}

/// The rows of a partition of a join with a build side that all partitions share.
async fn with_shared_build(grace: Arc<GraceJoin>, build: SharedBuild, partition: usize) -> Result<Joined> {
    let (join, context) = (&grace.join, &grace.context);
    let build = build.await.map_err(DataFusionError::Shared)?;
    if let Build::Held(join, context) = build.as_ref() {
        return Ok(Joined::InOrder(join.execute(partition, Arc::clone(context))?));
    }
    let probe = if !returns_build_rows(*join.join_type()) {
        join.right().execute(partition, Arc::clone(context))?
    } else if partition == 0 {
        // Rows of any partition may match a row of the build side: one partition reads them all.
        CoalescePartitionsExec::new(Arc::clone(join.right())).execute(0, Arc::clone(context))?
    } else {
        return Ok(Joined::InOrder(held_rows(Vec::new(), grace.schema())));
    };
    let rows = grace.spilled(move |join, output| {
        Box::pin(async move {
            let Build::Spilled(build) = build.as_ref() else {
                return internal_err!("a build side in memory has no buckets");
            };
            let probe = join.probe.divide(probe, 0).await?;
            join.join_buckets(build, &probe, 0, &output).await
        })
    });
    Ok(Joined::Spilled(rows))
}

/// Whether the rows of a join depend on all matches of a row of the build side.
fn returns_build_rows(join_type: JoinType) -> bool {
    matches!(
        join_type,
        JoinType::Left | JoinType::Full | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark
    )
}

/// Sorts the rows of a join that has spilled, and limits their number.
struct Finish {
    order: Option<LexOrdering>,
    fetch: Option<usize>,
    metrics: BaselineMetrics,
    context: Arc<TaskContext>,
}

impl Finish {
    fn apply(self, joined: Joined) -> Result<SendableRecordBatchStream> {
        let rows = match (joined, self.order) {
            (Joined::InOrder(rows), _) | (Joined::Spilled(rows), None) => rows,
            (Joined::Spilled(rows), Some(order)) => {
                let unordered = EquivalenceProperties::new(rows.schema());
                let sort = SortExec::new(order, InputExec::once(rows, unordered)).with_fetch(self.fetch);
                sort.execute(0, sorting(&self.context))?
            }
        };
        Ok(Box::pin(LimitStream::new(rows, 0, self.fetch, self.metrics)))
    }
}

impl fmt::Debug for SpillingJoinExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpillingJoinExec")
            .field("join", &self.join)
            .field("keeps_order", &self.keeps_order)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for SpillingJoinExec {
    fn fmt_as(&self, _format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("SpillingJoinExec")
    }
}

impl ExecutionPlan for SpillingJoinExec {
    fn name(&self) -> &str {
        "SpillingJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    galatea_store::one_child!(self.child, |child| match Self::above(&child, self.keeps_order) {
        Some(node) => Arc::new(node),
        None => child,
    });

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.keeps_order]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }
    galatea_store::no_expressions!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if !is_bounded(context.memory_pool().as_ref()) {
            return self.child.execute(partition, context);
        }
        let joined = self.rows(partition, &context)?;
        let order = self.child.output_ordering().filter(|_| self.keeps_order);
        let finish = Finish {
            order: order.cloned(),
            fetch: self.join.fetch(),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            context,
        };
        let rows = stream::once(async move { finish.apply(joined.await?) }).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.join.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&input_stats[0]))
    }
}
