//! The page `bench/results/papers.md`: each figure with its command, the paper's result, the findings here,
//! and the age of the result.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::entry::{Entry, Paper, Run};
use super::registry::entries;
use super::results::{Finding, Measured, Results, Verdict};

/// The page. `age` returns the number of commits since a commit that touch the paths, if it is in the
/// repository. Lines that begin with `Age: ` are the only ones that depend on it.
pub fn page(results: &Results, age: impl Fn(&str, &[&str]) -> Option<usize>) -> String {
    let mut text = String::from("# Published results and ours\n\n");
    for paper in Paper::ALL {
        let (effect, files) = paper.contribution();
        let files: Vec<String> = files.iter().map(|file| format!("`{file}`")).collect();
        // Writing to a String does not fail.
        let _ = writeln!(text, "- **{}**: {effect} ({})", paper.name(), files.join(", "));
    }
    text += "\nThis page is generated from `crates/bench/src/papers/registry/` and the files `findings.txt` below this folder:\n\
             `UPDATE_PAPERS=1 cargo test --workspace --lib papers`. A result is older than the code if commits after it touched the\n\
             sources of its experiment.\n";
    for paper in Paper::ALL {
        section(&mut text, paper, results, &age);
    }
    text
}

/// The figures of a paper, and then those without a result.
fn section(
    text: &mut String,
    paper: Paper,
    results: &Results,
    age: &impl Fn(&str, &[&str]) -> Option<usize>,
) {
    let measured: Vec<&Measured> = entries(paper).filter_map(|entry| results.of(entry)).collect();
    let findings = measured.iter().flat_map(|measured| &measured.findings);
    let holding = findings
        .clone()
        .filter(|finding| finding.verdict == Verdict::Holds);
    let (all, holding) = (findings.clone().count(), holding.count());
    let _ = writeln!(
        text,
        "\n## {}: {}\n\n{} experiments with results, {all} findings, {holding} hold.",
        paper.name(),
        paper.title(),
        measured.len(),
    );
    for measured in measured {
        let entry = measured.entry;
        let commits = age(&measured.commit, entry.paths());
        experiment(text, measured, commits);
    }
    let missing: Vec<&Entry> = entries(paper)
        .filter(|entry| results.of(entry).is_none())
        .collect();
    if missing.is_empty() {
        return;
    }
    *text += "\n### Without a result\n\n| | subject | reason |\n| --- | --- | --- |\n";
    for entry in missing {
        let reason = match entry.run {
            Run::Nothing(reason) => reason.to_string(),
            _ => {
                let reason = entry.pending.unwrap_or("");
                format!("not measured: {reason} (`{}`)", entry.command())
            }
        };
        let _ = writeln!(text, "| {} | {} | {reason} |", entry.title(), entry.subject);
    }
}

fn experiment(text: &mut String, measured: &Measured, age: Option<usize>) {
    let entry = measured.entry;
    let title = entry.title();
    let _ = writeln!(
        text,
        "\n### {}{}: {}\n\nThe paper: {}.\n\n`{}` at {}, {}, {}: `{}/{}`.\n\nAge: {}",
        title[..1].to_uppercase(),
        &title[1..],
        entry.subject,
        entry.outcome,
        entry.command(),
        measured.commit,
        measured.date(),
        measured.machine(),
        measured.folder,
        measured.rows,
        match age {
            None => "not in the repository.".to_string(),
            Some(0) => "as old as the code.".to_string(),
            Some(1) => "1 commit, older than the code.".to_string(),
            Some(commits) => format!("{commits} commits, older than the code."),
        }
    );
    *text += "\n";
    for Finding { claim, verdict } in &measured.findings {
        let claim = claim.strip_prefix(&format!("{title}: ")).unwrap_or(claim);
        let _ = match verdict {
            Verdict::Holds => writeln!(text, "- {claim}: **holds**"),
            Verdict::Not(because) => writeln!(text, "- {claim}: **does not hold, because** {because}"),
        };
    }
    for note in &measured.notes {
        let _ = writeln!(text, "- {note}");
    }
}

/// The number of commits since `commit` that touch paths of a repository; `None` if the commit is unknown
/// there, as in a clone without history.
pub fn commits_since(repository: &Path, commit: &str, paths: &[&str]) -> Option<usize> {
    let commit = commit.trim_end_matches("-dirty");
    let counted = Command::new("git")
        .current_dir(repository)
        .args(["rev-list", "--count", &format!("{commit}..HEAD"), "--"])
        .args(paths)
        .output()
        .ok()?;
    let text = counted.status.success().then_some(counted.stdout)?;
    String::from_utf8(text).ok()?.trim().parse().ok()
}
