//! Compares the paper's figures with measured rows: the published result, the measured facts, and whether the
//! result holds.

use super::Row;
use crate::finding::{self, verdict};

const RATE: &str = "input GB/s";

/// The findings from rows of figures 9, 11, 13 and 14 of the paper. Each line ends in "holds", or in "does
/// not hold, because" and the figures that contradict it.
#[must_use]
pub fn findings(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    for experiment in ["shapes", "steps", "partitions", "encoding"] {
        let rows = Rows(rows.iter().filter(|row| row.experiment == experiment).collect());
        for operator in rows.operators() {
            match experiment {
                "shapes" => shapes(&rows, operator, &mut lines),
                "steps" => steps(&rows, operator, &mut lines),
                "partitions" => partitions(&rows, operator, &mut lines),
                _ => encoding(&rows, operator, &mut lines),
            }
        }
    }
    lines
}

/// A published result on one subject of a figure.
fn line(figure: &str, subject: &str, paper: &str, facts: &str, holds: bool) -> String {
    verdict(&format!("{figure}, {subject}"), paper, facts, holds)
}

/// The line for a published result if its rows are missing.
fn missing(figure: &str, subject: &str, paper: &str, what: &str) -> String {
    finding::missing(&format!("{figure}, {subject}"), paper, what)
}

/// Rows of one experiment.
struct Rows<'a>(Vec<&'a Row>);

impl<'a> Rows<'a> {
    fn operators(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for row in &self.0 {
            if !names.contains(&row.operator.as_str()) {
                names.push(&row.operator);
            }
        }
        names
    }

    /// Frame sizes of an operator, ascending.
    fn sizes(&self, operator: &str) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.of(operator).map(|row| row.frame_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    fn of(&self, operator: &str) -> impl Iterator<Item = &'a Row> {
        self.0.iter().copied().filter(move |row| row.operator == operator)
    }

    /// Methods and medians of an operator, a frame size and a metric.
    fn medians(&self, operator: &str, bytes: usize, metric: &str) -> Vec<(&'a str, f64)> {
        self.of(operator)
            .filter(|row| row.frame_bytes == bytes && row.metric == metric)
            .map(|row| (row.method.as_str(), row.median()))
            .collect()
    }
}

fn of_method(medians: &[(&str, f64)], method: &str) -> Option<f64> {
    medians
        .iter()
        .find(|(name, _)| *name == method)
        .map(|(_, value)| *value)
}

fn greatest(medians: &[(&str, f64)], chosen: impl Fn(&str) -> bool) -> Option<f64> {
    let values = medians
        .iter()
        .filter(|(name, _)| chosen(name))
        .map(|(_, value)| *value);
    values.max_by(f64::total_cmp)
}

fn size(bytes: usize) -> String {
    match bytes >> 20 {
        0 => format!("{} KiB", bytes >> 10),
        mebibytes => format!("{mebibytes} MiB"),
    }
}

/// The values by frame size, as text.
fn by_size(values: &[(usize, f64)]) -> String {
    let texts = values
        .iter()
        .map(|(bytes, value)| format!("{value:.2} at {}", size(*bytes)));
    texts.collect::<Vec<_>>().join(", ")
}

/// The speedup of the stream over another method, by frame size.
fn gains(
    rows: &Rows<'_>,
    operator: &str,
    other: impl Fn(&[(&str, f64)]) -> Option<f64>,
) -> Vec<(usize, f64)> {
    let gain = |bytes| {
        let medians = rows.medians(operator, bytes, RATE);
        Some((bytes, of_method(&medians, "stream")? / other(&medians)?))
    };
    rows.sizes(operator).into_iter().filter_map(gain).collect()
}

/// The kernel over managed memory, at every frame size.
fn managed(figure: &str, rows: &Rows<'_>, operator: &str, lines: &mut Vec<String>) {
    const PAPER: &str = "the stream is faster than KoUM at every size";
    let gains = gains(rows, operator, |medians| of_method(medians, "KoUM"));
    if gains.is_empty() {
        lines.push(missing(figure, operator, PAPER, "KoUM"));
        return;
    }
    let facts = format!("the stream's rate is KoUM's times {}", by_size(&gains));
    let holds = gains.iter().all(|(_, gain)| *gain > 1.0);
    lines.push(line(figure, operator, PAPER, &facts, holds));
}

/// The shapes of figure 9 that mostly compute; the others mostly read.
const COMPUTING: [&str; 3] = ["Coulomb potential", "Fourier samples", "matrix product"];

