//! The host side of sinks: their device memory, and the work between launches.

mod finish;
mod needs;

pub(super) use finish::FinishPolicy;
use finish::gather;
pub(super) use needs::SinkNeeds;

use super::error::raise;
use crate::aggregate::group_table::{TableNeeds, TableState};
use crate::device::demand::DemandPolicy;
use crate::device::{DeviceRuntime, RunError};
use crate::joins::build_table::BuiltTable;
use crate::joins::pairs::{JoinPart, Marks, Multimap, ProbeRows};
use crate::report::RunReport;
use crate::results::Rows;
use crate::rows::columns::Allocator;
use crate::rows::heap::{Demand, RowHeap};
use crate::rows::partitions::PartitionedRows;
use crate::rows::stored::StoredRows;
use crate::rows::zeroed;
use crate::sort::SortColumns;
use crate::string::interned::InternedStrings;
use crate::window::WindowRows;
use galatea_codegen::bound::{BoundPipeline, ResultPlan};
use galatea_codegen::group_layout::{DenseLayout, SharedLayout};
use galatea_codegen::kept_groups;
use galatea_codegen::output::RowsPlan;
use galatea_codegen::sink::chains::RowLayout;
use galatea_codegen::strategy::Strategy;
use galatea_device::{Access, DeviceBuffer, Stream};
use galatea_expression::LookupSide;
use galatea_kernels::{MAX_OUTPUTS, PipelineArguments};
use galatea_memory::regions::{Use, WorkingRegion};

/// Words before the groups: error, then five counters (`pipeline.h`).
const CONTROL_WORDS: usize = 6;

/// The word of the claimed morsels.
const CLAIMED: usize = 5;

/// Maximum words of control and groups that are read in one copy.
const SMALL_WORDS: usize = 64 << 10;

/// Device memory of a sink.
#[derive(Debug)]
pub(super) struct SinkState {
    /// Error word and counters, and for a fixed number of groups also their words: one buffer, read back in
    /// one copy.
    control: WorkingRegion<u64>,
    /// For sinks that can stop: per block, the morsel at which to resume; for a hash table, per thread a bit
    /// mask of the remaining rows of that morsel.
    progress: Option<DeviceBuffer<u32>>,
    /// Number of blocks of a launch.
    grid: u32,
    form: Form,
    /// Number of rows that are needed, if not all.
    fetch: Option<u64>,
    /// The build side that groups which stay on the device form for other pipelines.
    kept: Option<LookupSide>,
    /// Strings of keys that have no dictionary.
    texts: Option<InternedStrings>,
}

#[derive(Debug)]
enum Form {
    /// Number of 64-bit words in one copy of the groups' accumulators.
    Array(usize),
    Hash(Box<TableState>),
    Append {
        outputs: Vec<WorkingRegion<u8>>,
        validity: Vec<Option<WorkingRegion<u8>>>,
        capacity: u64,
        limit: u64,
    },
    Chains {
        heap: Box<RowHeap>,
        layout: RowLayout,
    },
    Build(BuiltTable),
    Sort(SortColumns),
}

