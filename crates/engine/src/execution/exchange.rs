//! Out-of-core joins that read each side once: both sides are partitioned by the hash of the key, and then
//! joined partition by partition.
//!
//! ```text
//! build side ── batches of chunks ── rows by partition ──► regions of partition 0, 1, 2, ...
//! probe side ── batches of chunks ── rows by partition ──► regions of partition 0, 1, 2, ...
//!
//! for each partition:   regions of the build side ── table ──┐
//!                       regions of the probe side ── probe ──┴── the sink, which is carried to the next partition
//! ```
//!
//! Each partition of a batch has regions of its own. The memory manager evicts them like other working
//! memory: partitions that fit stay on the device, and the others move to the host and back once (Lutz 2022,
//! §4.4.2 and 4.4.3).

use super::cut::Cut;
use super::error::Failure;
use super::executor::{Executor, Work, chunks, of_side};
use super::part_runs::PartRuns;
use super::pipeline_run::{Output, Run};
use super::source::entries;
use crate::device::RunError;
use crate::graph::PipelineRef;
use crate::joins::build_table::{BuiltTable, SideRows};
use crate::joins::out_of_core::Exchange;
use crate::report::RunReport;
use galatea_codegen::PipelinePlan;
use galatea_codegen::bound::ResultPlan;
use galatea_codegen::build_plan::PartitionPlan;
use galatea_device::Access;
use galatea_expression::LookupSide;
use galatea_memory::regions::Use;
use galatea_store::TableView;
use parking_lot::Mutex;
use std::sync::Arc;

/// One side of a join, partitioned.
struct ExchangedSide {
    /// By partition, the rows of each batch; one table at least.
    partitions: Vec<Vec<BuiltTable>>,
    /// Number of rows of all partitions.
    rows: u64,
    report: RunReport,
    /// The build sides that its rows looked up.
    sides: Vec<SideRows>,
}

/// Both sides of a join, partitioned.
pub(super) struct ExchangedSides {
    build: ExchangedSide,
    probe: ExchangedSide,
}

/// A view of the rows of a table. It reports `all` rows, those of the whole side, so that one kernel is bound
/// for the tables of all partitions. Its chunk has the rows of the table.
fn view_of(table: &BuiltTable, all: u64) -> Result<(TableView, Vec<usize>), RunError> {
    let view = TableView {
        rows: all,
        ..entries(table.rows)?
    };
    // Without rows there is no chunk.
    let chunks = if table.rows == 0 { Vec::new() } else { vec![0] };
    Ok((view, chunks))
}

/// The place of a build side that does not exist yet, which no row looks up.
fn not_built() -> SideRows {
    SideRows::Collected(Arc::new(LookupSide::unfinished()))
}

fn built(table: BuiltTable) -> SideRows {
    SideRows::Built(Box::new(Mutex::new(table)))
}

