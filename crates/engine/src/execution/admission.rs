//! Drives one run: admission, attempts with less memory ([`attempt`](super::attempt)), and resumption after
//! it was preempted by an earlier query.

use super::attempt::{RunAttempt, repeat};
use super::launch_loop::{Pass, Progress};
use super::pipeline_run::{Admitted, LAUNCH_BYTES, Output, Run, scan_bytes};
use super::sinks::{SinkNeeds, SinkState};
use crate::config::RowOutput;
use crate::device::demand::{Observed, Quantities, SinkMemory};
use crate::device::prepared::Prepared;
use crate::device::{QueryStreams, RunError};
use crate::joins::build_table::{BuiltSides, SideRows};
use crate::metrics;
use crate::report::{PipelineDemand, RunReport, SpanPhase, StarvedPipeline};
use crate::results::queue::ResultQueue;
use crate::string::interned::InternedWords;
use galatea_codegen::bound::{BoundPipeline, ResultPlan};
use galatea_codegen::options::KernelOptions;
use galatea_codegen::output;
use galatea_codegen::strategy::Strategy;
use galatea_codegen::{RowOrder, SinkPlan};
use galatea_device::{DeviceError, Origin, Tier};
use galatea_memory::regions::{Ablation, AdmissionTicket, Demand, PipelineName, Use};
use std::sync::Arc;
use std::time::Instant;