/// Figure 9: gains of shapes that compute fall as frames grow, those of shapes that read persist.
fn shapes(rows: &Rows<'_>, operator: &str, lines: &mut Vec<String>) {
    let computes = COMPUTING.contains(&operator);
    let paper = if computes {
        "the gain over the best baseline falls as frames grow"
    } else {
        "the gain over the best baseline persists as frames grow"
    };
    let gains = gains(rows, operator, |medians| {
        greatest(medians, |method| method != "stream")
    });
    match (gains.first(), gains.last()) {
        (Some(first), Some(last)) if first.0 < last.0 => {
            let facts = format!(
                "the stream's rate is the best baseline's times {}",
                by_size(&gains)
            );
            let holds = if computes { last.1 < first.1 } else { last.1 > 1.0 };
            lines.push(line("figure 9", operator, paper, &facts, holds));
        }
        _ => lines.push(missing("figure 9", operator, paper, "a second frame size")),
    }
    managed("figure 9", rows, operator, lines);
}

/// Figure 11: publishing and looking dominate rounds with small frames, computing dominates rounds with large
/// ones.
fn steps(rows: &Rows<'_>, operator: &str, lines: &mut Vec<String>) {
    // Shares of the rounds that found work.
    let shares = |bytes: usize| {
        let share = |metric| Some(rows.medians(operator, bytes, metric).first()?.1);
        let [look, compute, publish] = [share("look %")?, share("compute %")?, share("publish %")?];
        let all = look + compute + publish;
        (all > 0.0).then(|| [look, compute, publish].map(|share| 100.0 * share / all))
    };
    let sizes = rows.sizes(operator);
    let found: Vec<(usize, [f64; 3])> = sizes
        .into_iter()
        .filter_map(|bytes| Some((bytes, shares(bytes)?)))
        .collect();
    let text = |(bytes, [look, compute, publish]): &(usize, [f64; 3])| {
        format!(
            "at {} look {look:.0} %, compute {compute:.0} %, publish {publish:.0} %",
            size(*bytes)
        )
    };
    let (Some(small), Some(large)) = (found.first(), found.last()) else {
        return;
    };
    let mut add = |paper, facts: String, holds| {
        lines.push(line("figure 11", operator, paper, &facts, holds));
    };
    let [look, compute, publish] = small.1;
    add(
        "publishing and subscribing dominate small frames",
        text(small),
        look + publish > compute,
    );
    add(
        "publishing takes longer than subscribing where frames are small",
        text(small),
        publish > look,
    );
    const PAPER: &str = "computing takes a larger share of large frames";
    if small.0 < large.0 {
        let facts = format!("{}; {}", text(small), text(large));
        add(PAPER, facts, large.1[1] > compute);
    } else {
        lines.push(missing("figure 11", operator, PAPER, "a second frame size"));
    }
}

/// Figure 13: the best partition is better than the worst and than two kernels at once, the estimate follows
/// the measured rates, and the tuner chooses about the best partition.
fn partitions(rows: &Rows<'_>, operator: &str, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 13";
    let named = |prefix: &'static str| {
        rows.of(operator)
            .filter_map(move |row| Some((row.method.strip_prefix(prefix)?, row)))
    };
    let measured: Vec<(&str, &Row)> = named("stream ").collect();
    let by_rate = |a: &&(&str, &Row), b: &&(&str, &Row)| a.1.median().total_cmp(&b.1.median());
    let (Some(best), Some(worst)) = (measured.iter().max_by(by_rate), measured.iter().min_by(by_rate)) else {
        return;
    };
    let mut add = |paper, facts: String, holds| lines.push(line(FIGURE, operator, paper, &facts, holds));
    let facts = format!(
        "{} has {:.2} GB/s ({:.2} to {:.2}), {:.2} times {} ({:.2} to {:.2})",
        best.0,
        best.1.median(),
        best.1.range().0,
        best.1.range().1,
        best.1.median() / worst.1.median(),
        worst.0,
        worst.1.range().0,
        worst.1.range().1
    );
    const DIFFER: &str = "partitions differ, the best from the worst";
    match best.1.values.len() {
        0 | 1 => add(
            DIFFER,
            format!("one run says nothing of a spread: {facts}"),
            false,
        ),
        // Differences within the spread of the runs do not count.
        _ => add(DIFFER, facts, best.1.range().0 > worst.1.range().1),
    }

    const BASELINE: &str = "the best partition is faster than two kernels at once";
    match rows.of(operator).find(|row| row.method.starts_with("CKC")) {
        Some(baseline) => {
            let gain = best.1.median() / baseline.median();
            let facts = format!("{} has {gain:.2} times their rate", best.0);
            add(BASELINE, facts, gain > 1.0);
        }
        None => add(
            BASELINE,
            "two kernels at once were not measured".to_owned(),
            false,
        ),
    }

    const FOLLOWS: &str = "the estimate follows the measured rates";
    let estimates: Vec<(&str, &Row)> = named("estimate ").collect();
    let both = measured.iter().filter_map(|(partition, row)| {
        let (_, estimate) = estimates.iter().find(|(other, _)| other == partition)?;
        Some((row.median(), estimate.median()))
    });
    let both: Vec<(f64, f64)> = both.collect();
    match agreement(&both) {
        Some(share) => {
            let facts = format!(
                "they agree which is the better one of {:.0} % of the pairs of partitions",
                100.0 * share
            );
            add(FOLLOWS, facts, share >= 0.75);
        }
        None => add(FOLLOWS, "there are not enough estimates".to_owned(), false),
    }

    for (name, paper) in [
        ("formula ", "formula 3 finds a partition within 10 % of the best"),
        ("search ", "the search finds a partition within 10 % of the best"),
    ] {
        match named(name).next() {
            Some((partition, row)) => {
                let share = row.median() / best.1.median();
                let facts = format!("{partition} has {:.0} % of the rate of {}", 100.0 * share, best.0);
                add(paper, facts, share >= 0.9);
            }
            None => add(paper, "the models have no such partition".to_owned(), false),
        }
    }
}

