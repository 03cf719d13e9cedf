//! Compares the thesis' results with measured rows: the published result, the measured facts, and whether the
//! result holds.

use super::row::Row;
use crate::finding::{missing, verdict};

/// The findings from rows of chapter 4 of the thesis. Each line ends in "holds", or in "does not hold,
/// because" and the figures that contradict it.
#[must_use]
pub fn findings(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    for (figure, say) in [
        ("4.12", scaling as fn(&Rows<'_>, &mut Vec<String>)),
        ("4.16", processors),
        ("4.17", first_passes),
        ("4.18", across_the_link),
        ("4.19", in_memory),
        ("4.20", fanouts),
        ("4.21", cache),
        ("4.23", ratios),
        ("4.25", multiprocessors),
        ("chunks", chunks),
    ] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.figure == figure).collect();
        if !rows.is_empty() {
            say(&Rows(rows), &mut lines);
        }
    }
    lines
}

/// The algorithm of our join.
const OURS: &str = "Refined Linear";

/// Rows of a figure.
struct Rows<'a>(Vec<&'a Row>);

impl<'a> Rows<'a> {
    fn of(&self, experiment: &str, algorithm: &str) -> Rows<'a> {
        let rows = self.0.iter().copied();
        Rows(
            rows.filter(|row| row.experiment == experiment && row.algorithm == algorithm)
                .collect(),
        )
    }

    /// Rows of our join: the default of the experiments.
    fn ours(&self, experiment: &str) -> Rows<'a> {
        self.of(experiment, OURS)
    }

    fn by(&self, parameter: &str) -> Rows<'a> {
        let rows = self.0.iter().copied();
        Rows(rows.filter(|row| row.parameter == parameter).collect())
    }

    /// The row with a value of the parameter.
    fn at(&self, value: f64) -> Option<&'a Row> {
        self.0
            .iter()
            .copied()
            .find(|row| (row.value - value).abs() < 1e-9)
    }

    /// The fastest row.
    fn best(&self) -> Option<&'a Row> {
        let rows = self.0.iter().copied();
        rows.max_by(|a, b| a.rate().total_cmp(&b.rate()))
    }

    fn worst(&self) -> Option<&'a Row> {
        let rows = self.0.iter().copied();
        rows.min_by(|a, b| a.rate().total_cmp(&b.rate()))
    }

    /// The workloads, each once.
    fn workloads(&self) -> Vec<(usize, usize)> {
        let mut all: Vec<(usize, usize)> = self.0.iter().map(|row| row.workload).collect();
        all.dedup();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn with(&self, workload: (usize, usize)) -> Rows<'a> {
        let rows = self.0.iter().copied();
        Rows(rows.filter(|row| row.workload == workload).collect())
    }

    /// Rates of one experiment's algorithm divided by those of another for the same workload and value.
    fn ratios(&self, others: &Rows<'_>) -> Vec<(f64, f64)> {
        let ratio = |row: &&Row| {
            let other = others
                .0
                .iter()
                .find(|other| other.workload == row.workload && (other.value - row.value).abs() < 1e-9)?;
            Some((row.value, row.rate() / other.rate()))
        };
        self.0.iter().filter_map(ratio).collect()
    }
}

/// Values as text.
fn text(values: &[(f64, f64)], unit: &str) -> String {
    let texts = values
        .iter()
        .map(|(at, value)| format!("{value:.2}{unit} at {at}"));
    texts.collect::<Vec<_>>().join(", ")
}

/// A published range of ratios, of which each may be a tenth off.
fn within(
    lines: &mut Vec<String>,
    (figure, thesis): (&str, &str),
    values: &[(f64, f64)],
    (least, greatest): (f64, f64),
) {
    if values.is_empty() {
        lines.push(missing(figure, thesis, "one of the two"));
        return;
    }
    let holds = values
        .iter()
        .all(|(_, value)| *value >= 0.9 * least && *value <= 1.1 * greatest);
    lines.push(verdict(figure, thesis, &text(values, "x"), holds));
}

