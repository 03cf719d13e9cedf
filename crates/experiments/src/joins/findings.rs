//! Compares the thesis' results with measured rows: the published result, the measured facts, and whether the
//! result holds.

use super::model::Predicted;
use super::row::Row;
use crate::finding::{missing, verdict};

/// The findings from rows of figures 3.15 to 3.20 and 4.1 of the thesis. Each line ends in "holds", or in
/// "does not hold, because" and the figures that contradict it.
#[must_use]
pub fn findings(rows: &[Row]) -> Vec<String> {
    let mut lines = Vec::new();
    for (experiment, say) in [
        ("probe_side", probe_side as fn(&Rows<'_>, &mut Vec<String>)),
        ("build_side", build_side),
        ("hybrid", hybrid),
        (super::lab::PEER, peer),
        ("ratio", ratio),
        ("skew", skew),
        ("match_rate", match_rate),
        ("cooperation", cooperation),
        ("tuples", tuples),
    ] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.experiment == experiment).collect();
        if !rows.is_empty() {
            say(&Rows(rows), &mut lines);
        }
    }
    lines
}

/// A published result with its facts, or with the name of the missing rows.
fn found(figure: &str, thesis: &str, facts: Option<(String, bool)>) -> String {
    match facts {
        Some((facts, holds)) => verdict(figure, thesis, &facts, holds),
        None => missing(figure, thesis, "one of its points"),
    }
}

/// Whether a value is within a tenth of a range from the thesis.
fn about(value: f64, (least, most): (f64, f64)) -> bool {
    value >= 0.9 * least && value <= 1.1 * most
}

const GPU: &str = "GPU perfect";
const LINEAR: &str = "GPU linear probing";
const CPU: &str = "CPU perfect";
const RADIX: &str = "CPU radix";

/// Rows of one experiment.
struct Rows<'a>(Vec<&'a Row>);

impl<'a> Rows<'a> {
    fn of(&self, algorithm: &'a str, table: &'a str) -> impl Iterator<Item = &'a Row> + use<'_, 'a> {
        let chosen =
            move |row: &&&'a Row| row.algorithm == algorithm && (table.is_empty() || row.table == table);
        self.0.iter().filter(chosen).copied()
    }

    fn at(&self, algorithm: &'a str, table: &'a str, value: f64) -> Option<f64> {
        let mut rows = self.of(algorithm, table);
        rows.find(|row| row.value == value).map(Row::rate)
    }

    /// The rows with the least and the greatest value of the parameter.
    fn ends(&self, algorithm: &'a str, table: &'a str) -> Option<(&'a Row, &'a Row)> {
        let by_value = |a: &&Row, b: &&Row| a.value.total_cmp(&b.value);
        let first = self.of(algorithm, table).min_by(by_value)?;
        let last = self.of(algorithm, table).max_by(by_value)?;
        Some((first, last))
    }

    /// The least and the greatest ratio of two algorithms' rates at the same values.
    fn ratios(
        &self,
        (algorithm, table): (&'a str, &'a str),
        than: (&'a str, &'a str),
        chosen: impl Fn(f64) -> bool,
    ) -> Option<(f64, f64)> {
        let rows = self.of(algorithm, table).filter(|row| chosen(row.value));
        let ratios = rows.filter_map(|row| Some(row.rate() / self.at(than.0, than.1, row.value)?));
        let (least, greatest) = crate::runs::range(&ratios.collect::<Vec<_>>());
        (least <= greatest).then_some((least, greatest))
    }
}

