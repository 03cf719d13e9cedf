//! Chooses the memory for a pipeline's build-side lookups: device memory through the cache, or shared memory
//! (Sitaridi & Ross, §2, Q1).
//!
//! A gather through the cache costs more than the scan of a narrow column. So each block copies the build
//! sides that fit, packed (`crates/expression/src/packed.rs`), into its shared memory at the start, and keeps
//! them for all its rows:
//!
//! | memory | entry of a row | pays if |
//! | --- | --- | --- |
//! | `cache` | in the tables of the columns, in device memory | the build side is large, or rows are few |
//! | `shared` | by key, or by code of a string | the key column is not laid out; bank conflicts are those of random keys |
//! | `slots` | by slot of the laid-out key column | slots keep lanes in different banks, and nothing is decoded; copies have their value's entry |
//!
//! Small build sides are placed first, each whole or not at all. Four limits apply: the number of literals of
//! a kernel (`LookupPolicy::literals`), the shared memory that the sink's groups need, half of a
//! multiprocessor's threads must remain resident, and copying must cost less than the lookups. A
//! conflict-free layout for writes also suits reads, since lanes that read the same word share its round.

use super::column_access::ColumnAccess;
use super::options::KernelOptions;
use super::plan::{PipelinePlan, SinkPlan};
use crate::choices::LookupMemory;
use galatea_base::policy::policy;
use galatea_base::reason::{Reason, size};
use galatea_expression::code::{Code, line};
use galatea_expression::{
    ColumnKind, EntryIndex, Expr, ExprKind, LookupSide, PackedLayout, PackedLookupSide, Parameters, widens,
};
use galatea_layout::SlotMap;
use galatea_layout::model::Machine;
use galatea_store::SlotLayout;
use galatea_store::layout::{CodeMeaning, PIPELINE_TILES};
use std::collections::BTreeSet;
use std::sync::Arc;

policy! {
    /// Constants of the choice of build sides that are copied into shared memory.
    pub(super) struct LookupPolicy {
        /// Bytes of shared memory left for other uses of the kernel.
        other_shared_bytes: u64 = 2 << 10,
        /// Maximum number of warps per block.
        warps_of_a_block: u64 = 32,
        /// Maximum number of words of an aggregate in a block's partial result: an average of wide values and
        /// its counts.
        words_of_a_call: u64 = 4,
        /// Build sides take at most `1 / share_beside_groups` of a block's shared memory if groups need it as
        /// well.
        share_beside_groups: u64 = 4,
        /// Maximum number of kernel literals for packed build sides.
        literals: usize = 48,
        /// Bytes of cache left for data in flight from device memory, if a larger block leaves them.
        cache_bytes: u64 = 64 << 10,
        /// Block sizes in threads, if the size is not forced.
        blocks: [u32; 3] = [256, 512, 1024],
        /// Bytes of rows that the registers of a large block hold besides everything else: three eighths of a
        /// multiprocessor's 256 KiB.
        row_bytes: usize = 96 << 10,
        /// Approximate number of rows of a morsel in a block of the usual size.
        morsel_rows: u64 = 8 << 10,
    }
}

const POLICY: LookupPolicy = LookupPolicy::DEFAULT;

/// The memory that each build side is looked up in.
#[derive(Debug, Default)]
pub(super) struct BuildSideLookups {
    /// The packed build sides in shared memory, by number.
    pub(super) packed: Vec<Option<PackedLookupSide>>,
    /// For each build side, its memory and the reason, for EXPLAIN.
    pub(super) notes: Vec<String>,
    /// Bytes of shared memory that they take.
    pub(super) bytes: u64,
    /// Threads per block that suit them.
    pub(super) block: u32,
    /// Maximum number of rows per thread. If slots determine the banks that lanes read, this is the number of
    /// rows per thread that the slots were laid out for.
    items: u32,
}

/// A build side that can be packed.
struct Candidate {
    build_side: usize,
    way: &'static str,
    index: EntryIndex,
    layout: PackedLayout,
    entries: u64,
    /// The index in the build side by entry; computed when it is packed.
    slots: Option<Arc<SlotLayout>>,
}

/// How a pipeline uses its build sides.
struct Uses {
    /// The lookup keys of each build side.
    keys: Vec<Vec<Expr>>,
    /// The columns that are looked up in each build side.
    columns: Vec<BTreeSet<usize>>,
    /// Kernel columns that are used other than as lookup keys.
    decoded: BTreeSet<usize>,
}

