//! Checks the readability of sources and documents.

mod sources;

use sources::source_files;
use std::fs;
use std::path::Path;

/// Maximum columns of a comment, like those of code (rustfmt.toml).
const WIDTH: usize = 110;

/// Numbers of the lines with too wide comments. Tables, drawings and addresses cannot be wrapped.
fn too_wide(text: &str) -> Vec<usize> {
    let mut in_fence = false;
    let mut is_wide = |line: &str| {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            in_fence = false;
            return false;
        };
        let text = comment.trim_start_matches(['/', '!']);
        let comment = text.trim_start();
        in_fence ^= comment.starts_with("```");
        let is_fixed = in_fence
            || text.starts_with("     ")
            || comment.starts_with('|')
            || comment.starts_with('[')
            || comment.contains("://");
        line.chars().count() > WIDTH && comment.contains(' ') && !is_fixed
    };
    let numbered = text.lines().zip(1..);
    numbered
        .filter(|(line, _)| is_wide(line))
        .map(|(_, number)| number)
        .collect()
}

#[test]
fn comments_have_the_width_of_code() {
    let mut files = Vec::new();
    source_files(Path::new(".."), &["rs", "cu", "cuh", "hpp", "h"], &mut files);
    assert!(files.len() > 300, "no sources found");
    let wrapped = files.iter().filter(|file| {
        let name = file.to_string_lossy();
        !name.contains("/target/")
    });
    let mut report = String::new();
    for file in wrapped {
        for line in too_wide(&fs::read_to_string(file).expect("a source file")) {
            report += &format!("{}:{line}\n", file.display());
        }
    }
    assert!(
        report.is_empty(),
        "comments wider than {WIDTH} columns (scripts/reflow-comments wraps them):\n{report}"
    );
}

#[test]
fn wide_comments_are_found() {
    let wide = "words ".repeat(20);
    let text = format!(
        "/// {wide}\nlet x = 1; // short\n    // {wide}\n/// | {wide} |\n// short\n//! {wide}\n/// ```\n/// {wide}\n/// ```"
    );
    assert_eq!(too_wide(&text), [1, 3, 6]);
}

/// A phrase that readers of database code have to decode, and its maximum rate in the tree, per 10,000 words
/// of comments and Markdown. A change may lower a limit, but must not raise it.
struct Marker {
    name: &'static str,
    /// A plainer word.
    instead: &'static str,
    pattern: &'static str,
    limit: f64,
}

const MARKERS: [Marker; 9] = [
    Marker {
        name: "\"what ...\" as a noun",
        instead: "name the thing",
        pattern: r"(?i)\b(?:of|is|for|by|in|to|than|with|and)\s+what\s+(?:it|a|an|the|is|was|they|has|have|had|does|no|one|each|another|follows|others?|runs?|remains?|comes?|became)\b|^(?:what|whatever) [a-z]",
        limit: 0.9,
    },
    Marker {
        name: "so many, so much",
        instead: "n, the limit, the number of rows",
        pattern: r"(?i)\b(?:so|as|how) (?:many|much)\b",
        limit: 2.6,
    },
    Marker {
        name: "is there, are there",
        instead: "exists, is resident, is cached",
        pattern: r"(?i)\b(?:is|are|was|were|be) there\b",
        limit: 0.3,
    },
    Marker {
        name: "as far as, where there is, where no",
        instead: "if, unless",
        pattern: r"(?i)\bas far as\b|\bwhere (?:there (?:is|are)|no)\b",
        limit: 0.3,
    },
    Marker {
        name: "of which, whose",
        instead: "two sentences, or a noun",
        pattern: r"(?i)\b(?:of|by|in|for|from|with|to) which\b|\bwhose\b",
        limit: 8.0,
    },
    Marker {
        name: "things that tell, ask, know",
        instead: "returns, reports, records, checks",
        pattern: r"(?i)\b(?:told|tells?|says?|said|asks?|asked|knows?|known|knew)\b",
        limit: 5.0,
    },
    Marker {
        name: "bring, come, meet, go, stand, lie",
        instead: "transfer, arrive, probe, reside, store",
        pattern: r"(?i)\b(?:brings?|brought|comes?|came|meets?|met|goes|stands?|stood|lies|lay)\b",
        limit: 2.7,
    },
    Marker {
        name: "text for string",
        instead: "string",
        pattern: r"(?i)\btexts?\b",
        limit: 8.0,
    },
    Marker {
        name: "made, making",
        instead: "built, computed, created, encoded",
        pattern: r"(?i)\b(?:made|makes?|making)\b",
        limit: 7.4,
    },
];

