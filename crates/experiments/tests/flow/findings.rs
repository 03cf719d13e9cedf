//! The findings about the paper's figures follow from their rows, whatever the rows are.

use galatea_experiments::flow::{EXPERIMENTS, Load, Row, findings};

const RATE: &str = "input GB/s";

fn row(
    experiment: &'static str,
    method: &str,
    operator: &str,
    bytes: usize,
    metric: &'static str,
    value: f64,
) -> Row {
    Row {
        experiment,
        method: method.to_owned(),
        operator: operator.to_owned(),
        frame_bytes: bytes,
        metric,
        values: vec![value * 0.99, value, value * 1.01],
    }
}

/// Each finding, and whether it holds.
fn verdicts(rows: &[Row]) -> Vec<(String, bool)> {
    let lines = findings(rows);
    let verdict = |line: String| {
        let holds = line.ends_with(": holds");
        assert!(holds || line.contains(": does not hold, because "), "{line}");
        (line, holds)
    };
    lines.into_iter().map(verdict).collect()
}

fn holds(rows: &[Row], words: &str) -> bool {
    let verdicts = verdicts(rows);
    let found: Vec<_> = verdicts.iter().filter(|(line, _)| line.contains(words)).collect();
    assert_eq!(found.len(), 1, "{words}: {verdicts:?}");
    found[0].1
}

fn partition_rows(rates: [f64; 3], estimates: [f64; 3], formula: f64, kernels: f64) -> Vec<Row> {
    let partitions = ["8:24", "16:16", "24:8"];
    let of =
        |method: String, metric, value| row("partitions", &method, "FMA4 and FMA64", 64 << 10, metric, value);
    let mut rows = Vec::new();
    for ((partition, rate), estimate) in partitions.into_iter().zip(rates).zip(estimates) {
        rows.push(of(format!("stream {partition}"), RATE, rate));
        rows.push(of(format!("estimate {partition}"), "bytes a clock", estimate));
    }
    rows.push(of("formula 20:12".to_owned(), RATE, formula));
    rows.push(of("search 16:16".to_owned(), RATE, rates[1]));
    rows.push(of("CKC pinned, two kernels at once".to_owned(), RATE, kernels));
    rows
}

#[test]
fn partition_findings_follow_measured_rates() {
    let rows = partition_rows([10.0, 20.0, 30.0], [1.0, 2.0, 3.0], 29.0, 10.0);
    for words in [
        "best from the worst",
        "two kernels at once",
        "follows",
        "formula 3",
    ] {
        assert!(holds(&rows, words), "{words}");
    }
    // The search chose a partition with two thirds of the best rate.
    assert!(!holds(&rows, "the search"));
    let rows = partition_rows([10.0, 10.01, 10.02], [3.0, 2.0, 1.0], 5.0, 20.0);
    for words in [
        "best from the worst",
        "two kernels at once",
        "follows",
        "formula 3",
    ] {
        assert!(!holds(&rows, words), "{words}");
    }
    assert!(holds(&rows, "the search"));
    // A single run has no spread to compare with.
    let mut once = partition_rows([10.0, 20.0, 30.0], [1.0, 2.0, 3.0], 29.0, 10.0);
    once.iter_mut().for_each(|row| row.values.truncate(1));
    assert!(!holds(&once, "best from the worst"));
    assert!(holds(&once, "formula 3"));
    // A result without measurements does not hold.
    let rows: Vec<Row> = rows
        .into_iter()
        .filter(|row| row.method.starts_with("stream"))
        .collect();
    assert!(verdicts(&rows).iter().all(|(_, holds)| !holds));
}

fn sizes(experiment: &'static str, operator: &str, methods: &[(&str, [f64; 2])]) -> Vec<Row> {
    let sizes = [4 << 10, 64 << 10];
    let rows = methods.iter().flat_map(|(method, values)| {
        let rows = sizes.into_iter().zip(values);
        rows.map(|(bytes, value)| row(experiment, method, operator, bytes, RATE, *value))
    });
    rows.collect()
}

#[test]
fn shape_findings_follow_speedup_by_frame_size() {
    let falling = [
        ("stream", [40.0, 40.0]),
        ("CKC", [1.0, 30.0]),
        ("KoUM", [0.1, 0.2]),
    ];
    for operator in ["matrix product", "stencil"] {
        let rows = sizes("shapes", operator, &falling);
        assert!(holds(&rows, "as frames grow"), "{operator}");
        assert!(holds(&rows, "KoUM at every size"));
    }
    let lost = [("stream", [40.0, 40.0]), ("CKC", [41.0, 41.0])];
    for operator in ["matrix product", "stencil"] {
        let rows = sizes("shapes", operator, &lost);
        assert!(!holds(&rows, "as frames grow"), "{operator}");
        assert!(!holds(&rows, "KoUM"));
    }
    let once: Vec<Row> = sizes("shapes", "stencil", &falling)
        .into_iter()
        .filter(|row| row.frame_bytes == 4096)
        .collect();
    assert!(!holds(&once, "as frames grow"));
}

