//! The group hash table of a run. If rows can overflow, the table starts small, and rows of groups that do
//! not fit wait in heap pages as partial groups until the table has grown.

use crate::device::demand::DemandPolicy;
use crate::device::{DeviceRuntime, RunError};
use crate::report::RunReport;
use crate::rows::heap::{Demand, RowHeap};
use crate::rows::zeroed;
use crate::string::interned::InternedStrings;
use galatea_codegen::accumulators::AccumulatorPlan;
use galatea_codegen::bound::{BoundPipeline, ResultPlan};
use galatea_codegen::group_key::GroupKey;
use galatea_codegen::group_layout::DenseLayout;
use galatea_codegen::sink::hash::slots_for;
use galatea_codegen::strategy::Strategy;
use galatea_device::{Access, DeviceBuffer, In, InOut, Out, Stream};
use galatea_kernels::heap::PageChainsView;
use galatea_kernels::{CollectGroups, GroupEntries, HashRehash, MergeWord, SlotLayout};
use galatea_memory::regions::{Use, WorkingRegion};

/// Name of the slots in out-of-memory errors.
const TABLE: &str = "the group hash table";

/// Inputs of the initial size of a group table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableNeeds {
    /// Number of the query, which owns the memory.
    pub(crate) owner: u64,
    /// Number of rows that the run scans.
    pub(crate) rows: u64,
    /// Minimum number of slots of the table, unless fewer groups are possible.
    pub(crate) hash_slots: u64,
    /// Number of groups in an earlier run of the same pipeline.
    pub(crate) groups: Option<u64>,
}

/// The table, and the heap for rows that do not fit it.
#[derive(Debug)]
pub(crate) struct TableState {
    slots: WorkingRegion<u64>,
    /// The query that owns the memory.
    owner: u64,
    layout: SlotLayout,
    limit: u64,
    /// Number of threads of a launch: each may insert a group after it saw the table below its limit.
    threads: u64,
    /// Number of possible groups.
    most: u64,
    /// The heap of overflow rows; `None` if rows cannot overflow.
    heap: Option<RowHeap>,
    /// For each accumulator word of an overflow row, how it merges.
    merges: Vec<u8>,
}

impl TableState {
    /// A table for a run by at most `grid` blocks, and the number of blocks that it serves.
    pub(crate) fn new(
        runtime: &DeviceRuntime,
        stream: &Stream,
        bound: &BoundPipeline,
        (key, accumulators): (&GroupKey, &AccumulatorPlan),
        grid: u32,
        needs: TableNeeds,
    ) -> Result<(Self, u32), RunError> {
        let TableNeeds { owner, rows, .. } = needs;
        let layout = SlotLayout {
            slot_words: bound.slot_words() as u32,
            key_words: key.key_words() as u32,
            collide: bound.collide,
        };
        let threads = u64::from(grid) * u64::from(bound.block);
        // Every row could be a group; more slots than twice that are never needed.
        let most = key.groups_among(rows);
        let overflows = matches!(bound.strategy, Strategy::Hash { overflows: true, .. });
        let words = |slots: u64| slots * u64::from(layout.slot_words);
        let all = slots_for(most);
        let (least, expected) = if overflows {
            let least = (2 * threads).max(needs.hash_slots).next_power_of_two().min(all);
            // The size that an earlier run needed, unless that uses much of the available memory.
            let fits = |slots: &u64| 8 * words(*slots) <= runtime.room() / 2;
            let expected = needs.groups.map(|groups| slots_for(groups).min(all));
            (least, expected.filter(fits).unwrap_or(least).max(least))
        } else {
            (all, all)
        };
        let slots = match zeroed(runtime, stream, words(expected), TABLE) {
            Err(RunError::Memory { .. }) if least < expected => zeroed(runtime, stream, words(least), TABLE),
            slots => slots,
        };
        // The setting determines the least size, unless threads or groups do.
        let is_set = overflows && 2 * threads < needs.hash_slots && least < all;
        let sized = |error: RunError| match is_set {
            true => error.sized_by("galatea.tuning.hash_slots"),
            false => error,
        };
        let slots = slots.map_err(sized)?;
        let capacity = slots.len() as u64 / u64::from(layout.slot_words);
        let limit = limit(capacity, threads, most);
        let (heap, grid) = if limit == u64::MAX {
            (None, grid)
        } else {
            let demand = Demand {
                build: bound.heap,
                words: layout.group_words(),
                rows,
                morsel_rows: 0,
                bytes: DemandPolicy::DEFAULT.overflow_bytes.min(runtime.room() / 8),
            };
            let made = RowHeap::new(runtime, stream, owner, demand, grid);
            let (heap, grid) = made.map_err(|error| match capacity <= least {
                true => sized(error),
                false => error,
            })?;
            (Some(heap), grid)
        };
        let merges = merges(accumulators);
        let made = Self {
            slots: runtime.memory().working(owner, TABLE, slots),
            owner,
            layout,
            limit,
            threads,
            most,
            heap,
            merges,
        };
        Ok((made, grid))
    }

    /// Address and number of the slots, and the maximum number of groups.
    pub(crate) fn slots(&self) -> (u64, u64, u64) {
        (self.slots.address(), self.capacity(), self.limit)
    }

    /// Lets other queries move its memory.
    pub(crate) fn park(&mut self) {
        self.slots.park();
        if let Some(heap) = &mut self.heap {
            heap.park();
        }
    }

