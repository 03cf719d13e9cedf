//! The paper's results beside the rows: whether each holds, with the measured facts.

use super::report::{ConflictsReport, Row};
use super::{Experiment, READS_ONLY};
use crate::harness::{Facts, Finding, range, verdict};

/// The verdicts on an experiment.
pub(super) fn of(report: &ConflictsReport, experiment: Experiment) -> Vec<Finding> {
    let rows = Rows(report.of(experiment).collect());
    let found: Vec<(&'static str, Facts)> = match experiment {
        Experiment::Table1 => vec![(
            "banks, write and read rounds are 20.42, 3.54, 3.44 for θ = 0 and 18.24, 5.33, 2.77 for θ = 1, to a tenth",
            rows.table_1(),
        )],
        Experiment::Figure3 => vec![
            ("writes take more copies than reads", rows.reads_and_writes()),
            ("larger windows take more copies", rows.windows()),
            ("skew takes far fewer copies", rows.skew()),
        ],
        Experiment::Figure4 => vec![("low cardinality takes more copies", rows.cardinality())],
        Experiment::Figure5 => vec![
            (
                "counts by group gain at high skew",
                rows.speed_up("Q2", |least, _| least > 1.0),
            ),
            (
                "sums by group gain at high skew",
                rows.speed_up("Q2 sum", |least, _| least > 1.0),
            ),
            (
                "reads gain 2 % or less",
                rows.speed_up("Q1", |_, most| most <= 1.02),
            ),
        ],
        Experiment::Figure6 => vec![
            (
                "18 G rows per second, half of the rate of device memory",
                rows.share_of(READS_ONLY, |least| least >= 0.5),
            ),
            (
                "laid-out columns are faster than original ones",
                rows.share_of("original", |least| least > 1.0),
            ),
        ],
        Experiment::Figure7 => {
            let both = Rows(report.of(Experiment::Figure6).collect());
            vec![(
                "20 % fewer rows per second than with bank conflicts resolved too",
                rows.against(&both),
            )]
        }
        Experiment::Figure8 => vec![
            (
                "uniform columns are near the maximum with 4 copies per value",
                rows.least_budget(false, |budget| (2.0..=4.0).contains(&budget)),
            ),
            (
                "skewed columns are near the maximum with 2 copies per value",
                rows.least_budget(true, |budget| budget <= 2.0),
            ),
        ],
        Experiment::Figure9 => vec![("a few seconds on 16 threads for 200 million rows", rows.seconds())],
        Experiment::Figure10 => vec![
            (
                "reads in the worst case run at less than half the speed of conflict-free ones",
                rows.worst_reads(),
            ),
            ("writes lose more than reads", rows.worst_writes()),
        ],
        Experiment::Alternatives | Experiment::Machine => Vec::new(),
    };
    let finding =
        |(claim, facts): (&'static str, Facts)| Finding::new("", experiment.name(), claim, verdict(facts));
    found.into_iter().map(finding).collect()
}

/// Rows of one experiment.
struct Rows<'r>(Vec<&'r Row>);

/// Whether the column of a row is laid out.
fn is_placed(row: &Row) -> bool {
    row.layout.starts_with("laid out")
}

/// Whether two rows are of the same query over the same column.
fn same_column(a: &Row, b: &Row) -> bool {
    (&a.query, a.rows, a.values, a.theta.to_bits()) == (&b.query, b.rows, b.values, b.theta.to_bits())
}

fn billions(row: &Row) -> Option<f64> {
    row.rows_per_second.map(|rate| rate / 1e9)
}

