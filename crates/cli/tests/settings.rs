//! Settings that messages and documents name exist.

mod sources;

use std::fs;
use std::path::Path;

use galatea::{EngineSettings, GalateaConfig};
use sources::source_files;

/// The names after `galatea.` in a string, unless that is part of a longer word.
fn named(text: &str) -> Vec<&str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices("galatea.")
        .filter(|(at, _)| !text[..*at].ends_with(|c: char| word(c) || matches!(c, '.' | '/' | '-' | '*')))
        .filter_map(|(at, prefix)| {
            let rest = &text[at + prefix.len()..];
            let end = rest.find(|c: char| !word(c) && c != '.').unwrap_or(rest.len());
            let name = rest[..end].trim_end_matches('.');
            (!name.is_empty()).then_some(name)
        })
        .collect()
}

/// The names of the Python package `galatea`: its public ones, and the extension module.
fn python_names() -> Vec<String> {
    let text = fs::read_to_string("../python/python/galatea/__init__.py").expect("the package");
    let (_, list) = text.split_once("__all__ = [").expect("the public names");
    let (list, _) = list.split_once(']').expect("the end of the list");
    let names = list.split('"').skip(1).step_by(2).map(str::to_owned);
    names.chain(["_galatea".to_owned()]).collect()
}

#[test]
fn every_setting_named_in_text_exists() {
    assert_eq!(
        named("SET galatea.memory_limit, galatea.rs"),
        ["memory_limit", "rs"]
    );
    let mut files = Vec::new();
    for entry in fs::read_dir("..").expect("the crates").flatten() {
        source_files(&entry.path().join("src"), &["rs"], &mut files);
    }
    files.extend(
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| Path::new("../..").join(name)),
    );
    source_files(Path::new("../../docs/src"), &["md"], &mut files);
    assert!(files.len() > 100, "no sources found");
    let python = python_names();
    let mut seen = 0;
    for file in files {
        let text = fs::read_to_string(&file).expect("a source file");
        for name in named(&text) {
            // Nonexistent settings, in tests and examples of the error.
            let example = ["devise", "colour", "min_rows", "x", "d", "NAME"].contains(&name);
            let is_python = python.iter().any(|public| name.split('.').next() == Some(public));
            seen += 1;
            let mut all = GalateaConfig::NAMES.iter().chain(EngineSettings::NAMES);
            let is_namespace = all.any(|setting| setting.starts_with(&format!("{name}.")));
            assert!(
                example
                    || is_python
                    || is_namespace
                    || GalateaConfig::NAMES.contains(&name)
                    || EngineSettings::NAMES.contains(&name),
                "{} names galatea.{name}, which is no setting",
                file.display()
            );
        }
    }
    assert!(seen > 50, "{seen}");
}
