//! Groups in registers: one of a query without keys, or very few. Merged by warp, by block, then with one
//! atomic a word and block.

use super::super::bind::AccumulatorPlan;
use super::super::generate::SinkFrame;
use super::{add_to_registers, merge_registers};
use std::fmt::Write;

/// Adds a row to the only group.
pub fn update(plan: &AccumulatorPlan, code: &mut String) {
    add_to_registers(plan, |w| format!("&w0_{w}"), code);
}

/// Registers `w{group}_{word}` before, merges after.
pub fn frame_of_groups(plan: &AccumulatorPlan, groups: u64, block: u32) -> SinkFrame {
    let mut prologue = String::new();
    for group in 0..groups {
        for w in 0..plan.partial_words {
            let _ = writeln!(prologue, "u64 w{group}_{w} = 0;");
        }
    }
    let warps = block / 32;
    let words = plan.partial_words.max(1) as u64;
    let mut epilogue = format!("__shared__ u64 partial[{}][{warps}];\n", words * groups);
    epilogue.push_str(
        "const u32 warp = threadIdx.x >> 5;\nconst bool leader = (threadIdx.x & 31u) == 0;\nu64 none = 0;\n",
    );
    for group in 0..groups {
        let register = |w| format!("w{group}_{w}");
        epilogue.push_str(&merge_registers(plan, register, |_, _, _| String::new()));
        for w in 0..plan.partial_words {
            let _ = writeln!(
                epilogue,
                "if (leader) partial[{}][warp] = w{group}_{w};",
                group * words + w as u64
            );
        }
    }
    let _ = writeln!(
        epilogue,
        "__syncthreads();\nfor (u32 group = warp; group < {groups}u; group += {warps}u) {{
    const u64* const words = partial[group * {words}u];
    u64* const home = reinterpret_cast<u64*>(args.groups) + u64(group) * {}u;",
        plan.words
    );
    for c in &plan.contributions {
        let _ = writeln!(
            epilogue,
            "    merge_copies<{}>(WholeElements{{words + {}u, {warps}u, {}}}, 0, {warps}u, home + {});",
            c.accumulator.merge(),
            c.partial as u64 * u64::from(warps),
            c.accumulator.partial_words() == 2,
            c.word
        );
    }
    epilogue.push_str("}\n");
    SinkFrame {
        prologue,
        epilogue,
        ..SinkFrame::default()
    }
}
