//! Hot groups: so frequent that whatever holds them is contended. Their rows go to registers of each thread.

use super::super::bind::{AccumulatorPlan, Contribution};
use super::merge_registers;
use std::fmt::Write;

/// Adds a row of a hot group to its registers; `code` goes on with what is done for all others, up to the end
/// of a statement.
pub(super) fn update(plan: &AccumulatorPlan, hot: u32, code: &mut String) {
    for group in 0..hot {
        let _ = writeln!(code, "if (group == hot{group}) {{");
        super::add_to_registers(plan, |w| format!("&h{group}_{w}"), code);
        code.push_str("} else ");
    }
}

/// Declares the registers; `literals` hold the groups.
pub(super) fn prologue(plan: &AccumulatorPlan, literals: &[usize]) -> String {
    let mut code = String::new();
    for (group, literal) in literals.iter().enumerate() {
        let _ = writeln!(code, "const u32 hot{group} = u32(args.literals[{literal}]);");
        for w in 0..plan.partial_words {
            let _ = writeln!(code, "u64 h{group}_{w} = 0;");
        }
    }
    code
}

/// Adds what the registers hold to the homes in global memory, warp by warp.
pub(super) fn merge(plan: &AccumulatorPlan, hot: u32) -> String {
    let mut code = String::new();
    if hot > 0 {
        code.push_str("u64 none = 0;\n");
    }
    for group in 0..hot {
        let home = |c: &Contribution, low: &str, high: &str| {
            format!(
                "if ((threadIdx.x & 31u) == 0) merge_into<{}>(reinterpret_cast<u64*>(args.groups) + u64(hot{group}) * {}u + {}, {low}, {high});\n",
                c.accumulator.merge(),
                plan.words,
                c.word
            )
        };
        code.push_str(&merge_registers(plan, |w| format!("h{group}_{w}"), home));
    }
    code
}
