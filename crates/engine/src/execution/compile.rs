//! Compiles the kernels of a graph in parallel, before its first pipeline runs.
//!
//! A pipeline is bound to the shapes of its build sides. These are available as soon as the pipelines that
//! compute them are bound. Therefore binding proceeds from the leaves upwards, which takes about a
//! millisecond per pipeline, and meanwhile every kernel is compiled on its own thread. Otherwise each
//! pipeline would be compiled only when its build sides are complete, one after the other.
//!
//! A pipeline over the rows of other pipelines is bound to their expected number, with a margin if it is an
//! estimate: a kernel can be used for fewer rows than it is bound to. If there are more rows, the run binds
//! and compiles the pipeline again, and so do all pipelines above it, one after the other.
//!
//! Tables that are loaded and rows that are collected in this phase are kept for the run. The run does not
//! depend on them: if a shape turns out to differ, or something fails, the run compiles or fails itself.

use super::executor::{Executor, pairs_view};
use super::pipeline_run::Run;
use super::source::{entries, parts};
use crate::device::DeviceRuntime;
use crate::graph::{KeyBounds, PipelineGraph, PipelineId, PipelineRef, PipelineSource};
use crate::report::QueryStep;
use crate::results::queue::ResultQueue;
use futures::future::{BoxFuture, join, join_all};
use futures::lock::Mutex as AsyncMutex;
use galatea_codegen::bound::{BoundPipeline, ResultPlan};
use galatea_codegen::build_plan::{ProbePlan, pairs_side};
use galatea_codegen::sink::hash::slots_for;
use galatea_codegen::strategy::Strategy;
use galatea_codegen::{PipelinePlan, RowOrder, SinkPlan, kept_groups};
use galatea_expression::{BuiltColumn, LookupSide};
use galatea_store::TableView;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use tokio::task::JoinSet;

/// Rows that a pipeline is expected to leave on the device if there is no estimate.
const EXPECTED: u64 = 1 << 16;

/// Pipelines are bound to this multiple of an estimate of their rows.
const MARGIN: u64 = 4;

/// The most rows that are expected: a chunk has at most 2^32.
const MOST: u64 = 1 << 31;

/// The state of compiling a graph.
struct Ahead {
    /// Compilers that are running.
    compilers: Mutex<JoinSet<()>>,
    /// The shapes of pipelines with several readers, once they are bound; `None` inside if binding failed.
    shared: BTreeMap<PipelineId, AsyncMutex<Option<Option<Shape>>>>,
}