    /// The regions that a launch accesses, and how.
    pub(crate) fn uses(&mut self) -> impl Iterator<Item = Use<'_>> {
        let slots = self.slots.used(Access::ReadWrite);
        [slots].into_iter().chain(self.heap.as_mut().map(RowHeap::used))
    }

    /// The pages of overflow rows.
    pub(crate) fn chains(&self) -> Option<PageChainsView> {
        self.heap.as_ref().map(RowHeap::view)
    }

    /// Sets whether the next launch resumes the last one.
    pub(crate) fn set_resume(&mut self, resume: bool) {
        if let Some(heap) = &mut self.heap {
            heap.resume = resume;
        }
    }

    fn capacity(&self) -> u64 {
        self.slots.len() as u64 / u64::from(self.layout.slot_words)
    }

    /// Grows the table for its `held` groups and `waiting` overflow rows, and merges those rows. Word
    /// `groups` of the control words receives the number of groups; `texts` are the strings of accumulators.
    /// If device memory is insufficient, nothing has changed.
    pub(crate) fn merge(
        &mut self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        (control, groups): (&mut DeviceBuffer<u64>, usize),
        (held, waiting): (u64, u64),
        texts: Option<&InternedStrings>,
        report: &mut RunReport,
    ) -> Result<(), RunError> {
        let Some(heap) = &mut self.heap else {
            return Ok(());
        };
        let device = runtime.device();
        let capacity = self.slots.len() as u64 / u64::from(self.layout.slot_words);
        // Every overflow row could be a separate group.
        let least = ((held + waiting) * 4 / 3 + 1)
            .next_power_of_two()
            .max(2 * capacity);
        let sizes = [least.max(4 * capacity), least].map(|slots| slots.min(slots_for(self.most)));
        let table = |slots: u64| {
            let words = slots * u64::from(self.layout.slot_words);
            zeroed(runtime, stream, words, "a larger group hash table")
        };
        let mut slots = match table(sizes[0]) {
            Err(RunError::Memory { .. }) if sizes[1] < sizes[0] => table(sizes[1])?,
            larger => larger?,
        };
        let merges = runtime.upload(stream, &self.merges, "how groups merge")?;
        let mut pages = runtime.zeroed::<u64>(stream, 1, "a counter")?;
        // All memory has been allocated from here on.
        let groups = groups..groups + 1;
        stream.fill(control.slice_mut(groups.clone())?, 0)?;
        HashRehash::new(device)?.launch(
            stream,
            In(&*self.slots),
            InOut(&mut slots),
            InOut(control.slice_mut(groups.clone())?),
            self.layout,
        )?;
        heap.chains.merge(
            device,
            stream,
            &heap.heap,
            InOut(&mut slots),
            InOut(control.slice_mut(groups)?),
            self.layout,
            In(&merges),
            texts.map(|texts| In(&**texts.region())),
            InOut(&mut pages),
        )?;
        heap.returned(stream, report)?;
        report.pages += stream.read(&pages, ..)?[0];
        report.grown += 1;
        self.slots = runtime.memory().working(self.owner, TABLE, slots);
        self.limit = limit(self.capacity(), self.threads, self.most);
        Ok(())
    }

    /// The `groups` groups, column by column; `None` if there are no groups. The heap is kept for the next
    /// query.
    pub(crate) fn collect(
        self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        groups: u64,
        report: &mut RunReport,
    ) -> Result<Option<DeviceBuffer<u64>>, RunError> {
        let mut collected = None;
        if groups > 0 {
            let words = groups * u64::from(self.layout.slot_words);
            let mut out = zeroed(runtime, stream, words, "groups to return")?;
            let mut used = runtime.zeroed::<u64>(stream, 1, "a counter")?;
            let entries = GroupEntries {
                words: self.layout.slot_words,
                marker: 0,
                numbered: false,
            };
            let (slots, used) = (In(&*self.slots), InOut(&mut used));
            CollectGroups::new(runtime.device())?.launch(stream, slots, Out(&mut out), used, entries)?;
            collected = Some(out);
        }
        if let Some(heap) = self.heap {
            heap.keep(runtime, stream, report)?;
        }
        Ok(collected)
    }
}

impl TableState {
    /// The parked slots, and their number. The heap is kept for the next query.
    pub(crate) fn keep(
        mut self,
        runtime: &DeviceRuntime,
        stream: &Stream,
        report: &mut RunReport,
    ) -> Result<(WorkingRegion<u64>, u64), RunError> {
        let entries = self.capacity();
        if let Some(heap) = self.heap {
            heap.keep(runtime, stream, report)?;
        }
        self.slots.park();
        Ok((self.slots, entries))
    }
}

/// Number of groups at which insertion stops: below 60 % load, and low enough that every thread still finds a
/// slot. Unlimited if the table is fully sized.
fn limit(capacity: u64, threads: u64, most: u64) -> u64 {
    if capacity >= most.saturating_mul(2) {
        u64::MAX
    } else {
        (capacity * 6 / 10).min(capacity.saturating_sub(threads + 1))
    }
}

/// How each accumulator word merges, if groups have copies.
pub(crate) fn copies_merge(bound: &BoundPipeline) -> Option<Vec<u8>> {
    match (&bound.strategy, &bound.result) {
        (Strategy::Dense(DenseLayout { copies: 2.., .. }), ResultPlan::Aggregate { accumulators, .. }) => {
            Some(merges(accumulators))
        }
        _ => None,
    }
}

/// How each accumulator word of a group merges.
fn merges(plan: &AccumulatorPlan) -> Vec<u8> {
    let mut words = vec![MergeWord::High as u8; plan.words];
    for contribution in &plan.contributions {
        words[contribution.word] = contribution.accumulator.merge_word() as u8;
    }
    for extreme in &plan.extremes {
        words[extreme.word] = match extreme.least {
            true => MergeWord::LeastString as u8,
            false => MergeWord::GreatestString as u8,
        };
    }
    words
}