/// The facts on a range of ratios, and whether both ends are within the thesis' range.
fn times(what: &str, ratios: Option<(f64, f64)>, thesis: (f64, f64)) -> Option<(String, bool)> {
    let (least, greatest) = ratios?;
    let facts = format!("{what} {least:.2} to {greatest:.2} times");
    Some((facts, about(least, thesis) && about(greatest, thesis)))
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

/// Whether predictions are within a tenth of the rates of tables in both memories, and which is the closest.
fn predictions(figure: &str, rows: &Rows<'_>, lines: &mut Vec<String>) {
    let mut facts = Vec::new();
    let mut holds = true;
    for row in &rows.0 {
        let Some(predicted) = row.predicted else {
            continue;
        };
        let rate = row.rate();
        let (name, closest) = predicted.closest(rate);
        holds &= about(rate, (predicted.mean, predicted.mean));
        facts.push(format!(
            "{} {} {} with {:.0} % on the device: {rate:.2} measured, {:.2} mean, {:.2} series, {:.2} overlap ({name} is closest, {closest:.2})",
            row.table,
            row.parameter,
            row.value,
            100.0 * row.table_share,
            predicted.mean,
            predicted.series,
            predicted.overlap
        ));
    }
    let facts = (!facts.is_empty()).then(|| (facts.join("; "), holds));
    let thesis = "the rate with a hybrid table is the mean of the rates of both memories, weighted by share";
    lines.push(found(figure, thesis, facts));
}

fn build_side(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.16";
    let within = times(
        "they have",
        rows.ratios((GPU, "device"), (RADIX, ""), |value| value <= 1.0),
        (2.4, 3.2),
    );
    let thesis =
        "over NVLink 2.0 tables within the budget have 2.4 to 3.2 times the rate of the CPU's radix join";
    lines.push(found(FIGURE, thesis, within));
    for (thesis, loss) in [
        (
            "over NVLink 2.0 a table in host memory loses 85 % of the rate",
            85.0,
        ),
        (
            "over PCIe 3.0 a table in host memory loses 97 % of the rate",
            97.0,
        ),
    ] {
        let both = rows.at(GPU, "device", 1.0).zip(rows.ends(GPU, "host"));
        let facts = both.map(|(device, (_, host))| {
            let lost = 100.0 * (1.0 - host.rate() / device);
            let facts = format!(
                "{:.2} G tuples/s within the budget become {:.2}, a loss of {lost:.0} %",
                device,
                host.rate()
            );
            (facts, (lost - loss).abs() <= 5.0)
        });
        lines.push(found(FIGURE, thesis, facts));
    }
}

/// Tables in both memories, beside the three models of their rate.
fn hybrid(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.16";
    for table in ["hybrid", "hybrid interleaved"] {
        if rows.of(GPU, table).next().is_none() {
            continue;
        }
        let ratios = rows.ratios((GPU, table), (GPU, "host"), |_| true);
        let facts = times(&format!("the {table} table has"), ratios, (1.0, 3.0));
        let thesis = "a hybrid table has 1 to 3 times the rate of one in host memory";
        lines.push(found(FIGURE, thesis, facts));
    }
    predictions(FIGURE, rows, lines);
    for (model, value) in [
        (
            "accesses to both memories overlap: min(G / A, C / (1 - A))",
            (|predicted| predicted.overlap) as fn(Predicted) -> f64,
        ),
        (
            "accesses to both memories take turns: 1 / (A / G + (1 - A) / C)",
            |predicted| predicted.series,
        ),
    ] {
        let of = |row: &&Row| Some(row.rate() / value(row.predicted?));
        let ratios: Vec<f64> = rows.0.iter().filter_map(of).collect();
        let facts = (!ratios.is_empty()).then(|| {
            let (least, greatest) = crate::runs::range(&ratios);
            let facts = format!("measured rates are {least:.2} to {greatest:.2} times those of the model");
            (facts, least >= 0.8 && greatest <= 1.25)
        });
        lines.push(found(FIGURE, &format!("(ours) {model}"), facts));
    }
}

/// Tables in the memory of another device.
fn peer(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const ALGORITHM: &str = "GPU perfect (columns on the device)";
    let sized = Rows(by(rows, "table per budget"));
    let ratios = sized.ratios((ALGORITHM, "other device"), (ALGORITHM, "device"), |_| true);
    let facts = times("it has", ratios, (0.15, 0.15));
    let thesis = "over NVLink 2.0 a table in the memory behind the link loses 85 % of the rate";
    lines.push(found("figure 3.16", thesis, facts));
    predictions("figure 3.16, two devices", &sized, lines);
    let skewed = Rows(by(rows, "Zipf exponent"));
    let facts = skewed.ends(ALGORITHM, "other device").map(|(first, last)| {
        let times = last.rate() / first.rate();
        let facts = format!(
            "with the table in the memory of another device {:.2} G tuples/s become {:.2}, {times:.2} times",
            first.rate(),
            last.rate()
        );
        (facts, times > 1.0)
    });
    lines.push(found(
        "figure 3.18",
        "the rate across the link increases with skew",
        facts,
    ));
}

/// Rows with a parameter.
fn by<'a>(rows: &Rows<'a>, parameter: &str) -> Vec<&'a Row> {
    let of = rows.0.iter().filter(|row| row.parameter == parameter);
    of.copied().collect()
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
        let facts = rows.ends(algorithm, table).map(|(first, last)| {
            let by = last.rate() / first.rate();
            let facts = format!(
                "{:.2} G tuples/s become {:.2} with exponent {}, {by:.2} times",
                first.rate(),
                last.rate(),
                last.value
            );
            (facts, about(by, range))
        });
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

