//! Joins whose build side does not fit device memory: they run part after part.
//!
//! ```text
//! build side    rows by the hash of their key, counted ── ranges of hashes whose rows fit
//!
//! for each range:   build side    the rows within ── table ──┐
//!                   rows          those within ── look it up ─┴── the sink, which stays from part to part
//! ```
//!
//! Rows of equal keys are in one part, so every kind of join is right: a row that has no partner in its part
//! has none at all. Both sides are read once for each part, from where they are: columns stream from host
//! memory, and what other pipelines left on the device is a working region, which moves to the host and back.
//! So does the sink between two parts, while the next build side is made. Each part has a table of keys of
//! one size, and so one kernel is bound to all of them. Rows that are returned need no sink that stays: they
//! leave part by part.
//!
//! Where a pipeline has two such joins, each part of the larger one's build side meets each part of the
//! other's, which is made anew for it.
//!
//! If the rows of a single key exceed the memory of a part, the run fails without memory and the subtree
//! runs on the CPU.

use super::attempt::{Shrinking, repeat_async};
use super::error::Failure;
use super::executor::{Executor, MAX_PAIRS, Work, chunks, pairs_view};
use super::part_run::{Carried, PartRun};
use super::run::{Output, Run};
use crate::device::RunError;
use crate::graph::{Pipeline, PipelineGraph, PipelineRef};
use crate::joins::build_table::SideRows;
use crate::joins::out_of_core::{PartedJoin, counting, row_bytes, spreads};
use crate::report::RunReport;
use crate::results::queue::ResultQueue;
use arrow::array::AsArray;
use arrow::datatypes::{Int32Type, Int64Type};
use futures::FutureExt;
use futures::future::BoxFuture;
use galatea_base::policy::policy;
use galatea_base::reason::size;
use galatea_expression::{BUCKETS, Expr};
use galatea_store::TableView;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

policy! {
    /// Joins that run part after part.
    pub(super) struct PartPolicy {
        /// Divisor of device memory: the build side and the probe side of a part may each take the quotient.
        memory: u64 = 4,
        /// Divisor of that memory after an attempt that failed without memory.
        less: u64 = 4,
        /// Attempts in parts at most.
        tries: u32 = 3,
        /// Joins of a pipeline that run in parts at most: those with the largest build sides.
        joins: usize = 2,
    }
}

const POLICY: PartPolicy = PartPolicy::DEFAULT;

/// An attempt to run a pipeline that joins.
#[derive(Debug, Clone, Copy)]
enum JoinAttempt {
    /// All rows at once; with the memory of the next attempt in parts, if a predicted one has failed.
    Whole(Option<Shrinking>),
    /// Its joins in parts.
    InParts(Parts),
}

/// How a pipeline runs with its joins in parts.
#[derive(Debug, Clone, Copy)]
struct Parts {
    /// The memory that the build side of a part may take.
    memory: Shrinking,
    /// How often the parts have begun again with more memory for strings.
    begun_again: u32,
    /// Whether the parts were predicted, and no run over all rows has failed.
    predicted: bool,
}

/// A join that runs part after part.
struct Cut {
    join: PartedJoin,
    /// The number of its build side, or of its pairs, among what the pipeline looks up.
    side: usize,
    /// Each a range of the parts of all hashes.
    ranges: Vec<Range<u32>>,
    /// Rows of the build side in a part, at most.
    most: u64,
    /// Rows of the build side.
    rows: u64,
    /// Pairs at most, and rows without any.
    pairs: u64,
}

/// The graph, with that pipeline's rows in any order.
fn unsorted(pipeline: PipelineRef<'_>) -> PipelineGraph {
    let mut graph = pipeline.graph().clone();
    graph.pipeline_mut(pipeline.id()).unsort();
    graph
}

/// The part of each join in the combination of that number: those of the last join change fastest.
fn combination(cuts: &[Cut], number: usize) -> Vec<usize> {
    let mut rest = number;
    let mut parts = vec![0; cuts.len()];
    for (cut, part) in cuts.iter().zip(&mut parts).rev() {
        *part = rest % cut.ranges.len();
        rest /= cut.ranges.len();
    }
    parts
}

