//! Groups in registers: the single group of a query without keys, or very few groups. They are merged by
//! warp, by block, then with one atomic per word and block.

use super::statements::{add_to_registers, compare_strings, merge_registers, words_of_group};
use super::{Geometry, Sink};
use crate::accumulators::AccumulatorPlan;
use galatea_expression::code::{Code, line};

/// Collects the single group of a query without keys.
#[derive(Debug)]
pub(crate) struct ScalarSink {
    pub(crate) accumulators: AccumulatorPlan,
}

impl Sink for ScalarSink {
    fn prologue(&self, _: Geometry, code: &mut Code) {
        declare(&self.accumulators, 1, code);
    }

    fn row(&self, code: &mut Code) {
        add_to_registers(&self.accumulators, |w| format!("&w0_{w}"), code);
        compare_strings(&self.accumulators, &words_of_group(&self.accumulators, "0"), code);
    }

    fn epilogue(&self, geometry: Geometry, code: &mut Code) {
        merge(&self.accumulators, 1, geometry.block, code);
    }
}

/// Declares registers `w{group}_{word}`.
pub(super) fn declare(plan: &AccumulatorPlan, groups: u64, code: &mut Code) {
    for group in 0..groups {
        for w in 0..plan.partial_words {
            line!(code, "u64 w{group}_{w} = 0;");
        }
    }
}

/// Merges the registers of the block and adds them to the groups in global memory.
pub(super) fn merge(plan: &AccumulatorPlan, groups: u64, block: u32, code: &mut Code) {
    let warps = block / 32;
    let words = plan.partial_words.max(1) as u64;
    line!(code, "__shared__ u64 partial[{}][{warps}];", words * groups);
    code.lines(
        "const u32 warp = threadIdx.x >> 5;\nconst bool leader = (threadIdx.x & 31u) == 0;\nu64 none = 0;",
    );
    for group in 0..groups {
        merge_registers(plan, |w| format!("w{group}_{w}"), code, |_, _, _, _| ());
        for w in 0..plan.partial_words {
            let element = group * words + w as u64;
            line!(code, "if (leader) partial[{element}][warp] = w{group}_{w};");
        }
    }
    line!(
        code,
        "__syncthreads();\nfor (u32 group = warp; group < {groups}u; group += {warps}u) {{
    const u64* const words = partial[group * {words}u];
    u64* const total = reinterpret_cast<u64*>(args.groups) + u64(group) * {}u;",
        plan.words
    );
    for c in &plan.contributions {
        line!(
            code,
            "    merge_copies<{}>(WholeElements{{words + {}u, {warps}u, {}}}, 0, {warps}u, total + {});",
            c.accumulator.merge(),
            c.partial as u64 * u64::from(warps),
            c.accumulator.partial_words() == 2,
            c.word
        );
    }
    code.lines("}");
}
