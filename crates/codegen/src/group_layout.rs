//! Layouts of the accumulators of dense groups.
//!
//! Within a block, an accumulator is an array of elements, one per group and copy. The elements are whole
//! 64-bit words if each thread has its own copy, otherwise planes of 32-bit words with native atomics. The
//! layout ([`AccumulatorLayout`]) determines the element that a row updates:
//!
//! | layout | element | conflicts |
//! | --- | --- | --- |
//! | registers | none: a register per group and thread | none |
//! | a copy per thread | group × threads + thread | none, no atomics |
//! | one copy | group | when lanes update the same bank; fewer if the lanes of a warp combine their rows first |
//! | copies | group × stride + lane mod copies | none with 32 copies; fewer with more copies |
//! | slots | the slot that the laid-out column encodes for the row | those that remain in the column's layout |

use super::accumulators::{AccumulatorPlan, Contribution};
use super::aggregate::Accumulator;
use galatea_layout::model::AccumulatorLayout;
use std::fmt;

/// How a block collects dense groups (Sitaridi & Ross §1-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedLayout {
    /// Number of groups.
    pub groups: u64,
    /// Layout of their accumulators.
    pub accumulators: AccumulatorLayout,
    /// The slots of the laid-out column, if accumulators are indexed by slot.
    pub slots: Option<ColumnSlots>,
    /// Whether consecutive rows of a thread with the same group are added up in registers first, for columns
    /// that are sorted or clustered by group.
    pub runs: bool,
    /// Number of the most frequent groups that are accumulated in registers of each thread. Lanes would
    /// conflict on these groups despite any number of copies.
    pub hot: u32,
    /// Threads of a block.
    pub block: u32,
}

/// Slots of a laid-out column that index accumulators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnSlots {
    /// Kernel column.
    pub column: usize,
    /// Number of slots.
    pub slots: u32,
    /// Number of distinct values: slots below it are the values themselves, slots from it on are copies.
    pub values: u32,
    /// Index of the lookup table: the group for first slots, the first slot for copies, all ones for unused
    /// slots.
    pub table: usize,
}

/// Representation of an accumulator's element in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementForm {
    /// `u32` counts.
    Count,
    /// The given number of `u32` planes.
    Split(u64),
    /// The given number of `u64` planes.
    Whole(u64),
}

impl ElementForm {
    fn bytes(self) -> u64 {
        match self {
            Self::Count => 4,
            Self::Split(planes) => 4 * planes,
            Self::Whole(planes) => 8 * planes,
        }
    }
}

impl SharedLayout {
    /// Number of elements of an accumulator.
    pub fn elements(&self) -> u64 {
        match (self.accumulators, self.slots) {
            (AccumulatorLayout::Registers, _) => 0,
            (AccumulatorLayout::PerThread, _) => self.groups * u64::from(self.block),
            (AccumulatorLayout::Replicated { stride, .. }, _) => self.groups * u64::from(stride),
            (AccumulatorLayout::Slots, Some(column)) => u64::from(column.slots),
            (
                AccumulatorLayout::OneCopy | AccumulatorLayout::WarpAggregated | AccumulatorLayout::Slots,
                _,
            ) => self.groups,
        }
    }

    /// Bytes of shared memory for the accumulators.
    pub fn bytes(&self, plan: &AccumulatorPlan) -> u64 {
        let per_element: u64 = plan.contributions.iter().map(|c| self.form(c).bytes()).sum();
        // Planes of whole words come first, so alignment adds padding only at the end.
        (self.elements().saturating_mul(per_element)).saturating_add(7) & !7
    }

    /// Whether the lanes of a warp combine their rows of a group before one update.
    pub fn is_warp_aggregated(&self) -> bool {
        self.accumulators == AccumulatorLayout::WarpAggregated
    }

    /// Whether each thread has its own elements.
    pub(super) fn is_privatised(&self) -> bool {
        matches!(
            self.accumulators,
            AccumulatorLayout::PerThread | AccumulatorLayout::Registers
        )
    }

    /// The element form of the accumulator.
    pub(super) fn form(&self, c: &Contribution) -> ElementForm {
        match c.accumulator {
            Accumulator::Count => ElementForm::Count,
            Accumulator::Sum64 | Accumulator::SumWidening if !self.is_privatised() => ElementForm::Split(2),
            Accumulator::Sum128 if !self.is_privatised() => ElementForm::Split(4),
            Accumulator::Sum128 => ElementForm::Whole(2),
            _ => ElementForm::Whole(1),
        }
    }

    /// For each contribution, the form of its elements and the byte offset of their array.
    pub(super) fn arrays(&self, plan: &AccumulatorPlan) -> Vec<(ElementForm, u64)> {
        let mut arrays: Vec<(ElementForm, u64)> =
            plan.contributions.iter().map(|c| (self.form(c), 0)).collect();
        let mut end = 0;
        for whole in [true, false] {
            for (form, at) in &mut arrays {
                if matches!(form, ElementForm::Whole(_)) == whole {
                    *at = end;
                    end += form.bytes() * self.elements();
                }
            }
        }
        arrays
    }
}

impl fmt::Display for SharedLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.accumulators, self.slots) {
            (AccumulatorLayout::Registers, _) => write!(f, "registers({} groups", self.groups)?,
            (_, Some(column)) => {
                let slots = column.slots;
                write!(
                    f,
                    "shared({} groups, {slots} slots of a laid-out column",
                    self.groups
                )?;
            }
            (layout, None) => write!(f, "shared({} groups, {layout}", self.groups)?,
        }
        if self.runs {
            f.write_str(", runs")?;
        }
        if self.hot > 0 {
            write!(f, ", {} hot in registers", self.hot)?;
        }
        write!(f, ", {} threads)", self.block)
    }
}

/// Layout of dense groups in global memory: `[copy][group][word]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DenseLayout {
    /// Number of groups.
    pub groups: u64,
    /// Whether the lanes of a warp combine their rows of a group before one update.
    pub warp_aggregated: bool,
    /// Number of copies of each group: a power of two up to 32.
    pub copies: u32,
}

impl fmt::Display for DenseLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dense({} groups", self.groups)?;
        if self.copies > 1 {
            write!(f, ", {} copies", self.copies)?;
        }
        f.write_str(match self.warp_aggregated {
            true => ", warp-aggregated)",
            false => ")",
        })
    }
}
