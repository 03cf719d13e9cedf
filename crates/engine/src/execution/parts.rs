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
//! What cannot be made smaller so is a key whose rows alone are too many: the run fails as one without
//! memory, and the CPU answers.

use super::built::SideRows;
use super::error::{Failure, RunError};
use super::graph::{Graph, MAX_PAIRS, Work, chunks, pairs_view};
use super::part_plan::{PartedJoin, counting, row_bytes, spreads};
use super::part_run::{Carried, PartRun};
use super::result_queue::ResultQueue;
use super::run::{Output, Run};
use super::run_report::RunReport;
use crate::expression::{BUCKETS, Expr};
use crate::placement::{PipelineSource, Subtree};
use crate::policy::policy;
use crate::reason::size;
use arrow::array::AsArray;
use arrow::datatypes::{Int32Type, Int64Type};
use galatea_store::TableView;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

policy! {
    /// Joins that run part after part.
    pub(super) struct PartPolicy {
        /// Part of device memory that the build side of a part may take, and its probe side: one so-many-th.
        memory: u64 = 4,
        /// How much less is tried where that is too much.
        less: u64 = 4,
        /// How often less is tried.
        tries: u32 = 3,
        /// How many joins of a pipeline are tried, those with the largest build sides.
        joins: usize = 2,
    }
}

const POLICY: PartPolicy = PartPolicy::DEFAULT;

/// The parts of a join.
struct Parts {
    /// Each a range of the parts of all hashes.
    ranges: Vec<Range<u32>>,
    /// Rows of the build side in a part, at most.
    most: u64,
    /// Rows of the build side.
    rows: u64,
    /// Pairs at most, and rows without any.
    pairs: u64,
}