/// Inputs of the choice.
pub(super) struct BuildSideInput<'a> {
    pub(super) plan: &'a PipelinePlan,
    pub(super) columns: &'a [ColumnAccess],
    /// Maps source columns to kernel columns.
    pub(super) rewrite: &'a dyn Fn(&Expr) -> Expr,
    pub(super) build_sides: &'a [Arc<LookupSide>],
    pub(super) options: &'a KernelOptions,
    pub(super) rows: u64,
}

impl BuildSideInput<'_> {
    /// Chooses the memory of each build side.
    pub(super) fn choose(&self) -> Result<BuildSideLookups, Reason> {
        let mut lookups = BuildSideLookups {
            packed: self.build_sides.iter().map(|_| None).collect(),
            notes: vec![String::new(); self.build_sides.len()],
            bytes: 0,
            block: POLICY.blocks[0],
            items: u32::MAX,
        };
        let uses = self.uses();
        let mut candidates = Vec::new();
        for build_side in 0..self.build_sides.len() {
            match self.candidates(build_side, &uses) {
                Ok(ways) => candidates.push(ways),
                Err(why) => lookups.notes[build_side] = format!("cache ({why})"),
            }
        }
        candidates.sort_by_key(|ways| ways.first().map(Candidate::bytes));
        let mut literals = 0;
        for candidate in candidates.into_iter().flatten() {
            let build_side = candidate.build_side;
            if lookups.packed[build_side].is_some() {
                continue;
            }
            let bytes = candidate.bytes();
            match self.block_for(&lookups, &candidate, literals) {
                Ok(block) => {
                    lookups.notes[build_side] = format!("{} {}", candidate.way, size(bytes));
                    lookups.bytes += bytes;
                    lookups.block = block;
                    if candidate.slots.is_some() {
                        lookups.items = PIPELINE_TILES.rows_per_thread;
                    }
                    literals += candidate.layout.literals();
                    lookups.packed[build_side] = Some(self.pack(candidate, &uses)?);
                }
                Err(why) => lookups.notes[build_side] = format!("cache ({why})"),
            }
        }
        Ok(lookups)
    }

    fn uses(&self) -> Uses {
        let mut uses = Uses {
            keys: vec![Vec::new(); self.build_sides.len()],
            columns: vec![BTreeSet::new(); self.build_sides.len()],
            decoded: BTreeSet::new(),
        };
        // A single GROUP BY column can be grouped by its slots, so this use does not need its decoded values.
        let only = match &self.plan.sink {
            SinkPlan::Aggregate { keys, .. } if keys.len() == 1 => Some(&keys[0]),
            _ => None,
        };
        for expression in self.plan.expressions() {
            let rewritten = (self.rewrite)(expression);
            let grouped = only.is_some_and(|only| std::ptr::eq(only, expression));
            if !(grouped && rewritten.as_column().is_some()) {
                uses.add(&rewritten);
            }
        }
        uses
    }

    /// The ways to pack the build side, best first, or the reason why it cannot be packed.
    fn candidates(&self, build_side: usize, uses: &Uses) -> Result<Vec<Candidate>, String> {
        let forced = self.options.build_sides;
        if forced == LookupMemory::Cache {
            return Err("forced".into());
        }
        let [key] = uses.keys[build_side].as_slice() else {
            return Err(format!("{} keys", uses.keys[build_side].len()));
        };
        let found = &self.build_sides[build_side];
        if found.is_built() {
            return Err("built on the device".into());
        }
        let candidate = |way, index, entries, slots: Option<&Arc<SlotLayout>>| Candidate {
            build_side,
            way,
            index,
            layout: PackedLayout::new(found, &uses.columns[build_side], slots.is_some()),
            entries,
            slots: slots.cloned(),
        };
        let mut ways = Vec::new();
        if let Some((k, access)) = column_of(key).map(|k| (k, &self.columns[k])) {
            let by_slot = match forced {
                LookupMemory::Slots => true,
                LookupMemory::Auto => !uses.decoded.contains(&k),
                LookupMemory::Cache | LookupMemory::Shared => false,
            };
            if let (true, Some(by)) = (by_slot, &access.slots) {
                let index = EntryIndex::Slot {
                    slot: format!("u32(q{k}[i])"),
                    null: (access.nullable && by.layout.null.is_none()).then(|| format!("c{k}_null")),
                };
                let slots = by.layout.map.slots() as u64;
                ways.push(candidate("slots", index, slots, Some(&by.layout)));
            }
            if let ColumnKind::Dictionary { values } = &access.binding.kind {
                ways.push(candidate("shared", EntryIndex::Code, values.len() as u64, None));
            }
        }
        ways.push(candidate("shared", EntryIndex::Key, found.indices().into(), None));
        if forced == LookupMemory::Slots {
            ways.retain(|way| way.slots.is_some());
        }
        if ways.is_empty() {
            return Err("its key is not laid out".into());
        }
        Ok(ways)
    }

    /// The block size that fits the candidate besides the packed build sides, or the reason why none does.
    fn block_for(
        &self,
        lookups: &BuildSideLookups,
        candidate: &Candidate,
        literals: usize,
    ) -> Result<u32, String> {
        let (share, other) = match &self.plan.sink {
            SinkPlan::Aggregate { keys, .. } if !keys.is_empty() => (POLICY.share_beside_groups, 0),
            // Each warp leaves its sums for the block to add up.
            SinkPlan::Aggregate { aggregates, .. } => (
                1,
                POLICY.warps_of_a_block * 8 * POLICY.words_of_a_call * aggregates.len() as u64,
            ),
            // The rows of a step are in shared memory, too.
            SinkPlan::Partition { .. } => (2, 0),
            _ => (1, 0),
        };
        let limit = (self.options.shared_bytes / share).saturating_sub(other.max(POLICY.other_shared_bytes));
        let bytes = lookups.bytes + candidate.bytes();
        if bytes > limit {
            return Err(format!(
                "{} more than {} of shared memory",
                size(candidate.bytes()),
                size(limit.saturating_sub(lookups.bytes))
            ));
        }
        if literals + candidate.layout.literals() > POLICY.literals {
            return Err("too many columns".into());
        }
        let machine = &self.options.machine;
        let (block, busy) = block(machine, self.options.block, bytes);
        if self.options.build_sides == LookupMemory::Auto {
            if !busy {
                return Err(format!("{} leave too few threads", size(bytes)));
            }
            let blocks = machine.resident_blocks(block, bytes) * machine.multiprocessors;
            let copied =
                u64::from(blocks).min(self.rows.div_ceil(POLICY.morsel_rows)) * candidate.bytes() / 4;
            if self.rows * (candidate.layout.planes() as u64) < copied {
                return Err("few rows".into());
            }
        }
        Ok(block)
    }

    fn pack(&self, candidate: Candidate, uses: &Uses) -> Result<PackedLookupSide, Reason> {
        let found = &self.build_sides[candidate.build_side];
        let entries = match (&candidate.slots, &candidate.index) {
            (Some(layout), _) => by_slot(layout, found)?,
            (None, EntryIndex::Code) => {
                let column = uses.keys[candidate.build_side].first().and_then(column_of);
                match column.map(|column| &self.columns[column].binding.kind) {
                    Some(ColumnKind::Dictionary { values }) => found.indices_of(values)?,
                    _ => Vec::new(),
                }
            }
            _ => (0..found.indices()).map(Some).collect(),
        };
        Ok(candidate.layout.pack(found, candidate.index, &entries))
    }
}