fn rates(rows: &Rows<'_>) -> Vec<(f64, f64)> {
    rows.0.iter().map(|row| (row.value, row.rate())).collect()
}

/// Figure 4.12: the Triton join by size, and by the limit of its state.
fn scaling(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.12";
    let joins = rows.ours("join").by("million tuples");
    let thesis = "from 128 to 2048 M tuples the join keeps 74 % of its throughput or more";
    match joins.0.first().zip(joins.0.last()) {
        Some((first, last)) => {
            let kept = last.rate() / first.rate();
            let facts = format!(
                "{:.0} % is kept with {:.0} % of the state in host memory, in G tuples/s: {}",
                100.0 * kept,
                100.0 * last.spilled,
                text(&rates(&joins), "")
            );
            lines.push(verdict(FIGURE, thesis, &facts, kept >= 0.74));
        }
        None => lines.push(missing(FIGURE, thesis, "the Triton join")),
    }
    let perfect = rows.of("join", "Refined Linear perfect").by("million tuples");
    let thesis = "chains are within 2 % of perfect hashing";
    within(lines, (FIGURE, thesis), &joins.ratios(&perfect), (1.0, 1.0));
    let shares: Vec<(f64, f64)> = joins.0.iter().map(|row| (row.value, row.shares().0)).collect();
    let holds = !shares.is_empty() && shares.iter().all(|(_, share)| *share >= 0.9);
    let thesis = "(ours) the join has 90 % of the link's bound";
    lines.push(verdict(FIGURE, thesis, &text(&shares, ""), holds));
    let limited = rows.ours("join").by("limit of the state");
    let shares: Vec<(f64, f64)> = limited.0.iter().map(|row| (row.value, row.shares().0)).collect();
    let holds = !shares.is_empty() && shares.iter().all(|(_, share)| *share >= 0.8);
    let thesis = "(ours) by the limit of the state the join has 80 % of the link's bound, without a cliff";
    let facts = format!(
        "shares {}, in G tuples/s {}",
        text(&shares, ""),
        text(&rates(&limited), "")
    );
    lines.push(verdict(FIGURE, thesis, &facts, holds));
}

/// Figure 4.16: partitioned by the CPU or by the GPU.
fn processors(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.16";
    for (name, of_gpu) in [("ours", OURS), ("the thesis' kernels", "Hierarchical")] {
        let ratios = rows.of("join", of_gpu).ratios(&rows.of("join", "CPU"));
        let thesis = format!(
            "the Triton join ({name}) has 1.2 to 1.3 times the throughput of the CPU-partitioned one"
        );
        within(lines, (FIGURE, &thesis), &ratios, (1.2, 1.3));
        let ratios = rows
            .of("first pass", of_gpu)
            .ratios(&rows.of("first pass", "CPU"));
        let thesis = format!("the GPU ({name}) partitions 1.5 to 1.7 times as fast as the CPU");
        within(lines, (FIGURE, &thesis), &ratios, (1.5, 1.7));
    }
}

/// Figure 4.17: the algorithm of the first pass.
fn first_passes(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.17";
    let of = |algorithm| rows.of("join", algorithm);
    let hierarchical = of("Hierarchical");
    for (other, thesis, range) in [
        (
            "Linear",
            "the join with Hierarchical has 1.1 to 1.9 times the throughput of Linear",
            (1.1, 1.9),
        ),
        (
            "Standard",
            "the join with Hierarchical has 3.6 to 4 times the throughput of Standard",
            (3.6, 4.0),
        ),
        (
            "Shared",
            "Hierarchical has 88 to 100 % of Shared below 1280 M tuples",
            (0.88, 1.0),
        ),
    ] {
        within(lines, (FIGURE, thesis), &hierarchical.ratios(&of(other)), range);
    }
    let ours = rows.ours("join");
    let ratios = ours.ratios(&hierarchical);
    let holds = !ratios.is_empty() && ratios.iter().all(|(_, ratio)| *ratio >= 1.0);
    let thesis =
        "(ours) copy engines with partitioning in device memory are faster than Hierarchical across the link";
    lines.push(verdict(FIGURE, thesis, &text(&ratios, "x"), holds));
}