fn cooperation(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.20";
    for (workload, thesis) in [
        ("A", [("Het", 1.19), ("GPU+Het", 4.7), (GPU, 5.8)]),
        ("B", [("Het", 0.3), ("GPU+Het", 1.8), (GPU, 1.4)]),
        ("C", [("Het", 1.08), ("GPU+Het", 2.4), (GPU, 4.6)]),
    ] {
        let rate = |algorithm: &str| {
            let mut rows = rows.0.iter();
            rows.find(|row| row.workload == workload && row.algorithm == algorithm)
                .map(|row| row.rate())
        };
        for (algorithm, by) in thesis {
            let facts = rate(algorithm).zip(rate(CPU)).map(|(rate, cpu)| {
                let ratio = rate / cpu;
                let facts = format!("it has {rate:.2} G tuples/s and the CPU {cpu:.2}, {ratio:.2} times");
                (facts, about(ratio, (by, by)))
            });
            let thesis = format!("{algorithm} has {by} times the rate of the CPU for workload {workload}");
            lines.push(found(FIGURE, &thesis, facts));
        }
        let sum = rate(GPU).zip(rate(CPU)).zip(rate("GPU+Het"));
        let facts = sum.map(|((gpu, cpu), both)| {
            let share = 100.0 * both / (gpu + cpu);
            let facts = format!("it has {both:.2} of {:.2} G tuples/s, {share:.0} %", gpu + cpu);
            (facts, share >= 80.0)
        });
        let thesis = format!("GPU+Het has four fifths of the sum of both processors for workload {workload}");
        lines.push(found(FIGURE, &thesis, facts));
    }
}

fn tuples(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.1";
    // The best rate with the table in device memory, and that of the largest table.
    let fall = |algorithm| {
        let (_, last) = rows.ends(algorithm, "hybrid")?;
        let rates: Vec<f64> = rows.of(algorithm, "device").map(Row::rate).collect();
        let best = crate::runs::range(&rates).1;
        let facts = format!(
            "{best:.2} G tuples/s become {:.4}, {:.1} times less, with {:.0} % of the table on the device",
            last.rate(),
            best / last.rate(),
            100.0 * last.table_share
        );
        rates.first().map(|_| (facts, best / last.rate()))
    };
    let perfect = fall(GPU).map(|(facts, by)| (facts, about(by, (5.0, 5.0))));
    let thesis = "perfect hashing loses four fifths of its rate, 2.5 to 0.5 G tuples/s, beyond device memory";
    lines.push(found(FIGURE, thesis, perfect));
    let linear = fall(LINEAR).map(|(facts, by)| (facts, by >= 400.0));
    let thesis = "linear probing falls 400 times and more beyond device memory";
    lines.push(found(FIGURE, thesis, linear));
    let rival = rows.ends(RADIX, "").zip(rows.ends(GPU, "hybrid"));
    let facts = rival.map(|((_, cpu), (_, gpu))| {
        let facts = format!(
            "it has {:.2} G tuples/s and perfect hashing {:.2} with {} M tuples",
            cpu.rate(),
            gpu.rate(),
            gpu.value
        );
        (facts, cpu.rate() > gpu.rate())
    });
    let thesis = "the CPU's radix join is faster than the device beyond device memory";
    lines.push(found(FIGURE, thesis, facts));
}

#[cfg(test)]
mod tests {
    use super::super::gpu::Phases;
    use super::*;

    fn row(experiment: &'static str, algorithm: &str, table: &str, value: f64, rate: f64) -> Row {
        Row {
            experiment,
            figure: "",
            algorithm: algorithm.to_owned(),
            table: table.to_owned(),
            workload: "A",
            parameter: "parameter",
            value,
            tuples: 1_000_000_000,
            runs: vec![Phases {
                build: 0.7 / rate,
                copy: 0.0,
                probe: 0.3 / rate,
            }],
            device_share: 1.0,
            table_share: 0.5,
            bound: None,
            predicted: None,
        }
    }

    #[test]
    fn verdicts_follow_the_rates() {
        let rows = [
            row("skew", GPU, "device", 0.0, 3.0),
            row("skew", GPU, "device", 1.75, 3.1),
            row("skew", CPU, "host", 0.0, 0.5),
            row("skew", CPU, "host", 1.75, 0.6),
        ];
        let lines = findings(&rows);
        assert_eq!(lines.len(), 4);
        assert!(
            lines[0].ends_with("holds") && lines[0].contains("1.03 times"),
            "{}",
            lines[0]
        );
        assert!(lines[1].contains("was not measured"), "{}", lines[1]);
        assert!(lines[2].contains("does not hold, because 0.50"), "{}", lines[2]);
        let build = findings(&[row("ratio", GPU, "device", 1.0, 2.0)]);
        assert!(build[0].ends_with("it takes 70 % at 1:1: holds"), "{}", build[0]);
    }

    #[test]
    fn predictions_are_compared_with_the_measured_rate() {
        let predicted = Some(Predicted::new(0.5, 3.0, 1.0));
        for (rate, holds) in [(2.0, true), (1.5, false)] {
            let hybrid = Row {
                predicted,
                ..row("hybrid", GPU, "hybrid", 2.0, rate)
            };
            let lines = findings(&[hybrid, row("hybrid", GPU, "host", 2.0, 1.0)]);
            let last = lines.get(1).expect("a line for the predictions");
            assert_eq!(last.ends_with("holds"), holds, "{last}");
            assert!(last.contains("2.00 mean, 1.50 series, 2.00 overlap"), "{last}");
        }
    }
}