impl<'r> Rows<'r> {
    /// Rows of the largest table, or of the only one.
    fn largest(&self) -> Vec<&'r Row> {
        let most = self.0.iter().map(|row| row.rows).max().unwrap_or(0);
        self.0.iter().copied().filter(|row| row.rows == most).collect()
    }

    /// The least and the greatest skew.
    fn skews(&self) -> Option<(f64, f64)> {
        range(self.0.iter().map(|row| row.theta))
    }

    fn table_1(&self) -> Facts {
        let of = |theta: f64| self.0.iter().find(|row| row.theta.to_bits() == theta.to_bits());
        let of = |theta: f64| {
            let row = of(theta)?;
            Some([row.banks?, row.write_rounds?, row.read_rounds?])
        };
        let (uniform, skewed) = (of(0.0)?, of(1.0)?);
        let near = |ours: [f64; 3], paper: [f64; 3]| {
            let mut pairs = ours.into_iter().zip(paper);
            pairs.all(|(ours, paper)| (ours / paper - 1.0).abs() <= 0.1)
        };
        let text = |values: [f64; 3]| values.map(|value| format!("{value:.2}")).join(", ");
        Some((
            near(uniform, [20.42, 3.54, 3.44]) && near(skewed, [18.24, 5.33, 2.77]),
            format!("they are {} and {}", text(uniform), text(skewed)),
        ))
    }

    fn reads_and_writes(&self) -> Facts {
        let rows = self.largest();
        let reads = rows.iter().filter(|row| row.layout == "laid out for reads");
        let pairs: Vec<(f64, f64)> = reads
            .filter_map(|row| {
                let writes = rows
                    .iter()
                    .find(|other| other.window == Some(0) && same_column(row, other) && is_placed(other))?;
                Some((row.copies?, writes.copies?))
            })
            .collect();
        let (first, last) = (pairs.first()?, pairs.last()?);
        Some((
            pairs.iter().all(|(reads, writes)| writes >= reads),
            format!(
                "reads take {:.2} and writes {:.2} copies per value without skew, {:.2} and {:.2} with the most",
                first.0, first.1, last.0, last.1
            ),
        ))
    }

    /// Copies of writes at the largest table by window, for a skew.
    fn copies(&self, theta: f64) -> Vec<f64> {
        let rows = self.largest().into_iter().filter(|row| {
            row.theta.to_bits() == theta.to_bits()
                && row.window.is_some()
                && row.layout != "laid out for reads"
        });
        let mut rows: Vec<&Row> = rows.collect();
        rows.sort_by_key(|row| row.window);
        rows.iter().filter_map(|row| row.copies).collect()
    }

    fn windows(&self) -> Facts {
        let (_, most) = self.skews()?;
        let copies = self.copies(most);
        let (first, last) = (copies.first()?, copies.last()?);
        Some((
            copies.is_sorted(),
            format!(
                "with the most skew, the smallest window takes {first:.2} copies and the largest {last:.2}"
            ),
        ))
    }

    fn skew(&self) -> Facts {
        let (least, most) = self.skews()?;
        let (uniform, skewed) = (*self.copies(least).first()?, *self.copies(most).first()?);
        Some((
            uniform / skewed > 2.0,
            format!("{uniform:.2} for θ = {least} become {skewed:.2} for θ = {most}"),
        ))
    }

    fn cardinality(&self) -> Facts {
        let of_first = |row: &&Row| row.theta.to_bits() == self.0[0].theta.to_bits() && row.window == Some(0);
        let rows: Vec<&Row> = self.0.iter().copied().filter(of_first).collect();
        let few = rows.iter().min_by_key(|row| row.values)?;
        let many = rows.iter().max_by_key(|row| row.values)?;
        let (copies, of_many) = (few.copies?, many.copies?);
        Some((
            copies > of_many,
            format!(
                "{} values take {copies:.2} copies, {} values {of_many:.2}",
                few.values, many.values
            ),
        ))
    }

    fn speed_up(&self, query: &str, holds: impl Fn(f64, f64) -> bool) -> Facts {
        let (least, most) = self.skews()?;
        let rows = self.largest();
        let of = |theta: f64| {
            let rows = rows
                .iter()
                .filter(|row| row.query == query && is_placed(row) && row.theta.to_bits() == theta.to_bits());
            range(rows.filter_map(|row| row.speed_up))
        };
        let (uniform, skewed) = (of(least)?, of(most)?);
        Some((
            holds(skewed.0, skewed.1.max(uniform.1)),
            format!(
                "laid-out columns have {:.2} to {:.2} times the speed for θ = {most} and {:.2} to {:.2} for θ = {least}",
                skewed.0, skewed.1, uniform.0, uniform.1
            ),
        ))
    }

    /// Rates of counts with placed columns, as a share of another layout's.
    fn share_of(&self, layout: &str, holds: impl Fn(f64) -> bool) -> Facts {
        let placed = self.0.iter().filter(|row| row.query == "Q2" && is_placed(row));
        let pairs: Vec<(f64, f64)> = placed
            .filter_map(|row| {
                let other = self
                    .0
                    .iter()
                    .find(|other| other.layout == layout && same_column(row, other))?;
                Some((billions(row)?, billions(other)?))
            })
            .collect();
        let (least, most) = range(pairs.iter().map(|pair| pair.0))?;
        let (worst, best) = range(pairs.iter().map(|pair| pair.0 / pair.1))?;
        Some((
            holds(worst),
            format!(
                "counts have {least:.1} to {most:.1} G rows per second, {worst:.2} to {best:.2} times the rate of '{layout}'"
            ),
        ))
    }

    fn against(&self, both: &Self) -> Facts {
        let counts = self
            .0
            .iter()
            .filter(|row| row.query == "Q2" && row.window.is_some());
        let ratios = counts.filter_map(|row| {
            let other = both
                .0
                .iter()
                .find(|other| other.window == row.window && same_column(row, other))?;
            Some(row.rows_per_second? / other.rows_per_second?)
        });
        let (least, most) = range(ratios)?;
        Some((
            (0.7..=0.9).contains(&least) && most <= 0.9,
            format!("counts have {least:.2} to {most:.2} times the rate of figure 6"),
        ))
    }

    /// The least budget of sums within 5 % of the best rate.
    fn least_budget(&self, skewed: bool, holds: impl Fn(f64) -> bool) -> Facts {
        let (least, most) = self.skews()?;
        let theta = if skewed { most } else { least };
        let sums = self
            .0
            .iter()
            .filter(|row| row.query == "Q2 sum" && row.theta.to_bits() == theta.to_bits());
        let rates: Vec<(f64, f64)> = sums
            .filter_map(|row| Some((row.budget?, billions(row)?)))
            .collect();
        let (_, best) = range(rates.iter().map(|rate| rate.1))?;
        let near = rates.iter().filter(|rate| rate.1 >= 0.95 * best);
        let (budget, rate) = *near.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((
            holds(budget),
            format!(
                "for θ = {theta}, sums are within 5 % of it with a budget of {budget}, {rate:.1} G rows per second"
            ),
        ))
    }

    fn seconds(&self) -> Facts {
        let placed = self.0.iter().filter(|row| is_placed(row));
        let (least, most) = range(placed.filter_map(|row| row.layout_s))?;
        let rows = self.0.iter().map(|row| row.rows).max()?;
        Some((most < 5.0, format!("{rows} rows take {least:.2} to {most:.2} s")))
    }

    /// Rates without conflicts, and with the most.
    fn worst(&self, query: &str) -> Option<(f64, f64)> {
        let original = self
            .0
            .iter()
            .filter(|row| row.query == query && row.layout == "original" && row.degree.is_some());
        let rows: Vec<&&Row> = original.collect();
        let free = rows.iter().min_by_key(|row| row.degree)?;
        let worst = rows.iter().max_by_key(|row| row.degree)?;
        Some((billions(free)?, billions(worst)?))
    }

    fn worst_reads(&self) -> Facts {
        let (free, worst) = self.worst("Q1")?;
        Some((
            worst / free < 0.5,
            format!(
                "{free:.1} G rows per second become {worst:.1}, {:.2} times",
                worst / free
            ),
        ))
    }

    fn worst_writes(&self) -> Facts {
        let (reads, counts) = (self.worst("Q1")?, self.worst("Q2")?);
        let (kept, of_reads) = (counts.1 / counts.0, reads.1 / reads.0);
        Some((
            kept < of_reads,
            format!(
                "counts keep {kept:.2} times the rate ({:.1} and {:.1} G rows per second), reads {of_reads:.2}",
                counts.0, counts.1
            ),
        ))
    }
}