/// Figure 4.18: one pass across the link.
fn across_the_link(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.18";
    let shares = |algorithm: &str| -> Vec<(f64, f64)> {
        let rows = rows.of("partitioning", algorithm);
        rows.0.iter().map(|row| (row.value, row.shares().0)).collect()
    };
    let mut state = |algorithm: &str, thesis: &str, holds: &dyn Fn(f64, f64) -> bool| {
        let found = shares(algorithm);
        if found.is_empty() {
            lines.push(missing(FIGURE, thesis, algorithm));
            return;
        }
        let facts = format!("shares of the rate of both directions: {}", text(&found, ""));
        let all = found.iter().all(|(fanout, share)| holds(*fanout, *share));
        lines.push(verdict(FIGURE, thesis, &facts, all));
    };
    state(
        "Linear",
        "Linear has at most 76 % of the link's rate",
        &|_, share| share <= 0.76,
    );
    state(
        "Shared",
        "Shared has 90 % of the link's rate up to a fanout of 64",
        &|fanout, share| fanout > 64.0 || share >= 0.9,
    );
    state(
        "Shared",
        "Shared has less than half of the link's rate above a fanout of 64",
        &|fanout, share| fanout <= 64.0 || share < 0.5,
    );
    state(
        "Hierarchical",
        "Hierarchical has 68 % of the link's rate or more",
        &|_, share| share >= 0.68,
    );
    state(
        "Staged Linear",
        "(ours) Staged has 90 % of the link's rate at every fanout",
        &|_, share| share >= 0.9,
    );
    let standard = rows.of("partitioning", "Standard");
    let hierarchical = rows.of("partitioning", "Hierarchical");
    let ratios = hierarchical.ratios(&standard);
    if let Some((_, ratio)) = ratios.last() {
        let thesis = "at the highest fanout Standard is far slower than Hierarchical";
        let facts = format!("Hierarchical has {ratio:.1} times its rate");
        lines.push(verdict(FIGURE, thesis, &facts, *ratio > 2.0));
    }
}

/// Figure 4.19: one pass in device memory.
fn in_memory(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.19";
    let of = |algorithm| rows.of("partitioning", algorithm);
    let above_four = |ratios: Vec<(f64, f64)>| -> Vec<(f64, f64)> {
        ratios.into_iter().filter(|(fanout, _)| *fanout > 4.0).collect()
    };
    let ratios = above_four(of("Shared").ratios(&of("Linear")));
    let thesis = "above a fanout of 4, Shared has 1.04 to 2.1 times the rate of Linear";
    within(lines, (FIGURE, thesis), &ratios, (1.04, 2.1));
    let ratios = above_four(of("Hierarchical").ratios(&of("Shared")));
    let thesis = "Hierarchical has less than 60 % of the rate of Shared";
    within(lines, (FIGURE, thesis), &ratios, (0.0, 0.6 / 1.1));
    let best: Vec<String> = ["Standard", "Linear", "Linear twice", "Shared", "Hierarchical"]
        .into_iter()
        .filter_map(|algorithm| {
            let rows = of(algorithm);
            let (best, worst) = (rows.best()?, rows.worst()?);
            Some(format!(
                "{algorithm} {:.0} to {:.0} GB/s ({:.0} to {:.0} % of a copy)",
                2.0 * worst.gigabytes(),
                2.0 * best.gigabytes(),
                100.0 * worst.shares().1,
                100.0 * best.shares().1
            ))
        })
        .collect();
    let half = of("Shared")
        .0
        .iter()
        .chain(of("Linear").0.iter())
        .chain(of("Linear twice").0.iter())
        .any(|row| row.value >= 512.0 && row.shares().1 >= 0.5);
    let thesis = "(ours) at a fanout of 512 or more an algorithm has half of the rate of a copy";
    lines.push(verdict(FIGURE, thesis, &best.join(", "), half));
}

