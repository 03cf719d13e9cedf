//! Hot groups: their accumulators would be contended in shared memory, so their rows are accumulated in
//! registers of each thread.

use super::statements::{add_to_registers, merge_registers};
use crate::accumulators::AccumulatorPlan;
use galatea_expression::code::{Code, line};

/// Adds a row of a hot group to its registers. `code` continues with the statement for all other groups.
pub(super) fn update(plan: &AccumulatorPlan, hot: u32, code: &mut Code) {
    for group in 0..hot {
        line!(code, "if (group == hot{group}) {{");
        add_to_registers(plan, |w| format!("&h{group}_{w}"), code);
        code.part(format_args!("}} else "));
    }
}

/// Declares the registers; `literals` are the indices of the literals that contain the groups.
pub(super) fn prologue(plan: &AccumulatorPlan, literals: &[usize], code: &mut Code) {
    for (group, literal) in literals.iter().enumerate() {
        line!(code, "const u32 hot{group} = u32(args.literals[{literal}]);");
        for w in 0..plan.partial_words {
            line!(code, "u64 h{group}_{w} = 0;");
        }
    }
}

/// Adds the registers to the groups in global memory, warp by warp.
pub(super) fn merge(plan: &AccumulatorPlan, hot: u32, code: &mut Code) {
    if hot > 0 {
        code.lines("u64 none = 0;");
    }
    for group in 0..hot {
        merge_registers(
            plan,
            |w| format!("h{group}_{w}"),
            code,
            |c, low, high, code| {
                line!(
                    code,
                    "if ((threadIdx.x & 31u) == 0) merge_into<{}>(reinterpret_cast<u64*>(args.groups) + u64(hot{group}) * {}u + {}, {low}, {high});",
                    c.accumulator.merge(),
                    plan.words,
                    c.word
                );
            },
        );
    }
}
