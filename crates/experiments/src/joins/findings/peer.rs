//! Findings with the memory of another device in the CPU's place: figures 3.16, 3.18 and 4.1.

use super::super::row::Row;
use super::rows::{ON_DEVICE, ON_PEER, PEER_BY_CHUNK, Rows, about, found, gain_by_skew, loss, times};
use super::tables::{goal, predictions};

const OTHER: &str = "other device";
const FIRST: &str = "two devices";
const INTERLEAVED: &str = "two devices interleaved";
const LINEAR_ON_PEER: &str = "GPU linear probing (columns on the other device)";
const LINEAR_ON_DEVICE: &str = "GPU linear probing (columns on the device)";

/// The algorithm, and the memory of its relations.
const RELATIONS: [(&str, &str); 2] = [
    (ON_PEER, "relations in the memory of the other device"),
    (ON_DEVICE, "relations on the device"),
];

pub(super) fn build_side(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.16, two devices";
    for (algorithm, relations) in RELATIONS {
        let both = rows.ends(algorithm, "device").zip(rows.ends(algorithm, OTHER));
        let facts = both.map(|((device, _), (_, other))| {
            let lost = loss(other.rate(), device.rate());
            let facts = format!(
                "{:.2} G tuples/s within the budget become {:.2} with a table of {} budgets behind the link, a loss of {lost:.0} %",
                device.rate(),
                other.rate(),
                other.value
            );
            (facts, (lost - 85.0).abs() <= 5.0)
        });
        let thesis = format!("({relations}) over NVLink 2.0 a table behind the link loses 85 % of the rate");
        lines.push(found(FIGURE, &thesis, facts));
        for table in [FIRST, INTERLEAVED] {
            let ratios = rows.ratios((algorithm, table), (algorithm, OTHER), |value| value > 1.0);
            let facts = times("it has", ratios, (1.0, 3.0));
            let thesis =
                format!("({relations}) a table on {table} has 1 to 3 times the rate of one behind the link");
            lines.push(found(FIGURE, &thesis, facts));
        }
        let rows = Rows(rows.of(algorithm, "").collect());
        goal(FIGURE, &format!("another device, and {relations},"), &rows, lines);
    }
}

pub(super) fn shares(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.16, two devices";
    for (algorithm, relations) in [
        (PEER_BY_CHUNK, "relations copied by chunk"),
        (ON_DEVICE, "relations on the device"),
        (ON_PEER, "relations read in the memory of the other device"),
    ] {
        let rows = Rows(rows.of(algorithm, "").collect());
        goal(FIGURE, &format!("another device, and {relations},"), &rows, lines);
    }
}

pub(super) fn skew(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 3.18, two devices";
    for (algorithm, relations) in RELATIONS {
        for (table, thesis, range) in [
            (
                "device",
                "skew has no effect with the table on the device",
                (1.0, 1.0),
            ),
            (
                OTHER,
                "skew raises the rate 4.4 times over NVLink 2.0 with the table behind the link",
                (4.4, 4.4),
            ),
        ] {
            let facts = gain_by_skew(rows, (algorithm, table), range);
            lines.push(found(FIGURE, &format!("({relations}) {thesis}"), facts));
        }
        let rows = Rows(rows.of(algorithm, "").collect());
        predictions(&format!("{FIGURE}, {relations}"), &rows, lines);
    }
}

/// The best rate with the table on the device, and that of the largest table in a memory.
fn fall<'a>(
    rows: &Rows<'a>,
    (algorithm, on_device): (&'a str, &'a str),
    table: &'a str,
) -> Option<(String, f64, &'a Row)> {
    let (_, last) = rows.ends(algorithm, table)?;
    let within: Vec<f64> = rows.of(on_device, "device").map(Row::rate).collect();
    let best = crate::runs::range(&within).1;
    let by = best / last.rate();
    let facts = format!(
        "{best:.2} G tuples/s become {:.3}, {by:.1} times less, with {} M tuples and {:.0} % of the table on the device",
        last.rate(),
        last.value,
        100.0 * last.table_share
    );
    within.first().map(|_| (facts, by, last))
}

pub(super) fn tuples(rows: &Rows<'_>, lines: &mut Vec<String>) {
    const FIGURE: &str = "figure 4.1, two devices";
    for table in [FIRST, INTERLEAVED] {
        let perfect = fall(rows, (ON_PEER, ON_PEER), table);
        let facts = perfect
            .as_ref()
            .map(|(facts, by, _)| (facts.clone(), about(*by, (5.0, 5.0))));
        let thesis = format!(
            "({table}) perfect hashing loses four fifths of its rate, 2.5 to 0.5 G tuples/s, beyond device memory"
        );
        lines.push(found(FIGURE, &thesis, facts));
        let linear = fall(rows, (LINEAR_ON_PEER, LINEAR_ON_PEER), table);
        let facts = linear
            .as_ref()
            .map(|(facts, by, _)| (facts.clone(), *by >= 400.0));
        let thesis = format!("({table}) linear probing falls 400 times and more beyond device memory");
        lines.push(found(FIGURE, &thesis, facts));
        let facts = perfect.zip(linear).map(|((_, _, perfect), (_, _, linear))| {
            let by = perfect.rate() / linear.rate();
            let facts = format!(
                "perfect hashing has {:.2} G tuples/s and linear probing {:.2}, {by:.1} times less",
                perfect.rate(),
                linear.rate()
            );
            (facts, by >= 360.0)
        });
        let thesis = format!("({table}) perfect hashing is up to 400 times faster than linear probing");
        lines.push(found(FIGURE, &thesis, facts));
    }
    // The build alone, without relations on the link: stores, and atomic operations.
    for (algorithm, operation) in [(ON_DEVICE, "stores"), (LINEAR_ON_DEVICE, "atomic operations")] {
        let facts = rows.ends(algorithm, OTHER).zip(rows.ends(algorithm, "device"));
        let facts = facts.map(|((_, other), (_, device))| {
            let build = |row: &Row| row.tuples as f64 / 2.0 / row.phase(|phases| phases.build) / 1e9;
            let (own, across) = (build(device), build(other));
            let facts = format!(
                "the build has {across:.2} G rows/s across the link with {} M tuples, and {own:.2} in device memory with {} M",
                other.value, device.value
            );
            (facts, across >= own / 10.0)
        });
        let ours =
            format!("(ours) {operation} across the link have a tenth or more of the rate in device memory");
        lines.push(found(FIGURE, &ours, facts));
    }
}
