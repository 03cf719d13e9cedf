//! What makes sources pleasant to read, held by tests.

mod sources;

use sources::source_files;
use std::fs;
use std::path::Path;

/// Columns of a comment, as of code (rustfmt.toml).
const WIDTH: usize = 110;

/// Numbers of the lines whose comment is too wide. Tables, drawings and addresses cannot be wrapped.
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
