//! Experiments on the device heap: those of Pham et al. 2022 (ICS) on this machine, with the outcome of the
//! paper beside ours.
//!
//! ```text
//!   fig. 1   one global word under contention              contention
//!   fig. 4   expected steps, no device                     sizing of galatea_memory, plotted
//!   fig. 7   one page per thread, few pages free           free_share: time, TAS, WAS, theory
//!   fig. 8   threads up to 2^20                            scaling: warm and hold separately
//!   fig. 9   sizes from 4 B to 8 KiB                       sizes
//!   fig. 10  mixed sizes                                   sizes
//!   fig. 11  memory used when the pool is exhausted        utilization
//!   fig. 12  a hash join with output in pages              hash_join
//! ```
//!
//! Two regimes are measured separately, because allocators with queues differ by orders of magnitude between
//! them. In *warm* each run frees its allocations, and in *hold* nothing is freed. Every
//! experiment has the null kernel (a launch and a store) and the bump allocator as floors. Times are of
//! kernels alone, by events. A row has the median, minimum and maximum of its runs.
//!
//! Figures of other allocators are not ours: `others.csv` lists earlier measurements with their own programs
//! on the reference machine, and such rows are marked.

mod bed;
mod figures;
mod others;
mod plot;
mod report;
mod summary;
mod verdicts;

pub use bed::Extent;
pub use report::{AllocatorReport, Row};

use galatea_device::Device;

use crate::Result;
use crate::harness::{by_name, name_of};
use crate::machine::Machine;

/// An experiment, by the paper's figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Experiment {
    /// Figure 1: latency of atomics on one word.
    Contention,
    /// Figure 4: steps by the analysis.
    Theory,
    /// Figure 7: few free pages.
    FreeShare,
    /// Figure 8: number of threads.
    Scaling,
    /// Figure 9: size of requests.
    Sizes,
    /// Figure 10: mixed sizes.
    Mixed,
    /// Figure 11: memory used until exhaustion.
    Utilization,
    /// Figure 12: a hash join.
    HashJoin,
}

impl Experiment {
    /// All, by name, in the order of figures.
    pub const NAMES: [(&'static str, Self); 8] = [
        ("contention", Self::Contention),
        ("theory", Self::Theory),
        ("free-share", Self::FreeShare),
        ("scaling", Self::Scaling),
        ("sizes", Self::Sizes),
        ("mixed", Self::Mixed),
        ("utilization", Self::Utilization),
        ("hash-join", Self::HashJoin),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        name_of(&Self::NAMES, &self)
    }

    /// The paper's figure.
    pub fn figure(self) -> u32 {
        match self {
            Self::Contention => 1,
            Self::Theory => 4,
            Self::FreeShare => 7,
            Self::Scaling => 8,
            Self::Sizes => 9,
            Self::Mixed => 10,
            Self::Utilization => 11,
            Self::HashJoin => 12,
        }
    }

    /// The paper's result.
    pub fn paper(self) -> &'static str {
        match self {
            Self::Contention => {
                "the latency of an atomic on one word grows linearly with the number of threads"
            }
            Self::Theory => {
                "steps of a random walk hardly grow with the number of threads, those of a queue linearly"
            }
            Self::FreeShare => {
                "CoRW is more than ten times faster than Ouroboros in most cases, less so below 1 % free; measured TAS equals \
                 Equations 2 and 4, WAS stays below Equations 3 and 5 and close to them down to 1 %"
            }
            Self::Scaling => {
                "RW_malloc is up to three orders of magnitude faster than Ouroboros, which holds what it allocated"
            }
            Self::Sizes => {
                "RW_malloc does not depend on the size from 4 B to 8 KiB; Ouroboros loses an order of magnitude"
            }
            Self::Mixed => {
                "RW_malloc is up to two orders faster than Ouroboros, which wins only where memory is freed at once"
            }
            Self::Utilization => "RW_malloc always uses close to 100 % of the pool",
            Self::HashJoin => {
                "RW-BM and CoRW beat a single atomic counter (direct output), which beats RW slightly"
            }
        }
    }
}

impl std::str::FromStr for Experiment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(&Self::NAMES, text)
    }
}

/// Runs experiments on a device. `done` is called after each.
///
/// # Errors
/// The device's: insufficient memory for the pools of `extent`, a failed kernel.
pub fn run(
    device: &Device,
    extent: &Extent,
    experiments: &[Experiment],
    machine: &Machine,
    mut done: impl FnMut(Experiment),
) -> Result<AllocatorReport> {
    let bed = bed::Bed::new(device, extent)?;
    let mut report = AllocatorReport::new(machine.clone());
    for experiment in experiments {
        figures::run(&bed, *experiment, &mut report)?;
        report.rows.extend(others::of(*experiment)?);
        done(*experiment);
    }
    report.find(experiments);
    let verdicts = experiments
        .iter()
        .flat_map(|experiment| verdicts::of(&report, *experiment));
    report.verdicts = verdicts.collect();
    Ok(report)
}

#[cfg(test)]
mod tests;
