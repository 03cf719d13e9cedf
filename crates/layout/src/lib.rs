//! Layout: how the values of a column are distributed over the banks of shared memory, and how they could be
//! distributed better.
//!
//! Shared memory is 32 banks wide. A warp's access to it takes one round if its lanes want different banks,
//! and up to 32 if they want the same: grouping by a column, or joining through it, is as fast as the
//! column's values happen to be laid out. After E. A. Sitaridi and K. A. Ross, *Ameliorating Memory
//! Contention of OLAP operators on GPU Processors*, DaMoN 2012:
//!
//! ```text
//!   pattern     row → block, warp, step, lane          which rows a warp touches at once
//!     │
//!     ├ analyse     what a column costs                distinct banks, read and write rounds, conflicts between warps
//!     ├ slots       what it could cost                 rewritten column of slots, slot map, report
//!     └ model       what to do about it                predicted time of each way to aggregate by it
//! ```
//!
//! [`Frequencies`] draws columns of a given skew, [`generate`] has columns that are known to be bad. A NULL
//! is a value like any other here: give it a code.
//!
//! # The paper's experiments
//! `galatea bench conflicts` runs them.
//!
//! | | from |
//! | --- | --- |
//! | Table 1 | [`Frequencies::zipf`] (1024 values, θ 0 to 1), [`Analyser::words`] with [`Tiles::paper`] |
//! | Figures 3, 4, 9 | [`lay_out`] with [`Goal`]s and budgets, [`LayoutReport`]: copies, replicated values, time, threads |
//! | Figures 5, 6, 8 | kernels over [`Layout::slots`], before and after; [`SlotMap::replicate`] and [`SlotMap::merge`] |
//! | Figure 7 | the same with [`Goal::WritesByValue`] |
//! | Figure 10 | [`generate::worst_case`] of each degree |
//! | §A.3 | [`generate::grid`] |
//!
//! Nothing here needs a GPU.
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
