//! The paper's queries on a device: figures 5, 6, 7, 8 and 10, with the layouts of figures 3 and 9.

use galatea_device::DeviceBuffer;
use galatea_layout::{Analyser, Banks, Budget, Goal, Layout, generate};

use super::bed::{Bed, Query};
use super::data::{self, Column};
use super::layouts::{PAPER_SHARED, all_threads, lay_out_column, layout, lenient};
use super::report::{ConflictsReport, Row};
use super::{Experiment, Extent, READS_ONLY};
use crate::Result;

/// Number of accesses from which the rounds of a column are counted.
const COUNTED_ROWS: usize = 1 << 20;
const QUERIES: [Query; 3] = [Query::Join, Query::Count, Query::Sum];
const WRITES: [Query; 2] = [Query::Count, Query::Sum];

/// The requested ones of figures 3, 5, 6, 7 and 9: every layout is computed once. Queries run if a figure
/// requires them.
pub(super) fn sweep(
    extent: &Extent,
    bed: Option<&Bed>,
    wanted: &[Experiment],
    report: &mut ConflictsReport,
) -> Result<()> {
    use Experiment::{Figure3, Figure5, Figure6, Figure7};
    let wants = |experiment| wanted.contains(&experiment);
    let bed = bed.filter(|_| wants(Figure5) || wants(Figure6) || wants(Figure7));
    let by_rows = wants(Figure3) || wants(Figure5);
    let tables = extent.tables.iter().copied().filter(|_| by_rows);
    let tables: Vec<usize> = tables.chain([extent.rows]).collect();
    for &theta in &extent.thetas {
        let codes = data::zipf(extent, extent.values, theta, extent.rows)?;
        for &rows in &tables {
            let table = Table {
                extent,
                bed,
                column: Column::new(extent, extent.values, &codes[..rows]),
                theta,
            };
            let original = table.original()?;
            for (goal, experiments) in goals(extent, rows == extent.rows) {
                let experiments: Vec<_> = experiments.into_iter().filter(|which| wants(*which)).collect();
                if !experiments.is_empty() {
                    table.laid_out(goal, &experiments, &original, report)?;
                }
            }
            for (query, row) in original {
                if wants(Figure5) {
                    report.push(Figure5, row.clone());
                }
                if wants(Figure6) && rows == extent.rows && query != Query::Join {
                    report.push(Figure6, row);
                }
            }
        }
    }
    Ok(())
}

/// The layouts of a table, and the experiments that use them.
fn goals(extent: &Extent, largest: bool) -> Vec<(Goal, Vec<Experiment>)> {
    use Experiment::{Figure3, Figure5, Figure6, Figure7, Figure9};
    let mut goals = vec![(Goal::Reads, vec![Figure3, Figure5])];
    for &window in &extent.windows {
        let goal = Goal::Writes { window };
        let both = window == 0 || window == extent.window;
        match (largest, both) {
            (true, true) => goals.push((goal, vec![Figure3, Figure5, Figure6, Figure9])),
            (true, false) => goals.push((goal, vec![Figure3, Figure6, Figure9])),
            (false, true) => goals.push((goal, vec![Figure3, Figure5])),
            (false, false) => {}
        }
        if largest && both {
            goals.push((Goal::WritesByValue { window }, vec![Figure7]));
        }
    }
    goals
}

/// A column of the sweep.
struct Table<'a> {
    extent: &'a Extent,
    bed: Option<&'a Bed>,
    column: Column<'a>,
    theta: f64,
}

impl Table<'_> {
    /// The queries over the original column, and their ceilings, for comparison.
    fn original(&self) -> Result<Vec<(Query, Row)>> {
        let Some(bed) = self.bed else {
            return Ok(Vec::new());
        };
        let codes = bed.device.upload(&bed.stream, self.column.codes)?;
        let mut rows = Vec::new();
        for query in QUERIES {
            let mut row = query_row(&self.column, self.theta, "original", query);
            row.count_rounds(bed, self.column.codes)?;
            row.set_launch(bed.query(query, &self.column, &codes, None, PAPER_SHARED)?);
            rows.push((query, row));
            let mut ceiling = query_row(&self.column, self.theta, READS_ONLY, query);
            ceiling.set_launch(bed.reads(query, &self.column, &codes)?);
            rows.push((query, ceiling));
        }
        Ok(rows)
    }

    /// Lays out the column, and runs the queries of the goal.
    fn laid_out(
        &self,
        goal: Goal,
        experiments: &[Experiment],
        original: &[(Query, Row)],
        report: &mut ConflictsReport,
    ) -> Result<()> {
        let values = self.column.values;
        let laid_out = lay_out_column(
            self.extent,
            self.column.codes,
            values,
            goal,
            lenient(),
            all_threads(),
        )?;
        for experiment in [Experiment::Figure3, Experiment::Figure9] {
            if experiments.contains(&experiment) {
                let mut row = Row::new(&layout(goal));
                row.set_data(self.column.codes.len(), values, self.theta);
                row.set_layout(goal, &laid_out.report);
                report.push(experiment, row);
            }
        }
        let (Some(bed), true) = (self.bed, experiments.iter().any(|which| which.needs_device())) else {
            return Ok(());
        };
        let slots = bed.device.upload(&bed.stream, &laid_out.slots)?;
        let queries: &[Query] = if goal == Goal::Reads {
            &[Query::Join]
        } else {
            &WRITES
        };
        for &query in queries {
            let mut row = query_row(&self.column, self.theta, &layout(goal), query);
            row.set_layout(goal, &laid_out.report);
            row.set_launch(bed.query(query, &self.column, &slots, Some(&laid_out.map), PAPER_SHARED)?);
            let before = original.iter().find(|(other, _)| *other == query);
            row.speed_up = before.and_then(|(_, before)| Some(before.ms? / row.ms?));
            for experiment in experiments.iter().filter(|which| which.needs_device()) {
                report.push(*experiment, row.clone());
            }
        }
        Ok(())
    }
}