#[test]
fn every_compute_shape_has_its_finding() {
    for (number, load) in Load::shapes(4096, 1).iter().enumerate() {
        let rows = sizes("shapes", &load.operator.name(), &[("stream", [1.0, 1.0])]);
        let expected = if number < 3 { "falls as" } else { "persists as" };
        assert!(!holds(&rows, expected), "{load:?}");
    }
}

#[test]
fn step_findings_exclude_idle_rounds() {
    let shares = |bytes, [look, compute, publish]: [f64; 3]| {
        ["look %", "compute %", "publish %", "idle %"]
            .into_iter()
            .zip([look, compute, publish, 90.0])
            .map(move |(metric, value)| row("steps", "stream", "double", bytes, metric, value))
    };
    let rows: Vec<Row> = shares(4096, [3.0, 2.0, 4.0])
        .chain(shares(1 << 20, [1.0, 8.0, 1.0]))
        .collect();
    assert!(
        verdicts(&rows).iter().all(|(_, holds)| *holds),
        "{:?}",
        verdicts(&rows)
    );
    let rows: Vec<Row> = shares(4096, [3.0, 8.0, 1.0])
        .chain(shares(1 << 20, [3.0, 4.0, 1.0]))
        .collect();
    assert!(
        verdicts(&rows).iter().all(|(_, holds)| !holds),
        "{:?}",
        verdicts(&rows)
    );
}

#[test]
fn encoding_findings_use_smallest_and_largest_frames() {
    let methods = [
        ("stream", [10.0, 40.0]),
        ("CKC", [1.0, 2.0]),
        ("CKC pinned HQ4", [1.0, 3.0]),
        ("KoUM", [0.1, 0.2]),
        ("CPU of 1 threads", [12.0, 12.0]),
    ];
    let mut rows = sizes("encoding", "RAID-6", &methods);
    assert!(holds(&rows, "the CPU is best"));
    assert!(holds(&rows, "HQ4 and KoUM"));
    assert!(!holds(&rows, "latency"));
    for (method, value) in [
        ("stream", 5.0),
        ("CKC", 10.0),
        ("CKC pinned HQ4", 12.0),
        ("KoUM", 90.0),
    ] {
        rows.push(row(
            "encoding",
            method,
            "RAID-6",
            64 << 10,
            "latency p50 us",
            value,
        ));
    }
    assert!(holds(&rows, "latency"));
    assert!(holds(&rows, "KoUM at every size"));
    rows.retain(|row| !row.method.starts_with("CPU"));
    assert!(!holds(&rows, "the CPU is best"));
}

#[test]
fn other_experiments_have_no_findings() {
    assert!(findings(&[row("link", "copy", "copy", 1, "GB/s", 1.0)]).is_empty());
    assert!(findings(&[]).is_empty());
}

/// Rows of a committed file. Methods may contain commas. Of three values, the median is between the others.
fn committed(file: &str) -> Vec<Row> {
    let path = format!("{}/../../bench/results/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("committed rows");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [
            experiment,
            methods @ ..,
            operator,
            bytes,
            metric,
            median,
            least,
            greatest,
            runs,
        ] = &cells[..]
        else {
            panic!("{file}: {line}")
        };
        let number = |text: &str| text.parse::<f64>().expect("a number");
        let (median, least, greatest) = (number(median), number(least), number(greatest));
        let known = EXPERIMENTS.into_iter().find(|name| name == experiment);
        Row {
            experiment: known.expect("an experiment"),
            method: methods.join(","),
            operator: (*operator).to_string(),
            frame_bytes: bytes.parse().expect("bytes"),
            metric: (*metric).to_string().leak(),
            values: match *runs {
                "1" => vec![median],
                "2" => vec![least, greatest],
                _ => vec![least, median, greatest],
            },
        }
    };
    text.lines().skip(1).map(row).collect()
}

/// The code computes the committed findings from the committed rows.
#[test]
fn committed_findings_are_those_of_committed_rows() {
    let mut missing = Vec::new();
    for (folder, experiments) in [
        (
            "2026-11-23-nvidia-h200/flow-figures",
            &["steps", "partitions", "encoding"][..],
        ),
        ("2026-11-25-nvidia-h200/flow-figures", &["shapes"]),
    ] {
        let path = format!(
            "{}/../../bench/results/{folder}/findings.txt",
            env!("CARGO_MANIFEST_DIR")
        );
        let text = std::fs::read_to_string(path).unwrap_or_default();
        for experiment in experiments {
            let found = findings(&committed(&format!("{folder}/{experiment}.csv")));
            assert!(!found.is_empty(), "{experiment}");
            missing.extend(
                found
                    .into_iter()
                    .filter(|finding| !text.lines().any(|line| line == finding)),
            );
        }
    }
    assert!(missing.is_empty(), "without a line:\n{}", missing.join("\n"));
}
