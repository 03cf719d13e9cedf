//! Measurements of parts of the engine, small on the emulated device: checks the files that they write.

use std::fs;

use crate::support::{galatea, samples};

#[test]
fn link_benchmark_rows_record_machine_and_commit() {
    for (part, experiment) in [("flow", "link"), ("transfer", "rates")] {
        let directory = samples();
        let small = ["--runs", "1", "--emulated", "--commit", "abc", "--out", "rows"];
        let ran = galatea(
            directory.path(),
            &[&["bench", part, "--experiment", experiment][..], &small].concat(),
        );
        assert_eq!(ran.code, 0, "{part}: {}", ran.err);
        let file = directory.path().join(format!("rows/{experiment}.csv"));
        let text = fs::read_to_string(&file).expect("rows");
        let (header, rows) = text.split_once('\n').expect("a header");
        assert!(
            header.ends_with(",runs,seed,machine,commit,date,version"),
            "{header}"
        );
        assert!(!rows.is_empty(), "{part}");
        for row in rows.lines() {
            assert!(row.contains(",1,1,\"emulated device; "), "{row}");
            assert!(row.contains("\",abc,"), "{row}");
        }
    }
}

/// Arguments of small runs that write rows.
const SMALL: [&str; 7] = [
    "--runs",
    "1",
    "--emulated",
    "--commit",
    "0123abc",
    "--out",
    "rows",
];

#[test]
fn figures_of_a_paper_are_reproduced() {
    let directory = samples();
    let figures = [
        "bench",
        "papers",
        "--paper",
        "thesis",
        "--figure",
        "3.17,3.20,4.1",
    ];
    let ran = galatea(directory.path(), &[&figures[..], &SMALL].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    for (name, rows) in [
        ("figure-3.17-ratio", 5),
        ("figure-3.20-cooperation", 12),
        ("figure-4.1-peer_tuples", 40),
    ] {
        let file = directory.path().join(format!("rows/{name}.csv"));
        let text = fs::read_to_string(&file).expect("rows");
        assert_eq!(text.lines().count(), 1 + rows, "{name}");
    }
    // The findings have the form of committed ones, and a later run adds the figures that they lack.
    let findings = directory.path().join("rows/findings.txt");
    let before = fs::read_to_string(&findings).expect("findings");
    assert!(
        before.starts_with(
            "paper thesis\ncommit 0123abc\nfigure 3.17: build-to-probe ratio (joins ratio)\nfigure 3.17: "
        ),
        "{before}"
    );
    let more = ["bench", "papers", "--continue", "--figure", "3.17,3.19"];
    let ran = galatea(directory.path(), &[&more[..], &SMALL].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out
            .contains("figure 3.17: build-to-probe ratio (joins ratio): measured before\n"),
        "{}",
        ran.out
    );
    let after = fs::read_to_string(&findings).expect("findings");
    let added = after.strip_prefix(&before).expect("the earlier findings");
    assert!(
        added.starts_with("paper thesis\ncommit 0123abc\nfigure 3.19: join selectivity (joins match_rate)\n"),
        "{added}"
    );
}

#[test]
fn figures_of_papers_are_listed() {
    let directory = samples();
    let ran = galatea(directory.path(), &["bench", "papers", "--list"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let line = |figure: &str, subject: &str| {
        let found = ran.out.lines().find(|line| {
            line.split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .starts_with(figure)
                && line.contains(subject)
        });
        found
            .unwrap_or_else(|| panic!("no {figure}: {}", ran.out))
            .to_string()
    };
    assert!(line("allocator figure 8", "freeing").ends_with("allocator freeing"));
    assert!(line("conflicts table 1", "Zipf").ends_with("conflicts table-1"));
    assert!(line("xeflow table 2", "tuning").ends_with("flow tuning"));
    assert!(line("thesis figure 3.16", "build side").ends_with("joins build_side"));
    assert!(line("multiqx section 2.3", "without a manager").ends_with("concurrency naive"));
    assert!(line("multiqx figure 2", "utilisation").contains("not built: "));
    for (arguments, message) in [
        (
            &["--paper", "thesis", "--figure", "9.9"][..],
            "no figure 9.9: there are 3.1, 3.2",
        ),
        (
            &["--figure", "9.9"],
            "no figure 9.9: galatea bench papers --list prints all",
        ),
        (&["--continue"], "--out"),
    ] {
        let ran = galatea(directory.path(), &[&["bench", "papers"][..], arguments].concat());
        assert!(ran.code != 0 && ran.err.contains(message), "{}", ran.err);
    }
}

/// Runs a paper on the emulated device. Each file of rows and the headings of the findings exist.
fn reproduce(arguments: &[&str], files: &[&str], headings: &[&str]) {
    let directory = samples();
    let ran = galatea(
        directory.path(),
        &[&["bench", "papers"], arguments, &SMALL].concat(),
    );
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for name in files {
        let file = directory.path().join(format!("rows/{name}.csv"));
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (header, rows) = text.split_once('\n').expect("a header");
        assert!(
            header.ends_with("machine,commit,date,version"),
            "{name}: {header}"
        );
        let commits = rows.lines().filter(|row| row.contains(",0123abc,")).count();
        assert!(commits > 0 && commits == rows.lines().count(), "{name}: {rows}");
    }
    let findings = fs::read_to_string(directory.path().join("rows/findings.txt")).expect("findings");
    for heading in headings {
        assert!(
            findings.contains(&format!("\n{heading}\n")),
            "{heading}: {findings}"
        );
    }
}

#[test]
fn allocator_figures_run_without_a_gpu() {
    let files = [
        "contention",
        "theory",
        "free-share",
        "scaling",
        "sizes",
        "mixed",
        "utilization",
        "hash-join",
    ];
    reproduce(
        &["--paper", "allocator"],
        &files
            .map(|name| format!("allocator-{name}"))
            .each_ref()
            .map(String::as_str),
        &[
            "figure 7: a thread for every free page (allocator drain)",
            "figure 8: number of threads, freeing (allocator freeing)",
        ],
    );
}

#[test]
fn conflict_figures_run_without_a_gpu() {
    reproduce(
        &["--paper", "conflicts"],
        &[
            "conflicts-table-1",
            "conflicts-figure-3",
            "conflicts-figure-8",
            "conflicts-figure-10",
        ],
        &["table 1: conflicts of columns by Zipf's law (conflicts table-1)"],
    );
}

#[test]
fn stream_figures_run_without_a_gpu() {
    reproduce(
        &["--paper", "xeflow", "--figure", "8,10,table 2"],
        &["xeflow-frame-sizes", "xeflow-layers", "xeflow-tuning"],
        &["table 2: time of tuning (flow tuning)"],
    );
}

#[test]
fn kmeans_figures_run_without_a_gpu() {
    reproduce(
        &["--paper", "thesis", "--figure", "5.9,5.16"],
        &["thesis-chapter-5"],
        &["figure 5.16: points in host memory (kmeans chapter-5)"],
    );
}

#[test]
fn concurrency_figures_run_without_a_gpu() {
    reproduce(
        &["--paper", "multiqx"],
        &[
            "multiqx-naive",
            "multiqx-clients",
            "multiqx-raw",
            "multiqx-poisson",
            "multiqx-unmanaged",
        ],
        &["figure 8: Raw: no technique (concurrency raw)"],
    );
}
