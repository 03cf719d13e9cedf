//! Compares the lists in Rust with the folders: both must have the same entries.

use std::collections::BTreeSet;
use std::path::Path;

use galatea_kernels::{HEADERS, KERNELS};

/// Files under a folder of `cuda`, relative to `cuda`.
fn files(folder: &str) -> BTreeSet<String> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    // Tests run in the folder of their package.
    let root = Path::new("cuda");
    let mut found = BTreeSet::new();
    walk(root, &root.join(folder), &mut found);
    found
}

#[test]
fn every_header_is_embedded() {
    let listed: BTreeSet<String> = HEADERS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(listed.len(), HEADERS.len(), "a header is listed twice");
    assert_eq!(listed, files("galatea"));
}

#[test]
fn every_kernel_is_listed() {
    let listed: BTreeSet<String> = KERNELS
        .iter()
        .map(|kernel| format!("kernels/{}.cu", kernel.name))
        .collect();
    assert_eq!(listed.len(), KERNELS.len(), "a kernel is listed twice");
    assert_eq!(listed, files("kernels"));
}

#[test]
fn every_argument_header_belongs_to_a_kernel() {
    let listed: BTreeSet<String> = KERNELS
        .iter()
        .map(|kernel| kernel.layout.header.to_owned())
        .collect();
    assert_eq!(listed, files("galatea/args"));
}

#[test]
fn prelude_has_no_includes() {
    let (_, prelude) = HEADERS
        .iter()
        .find(|(name, _)| *name == "galatea/prelude.cuh")
        .unwrap();
    assert!(!prelude.contains("#include"));
}

#[test]
fn headers_include_only_galatea_headers() {
    for (name, text) in HEADERS {
        for line in text
            .lines()
            .filter(|line| line.trim_start().starts_with("#include"))
        {
            let included = line.split('"').nth(1).unwrap_or_else(|| panic!("{name}: {line}"));
            assert!(
                HEADERS.iter().any(|(known, _)| *known == included),
                "{name}: {line}"
            );
        }
    }
}
