//! The cost model beside the alternatives: its predictions, and the quality of its choice.

use galatea_layout::Frequencies;
use galatea_layout::model::{
    Accumulators, GroupedAggregation, Groups, LaidOutColumn, Launch, Machine, predict_layout,
};

use super::Experiment;
use super::bed::{ROW_BYTES, STEPS};
use super::report::{ConflictsReport, Row};

/// One 64-bit sum. Its high half changes by carries only.
const SUM: Accumulators = Accumulators {
    counts: 0,
    sums: 0,
    wide_sums: 1,
    high_halves: 0.0,
};

/// Sets the predictions of the alternatives, by the measured constants or, without them, by the model's
/// constants of an H200.
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
    let laid_out = row
        .slots
        .zip(row.write_rounds)
        .map(|(slots, rounds)| LaidOutColumn {
            slots,
            rounds,
            extra_row_bytes: 0.0,
        });
    let aggregation = GroupedAggregation {
        rows: row.rows,
        row_bytes: ROW_BYTES as f64,
        groups: Groups::Frequencies(&groups),
        accumulators: SUM,
        laid_out,
        instructions: 0.0,
    };
    let launch = Launch {
        threads: u32::try_from(row.block_threads?).ok()?,
        rows_per_thread: STEPS as u32,
        shared_bytes: machine.shared_bytes_per_block,
    };
    let cost = predict_layout(&aggregation, &launch, machine, layout).cost.ok()?;
    Some(cost.seconds * 1e3)
}

/// The errors of the predictions of some methods.
#[derive(Debug, Clone, Copy)]
pub(super) struct Errors {
    /// Number of predictions.
    pub(super) predictions: usize,
    /// Mean of |predicted / measured - 1|.
    pub(super) mean: f64,
    /// The largest of them.
    pub(super) worst: f64,
}

/// The errors of rows that have both values; `None` without such rows.
pub(super) fn errors<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<Errors> {
    let errors = rows.filter_map(|row| Some((row.predicted_ms? / row.ms? - 1.0).abs()));
    let errors: Vec<f64> = errors.collect();
    Some(Errors {
        predictions: errors.len(),
        mean: errors.iter().sum::<f64>() / errors.len() as f64,
        worst: errors.into_iter().reduce(f64::max)?,
    })
}

/// The model's choice among the methods for one number of groups and skew.
pub(super) fn choice<'a>(rows: &[&'a Row]) -> Option<&'a Row> {
    let predicted = rows.iter().filter_map(|row| Some((*row, row.predicted_ms?)));
    let least = predicted.min_by(|one, other| one.1.total_cmp(&other.1));
    least.map(|(row, _)| row)
}

/// Whether a choice takes at most a tenth longer than the fastest method that the model covers.
pub(super) fn is_good(choice: &Row, rows: &[&Row]) -> bool {
    let known = rows.iter().filter(|row| row.predicted_ms.is_some());
    let best = known.filter_map(|row| row.ms).reduce(f64::min);
    choice
        .ms
        .zip(best)
        .is_some_and(|(chosen, best)| chosen <= 1.1 * best)
}
