//! Outcomes as sentences and tables.

use galatea_engine::device::calibration::rates;

use super::layouts::BY_THREADS;
use super::report::{ConflictsReport, Row};
use super::way::Way;
use super::{Experiment, READS_ONLY, prediction};
use crate::markdown::Table;
use crate::result::Summary;

/// The outcome of an experiment in a sentence.
pub(super) fn of(report: &ConflictsReport, experiment: Experiment) -> String {
    let view = View::of(report, experiment);
    match experiment {
        Experiment::Table1 => view.table_1(),
        Experiment::Figure3 => view.copies(),
        Experiment::Figure4 => view.cardinalities(),
        Experiment::Figure5 => view.speed_ups(),
        Experiment::Figure6 => view.windows(),
        Experiment::Figure7 => view.against(&View::of(report, Experiment::Figure6)),
        Experiment::Figure8 => view.budgets(),
        Experiment::Figure9 => view.seconds(),
        Experiment::Figure10 => view.degrees(),
        Experiment::Alternatives => view.alternatives(),
        Experiment::Machine => predictions(report),
    }
}

/// Rows of an experiment.
struct View<'a> {
    rows: Vec<&'a Row>,
}

impl<'a> View<'a> {
    fn of(report: &'a ConflictsReport, experiment: Experiment) -> Self {
        Self {
            rows: report.of(experiment).collect(),
        }
    }

    /// The rows that `wanted` accepts.
    fn only(&self, wanted: impl Fn(&Row) -> bool) -> Self {
        let rows = self.rows.iter().copied().filter(|row| wanted(row));
        Self { rows: rows.collect() }
    }

    /// The rows of the largest table.
    fn largest(&self) -> Self {
        self.only(|row| row.rows == self.most_rows())
    }

    fn most_rows(&self) -> u64 {
        self.rows.iter().map(|row| row.rows).max().unwrap_or(0)
    }

    /// A clause per skew, from its rows.
    fn by_skew(&self, clause: impl Fn(&Self) -> String) -> String {
        let mut thetas: Vec<f64> = Vec::new();
        for row in &self.rows {
            if !thetas.contains(&row.theta) {
                thetas.push(row.theta);
            }
        }
        let clauses = thetas.iter().map(|theta| {
            let of_skew = self.only(|row| row.theta == *theta);
            format!("θ = {theta}: {}", clause(&of_skew))
        });
        clauses.collect::<Vec<_>>().join("; ")
    }

    /// A clause per query, from its rows. Queries without rows are omitted.
    fn by_query(&self, clause: impl Fn(&Self) -> Option<String>) -> String {
        let clauses = ["Q1", "Q2", "Q2 sum"].into_iter().filter_map(|query| {
            let of_query = self.only(|row| row.query == query);
            Some(format!("{query} {}", clause(&of_query)?))
        });
        clauses.collect::<Vec<_>>().join(", ")
    }

    /// The minimum and maximum of a number, over the rows that have it.
    fn range(&self, number: impl Fn(&Row) -> Option<f64>) -> Option<String> {
        let summary = Summary::of(self.rows.iter().filter_map(|row| number(row)))?;
        Some(format!("{:.2} to {:.2}", summary.min, summary.max))
    }

    /// Rows per second of a layout, as a string.
    fn rate(&self, layout: &str) -> Option<String> {
        let row = self.rows.iter().find(|row| row.layout == layout)?;
        Some(format!("{:.1}", giga(row)?))
    }

    fn table_1(&self) -> String {
        self.by_skew(|view| {
            let numbers = view
                .rows
                .iter()
                .flat_map(|row| [row.banks, row.write_rounds, row.read_rounds]);
            let numbers = numbers.flatten().map(|number| format!("{number:.2}"));
            numbers.collect::<Vec<_>>().join(", ")
        })
    }

    fn copies(&self) -> String {
        let copies = self.largest().by_skew(|view| {
            let parts = view
                .rows
                .iter()
                .filter_map(|row| Some(format!("{:.2} {}", row.copies?, row.layout)));
            parts.collect::<Vec<_>>().join(", ")
        });
        format!("copies at {} rows: {copies}", self.most_rows())
    }

    fn cardinalities(&self) -> String {
        let fewest = self.rows.iter().map(|row| row.values).min();
        let most = self.rows.iter().map(|row| row.values).max();
        let clauses = [fewest, most].into_iter().flatten().map(|values| {
            let here = self.rows.iter().filter(|row| row.values == values);
            let parts = here
                .filter_map(|row| Some(format!("{:.2} (θ = {}, {})", row.copies?, row.theta, row.layout)));
            format!("{values} values: {}", parts.collect::<Vec<_>>().join(", "))
        });
        clauses.collect::<Vec<_>>().join("; ")
    }

