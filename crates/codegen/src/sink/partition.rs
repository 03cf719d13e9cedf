//! Partitioned rows: the rows of a step are staged in shared memory, reordered by partition there, and
//! written in runs (`partition.cuh`). Alternatively, rows are only counted by partition. The counting pass
//! runs first, so that each partition begins where the previous one ends.
//!
//! ```text
//! args.groups               by partition, the number of rows or the next free position
//! args.outputs[k]           column k by position
//! args.outputs[N/2 + k]     a bit by position: whether column k is NULL there
//!
//! shared memory             the order, one word per row; then the columns and NULL flags of the step by row
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
    /// Staging of the rows that a block partitions at once.
    pub(crate) struct StagingPolicy {
        /// Maximum bytes of shared memory for the rows of a step; two blocks fit a multiprocessor.
        bytes: u64 = 104 << 10,
        /// Bytes of shared memory left for the counts of partitions.
        other: u64 = 8 << 10,
        /// Maximum number of threads per block. The more rows a step has, the longer are the runs that are
        /// written.
        threads: u32 = 1024,
        /// Maximum number of threads per block if partitions are few. Their runs are long anyway, and two
        /// blocks share a multiprocessor: one reads while the other one writes.
        threads_of_few: u32 = 512,
        /// Maximum number of partitions that are few.
        few: u32 = 128,
    }
}

const POLICY: StagingPolicy = StagingPolicy::DEFAULT;

/// The number of threads per block for these rows, with `items` rows per thread.
///
/// # Errors
/// [`Reason::Limit`] if the rows of a single warp do not fit.
pub(crate) fn block_for(plan: &PartitionPlan, items: u32, options: &KernelOptions) -> Result<u32, Reason> {
    let room = options
        .shared_bytes
        .saturating_sub(POLICY.other)
        .min(POLICY.bytes);
    let mut block = match options.block {
        0 if plan.parts <= POLICY.few => POLICY.threads_of_few,
        0 => POLICY.threads,
        forced => forced,
    };
    while block > 32 && stage_bytes(plan, block * items) > room {
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

/// Bytes of `rows` staged rows.
fn stage_bytes(plan: &PartitionPlan, rows: u32) -> u64 {
    if plan.counts {
        return 0;
    }
    let column = |column: &BuiltColumn| column.width as u64 + u64::from(column.nullable);
    u64::from(rows) * (4 + plan.columns.iter().map(column).sum::<u64>())
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
    /// Rows of a step.
    fn rows(&self) -> u32 {
        self.block * self.items
    }

    /// Offsets of columns and NULL flags in shared memory: wide columns first, so that all are aligned.
    fn stages(&self) -> Vec<(usize, u64, Option<u64>)> {
        let columns = &self.plan.columns;
        let mut order: Vec<usize> = (0..columns.len()).collect();
        order.sort_by_key(|k| std::cmp::Reverse(columns[*k].width));
        let mut end = 0;
        let mut take = |bytes: u64| {
            let at = end;
            end += u64::from(self.rows()) * bytes;
            at
        };
        let mut stages: Vec<_> = (order.iter())
            .filter(|k| columns[**k].width >= 4)
            .map(|k| (*k, take(columns[*k].width as u64), None))
            .collect();
        // The order itself takes 4 bytes per row.
        stages.push((usize::MAX, take(4), None));
        let narrow = order.iter().filter(|k| columns[**k].width < 4);
        stages.extend(narrow.map(|k| (*k, take(columns[*k].width as u64), None)));
        for (k, _, flags) in &mut stages {
            if columns.get(*k).is_some_and(|column| column.nullable) {
                *flags = Some(take(1));
            }
        }
        stages
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
        for (k, at, flags) in self.stages() {
            match self.plan.columns.get(k) {
                Some(column) => line!(
                    code,
                    "{0}* const stage{k} = reinterpret_cast<{0}*>(dynamic_shared + {at}u);",
                    column.c_type
                ),
                None => line!(
                    code,
                    "u32* const order = reinterpret_cast<u32*>(dynamic_shared + {at}u);"
                ),
            }
            if let Some(at) = flags {
                line!(code, "u8* const stage{k}_null = dynamic_shared + {at}u;");
            }
        }
        code.lines("partition_begin(partition_step);");
    }

    fn before_rows(&self, code: &mut Code) {
        if !self.plan.counts {
            line!(code, "u32 taken[{}];", self.items);
        }
    }

    fn row(&self, code: &mut Code) {
        let partition = &self.partition;
        if self.plan.counts {
            line!(code, "atomicAdd(&partition_rows[{partition}], 1u);");
            return;
        }
        line!(code, "taken[i] = partition_take(partition_step, {partition});");
        code.lines("const u32 staged = u32(i) * blockDim.x + threadIdx.x;");
        for (k, (column, value)) in self.plan.columns.iter().zip(&self.values).enumerate() {
            line!(code, "stage{k}[staged] = {}({});", column.c_type, value.code);
            if let Some(null) = &value.null {
                line!(code, "stage{k}_null[staged] = {null} ? 1 : 0;");
            }
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
    order[partition_place(partition_step, taken[i])] = (taken[i] >> 16) << 16 | (u32(i) * {block}u + threadIdx.x);
}}
__syncthreads();
for (u32 place = threadIdx.x; place < held; place += {block}u) {{
    const u32 staged = order[place] & 0xffffu;
    const u64 at = partition_step.shift[order[place] >> 16] + place;"
        );
        for (k, column) in self.plan.columns.iter().enumerate() {
            line!(
                code,
                "    reinterpret_cast<{}*>(args.outputs[{k}])[at] = stage{k}[staged];",
                column.c_type
            );
            if column.nullable {
                let nulls = MAX_OUTPUTS / 2 + k;
                line!(
                    code,
                    "    if (stage{k}_null[staged] != 0) atomicOr(reinterpret_cast<u32*>(args.outputs[{nulls}]) + (at >> 5), 1u << (at & 31u));"
                );
            }
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
