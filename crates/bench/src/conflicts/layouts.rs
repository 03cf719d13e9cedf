//! Experiments without a device: conflicts of columns, and the cost of layouts.

use std::num::NonZeroUsize;

use galatea_layout::{Analyser, Budget, Goal, Layout, LayoutOptions, lay_out};

use super::report::{ConflictsReport, Row};
use super::{Experiment, Extent, data};
use crate::Result;

/// The shared memory of the paper's machine, and its budget in it.
pub(super) const PAPER_SHARED: u64 = 48 << 10;
const LENIENT: f64 = 11.99;
/// The layout in rows of layouts that vary the threads.
pub(super) const BY_THREADS: &str = "by threads";

/// The paper's lenient budget.
pub(super) fn lenient() -> Budget {
    Budget::shared_memory(PAPER_SHARED, 4).and_copies(LENIENT)
}

/// The number of threads of the processor.
pub(super) fn all_threads() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Lays out a column of codes for the extent's launch.
pub(super) fn lay_out_column(
    extent: &Extent,
    codes: &[u32],
    values: usize,
    goal: Goal,
    budget: Budget,
    threads: NonZeroUsize,
) -> Result<Layout> {
    let options = LayoutOptions::new(goal, budget).threads(threads);
    Ok(lay_out(codes.to_vec(), values, &extent.pattern()?, &options)?)
}

/// Table 1, continued to θ = 2.
pub(super) fn table_1(extent: &Extent, report: &mut ConflictsReport) -> Result<()> {
    let rows = extent.few_rows;
    for theta in [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0] {
        let codes = data::zipf(extent, extent.values, theta, rows)?;
        let found = Analyser::default().words(&codes, &extent.pattern()?);
        let mut row = Row::new("original");
        row.set_data(rows, extent.values, theta);
        row.banks = Some(found.mean_banks());
        row.read_rounds = Some(found.mean_read_rounds());
        row.write_rounds = Some(found.mean_write_rounds());
        report.push(Experiment::Table1, row);
    }
    Ok(())
}

/// Figure 4: copies by cardinality, uniform and skewed, without and with a window. No budget, because the
/// same memory holds fewer values.
pub(super) fn cardinalities(extent: &Extent, report: &mut ConflictsReport) -> Result<()> {
    let rows = extent.few_rows;
    let budget = Budget::shared_memory(PAPER_SHARED, 4);
    for &values in &extent.cardinalities {
        for theta in [0.0, 1.0] {
            let codes = data::zipf(extent, values, theta, rows)?;
            for window in [0, extent.window] {
                let goal = Goal::Writes { window };
                let laid_out = lay_out_column(extent, &codes, values, goal, budget, all_threads())?;
                let mut row = Row::new(&layout(goal));
                row.set_data(rows, values, theta);
                row.set_layout(goal, &laid_out.report);
                report.push(Experiment::Figure4, row);
            }
        }
    }
    Ok(())
}

/// Figure 9: the same layouts by 1, 2, 4 and so on threads.
pub(super) fn threads(extent: &Extent, report: &mut ConflictsReport) -> Result<()> {
    let (rows, most) = (extent.few_rows, all_threads().get());
    let powers =
        std::iter::successors(Some(1), |threads| Some(threads * 2)).take_while(|threads| *threads < most);
    let threads: Vec<NonZeroUsize> = powers.chain([most]).filter_map(NonZeroUsize::new).collect();
    let thetas = [extent.thetas.first(), extent.thetas.last()];
    for theta in thetas.into_iter().flatten().copied() {
        let codes = data::zipf(extent, extent.values, theta, rows)?;
        for window in [0, extent.window] {
            for &threads in &threads {
                let goal = Goal::Writes { window };
                let laid_out = lay_out_column(extent, &codes, extent.values, goal, lenient(), threads)?;
                let mut row = Row::new(BY_THREADS);
                row.set_data(rows, extent.values, theta);
                row.set_layout(goal, &laid_out.report);
                report.push(Experiment::Figure9, row);
            }
        }
    }
    Ok(())
}

/// The name of a layout in rows.
pub(super) fn layout(goal: Goal) -> String {
    match goal {
        Goal::Reads => "laid out for reads".to_string(),
        Goal::Writes { window } => format!("laid out, window {window}"),
        Goal::WritesByValue { window } => format!("laid out by value, window {window}"),
    }
}

impl Row {
    /// Sets the size, copies and time of a layout.
    pub(super) fn set_layout(&mut self, goal: Goal, report: &galatea_layout::LayoutReport) {
        self.window = match goal {
            Goal::Reads => None,
            Goal::Writes { window } | Goal::WritesByValue { window } => Some(window as u64),
        };
        self.cpu_threads = Some(report.threads as u64);
        self.layout_s = Some(report.elapsed.as_secs_f64());
        self.copies = Some(report.mean_copies());
        self.copies_and_holes = Some(report.mean_copies_and_holes());
        self.most_copies = Some(u64::from(report.most_copies));
        self.replicated = Some(report.replicated as u64);
        self.slots = Some(report.slots as u64);
        match goal {
            Goal::Reads => self.read_rounds = Some(report.mean_rounds()),
            Goal::Writes { .. } | Goal::WritesByValue { .. } => {
                self.write_rounds = Some(report.mean_rounds());
            }
        }
    }
}
