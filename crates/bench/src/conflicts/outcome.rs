//! What came out, in sentences and tables.

use std::fmt::Write as _;

use super::report::{ConflictsReport, Row};
use super::{Experiment, constants, prediction};
use crate::result::Summary;

/// Least, and most, of some values as text.
fn range(values: impl Iterator<Item = f64>, unit: &str) -> String {
    Summary::of(values).map_or_else(
        || "nothing".to_string(),
        |summary| format!("{:.2} to {:.2}{unit}", summary.min, summary.max),
    )
}

fn giga(row: &Row) -> Option<f64> {
    row.rows_per_second.map(|rate| rate / 1e9)
}

/// The outcome of an experiment in a sentence.
pub(super) fn of(report: &ConflictsReport, experiment: Experiment) -> String {
    let rows: Vec<&Row> = report.of(experiment).collect();
    let thetas = distinct(&rows, |row| row.theta);
    let largest = rows.iter().map(|row| row.rows).max().unwrap_or(0);
    let at_largest = || rows.iter().copied().filter(move |row| row.rows == largest);
    // A clause per skew.
    let by_skew = |clause: &dyn Fn(f64) -> Option<String>| -> String {
        let clauses = thetas
            .iter()
            .filter_map(|theta| Some(format!("θ = {theta}: {}", clause(*theta)?)));
        clauses.collect::<Vec<_>>().join("; ")
    };
    match experiment {
        Experiment::Table1 => by_skew(&|theta| {
            let row = rows.iter().find(|row| row.theta == theta)?;
            Some(format!("{:.2}, {:.2}, {:.2}", row.banks?, row.write_rounds?, row.read_rounds?))
        }),
        Experiment::Figure3 => {
            let copies = by_skew(&|theta| {
                let here = at_largest().filter(|row| row.theta == theta);
                let parts = here.filter_map(|row| Some(format!("{:.2} {}", row.copies?, row.layout)));
                Some(parts.collect::<Vec<_>>().join(", "))
            });
            format!("copies at {largest} rows: {copies}")
        }
        Experiment::Figure4 => {
            let fewest = rows.iter().map(|row| row.values).min().unwrap_or(0);
            let most = rows.iter().map(|row| row.values).max().unwrap_or(0);
            let clause = |values| {
                let here = rows.iter().filter(|row| row.values == values);
                let parts = here.filter_map(|row| Some(format!("{:.2} (θ = {}, {})", row.copies?, row.theta, row.layout)));
                parts.collect::<Vec<_>>().join(", ")
            };
            format!("{fewest} values: {}; {most} values: {}", clause(fewest), clause(most))
        }
        Experiment::Figure5 => {
            let faster = |query: &str, theta| {
                let here = at_largest().filter(move |row| row.query == query && row.theta == theta);
                range(here.filter_map(|row| row.speed_up), " times")
            };
            let text = by_skew(&|theta| {
                let [join, count, sum] = ["Q1", "Q2", "Q2 sum"].map(|query| faster(query, theta));
                Some(format!("Q1 {join}, Q2 {count}, Q2 sum {sum}"))
            });
            format!("faster at {largest} rows: {text}")
        }
        Experiment::Figure6 | Experiment::Figure7 => {
            let text = by_skew(&|theta| {
                let rate = |query: &str| {
                    let here = rows.iter().filter(|row| row.theta == theta && row.query == query);
                    range(here.filter(|row| row.window.is_some()).filter_map(|row| giga(row)), "")
                };
                let against = against_both(report, theta).filter(|_| experiment == Experiment::Figure7);
                Some(format!("Q2 {}, sum {}{}", rate("Q2"), rate("Q2 sum"), against.unwrap_or_default()))
            });
            format!("G rows/s over windows: {text}")
        }
        Experiment::Figure8 => {
            let text = by_skew(&|theta| {
                let here: Vec<&Row> = rows.iter().copied().filter(|row| row.theta == theta).collect();
                let enough = |query: &str| {
                    let of_query = || here.iter().filter(move |row| row.query == query);
                    let best = of_query().filter_map(|row| giga(row)).reduce(f64::max)?;
                    let first = of_query().find(|row| giga(row).is_some_and(|rate| rate >= 0.95 * best))?;
                    Some(format!("{query} {} of {best:.0} G rows/s", first.budget?))
                };
                Some(["Q2", "Q2 sum"].iter().filter_map(|query| enough(query)).collect::<Vec<_>>().join(", "))
            });
            format!("the least budget within 5 % of the best: {text}")
        }
        Experiment::Figure9 => {
            let of_all = rows.iter().filter(|row| row.layout != "by threads");
            let most = of_all.clone().map(|row| row.rows).max().unwrap_or(0);
            let seconds = by_skew(&|theta| {
                let here = of_all.clone().filter(|row| row.theta == theta);
                Some(range(here.filter_map(|row| row.place_s), " s"))
            });
            let threads = || rows.iter().filter(|row| row.layout == "by threads");
            let ratios = threads().filter(|row| row.cpu_threads == threads().map(|row| row.cpu_threads).max().flatten());
            let ratios = ratios.filter_map(|row| {
                let one = threads().find(|one| {
                    one.cpu_threads == Some(1) && (one.theta, one.window) == (row.theta, row.window)
                })?;
                Some(one.place_s? / row.place_s?)
            });
            let most_threads = rows.iter().filter_map(|row| row.cpu_threads).max().unwrap_or(0);
            format!("{most} rows over windows, {seconds}; {most_threads} threads are {} as fast as one", range(ratios, " times"))
        }
        Experiment::Figure10 => {
            let slower = |query: &str| {
                let of = |degree| {
                    let row = rows
                        .iter()
                        .find(|row| row.query == query && row.layout == "original" && row.degree == degree);
                    row.and_then(|row| giga(row))
                };
                let most = rows.iter().filter(|row| row.layout == "original").filter_map(|row| row.degree).max();
                let (free, worst) = (of(Some(1))?, of(most)?);
                Some(format!("{query} {free:.0} G rows/s free of conflicts, {worst:.0} at degree {}", most?))
            };
            let mut text: Vec<String> = ["Q1", "Q2", "Q2 sum"].iter().filter_map(|query| slower(query)).collect();
            text.extend(rows.iter().filter(|row| row.layout.starts_with("foreign")).filter_map(|row| {
                Some(format!("{}: {:.1} rounds, {:.0} G rows/s", row.layout, row.read_rounds?, giga(row)?))
            }));
            text.join("; ")
        }
        Experiment::Alternatives => {
            let placed = cases(&rows).into_iter().filter_map(|case| {
                Some(giga(case.placed?)? / giga(case.fastest?)?)
            });
            let ceiling = cases(&rows).into_iter().filter_map(|case| Some(giga(case.fastest?)? / giga(case.ceiling?)?));
            format!(
                "the placed column runs at {} the rate of the fastest way without one; that way at {} that of reading",
                range(placed, " times"),
                range(ceiling, " times")
            )
        }
        Experiment::Machine => [(true, "with"), (false, "without")]
            .into_iter()
            .filter_map(|(with_placed, word)| {
                let found = prediction::agreement(report, with_placed)?;
                Some(format!(
                    "{word} the placed column: {} predictions off by {:.0} % in the mean, {:.0} % at worst; the choice is within 10 % \
                     of the best in {} of {} cases",
                    found.predictions,
                    100.0 * found.mean,
                    100.0 * found.worst,
                    found.good,
                    found.cases
                ))
            })
            .collect::<Vec<_>>()
            .join("; "),
    }
}