impl Executor<'_> {
    /// Compiles the kernels of a graph, unless they are already compiled or the graph has only one.
    pub(super) async fn compile_ahead(&self, graph: &PipelineGraph) {
        let started = Instant::now();
        if graph.pipelines().nth(1).is_none() {
            return;
        }
        let Some(device) = self.device().await else { return };
        if self.has_run(&device, graph.root()) {
            return;
        }
        self.stamp_key_scans(graph, |_| true);
        let ahead = Ahead {
            compilers: Mutex::default(),
            shared: (graph.shared().into_keys().map(|id| (id, AsyncMutex::default()))).collect(),
        };
        let _shape = self.bind_ahead(&device, graph.root(), &ahead).await;
        let load = started.elapsed();
        self.report.comes_to(QueryStep::Compiling, 0, None);
        let mut compilers = ahead.compilers.into_inner();
        while compilers.join_next().await.is_some() {}
        let compile = started.elapsed().saturating_sub(load);
        self.report.update(|report| {
            report.phases.load += load;
            report.phases.compile += compile;
        });
    }

    /// The device, opened if necessary.
    pub(super) async fn device(&self) -> Option<Arc<DeviceRuntime>> {
        let (engine, config) = (Arc::clone(self.session.engine()), self.config.clone());
        if let Some(device) = engine.opened(&config) {
            return Some(device);
        }
        let opened = tokio::task::spawn_blocking(move || engine.device(&config).ok());
        opened.await.ok().flatten()
    }

    /// Whether a graph with this root has run before, so that its pipelines are compiled.
    fn has_run(&self, device: &DeviceRuntime, root: PipelineRef<'_>) -> bool {
        match root.shape {
            Some(shape) => self.session.engine().history().is_compiled(shape),
            None => (root.plan.resolved()).is_ok_and(|plan| device.prepared().knows(&plan)),
        }
    }

    /// Binds a pipeline after the pipelines of its build sides, and starts a compiler for it. Returns the
    /// pipeline's result as a build side of other pipelines.
    fn bind_ahead<'s>(
        &'s self,
        device: &'s Arc<DeviceRuntime>,
        pipeline: PipelineRef<'s>,
        ahead: &'s Ahead,
    ) -> BoxFuture<'s, Option<Shape>> {
        Box::pin(async move {
            let plan = pipeline.plan.resolved().ok()?;
            let matches = self.matches_ahead(pipeline, &plan).await;
            let sides = 0..pipeline.build_sides.len();
            let shapes = sides
                .map(|number| self.shape_ahead(device, (pipeline, number), plan.lookups_of(number), ahead));
            let (shapes, table) = join(join_all(shapes), self.table_ahead(pipeline, &plan, matches)).await;
            let sides = shapes.into_iter().collect::<Option<Vec<Shape>>>()?;
            let view = match table {
                Some(table) => table?,
                None => expected(pipeline, &sides)?,
            };
            let shapes: Vec<_> = sides.iter().map(|side| Arc::clone(&side.side)).collect();
            let chunks: Vec<usize> = (0..view.chunk_rows.len()).collect();
            let whole = ResultQueue::whole();
            let cancelled = AtomicBool::new(false);
            let run = Run {
                runtime: device,
                config: self.config,
                pipeline: pipeline.id(),
                plan: &plan,
                view: &view,
                sides: &[],
                chunks: &[],
                keep: false,
                fetch: pipeline.fetch.map(|fetch| fetch as u64),
                counted: None,
                cancelled: &cancelled,
                result: &whole,
                progress: self.report,
                part: None,
            };
            let options = run.kernel_options();
            let least_slots = self.config.hash_slots.0;
            let shape = |bound: &BoundPipeline| Shape::of(bound, &sides, least_slots);
            let shape = (device.prepared())
                .with_bound(&plan, &view, &shapes, options, shape)
                .ok()?;
            let kernels = match &plan.sink {
                // The first rows of an order are found by separate kernels.
                SinkPlan::Rows {
                    outputs,
                    order: Some(RowOrder::First(top)),
                } => {
                    let run = Run {
                        chunks: &chunks,
                        ..run
                    };
                    run.kernels_for_top(outputs, top)
                }
                _ => vec![(plan.clone(), view.clone(), options)],
            };
            for (plan, view, options) in kernels {
                let (device, shapes) = (Arc::clone(device), shapes.clone());
                ahead.compilers.lock().spawn_blocking(move || {
                    let prepared = device.prepared();
                    let made = prepared.prepare_ahead(device.device(), &plan, &view, &shapes, options);
                    if let Err(error) = made {
                        tracing::debug!(%error, "a kernel was not compiled ahead");
                    }
                });
            }
            shape
        })
    }

    /// The shape of the build side with this number and with these `columns`.
    async fn shape_ahead(
        &self,
        device: &Arc<DeviceRuntime>,
        (pipeline, number): (PipelineRef<'_>, usize),
        columns: Vec<usize>,
        ahead: &Ahead,
    ) -> Option<Shape> {
        match pipeline.build(number) {
            Some(build) => match ahead.shared.get(&build.id()) {
                Some(shape) => {
                    let mut shape = shape.lock().await;
                    if shape.is_none() {
                        *shape = Some(self.bind_ahead(device, build, ahead).await);
                    }
                    shape.clone().flatten()
                }
                None => self.bind_ahead(device, build, ahead).await,
            },
            None => {
                let rows = self.collected_ahead(pipeline, number, columns).await;
                rows.map(Shape::from)
            }
        }
    }

    /// The rows of the build side with this number and with these `columns`, collected from CPU operators and
    /// kept for the run.
    async fn collected_ahead(
        &self,
        pipeline: PipelineRef<'_>,
        number: usize,
        columns: Vec<usize>,
    ) -> Option<Arc<LookupSide>> {
        let at = (pipeline.id(), number);
        let ready = self.ready.lock().collected(at, &columns);
        if let Some(rows) = ready {
            return rows;
        }
        let source = &pipeline.get().build_sides[number];
        let rows = self.collected(source, columns.clone()).await;
        let collected = rows.as_ref().ok().map(Arc::clone);
        self.ready.lock().keep_rows(at, columns, rows);
        collected
    }

    /// The bounds of the columns of a table in files that the keys of build sides imply. The rows of build
    /// sides on the host are collected, and the keys of small ones on the device scanned, so that the table
    /// is loaded for the rows with a match only.
    async fn matches_ahead(&self, pipeline: PipelineRef<'_>, plan: &PipelinePlan) -> Vec<KeyBounds> {
        if !matches!(pipeline.source, PipelineSource::Files { .. }) {
            return Vec::new();
        }
        let columns: BTreeMap<usize, usize> = pipeline.matched_columns(plan).into_iter().collect();
        let keys = columns.into_iter().map(|(number, column)| async move {
            let keys = match pipeline.build(number) {
                Some(_) => self.scan_keys(pipeline, plan, (number, column)).await,
                None => {
                    let rows = self.collected_ahead(pipeline, number, plan.lookups_of(number));
                    rows.await.and_then(|rows| rows.key_range())
                }
            };
            (number, keys)
        });
        let keys: BTreeMap<usize, _> = join_all(keys).await.into_iter().collect();
        pipeline.match_bounds(plan, |number| keys.get(&number)?.clone())
    }

    /// The table that a pipeline scans; `None` if it scans rows of other pipelines, and `None` inside if the
    /// table does not stay loaded. Rows of files outside of the bounds `matches` may be left out.
    async fn table_ahead(
        &self,
        pipeline: PipelineRef<'_>,
        plan: &PipelinePlan,
        matches: Vec<KeyBounds>,
    ) -> Option<Option<TableView>> {
        let stays = match &pipeline.source {
            PipelineSource::Groups(_)
            | PipelineSource::Windows(_)
            | PipelineSource::Union(_)
            | PipelineSource::Pairs(_) => return None,
            PipelineSource::Stored(_) => true,
            PipelineSource::Files { .. } => self.config.cache_files.0,
            PipelineSource::Plan(_) => false,
        };
        if !stays {
            return Some(None);
        }
        let view = self.load(&pipeline, plan, &matches).await.ok();
        if let Some(view) = &view {
            let kept = (view.clone(), matches);
            self.ready.lock().views.insert(pipeline.id(), kept);
        }
        Some(view)
    }
}