impl Graph<'_> {
    /// Runs a subtree that has failed for want of memory with a join of it part after part, if it has one.
    pub(super) async fn in_parts(
        &self,
        subtree: &Subtree,
        keep: bool,
        at: Vec<usize>,
        mut failure: Failure,
    ) -> Result<(Output, RunReport), Failure> {
        let mut joins = PartedJoin::of(subtree);
        // The other ones have fewer rows.
        joins.truncate(POLICY.joins);
        // What was loaded for other columns, and what was told of pipelines that have run in vain.
        self.ready.lock().views.retain(|place, _| !place.starts_with(&at));
        (self.builds.lock()).retain(|build| build.side == at || !build.side.starts_with(&at));
        for join in joins {
            let device = self.runtime.device(self.config);
            let limit = device.map_or(0, |device| device.device().budget().limit());
            let mut bytes = limit / POLICY.memory;
            for _ in 0..POLICY.tries {
                // Rows that were read cannot be taken back.
                if at.is_empty() && !self.result.restart() {
                    return Err(failure);
                }
                match self.by_parts(subtree, keep, &at, join, bytes).await {
                    Err(error) if error.wants_memory() => failure = error,
                    outcome => return outcome,
                }
                bytes /= POLICY.less;
            }
        }
        Err(failure)
    }

    /// Runs a subtree with a join part after part, whose build side may take so many bytes at a time.
    async fn by_parts(
        &self,
        subtree: &Subtree,
        keep: bool,
        at: &[usize],
        join: PartedJoin,
        bytes: u64,
    ) -> Result<(Output, RunReport), Failure> {
        let started = Instant::now();
        let Parts {
            ranges,
            most,
            rows,
            pairs,
        } = self.parts(subtree, at, join, bytes).await?;
        let device = self.runtime.device(self.config).map_err(RunError::Unsupported)?;
        let spilled = || {
            let counts = device.memory().spilled();
            counts.to_memory + counts.to_files
        };
        let before = spilled();
        let parted = match join {
            PartedJoin::Lookup(side) => side,
            PartedJoin::Pairs => subtree.dimensions.len() - 1,
        };
        // The order is the business of what is above.
        let unsorted = subtree.top().map(|_| subtree.unsorted());
        let subtree = unsorted.as_ref().unwrap_or(subtree);
        let plan = subtree.plan.resolved().map_err(Failure::Input)?;
        let mut sides = Vec::new();
        for (number, source) in subtree.dimensions.iter().enumerate() {
            if number != parted {
                let at = [at, &[number]].concat();
                sides.push(self.side(source, plan.lookups_of(number), at).await?);
            }
        }
        let view = match subtree.source {
            PipelineSource::Pairs(_) => None,
            _ => Some(self.view(subtree, &plan, at, &sides).await?),
        };
        let carried = Arc::new(Mutex::new(None));
        let mut all: Option<(Output, RunReport)> = None;
        for (number, range) in ranges.iter().enumerate() {
            let part = join.over(subtree, range, most);
            let source = &part.dimensions[parted];
            let side = [at, &[parted]].concat();
            sides.insert(parted, self.side(source, plan.lookups_of(parted), side).await?);
            let view = match (&view, sides.last()) {
                (Some(view), _) => view.clone(),
                (None, Some(of_part)) => TableView {
                    // Kernels of all parts are bound to as many.
                    rows: pairs,
                    ..pairs_view(of_part.rows()).map_err(Failure::Run)?
                },
                (None, None) => unreachable!("pairs are the last build side"),
            };
            let last = number + 1 == ranges.len();
            let state = (view, sides, Arc::clone(&carried));
            let done = all.as_ref().map_or(0, |(output, _)| output.rows());
            let (output, report, back) = self.part(&part, keep, state, (done, last)).await?;
            sides = back;
            all = Some(match all {
                None => (output, report),
                Some((before, mut total)) => {
                    total.add_part(&report);
                    (before.and(output), total)
                }
            });
            if subtree.fetch.is_some_and(|fetch| {
                all.as_ref()
                    .is_some_and(|(output, _)| output.rows() >= fetch as u64)
            }) {
                break;
            }
            if !last {
                drop(sides.remove(parted));
            }
        }
        let Some((output, mut report)) = all else {
            unreachable!("there is a part at least");
        };
        self.merge_builds();
        report.total = started.elapsed();
        let moved = spilled().saturating_sub(before);
        report.partitions = Some(format!(
            "{} of d{parted}, one after another: {rows} rows of its build side, {most} at a time; {} spilled",
            ranges.len(),
            size(moved)
        ));
        Ok((output.joined(sides), report))
    }

    /// Runs the pipeline of a part over its build sides, which come back; `done`: rows that were returned
    /// before, and whether this part is the last.
    async fn part(
        &self,
        part: &Subtree,
        keep: bool,
        (view, sides, carried): (TableView, Vec<SideRows>, Arc<Mutex<Option<Carried>>>),
        (done, last): (u64, bool),
    ) -> Result<(Output, RunReport, Vec<SideRows>), Failure> {
        let plan = part.plan.resolved().map_err(Failure::Input)?;
        let work = Work {
            chunks: chunks(part, &plan, &view),
            fetch: part.fetch.map(|fetch| (fetch as u64).saturating_sub(done)),
            plan,
            view,
            keep,
        };
        self.launch(work, move |run| {
            let part = PartRun::new(&carried, last);
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
    async fn parts(
        &self,
        subtree: &Subtree,
        at: &[usize],
        join: PartedJoin,
        bytes: u64,
    ) -> Result<Parts, Failure> {
        let (Some(build), Some([own, met])) = (join.build(subtree), join.keys(subtree)) else {
            unreachable!("a join that runs in parts has keys");
        };
        let spreads = spreads(&build.plan.sink);
        let (probe_at, build_at) = join.places(subtree, at.to_vec());
        let build_rows = self
            .rows_by_hash(build, &build.plan.filters, (own, spreads), build_at)
            .await?;
        let probe_rows = match join.probe(subtree) {
            None => Vec::new(),
            Some((probe, side)) => {
                // Without what is looked up in the build side: there may be fewer, not more.
                let filters = &probe.plan.filters[..probe.plan.filters_before(side)];
                // It is not there yet, either.
                let nothing = PartedJoin::Lookup(side).without(probe);
                self.rows_by_hash(&nothing, filters, (met, spreads), probe_at)
                    .await?
            }
        };
        let most = bytes / row_bytes(&build.plan.sink);
        // A power of two has as many slots as it needs.
        let most = 1u64 << most.max(1).ilog2();
        let probe_most = join
            .probe(subtree)
            .map_or(u64::MAX, |(probe, _)| bytes / row_bytes(&probe.plan.sink));
        let of = |rows: &[u64], part: usize| rows.get(part).copied().unwrap_or(0);
        let mut ranges = Vec::new();
        let (mut first, mut build_held, mut probe_held) = (0, 0, 0);
        let mut pairs = 0u64;
        for part in 0..BUCKETS as usize {
            let (own, others) = (of(&build_rows, part), of(&probe_rows, part));
            if own > most || others > probe_most {
                return Err(self.too_many(own.max(others), bytes, build));
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
        Ok(Parts {
            ranges,
            most,
            rows: build_rows.iter().sum(),
            pairs: pairs.min(MAX_PAIRS),
        })
    }

    /// The failure of a part that has too many rows.
    fn too_many(&self, rows: u64, bytes: u64, build: &Subtree) -> Failure {
        let limit = self.runtime.device(self.config);
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
        subtree: &Subtree,
        filters: &[Expr],
        (key, spreads): (&Expr, bool),
        at: Vec<usize>,
    ) -> Result<Vec<u64>, Failure> {
        let queue = Arc::new(ResultQueue::whole());
        let graph = Graph {
            result: &queue,
            builds: Mutex::default(),
            ready: Arc::clone(&self.ready),
            cancelled: Arc::clone(&self.cancelled),
            ..*self
        };
        graph
            .run(&counting(subtree, filters, key, spreads), false, at)
            .await?;
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
            match merged.iter_mut().find(|known| known.side == report.side) {
                Some(known) => known.add_part(&report),
                None => merged.push(report),
            }
        }
        *builds = merged;
    }
}
