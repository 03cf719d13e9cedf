//! Experiments on bank and value conflicts: those of Sitaridi and Ross 2012 (DaMoN) on this machine, with the
//! outcome of the paper beside ours, and the methods of summing by group that the paper did not have.
//!
//! ```text
//!   table 1   conflicts of columns by Zipf's law          no device
//!   fig. 3    copies in a layout                          no device; by rows, skew, window
//!   fig. 4    the same by cardinality                     no device
//!   fig. 5    speed-up of queries by laid-out columns     Q1 and Q2, by rows
//!   fig. 6    rows per second by window                   Q2
//!   fig. 7    only value conflicts resolved               Q2
//!   fig. 8    rows per second by budget                   Q2
//!   fig. 9    time of a layout                            no device; by threads too
//!   fig. 10   degree of conflict                          Q1 and Q2 on worst cases, and §A.3's foreign keys
//!   alternatives   sums by group by every method, beside the laid-out column and a kernel that only reads
//!   machine        the measured constants of the cost model; its predictions beside the alternatives
//! ```
//!
//! Q1 sums a build side's payload through a foreign key, Q2 counts rows by group, and `Q2 sum` sums 64-bit
//! measures by group; all over 32-bit columns, with the paper's launch (1024 threads, 358,400 rows a block,
//! one row per thread and step). A device's times include all work of a query: clearing, the kernel, adding
//! up blocks and copies. Results are compared with the CPU's before they are timed. A row has the median,
//! minimum and maximum of its runs.
//!
//! **Differences from the paper.** Its block had 350,000 rows, which would end within a step. The budget of
//! *just under 12 copies* is 11.99 and 48 KB; the sums take twice the bytes. Loads of four steps are in
//! flight at once, so warps issue accesses of four steps in a row. Windows follow program order and do not
//! model that. With 200 million rows the launch has 559 blocks, 2.1 times the number that an H200 runs
//! concurrently. The ceilings beside it use the same launch.

mod alternatives;
mod bed;
mod constants;
mod data;
mod extent;
mod layouts;
mod operators;
mod outcome;
mod plot;
mod prediction;
mod report;
mod summary;
mod verdicts;
mod way;

pub use extent::Extent;
pub use report::{ConflictsReport, Row};

use galatea_device::Device;

use crate::Result;
use crate::harness::{by_name, name_of};
use crate::machine::Machine;
use bed::Bed;

/// The layout in rows of ceilings, which are kernels that only read the columns.
const READS_ONLY: &str = "reads only";

/// An experiment, by the paper's table or figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Experiment {
    /// Conflicts of the original columns.
    Table1,
    /// Copies by rows, skew and window.
    Figure3,
    /// Copies by cardinality.
    Figure4,
    /// Speed-up of queries.
    Figure5,
    /// Rows per second by window.
    Figure6,
    /// Rows per second if only value conflicts are resolved.
    Figure7,
    /// Rows per second by budget.
    Figure8,
    /// Time to lay out a column.
    Figure9,
    /// Degrees of conflict.
    Figure10,
    /// Every method of summing by group.
    Alternatives,
    /// The model's constants, and its predictions.
    Machine,
}

impl Experiment {
    /// All, by name, in the paper's order.
    pub const NAMES: [(&'static str, Self); 11] = [
        ("table-1", Self::Table1),
        ("figure-3", Self::Figure3),
        ("figure-4", Self::Figure4),
        ("figure-5", Self::Figure5),
        ("figure-6", Self::Figure6),
        ("figure-7", Self::Figure7),
        ("figure-8", Self::Figure8),
        ("figure-9", Self::Figure9),
        ("figure-10", Self::Figure10),
        ("alternatives", Self::Alternatives),
        ("machine", Self::Machine),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        name_of(&Self::NAMES, &self)
    }

    /// Whether it runs kernels.
    pub fn needs_device(self) -> bool {
        !matches!(self, Self::Table1 | Self::Figure3 | Self::Figure4 | Self::Figure9)
    }

    /// The paper's result.
    pub fn paper(self) -> &'static str {
        match self {
            Self::Table1 => {
                "distinct banks, write and read rounds: 20.42, 3.54, 3.44 for θ = 0; 20.36, 3.57, 3.38 for 0.5; 18.24, 5.33, 2.77 \
                 for 1"
            }
            Self::Figure3 => {
                "writes take more copies than reads, more with a larger window, far fewer with skew; few more after 50 million rows"
            }
            Self::Figure4 => "more copies at low cardinality, the more so with a window",
            Self::Figure5 => {
                "Q2: dramatic at high skew, 1.2 times uniform; windows matter with skew only, most of it by 16; Q1: 2 % or less"
            }
            Self::Figure6 => "18 G rows/s, 72 GB/s of nominally 144",
            Self::Figure7 => {
                "20 % fewer rows per second than with bank conflicts resolved too, less of a loss at θ = 2"
            }
            Self::Figure8 => {
                "near the most with 4 copies per value for uniform columns, with 2 for skewed ones"
            }
            Self::Figure9 => {
                "a few seconds on 16 threads; faster with skew for small windows, slower with skew for large ones"
            }
            Self::Figure10 => {
                "reads in the worst case run at less than half the speed of conflict-free ones; writes lose more"
            }
            Self::Alternatives => "not in the paper",
            Self::Machine => "not in the paper: shared memory is seven times as fast as device memory there",
        }
    }
}

impl std::str::FromStr for Experiment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        by_name(&Self::NAMES, text)
    }
}

/// Runs experiments, on the device that `open` opens if one is needed. `done` is called after each. If one
/// fails, its rows and its error are in the report, and the others run.
///
/// # Errors
/// Those of `open`, and of compiling the kernels.
pub fn run(
    open: impl FnOnce() -> Result<Device>,
    extent: &Extent,
    experiments: &[Experiment],
    machine: &Machine,
    mut done: impl FnMut(Experiment),
) -> Result<ConflictsReport> {
    let mut report = ConflictsReport::new(machine.clone(), extent.seed);
    let bed = if experiments.iter().any(|experiment| experiment.needs_device()) {
        Some(Bed::new(&open()?, extent)?)
    } else {
        None
    };
    // Several figures use the same layouts. The first of them computes all.
    let mut swept = false;
    for experiment in experiments {
        let result = match (experiment, &bed) {
            (Experiment::Table1, _) => layouts::table_1(extent, &mut report),
            (Experiment::Figure4, _) => layouts::cardinalities(extent, &mut report),
            (Experiment::Figure8, Some(bed)) => operators::budgets(bed, &mut report),
            (Experiment::Figure10, Some(bed)) => operators::degrees(bed, &mut report),
            (Experiment::Alternatives, Some(bed)) => alternatives::run(bed, &mut report),
            (Experiment::Machine, Some(bed)) => constants::run(bed, &mut report),
            (experiment, bed) => {
                let sweep = match swept {
                    true => Ok(()),
                    false => operators::sweep(extent, bed.as_ref(), experiments, &mut report),
                };
                swept = true;
                match experiment {
                    Experiment::Figure9 => sweep.and_then(|()| layouts::threads(extent, &mut report)),
                    _ => sweep,
                }
            }
        };
        if let Err(error) = result {
            report.failures.push((*experiment, error));
        }
        done(*experiment);
    }
    prediction::compare(&mut report);
    report.find(experiments);
    let verdicts = experiments
        .iter()
        .flat_map(|experiment| verdicts::of(&report, *experiment));
    report.verdicts = verdicts.collect();
    Ok(report)
}

#[cfg(test)]
mod tests;
