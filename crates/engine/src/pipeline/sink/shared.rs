//! Dense groups in shared memory, replicated: `words[word][group][copy]`.
//!
//! Copies of one word lie next to each other, so lanes of a warp that update different copies never share a bank,
//! whatever their groups: conflicts of banks and of values are both gone when there are at least 32 copies. With one
//! copy per thread no atomics are needed either.

use super::super::bind::AccumulatorPlan;
use super::super::generate::SinkFrame;
use super::add_to_partials;
use std::fmt::Write;

/// Adds a row to the copy of this thread.
pub fn update(plan: &AccumulatorPlan, groups: u64, copies: u32, block: u32, code: &mut String) {
    let home = if copies == block {
        "PrivateWords"
    } else {
        "SharedWords"
    };
    let _ = writeln!(code, "u64* const at = words + group * {copies}u + copy;");
    add_to_partials(
        plan,
        home,
        |w| format!("at + {}u", w as u64 * groups * u64::from(copies)),
        code,
    );
}

/// Clears before; merges the copies into global memory after.
pub fn frame(plan: &AccumulatorPlan, groups: u64, copies: u32, block: u32) -> SinkFrame {
    let total = plan.partial_words as u64 * groups * u64::from(copies);
    let prologue = format!(
        "GALATEA_DYNAMIC_SHARED(dynamic_shared);\n\
         u64* const words = reinterpret_cast<u64*>(dynamic_shared);\n\
         for (u32 i = threadIdx.x; i < {total}u; i += {block}u) words[i] = 0;\n\
         const u32 copy = threadIdx.x & {}u;\n\
         __syncthreads();\n",
        copies - 1
    );
    let warps = block / 32;
    let mut epilogue = format!(
        "__syncthreads();\nfor (u32 group = threadIdx.x >> 5; group < {groups}u; group += {warps}u) {{\n"
    );
    epilogue.push_str(&format!(
        "    const u64* const at = words + group * {copies}u;\n    u64* const home = reinterpret_cast<u64*>(args.groups) + u64(group) * {}u;\n",
        plan.words
    ));
    for c in &plan.contributions {
        let stride = groups * u64::from(copies);
        let high = c.partial + c.accumulator.partial_words() - 1;
        let _ = writeln!(
            epilogue,
            "    merge_copies<{}>(at + {}u, at + {}u, {copies}u, home + {});",
            c.accumulator.merge(),
            c.partial as u64 * stride,
            high as u64 * stride,
            c.word
        );
    }
    epilogue.push_str("}\n");
    SinkFrame {
        prologue,
        epilogue,
        dynamic_shared: u32::try_from(total * 8).unwrap_or(u32::MAX),
        ..SinkFrame::default()
    }
}