/// Figure 4.20: fanouts of both passes.
fn fanouts(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.20";
    let joins = rows.ours("join");
    for workload in joins.workloads() {
        let rows = joins.with(workload);
        let thesis = format!("{} M tuples: a second fanout of 512 is best", workload.0);
        let Some(best) = rows.best() else { continue };
        let of_nine = Rows(rows.0.iter().copied().filter(|row| row.bits.1 == 9).collect());
        let share = of_nine.best().map_or(0.0, |row| row.rate() / best.rate());
        let facts = format!(
            "{} and {} bits are best with {:.2} G tuples/s, and 9 bits have {:.0} % of it; the worst has {:.0} %",
            best.bits.0,
            best.bits.1,
            best.rate(),
            100.0 * share,
            100.0 * rows.worst().map_or(0.0, |row| row.rate() / best.rate())
        );
        lines.push(verdict(FIGURE, &thesis, &facts, share >= 0.98));
    }
}

/// Figure 4.21: the fraction of the state in device memory.
fn cache(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.21";
    let joins = rows.ours("join");
    for workload in joins.workloads() {
        let rows = joins.with(workload);
        let thesis = format!(
            "{} M tuples: a full cache has 1.4 times the throughput of none",
            workload.0
        );
        if let Some((none, full)) = rows.at(0.0).zip(rows.at(1.0)) {
            let gain = full.rate() / none.rate();
            let facts = format!(
                "{gain:.2} times; in G tuples/s by cached fraction {}",
                text(&rates(&rows), "")
            );
            lines.push(verdict(FIGURE, &thesis, &facts, (1.26..=1.54).contains(&gain)));
        } else {
            lines.push(missing(FIGURE, &thesis, "one of the two"));
        }
    }
    if let Some(workload) = joins.workloads().first() {
        let rows = joins.with(*workload);
        let thesis = "the smallest workload is fastest with 79 % of its state cached";
        if let Some((part, full)) = rows.at(0.79).zip(rows.at(1.0)) {
            let facts = format!(
                "{:.2} G tuples/s with 79 %, {:.2} with all",
                part.rate(),
                full.rate()
            );
            lines.push(verdict(FIGURE, thesis, &facts, part.rate() > full.rate()));
        }
    }
}

/// Figure 4.23: the ratio of the sides.
fn ratios(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.23";
    let joins = rows.ours("join");
    let thesis = "the Triton join varies by at most 13 % from a ratio of 1:1 to 1:32";
    match joins.best().zip(joins.worst()) {
        Some((best, worst)) => {
            let ratio = best.rate() / worst.rate();
            let facts = format!(
                "{ratio:.2} times, in G tuples/s by ratio {}",
                text(&rates(&joins), "")
            );
            lines.push(verdict(FIGURE, thesis, &facts, ratio <= 1.13));
        }
        None => lines.push(missing(FIGURE, thesis, "the Triton join")),
    }
}

/// Figure 4.25: fewer multiprocessors, of 80 in the thesis.
fn multiprocessors(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.25";
    for algorithm in [OURS, "Hierarchical"] {
        let joins = rows.of("join", algorithm);
        for workload in joins.workloads() {
            let rows = joins.with(workload);
            let Some(best) = rows.best() else { continue };
            let shares: Vec<(f64, f64)> = rows
                .0
                .iter()
                .map(|row| (row.value, row.rate() / best.rate()))
                .collect();
            for (count, share) in [(28.0, 0.75), (55.0, 0.95)] {
                let thesis = format!(
                    "{} M tuples, {algorithm}: {count} multiprocessors have {:.0} % of the throughput of all",
                    workload.0,
                    100.0 * share
                );
                let enough = shares.iter().find(|(at, _)| *at >= count);
                let holds = enough.is_some_and(|(_, found)| *found >= share);
                lines.push(verdict(FIGURE, &thesis, &text(&shares, ""), holds));
            }
        }
    }
}

