//! Compares the thesis' results with measured rows: the published result, the measured facts, and whether the
//! result holds.

use super::row::Row;

mod both;
mod peer;
mod places;
mod rows;
mod tables;
#[cfg(test)]
mod tests;

use rows::{CPU, GPU, RADIX, Rows, found, gain_by_skew, times};
use tables::predictions;

/// The findings from rows of figures 3.12, 3.13, 3.15 to 3.20 and 4.1 of the thesis. Each line ends in
/// "holds", or in "does not hold, because" and the figures that contradict it.
#[must_use]
pub fn findings(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    for (experiment, say) in [
        (
            "relation_places",
            places::relations as fn(&Rows<'_>, &mut Vec<String>),
        ),
        ("table_places", places::tables),
        ("probe_side", probe_side),
        ("build_side", tables::build_side),
        ("hybrid", tables::hybrid),
        ("shares", tables::shares),
        ("peer_build_side", peer::build_side),
        ("peer_shares", peer::shares),
        ("ratio", ratio),
        ("skew", skew),
        ("peer_skew", peer::skew),
        ("match_rate", match_rate),
        ("cooperation", both::cooperation),
        ("tuples", tables::tuples),
        ("peer_tuples", peer::tuples),
    ] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.experiment == experiment).collect();
        if !rows.is_empty() {
            say(&Rows(rows), &mut lines);
        }
    }
    lines
}

fn probe_side(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.15";
    let cpu = times(
        "the device has",
        rows.ratios((GPU, "device"), (RADIX, ""), |_| true),
        (2.4, 4.2),
    );
    let thesis = "over NVLink 2.0 the device has 2.4 to 4.2 times the rate of the CPU's radix join";
    lines.push(found(FIGURE, thesis, cpu));
    let grows = rows.ends(GPU, "device").map(|(first, last)| {
        let facts = format!(
            "it has {:.2} G tuples/s with {} rows of S per row of R and {:.2} with {}",
            first.rate(),
            first.value,
            last.rate(),
            last.value
        );
        (facts, last.rate() > 1.05 * first.rate())
    });
    lines.push(found(FIGURE, "the rate over a fast link increases with S", grows));
    let bound = rows.ends(GPU, "device").and_then(|(_, last)| {
        let bound = last.bound?;
        let share = 100.0 * last.rate() / bound.rate;
        let facts = format!(
            "it has {:.2} of {:.2} G tuples/s, {share:.0} %",
            last.rate(),
            bound.rate
        );
        Some((facts, share >= 90.0))
    });
    lines.push(found(
        FIGURE,
        "over PCIe only the link limits the rate, to nine tenths",
        bound,
    ));
}

fn ratio(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.17";
    let first = rows.ends(GPU, "device").map(|(first, _)| {
        let build = first.phase(|phases| phases.build);
        let share = 100.0 * build / (build + first.phase(|phases| phases.probe));
        let facts = format!("it takes {share:.0} % at 1:{}", first.value);
        (facts, (share - 70.0).abs() <= 10.0)
    });
    lines.push(found(
        FIGURE,
        "the build takes 70 % of the time at 1:1 over NVLink 2.0",
        first,
    ));
    let equal = rows.ends(GPU, "device").map(|(_, last)| {
        let tuples = last.tuples as f64 / (1.0 + last.value);
        let build = tuples / last.phase(|phases| phases.build) / 1e9;
        let probe = tuples * last.value / last.phase(|phases| phases.probe) / 1e9;
        let loss = 100.0 * (1.0 - build / probe);
        let facts = format!("it has {build:.2} G tuples/s, the probe {probe:.2}, {loss:.0} % less");
        (facts, (loss - 56.0).abs() <= 10.0)
    });
    lines.push(found(FIGURE, "the build is 56 % slower than the probe", equal));
}

fn skew(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.18";
    let mut gain = |algorithm, table, thesis: &str, range: (f64, f64)| {
        let facts = gain_by_skew(rows, (algorithm, table), range);
        lines.push(found(FIGURE, thesis, facts));
    };
    gain(
        GPU,
        "device",
        "skew has no effect with the table in device memory",
        (1.0, 1.0),
    );
    let thesis =
        "it raises the rate 9.4 times over PCIe 3.0, 4.4 over NVLink 2.0, with the table in host memory";
    gain(GPU, "host", thesis, (4.4, 9.4));
    gain(CPU, "host", "it raises the rate of the CPU 3.9 times", (3.9, 3.9));
    predictions(FIGURE, rows, lines);
}

fn match_rate(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.19";
    for (table, thesis, most) in [
        (
            "device",
            "the rate decreases by up to 28 % with more matches and the table in device memory",
            28.0,
        ),
        (
            "host",
            "it decreases by up to 4 % over PCIe 3.0 with the table in host memory",
            4.0,
        ),
    ] {
        let facts = rows.ends(GPU, table).map(|(none, all)| {
            let loss = 100.0 * (1.0 - all.rate() / none.rate());
            let facts = format!(
                "{:.2} G tuples/s without matches become {:.2}, {loss:.0} % less",
                none.rate(),
                all.rate()
            );
            (facts, (0.0..=most + 5.0).contains(&loss))
        });
        lines.push(found(FIGURE, thesis, facts));
    }
    let ratios = rows.ratios((GPU, "device"), (CPU, "host"), |_| true);
    let facts = times("it has", ratios, (6.1, 7.4));
    let thesis = "with the table in its memory the device has 6.1 to 7.4 times the rate of the CPU";
    lines.push(found(FIGURE, thesis, facts));
}