impl Run<'_> {
    /// Runs the pipeline when it is admitted, in ranges of its sort order if memory is too small to sort all
    /// rows at once.
    pub(super) fn execute(&self) -> Result<(Output, RunReport), RunError> {
        match &self.plan.sink {
            SinkPlan::Rows {
                outputs,
                order: Some(RowOrder::First(top)),
            } => self.execute_top(outputs, top),
            SinkPlan::Rows {
                outputs,
                order: Some(RowOrder::All(words)),
            } if self.part.is_none() => self.execute_sorted(outputs, words),
            _ => self.admitted(),
        }
    }

    /// Runs a pipeline other than a top-k pipeline when it is admitted.
    pub(super) fn admitted(&self) -> Result<(Output, RunReport), RunError> {
        let memory = self.runtime.memory();
        let naive = memory.ablations().has(Ablation::Naive);
        let capacity = self.runtime.device().budget().limit();
        let (inputs, regions) = self.inputs();
        let demand = match naive {
            true => Demand::default(),
            false => Demand {
                follows: self.may_follow(inputs),
                ..self.estimate(None, inputs).demand(regions)
            },
        };
        let name = PipelineName::new(self.pipeline.number(), self.name());
        let (priority, came) = (self.config.priority.priority(), Instant::now());
        let mut shown = PipelineDemand::wait(self.progress, demand.bytes());
        let ticket = (memory.admission()).begin(name, priority, demand, capacity, self.cancelled);
        let ticket = ticket.ok_or(RunError::Cancelled)?;
        shown.admitted();
        metrics::waited(came.elapsed());
        if self.is_short(inputs) {
            ticket.set_brief();
        }
        let admitted = Admitted {
            ticket: &ticket,
            inputs: Some(inputs),
        };
        // The failed attempt has freed all of its device memory.
        let waits = || !naive && self.wait_for_room(&ticket);
        let outcome = self.attempts(admitted, waits);
        if let Ok((_, report)) = &outcome {
            tracing::debug!(
                pipeline = self.pipeline.number(),
                strategy = report.strategy,
                rows = report.rows,
                launches = report.launches,
                shared_chunks = report.shared_chunks,
                link_bytes = report.link_bytes,
                transfer = ?report.transfer,
                kernel = ?report.kernel,
                total = ?came.elapsed(),
                "pipeline pass"
            );
        }
        outcome.map_err(|failure| failure.of_pipeline(|| self.description()))
    }

    /// Runs an admitted pipeline, and adjusts its memory after failures. `waits` waits for the end of another
    /// query, if one uses the device.
    fn attempts(
        &self,
        admitted: Admitted<'_>,
        waits: impl Fn() -> bool,
    ) -> Result<(Output, RunReport), RunError> {
        let first = self.first_attempt();
        repeat(
            first,
            |attempt| {
                let outcome = self.run_once(admitted, attempt);
                outcome.map_err(|error| match error {
                    RunError::Device(DeviceError::OutOfMemory { requested, .. }) => {
                        RunError::full(self.runtime.device().budget(), "working memory", requested)
                    }
                    error => error,
                })
            },
            |attempt, failure| match self.part {
                // The partitions share a sink: either all of them restart, or none.
                Some(_) => Err(failure),
                None => attempt.after(failure, || self.result.restart(), || waits().then_some(first)),
            },
        )
    }

    /// The first attempt to run the pipeline. A partition of a join uses no optional memory, because memory
    /// is short.
    fn first_attempt(&self) -> RunAttempt {
        let Some(part) = self.part else {
            return RunAttempt::first(self.config.cache_device.0);
        };
        let strings = (part.begun_again > 0).then(|| {
            let first = self.words_for_strings();
            (0..part.begun_again).fold(first, |strings, _| strings.grown())
        });
        RunAttempt {
            tight: true,
            strings,
            ..RunAttempt::first(false)
        }
    }

    /// The options of the kernel of an attempt.
    fn options_of(&self, attempt: &RunAttempt) -> KernelOptions {
        let options = self.kernel_options();
        if !attempt.tight {
            return options;
        }
        let row_output = match (options.row_output, self.fetch) {
            (RowOutput::Auto, None) if self.part.is_some() => RowOutput::Heap,
            (asked, _) => asked,
        };
        KernelOptions {
            hash_table_bytes: 0,
            copies_bytes: 0,
            row_output,
            ..options
        }
    }

    /// Initial memory for strings that have no dictionary.
    fn words_for_strings(&self) -> InternedWords {
        InternedWords::of_rows(self.rows(), !self.sizes_tables()).within(self.runtime.room())
    }

    /// Runs the pipeline once.
    fn run_once(
        &self,
        admitted: Admitted<'_>,
        attempt: &mut RunAttempt,
    ) -> Result<(Output, RunReport), RunError> {
        let start = Instant::now();
        let mut report = RunReport {
            chunks_skipped: self.view.chunk_rows.len() - self.chunks.len(),
            build_side_rows: self.sides.iter().map(SideRows::rows).collect(),
            ..Default::default()
        };
        // The query may have been cancelled while it waited for a thread or for the compilation.
        self.check()?;
        let preparation = self.prepare_as(self.options_of(attempt))?;
        self.check()?;
        let pipeline = &preparation.pipeline;
        attempt.optional = attempt.keeps || pipeline.bound.strategy.uses_optional_memory();
        report.strategy = pipeline.bound.strategy.to_string();
        report.source = Arc::clone(&pipeline.bound.source);
        report.why = pipeline.bound.why.clone();
        report.build_sides = pipeline.bound.build_sides.clone();
        report.generate = preparation.generate;
        report.compile = preparation.compile;
        report.ahead = preparation.ahead;
        let compiled = preparation.generate + preparation.compile;
        report.timeline.add(SpanPhase::Compile, start, compiled);
        if let Some(begun) = preparation.ahead_begun {
            report.timeline.add(SpanPhase::Compile, begun, preparation.ahead);
        }
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
        if pipeline.bound.parameters.interned().is_some() && attempt.strings.is_none() {
            attempt.strings = Some(self.words_for_strings());
        }
        let outcome = self.on_streams(
            pipeline,
            &streams,
            admitted,
            (attempt.keeps, sink, attempt.strings),
            &mut report,
        );
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
        report.timeline.ended(start);
        if self.part.is_none() {
            self.observe(admitted, &pipeline.bound, &output, &report);
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
        admitted: Admitted<'_>,
        (keep, mut sink, texts): (bool, Option<SinkState>, Option<InternedWords>),
        report: &mut RunReport,
    ) -> Result<Output, RunError> {
        let bound = &pipeline.bound;
        report.chunks = self.chunks.len();
        report.rows = self.rows();
        report.device_bytes = scan_bytes(self.view, self.chunks);

        let estimate = admitted.inputs.map(|inputs| self.estimate(Some(bound), inputs));
        admitted.update(estimate.clone());
        let counted = match bound.strategy {
            Strategy::Append { counted: true } => Some(self.count(admitted, report)?),
            // All partitions share one sink.
            _ if self.part.is_none() && self.counts_first(bound, report.rows) => {
                Some(self.count(admitted, report)?)
            }
            _ => self.counted,
        };
        let partitions = match &bound.result {
            ResultPlan::Partition(plan) if !plan.counts => Some(self.count_partitions(admitted, report)?),
            _ => None,
        };
        let grid = pipeline.resident_blocks.min(self.morsels(bound)).max(1) as u32;
        let needs = SinkNeeds {
            owner: admitted.ticket.number(),
            rows: self
                .part
                .map_or(report.rows, |part| part.rows_of_sink(bound, report.rows)),
            hash_slots: self.config.hash_slots.0,
            groups: (admitted.inputs.filter(|_| self.sizes_tables()))
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
        // Allocated before the columns' pages, which use only the remaining memory.
        let sink = match sink {
            Some(sink) => sink,
            None => SinkState::new(self.runtime, &streams.compute, bound, grid, &needs)?,
        };
        report.grid = sink.grid();
        let progress = Progress::of(sink, estimate);
        let mut pass = self.pass(pipeline, streams, admitted, keep, &sides, progress, report)?;
        loop {
            let mut progress = match pass {
                Pass::Done(output) => return Ok(output),
                Pass::GaveWay(progress) => progress,
                Pass::Followed(progress) => {
                    pass = self.pass(pipeline, streams, admitted, keep, &sides, *progress, report)?;
                    continue;
                }
            };
            report.preemptions += 1;
            sides.park();
            loop {
                let waited = self.wait_for_room(admitted.ticket);
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
            pass = self.pass(pipeline, streams, admitted, keep, &sides, *progress, report)?;
        }
    }

    /// Waits until another attempt to get memory is worthwhile. Returns false if no memory will be released.
    pub(super) fn wait_for_room(&self, ticket: &AdmissionTicket<'_>) -> bool {
        let _shown = StarvedPipeline::of(self.progress);
        ticket.wait_for_room(self.cancelled)
    }

    /// Whether columns for all rows would need much memory although the filters may pass few rows.
    fn counts_first(&self, bound: &BoundPipeline, rows: u64) -> bool {
        let bytes = match (&bound.strategy, &bound.result) {
            (Strategy::Sort { .. }, ResultPlan::Rows(plan)) => {
                rows.saturating_mul(output::row_bytes(&plan.columns))
            }
            (_, ResultPlan::Multimap(plan)) => plan.bytes(rows),
            (_, ResultPlan::Probe(plan)) => plan.bytes(rows),
            (_, ResultPlan::Windows(plan)) => plan.stored_bytes(rows),
            (_, ResultPlan::Store(plan)) => plan.bytes(rows),
            _ => return false,
        };
        !self.plan.filters.is_empty() && bytes > self.runtime.room() / 8
    }

    /// Runs only the filters, to count the rows that pass.
    fn count(&self, admitted: Admitted<'_>, report: &mut RunReport) -> Result<u64, RunError> {
        let within = Admitted {
            inputs: None,
            ..admitted
        };
        let plan = self.plan.counting();
        let (view, result) = (self.view_of(&plan)?, ResultQueue::whole());
        let run = Run {
            result: &result,
            ..self.over(&plan, &view)
        };
        let (_, counting) = run.attempts(within, || false)?;
        report.launches += counting.launches;
        report.link_bytes += counting.link_bytes;
        report.kernel += counting.kernel;
        Ok(counting.rows_passed)
    }

    /// Counts the rows of each partition.
    fn count_partitions(&self, admitted: Admitted<'_>, report: &mut RunReport) -> Result<Vec<u64>, RunError> {
        let within = Admitted {
            inputs: None,
            ..admitted
        };
        let Some(plan) = self.plan.counting_partitions() else {
            return Ok(Vec::new());
        };
        let (output, counting) = self
            .over(&plan, &self.view_of(&plan)?)
            .attempts(within, || false)?;
        report.passed_before(&counting);
        match output {
            Output::Built(table) => Ok(table.counted().to_vec()),
            Output::Returned(_) => unreachable!("partitions stay on the device"),
        }
    }

    /// Records the observed demand of a run. A run that may stop early is not recorded.
    fn observe(&self, admitted: Admitted<'_>, bound: &BoundPipeline, output: &Output, report: &RunReport) {
        let (Some(inputs), None) = (admitted.inputs, self.fetch) else {
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
        let alone = admitted.ticket.is_alone();
        self.runtime.demands().observe(inputs.shape, run, alone);
    }
}
