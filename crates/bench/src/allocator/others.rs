//! Other allocators: results of their own programs on the reference machine, committed as a table.

use super::Experiment;
use super::report::Row;
use crate::machine::Machine;
use crate::{BenchError, Result};

/// `experiment,allocator,size,threads,pages,share,allocate_ms,release_ms,served`; an empty cell was not
/// measured.
const FACTS: &str = include_str!("others.csv");

/// Rows of an experiment.
pub(super) fn of(experiment: Experiment) -> Result<Vec<Row>> {
    let mut lines = FACTS.lines().filter(|line| !line.starts_with('#'));
    let _header = lines.next();
    lines
        .filter_map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            (regimes(experiment).contains(&cells[0])).then(|| row(experiment, &cells, line))
        })
        .collect()
}

/// The regimes of the table's rows that are shown beside an experiment.
fn regimes(experiment: Experiment) -> &'static [&'static str] {
    match experiment {
        Experiment::FreeShare => &["share"],
        Experiment::Scaling | Experiment::Sizes => &["warm", "hold"],
        _ => &[],
    }
}

fn row(experiment: Experiment, cells: &[&str], line: &str) -> Result<Row> {
    let bad = || BenchError::Facts {
        line: line.to_string(),
    };
    let [
        regime,
        allocator,
        size,
        threads,
        pages,
        share,
        allocate,
        release,
        served,
    ] = cells
    else {
        return Err(bad());
    };
    let number = |cell: &str| {
        if cell.is_empty() {
            Ok(0)
        } else {
            cell.parse().map_err(|_| bad())
        }
    };
    let real = |cell: &str| -> Result<Option<f64>> {
        if cell.is_empty() {
            Ok(None)
        } else {
            cell.parse().map(Some).map_err(|_| bad())
        }
    };
    let machine = Machine {
        description: "reference machine, once, the allocator's own program".to_string(),
        commit: String::new(),
        date: "2026-11-20".to_string(),
        version: String::new(),
    };
    let mut row = Row::new(experiment, allocator, regime, &machine);
    row.ours = false;
    (row.size, row.threads, row.pages) = (number(size)?, number(threads)?, number(pages)?);
    (row.share, row.served) = (real(share)?, number(served)?);
    (row.allocate_ms, row.release_ms) = (real(allocate)?, real(release)?);
    Ok(row)
}