impl SinkState {
    /// Allocates and clears the sink of a run by at most `grid` blocks.
    pub(super) fn new(
        runtime: &DeviceRuntime,
        stream: &Stream,
        bound: &BoundPipeline,
        grid: u32,
        needs: &SinkNeeds,
    ) -> Result<Self, RunError> {
        let kept = match bound.result {
            ResultPlan::Aggregate { .. } if needs.keep => Some(kept_groups::entries(bound)?),
            _ => None,
        };
        let rows = needs.rows;
        let allocator = |what| Allocator {
            runtime,
            stream,
            owner: needs.owner,
            what,
        };
        let mut fixed_words = 0;
        let mut blocks = grid;
        let mut progress = 0;
        let form = match (&bound.strategy, &bound.result) {
            (Strategy::Scalar, _) => {
                fixed_words = bound.slot_words();
                Form::Array(fixed_words)
            }
            (Strategy::Shared(SharedLayout { groups, .. }), _) => {
                fixed_words = *groups as usize * bound.slot_words();
                Form::Array(fixed_words)
            }
            (Strategy::Dense(DenseLayout { groups, copies, .. }), _) => {
                let words = *groups as usize * bound.slot_words();
                fixed_words = words * *copies as usize;
                Form::Array(words)
            }
            (
                Strategy::Hash { overflows, .. },
                ResultPlan::Aggregate {
                    key: Some(key),
                    accumulators,
                    ..
                },
            ) => {
                let groups = (key, accumulators);
                let table_needs = TableNeeds {
                    owner: needs.owner,
                    rows,
                    hash_slots: needs.hash_slots,
                    groups: needs.groups,
                };
                let (table, served) = TableState::new(runtime, stream, bound, groups, grid, table_needs)?;
                blocks = served;
                if *overflows {
                    progress = blocks as usize * bound.block as usize;
                }
                Form::Hash(Box::new(table))
            }
            (Strategy::Append { .. }, ResultPlan::Rows(RowsPlan { columns, .. })) => {
                progress = grid as usize * bound.block as usize / 32;
                let in_flight = u64::from(grid) * u64::from(bound.morsel_rows);
                let rows = needs.counted.unwrap_or(rows);
                let held = needs
                    .fetch
                    .unwrap_or(u64::MAX)
                    .min(DemandPolicy::DEFAULT.column_rows);
                let capacity = rows.min(held.max(2 * in_flight)).max(1);
                let limit = if capacity >= rows {
                    u64::MAX
                } else {
                    capacity - in_flight
                };
                let allocator = allocator("output columns");
                let outputs = columns
                    .iter()
                    .map(|c| allocator.bytes(capacity * c.row_bytes() as u64))
                    .collect::<Result<_, _>>()?;
                let validity = columns
                    .iter()
                    .map(|c| c.nullable().then(|| allocator.bytes(capacity)).transpose())
                    .collect::<Result<_, _>>()?;
                Form::Append {
                    outputs,
                    validity,
                    capacity,
                    limit,
                }
            }
            (Strategy::Sort { words, .. }, ResultPlan::Rows(RowsPlan { columns, .. })) => {
                progress = grid as usize * bound.block as usize / 32;
                let rows = needs.counted.unwrap_or(rows);
                let columns = SortColumns::new(&allocator("rows to be sorted"), columns, *words, rows)?;
                Form::Sort(columns)
            }
            (Strategy::Chains, ResultPlan::Rows(RowsPlan { columns, .. })) => {
                let layout = RowLayout::new(columns);
                let demand = Demand {
                    build: bound.heap,
                    words: layout.words as u32,
                    // Estimates err: reserve twice the expected number of rows, and at least a tenth of all.
                    rows: (rows as f64 * (2.0 * bound.selectivity).clamp(0.1, 1.0)) as u64,
                    morsel_rows: u64::from(bound.morsel_rows),
                    bytes: u64::MAX,
                };
                let (heap, served) = RowHeap::new(runtime, stream, needs.owner, demand, grid)?;
                blocks = served;
                Form::Chains {
                    heap: Box::new(heap),
                    layout,
                }
            }
            (Strategy::Build, ResultPlan::Build(plan)) => {
                Form::Build(BuiltTable::new(&allocator("a build side"), plan)?)
            }
            (Strategy::BuildGroups, ResultPlan::BuildGroups(plan)) => {
                Form::Build(BuiltTable::of_groups(&allocator("groups of a build side"), plan)?)
            }
            (Strategy::Multimap, ResultPlan::Multimap(plan)) => {
                let places = needs.counted.unwrap_or(rows);
                let lists = Multimap::new(&allocator("a build side in lists"), plan, places)?;
                Form::Build(BuiltTable::of_join(
                    plan.build_side(),
                    JoinPart::Multimap(Box::new(lists)),
                ))
            }
            (Strategy::Probe, ResultPlan::Probe(plan)) => {
                let places = needs.counted.unwrap_or(rows);
                let probe = ProbeRows::new(&allocator("a probe side"), plan, places)?;
                Form::Build(BuiltTable::of_join(
                    LookupSide::unfinished(),
                    JoinPart::Probe(Box::new(probe)),
                ))
            }
            (Strategy::Mark, ResultPlan::Mark(plan)) => {
                let sizes = needs.pairs.unwrap_or_default();
                let marks = Marks::new(&allocator("marks of a join"), plan, sizes)?;
                Form::Build(BuiltTable::of_join(
                    LookupSide::unfinished(),
                    JoinPart::Marks(Box::new(marks)),
                ))
            }
            (Strategy::Windows { .. }, ResultPlan::Windows(plan)) => {
                let places = needs.counted.unwrap_or(rows);
                let rows = WindowRows::new(&allocator("rows of a window"), plan, places)?;
                Form::Build(BuiltTable::of_windows(plan.build_side(), rows))
            }
            (Strategy::Store, ResultPlan::Store(plan)) => {
                let places = needs.counted.unwrap_or(rows);
                let rows = StoredRows::new(&allocator("rows of a union"), plan, places)?;
                Form::Build(BuiltTable::of_stored(plan.build_side(), rows))
            }
            (Strategy::Partition { .. }, ResultPlan::Partition(plan)) => {
                let counted = needs.partitions.as_deref();
                let rows = PartitionedRows::new(&allocator("rows in partitions"), plan, counted)?;
                Form::Build(BuiltTable::of_partitions(plan.build_side(), rows))
            }
            (strategy, _) => unreachable!("{strategy} without its result plan: bind() pairs them"),
        };
        let texts = (needs.texts)
            .map(|words| {
                let threads = u64::from(blocks) * u64::from(bound.block);
                let owner = needs.owner;
                InternedStrings::new(runtime, stream, owner, words, threads, bound.collide)
            })
            .transpose()?;
        let words = (CONTROL_WORDS + fixed_words) as u64;
        let control = zeroed(runtime, stream, words, "group accumulators")?;
        Ok(Self {
            control: (runtime.memory()).working(needs.owner, "group accumulators", control),
            progress: (progress > 0)
                .then(|| runtime.zeroed(stream, progress, "progress of a launch"))
                .transpose()?,
            grid: blocks,
            form,
            fetch: needs.fetch,
            kept,
            texts,
        })
    }

