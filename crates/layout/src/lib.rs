//! Layout: analyses how the values of a column are distributed over the banks of shared memory, and improves
//! the distribution.
//!
//! Shared memory has 32 banks. An access of a warp takes one round if its lanes access different banks, and
//! up to 32 rounds if they access the same bank. So the speed of a group by or a join depends on the order of
//! the values in the key column. This crate follows E. A. Sitaridi and K. A. Ross, *Ameliorating Memory
//! Contention of OLAP operators on GPU Processors*, DaMoN 2012:
//!
//! ```text
//!   pattern     row → block, warp, step, lane       the rows that a warp accesses at once
//!     │
//!     ├ analyse     cost of a column                distinct banks, read and write rounds, warp conflicts
//!     ├ slots       improved layout                 rewritten column of slots, slot map, report
//!     └ model       choice of an accumulator layout predicted time of each way to aggregate by the column
//! ```
//!
//! [`Frequencies`] generates columns of a given skew, and [`generate`] columns with known conflicts. NULL is
//! a value like others: the caller assigns a code to it.
//!
//! # The paper's experiments
//! `galatea bench conflicts` runs them.
//!
//! | | computed by |
//! | --- | --- |
//! | Table 1 | [`Frequencies::zipf`] (1024 values, θ 0 to 1), [`Analyser::words`] with [`Tiles::paper`] |
//! | Figures 3, 4, 9 | [`lay_out`] with [`Goal`]s and budgets, [`LayoutReport`]: copies, replicated values, time, threads |
//! | Figures 5, 6, 8 | kernels over [`Layout::slots`], before and after; [`SlotMap::replicate`] and [`SlotMap::merge`] |
//! | Figure 7 | the same with [`Goal::WritesByValue`] |
//! | Figure 10 | [`generate::worst_case`] of each degree |
//! | §A.3 | [`generate::grid`] |
//!
//! This crate needs no GPU.
#![forbid(unsafe_code)]

mod analyse;
mod banks;
mod error;
mod frequency;
pub mod generate;
pub mod model;
mod pattern;
mod slot_map;
mod slots;

pub use analyse::{Analyser, Conflicts};
pub use banks::{Banks, Rounds, WIDEST};
pub use error::{LayoutError, Result};
pub use frequency::Frequencies;
pub use pattern::{AccessPattern, Strided, Tiles, for_each_access};
pub use slot_map::SlotMap;
pub use slots::{Budget, Goal, Layout, LayoutOptions, LayoutReport, Steps, lay_out};
