//! Findings on tables beyond the device's memory, in host memory: figures 3.16 and 4.1.

use super::super::row::Row;
use super::rows::{BY_CHUNK, GPU, LINEAR, ON_DEVICE, RADIX, Rows, about, found, times};

const FIGURE: &str = "figure 3.16";

/// Whether predictions are within a tenth of the rates of tables in both memories, and which is the closest.
pub(super) fn predictions(figure: &str, rows: &Rows<'_>, lines: &mut Vec<String>) {
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

pub(super) fn build_side(rows: &Rows<'_>, lines: &mut Vec<String>) {
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
pub(super) fn hybrid(rows: &Rows<'_>, lines: &mut Vec<String>) {
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
    goal(FIGURE, "the host", rows, lines);
    let series = rows
        .0
        .iter()
        .filter_map(|row| Some(row.rate() / row.predicted?.series));
    let series: Vec<f64> = series.collect();
    let facts = (!series.is_empty()).then(|| {
        let (least, greatest) = crate::runs::range(&series);
        let facts = format!("measured rates are {least:.2} to {greatest:.2} times those of the model");
        (facts, least >= 0.9 && greatest <= 1.1)
    });
    let model = "(ours) with relations in host memory, accesses to both memories take turns: 1 / (A / G + (1 - A) / C)";
    lines.push(found(FIGURE, model, facts));
}

/// Tables by the share of their pages on the device, by the memory of the relations.
pub(super) fn shares(rows: &Rows<'_>, lines: &mut Vec<String>) {
    for (algorithm, relations) in [
        (BY_CHUNK, "copied by chunk"),
        (ON_DEVICE, "on the device"),
        (GPU, "read in host memory"),
    ] {
        let rows = Rows(rows.of(algorithm, "").collect());
        goal(
            FIGURE,
            &format!("the host, and relations {relations},"),
            &rows,
            lines,
        );
    }
}

/// The goal: a hybrid table has the rate that overlapping accesses allow, to a tenth, at every share.
pub(super) fn goal(figure: &str, second: &str, rows: &Rows<'_>, lines: &mut Vec<String>) {
    let mut facts = Vec::new();
    let mut holds = true;
    for row in &rows.0 {
        let Some(predicted) = row.predicted else {
            continue;
        };
        let ratio = row.rate() / predicted.overlap;
        holds &= (0.9..=1.1).contains(&ratio);
        facts.push(format!(
            "{ratio:.2} times it with {:.0} % on the device ({}, {} {}; {:.2} times the model of accesses in series)",
            100.0 * row.table_share,
            row.table,
            row.parameter,
            row.value,
            row.rate() / predicted.series
        ));
    }
    let facts = (!facts.is_empty()).then(|| (format!("it has {}", facts.join("; ")), holds));
    let goal = format!(
        "(goal) with {second} as second memory, a hybrid table has min(G / A, C / (1 - A)), to a tenth, at every share"
    );
    lines.push(found(figure, &goal, facts));
}

pub(super) fn tuples(rows: &Rows<'_>, lines: &mut Vec<String>) {
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
