//! No two files of a crate import each other, directly or round about: each can be read after those it uses.
//!
//! A file uses another where a `use` or a path in its code leads to it. A name that a module only re-exports
//! leads to the file that defines it, and declaring or re-exporting a module is no use of it. A module that
//! names its own children without a prefix is composed of them, which is no use either: they may import it.
//! Code for tests does not count.

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use sources::source_files;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, UseTree, Visibility};

/// A module's path below its crate: `["pipeline", "bind"]`.
type Module = Vec<String>;

/// A file as a module, with what it imports and what it passes on.
#[derive(Default)]
struct Source {
    /// Paths it uses, absolute below the crate.
    uses: Vec<Vec<String>>,
    /// Names it re-exports, and the paths they come from; `*` of a module under the name `*`.
    exports: Vec<(String, Vec<String>)>,
}

/// A crate's modules that are files.
type Sources = BTreeMap<Module, Source>;

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let mut test = false;
        if attribute.path().is_ident("cfg") {
            // Other conditions than a plain `test` keep the code.
            let _ = attribute.parse_nested_meta(|meta| {
                test |= meta.path.is_ident("test");
                Ok(())
            });
        }
        test || attribute.path().is_ident("test")
    })
}

/// Collects the paths of one file.
struct Collector<'a> {
    module: &'a [String],
    source: Source,
}

impl Collector<'_> {
    /// A path from the crate's root, if it stays in the crate.
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let mut base = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" | "super" => self.module.to_vec(),
            _ => return None,
        };
        let mut rest = path;
        while let Some((first, tail)) = rest.split_first() {
            match first.as_str() {
                "super" => drop(base.pop()),
                "crate" | "self" => {}
                _ => break,
            }
            rest = tail;
        }
        base.extend(rest.iter().cloned());
        Some(base)
    }

    fn tree(&mut self, tree: &UseTree, prefix: &mut Vec<String>, exported: bool) {
        let mut leaf = |name: String, shown: String, prefix: &[String]| {
            let mut path = prefix.to_vec();
            if name != "self" {
                path.push(name);
            }
            // Names of modules declared here need no `self::`.
            let local = [vec!["self".to_string()], path.clone()].concat();
            let absolute = self
                .absolute(&path)
                .or_else(|| if exported { self.absolute(&local) } else { None });
            if let Some(absolute) = absolute {
                match exported {
                    true => self.source.exports.push((shown, absolute)),
                    false => self.source.uses.push(absolute),
                }
            }
        };
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.tree(&path.tree, prefix, exported);
                prefix.pop();
            }
            UseTree::Name(name) => leaf(name.ident.to_string(), name.ident.to_string(), prefix),
            UseTree::Rename(name) => leaf(name.ident.to_string(), name.rename.to_string(), prefix),
            UseTree::Glob(_) => leaf("*".to_string(), "*".to_string(), prefix),
            UseTree::Group(group) => group
                .items
                .iter()
                .for_each(|item| self.tree(item, prefix, exported)),
        }
    }
}

impl<'a> Visit<'a> for Collector<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        let exported = !matches!(item.vis, Visibility::Inherited);
        self.tree(&item.tree, &mut Vec::new(), exported);
    }

    /// The module that may see an item is not used by it.
    fn visit_visibility(&mut self, _: &'a Visibility) {}

    fn visit_path(&mut self, path: &'a syn::Path) {
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        if let Some(absolute) = self.absolute(&names).filter(|path| !path.is_empty()) {
            self.source.uses.push(absolute);
        }
        visit::visit_path(self, path);
    }
}

/// The module that a file below `src` is.
fn module_of(file: &Path) -> Module {
    let mut parts: Module = file
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

fn sources<'a>(files: impl IntoIterator<Item = (&'a Path, String)>) -> Sources {
    let mut sources = Sources::new();
    for (path, text) in files {
        let module = module_of(path);
        if module.last().is_some_and(|name| name == "tests") || module.iter().any(|name| name == "tests") {
            continue;
        }
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut collector = Collector {
            module: &module,
            source: Source::default(),
        };
        collector.visit_file(&file);
        let source = collector.source;
        sources.insert(module, source);
    }
    sources
}

/// The file that `path` leads to, through re-exports.
fn target(sources: &Sources, path: &[String], depth: usize) -> Option<Module> {
    let length = (0..=path.len())
        .rev()
        .find(|length| sources.contains_key(&path[..*length]))?;
    let (module, rest) = path.split_at(length);
    let Some(name) = rest.first().filter(|name| *name != "*" && depth < 8) else {
        return Some(module.to_vec());
    };
    let exports = &sources[module].exports;
    let named = exports
        .iter()
        .find(|(shown, _)| shown == name)
        .map(|(_, from)| from);
    match named {
        Some(from) => target(sources, from, depth + 1),
        None => Some(module.to_vec()),
    }
}

/// Which files each file uses.
fn edges(sources: &Sources) -> BTreeMap<Module, BTreeSet<Module>> {
    let of = |(module, source): (&Module, &Source)| {
        let used = source.uses.iter().filter_map(|path| target(sources, path, 0));
        (module.clone(), used.filter(|used| used != module).collect())
    };
    sources.iter().map(of).collect()
}

/// Groups of files that reach each other.
fn cycles(edges: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<String>> {
    let reach = |start: &Module| {
        let mut seen = BTreeSet::new();
        let mut todo: Vec<&Module> = edges[start].iter().collect();
        while let Some(next) = todo.pop() {
            if seen.insert(next.clone()) {
                todo.extend(edges.get(next).into_iter().flatten());
            }
        }
        seen
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> =
        edges.keys().map(|module| (module, reach(module))).collect();
    let mut found = BTreeSet::new();
    for (module, others) in &reached {
        let group = others.iter().filter(|other| reached[*other].contains(*module));
        let names: Vec<String> = group.map(|other| other.join("::")).collect();
        if !names.is_empty() {
            found.insert(names);
        }
    }
    found.into_iter().collect()
}

#[test]
fn files_of_a_crate_do_not_import_each_other() {
    let mut report = String::new();
    for entry in fs::read_dir("..").expect("the crates").flatten() {
        let root = entry.path().join("src");
        let mut files = Vec::new();
        source_files(&root, &["rs"], &mut files);
        let texts = files.iter().map(|file| {
            let below = file.strip_prefix(&root).expect("below src");
            (below, fs::read_to_string(file).expect("a source file"))
        });
        let edges = edges(&sources(texts));
        let name = entry.file_name().to_string_lossy().into_owned();
        for cycle in &cycles(&edges) {
            report += &format!("{name}: {}\n", cycle.join(", "));
            for module in cycle {
                let parts = module.split("::").filter(|part| !part.is_empty());
                let used = edges[&parts.map(str::to_string).collect::<Module>()]
                    .iter()
                    .map(|used| used.join("::"));
                let within = used.filter(|used| cycle.contains(used)).collect::<Vec<_>>();
                report += &format!("    {module} -> {}\n", within.join(", "));
            }
        }
    }
    assert!(report.is_empty(), "files that import each other:\n{report}");
}

#[test]
fn cycles_are_found_through_reexports_but_not_in_tests() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; pub use a::A;"),
        (
            "a.rs",
            "use crate::b::B; pub struct A; #[cfg(test)] mod tests { use crate::c::C; }",
        ),
        ("b.rs", "pub struct B(crate::A);"),
        ("c.rs", "use super::{A, b::B}; pub struct C;"),
    ];
    let files = files.map(|(path, text)| (Path::new(path), text.to_string()));
    assert_eq!(cycles(&edges(&sources(files))), [["a", "b"]]);
}
