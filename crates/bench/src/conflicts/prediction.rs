//! The model of costs beside the alternatives: what it predicts for each, and how good its choice is.

use galatea_layout::Frequencies;
use galatea_layout::model::{
    Accumulators, GroupedAggregation, Groups, Launch, Machine, PlacedColumn, predict_layout,
};

use super::Experiment;
use super::bed::STEPS;
use super::constants::ROW_BYTES;
use super::report::{ConflictsReport, Row};

/// One sum of 64 bits, whose high half changes by carries only.
const SUM: Accumulators = Accumulators {
    counts: 0,
    sums: 0,
    wide_sums: 1,
    high_halves: 0.0,
};

/// Sets the predictions of the alternatives, by the measured constants or, without them, those that the model has of an H200.
pub(super) fn compare(report: &mut ConflictsReport) {
    let machine = report.model.unwrap_or(Machine::H200);
    for row in &mut report.rows {
        if row.experiment == Experiment::Alternatives.name() {
            row.predicted_ms = predicted(row, &machine);
        }
    }
}

fn predicted(row: &Row, machine: &Machine) -> Option<f64> {
    let layout = row.way?.layout()?;
    let groups = Frequencies::zipf(usize::try_from(row.values).ok()?, row.theta).ok()?;
    let placed = row
        .slots
        .zip(row.write_rounds)
        .map(|(slots, rounds)| PlacedColumn {
            slots,
            rounds,
            extra_row_bytes: 0.0,
        });
    let aggregation = GroupedAggregation {
        rows: row.rows,
        row_bytes: ROW_BYTES as f64,
        groups: Groups::Frequencies(&groups),
        accumulators: SUM,
        placed,
    };
    let launch = Launch {
        threads: u32::try_from(row.block_threads?).ok()?,
        rows_per_thread: STEPS as u32,
        shared_bytes: machine.shared_bytes_per_block,
    };
    let cost = predict_layout(&aggregation, &launch, machine, layout).cost.ok()?;
    Some(cost.seconds * 1e3)
}

/// How predictions compare with times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agreement {
    /// Predictions.
    pub(super) predictions: usize,
    /// Mean of |predicted / measured - 1|.
    pub(super) mean: f64,
    /// The greatest of them.
    pub(super) worst: f64,
    /// Cases of groups and skew.
    pub(super) cases: usize,
    /// Those in which the way that the model would choose takes at most a tenth more than the fastest it knows.
    pub(super) good: usize,
}

/// Of the alternatives that the model knows; with or without the placed column among them.
pub(super) fn agreement(report: &ConflictsReport, with_placed: bool) -> Option<Agreement> {
    let known: Vec<(&Row, f64, f64)> = report
        .of(Experiment::Alternatives)
        .filter(|row| with_placed || row.way.is_some_and(|way| !way.is_placed()))
        .filter_map(|row| Some((row, row.predicted_ms?, row.ms?)))
        .collect();
    let errors: Vec<f64> = known
        .iter()
        .map(|(_, predicted, measured)| (predicted / measured - 1.0).abs())
        .collect();
    let worst = errors.iter().copied().reduce(f64::max)?;
    let (mut cases, mut good) = (0, 0);
    for case in known.chunk_by(|(one, _, _), (other, _, _)| {
        (one.values, one.theta.to_bits()) == (other.values, other.theta.to_bits())
    }) {
        let chosen = case.iter().min_by(|one, other| one.1.total_cmp(&other.1));
        let best = case.iter().map(|(_, _, measured)| *measured).reduce(f64::min);
        if let Some(((_, _, chosen), best)) = chosen.zip(best) {
            cases += 1;
            good += usize::from(*chosen <= 1.1 * best);
        }
    }
    Some(Agreement {
        predictions: errors.len(),
        mean: errors.iter().sum::<f64>() / errors.len() as f64,
        worst,
        cases,
        good,
    })
}
