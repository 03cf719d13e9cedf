//! Drives one run: admission, a retry without optional memory when the device is full, and resumption after
//! it was preempted by an earlier query.

use super::built::{BuiltSides, SideRows};
use super::interned::InternedWords;
use super::pass::{Pass, Progress};
use super::result_queue::ResultQueue;
use super::run::{LAUNCH_BYTES, Output, Run, Turn, scan_bytes};
use super::sinks::SinkState;
use super::working::SinkNeeds;
use crate::config::RowOutput;
use crate::device::demand::{Observed, Quantities, SinkMemory};
use crate::device::prepared::Prepared;
use crate::device::{QueryStreams, RunError};
use crate::metrics;
use crate::report::RunReport;
use galatea_codegen::bound::{BoundPipeline, ResultPlan};
use galatea_codegen::options::KernelOptions;
use galatea_codegen::output;
use galatea_codegen::strategy::Strategy;
use galatea_codegen::{RowOrder, SinkPlan};
use galatea_device::{DeviceError, Origin, Tier};
use galatea_memory::regions::{Ablation, Demand, PipelineName, Use};
use std::sync::Arc;
use std::time::Instant;

/// The memory of an attempt to run a pipeline.
#[derive(Debug)]
struct Attempt {
    /// Whether it takes memory that it could do without.
    optional: bool,
    /// What there is for texts of group keys that have no dictionary, once they are known to need it.
    texts: Option<InternedWords>,
}