/// Of figure 7: rates relative to those of figure 6, where both were measured.
fn against_both(report: &ConflictsReport, theta: f64) -> Option<String> {
    let ratios = report
        .of(Experiment::Figure7)
        .filter(|row| row.theta == theta)
        .filter_map(|row| {
            let mut both = report.of(Experiment::Figure6);
            let both = both
                .find(|both| (both.theta, both.window, &both.query) == (row.theta, row.window, &row.query))?;
            Some(row.rows_per_second? / both.rows_per_second?)
        });
    let ratios: Vec<f64> = ratios.collect();
    (!ratios.is_empty()).then(|| format!(", {} figure 6", range(ratios.into_iter(), " times")))
}

/// Rows of one number of groups and one skew.
struct Case<'a> {
    values: u64,
    theta: f64,
    ceiling: Option<&'a Row>,
    placed: Option<&'a Row>,
    /// Without a placed column.
    fastest: Option<&'a Row>,
}

fn cases<'a>(rows: &[&'a Row]) -> Vec<Case<'a>> {
    let same =
        |one: &&Row, other: &&Row| (one.values, one.theta.to_bits()) == (other.values, other.theta.to_bits());
    let of_case = |rows: &[&'a Row]| {
        let find = |wanted: &str| rows.iter().copied().find(|row| row.layout == wanted);
        let (ceiling, placed) = (find("reads only"), find("placed column"));
        let others = rows.iter().copied().filter(|row| {
            !ceiling.is_some_and(|ceiling| std::ptr::eq(ceiling, *row))
                && !placed.is_some_and(|placed| std::ptr::eq(placed, *row))
        });
        Case {
            values: rows[0].values,
            theta: rows[0].theta,
            ceiling,
            placed,
            fastest: others
                .filter(|row| row.ms.is_some())
                .min_by(|one, other| one.ms.unwrap_or(0.0).total_cmp(&other.ms.unwrap_or(0.0))),
        }
    };
    rows.chunk_by(same).map(of_case).collect()
}

/// Of the alternatives, the fastest way for each number of groups and skew.
pub(super) fn winners(report: &ConflictsReport) -> String {
    let rows: Vec<&Row> = report.of(Experiment::Alternatives).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\nOne 64-bit sum by group, G rows/s\n\n| groups | θ | fastest without placing | its rate | placed | reads only |\n\
         | ---: | ---: | --- | ---: | ---: | ---: |\n",
    );
    for case in cases(&rows) {
        let rate = |row: Option<&Row>| {
            row.and_then(giga)
                .map_or_else(|| "-".to_string(), |rate| format!("{rate:.0}"))
        };
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            case.values,
            case.theta,
            case.fastest.map_or("-", |row| &row.layout),
            rate(case.fastest),
            rate(case.placed),
            rate(case.ceiling)
        );
    }
    text
}

/// The model's constants, where they were measured, beside those it has of an H200.
pub(super) fn constants(report: &ConflictsReport) -> String {
    let Some(model) = &report.model else {
        return String::new();
    };
    let mut text =
        String::from("\nConstants of the model\n\n| constant | measured | H200 |\n| --- | ---: | ---: |\n");
    let known = constants::named(&galatea_layout::model::Machine::H200);
    for ((name, measured), (_, known)) in constants::named(model).into_iter().zip(known) {
        // Writing to a String does not fail.
        let _ = writeln!(text, "| {name} | {measured:.4e} | {known:.4e} |");
    }
    text
}

/// Different values in order of their first row.
fn distinct(rows: &[&Row], of: impl Fn(&Row) -> f64) -> Vec<f64> {
    let mut found: Vec<f64> = Vec::new();
    for row in rows {
        if !found.contains(&of(row)) {
            found.push(of(row));
        }
    }
    found
}
