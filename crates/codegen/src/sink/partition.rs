//! Partitioned rows: the threads of a block keep the rows of a step in registers while they are counted. Then
//! the rows are ordered by partition in shared memory, and written in runs (`partition.cuh`). Alternatively,
//! rows are only counted by partition. The counting pass runs first, so that each partition begins where the
//! previous one ends.
//!
//! ```text
//! args.groups               by partition, the number of rows or the next free position
//! args.outputs[k]           column k by position
//! args.outputs[N/2 + k]     a bit by position: whether column k is NULL there
//!
//! shared memory             the columns, NULL flags and partitions of the step, in the order of partitions
//! ```

use super::{Geometry, Sink};
use crate::build_plan::PartitionPlan;
use crate::options::KernelOptions;
use galatea_base::policy::policy;
use galatea_base::reason::Reason;
use galatea_expression::code::{Code, line};
use galatea_expression::{BuiltColumn, Value};
use galatea_kernels::MAX_OUTPUTS;

policy! {
    /// The rows that a block partitions at once. The more rows a step has, the longer are the runs that are
    /// written (`bench/results/2026-11-30-nvidia-h200/partition-kernel.txt`).
    pub(crate) struct StagingPolicy {
        /// Up to this number of partitions, two blocks share a multiprocessor: one writes while the other
        /// reads.
        few_parts: u32 = 128,
        /// Maximum bytes of shared memory for the rows of a step of two blocks.
        half: u64 = 104 << 10,
        /// Maximum bytes of shared memory for the rows of a step of a single block.
        whole: u64 = 208 << 10,
        /// Bytes of shared memory left for the counts of partitions.
        other: u64 = 8 << 10,
        /// Maximum number of threads of each of two blocks.
        threads: u32 = 512,
        /// Registers of a multiprocessor.
        registers: u32 = 1 << 16,
        /// Maximum number of registers of a thread.
        of_thread: u32 = 255,
        /// Registers of a thread beside those for its rows.
        other_registers: u32 = 16,
    }
}

const POLICY: StagingPolicy = StagingPolicy::DEFAULT;

/// The number of threads per block for these rows, with `items` rows per thread.
///
/// # Errors
/// [`Reason::Limit`] if the rows of a single warp do not fit.
pub(crate) fn block_for(plan: &PartitionPlan, items: u32, options: &KernelOptions) -> Result<u32, Reason> {
    let blocks = blocks(plan);
    let (most, threads) = match blocks {
        1 => (POLICY.whole, 2 * POLICY.threads),
        _ => (POLICY.half, POLICY.threads),
    };
    let room = options.shared_bytes.saturating_sub(POLICY.other).min(most);
    let mut block = match options.block {
        0 => threads,
        forced => forced,
    };
    let registers = registers(plan, items).min(POLICY.of_thread);
    let fits = |block: u32| {
        stage_bytes(plan, block * items) <= room && blocks * block * registers <= POLICY.registers
    };
    while block > 32 && !fits(block) {
        block /= 2;
    }
    let asked = stage_bytes(plan, block * items);
    if asked > room {
        return Err(Reason::Limit {
            expression: "rows in partitions".into(),
            asked,
            limit: room,
            unit: "bytes of shared memory",
        });
    }
    Ok(block)
}

/// The number of blocks of a multiprocessor.
fn blocks(plan: &PartitionPlan) -> u32 {
    match plan.parts <= POLICY.few_parts {
        true => 2,
        false => 1,
    }
}

/// Bytes of `rows` staged rows.
fn stage_bytes(plan: &PartitionPlan, rows: u32) -> u64 {
    if plan.counts {
        return 0;
    }
    let column = |column: &BuiltColumn| column.width as u64 + u64::from(column.nullable);
    u64::from(rows) * (1 + plan.columns.iter().map(column).sum::<u64>())
}

/// Registers of a thread with `items` rows.
fn registers(plan: &PartitionPlan, items: u32) -> u32 {
    if plan.counts {
        return POLICY.other_registers;
    }
    let columns = plan.columns.iter();
    let words: u32 = columns.map(|column| column.width.div_ceil(4) as u32).sum();
    POLICY.other_registers + items * (1 + words)
}

/// Writes rows into partitions, or counts them.
#[derive(Debug)]
pub(crate) struct PartitionSink {
    pub(crate) plan: PartitionPlan,
    /// C++ expression of the row's partition.
    pub(crate) partition: String,
    /// The values of the plan's columns for the row.
    pub(crate) values: Vec<Value>,
    /// Threads per block, and rows per thread in a step.
    pub(crate) block: u32,
    pub(crate) items: u32,
}

impl PartitionSink {
    /// The columns with NULLs, and the C++ expressions of whether they are NULL.
    fn nullable(&self) -> impl Iterator<Item = (usize, &str)> {
        let columns = self.plan.columns.iter().zip(&self.values).enumerate();
        columns.filter_map(|(k, (column, value))| {
            let null = value.null.as_deref().filter(|_| column.nullable)?;
            Some((k, null))
        })
    }

    /// Rows of a step.
    fn rows(&self) -> u32 {
        self.block * self.items
    }