impl Executor<'_> {
    /// Partitions both sides of a join. A batch of rows uses at most `bytes` bytes.
    pub(super) async fn exchange(
        &self,
        pipeline: PipelineRef<'_>,
        cut: &Cut,
        exchange: &Exchange,
        bytes: u64,
    ) -> Result<ExchangedSides, Failure> {
        let Some(build) = cut.state.build(pipeline) else {
            unreachable!("a partitioned join has a build side");
        };
        let plan = build.plan.resolved().map_err(Failure::Input)?;
        let mut sides = Vec::new();
        for number in 0..build.build_sides.len() {
            sides.push(self.side(build, number, plan.lookups_of(number)).await?);
        }
        let first = &exchange.build.first;
        let build = self.exchange_side(build, (&plan, first), sides, bytes).await?;
        let plan = pipeline.plan.resolved().map_err(Failure::Input)?;
        let mut sides = Vec::new();
        for number in 0..pipeline.build_sides.len() {
            sides.push(match number == cut.side() {
                // The first pass does not look it up.
                true => not_built(),
                false => self.side(pipeline, number, plan.lookups_of(number)).await?,
            });
        }
        let first = &exchange.probe.first;
        let probe = self.exchange_side(pipeline, (&plan, first), sides, bytes).await?;
        Ok(ExchangedSides { build, probe })
    }

    /// Partitions the rows of a pipeline by the plan `first`, which reads the columns of `plan`.
    async fn exchange_side(
        &self,
        pipeline: PipelineRef<'_>,
        (plan, first): (&PipelinePlan, &PipelinePlan),
        sides: Vec<SideRows>,
        bytes: u64,
    ) -> Result<ExchangedSide, Failure> {
        let view = self.view(pipeline, plan, &[]).await?;
        let work = Work {
            pipeline: pipeline.id(),
            chunks: chunks(&pipeline, plan, &view),
            fetch: None,
            plan: first.clone(),
            view,
            keep: false,
        };
        let partitions = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&partitions);
        let (_, report, sides) = self
            .launch(work, move |run| {
                let (tables, report) = Run {
                    sides: &sides,
                    ..*run
                }
                .exchange(bytes)?;
                *into.lock() = tables;
                Ok((Output::Returned(0), report, sides))
            })
            .await?;
        let partitions = std::mem::take(&mut *partitions.lock());
        Ok(ExchangedSide {
            rows: partitions.iter().flatten().map(|table| table.rows).sum(),
            partitions,
            report,
            sides,
        })
    }

    /// Joins partitioned sides. The sink was restarted `begun_again` times for lack of memory for strings.
    pub(super) async fn join_exchanged(
        &self,
        pipeline: PipelineRef<'_>,
        keep: bool,
        (cut, exchange): (&Cut, &Exchange),
        exchanged: ExchangedSides,
        begun_again: u32,
    ) -> Result<(Output, RunReport), Failure> {
        let Some(build) = cut.state.build(pipeline) else {
            unreachable!("a partitioned join has a build side");
        };
        let ExchangedSides { build: own, probe } = exchanged;
        let mut sides = probe.sides;
        let mut runs = PartRuns::new(begun_again);
        let mut built_in: Option<RunReport> = None;
        let last = probe.partitions.len() - 1;
        for (partition, (own_tables, probe_tables)) in
            own.partitions.into_iter().zip(probe.partitions).enumerate()
        {
            // The memory of the previous build side is freed before the next one is built.
            sides[cut.side()] = not_built();
            let plan = &exchange.build.second;
            let (table, report) = self
                .build_partition(build, plan, own_tables, (own.rows, begun_again))
                .await
                .map_err(|failure| of_side(&pipeline.build_sides[cut.side()], failure))?;
            match &mut built_in {
                Some(total) => total.add_part(&report),
                None => built_in = Some(report),
            }
            sides[cut.side()] = built(table);
            let tables = probe_tables.len();
            for (number, table) in probe_tables.into_iter().enumerate() {
                let (view, chunks) = view_of(&table, probe.rows)?;
                let work = Work {
                    pipeline: pipeline.id(),
                    chunks,
                    fetch: runs.left(pipeline.fetch),
                    plan: exchange.probe.second.clone(),
                    view,
                    keep,
                };
                let is_last = partition == last && number + 1 == tables;
                sides.push(built(table));
                sides = self.run_part(&mut runs, work, sides, is_last).await?;
                sides.pop();
            }
            if runs.left(pipeline.fetch) == Some(0) {
                break;
            }
        }
        if let Some(report) = built_in {
            self.builds.lock().push(report.of_partitions(own.report));
        }
        let (output, report) = runs.finish();
        let report = report.of_sides(pipeline.build_sides.len());
        Ok((output.joined(sides), report.of_partitions(probe.report)))
    }

    /// Builds the build side of a partition from the rows of each batch.
    async fn build_partition(
        &self,
        build: PipelineRef<'_>,
        plan: &PipelinePlan,
        tables: Vec<BuiltTable>,
        (all, begun_again): (u64, u32),
    ) -> Result<(BuiltTable, RunReport), Failure> {
        let mut runs = PartRuns::new(begun_again);
        let last = tables.len() - 1;
        for (number, table) in tables.into_iter().enumerate() {
            let (view, chunks) = view_of(&table, all)?;
            let work = Work {
                pipeline: build.id(),
                chunks,
                fetch: None,
                plan: plan.clone(),
                view,
                keep: true,
            };
            self.run_part(&mut runs, work, vec![built(table)], number == last)
                .await?;
        }
        match runs.finish() {
            (Output::Built(table), report) => Ok((*table, report)),
            (Output::Returned(_), _) => unreachable!("a build sink leaves a build side"),
        }
    }
}

