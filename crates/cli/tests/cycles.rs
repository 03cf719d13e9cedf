//! No two files of a crate import each other, directly or indirectly, and neither do two modules of a folder:
//! each can be read after those that it uses.
//!
//! A file uses another if a `use` or a path resolves to it, in its code or in a macro. A name that a module
//! only imports or re-exports resolves to the file that defines it. Declaring or re-exporting a child module
//! is not a use. A module that names its own children without a prefix is composed of them, which is not a
//! use either: they may import it. Code for tests is excluded.
//!
//! A module of a folder is a file, or a folder with all files below it. Of two sibling modules, one uses the
//! other if any of its files does, at every level from the root of the crate.

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use sources::source_files;
use syn::buffer::{Cursor, TokenBuffer};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemUse, Macro, UseTree, Visibility};

/// A module's path below its crate: `["pipeline", "bind"]`.
type Module = Vec<String>;

/// A file as a module, with its imports and re-exports.
#[derive(Default)]
struct Source {
    /// Its path below `src`.
    file: String,
    /// The paths that it uses, absolute below the crate.
    uses: Vec<Vec<String>>,
    /// The names that it imports or re-exports, each with its path. A glob import has the name `*`.
    names: Vec<(String, Vec<String>)>,
}

/// A crate's modules that are files.
type Sources = BTreeMap<Module, Source>;

/// The modules that each module uses, each with an example: `file -> path`.
type Edges = BTreeMap<Module, BTreeMap<Module, String>>;

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let mut test = false;
        if attribute.path().is_ident("cfg") {
            // Conditions other than a plain `test` keep the code.
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
            let outside = self.absolute(&path);
            // A re-export is a use unless it is from a child module.
            let used = outside
                .clone()
                .filter(|path| !exported || !path.starts_with(self.module));
            self.source.uses.extend(used);
            // Child modules refer to these imported names without a prefix.
            let from = outside.or_else(|| self.absolute(&local));
            self.source.names.extend(from.map(|from| (shown, from)));
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

    /// Paths in the arguments or the expansion of a macro.
    fn visit_macro(&mut self, item: &'a Macro) {
        let mut tokens = Vec::new();
        add_tokens(TokenBuffer::new2(item.tokens.clone()).begin(), &mut tokens);
        for path in paths_of(&tokens) {
            let absolute = self.absolute(&path).filter(|path| !path.is_empty());
            self.source.uses.extend(absolute);
        }
        visit::visit_macro(self, item);
    }

    /// A visibility restriction is not a use of the module that it names.
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

/// Adds names and punctuation, including those within brackets, and an empty string for all other tokens.
fn add_tokens(mut cursor: Cursor<'_>, tokens: &mut Vec<String>) {
    while !cursor.eof() {
        if let Some((name, rest)) = cursor.ident() {
            tokens.push(name.to_string());
            cursor = rest;
        } else if let Some((sign, rest)) = cursor.punct() {
            tokens.push(sign.as_char().to_string());
            cursor = rest;
        } else if let Some((inside, _, _, rest)) = cursor.any_group() {
            tokens.push(String::new());
            add_tokens(inside, tokens);
            tokens.push(String::new());
            cursor = rest;
        } else if let Some((_, rest)) = cursor.token_tree() {
            tokens.push(String::new());
            cursor = rest;
        }
    }
}

/// Paths that begin at the crate's root or at a sibling module.
fn paths_of(tokens: &[String]) -> Vec<Vec<String>> {
    let begins = |at: usize| {
        let follows = at > 0 && tokens[at - 1] == ":";
        !follows && matches!(tokens[at].as_str(), "crate" | "super" | "self")
    };
    let path = |start: usize| {
        let mut path = vec![tokens[start].clone()];
        let mut rest = &tokens[start + 1..];
        while let [first, second, name, tail @ ..] = rest {
            let continues =
                first == ":" && second == ":" && name.starts_with(|c: char| c.is_alphanumeric() || c == '_');
            if !continues {
                break;
            }
            path.push(name.clone());
            rest = tail;
        }
        path
    };
    let starts = (0..tokens.len()).filter(|at| begins(*at));
    starts.map(path).filter(|path| path.len() > 1).collect()
}

/// The module of a file below `src`.
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
        let mut source = collector.source;
        source.file = path.display().to_string();
        sources.insert(module, source);
    }
    sources
}

/// The file to which `path` resolves, through re-exports.
fn target(sources: &Sources, path: &[String], depth: usize) -> Option<Module> {
    let length = (0..=path.len())
        .rev()
        .find(|length| sources.contains_key(&path[..*length]))?;
    let (module, rest) = path.split_at(length);
    let Some(name) = rest.first().filter(|name| *name != "*" && depth < 8) else {
        return Some(module.to_vec());
    };
    let named = sources[module]
        .names
        .iter()
        .find(|(shown, _)| shown == name)
        .map(|(_, from)| from);
    match named {
        Some(from) => target(sources, from, depth + 1),
        None => Some(module.to_vec()),
    }
}

