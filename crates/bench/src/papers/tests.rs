//! The registry is complete, its paths exist, each experiment has a result or a reason, and the page is what
//! the registry and the results generate.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use galatea_experiments::papers::{Experiment, Module};

use super::results::{Measured, Verdict};
use super::{Finding, Paper, Results, Run, chosen, commits_since, entries, page};

const UPDATE: &str = "UPDATE_PAPERS=1 cargo test --workspace --lib papers";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn results() -> Results {
    Results::read(&repository().join("bench/results")).expect("readable results")
}

fn all() -> impl Iterator<Item = &'static super::Entry> {
    Paper::ALL.into_iter().flat_map(entries)
}

/// The page without its ages. Each commit can change these.
fn without_ages(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("Age: "));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a switch of this test alone")]
fn page_is_generated() {
    let path = repository().join("bench/results/papers.md");
    let generated = page(&results(), |commit, paths| {
        commits_since(&repository(), commit, paths)
    });
    if std::env::var("UPDATE_PAPERS").is_ok_and(|value| value == "1") {
        fs::write(path, generated).expect("a writable page");
        return;
    }
    let current = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        without_ages(&current) == without_ages(&generated),
        "{} is out of date, run: {UPDATE}",
        path.display()
    );
}

#[test]
fn every_experiment_has_a_result_or_a_reason() {
    let results = results();
    let problem = |entry: &&super::Entry| match (entry.run, results.of(entry)) {
        (Run::Nothing(reason), None) => reason.is_empty() || entry.pending.is_some(),
        (Run::Nothing(_), Some(_)) => true,
        (_, None) => entry.pending.is_none_or(str::is_empty),
        (_, Some(measured)) => entry.pending.is_some() || measured.findings.is_empty(),
    };
    let problems: Vec<String> = all()
        .filter(problem)
        .map(|entry| format!("{}: {}", entry.paper.name(), entry.heading()))
        .collect();
    assert!(
        problems.is_empty(),
        "neither a result with findings nor a reason, or both:\n{}",
        problems.join("\n")
    );
}

#[test]
fn every_finding_has_a_verdict() {
    let results = results();
    assert!(results.unassigned.is_empty(), "{:#?}", results.unassigned);
    for measured in &results.all {
        let title = measured.entry.title();
        // A note begins with another word. A finding without a verdict begins with its figure.
        let without = measured
            .notes
            .iter()
            .find(|note| note.starts_with(&title) && !note.contains("not measured"));
        assert_eq!(without, None, "{}", measured.folder);
        for finding in &measured.findings {
            // A finding of another figure stands below a heading of its own.
            let number = finding.claim.strip_prefix("figure ");
            let is_own = |number: &str| {
                let after = number.strip_prefix(measured.entry.figure);
                after.is_some_and(|after| !after.starts_with(|next: char| next.is_ascii_digit()))
            };
            assert!(number.is_none_or(is_own), "{title}: {finding:?}");
            let Verdict::Not(because) = &finding.verdict else {
                continue;
            };
            assert!(!because.is_empty(), "{finding:?}");
        }
    }
}

#[test]
fn results_have_rows_and_commits() {
    for Measured {
        entry,
        folder,
        commit,
        rows,
        ..
    } in results().all
    {
        let path = repository().join("bench/results").join(&folder).join(&rows);
        assert!(path.is_file(), "{}: no rows {rows} in {folder}", entry.heading());
        let is_hash = commit.len() >= 7 && commit.chars().all(|digit| digit.is_ascii_hexdigit());
        assert!(is_hash, "{folder}: {}: commit '{commit}'", entry.heading());
    }
}

#[test]
fn paths_of_entries_exist() {
    for entry in all() {
        let runs = !matches!(entry.run, Run::Nothing(_));
        assert_eq!(!entry.paths().is_empty(), runs, "{entry:?}");
        for path in entry.paths() {
            assert!(repository().join(path).exists(), "{path} of {entry:?}");
        }
    }
    for paper in Paper::ALL {
        for file in paper.contribution().1 {
            assert!(repository().join("bench/results").join(file).is_file(), "{file}");
        }
    }
}

