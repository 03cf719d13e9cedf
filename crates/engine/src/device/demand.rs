//! Predicts the device memory of a pipeline, for admission (MultiQx §5): m = Σ tᵢ·mᵢ / Σ tᵢ over its steps.
//!
//! A pipeline has two steps. While it *scans*, it uses its sink: accumulators, a hash table with the heap for
//! overflow rows, output columns or pages. While it *collects*, groups or rows are compacted next to the sink
//! and read back. Both steps use the lookup tables and the chunk table.
//!
//! The size of a sink depends on its form and on three numbers: rows, rows that pass, groups. The form is
//! determined when the pipeline is bound, and guessed from the plan before. The numbers are predicted from
//! row counts and guesses of selectivity. Once the pipeline has run, its measurements replace the predictions
//! for the next run of the same shape, with any literals, scaled to the current number of rows. The same
//! holds for the times of the steps. While a pipeline runs, [`Estimate::rest`] and [`Estimate::collecting`]
//! are its remaining demand.

use crate::config::GalateaConfig;
use galatea_base::policy::policy;
use galatea_codegen::bound::{BoundPipeline, ResultPlan};
use galatea_codegen::output;
use galatea_codegen::sink::chains::RowLayout;
use galatea_codegen::sink::hash::slots_for;
use galatea_codegen::strategy::Strategy;
use galatea_codegen::{PipelinePlan, RowOrder, SinkPlan};
use galatea_memory::regions::Demand;
use galatea_store::TableView;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

policy! {
    /// The device memory that a pipeline is expected to use, until earlier runs have been measured.
    pub(crate) struct DemandPolicy {
        /// Maximum number of pipelines with recorded measurements.
        remembered: usize = 512,
        /// Bytes per second that a pipeline reads from device memory, until a run was measured.
        memory_rate: f64 = 2.5e12,
        /// Bytes per second over the link, until a run was measured.
        link_rate: f64 = 50e9,
        /// Minimum seconds of a step.
        step: f64 = 50e-6,
        /// Share of the rows that pass a filter without statistics.
        passing: f64 = 0.25,
        /// Number of groups expected of a key without statistics.
        groups: u64 = 1 << 16,
        /// Maximum number of rows that output columns hold before they are drained.
        column_rows: u64 = 16 << 20,
        /// Maximum bytes of a heap for overflow rows: with a larger heap the table is rebuilt less often, but
        /// more is written. If memory is short, it is an eighth of it, because the table that merges these
        /// rows could need nearly three times as much.
        overflow_bytes: u64 = 64 << 20,
    }
}

const POLICY: DemandPolicy = DemandPolicy::DEFAULT;

/// The form of a pipeline's sink, with regard to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SinkMemory {
    /// Accumulators of this number of bytes, for any number of rows.
    Fixed(u64),
    /// A hash table.
    Table {
        /// Bytes of a slot, and of a group when it is collected.
        slot_bytes: u64,
        /// Number of possible groups.
        most_groups: u64,
        /// Minimum number of slots.
        least_slots: u64,
        /// Whether it has a slot for every possible group from the start.
        fully_sized: bool,
    },
    /// Output columns with this number of bytes per row, drained when they are full.
    Columns(u64),
    /// Pages of the device heap, with this number of bytes per row.
    Pages(u64),
    /// Output columns with this number of bytes per row, held in full until they are sorted.
    Sorted(u64),
}

/// Numbers that determine the size of a sink.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Quantities {
    /// Number of scanned rows.
    pub rows: u64,
    /// Number of rows that pass the filters.
    pub passed: f64,
    /// Number of groups.
    pub groups: f64,
}

/// Inputs of a run's estimate before it begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inputs {
    /// The pipeline's shape, see [`shape`].
    pub shape: u64,
    /// Number of rows in the scanned chunks.
    pub rows: u64,
    /// Bytes of the scanned columns.
    pub column_bytes: u64,
    /// Bytes of the scanned columns that are not in device memory.
    pub missing_bytes: u64,
    /// Bytes of the chunk table.
    pub table_bytes: u64,
    /// The limit on device memory: heaps use at most a share of it.
    pub limit: u64,
}

/// Measurements of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Observed {
    /// The form of its sink.
    pub sink: SinkMemory,
    /// Its row and group counts.
    pub quantities: Quantities,
    /// Time from the first to the last launch.
    pub scan: Duration,
    /// Time from the last launch to the result.
    pub collect: Duration,
}

/// A step of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Step {
    bytes: u64,
    seconds: f64,
}

/// The working memory of a pipeline, or of the rest of it, step by step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Estimate(Vec<Step>);