impl Uses {
    /// Adds the uses of an expression over kernel columns.
    fn add(&mut self, expression: &Expr) {
        match expression.kind() {
            ExprKind::Column(column) => {
                self.decoded.insert(*column);
            }
            ExprKind::Member { build_side, key } | ExprKind::Absent { build_side, key } => {
                self.add_key(*build_side, key);
            }
            ExprKind::Lookup {
                build_side,
                column,
                key,
                ..
            } => {
                self.columns[*build_side].insert(*column);
                self.add_key(*build_side, key);
            }
            _ => expression
                .children()
                .into_iter()
                .for_each(|child| self.add(child)),
        }
    }

    fn add_key(&mut self, build_side: usize, key: &Expr) {
        if !self.keys[build_side].contains(key) {
            self.keys[build_side].push(key.clone());
        }
        if column_of(key).is_none() {
            self.add(key);
        }
    }
}

impl Candidate {
    fn bytes(&self) -> u64 {
        self.layout.bytes(self.entries)
    }
}

impl BuildSideLookups {
    /// The options for the sink, without the shared memory that packed build sides take in every block.
    pub(super) fn remaining(&self, options: KernelOptions) -> KernelOptions {
        KernelOptions {
            shared_bytes: options.shared_bytes.saturating_sub(self.bytes),
            machine: Machine {
                shared_bytes_reserved: options.machine.shared_bytes_reserved + self.bytes,
                ..options.machine
            },
            ..options
        }
    }

    /// Maximum number of rows per thread, for rows of `row_bytes`: the threads of large blocks have few
    /// registers.
    pub(super) fn items(&self, row_bytes: usize) -> u32 {
        let registers = POLICY.row_bytes / self.block as usize / row_bytes.max(1);
        if self.block == POLICY.blocks[0] {
            return self.items;
        }
        self.items.min(1 << registers.max(1).ilog2())
    }