impl Run<'_> {
    /// Runs the pipeline when its turn comes.
    pub(super) fn execute(&self) -> Result<(Output, RunReport), RunError> {
        if let SinkPlan::Materialise {
            outputs,
            order: Some(RowOrder::First(top)),
        } = &self.plan.sink
        {
            return self.execute_top(outputs, top);
        }
        match (self.execute_whole(), &self.plan.sink) {
            (
                Err(failure @ RunError::Memory { .. }),
                SinkPlan::Materialise {
                    outputs,
                    order: Some(RowOrder::All(words)),
                },
            ) if self.part.is_none() => self.execute_in_ranges(outputs, words, failure),
            (outcome, _) => outcome,
        }
    }

    /// Runs a pipeline whose rows are not the first of an order when its turn comes.
    pub(super) fn execute_whole(&self) -> Result<(Output, RunReport), RunError> {
        let memory = self.runtime.memory();
        let naive = memory.ablations().has(Ablation::Naive);
        let capacity = self.runtime.device().budget().limit();
        let (inputs, regions) = self.inputs();
        let demand = match naive {
            true => Demand::default(),
            false => self.estimate(None, inputs).demand(regions),
        };
        let name = PipelineName::new(self.pipeline.number(), self.name());
        let (priority, came) = (self.config.priority.priority(), Instant::now());
        let lease = (memory.turns()).begin(name, priority, demand, capacity, self.cancelled);
        let lease = lease.ok_or(RunError::Cancelled)?;
        metrics::waited(came.elapsed());
        let turn = Turn {
            lease: &lease,
            inputs: Some(inputs),
        };
        loop {
            match self.attempts(turn) {
                // The failed attempt has freed all of its device memory.
                Err(RunError::Memory { .. })
                    if !naive
                        && self.part.is_none()
                        && self.result.restart()
                        && lease.wait_for_room(self.cancelled) => {}
                Err(RunError::Memory {
                    what,
                    needed,
                    available,
                    limit,
                    ..
                }) => {
                    return Err(RunError::Memory {
                        what,
                        needed,
                        available,
                        limit,
                        query: self.description().into(),
                    });
                }
                outcome => return outcome,
            }
        }
    }

    /// Runs the pipeline, with less memory where it could not have as much as it would like.
    fn attempts(&self, turn: Turn<'_>) -> Result<(Output, RunReport), RunError> {
        let options = self.kernel_options();
        let tight = KernelOptions {
            hash_table_bytes: 0,
            copies_bytes: 0,
            ..options
        };
        let keep = self.config.cache_device.0 && self.part.is_none();
        let mut attempt = Attempt {
            optional: false,
            texts: None,
        };
        let full = |error| match error {
            RunError::Device(DeviceError::OutOfMemory { requested, .. }) => {
                RunError::full(self.runtime.device().budget(), "working memory", requested)
            }
            error => error,
        };
        // Parts share a sink, and memory is short.
        if let Some(part) = self.part {
            if part.begun_again > 0 {
                let first = self.words_for_texts();
                attempt.texts = Some((0..part.begun_again).fold(first, |texts, _| texts.grown()));
            }
            let row_output = match (options.row_output, self.fetch) {
                (RowOutput::Auto, None) => RowOutput::Heap,
                (asked, _) => asked,
            };
            let tight = KernelOptions { row_output, ..tight };
            return self.run_with(turn, tight, keep, &mut attempt).map_err(full);
        }
        let with_texts = |options, keep, attempt: &mut Attempt| loop {
            match self.run_with(turn, options, keep, attempt) {
                Err(RunError::TextsFull) if self.result.restart() => {
                    attempt.texts = attempt.texts.map(InternedWords::grown);
                }
                outcome => return outcome.map_err(full),
            }
        };
        match with_texts(options, keep, &mut attempt) {
            // No room for a fully sized hash table or replicated accumulators, or this run's cached pages
            // took it: retry without either.
            Err(RunError::Memory { .. }) if (attempt.optional || keep) && self.result.restart() => {
                with_texts(tight, false, &mut attempt)
            }
            outcome => outcome,
        }
    }

    /// What a run begins with for texts that have no dictionary.
    fn words_for_texts(&self) -> InternedWords {
        InternedWords::of_rows(self.rows(), !self.sizes_tables()).within(self.runtime.room())
    }

    /// Runs the pipeline with those options; `keep`: whether its columns stay in device memory.
    fn run_with(
        &self,
        turn: Turn<'_>,
        options: KernelOptions,
        keep: bool,
        attempt: &mut Attempt,
    ) -> Result<(Output, RunReport), RunError> {
        let start = Instant::now();
        let mut report = RunReport {
            chunks_skipped: self.view.chunk_rows.len() - self.chunks.len(),
            dimension_rows: self.sides.iter().map(SideRows::rows).collect(),
            ..Default::default()
        };
        // The query may have been cancelled until a thread was found, or the program was compiled.
        self.check()?;
        let preparation = self.prepare_as(options)?;
        self.check()?;
        let pipeline = &preparation.pipeline;
        attempt.optional = pipeline.bound.strategy.uses_optional_memory();
        report.strategy = pipeline.bound.strategy.to_string();
        report.source = Arc::clone(&pipeline.bound.source);
        report.why = pipeline.bound.why.clone();
        report.dimensions = pipeline.bound.dimensions.clone();
        report.generate = preparation.generate;
        report.compile = preparation.compile;
        report.ahead = preparation.ahead;
        let origin = (preparation.compiled).map_or(Origin::Memory, |compiled| compiled.origin);
        report.compiled = match (origin, pipeline.tier) {
            (Origin::Disk, Tier::Optimised) => "disk",
            (Origin::Disk, Tier::Quick) => "disk, quick",
            (Origin::Compiler, Tier::Optimised) => "compiler",
            (Origin::Compiler, Tier::Quick) => "compiler, quick",
            (Origin::Memory, Tier::Optimised) => "memory",
            (Origin::Memory, Tier::Quick) => "memory, quick",
        };

        let short = scan_bytes(self.view, self.chunks) <= LAUNCH_BYTES / 4;
        let carried = self.part.map(|part| part.take(pipeline)).transpose()?.flatten();
        let (sink, streams) = match carried {
            Some((sink, Some(streams))) => (Some(sink), streams),
            _ => (
                None,
                self.runtime.take_streams(self.config.priority.of_stream(short))?,
            ),
        };
        if pipeline.bound.parameters.interned().is_some() && attempt.texts.is_none() {
            attempt.texts = Some(self.words_for_texts());
        }
        let outcome = self.on_streams(pipeline, &streams, turn, (keep, sink, attempt.texts), &mut report);
        if outcome.is_ok() {
            let streams = match self.part {
                Some(part) => part.leave_streams(streams),
                None => Some(streams),
            };
            streams
                .into_iter()
                .for_each(|streams| self.runtime.give_streams(streams));
        }
        let output = outcome?;
        report.total = start.elapsed();
        if self.part.is_none() {
            self.observe(turn, &pipeline.bound, &output, &report);
        }
        let calibration = self.runtime.calibration();
        report.ceiling = calibration.filter(|_| !report.kernel.is_zero()).map(|c| {
            let rate = if report.resident { c.hbm_read } else { c.h2d };
            report.device_bytes as f64 / report.kernel.as_secs_f64() / rate
        });
        Ok((output, report))
    }

    fn on_streams(
        &self,
        pipeline: &Arc<Prepared>,
        streams: &QueryStreams,
        turn: Turn<'_>,
        (keep, mut sink, texts): (bool, Option<SinkState>, Option<InternedWords>),
        report: &mut RunReport,
    ) -> Result<Output, RunError> {
        let bound = &pipeline.bound;
        report.chunks = self.chunks.len();
        report.rows = self.rows();
        report.device_bytes = scan_bytes(self.view, self.chunks);

        let estimate = turn.inputs.map(|inputs| self.estimate(Some(bound), inputs));
        turn.update(estimate.clone());
        let counted = match bound.strategy {
            Strategy::Append { counted: true } => Some(self.count(turn, report)?),
            // The sink of a part is that of all parts.
            _ if self.part.is_none() && self.counts_first(bound, report.rows) => {
                Some(self.count(turn, report)?)
            }
            _ => None,
        };
        let partitions = match &bound.result {
            ResultPlan::Partition(plan) if !plan.counts => Some(self.count_partitions(turn, report)?),
            _ => None,
        };
        let grid = pipeline.resident_blocks.min(self.morsels(bound)).max(1) as u32;
        let needs = SinkNeeds {
            owner: turn.lease.number(),
            rows: report.rows,
            hash_slots: self.config.hash_slots.0,
            groups: (turn.inputs.filter(|_| self.sizes_tables()))
                .and_then(|inputs| self.runtime.demands().groups(inputs.shape, report.rows)),
            counted,
            partitions,
            pairs: self.sides.iter().rev().find_map(SideRows::pair_sizes),
            fetch: self.fetch,
            texts,
            keep: self.keep,
        };
        let memory = self.runtime.memory();
        let mut sides = BuiltSides::of(self.sides);
        let mut uses = sides.uses();
        uses.extend(sink.iter_mut().flat_map(SinkState::uses));
        if !memory.grant(&mut uses)? {
            let needed = uses.iter().map(Use::bytes).sum();
            return Err(RunError::full(
                self.runtime.device().budget(),
                "build sides",
                needed,
            ));
        }
        drop(uses);
        sides.used_by(self.runtime, &streams.compute)?;
        // Allocated before the columns' pages, which take only what is left.
        let sink = match sink {
            Some(sink) => sink,
            None => SinkState::new(self.runtime, &streams.compute, bound, grid, &needs)?,
        };
        report.grid = sink.grid();
        let progress = Progress::of(sink, estimate);
        let mut pass = self.pass(pipeline, streams, turn, keep, &sides, progress, report)?;
        loop {
            let mut progress = match pass {
                Pass::Done(output) => return Ok(output),
                Pass::GaveWay(progress) => progress,
            };
            report.gave_way += 1;
            sides.park();
            loop {
                let waited = turn.lease.wait_for_room(self.cancelled);
                self.check()?;
                let mut uses = progress.sink.uses();
                uses.extend(sides.uses());
                if memory.grant(&mut uses)? {
                    break;
                }
                if !waited {
                    let needed = uses.iter().map(Use::bytes).sum();
                    let what = "what the query has collected so far";
                    return Err(RunError::full(self.runtime.device().budget(), what, needed));
                }
            }
            sides.used_by(self.runtime, &streams.compute)?;
            pass = self.pass(pipeline, streams, turn, keep, &sides, *progress, report)?;
        }
    }

    /// Whether columns for all rows would take much memory, where filters may leave few.
    fn counts_first(&self, bound: &BoundPipeline, rows: u64) -> bool {
        let bytes = match (&bound.strategy, &bound.result) {
            (Strategy::Sort { .. }, ResultPlan::Rows(plan)) => {
                rows.saturating_mul(output::row_bytes(&plan.columns))
            }
            (_, ResultPlan::Lists(plan)) => plan.bytes(rows),
            (_, ResultPlan::Probe(plan)) => plan.bytes(rows),
            (_, ResultPlan::Windows(plan)) => plan.stored_bytes(rows),
            (_, ResultPlan::Store(plan)) => plan.bytes(rows),
            _ => return false,
        };
        !self.plan.filters.is_empty() && bytes > self.runtime.room() / 8
    }

    /// Runs the filters alone, to learn how many rows pass.
    fn count(&self, turn: Turn<'_>, report: &mut RunReport) -> Result<u64, RunError> {
        let within = Turn { inputs: None, ..turn };
        let plan = self.plan.counting();
        let (view, result) = (self.view_of(&plan)?, ResultQueue::whole());
        let run = Run {
            result: &result,
            ..self.over(&plan, &view)
        };
        let (_, counting) = run.attempts(within)?;
        report.launches += counting.launches;
        report.link_bytes += counting.link_bytes;
        report.kernel += counting.kernel;
        Ok(counting.rows_passed)
    }

    /// Counts the rows of each partition.
    fn count_partitions(&self, turn: Turn<'_>, report: &mut RunReport) -> Result<Vec<u64>, RunError> {
        let within = Turn { inputs: None, ..turn };
        let Some(plan) = self.plan.counting_partitions() else {
            return Ok(Vec::new());
        };
        let (output, counting) = self.over(&plan, &self.view_of(&plan)?).attempts(within)?;
        report.passed_before(&counting);
        match output {
            Output::Built(table) => Ok(table.counted().to_vec()),
            Output::Returned(_) => unreachable!("partitions stay on the device"),
        }
    }

    /// Remembers what a run has shown of its demand; one that may stop early shows nothing.
    fn observe(&self, turn: Turn<'_>, bound: &BoundPipeline, output: &Output, report: &RunReport) {
        let (Some(inputs), None) = (turn.inputs, self.fetch) else {
            return;
        };
        let before = report.generate + report.compile + report.transfer + report.kernel;
        let run = Observed {
            sink: SinkMemory::of_bound(bound, report.rows, self.config),
            quantities: Quantities {
                rows: report.rows,
                passed: report.rows_passed as f64,
                groups: report.groups.unwrap_or(output.rows()) as f64,
            },
            scan: report.kernel,
            collect: report.total.saturating_sub(before),
        };
        self.runtime.demands().observe(inputs.shape, run);
    }
}