impl Estimate {
    /// Average of the steps' bytes, weighted by their times.
    pub(crate) fn weighted(&self) -> u64 {
        let seconds: f64 = self.0.iter().map(|step| step.seconds).sum();
        let area: f64 = self.0.iter().map(|step| step.bytes as f64 * step.seconds).sum();
        if seconds > 0.0 {
            (area / seconds) as u64
        } else {
            self.peak()
        }
    }

    /// Bytes of the largest step.
    pub(crate) fn peak(&self) -> u64 {
        self.0.iter().map(|step| step.bytes).max().unwrap_or(0)
    }

    /// The remaining demand when a share of the scan is done.
    pub(crate) fn rest(&self, done: f64) -> Self {
        let mut steps = self.0.clone();
        if let Some(scan) = steps.first_mut() {
            scan.seconds *= 1.0 - done.clamp(0.0, 1.0);
        }
        Self(steps)
    }

    /// The remaining demand when the scan is over.
    pub(crate) fn collecting(&self) -> Self {
        Self(self.0.iter().skip(1).copied().collect())
    }

    /// The demand for admission, with the regions that are read.
    pub(crate) fn demand(&self, regions: Vec<(usize, u64)>) -> Demand {
        Demand {
            weighted: self.weighted(),
            peak: self.peak(),
            regions,
            follows: false,
        }
    }
}

impl SinkMemory {
    /// A guess from the plan: before binding, narrow groups cannot be distinguished from wide ones.
    fn of_plan(plan: &PipelinePlan, rows: u64, hash_slots: u64) -> Self {
        let width = 8 * plan.output.fields().len().max(1) as u64;
        match &plan.sink {
            SinkPlan::Aggregate { keys, .. } if keys.is_empty() => Self::Fixed(2 * width),
            SinkPlan::Aggregate { .. } => Self::Table {
                slot_bytes: 8 + 2 * width,
                most_groups: rows,
                least_slots: hash_slots,
                fully_sized: false,
            },
            SinkPlan::Rows {
                order: Some(RowOrder::All(words)),
                ..
            } => Self::Sorted(width + 8 * words.len() as u64),
            SinkPlan::Rows { .. } => Self::Pages(width),
            SinkPlan::BuildGroups { aggregates, .. } => Self::Fixed(8 * rows * (1 + aggregates.len() as u64)),
            // A byte for presence and keys, and half of the width of each column, because most columns are
            // narrow.
            SinkPlan::Build { columns, .. } => Self::Fixed(rows * (1 + 4 * columns.len() as u64)),
            // In addition, the position of a row in its list of the multimap, or the number of pairs before
            // it.
            SinkPlan::Multimap { columns, .. } | SinkPlan::Probe { columns, .. } => {
                Self::Fixed(rows * (16 + 4 * columns.len() as u64))
            }
            SinkPlan::Mark { .. } => Self::Fixed(rows / 8),
            SinkPlan::Store { columns, .. } | SinkPlan::Partition { columns, .. } => {
                Self::Fixed(rows * 4 * columns.len() as u64)
            }
            // With the order, and the columns computed in it.
            SinkPlan::Windows(input) => {
                let columns = input.columns.len() + input.calls.len();
                Self::Fixed(rows * (20 + 4 * columns as u64 + 8 * input.words().count() as u64))
            }
        }
    }

    /// The form of a bound pipeline's sink, over `rows` rows.
    pub(crate) fn of_bound(bound: &BoundPipeline, rows: u64, config: &GalateaConfig) -> Self {
        let slot_bytes = 8 * bound.slot_words() as u64;
        match (&bound.strategy, &bound.result) {
            (Strategy::Shared(layout), _) => Self::Fixed(slot_bytes * layout.groups),
            (Strategy::Dense(layout), _) => {
                Self::Fixed(slot_bytes * layout.groups * u64::from(layout.copies))
            }
            (Strategy::Hash { overflows, .. }, ResultPlan::Aggregate { key: Some(key), .. }) => Self::Table {
                slot_bytes,
                most_groups: key.groups_among(rows),
                least_slots: config.hash_slots.0,
                fully_sized: !overflows,
            },
            (Strategy::Append { .. }, ResultPlan::Rows(rows)) => {
                Self::Columns(output::row_bytes(&rows.columns))
            }
            (Strategy::Sort { .. }, ResultPlan::Rows(rows)) => Self::Sorted(output::row_bytes(&rows.columns)),
            (Strategy::Chains, ResultPlan::Rows(rows)) => {
                Self::Pages(8 * RowLayout::new(&rows.columns).words as u64)
            }
            (_, ResultPlan::Build(plan)) => Self::Fixed(plan.bytes()),
            (_, ResultPlan::BuildGroups(plan)) => Self::Fixed(8 * plan.words()),
            (_, ResultPlan::Multimap(plan)) => Self::Fixed(plan.bytes(rows)),
            (_, ResultPlan::Probe(plan)) => Self::Fixed(plan.bytes(rows)),
            (_, ResultPlan::Mark(_)) => Self::Fixed(rows / 8),
            (_, ResultPlan::Store(plan)) => Self::Fixed(plan.bytes(rows)),
            (_, ResultPlan::Partition(plan)) => Self::Fixed(plan.bytes(rows)),
            (_, ResultPlan::Windows(plan)) => Self::Fixed(plan.stored_bytes(rows) + plan.made_bytes(rows)),
            _ => Self::Fixed(slot_bytes),
        }
    }