/// The lines of prose of a file: comments, or a Markdown file without its code.
fn prose(path: &Path, text: &str) -> Vec<String> {
    if path.extension().is_some_and(|extension| extension == "md") {
        let mut in_fence = false;
        let prose = text.lines().filter(|line| {
            let fence = line.trim_start().starts_with("```");
            in_fence ^= fence;
            !in_fence && !fence
        });
        return prose.map(|line| line.trim().to_owned()).collect();
    }
    let comments = text.lines().filter_map(|line| line.split_once("//"));
    let comments = comments.map(|(_, comment)| comment.trim_start_matches(['/', '!']).trim().to_owned());
    comments.filter(|comment| !comment.contains("http")).collect()
}

fn words(line: &str) -> usize {
    let is_word = |word: &&str| word.chars().any(|c| c.is_ascii_alphabetic());
    line.split(|c: char| !c.is_ascii_alphabetic() && c != '\'')
        .filter(is_word)
        .count()
}

/// The prose of the workspace: its sources and documents, without results of benchmarks.
fn all_prose() -> Vec<String> {
    let mut files = Vec::new();
    source_files(Path::new(".."), &["rs", "cu", "cuh", "h", "md"], &mut files);
    source_files(Path::new("../../docs/src"), &["md"], &mut files);
    let documents = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    files.extend(documents.map(|name| Path::new("../..").join(name)));
    files.retain(|file| !file.ends_with("cli/tests/readability.rs"));
    let prose = files
        .iter()
        .flat_map(|file| prose(file, &fs::read_to_string(file).expect("a file")));
    prose.collect()
}

#[test]
fn prose_markers_stay_below_limits() {
    let lines = all_prose();
    let total: usize = lines.iter().map(|line| words(line)).sum();
    assert!(total > 100_000, "{total} words");
    let mut report = String::new();
    for marker in &MARKERS {
        let pattern = regex::Regex::new(marker.pattern).expect("a pattern");
        let found = lines.iter().filter(|line| pattern.is_match(line)).count();
        let rate = found as f64 * 1e4 / total as f64;
        println!("{:<40} {rate:5.1} of at most {:.1}", marker.name, marker.limit);
        if rate > marker.limit {
            report += &format!(
                "{}: {rate:.1} per 10,000 words, at most {} (instead: {})\n",
                marker.name, marker.limit, marker.instead
            );
        }
    }
    assert!(report.is_empty(), "{report}");
}

#[test]
fn sentences_of_the_readme_are_short() {
    let text = fs::read_to_string("../../README.md").expect("README.md");
    assert!(text.len() <= 8 << 10, "README.md has {} bytes", text.len());
    let prose = prose(Path::new("README.md"), &text);
    let prose = prose.iter().filter(|line| !line.starts_with(['#', '|', '-']));
    let prose = prose.map(String::as_str).collect::<Vec<_>>().join(" ");
    let mut lengths: Vec<usize> = prose
        .split(['.', '?', '!'])
        .map(words)
        .filter(|words| *words > 2)
        .collect();
    lengths.sort_unstable();
    assert!(lengths[lengths.len() / 2] <= 16, "{lengths:?}");
}