    fn speed_ups(&self) -> String {
        let text = self
            .largest()
            .by_skew(|view| view.by_query(|view| Some(view.range(|row| row.speed_up)? + " times")));
        format!("at {} rows: {text}", self.most_rows())
    }

    fn windows(&self) -> String {
        let text = self.by_skew(|view| {
            view.by_query(|view| {
                let laid_out = view.only(|row| row.window.is_some()).range(giga)?;
                Some(format!(
                    "{laid_out} ({} original, {} reads only)",
                    view.rate("original")?,
                    view.rate(READS_ONLY)?
                ))
            })
        });
        format!("G rows/s over windows: {text}")
    }

    /// Rows per second with value conflicts resolved only, relative to those with both.
    fn against(&self, both: &View<'_>) -> String {
        let text = self.by_skew(|view| {
            view.by_query(|view| {
                let relative = |row: &Row| {
                    let same = |both: &&&Row| {
                        (both.theta, both.window, &both.query) == (row.theta, row.window, &row.query)
                    };
                    Some(row.rows_per_second? / both.rows.iter().find(same)?.rows_per_second?)
                };
                let relative = view
                    .range(relative)
                    .map(|range| format!(", {range} times figure 6"));
                Some(view.range(giga)? + &relative.unwrap_or_default())
            })
        });
        format!("G rows/s: {text}")
    }

    fn budgets(&self) -> String {
        let text = self.by_skew(|view| {
            view.by_query(|view| {
                let best = view.rows.iter().filter_map(|row| giga(row)).reduce(f64::max)?;
                let mut good = view
                    .rows
                    .iter()
                    .filter(|row| giga(row).is_some_and(|rate| rate >= 0.95 * best));
                Some(format!("{} for {best:.1} G rows/s", good.next()?.budget?))
            })
        });
        format!("the least budget within 5 % of the best: {text}")
    }

    fn seconds(&self) -> String {
        let by_threads = self.only(|row| row.layout == BY_THREADS);
        let sweep = self.only(|row| row.layout != BY_THREADS);
        let seconds = sweep.by_skew(|view| view.range(|row| row.layout_s).unwrap_or_default());
        let most = by_threads.rows.iter().filter_map(|row| row.cpu_threads).max();
        let faster = by_threads.only(|row| row.cpu_threads == most).range(|row| {
            let alone = by_threads.only(|one| one.cpu_threads == Some(1));
            let same = |one: &&&Row| (one.theta, one.window) == (row.theta, row.window);
            Some(alone.rows.iter().find(same)?.layout_s? / row.layout_s?)
        });
        format!(
            "seconds for {} rows over windows: {seconds}; {} threads are {} times as fast as one",
            sweep.most_rows(),
            most.unwrap_or(0),
            faster.unwrap_or_default()
        )
    }

    fn degrees(&self) -> String {
        let original = self.only(|row| row.layout == "original");
        let most = original.rows.iter().filter_map(|row| row.degree).max();
        let text = original.by_query(|view| {
            let of = |degree| {
                view.rows
                    .iter()
                    .find(|row| row.degree == degree)
                    .and_then(|row| giga(row))
            };
            Some(format!(
                "{:.1} at degree 1, {:.1} at {}",
                of(Some(1))?,
                of(most)?,
                most?
            ))
        });
        let grids = self.rows.iter().filter(|row| row.layout.starts_with("foreign"));
        let grids = grids.filter_map(|row| {
            Some(format!(
                "; {}: {:.1} rounds, {:.1}",
                row.layout,
                row.read_rounds?,
                giga(row)?
            ))
        });
        format!("G rows/s: {text}{}", grids.collect::<String>())
    }

    fn alternatives(&self) -> String {
        let cases = cases(&self.rows);
        let relative = |ratio: &dyn Fn(&Case<'_>) -> Option<f64>| {
            let summary = Summary::of(cases.iter().filter_map(ratio));
            summary.map_or_else(String::new, |found| {
                format!("{:.2} times ({:.2} to {:.2})", found.median, found.min, found.max)
            })
        };
        format!(
            "the laid-out column runs at {} the rate of the fastest way without one, which runs at {} that of reading",
            relative(&|case| Some(giga(case.laid_out?)? / giga(case.fastest?)?)),
            relative(&|case| Some(giga(case.fastest?)? / giga(case.ceiling?)?))
        )
    }
}