/// The join with its whole state in host memory, by the size of chunks.
fn chunks(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "chunks";
    let joins = rows.ours("join");
    let Some((best, worst)) = joins.best().zip(joins.worst()) else {
        lines.push(missing(
            FIGURE,
            "the join with its state in host memory",
            "the join",
        ));
        return;
    };
    let limits = best.limits;
    let facts = format!(
        "{:.2} G tuples/s with {} {}, {:.2} with {} {}; the link allows {:.2} at {:.1} GB/s to the device, {:.1} to the host and {:.1} together",
        best.rate(),
        best.value,
        best.parameter,
        worst.rate(),
        worst.value,
        worst.parameter,
        best.rate() / best.shares().0,
        limits.to_device / 1e9,
        limits.to_host / 1e9,
        limits.both / 1e9
    );
    let thesis = "(ours) with all of its state in host memory the join has 1.55 G tuples/s";
    lines.push(verdict(FIGURE, thesis, &facts, best.rate() >= 1.55));
    let thesis = "(ours) it has 90 % of the link's bound";
    lines.push(verdict(FIGURE, thesis, &facts, best.shares().0 >= 0.9));
}

#[cfg(test)]
mod tests {
    use super::super::rig::{Bytes, Limits};
    use super::*;

    fn row(figure: &'static str, algorithm: &str, value: f64, seconds: f64) -> Row {
        Row {
            experiment: if ["4.18", "4.19"].contains(&figure) {
                "partitioning"
            } else {
                "join"
            },
            figure,
            algorithm: algorithm.to_owned(),
            workload: (128, 128),
            parameter: "fanout",
            value,
            tuples: 1_000_000_000,
            seconds: vec![seconds],
            bytes: Bytes {
                to_device: 16_000_000_000,
                to_host: 16_000_000_000,
                memory: 32_000_000_000,
            },
            spilled: 1.0,
            bits: (9, 9),
            limits: Limits {
                to_device: 50e9,
                to_host: 50e9,
                both: 100e9,
                memory: 3e12,
            },
        }
    }

    fn verdicts(rows: &[Row]) -> Vec<(String, bool)> {
        let lines = findings(rows).into_iter();
        lines
            .map(|line| (line.clone(), line.ends_with(": holds")))
            .collect()
    }

    #[test]
    fn published_ratios_hold_or_not() {
        let pass = |shared: f64| {
            let of = |algorithm: &str, seconds| row("4.19", algorithm, 512.0, seconds);
            let rows = [of("Linear", 0.02), of("Shared", shared), of("Hierarchical", 0.05)];
            verdicts(&rows)
        };
        assert!(pass(0.015)[0].1 && pass(0.015)[1].1);
        assert!(!pass(0.03)[0].1, "{:?}", pass(0.03));
        assert!(pass(0.03)[0].0.contains("does not hold, because 0.67x at 512"));
    }

    #[test]
    fn shares_of_the_link_are_compared_by_fanout() {
        let rows = [
            row("4.18", "Shared", 64.0, 0.33),
            row("4.18", "Shared", 128.0, 0.5),
        ];
        let found = verdicts(&rows);
        let of = |text: &str| {
            found
                .iter()
                .find(|(line, _)| line.contains(text))
                .map(|(_, holds)| *holds)
        };
        assert_eq!(of("up to a fanout of 64"), Some(true));
        assert_eq!(of("above a fanout of 64"), Some(false));
        assert_eq!(of("Hierarchical has 68 %"), Some(false));
    }
}