/// The share of pairs of points with the same order by both values, of the pairs that differ in both values.
fn agreement(points: &[(f64, f64)]) -> Option<f64> {
    let (mut same, mut all) = (0, 0);
    for (at, a) in points.iter().enumerate() {
        for b in &points[at + 1..] {
            let order = (a.0 - b.0) * (a.1 - b.1);
            all += u32::from(order != 0.0);
            same += u32::from(order > 0.0);
        }
    }
    (all > 0).then(|| f64::from(same) / f64::from(all))
}

/// Figure 14: the CPU is best for small frames. For larger frames the stream is faster than the baselines of
/// the device, and has less latency.
fn encoding(rows: &Rows<'_>, operator: &str, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 14";
    const COARSE: usize = 64 << 10;
    let sizes = rows.sizes(operator);
    let (Some(small), Some(largest)) = (sizes.first(), sizes.last()) else {
        return;
    };
    let is_cpu = |method: &str| method.starts_with("CPU");
    let medians = rows.medians(operator, *small, RATE);
    let paper = "the CPU is best where frames are small";
    match (
        greatest(&medians, is_cpu),
        greatest(&medians, |method| !is_cpu(method)),
    ) {
        (Some(cpu), Some(device)) => {
            let facts = format!(
                "at {} the CPU has {cpu:.2} GB/s, the best on the device {device:.2}",
                size(*small)
            );
            lines.push(line(FIGURE, operator, paper, &facts, cpu > device));
        }
        _ => lines.push(missing(FIGURE, operator, paper, "the CPU")),
    }
    let coarse = if sizes.contains(&COARSE) { COARSE } else { *largest };
    for (metric, paper) in [
        (
            RATE,
            "the stream beats CKC, HQ4 and KoUM where frames are coarser",
        ),
        ("latency p50 us", "the stream's latency is less than theirs"),
    ] {
        let medians = rows.medians(operator, coarse, metric);
        let others = ["CKC", "CKC pinned HQ4", "KoUM"];
        let ratio = |method: &str| Some(of_method(&medians, "stream")? / of_method(&medians, method)?);
        let ratios: Vec<(&str, f64)> = others
            .into_iter()
            .filter_map(|method| Some((method, ratio(method)?)))
            .collect();
        if ratios.len() < others.len() {
            lines.push(missing(FIGURE, operator, paper, "one of these"));
            continue;
        }
        let texts = ratios
            .iter()
            .map(|(method, ratio)| format!("{ratio:.2} of {method}"));
        let facts = format!(
            "at {} it is {}",
            size(coarse),
            texts.collect::<Vec<_>>().join(", ")
        );
        let holds = ratios.iter().all(|(_, ratio)| {
            if metric == RATE {
                *ratio > 1.0
            } else {
                *ratio < 1.0
            }
        });
        lines.push(line(FIGURE, operator, paper, &facts, holds));
    }
    managed(FIGURE, rows, operator, lines);
}