fn predictions(report: &ConflictsReport) -> String {
    let rows: Vec<&Row> = report.of(Experiment::Alternatives).collect();
    let Some(errors) = prediction::errors(rows.iter().copied()) else {
        return "nothing to predict".to_string();
    };
    let shares = [true, false].map(|with_slots| {
        let known = rows
            .iter()
            .copied()
            .filter(|row| with_slots || row.way != Some(Way::Slots));
        let known: Vec<&Row> = known.collect();
        let cases = cases(&known);
        let good = cases.iter().filter(|case| {
            let choice = prediction::choice(&case.rows);
            choice.is_some_and(|choice| prediction::is_good(choice, &case.rows))
        });
        (good.count(), cases.len())
    });
    format!(
        "{} predictions are off by {:.0} % in the mean, {:.0} % at worst; the model's choice is within 10 % of the best that it \
         knows in {} of {} cases, without the laid-out column in {} of {}",
        errors.predictions,
        100.0 * errors.mean,
        100.0 * errors.worst,
        shares[0].0,
        shares[0].1,
        shares[1].0,
        shares[1].1
    )
}

fn giga(row: &Row) -> Option<f64> {
    row.rows_per_second.map(|rate| rate / 1e9)
}

/// Rows of one number of groups and one skew.
struct Case<'a> {
    rows: Vec<&'a Row>,
    ceiling: Option<&'a Row>,
    laid_out: Option<&'a Row>,
    /// The fastest without a laid-out column.
    fastest: Option<&'a Row>,
}

fn cases<'a>(rows: &[&'a Row]) -> Vec<Case<'a>> {
    let same =
        |one: &&Row, other: &&Row| (one.values, one.theta.to_bits()) == (other.values, other.theta.to_bits());
    let of_case = |rows: &[&'a Row]| {
        let find = |way| rows.iter().copied().find(|row| row.way == Some(way));
        let others = rows.iter().copied();
        let others = others.filter(|row| !matches!(row.way, Some(Way::ReadsOnly | Way::Slots)));
        let timed = others.filter_map(|row| Some((row, row.ms?)));
        Case {
            rows: rows.to_vec(),
            ceiling: find(Way::ReadsOnly),
            laid_out: find(Way::Slots),
            fastest: timed
                .min_by(|one, other| one.1.total_cmp(&other.1))
                .map(|(row, _)| row),
        }
    };
    rows.chunk_by(same).map(of_case).collect()
}

/// For the alternatives: the fastest method and the model's choice for each number of groups and skew, and
/// the accuracy of its predictions for each method.
pub(super) fn winners(report: &ConflictsReport) -> String {
    let rows: Vec<&Row> = report.of(Experiment::Alternatives).collect();
    if rows.is_empty() {
        return String::new();
    }
    let name = |row: Option<&Row>| row.map_or_else(|| "-".to_string(), |row| row.layout.clone());
    let rate = |row: Option<&Row>| row.and_then(giga);
    let cases = cases(&rows).into_iter().map(|case| {
        let choice = prediction::choice(&case.rows);
        (case, choice)
    });
    let by_case = Table::of(cases)
        .numbers("groups", |(case, _)| case.rows[0].values)
        .numbers("θ", |(case, _)| case.rows[0].theta)
        .words("fastest without layout", |(case, _)| name(case.fastest))
        .reals("its rate", 1, |(case, _)| rate(case.fastest))
        .reals("laid out", 1, |(case, _)| rate(case.laid_out))
        .reals("reads only", 1, |(case, _)| rate(case.ceiling))
        .words("the model would take", |(_, choice)| name(*choice))
        .reals("its rate", 1, |(_, choice)| rate(*choice))
        .reals("predicted", 1, |(_, choice)| {
            choice.and_then(|row| Some(row.rows as f64 / row.predicted_ms? / 1e6))
        });
    let mut families: Vec<String> = Vec::new();
    for family in rows.iter().filter_map(|row| row.way).map(Way::family) {
        if !families.contains(&family) {
            families.push(family);
        }
    }
    let errors = families.into_iter().filter_map(|family| {
        let of_family = rows
            .iter()
            .copied()
            .filter(|row| row.way.is_some_and(|way| way.family() == family));
        Some((prediction::errors(of_family)?, family))
    });
    let by_family = Table::of(errors)
        .words("way", |(_, family)| family.clone())
        .numbers("predictions", |(found, _)| found.predictions)
        .numbers("mean error", |(found, _)| format!("{:.0} %", 100.0 * found.mean))
        .numbers("worst", |(found, _)| format!("{:.0} %", 100.0 * found.worst));
    format!("\nOne 64-bit sum by group, G rows/s\n\n{by_case}\nPredictions against times\n\n{by_family}")
}

/// The measured constants of the model, if any, beside its constants of an H200.
pub(super) fn constants(report: &ConflictsReport) -> String {
    let Some(model) = &report.model else {
        return String::new();
    };
    let known = rates(&galatea_layout::model::Machine::H200).figures();
    let table = Table::of(rates(model).figures().into_iter().zip(known))
        .words("constant", |((name, _), _)| name.to_string())
        .numbers("measured", |((_, measured), _)| format!("{measured:.4e}"))
        .numbers("H200", |(_, (_, known))| format!("{known:.4e}"));
    format!("\nConstants of the model\n\n{table}")
}