/// Figure 8: the effect of a budget, with the window, for every other skew. Blocks use more than 48 KB if the
/// budget requires it.
pub(super) fn budgets(bed: &Bed, report: &mut ConflictsReport) -> Result<()> {
    let extent = &bed.extent;
    let most = u64::from(bed.device.info().shared_memory_per_block);
    let goal = Goal::Writes {
        window: extent.window,
    };
    for &theta in extent.thetas.iter().step_by(2) {
        let codes = data::zipf(extent, extent.values, theta, extent.budget_rows)?;
        let column = Column::new(extent, extent.values, &codes);
        for &budget in &extent.budgets {
            let limit = Budget::shared_memory(most, Query::Count.slot_bytes()).and_copies(budget);
            let laid_out = lay_out_column(extent, &codes, extent.values, goal, limit, all_threads())?;
            let slots = bed.device.upload(&bed.stream, &laid_out.slots)?;
            for query in WRITES {
                if laid_out.map.slots() as u64 * u64::from(query.slot_bytes()) > most {
                    continue;
                }
                let mut row = query_row(&column, theta, &layout(goal), query);
                row.budget = Some(budget);
                row.set_layout(goal, &laid_out.report);
                row.set_launch(bed.query(query, &column, &slots, Some(&laid_out.map), PAPER_SHARED)?);
                report.push(Experiment::Figure8, row);
            }
        }
    }
    Ok(())
}

/// Figure 10: chunks of distinct values, `degree` of them per bank; and the foreign keys of §A.3's grid,
/// original and laid out.
pub(super) fn degrees(bed: &Bed, report: &mut ConflictsReport) -> Result<()> {
    let extent = &bed.extent;
    let most = (extent.values / 32).min(32);
    let degrees = [1, 2, 4, 8, 16, 32].into_iter().filter(|degree| *degree <= most);
    for degree in degrees {
        let codes = generate::worst_case(
            extent.degree_rows,
            degree,
            extent.values,
            Banks::default(),
            extent.seed,
        )?;
        let column = Column::new(extent, extent.values, &codes);
        let codes = bed.device.upload(&bed.stream, &codes)?;
        for query in QUERIES {
            if degree == 1 {
                let mut ceiling = query_row(&column, 0.0, READS_ONLY, query);
                ceiling.set_launch(bed.reads(query, &column, &codes)?);
                report.push(Experiment::Figure10, ceiling);
            }
            let row = degree_row(bed, &column, &codes, query, "original", None)?;
            let degree = Some(degree as u64);
            report.push(Experiment::Figure10, Row { degree, ..row });
        }
    }
    let side = extent.values.isqrt();
    for height in [side, side - 1] {
        let cells = generate::grid(side as u32, height as u32);
        let codes: Vec<u32> = cells.iter().copied().cycle().take(extent.degree_rows).collect();
        let column = Column::new(extent, cells.len(), &codes);
        let name = format!("foreign keys of a grid of {side} × {height}");
        let original = bed.device.upload(&bed.stream, &codes)?;
        let mut row = degree_row(bed, &column, &original, Query::Join, &name, None)?;
        let before = row.ms;
        row.degree = row.read_rounds.map(|rounds| rounds.round() as u64);
        report.push(Experiment::Figure10, row);
        let goal = Goal::Reads;
        let laid_out = lay_out_column(extent, &codes, cells.len(), goal, lenient(), all_threads())?;
        let slots = bed.device.upload(&bed.stream, &laid_out.slots)?;
        let name = format!("{name}, laid out");
        let mut row = degree_row(bed, &column, &slots, Query::Join, &name, Some(&laid_out))?;
        row.set_layout(goal, &laid_out.report);
        row.speed_up = before.zip(row.ms).map(|(before, after)| before / after);
        row.degree = row.read_rounds.map(|rounds| rounds.round() as u64);
        report.push(Experiment::Figure10, row);
    }
    Ok(())
}

fn degree_row(
    bed: &Bed,
    column: &Column<'_>,
    codes: &DeviceBuffer<u32>,
    query: Query,
    layout: &str,
    laid_out: Option<&Layout>,
) -> Result<Row> {
    let mut row = query_row(column, 0.0, layout, query);
    row.count_rounds(bed, laid_out.map_or(column.codes, |laid_out| &laid_out.slots))?;
    row.set_launch(bed.query(
        query,
        column,
        codes,
        laid_out.map(|laid_out| &laid_out.map),
        PAPER_SHARED,
    )?);
    Ok(row)
}

/// A row of a query.
fn query_row(column: &Column<'_>, theta: f64, layout: &str, query: Query) -> Row {
    let mut row = Row::new(layout);
    row.query = query.name().to_string();
    row.set_data(column.codes.len(), column.values, theta);
    row
}

impl Row {
    /// The rounds of the first accesses to these words.
    fn count_rounds(&mut self, bed: &Bed, words: &[u32]) -> Result<()> {
        let words = &words[..words.len().min(COUNTED_ROWS)];
        let found = Analyser::default().words(words, &bed.extent.pattern()?);
        self.banks = Some(found.mean_banks());
        self.read_rounds = Some(found.mean_read_rounds());
        self.write_rounds = Some(found.mean_write_rounds());
        Ok(())
    }
}
