//! The constants of the cost model, as `galatea calibrate` measures them, and their basis: the costs of
//! updates by the number of conflicting lanes, of matching, and of reading. [`GroupingProbes`] measures them.

use galatea_engine::device::calibration::machine;
use galatea_kernels::{ConflictingLanes, GroupingProbes, Update};

use super::bed::Bed;
use super::report::{ConflictsReport, Row};
use super::{Experiment, alternatives};
use crate::Result;

/// The prefix of rows of measured updates.
pub(super) const UPDATES: &str = "accesses per second: ";

pub(super) fn run(bed: &Bed, report: &mut ConflictsReport) -> Result<()> {
    if report.of(Experiment::Alternatives).next().is_none() {
        alternatives::run(bed, report)?;
    }
    let probes = GroupingProbes::new(&bed.device, bed.extent.runs, bed.extent.seed)?;
    let mut constant = |what: &str, degree: Option<u64>, constant: f64| {
        let mut row = Row::new(what);
        (row.degree, row.constant) = (degree, Some(constant));
        report.push(Experiment::Machine, row);
    };

    // The reference for the model, which counts in rounds.
    for (update, what) in [
        (Update::Count, "counts"),
        (Update::Sum, "sums"),
        (Update::ReturningSum, "sums that return"),
    ] {
        for (same_word, words) in [(false, "different words"), (true, "one word")] {
            for lanes in [1, 2, 4, 8, 16, 32] {
                let rate = probes.shared(update, ConflictingLanes { lanes, same_word })?;
                let what = format!("{UPDATES}{what}, {words}");
                constant(&what, Some(lanes.into()), rate);
            }
        }
    }
    let rates = probes.rates()?;
    for values in [1, 2, 4, 8, 16, 32] {
        let rounds = rates.rounds_per_second / probes.matching(values)?;
        constant("rounds of matching", Some(values.into()), rounds);
    }
    for read in probes.reads()? {
        let what = format!(
            "bytes read per second, {} asked for by a multiprocessor",
            read.asked
        );
        constant(&what, None, read.bytes_per_second);
    }
    for (name, figure) in rates.figures() {
        constant(name, None, figure);
    }
    report.model = Some(machine(bed.device.info(), Some(&rates)));
    Ok(())
}