    /// Threads per block, unless the sink determines them.
    pub(super) fn block(&self, forced: u32) -> u32 {
        if forced == 0 { self.block } else { forced }
    }

    /// Bytes of dynamic shared memory of a block, given the bytes of the sink.
    pub(super) fn dynamic_shared(&self, sink: u32) -> u32 {
        match u32::try_from(self.bytes).unwrap_or(u32::MAX) {
            0 => sink,
            bytes => sink.next_multiple_of(16).saturating_add(bytes),
        }
    }

    /// Statements that copy the packed build sides into shared memory after the sink's part, and declare
    /// their planes.
    pub(super) fn prologue(&self, sink: u32, block: u32, parameters: &mut Parameters) -> Code {
        let mut code = Code::default();
        if self.bytes == 0 {
            return code;
        }
        if sink == 0 {
            code.lines("GALATEA_DYNAMIC_SHARED(dynamic_shared);");
        }
        let mut all = Vec::with_capacity(self.bytes as usize);
        let mut planes = Code::default();
        for (build_side, packed) in self.packed.iter().enumerate() {
            let Some(packed) = packed else { continue };
            for (plane, (c_type, start)) in packed.planes().enumerate() {
                let first = match all.len() as u64 + start {
                    0 => "packed".to_owned(),
                    start => format!("packed + u32(args.literals[{}])", parameters.literal(start)),
                };
                line!(
                    planes,
                    "const {c_type}* const dim{build_side}_{plane} = reinterpret_cast<const {c_type}*>({first});"
                );
            }
            all.extend_from_slice(packed.bytes());
        }
        let pieces = parameters.literal(self.bytes / 16);
        let table = parameters.table(all);
        line!(
            code,
            "unsigned char* const packed = dynamic_shared + {}u;
for (u32 i = threadIdx.x; i < u32(args.literals[{pieces}]); i += {block}u) {{
    reinterpret_cast<uint4*>(packed)[i] = __ldg(reinterpret_cast<const uint4*>(args.tables[{table}]) + i);
}}",
            sink.next_multiple_of(16)
        );
        code.nest(0, &planes);
        code.lines("__syncthreads();");
        code
    }
}

/// The kernel column that is the key, possibly below a widening cast.
fn column_of(key: &Expr) -> Option<usize> {
    match key.kind() {
        ExprKind::Cast { input, .. } if widens(input.data_type(), key.data_type()) => column_of(input),
        _ => key.as_column(),
    }
}

/// The smallest block that keeps half of a multiprocessor's threads busy and leaves enough cache; otherwise
/// the smallest that keeps them busy; otherwise the largest. Also returns whether it keeps them busy.
fn block(machine: &Machine, forced: u32, bytes: u64) -> (u32, bool) {
    let sizes = if forced == 0 {
        &POLICY.blocks[..]
    } else {
        std::slice::from_ref(&forced)
    };
    let busy = |block: u32| machine.resident_blocks(block, bytes) * block * 2 >= machine.threads;
    let leaves_cache = |block: u32| {
        let blocks = u64::from(machine.resident_blocks(block, bytes));
        machine.cache_bytes(blocks * (bytes + machine.shared_bytes_reserved)) >= POLICY.cache_bytes
    };
    let mut fitting = sizes.iter().copied().filter(|block| busy(*block));
    let first = fitting.clone().next();
    match fitting.find(|block| leaves_cache(*block)).or(first) {
        Some(block) => (block, true),
        None => (sizes[sizes.len() - 1], false),
    }
}

/// For each slot, the index of its value in the build side. Copies have their value's index; NULL and unused
/// slots have none.
fn by_slot(layout: &SlotLayout, build_side: &LookupSide) -> Result<Vec<Option<u32>>, Reason> {
    let of_code: Box<dyn Fn(u32) -> Option<u32>> = match &layout.meaning {
        CodeMeaning::Dictionary { values } => {
            let indices = build_side.indices_of(values)?;
            Box::new(move |code| indices.get(code as usize).copied().flatten())
        }
        CodeMeaning::Integer { base, factor } => {
            let (base, factor) = (i128::from(*base), i128::from(*factor));
            Box::new(move |code| build_side.index_of(base + factor * i128::from(code)))
        }
    };
    let slots = layout.map.as_slice().iter();
    Ok(slots
        .map(|value| match *value {
            SlotMap::HOLE => None,
            value if Some(value) == layout.null => None,
            code => of_code(code),
        })
        .collect())
}

#[cfg(test)]
mod tests;