/// A view of the rows that other pipelines, with these shapes, are expected to leave on the device.
fn expected(pipeline: PipelineRef<'_>, shapes: &[Shape]) -> Option<TableView> {
    let sides = pipeline.row_sides.clone();
    let rows = sides.map(|side| shapes[side].rows.expected(pipeline.build_sides[side].rows));
    let rows: Vec<u64> = rows.map(|rows| rows.clamp(1, MOST)).collect();
    match (&pipeline.source, rows.as_slice()) {
        (PipelineSource::Union(_), rows) => parts(rows).ok(),
        (PipelineSource::Pairs(_), [pairs]) => pairs_view(*pairs).ok(),
        (_, [rows]) => entries(*rows).ok(),
        _ => None,
    }
}

/// The shape of a build side: kernels that look it up depend on nothing else of it.
#[derive(Clone)]
struct Shape {
    side: Arc<LookupSide>,
    /// The columns of a multimap join, if it is a part of one.
    join: Option<JoinShape>,
    /// The rows of pipelines that scan it.
    rows: Entries,
}

/// The number of rows of a pipeline's result, from its bound pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entries {
    /// At most this number, which is usually reached: possible groups, or slots for all of them.
    Reached(u64),
    /// Slots of a hash table that grows with its groups.
    Growing {
        /// Slots at the beginning.
        least: u64,
        /// Sufficient slots for the groups of all rows.
        most: u64,
    },
    /// Some of this number of rows.
    Among(u64),
    /// Matches of this number of rows.
    Matches(u64),
}

