//! The plan node of a stream.

use super::bind::BoundStream;
use super::plan::StreamPlan;
use super::run::Run;
use super::settings::StreamSettings;
use super::sink::StreamMetrics;
use crate::config::{DeviceChoice, GalateaConfig};
use crate::facts::Facts;
use crate::graph::PipelineGraph;
use crate::session::Session;
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, OrderingRequirements, PhysicalExpr, PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, Partitioning, PlanProperties,
};
use galatea_base::reason::{Reason, size};
use galatea_codegen::SinkPlan;
use std::fmt;
use std::sync::Arc;

/// Runs a subtree over unbounded input as a persistent operator of the device. It has one partition.
#[derive(Debug)]
pub struct GpuStreamExec {
    graph: PipelineGraph,
    plan: StreamPlan,
    bound: Arc<BoundStream>,
    settings: StreamSettings,
    session: Arc<Session>,
    config: GalateaConfig,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GpuStreamExec {
    /// The node of a subtree, equivalent to `cpu`.
    ///
    /// # Errors
    /// The reason why the subtree cannot be a persistent operator.
    pub(crate) fn new(
        graph: PipelineGraph,
        cpu: &Arc<dyn ExecutionPlan>,
        session: Arc<Session>,
        config: GalateaConfig,
    ) -> Result<Self, Reason> {
        if let SinkPlan::Aggregate { keys, .. } = &graph.root().get().plan.sink
            && let Some(made) = keys.iter().find(|key| key.is_made())
        {
            return Err(Reason::without_dictionary(made));
        }
        let plan = StreamPlan::new(graph.root())?;
        let settings = StreamSettings::of(&config);
        let bound = Arc::new(BoundStream::new(&plan, &settings)?);
        let schema = cpu.schema();
        let order = match plan.window_key() {
            // Windows are returned one after another.
            Some(key) => {
                let start: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(key).name(), key));
                let order = PhysicalSortExpr::new_default(start).asc().nulls_last();
                EquivalenceProperties::new_with_orderings(schema, [vec![order]])
            }
            None => cpu.equivalence_properties().clone(),
        };
        let unbounded = Boundedness::Unbounded {
            requires_infinite_memory: false,
        };
        Ok(Self {
            input: Arc::clone(&plan.input),
            properties: Arc::new(PlanProperties::new(
                order,
                Partitioning::UnknownPartitioning(1),
                EmissionType::Incremental,
                unbounded,
            )),
            graph,
            plan,
            bound,
            settings,
            session,
            config,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The facts that EXPLAIN prints; `spent`: also the counters of the runs.
    pub(crate) fn facts(&self, spent: bool) -> Facts {
        let mut facts = Facts::planned(self.graph.root());
        let frame = size(self.settings.frame_bytes as u64);
        facts.push(
            "runs as",
            &format!("persistent operator over a topic, frame {frame}"),
        );
        facts.push("blocks", &self.settings.blocks.to_string());
        if let Some(windows) = self.plan.windows() {
            facts.push("windows", &windows);
            facts.push("late rows", &format!("kept up to {} ms", self.settings.lateness));
        }
        if self.config.device == DeviceChoice::Emulated {
            facts.push("device", "emulated");
        }
        for (name, count) in StreamMetrics::counts(&self.metrics).into_iter().filter(|_| spent) {
            facts.push(name, &count.to_string());
        }
        facts
    }

    /// CUDA C++ source of its kernel.
    pub fn source(&self) -> String {
        self.bound.kernel()
    }
}

impl DisplayAs for GpuStreamExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let facts = self.facts(false);
        if matches!(format, DisplayFormatType::TreeRender) {
            let mut lines = facts.0.iter();
            return lines.try_for_each(|fact| writeln!(f, "{}={}", fact.name, fact.values()));
        }
        write!(f, "GpuStreamExec: {facts}")
    }
}

impl ExecutionPlan for GpuStreamExec {
    fn name(&self) -> &str {
        "GpuStreamExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        // Partitions are merged in their order, if they have one.
        vec![
            self.plan
                .input
                .output_ordering()
                .cloned()
                .map(OrderingRequirements::from),
        ]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.plan.window_key().is_none()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    galatea_store::one_child!(self.input, |input| Arc::new(Self {
        graph: self.graph.clone(),
        plan: self.plan.clone(),
        bound: Arc::clone(&self.bound),
        settings: self.settings,
        session: Arc::clone(&self.session),
        config: self.config.clone(),
        input,
        properties: Arc::clone(&self.properties),
        metrics: ExecutionPlanMetricsSet::new(),
    }));
    galatea_store::no_expressions!();

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        galatea_store::check_partition(self, partition)?;
        let device = self.session.engine().device(&self.config);
        let runtime = device.map_err(|reason| DataFusionError::External(Box::new(reason)))?;
        let run = Run {
            bound: Arc::clone(&self.bound),
            settings: self.settings,
            schema: Arc::clone(self.properties.eq_properties.schema()),
            runtime,
            metrics: StreamMetrics::new(&self.metrics),
        };
        let schema = Arc::clone(&run.schema);
        let batches = run.start(self.input.execute(0, context)?)?;
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
