//! One group: accumulators in registers, merged by warp, by block, then with one atomic per word and block.

use super::super::bind::AccumulatorPlan;
use super::super::generate::SinkFrame;
use super::add_to_partials;
use std::fmt::Write;

/// Adds a row.
pub fn update(plan: &AccumulatorPlan, code: &mut String) {
    add_to_partials(plan, "PrivateWords", |w| format!("&w{w}"), code);
}

/// Registers before, merges after.
pub fn frame(plan: &AccumulatorPlan, block: u32) -> SinkFrame {
    let mut prologue = String::new();
    for w in 0..plan.partial_words {
        let _ = writeln!(prologue, "u64 w{w} = 0;");
    }
    let warps = block / 32;
    let mut epilogue = format!(
        "__shared__ u64 partial[{}][{warps}];\n",
        plan.partial_words.max(1)
    );
    epilogue.push_str(
        "const u32 warp = threadIdx.x >> 5;\nconst bool leader = (threadIdx.x & 31u) == 0;\nu64 none = 0;\n",
    );
    for c in &plan.contributions {
        let high = if c.accumulator.partial_words() == 2 {
            format!("w{}", c.partial + 1)
        } else {
            "none".into()
        };
        let _ = writeln!(
            epilogue,
            "warp_merge<{}>(w{}, {high});",
            c.accumulator.merge(),
            c.partial
        );
    }
    for w in 0..plan.partial_words {
        let _ = writeln!(epilogue, "if (leader) partial[{w}][warp] = w{w};");
    }
    epilogue.push_str("__syncthreads();\nif (warp == 0) {\n");
    for c in &plan.contributions {
        let high = c.partial + c.accumulator.partial_words() - 1;
        let _ = writeln!(
            epilogue,
            "    merge_copies<{}>(partial[{}], partial[{high}], {warps}u, reinterpret_cast<u64*>(args.groups) + {});",
            c.accumulator.merge(),
            c.partial,
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