impl Run<'_> {
    /// Partitions the rows in batches of at most `bytes` bytes, and returns the rows of each batch by
    /// partition.
    fn exchange(&self, bytes: u64) -> Result<(Vec<Vec<BuiltTable>>, RunReport), RunError> {
        let plan = match self.result_of(self.plan).map_err(RunError::Unsupported)? {
            (ResultPlan::Partition(plan), _) => plan,
            (other, _) => unreachable!("{other:?} of a plan that partitions rows"),
        };
        let mut partitions: Vec<Vec<BuiltTable>> = (0..plan.parts).map(|_| Vec::new()).collect();
        let mut total: Option<RunReport> = None;
        for chunks in self.batches(&plan, bytes) {
            let batch = Run {
                chunks: &chunks,
                ..*self
            };
            let (output, report) = batch.execute()?;
            let Output::Built(table) = output else {
                unreachable!("partitions stay on the device");
            };
            for (tables, table) in partitions.iter_mut().zip(self.split(&plan, *table)?) {
                // One table without rows is enough for a partition without rows.
                if table.rows > 0 || tables.is_empty() {
                    tables.retain(|table| table.rows > 0);
                    tables.push(table);
                }
            }
            match &mut total {
                Some(total) => {
                    total.add(&report);
                    total.total += report.total;
                    total.rows_passed += report.rows_passed;
                }
                None => total = Some(report),
            }
        }
        let report = RunReport {
            chunks_skipped: self.view.chunk_rows.len() - self.chunks.len(),
            ..total.unwrap_or_default()
        };
        Ok((partitions, report))
    }

    /// The scanned chunks in batches with rows of at most `bytes` bytes; one batch at least, and one chunk
    /// per batch at least.
    fn batches(&self, plan: &PartitionPlan, bytes: u64) -> Vec<Vec<usize>> {
        let mut batches = vec![Vec::new()];
        let mut held = 0;
        for chunk in self.chunks {
            let own = plan.bytes(u64::from(self.view.chunk_rows[*chunk]));
            if held > 0 && held + own > bytes {
                batches.push(Vec::new());
                held = 0;
            }
            held += own;
            if let Some(batch) = batches.last_mut() {
                batch.push(*chunk);
            }
        }
        batches
    }

    /// Copies the rows of each partition to regions of their own.
    fn split(&self, plan: &PartitionPlan, mut table: BuiltTable) -> Result<Vec<BuiltTable>, RunError> {
        let mut uses = table.uses(Access::Read);
        if !self.runtime.memory().grant(&mut uses)? {
            let needed = uses.iter().map(Use::bytes).sum();
            let budget = self.runtime.device().budget();
            return Err(RunError::full(budget, "rows in partitions", needed));
        }
        drop(uses);
        let streams = self.runtime.take_streams(self.config.priority.of_stream(false))?;
        table.used_by(self.runtime, &streams.compute)?;
        let tables = table.split(self.runtime, &streams.compute, plan);
        // The copies read the table, which is freed next, also if one of them failed.
        let settled = streams.compute.synchronize();
        let tables = tables?;
        settled?;
        // Streams of a failed copy are not used again.
        self.runtime.give_streams(streams);
        Ok(tables)
    }
}