    /// Bytes while the pipeline scans, and while it collects.
    fn bytes(self, of: Quantities, limit: u64) -> [u64; 2] {
        match self {
            Self::Fixed(bytes) => [bytes, bytes],
            Self::Table {
                slot_bytes,
                most_groups,
                least_slots,
                fully_sized,
            } => {
                let groups = (of.groups as u64).min(most_groups);
                let most = slots_for(most_groups);
                let slots = if fully_sized {
                    most
                } else {
                    slots_for(groups).max(least_slots).min(most)
                };
                let overflow = if fully_sized {
                    0
                } else {
                    POLICY.overflow_bytes.min(limit / 8)
                };
                let table = slots.saturating_mul(slot_bytes);
                [table + overflow, table + overflow + groups * slot_bytes]
            }
            Self::Columns(row_bytes) => [of.rows.min(POLICY.column_rows) * row_bytes; 2],
            Self::Sorted(row_bytes) => {
                // Besides the columns, a second copy of keys and row numbers.
                let [held, sorting] = [row_bytes, row_bytes + 16].map(|bytes| of.passed * bytes as f64);
                [held as u64, sorting as u64]
            }
            Self::Pages(row_bytes) => {
                // Columns hold twice the expected number of rows, and at least a tenth of all.
                let held = (2.0 * of.passed).clamp(of.rows as f64 / 10.0, of.rows.max(1) as f64);
                let heap = ((held * row_bytes as f64) as u64).min(limit / 3);
                [
                    heap,
                    heap + ((of.passed * row_bytes as f64) as u64).min(limit / 3),
                ]
            }
        }
    }

    /// Number of bytes that are read back.
    fn result_bytes(self, of: Quantities) -> f64 {
        match self {
            Self::Fixed(bytes) => bytes as f64,
            Self::Table { slot_bytes, .. } => of.groups * slot_bytes as f64,
            Self::Columns(row_bytes) | Self::Pages(row_bytes) | Self::Sorted(row_bytes) => {
                of.passed * row_bytes as f64
            }
        }
    }
}

impl Quantities {
    fn predicted(plan: &PipelinePlan, bound: Option<&BoundPipeline>, rows: u64) -> Self {
        let guessed = POLICY.passing.powi(plan.filters.len().min(4) as i32);
        let passed = bound.map_or(guessed, |bound| bound.selectivity) * rows as f64;
        let groups = match (&plan.sink, bound.map(|bound| &bound.result)) {
            (SinkPlan::Aggregate { keys, .. }, _) if keys.is_empty() => 1,
            (_, Some(ResultPlan::Aggregate { key: Some(key), .. })) => {
                key.groups_among(rows).min(POLICY.groups)
            }
            _ => POLICY.groups.min(rows),
        };
        Self {
            rows,
            passed,
            groups: (groups as f64).min(passed.max(1.0)),
        }
    }

    /// The measured numbers, scaled to another number of rows. The number of groups stays the same, unless
    /// almost every row was a group.
    fn scaled_to(self, rows: u64) -> Self {
        let ratio = rows as f64 / self.rows.max(1) as f64;
        let grow = 2.0 * self.groups > self.passed;
        Self {
            rows,
            passed: self.passed * ratio,
            groups: self.groups * if grow { ratio } else { 1.0 },
        }
    }
}

/// Measurements of earlier runs of pipelines, by shape; least recently run first.
#[derive(Debug, Default)]
pub(crate) struct Demands(Mutex<VecDeque<(u64, Observed)>>);

/// Hash of a pipeline over certain columns, independent of its literals.
pub(crate) fn shape(plan: &PipelinePlan, view: &TableView) -> u64 {
    let mut state = DefaultHasher::new();
    for expression in plan.expressions() {
        expression.hash_shape(&mut state);
    }
    plan.output.hash(&mut state);
    for column in &view.columns {
        Arc::as_ptr(&column.lineage).hash(&mut state);
    }
    state.finish()
}

