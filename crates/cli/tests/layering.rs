//! Checks the structure of the workspace: layers, unsafe code, foreign functions.

mod sources;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use sources::source_files;

/// Crates from bottom to top. A crate may depend on those before it.
const LAYERS: [&str; 20] = [
    "galatea-base",
    "galatea-emulator",
    "galatea-device",
    "galatea-kernels",
    "galatea-layout",
    "galatea-memory",
    "galatea-kmeans",
    "galatea-flow",
    "galatea-parquet",
    "galatea-store",
    "galatea-expression",
    "galatea-codegen",
    "galatea-engine",
    "galatea",
    "galatea-server",
    "galatea-experiments",
    "galatea-bench",
    "galatea-cli",
    "galatea-python",
    "galatea-adbc",
];

/// Crates without unsafe code: everything above the kernels.
const SAFE: [&str; 17] = [
    "galatea-base",
    "galatea-layout",
    "galatea-memory",
    "galatea-kmeans",
    "galatea-flow",
    "galatea-parquet",
    "galatea-store",
    "galatea-expression",
    "galatea-codegen",
    "galatea-engine",
    "galatea",
    "galatea-server",
    "galatea-experiments",
    "galatea-bench",
    "galatea-cli",
    "galatea-python",
    "galatea-adbc",
];

/// The crates that may use the dependencies for foreign functions.
const FOREIGN: [(&str, &[&str]); 3] = [
    ("cudarc", &["galatea-emulator", "galatea-device"]),
    ("libloading", &["galatea-emulator", "galatea-device"]),
    ("libc", &["galatea-emulator", "galatea-device"]),
];

fn workspace() -> Metadata {
    let manifest = Path::new("Cargo.toml");
    let mut command = MetadataCommand::new();
    command
        .manifest_path(manifest)
        .no_deps()
        .other_options(vec!["--offline".to_string()]);
    command.exec().expect("cargo describes this workspace")
}

/// The crates by name.
fn packages(metadata: &Metadata) -> BTreeMap<&str, &Package> {
    metadata
        .packages
        .iter()
        .map(|package| (package.name.as_str(), package))
        .collect()
}

/// Edges from a crate to one of the same or a higher level, of `(crate, dependencies)`.
fn edges_up<'a>(crates: impl IntoIterator<Item = (&'a str, Vec<&'a str>)>) -> Vec<String> {
    let level = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let mut found = Vec::new();
    for (name, dependencies) in crates {
        let own = level(name);
        for dependency in dependencies {
            if level(dependency).is_some_and(|above| own.is_none_or(|own| above >= own)) {
                found.push(format!("{name} -> {dependency}"));
            }
        }
    }
    found
}

#[test]
fn every_crate_has_a_layer() {
    let metadata = workspace();
    let mut names: Vec<_> = packages(&metadata).into_keys().collect();
    let mut layers = LAYERS.to_vec();
    names.sort_unstable();
    layers.sort_unstable();
    assert_eq!(names, layers);
}

#[test]
fn crates_depend_only_on_lower_layers() {
    let metadata = workspace();
    let crates = packages(&metadata).into_iter().map(|(name, package)| {
        (
            name,
            package
                .dependencies
                .iter()
                // A crate may depend on itself for its tests, to enable its own features there.
                .filter(|dependency| {
                    dependency.kind != DependencyKind::Development || dependency.name != package.name.as_str()
                })
                .map(|dependency| dependency.name.as_str())
                .collect(),
        )
    });
    assert_eq!(edges_up(crates), Vec::<String>::new());
}

#[test]
fn dependency_on_a_higher_layer_is_detected() {
    let crates = [
        ("galatea-store", vec!["galatea-device", "galatea-engine"]),
        ("galatea-cli", vec!["galatea-cli"]),
    ];
    assert_eq!(
        edges_up(crates),
        ["galatea-store -> galatea-engine", "galatea-cli -> galatea-cli"]
    );
}

#[test]
fn only_low_level_crates_use_foreign_functions() {
    let metadata = workspace();
    for (name, package) in packages(&metadata) {
        for (foreign, allowed) in FOREIGN {
            let uses = package
                .dependencies
                .iter()
                .any(|dependency| dependency.name == foreign);
            assert!(!uses || allowed.contains(&name), "{name} depends on {foreign}");
        }
    }
}

#[test]
fn crates_above_the_kernels_forbid_unsafe_code() {
    let metadata = workspace();
    let packages = packages(&metadata);
    for name in SAFE {
        let roots = packages[name]
            .targets
            .iter()
            .filter(|target| target.is_lib() || target.is_cdylib() || target.is_bin());
        for root in roots {
            let text = fs::read_to_string(&root.src_path).expect("the crate's root");
            assert!(text.contains("#![forbid(unsafe_code)]"), "{}", root.src_path);
        }
    }
}

/// Files that may be longer than the others. The list shrinks.
const LONG: [(&str, usize); 1] = [("emulator/tests/kernels.rs", 1000)];

#[test]
fn files_stay_readable() {
    const LIMIT: usize = 700;
    let mut files = Vec::new();
    source_files(Path::new(".."), &["rs"], &mut files);
    assert!(files.len() > 30, "no sources found");
    for file in files {
        let lines = fs::read_to_string(&file).expect("a source file").lines().count();
        let limit = LONG
            .iter()
            .find(|(name, _)| file.ends_with(name))
            .map_or(LIMIT, |(_, limit)| *limit);
        assert!(
            lines <= limit,
            "{} has {lines} lines, more than {limit}",
            file.display()
        );
    }
}