#[test]
fn all_figures_of_the_papers_are_listed() {
    let whole = |paper: Paper, numbers: &[String]| {
        for number in numbers {
            let found = entries(paper).any(|entry| entry.figure == number);
            assert!(found, "figure {number} of {} is missing", paper.name());
        }
    };
    let to = |most: u32| (1..=most).map(|number| number.to_string());
    let chapter = |chapter: u32, most: u32| (1..=most).map(move |number| format!("{chapter}.{number}"));
    whole(Paper::Allocator, &to(12).collect::<Vec<_>>());
    whole(
        Paper::Conflicts,
        &to(10).chain(["table 1".to_string()]).collect::<Vec<_>>(),
    );
    whole(
        Paper::Xeflow,
        &to(16).chain(["table 2".to_string()]).collect::<Vec<_>>(),
    );
    let thesis = chapter(3, 20).chain(chapter(4, 25)).chain(chapter(5, 16));
    whole(Paper::Thesis, &thesis.collect::<Vec<_>>());
    let sections = ["section 2.3", "section 7.2"].map(str::to_string);
    whole(Paper::Multiqx, &to(12).chain(sections).collect::<Vec<_>>());
}

#[test]
fn headings_are_unique_and_outcomes_are_stated() {
    let mut seen = BTreeSet::new();
    for entry in all() {
        assert!(seen.insert((entry.paper.name(), entry.heading())), "{entry:?}");
        let is_drawing = matches!(entry.run, Run::Nothing(reason) if reason.contains("drawing"));
        assert_eq!(entry.outcome.is_empty(), is_drawing, "{entry:?}");
    }
}

#[test]
fn experiments_of_modules_are_registered() {
    let registered: Vec<Experiment> = all()
        .filter_map(|entry| match entry.run {
            Run::Experiment(experiment) => {
                let figure = experiment.figure().unwrap_or(entry.figure);
                assert_eq!(figure, entry.figure, "{entry:?}");
                assert!(experiment.module.experiments().contains(&experiment.name));
                Some(experiment)
            }
            _ => None,
        })
        .collect();
    for module in [Module::Joins, Module::Partitioned] {
        for name in module.experiments() {
            assert!(registered.contains(&Experiment { module, name }), "{name}");
        }
    }
}

#[test]
fn figures_are_chosen_by_number() {
    let numbers = ["3.2".to_owned(), "4.1".to_owned()];
    let found = chosen(&[Paper::Thesis], &numbers).expect("known figures");
    let names: Vec<String> = found.iter().map(|entry| entry.experiment()).collect();
    assert_eq!(
        names,
        [
            "transfer cpu",
            "transfer latency",
            "joins tuples",
            "joins peer_tuples"
        ]
    );
    let unknown = ["9.9".to_owned()];
    assert_eq!(chosen(&Paper::ALL, &unknown), Err("9.9"));
    let eight = ["8".to_owned()];
    let papers: BTreeSet<&str> = (chosen(&Paper::ALL, &eight).expect("known figures").iter())
        .map(|entry| entry.paper.name())
        .collect();
    assert_eq!(
        Vec::from_iter(papers),
        ["allocator", "conflicts", "multiqx", "xeflow"]
    );
}

#[test]
fn findings_are_read() {
    let mut results = Results::default();
    let text = "lost\npaper allocator\ncommit 0123abc\nfigure 11: used share of the pool (allocator utilization)\nrows a.csv\n\
                figure 11: all of it; here 99 %: holds\nfigure 11: at once: does not hold, because 3: 4\nsome note\n\
                paper thesis\nfigure 3.17: build-to-probe ratio (joins ratio)\nfigure 3.17: half: holds\n";
    results.add("2026-01-02-a-machine/papers", text);
    assert_eq!(results.unassigned, ["2026-01-02-a-machine/papers: lost"]);
    let [pool, ratio] = &results.all[..] else {
        panic!("two results")
    };
    assert_eq!((pool.date(), pool.machine()), ("2026-01-02", "a-machine"));
    assert_eq!(
        (&*pool.commit, &*pool.rows, pool.notes.len()),
        ("0123abc", "a.csv", 1)
    );
    assert_eq!(
        pool.findings[1],
        Finding {
            claim: "figure 11: at once".to_string(),
            verdict: Verdict::Not("3: 4".to_string())
        }
    );
    assert_eq!(
        (ratio.entry.figure, &*ratio.rows),
        ("3.17", "figure-3.17-ratio.csv")
    );
    let generated = page(&results, |_, _| Some(2));
    for part in [
        "### Figure 11: used share of the pool",
        "- at once: **does not hold, because** 3: 4",
        "- half: **holds**",
        "Age: 2 commits, older than the code.",
    ] {
        assert!(generated.contains(part), "{part}\n{generated}");
    }
}