impl Demands {
    /// The demand of a run: from measurements of earlier runs of its shape if possible, else from its bound
    /// pipeline, else from its plan.
    pub(crate) fn estimate(
        &self,
        plan: &PipelinePlan,
        bound: Option<&BoundPipeline>,
        inputs: Inputs,
        config: &GalateaConfig,
    ) -> Estimate {
        let observed = self.observed(inputs.shape);
        let sink = match (bound, observed) {
            (Some(bound), _) => SinkMemory::of_bound(bound, inputs.rows, config),
            (None, Some(observed)) => observed.sink,
            (None, None) => SinkMemory::of_plan(plan, inputs.rows, config.hash_slots.0),
        };
        let quantities = match observed {
            Some(observed) => observed.quantities.scaled_to(inputs.rows),
            None => Quantities::predicted(plan, bound, inputs.rows),
        };
        let lookup_bytes: usize = bound.map_or(0, |bound| bound.parameters.table_bytes());
        let inputs = Inputs {
            table_bytes: inputs.table_bytes + lookup_bytes as u64,
            ..inputs
        };
        estimate(sink, quantities, observed, inputs)
    }

    /// Predicted time of a run over `rows` rows, from its first launch to its last batch, if an earlier run
    /// of its shape was measured.
    pub(crate) fn time(&self, shape: u64, rows: u64) -> Option<Duration> {
        let run = self.observed(shape)?;
        let ratio = rows as f64 / run.quantities.rows.max(1) as f64;
        Some((run.scan + run.collect).mul_f64(ratio))
    }

    /// Predicted number of groups of a run over `rows` rows, if an earlier run of its shape was measured.
    pub(crate) fn groups(&self, shape: u64, rows: u64) -> Option<u64> {
        let groups = self.observed(shape)?.quantities.scaled_to(rows).groups;
        Some(groups as u64)
    }

    /// The share of rows that pass the filters, if an earlier run of its shape was measured.
    pub(crate) fn share_passed(&self, shape: u64) -> Option<f64> {
        let seen = self.observed(shape)?.quantities;
        Some(seen.passed / seen.rows.max(1) as f64)
    }

    /// Whether an earlier run of this shape was measured, and had memory for all groups from its start.
    pub(crate) fn holds_all_groups(&self, shape: u64) -> bool {
        let sink = self.observed(shape).map(|run| run.sink);
        matches!(
            sink,
            Some(
                SinkMemory::Fixed(_)
                    | SinkMemory::Table {
                        fully_sized: true,
                        ..
                    }
            )
        )
    }

    /// Records the measurements of the second half of a partitioned pipeline, which reads the rows that the
    /// first half wrote, as those of the whole pipeline over `rows` rows.
    pub(crate) fn observe_halves(&self, shape: u64, second: u64, rows: u64) {
        if let Some(run) = self.observed(second) {
            let quantities = Quantities {
                rows,
                ..run.quantities
            };
            self.observe(shape, Observed { quantities, ..run }, true);
        }
    }

    fn observed(&self, shape: u64) -> Option<Observed> {
        let known = self.0.lock();
        known.iter().find(|(key, _)| *key == shape).map(|(_, run)| *run)
    }

    /// Records the measurements of a run. The times of a run beside others include waits for these, so they
    /// replace longer times only.
    pub(crate) fn observe(&self, shape: u64, run: Observed, alone: bool) {
        let mut known = self.0.lock();
        let at = known.iter().position(|(key, _)| *key == shape);
        let before = at.and_then(|at| known.remove(at)).map(|(_, before)| before);
        let run = match before {
            Some(before) if !alone && before.quantities.rows == run.quantities.rows => Observed {
                scan: run.scan.min(before.scan),
                collect: run.collect.min(before.collect),
                ..run
            },
            _ => run,
        };
        if known.len() == POLICY.remembered {
            known.pop_front();
        }
        known.push_back((shape, run));
    }
}

/// The steps of a pipeline with that sink and those numbers.
fn estimate(sink: SinkMemory, of: Quantities, observed: Option<Observed>, inputs: Inputs) -> Estimate {
    let ratio = |run: &Observed| of.rows as f64 / run.quantities.rows.max(1) as f64;
    let [scan, collect] = match &observed {
        Some(run) => [run.scan, run.collect].map(|time| time.as_secs_f64() * ratio(run)),
        None => [
            (inputs.column_bytes as f64 / POLICY.memory_rate)
                .max(inputs.missing_bytes as f64 / POLICY.link_rate),
            sink.result_bytes(of) / POLICY.link_rate,
        ],
    };
    let [scanning, collecting] = sink.bytes(of, inputs.limit);
    let step = |bytes: u64, seconds: f64| Step {
        bytes: bytes.saturating_add(inputs.table_bytes),
        seconds: seconds.max(POLICY.step),
    };
    Estimate(vec![step(scanning, scan), step(collecting, collect)])
}

#[cfg(test)]
mod tests;