    /// Maximum number of blocks of a launch.
    pub(super) fn grid(&self) -> u32 {
        self.grid
    }

    /// Capacity in rows, if all rows are kept until they are sorted; else 0.
    pub(super) fn capacity(&self) -> u64 {
        match &self.form {
            Form::Sort(columns) => columns.capacity(),
            Form::Build(table) => table.capacity(),
            _ => 0,
        }
    }

    /// Whether launches can stop before all morsels are done.
    pub(super) fn stops(&self) -> bool {
        match &self.form {
            Form::Array(_) | Form::Build(_) | Form::Sort(_) => false,
            Form::Hash(table) => table.chains().is_some(),
            Form::Append { .. } | Form::Chains { .. } => true,
        }
    }

    /// Lets other queries move its memory until [`Self::uses`] are granted. Allowed only between launches.
    pub(super) fn park(&mut self) {
        self.control.park();
        self.texts.iter_mut().for_each(InternedStrings::park);
        match &mut self.form {
            Form::Array(_) => {}
            Form::Hash(table) => table.park(),
            Form::Append {
                outputs, validity, ..
            } => {
                let columns = outputs.iter_mut().chain(validity.iter_mut().flatten());
                columns.for_each(|column| {
                    // Drained after every launch.
                    column.discard();
                    column.park();
                });
            }
            Form::Chains { heap, .. } => heap.park(),
            Form::Build(table) => table.park(),
            Form::Sort(columns) => columns.park(),
        }
    }

