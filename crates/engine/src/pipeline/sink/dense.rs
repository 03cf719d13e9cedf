//! Dense groups in global memory: the group's number is its place, atomics are resolved in L2. There atomics
//! near each other follow each other, so where a few groups are frequent the lanes of a warp combine their
//! rows of a group first, and groups have copies, each for some of the blocks, which are added up in the end.

use super::super::bind::AccumulatorPlan;
use super::{add_to_home, combine_at_home};
use std::fmt::{self, Write};

/// How dense groups lie in global memory: `[copy][group][word]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DenseLayout {
    /// Groups.
    pub groups: u64,
    /// Whether the lanes of a warp combine their rows of a group first.
    pub warps: bool,
    /// Copies of each group: a power of two up to 32.
    pub copies: u32,
}

impl fmt::Display for DenseLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dense({} groups", self.groups)?;
        if self.copies > 1 {
            write!(f, ", {} copies", self.copies)?;
        }
        f.write_str(if self.warps { ", combined by warps)" } else { ")" })
    }
}

/// Adds a row to its group.
pub fn update(plan: &AccumulatorPlan, layout: &DenseLayout, code: &mut String) {
    let place = match layout.copies {
        1 => "u64(group)".to_owned(),
        copies => format!("(u64(blockIdx.x & {}u) * {}u + group)", copies - 1, layout.groups),
    };
    let _ = writeln!(
        code,
        "u64* const at = reinterpret_cast<u64*>(args.groups) + {place} * {}u;",
        plan.words
    );
    if layout.warps {
        combine_at_home(plan, ("together", "group"), code);
    } else {
        add_to_home(plan, code);
    }
}