/// The files that each file uses.
fn file_edges(sources: &Sources) -> Edges {
    let mut edges = Edges::new();
    for (module, source) in sources {
        let used = edges.entry(module.clone()).or_default();
        for path in &source.uses {
            if let Some(target) = target(sources, path, 0).filter(|target| target != module) {
                let example = || format!("{} -> crate::{}", source.file, path.join("::"));
                used.entry(target).or_insert_with(example);
            }
        }
    }
    edges
}

/// The sibling modules that each module of a folder uses. Uses of its parents or children are excluded.
fn folder_edges(files: &Edges) -> Edges {
    let mut edges = Edges::new();
    for (user, used) in files {
        for (used, example) in used {
            let shared = user.iter().zip(used).take_while(|(a, b)| a == b).count();
            if shared < user.len().min(used.len()) {
                let beside = |module: &Module| module[..=shared].to_vec();
                let of_user = edges.entry(beside(user)).or_default();
                of_user.entry(beside(used)).or_insert_with(|| example.clone());
            }
        }
    }
    edges
}

/// Groups of modules that reach each other.
fn cycles(edges: &Edges) -> Vec<Vec<Module>> {
    let reach = |start: &Module| {
        let mut seen = BTreeSet::new();
        let mut todo: Vec<&Module> = edges[start].keys().collect();
        while let Some(next) = todo.pop() {
            if seen.insert(next.clone()) {
                todo.extend(edges.get(next).into_iter().flat_map(BTreeMap::keys));
            }
        }
        seen
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> =
        edges.keys().map(|module| (module, reach(module))).collect();
    let mut found = BTreeSet::new();
    for (module, others) in &reached {
        let returns = |other: &&Module| reached.get(*other).is_some_and(|back| back.contains(*module));
        let group: Vec<Module> = others.iter().filter(returns).cloned().collect();
        if !group.is_empty() {
            found.insert(group);
        }
    }
    found.into_iter().collect()
}

/// Each cycle with its uses, an example for each.
fn report(name: &str, edges: &Edges) -> String {
    let mut report = String::new();
    for cycle in cycles(edges) {
        let names: Vec<String> = cycle.iter().map(|module| module.join("::")).collect();
        report += &format!("{name}: {}\n", names.join(", "));
        for module in &cycle {
            for (used, example) in edges[module].iter().filter(|(used, _)| cycle.contains(used)) {
                report += &format!("    {} -> {}: {example}\n", module.join("::"), used.join("::"));
            }
        }
    }
    report
}

/// The uses of a crate's files.
fn edges_of(root: &Path) -> Edges {
    let mut files = Vec::new();
    source_files(root, &["rs"], &mut files);
    let texts = files.iter().map(|file| {
        let below = file.strip_prefix(root).expect("below src");
        (below, fs::read_to_string(file).expect("a source file"))
    });
    file_edges(&sources(texts))
}

/// The uses of the files of every crate, by the crate's folder.
static CRATES: LazyLock<BTreeMap<String, Edges>> = LazyLock::new(|| {
    let folders = fs::read_dir("..").expect("the crates").flatten();
    folders
        .map(|folder| {
            let name = folder.file_name().to_string_lossy().into_owned();
            (name, edges_of(&folder.path().join("src")))
        })
        .collect()
});

/// Fails with the cycles of any crate, in a view of its files' uses.
fn assert_no_cycles(modules: &str, view: impl Fn(&Edges) -> Edges) {
    let found = CRATES.iter().map(|(name, files)| report(name, &view(files)));
    let found: String = found.collect();
    assert!(found.is_empty(), "{modules} that import each other:\n{found}");
}

#[test]
fn files_of_a_crate_do_not_import_each_other() {
    assert_no_cycles("files", Edges::clone);
}

#[test]
fn modules_of_a_folder_do_not_import_each_other() {
    assert_no_cycles("modules of a folder", folder_edges);
}

/// The levels of the engine's modules in a document: rows `| floor | modules | ...`, each module in
/// backticks.
fn floors(document: &str) -> BTreeMap<String, usize> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let floor: usize = cells.next()?.parse().ok()?;
        let names = cells.next()?.split('`').skip(1).step_by(2);
        Some(names.map(|name| (name.to_string(), floor)).collect::<Vec<_>>())
    };
    document.lines().filter_map(row).flatten().collect()
}

/// Uses of modules that have no level, or no lower one.
fn uses_up(edges: &Edges, floors: &BTreeMap<String, usize>) -> Vec<String> {
    let floor = |module: &Module| floors.get(&module.join("::"));
    let top = edges.iter().filter(|(module, _)| module.len() == 1);
    let uses = top.flat_map(|(user, used)| used.iter().map(move |(used, example)| (user, used, example)));
    let up = uses.filter(|(user, used, _)| match (floor(user), floor(used)) {
        (Some(user), Some(used)) => used >= user,
        _ => true,
    });
    up.map(|(_, _, example)| example.clone()).collect()
}