impl Entries {
    /// The entries of a bound pipeline's result. `least_slots`: slots of a growing hash table at the
    /// beginning.
    fn of(bound: &BoundPipeline, least_slots: u64) -> Self {
        match (&bound.strategy, &bound.result) {
            (Strategy::Scalar, _) => Self::Reached(1),
            (Strategy::Shared(layout), _) => Self::Reached(layout.groups),
            (Strategy::Dense(layout), _) => Self::Reached(layout.groups),
            (Strategy::Hash { overflows, .. }, ResultPlan::Aggregate { key: Some(key), .. }) => {
                let most = slots_for(key.groups_among(bound.rows));
                match overflows {
                    true => Self::Growing {
                        least: least_slots,
                        most,
                    },
                    false => Self::Reached(most),
                }
            }
            (_, ResultPlan::Probe(_) | ResultPlan::Mark(_)) => Self::Matches(bound.rows),
            _ => Self::Among(bound.rows),
        }
    }

    /// The expected number, given an estimate of the rows without free slots.
    fn expected(self, estimate: Option<u64>) -> u64 {
        let estimate = estimate.unwrap_or(EXPECTED).saturating_mul(MARGIN);
        match self {
            Self::Reached(rows) => rows,
            Self::Growing { least, most } => slots_for(estimate).max(least).min(most),
            Self::Among(rows) => estimate.min(rows),
            Self::Matches(rows) => estimate.max(rows),
        }
    }
}

/// The columns of a part of a multimap join.
#[derive(Clone)]
enum JoinShape {
    /// A multimap that provides these columns.
    Multimap(Vec<BuiltColumn>),
    /// Matches of the probe side with a multimap that provides these columns.
    Pairs(ProbePlan, Vec<BuiltColumn>),
}

impl From<Arc<LookupSide>> for Shape {
    fn from(side: Arc<LookupSide>) -> Self {
        Self {
            rows: Entries::Among(side.rows()),
            side,
            join: None,
        }
    }
}

impl Shape {
    /// The shape of a pipeline's result, if binding alone determines it. `sides` are the shapes of its build
    /// sides.
    fn of(bound: &BoundPipeline, sides: &[Self], least_slots: u64) -> Option<Self> {
        let (side, join) = match &bound.result {
            ResultPlan::Build(plan) => (plan.build_side(), None),
            ResultPlan::BuildGroups(plan) => (plan.build_side(), None),
            ResultPlan::Aggregate { .. } => (kept_groups::entries(bound).ok()?, None),
            ResultPlan::Windows(plan) => (plan.build_side(), None),
            ResultPlan::Store(plan) => (plan.build_side(), None),
            ResultPlan::Multimap(plan) => {
                (plan.build_side(), Some(JoinShape::Multimap(plan.columns.clone())))
            }
            ResultPlan::Probe(probe) => match &sides.get(probe.build_side)?.join {
                Some(JoinShape::Multimap(columns)) => {
                    let pairs = JoinShape::Pairs(probe.clone(), columns.clone());
                    (pairs_side(probe, columns, None), Some(pairs))
                }
                _ => return None,
            },
            ResultPlan::Mark(mark) => match &sides.get(mark.build_side)?.join {
                Some(JoinShape::Pairs(probe, columns)) => {
                    (pairs_side(probe, columns, Some(mark.marking)), None)
                }
                _ => return None,
            },
            ResultPlan::Rows(_) | ResultPlan::Partition(_) => return None,
        };
        Some(Self {
            side: Arc::new(side),
            join,
            rows: Entries::of(bound, least_slots),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_have_a_margin_within_bounds() {
        let (few, many) = (Some(100), Some(u64::MAX));
        assert_eq!(Entries::Reached(7).expected(many), 7);
        let growing = Entries::Growing {
            least: 1024,
            most: 1 << 20,
        };
        assert_eq!(growing.expected(few), 1024);
        assert_eq!(growing.expected(Some(1000)), 8192);
        assert_eq!(growing.expected(many), 1 << 20);
        assert_eq!(growing.expected(None), 1 << 19);
        assert_eq!(Entries::Among(1000).expected(few), 400);
        assert_eq!(Entries::Among(1000).expected(many), 1000);
        assert_eq!(Entries::Matches(1000).expected(few), 1000);
        assert_eq!(Entries::Matches(1000).expected(Some(5000)), 20_000);
    }
}