    /// The regions that a launch accesses, and how.
    pub(super) fn uses(&mut self) -> Vec<Use<'_>> {
        let mut uses = vec![self.control.used(Access::ReadWrite)];
        uses.extend(self.texts.iter_mut().map(InternedStrings::used));
        match &mut self.form {
            Form::Array(_) => {}
            Form::Hash(table) => uses.extend(table.uses()),
            Form::Append {
                outputs, validity, ..
            } => {
                let columns = outputs.iter_mut().chain(validity.iter_mut().flatten());
                uses.extend(columns.map(|column| column.used(Access::Write)));
            }
            Form::Chains { heap, .. } => uses.push(heap.used()),
            Form::Build(table) => uses.extend(table.uses(Access::ReadWrite)),
            Form::Sort(columns) => uses.extend(columns.uses()),
        }
        uses
    }

    /// Points the arguments of the kernel of `bound` to the sink.
    pub(super) fn bind(&self, bound: &BoundPipeline, args: &mut PipelineArguments) {
        let control = self.control.address();
        if let (Some(table), Some(texts)) = (bound.parameters.interned(), &self.texts) {
            texts.bind(table, args);
        }
        args.error = control;
        args.counters = control + 8;
        args.progress = self.progress.as_ref().map_or(0, DeviceBuffer::address);
        match &self.form {
            Form::Array(_) => args.groups = control + 8 * CONTROL_WORDS as u64,
            Form::Hash(table) => {
                (args.groups, args.capacity, args.limit) = table.slots();
                if let Some(chains) = table.chains() {
                    args.set_chains(&chains);
                }
            }
            Form::Append {
                outputs,
                validity,
                capacity,
                limit,
            } => {
                args.capacity = *capacity;
                args.limit = *limit;
                for (k, (output, valid)) in outputs.iter().zip(validity).enumerate() {
                    args.outputs[k] = output.address();
                    args.outputs[MAX_OUTPUTS / 2 + k] = valid.as_ref().map_or(0, |valid| valid.address());
                }
            }
            Form::Chains { heap, .. } => args.set_chains(&heap.view()),
            Form::Build(table) => table.bind(args),
            Form::Sort(columns) => columns.bind(args),
        }
    }

    /// Clears the number of claimed morsels, before each launch of a kernel that claims morsels.
    pub(super) fn clear_claims(&mut self, stream: &Stream) -> Result<(), RunError> {
        Ok(stream.fill(self.control.slice_mut(CLAIMED..CLAIMED + 1)?, 0)?)
    }

    /// Frees space after a launch that may have stopped. Returns whether blocks stopped and must be resumed.
    pub(super) fn drain(
        &mut self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        bound: &BoundPipeline,
        rows: &Rows<'_>,
        report: &mut RunReport,
    ) -> Result<bool, RunError> {
        let control = stream.read(&self.control, ..CONTROL_WORDS)?;
        raise(control[0] as u32, bound, rows.plan())?;
        let (held, stopped, fetch) = (control[1], control[2] != 0, self.fetch);
        match &mut self.form {
            Form::Array(_) | Form::Build(_) | Form::Sort(_) => return Ok(false),
            Form::Hash(table) => {
                if stopped {
                    let (control, rows) = ((&mut *self.control, 1), (held, control[4]));
                    table.merge(runtime, stream, control, rows, self.texts.as_ref(), report)?;
                    stream.fill(self.control.slice_mut(4..5)?, 0)?;
                }
                table.set_resume(stopped);
            }
            Form::Append {
                outputs, validity, ..
            } => {
                if let ResultPlan::Rows(plan) = &bound.result {
                    // A launch may leave many more rows than are still needed.
                    let wanted = fetch.map_or(held, |fetch| held.min(fetch.saturating_sub(rows.count())));
                    report.link_bytes += rows.take(stream, plan, (outputs, validity), wanted, false)?;
                }
                stream.fill(self.control.slice_mut(1..2)?, 0)?;
            }
            Form::Chains { heap, layout } => {
                let stopped = heap.stopped(stream)?;
                if stopped {
                    gather(runtime, stream, bound, heap, layout, rows, report)?;
                }
                return Ok(stopped);
            }
        }
        if stopped {
            stream.fill(self.control.slice_mut(2..3)?, 0)?;
        }
        Ok(stopped)
    }
}