#[test]
fn engine_modules_import_only_lower_layers() {
    let document = fs::read_to_string("../../ARCHITECTURE.md").expect("the document");
    let floors = floors(&document);
    assert_eq!(
        uses_up(&folder_edges(&CRATES["engine"]), &floors),
        Vec::<String>::new()
    );
    let root = fs::read_to_string("../engine/src/lib.rs").expect("the engine");
    let declared = syn::parse_file(&root).expect("a source file").items;
    let declared = declared.iter().filter_map(|item| match item {
        Item::Mod(module) => Some(module.ident.to_string()),
        _ => None,
    });
    let listed: BTreeSet<String> = floors.into_keys().collect();
    assert_eq!(declared.collect::<BTreeSet<String>>(), listed);
}

#[test]
fn import_of_a_higher_layer_is_detected() {
    let sources = planted([
        ("lib.rs", "mod base; mod run;"),
        ("base.rs", "use crate::run::Run;"),
        ("run.rs", "pub struct Run;"),
    ]);
    let floors = floors("| floor | modules | imports |\n| 1 | `base`, `code` | |\n| 2 | `run` | base |");
    assert_eq!(
        uses_up(&folder_edges(&file_edges(&sources)), &floors),
        ["base.rs -> crate::run::Run"]
    );
}

/// Sources by path and contents.
fn planted<const FILES: usize>(files: [(&str, &str); FILES]) -> Sources {
    sources(files.map(|(path, text)| (Path::new(path), text.to_string())))
}

#[test]
fn cycles_through_reexports_are_detected() {
    let sources = planted([
        ("lib.rs", "mod a; mod b; mod c; pub use a::A;"),
        (
            "a.rs",
            "use crate::b::B; pub struct A; #[cfg(test)] mod tests { use crate::c::C; }",
        ),
        ("b.rs", "pub struct B(crate::A);"),
        ("c.rs", "use super::{A, b::B}; pub struct C;"),
    ]);
    assert_eq!(cycles(&file_edges(&sources)), [[["a"], ["b"]]]);
}

#[test]
fn cycles_through_macros_and_super_are_detected() {
    let sources = planted([
        ("lib.rs", "mod kernel; mod kernels;"),
        (
            "kernel.rs",
            "macro_rules! block { () => { $crate::kernels::BLOCK }; }",
        ),
        (
            "kernels/mod.rs",
            "mod copy; mod fill; use crate::kernel::block; use fill::Fill; const BLOCK: u32 = 1;",
        ),
        ("kernels/copy.rs", "use super::Fill; pub struct Copy;"),
        (
            "kernels/fill.rs",
            "pub struct Fill; fn all() { assert!(super::copy::Copy::is_there([1])); }",
        ),
    ]);
    let found = cycles(&file_edges(&sources));
    let expected = [
        vec![vec!["kernel"], vec!["kernels"]],
        vec![vec!["kernels", "copy"], vec!["kernels", "fill"]],
    ];
    assert_eq!(found, expected);
}

#[test]
fn folder_cycles_without_file_cycles_are_detected() {
    let sources = planted([
        ("lib.rs", "mod run; mod plan; mod base;"),
        ("base.rs", "pub struct Base;"),
        ("run/mod.rs", "mod launch; pub mod rows; pub use rows::Rows;"),
        ("run/launch.rs", "use crate::plan::Plan; use super::rows::Rows;"),
        ("run/rows.rs", "use crate::base::Base; pub struct Rows;"),
        (
            "plan/mod.rs",
            "pub mod cost; pub mod node; pub struct Plan(node::Node);",
        ),
        ("plan/cost.rs", "use crate::run::Rows; use super::Plan;"),
        ("plan/node.rs", "use crate::base::Base; pub struct Node;"),
    ]);
    let files = file_edges(&sources);
    assert_eq!(report("planted", &files), "");
    assert_eq!(
        report("planted", &folder_edges(&files)),
        "planted: plan, run\n    plan -> run: plan/cost.rs -> crate::run::Rows\n    run -> plan: run/launch.rs -> crate::plan::Plan\n"
    );
}

#[test]
fn nested_folder_cycles_are_detected() {
    let sources = planted([
        ("lib.rs", "mod top;"),
        ("top.rs", "mod a; mod b; pub struct Top(a::A);"),
        (
            "top/a.rs",
            "mod deep; pub struct A; pub struct Deeper(super::Top);",
        ),
        ("top/a/deep.rs", "use crate::top::b::B;"),
        ("top/b.rs", "pub struct B(super::a::A);"),
    ]);
    let found = cycles(&folder_edges(&file_edges(&sources)));
    assert_eq!(found, [[["top", "a"], ["top", "b"]]]);
}