    /// Offsets of columns in shared memory: wide columns first, so that all are aligned.
    fn stages(&self) -> Vec<(usize, u64)> {
        let columns = &self.plan.columns;
        let mut order: Vec<usize> = (0..columns.len()).collect();
        order.sort_by_key(|k| std::cmp::Reverse(columns[*k].width));
        let mut end = 0;
        let mut stages = Vec::new();
        for k in order {
            stages.push((k, end));
            end += u64::from(self.rows()) * columns[k].width as u64;
        }
        stages
    }

    /// Offset of the bytes behind the columns in shared memory: NULL flags of columns, and partitions.
    fn flags(&self) -> u64 {
        let widths = self.plan.columns.iter().map(|column| column.width as u64);
        u64::from(self.rows()) * widths.sum::<u64>()
    }
}

impl Sink for PartitionSink {
    fn headers(&self) -> &'static [&'static str] {
        &["partition"]
    }

    fn dynamic_shared(&self) -> u32 {
        // The block size is chosen such that it fits.
        stage_bytes(&self.plan, self.rows()) as u32
    }

    fn blocks(&self) -> u32 {
        blocks(&self.plan)
    }

    fn prologue(&self, _: Geometry, code: &mut Code) {
        let parts = self.plan.parts;
        if self.plan.counts {
            line!(code, "__shared__ u32 partition_rows[{parts}];");
            line!(
                code,
                "for (u32 part = threadIdx.x; part < {parts}u; part += blockDim.x) partition_rows[part] = 0;"
            );
            code.lines("__syncthreads();");
            return;
        }
        line!(code, "__shared__ PartitionStep<{parts}> partition_step;");
        code.lines("GALATEA_DYNAMIC_SHARED(dynamic_shared);");
        for (k, at) in self.stages() {
            line!(
                code,
                "{0}* const stage{k} = reinterpret_cast<{0}*>(dynamic_shared + {at}u);",
                self.plan.columns[k].c_type
            );
        }
        let mut at = self.flags();
        for (k, _) in self.nullable() {
            line!(code, "u8* const stage{k}_null = dynamic_shared + {at}u;");
            at += u64::from(self.rows());
        }
        line!(code, "u8* const stage_part = dynamic_shared + {at}u;");
        code.lines("partition_begin(partition_step);");
    }

    fn before_rows(&self, code: &mut Code) {
        if self.plan.counts {
            return;
        }
        let items = self.items;
        line!(code, "u32 taken[{items}];");
        for (k, column) in self.plan.columns.iter().enumerate() {
            line!(code, "{} kept{k}[{items}];", column.c_type);
        }
        for (k, _) in self.nullable() {
            line!(code, "u32 kept{k}_null = 0;");
        }
    }

    fn row(&self, code: &mut Code) {
        let partition = &self.partition;
        if self.plan.counts {
            line!(code, "atomicAdd(&partition_rows[{partition}], 1u);");
            return;
        }
        line!(code, "taken[i] = partition_take(partition_step, {partition});");
        for (k, (column, value)) in self.plan.columns.iter().zip(&self.values).enumerate() {
            line!(code, "kept{k}[i] = {}({});", column.c_type, value.code);
        }
        for (k, null) in self.nullable() {
            line!(code, "if ({null}) kept{k}_null |= 1u << i;");
        }
    }

    /// Writes the rows of the step, run by run.
    fn after_rows(&self, code: &mut Code) {
        if self.plan.counts {
            return;
        }
        let (parts, block, items) = (self.plan.parts, self.block, self.items);
        line!(
            code,
            "const u32 held = partition_reserve<{parts}, {block}>(partition_step, args.groups);"
        );
        line!(
            code,
            "\
#pragma unroll
for (int i = 0; i < {items}; ++i) {{
    if ((live >> i & 1u) == 0) continue;
    const u32 place = partition_place(partition_step, taken[i]);
    stage_part[place] = u8(taken[i] >> 16);"
        );
        for k in 0..self.plan.columns.len() {
            line!(code, "    stage{k}[place] = kept{k}[i];");
        }
        for (k, _) in self.nullable() {
            line!(code, "    stage{k}_null[place] = u8(kept{k}_null >> i & 1u);");
        }
        line!(
            code,
            "\
}}
__syncthreads();
for (u32 place = threadIdx.x; place < held; place += {block}u) {{
    const u64 at = partition_step.shift[stage_part[place]] + place;"
        );
        for (k, column) in self.plan.columns.iter().enumerate() {
            line!(
                code,
                "    reinterpret_cast<{}*>(args.outputs[{k}])[at] = stage{k}[place];",
                column.c_type
            );
        }
        for (k, _) in self.nullable() {
            let nulls = MAX_OUTPUTS / 2 + k;
            line!(
                code,
                "    if (stage{k}_null[place] != 0) atomicOr(reinterpret_cast<u32*>(args.outputs[{nulls}]) + (at >> 5), 1u << (at & 31u));"
            );
        }
        code.lines("}\n__syncthreads();");
    }

    fn epilogue(&self, _: Geometry, code: &mut Code) {
        if !self.plan.counts {
            return;
        }
        let parts = self.plan.parts;
        line!(
            code,
            "\
__syncthreads();
for (u32 part = threadIdx.x; part < {parts}u; part += blockDim.x) {{
    const u32 rows = partition_rows[part];
    if (rows != 0) atomicAdd(reinterpret_cast<unsigned long long*>(args.groups + part), (unsigned long long)rows);
}}"
        );
    }
}