impl Executor<'_> {
    /// Runs a pipeline after those of its build sides; `keep`: its groups stay on the device. Where memory is
    /// too small for that, its joins run part after part.
    pub(super) fn run<'s>(
        &'s self,
        pipeline: PipelineRef<'s>,
        keep: bool,
    ) -> BoxFuture<'s, Result<(Output, RunReport), Failure>> {
        let run = move |attempt| {
            let outcome = async move {
                let outcome = match attempt {
                    JoinAttempt::Whole(_) => self.run_whole(pipeline, keep).await,
                    JoinAttempt::InParts(parts) => self.in_parts(pipeline, keep, parts).await,
                };
                outcome.map_err(|failure| (attempt, failure))
            };
            outcome.boxed()
        };
        let next = move |attempt, failure| self.in_parts_after(pipeline, attempt, failure);
        let outcome = repeat_async(self.first_attempt(pipeline), run, next);
        outcome
            .map(|outcome| outcome.map_err(|(_, failure)| failure))
            .boxed()
    }

    /// The first attempt: in parts, if a build side is predicted to exceed device memory.
    fn first_attempt(&self, pipeline: PipelineRef<'_>) -> JoinAttempt {
        let memory = PartedJoin::are_predicted(pipeline)
            .then(|| self.first_parts())
            .flatten();
        memory.map_or(JoinAttempt::Whole(None), |memory| {
            JoinAttempt::InParts(Parts {
                memory,
                begun_again: 0,
                predicted: true,
            })
        })
    }

    /// The memory of the first attempt in parts.
    fn first_parts(&self) -> Option<Shrinking> {
        let device = self.session.engine().device(self.config);
        let limit = device.map_or(0, |device| device.device().budget().limit());
        Shrinking::new(limit / POLICY.memory, POLICY.less, POLICY.tries)
    }

    /// The attempt after one that failed without memory: its joins in parts, smaller than before. There is
    /// none if no join has keys, or once rows were read.
    fn in_parts_after(
        &self,
        pipeline: PipelineRef<'_>,
        attempt: JoinAttempt,
        failure: Failure,
    ) -> Result<JoinAttempt, (JoinAttempt, Failure)> {
        let is_root = pipeline.id() == pipeline.graph().root_id();
        let restart = || !is_root || self.result.restart_all();
        let next = match (attempt, &failure) {
            (JoinAttempt::Whole(memory), failure)
                if failure.wants_memory() && !PartedJoin::of(pipeline).is_empty() =>
            {
                let memory = memory.or_else(|| self.first_parts());
                memory.map(|memory| {
                    JoinAttempt::InParts(Parts {
                        memory,
                        begun_again: 0,
                        predicted: false,
                    })
                })
            }
            // The sink of all parts holds the strings.
            (JoinAttempt::InParts(parts), Failure::Run(RunError::TextsFull)) => {
                let begun_again = parts.begun_again + 1;
                Some(JoinAttempt::InParts(Parts { begun_again, ..parts }))
            }
            // The prediction may be wrong, and a refusal be one of parts alone.
            (JoinAttempt::InParts(parts), failure)
                if parts.predicted
                    && (failure.wants_memory()
                        || matches!(failure, Failure::Run(RunError::Unsupported(_)))) =>
            {
                Some(JoinAttempt::Whole(parts.memory.next()))
            }
            (JoinAttempt::InParts(parts), failure) if failure.wants_memory() => {
                let memory = parts.memory.next();
                memory.map(|memory| JoinAttempt::InParts(Parts { memory, ..parts }))
            }
            _ => None,
        };
        next.filter(|_| restart()).ok_or((attempt, failure))
    }

    /// Runs a pipeline with its joins in parts.
    async fn in_parts(
        &self,
        pipeline: PipelineRef<'_>,
        keep: bool,
        parts: Parts,
    ) -> Result<(Output, RunReport), Failure> {
        let mut joins = PartedJoin::of(pipeline);
        joins.truncate(POLICY.joins);
        // Drops the views that the failed attempt loaded, and the reports of its pipelines.
        let (id, below) = (pipeline.id(), pipeline.with_below());
        (self.ready.lock().views).retain(|pipeline, _| !below.contains(pipeline));
        (self.builds.lock()).retain(|build| build.pipeline == id || !below.contains(&build.pipeline));
        let cuts = self.cuts(pipeline, &joins, parts.memory.bytes).await?;
        self.by_parts(pipeline, keep, &cuts, parts.begun_again).await
    }

    /// The joins whose build side takes more than so many bytes, by parts that take no more; where none does,
    /// the one with the largest.
    async fn cuts(
        &self,
        pipeline: PipelineRef<'_>,
        joins: &[PartedJoin],
        bytes: u64,
    ) -> Result<Vec<Cut>, Failure> {
        let (mut cuts, mut refused) = (Vec::new(), None);
        for join in joins {
            match self.parts(pipeline, *join, bytes).await {
                Ok(cut) => cuts.push(cut),
                // The others may be what is too large.
                Err(failure) if failure.wants_memory() => refused = Some(failure),
                Err(failure) => return Err(failure),
            }
        }
        if cuts.iter().any(|cut| cut.ranges.len() > 1) {
            cuts.retain(|cut| cut.ranges.len() > 1);
        }
        match refused {
            Some(failure) if cuts.is_empty() => Err(failure),
            _ => Ok(cuts),
        }
    }

    /// Runs a pipeline over each part of a join, and there over each part of the next one; it has done so
    /// before as often as said, without room for its texts.
    async fn by_parts(
        &self,
        pipeline: PipelineRef<'_>,
        keep: bool,
        cuts: &[Cut],
        begun_again: u32,
    ) -> Result<(Output, RunReport), Failure> {
        let started = Instant::now();
        let device = self
            .session
            .engine()
            .device(self.config)
            .map_err(RunError::Unsupported)?;
        let spilled = || {
            let counts = device.memory().spilled();
            counts.to_memory + counts.to_files
        };
        let before = spilled();
        // The order is the business of what is above.
        let unsorted = pipeline.top().map(|_| unsorted(pipeline));
        let pipeline = unsorted
            .as_ref()
            .map_or(pipeline, |graph| graph.pipeline(pipeline.id()));
        let plan = pipeline.plan.resolved().map_err(Failure::Input)?;
        let is_cut = |number: usize| cuts.iter().any(|cut| cut.side == number);
        let mut sides: Vec<Option<SideRows>> = Vec::new();
        for number in 0..pipeline.dimensions.len() {
            sides.push(match is_cut(number) {
                true => None,
                false => Some(self.side(pipeline, number, plan.lookups_of(number)).await?),
            });
        }
        let pairs = cuts.iter().find(|cut| cut.join == PartedJoin::Pairs);
        let view = match pairs {
            Some(_) => None,
            None => {
                let rows = sides[pipeline.row_sides.clone()].iter().flatten();
                let rows: Vec<u64> = rows.map(SideRows::rows).collect();
                Some(self.view(pipeline, &plan, &rows).await?)
            }
        };
        let carried = Arc::new(Mutex::new(None));
        let mut all: Option<(Output, RunReport)> = None;
        let all_parts: usize = cuts.iter().map(|cut| cut.ranges.len()).product();
        // The parts that the build sides are of.
        let mut made = Vec::new();
        for number in 0..all_parts {
            let parts = combination(cuts, number);
            for ((cut, part), made) in cuts.iter().zip(&parts).zip(&made) {
                // Its memory is free before another part's build side is made.
                if part != made {
                    sides[cut.side] = None;
                }
            }
            let mut graph = pipeline.graph().clone();
            for (cut, part) in cuts.iter().zip(&parts) {
                cut.join
                    .restrict(&mut graph, pipeline.id(), &cut.ranges[*part], cut.most);
            }
            let part = graph.pipeline(pipeline.id());
            made = parts;
            for cut in cuts {
                if sides[cut.side].is_none() {
                    let side = self.side(part, cut.side, plan.lookups_of(cut.side)).await?;
                    sides[cut.side] = Some(side);
                }
            }
            let view = match (
                &view,
                pairs.and_then(|cut| Some((cut, sides[cut.side].as_ref()?))),
            ) {
                (Some(view), _) => view.clone(),
                (None, Some((cut, of_part))) => TableView {
                    // Kernels of all parts are bound to as many.
                    rows: cut.pairs,
                    ..pairs_view(of_part.rows()).map_err(Failure::Run)?
                },
                (None, None) => unreachable!("pairs that are cut are a build side"),
            };
            let last = number + 1 == all_parts;
            let state = (view, sides.into_iter().flatten().collect(), Arc::clone(&carried));
            let done = all.as_ref().map_or(0, |(output, _)| output.rows());
            let (output, report, back) = self.part(part, keep, state, (done, last, begun_again)).await?;
            sides = back.into_iter().map(Some).collect();
            all = Some(match all {
                None => (output, report),
                Some((before, mut total)) => {
                    total.add_part(&report);
                    (before.and(output), total)
                }
            });
            if pipeline.fetch.is_some_and(|fetch| {
                all.as_ref()
                    .is_some_and(|(output, _)| output.rows() >= fetch as u64)
            }) {
                break;
            }
        }
        let Some((output, mut report)) = all else {
            unreachable!("there is a part at least");
        };
        self.merge_builds();
        report.total = started.elapsed();
        let moved = spilled().saturating_sub(before);
        let told =
            |join: &str, of: &dyn Fn(&Cut) -> String| cuts.iter().map(of).collect::<Vec<_>>().join(join);
        report.partitions = Some(format!(
            "{}, one after another: {} rows on the build side, {} at a time; {} spilled",
            told(" by ", &|cut| format!("{} of d{}", cut.ranges.len(), cut.side)),
            told(" and ", &|cut| cut.rows.to_string()),
            told(" and ", &|cut| cut.most.to_string()),
            size(moved)
        ));
        Ok((output.joined(sides.into_iter().flatten().collect()), report))
    }

    /// Runs the pipeline of a part over its build sides, which come back; `done`: rows that were returned
    /// before, whether this part is the last, and how often all have begun again.
    async fn part(
        &self,
        part: PipelineRef<'_>,
        keep: bool,
        (view, sides, carried): (TableView, Vec<SideRows>, Arc<Mutex<Option<Carried>>>),
        (done, last, begun_again): (u64, bool, u32),
    ) -> Result<(Output, RunReport, Vec<SideRows>), Failure> {
        let plan = part.plan.resolved().map_err(Failure::Input)?;
        let work = Work {
            pipeline: part.id(),
            chunks: chunks(&part, &plan, &view),
            fetch: part.fetch.map(|fetch| (fetch as u64).saturating_sub(done)),
            plan,
            view,
            keep,
        };
        self.launch(work, move |run| {
            let part = PartRun::new(&carried, last, begun_again);
            let (output, report) = Run {
                sides: &sides,
                part: Some(part),
                ..*run
            }
            .execute()?;
            Ok((output, report, sides))
        })
        .await
    }

    /// Chooses the parts: as many neighbours of all 4096 together as fit.
    async fn parts(&self, pipeline: PipelineRef<'_>, join: PartedJoin, bytes: u64) -> Result<Cut, Failure> {
        let (Some(build), Some([own, met])) = (join.build(pipeline), join.keys(pipeline)) else {
            unreachable!("a join that runs in parts has keys");
        };
        let spreads = spreads(&build.plan.sink);
        let build_rows = self
            .rows_by_hash(build, &build.plan.filters, (own, spreads))
            .await?;
        let probe_rows = match join.probe(pipeline) {
            None => Vec::new(),
            Some((probe, side)) => {
                // Without what is looked up in the build side: there may be fewer, not more.
                let filters = &probe.plan.filters[..probe.plan.filters_before(side)];
                // It is not there yet, either.
                let nothing = PartedJoin::Lookup(side).without(probe);
                let probe = nothing.pipeline(probe.id());
                self.rows_by_hash(probe, filters, (met, spreads)).await?
            }
        };
        let most = bytes / row_bytes(&build.plan.sink);
        // A power of two has as many slots as it needs.
        let most = 1u64 << most.max(1).ilog2();
        let probe_most = join
            .probe(pipeline)
            .map_or(u64::MAX, |(probe, _)| bytes / row_bytes(&probe.plan.sink));
        let of = |rows: &[u64], part: usize| rows.get(part).copied().unwrap_or(0);
        let mut ranges = Vec::new();
        let (mut first, mut build_held, mut probe_held) = (0, 0, 0);
        let mut pairs = 0u64;
        for part in 0..BUCKETS as usize {
            let (own, others) = (of(&build_rows, part), of(&probe_rows, part));
            if own > most || others > probe_most {
                return Err(self.too_many(own.max(others), bytes, &build));
            }
            if build_held + own > most || probe_held + others > probe_most {
                ranges.push(first..part as u32);
                (first, build_held, probe_held) = (part as u32, 0, 0);
            }
            build_held += own;
            probe_held += others;
            let both = own.saturating_mul(others);
            pairs = pairs
                .saturating_add(both)
                .saturating_add(own)
                .saturating_add(others);
        }
        ranges.push(first..BUCKETS);
        Ok(Cut {
            join,
            side: match join {
                PartedJoin::Lookup(side) => side,
                PartedJoin::Pairs => pipeline.row_sides.start,
            },
            ranges,
            most,
            rows: build_rows.iter().sum(),
            pairs: pairs.min(MAX_PAIRS),
        })
    }

    /// The failure of a part that has too many rows.
    fn too_many(&self, rows: u64, bytes: u64, build: &Pipeline) -> Failure {
        let limit = self.session.engine().device(self.config);
        let limit = limit.map_or(0, |device| device.device().budget().limit());
        Failure::Run(RunError::Memory {
            what: "rows of one part of a join, most of them with equal keys,",
            needed: rows.saturating_mul(row_bytes(&build.plan.sink)),
            available: bytes,
            limit,
            query: Box::default(),
        })
    }

    /// The rows of a pipeline that pass these filters, by the part of the hashes of their keys.
    async fn rows_by_hash(
        &self,
        pipeline: PipelineRef<'_>,
        filters: &[Expr],
        (key, spreads): (&Expr, bool),
    ) -> Result<Vec<u64>, Failure> {
        let queue = Arc::new(ResultQueue::whole());
        let executor = Executor {
            result: &queue,
            builds: Mutex::default(),
            ready: Arc::clone(&self.ready),
            cancelled: Arc::clone(&self.cancelled),
            ..*self
        };
        let counting = counting(pipeline, filters, key, spreads);
        executor.run(counting.pipeline(pipeline.id()), false).await?;
        let mut rows = vec![0; BUCKETS as usize];
        while let Some(batch) = queue.next() {
            let parts = batch.column(0).as_primitive::<Int32Type>().values();
            let counts = batch.column(1).as_primitive::<Int64Type>().values();
            for (part, count) in parts.iter().zip(counts) {
                rows[*part as usize] += *count as u64;
            }
        }
        Ok(rows)
    }

    /// Makes one report of those of pipelines that have run once for each part.
    fn merge_builds(&self) {
        let mut builds = self.builds.lock();
        let mut merged: Vec<RunReport> = Vec::new();
        for report in builds.drain(..) {
            match merged.iter_mut().find(|known| known.pipeline == report.pipeline) {
                Some(known) => known.add_part(&report),
                None => merged.push(report),
            }
        }
        *builds = merged;
    }
}
