//! Where the accumulators of dense groups are.
//!
//! In a block, an accumulator is an array of elements, one per group and copy: whole 64-bit words where each
//! thread has a copy of its own, otherwise planes of 32-bit words with native atomics. Which element a row
//! updates is the layout's ([`AccumulatorLayout`]):
//!
//! | layout | element | conflicts |
//! | --- | --- | --- |
//! | registers | none: a register per group and thread | none |
//! | a copy per thread | group × threads + thread | none, no atomics |
//! | one copy | group | wherever lanes update one bank, fewer where a warp's lanes combine their rows first |
//! | copies | group × stride + lane mod copies | none with 32 copies; fewer the more copies there are |
//! | slots | the slot that the row of a laid-out column names | those the column's layout left |

use super::accumulators::{AccumulatorPlan, Contribution};
use super::aggregate::Accumulator;
use galatea_layout::model::AccumulatorLayout;
use std::fmt;

/// How a block collects dense groups (Sitaridi & Ross §1-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedLayout {
    /// Groups.
    pub groups: u64,
    /// Where their accumulators are.
    pub accumulators: AccumulatorLayout,
    /// The slots of the laid-out column, where accumulators are in them.
    pub slots: Option<ColumnSlots>,
    /// Whether consecutive rows of a thread with one group are added up in registers first: for columns
    /// sorted or clustered by group.
    pub runs: bool,
    /// The most frequent groups, whose rows go to registers of each thread: lanes would conflict in them
    /// however many copies there are.
    pub hot: u32,
    /// Threads of a block.
    pub block: u32,
}

/// Slots of a laid-out column that hold accumulators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnSlots {
    /// Kernel column.
    pub column: usize,
    /// Slots.
    pub slots: u32,
    /// Distinct values: slots below this are the values themselves, slots from here on are copies.
    pub values: u32,
    /// Lookup table: of the first slots the group, of copies the first slot, all ones for holes.
    pub table: usize,
}

/// What an element of an accumulator is in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementForm {
    /// `u32` counts.
    Count,
    /// So many planes of `u32`.
    Split(u64),
    /// So many planes of `u64`.
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
    /// Elements of an accumulator.
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

    /// Bytes of shared memory that the accumulators take.
    pub fn bytes(&self, plan: &AccumulatorPlan) -> u64 {
        let per_element: u64 = plan.contributions.iter().map(|c| self.form(c).bytes()).sum();
        // Planes of whole words come first, so nothing is lost to alignment but at the end.
        (self.elements().saturating_mul(per_element)).saturating_add(7) & !7
    }

    /// Whether the lanes of a warp combine their rows of a group before one update.
    pub fn is_warp_aggregated(&self) -> bool {
        self.accumulators == AccumulatorLayout::WarpAggregated
    }

    /// Whether each thread has elements of its own.
    pub(super) fn is_privatised(&self) -> bool {
        matches!(
            self.accumulators,
            AccumulatorLayout::PerThread | AccumulatorLayout::Registers
        )
    }

    /// What an element of the accumulator is.
    pub(super) fn form(&self, c: &Contribution) -> ElementForm {
        match c.accumulator {
            Accumulator::Count => ElementForm::Count,
            Accumulator::Sum64 | Accumulator::SumWidening if !self.is_privatised() => ElementForm::Split(2),
            Accumulator::Sum128 if !self.is_privatised() => ElementForm::Split(4),
            Accumulator::Sum128 => ElementForm::Whole(2),
            _ => ElementForm::Whole(1),
        }
    }

    /// By contribution: the form of its elements, and the first byte of their array.
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

/// How dense groups lie in global memory: `[copy][group][word]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DenseLayout {
    /// Groups.
    pub groups: u64,
    /// Whether the lanes of a warp combine their rows of a group before one update.
    pub warp_aggregated: bool,
    /// Copies of each group: a power of two up to 32.
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
