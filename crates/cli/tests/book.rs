//! The book (`docs/`): its reference pages are generated from the code, its screens are executed, and the
//! paths and tests that it names exist.
//!
//! `UPDATE_BOOK=1 cargo test --workspace --test book` writes the reference pages, `TRYCMD=overwrite` with the
//! same command the screens.

mod sources;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use galatea::{EngineSettings, GalateaConfig, SettingReference};
use quote::ToTokens;
use sources::source_files;
use syn::{Attribute, Expr, Item, ItemEnum, Lit, Meta};

const ROOT: &str = "../..";
const REFERENCE: &str = "../../docs/src/reference";
const UPDATE: &str = "UPDATE_BOOK=1 cargo test --workspace --test book";

/// Compares a page with its expected contents, or writes it.
#[expect(clippy::disallowed_methods, reason = "a switch of these tests alone")]
fn check_page(name: &str, expected: &str) {
    let path = Path::new(REFERENCE).join(name);
    if std::env::var("UPDATE_BOOK").is_ok_and(|value| value == "1") {
        fs::create_dir_all(REFERENCE).expect("a writable folder");
        fs::write(path, expected).expect("a writable page");
        return;
    }
    let page = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == expected,
        "{} is out of date, run: {UPDATE}",
        path.display()
    );
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// A table of settings. `scope` is the statement that changes them.
fn settings_table<'s>(settings: impl Iterator<Item = (&'s SettingReference, &'static str)>) -> String {
    let mut table = String::from(
        "| setting | default | accepts | changed by | meaning |\n| --- | --- | --- | --- | --- |\n",
    );
    for (setting, scope) in settings {
        writeln!(
            table,
            "| `{}` | `{}` | {} | `{scope}` | {} |",
            setting.name,
            setting.default,
            cell(&setting.accepts),
            cell(setting.help)
        )
        .expect("writing to a string");
    }
    table
}

/// The namespaces of settings for users, with their headings. The others are for experiments.
const NAMESPACES: [(&str, &str); 6] = [
    ("", "General"),
    ("memory", "Memory and admission"),
    ("cache", "Caches"),
    ("join", "Joins"),
    ("aggregate", "Aggregation"),
    ("stream", "Streams"),
];

#[test]
fn settings_reference_is_up_to_date() {
    let session = GalateaConfig::reference();
    let engine = EngineSettings::reference();
    let all: Vec<_> = (session.iter().map(|setting| (setting, "SET")))
        .chain(engine.iter().map(|setting| (setting, "ALTER SYSTEM SET")))
        .collect();
    let namespace = |setting: &SettingReference| {
        let name = setting.name.strip_prefix("galatea.").expect("the prefix");
        name.split_once('.')
            .map_or("", |(namespace, _)| namespace)
            .to_owned()
    };
    let of = |wanted: &[&str]| {
        let found = all
            .iter()
            .filter(|(setting, _)| wanted.contains(&namespace(setting).as_str()));
        settings_table(found.copied())
    };
    let mut page = String::from(
        "# Settings\n\n\
         Galatea's settings are DataFusion settings with the prefix `galatea.`: `SET galatea.device = 'cpu'`, `SHOW galatea.device`, \
         `--set galatea.device=cpu`, `SessionBuilder::with_setting`.\n\
         The value `default` restores the default. Unknown names and values are errors.\n\n\
         Settings of the engine hold for all of its sessions. `ALTER SYSTEM SET galatea.memory.gpu_limit = '8 GiB'` changes one and returns \
         the number of sessions; `ALTER SYSTEM RESET` restores the default.\n\
         `--set` and `SessionBuilder::with_setting` give the session an engine of its own.\n",
    );
    let mut listed = Vec::new();
    for (namespace, heading) in NAMESPACES {
        write!(page, "\n## {heading}\n\n{}", of(&[namespace])).expect("writing to a string");
        listed.push(namespace);
    }
    let rest: BTreeSet<String> = all.iter().map(|(setting, _)| namespace(setting)).collect();
    let rest: Vec<&str> = rest
        .iter()
        .map(String::as_str)
        .filter(|namespace| !listed.contains(namespace))
        .collect();
    assert_eq!(rest, ["debug", "tuning"]);
    write!(
        page,
        "\n## Tuning and debugging\n\nExperiments and tests change these. The defaults suit all workloads that were measured.\n\n{}",
        of(&["tuning", "debug"])
    )
    .expect("writing to a string");
    page += "\n## Environment variables\n\n\
        All are optional. `GALATEA_CACHE_DIR` is the folder of compiled kernels, calibrations and the demo's data. \
        `GALATEA_NVRTC_PATH` is the first path that is searched for NVRTC.\n\
        `GALATEA_PAGER` is the pager of the prompt. `RUST_LOG=galatea=debug` writes a log to standard error.\n\n\
        The cache folder belongs to its user alone. If other users may write it, kernels are compiled in each process. Compiled kernels take at most 512 MiB.\n";
    check_page("settings.md", &page);
}

/// The output of `galatea` with these arguments.
fn galatea(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_galatea"))
        .args(arguments)
        .env("COLUMNS", "110")
        .output()
        .expect("the command runs");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout)
        .expect("UTF-8")
        .trim_end()
        .to_owned()
}

#[test]
fn commands_reference_matches_help() {
    let help = galatea(&["--help"]);
    let commands = help.split("\nCommands:\n").nth(1).expect("a list of commands");
    let commands = commands.lines().take_while(|line| !line.trim().is_empty());
    let names = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"demo") && !names.contains(&"bench"), "{names:?}");
    let mut page = format!("# Commands\n\n```text\n{help}\n```\n");
    for name in names.into_iter().filter(|name| *name != "help").chain(["bench"]) {
        let help = galatea(&[name, "--help"]);
        write!(page, "\n## galatea {name}\n\n```text\n{help}\n```\n").expect("writing to a string");
    }
    check_page("commands.md", &page);
}

#[test]
fn metrics_reference_matches_the_code() {
    let source = fs::read_to_string("../engine/src/metrics.rs").expect("the metrics");
    let rows = source.lines().filter_map(|line| line.strip_prefix("//! |"));
    let rows: Vec<String> = rows.map(|row| format!("|{row}")).collect();
    for name in source.lines().filter_map(|line| line.split("\"galatea_").nth(1)) {
        let name = format!("| `galatea_{}` |", name.split('"').next().expect("a quote"));
        assert!(rows.iter().any(|row| row.starts_with(&name)), "{name}");
    }
    let server = fs::read_to_string("../server/src/metrics.rs").expect("the metrics of the server");
    for name in server.lines().filter_map(|line| line.split("\"galatea_").nth(1)) {
        let name = format!("//! | `galatea_{}` |", name.split('"').next().expect("a quote"));
        assert!(server.contains(&name), "{name}");
    }
    let server: Vec<&str> = server
        .lines()
        .filter_map(|line| line.strip_prefix("//! "))
        .collect();
    let server: Vec<&str> = server.into_iter().filter(|line| line.starts_with('|')).collect();
    let page = format!(
        "# Metrics\n\n\
         The engine records metrics of the crate `metrics`. A program that installs a recorder exports them, and `galatea::metrics::describe()` \
         registers their units and meanings. Without a recorder, recording does nothing.\n\n{}\n\n\
         Values of the device are recorded when a pipeline ends. Each end of a pipeline is also an event of `tracing` with the target \
         `galatea::pipeline`.\n\n## Server\n\n\
         `galatea serve --http ADDRESS` exports these and the metrics of its engine at `/metrics`.\n\n{}\n",
        rows.join("\n"),
        server.join("\n")
    );
    check_page("metrics.md", &page);
}

/// The contents of the doc comments.
fn docs(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    let lines: Vec<String> = lines.collect();
    let first = lines.iter().take_while(|line| !line.is_empty());
    first.cloned().collect::<Vec<_>>().join(" ")
}

/// The message of a variant, with its placeholders.
fn message(attributes: &[Attribute]) -> Option<String> {
    let error = attributes
        .iter()
        .find(|attribute| attribute.path().is_ident("error"))?;
    let tokens = error.meta.require_list().ok()?.tokens.clone();
    let text = tokens.into_iter().next()?.to_token_stream();
    match syn::parse2::<Lit>(text) {
        Ok(Lit::Str(text)) => Some(text.value()),
        _ => Some("the message of the cause".to_owned()),
    }
}

#[test]
fn errors_reference_matches_the_code() {
    let mut page = String::from(
        "# Errors\n\n\
         Exit codes of `galatea`: 0 success, 1 an error, 2 wrong arguments, 130 cancelled.\n\n\
         An error shows the place in the statement, or the file and line of a script. The typed errors of the crates follow, with their \
         messages. Names in braces stand for values. A program downcasts `DataFusionError::External` to these types.\n",
    );
    let mut files = Vec::new();
    source_files(Path::new(".."), &["rs"], &mut files);
    files.retain(|file| {
        !["tests", "bench", "experiments", "emulator"]
            .iter()
            .any(|part| file.components().any(|component| component.as_os_str() == *part))
    });
    files.sort();
    for file in files {
        let source = syn::parse_file(&fs::read_to_string(&file).expect("a source file")).expect("Rust");
        let errors = source.items.iter().filter_map(|item| match item {
            Item::Enum(item) if is_public_error(item) => Some(item),
            _ => None,
        });
        for error in errors {
            let name = file
                .components()
                .nth(1)
                .expect("a crate")
                .as_os_str()
                .to_string_lossy();
            write!(
                page,
                "\n## {}\n\n{} (`crates/{name}`)\n\n",
                error.ident,
                docs(&error.attrs)
            )
            .expect("a string");
            page += "| error | message | meaning |\n| --- | --- | --- |\n";
            for variant in &error.variants {
                let message = message(&variant.attrs).unwrap_or_default();
                writeln!(
                    page,
                    "| `{}` | {} | {} |",
                    variant.ident,
                    cell(&message).replace('<', "\\<"),
                    cell(&docs(&variant.attrs))
                )
                .expect("writing to a string");
            }
        }
    }
    assert!(page.matches("\n## ").count() > 6, "{page}");
    check_page("errors.md", &page);
}

fn is_public_error(item: &ItemEnum) -> bool {
    let derives = item
        .attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("derive"));
    let mut derives = derives.map(|attribute| attribute.meta.to_token_stream().to_string());
    matches!(item.vis, syn::Visibility::Public(_)) && derives.any(|derive| derive.contains("Error"))
}

#[test]
fn sql_reference_lists_every_refused_clause() {
    let path = "../galatea/src/sql/clauses.rs";
    let source = syn::parse_file(&fs::read_to_string(path).expect("the clauses")).expect("Rust");
    let mut clauses = Vec::new();
    for item in &source.items {
        let Item::Const(item) = item else { continue };
        let Expr::Array(array) = item.expr.as_ref() else {
            continue;
        };
        for clause in &array.elems {
            let Expr::Tuple(clause) = clause else { continue };
            let Some(Expr::Lit(name)) = clause.elems.first() else {
                continue;
            };
            let Lit::Str(name) = &name.lit else { continue };
            clauses.push(name.value().trim_end_matches(',').to_owned());
        }
    }
    assert!(clauses.len() > 40, "{clauses:?}");
    let page = Path::new(REFERENCE).join("sql.md");
    let page = fs::read_to_string(page).expect("the page");
    let (begin, end) = ("<!-- clauses: begin (generated) -->\n", "<!-- clauses: end -->");
    let start = page.find(begin).expect("the list's begin") + begin.len();
    let stop = page.find(end).expect("the list's end");
    let mut list = String::new();
    for clause in clauses {
        writeln!(list, "- {}", clause.replace('*', "\\*")).expect("writing to a string");
    }
    check_page("sql.md", &format!("{}{list}{}", &page[..start], &page[stop..]));
}

/// All pages, and the documents outside of the book.
fn documents() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    source_files(&Path::new(ROOT).join("docs/src"), &["md"], &mut pages);
    pages.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| Path::new(ROOT).join(name)));
    pages.sort();
    pages
}

/// The strings in single backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !line.starts_with("```"))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[test]
fn files_named_in_documents_exist() {
    let mut files = Vec::new();
    for folder in ["crates", "docs", "bench", "scripts", "examples"] {
        let extensions = ["rs", "cu", "cuh", "h", "md", "sql", "csv", "svg"];
        source_files(&Path::new(ROOT).join(folder), &extensions, &mut files);
    }
    let files: Vec<String> = files
        .iter()
        .map(|file| file.to_string_lossy().into_owned())
        .collect();
    let is_path = |name: &&str| {
        let plain = name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "/_.-".contains(c));
        let has_extension = [".rs", ".cu", ".cuh", ".h", ".csv"]
            .iter()
            .any(|end| name.ends_with(end));
        plain && has_extension && name.contains('/') && !name.contains("NAME")
    };
    let mut missing = Vec::new();
    for page in documents() {
        let text = fs::read_to_string(&page).expect("a page");
        for name in quoted(&text).filter(is_path) {
            if !files.iter().any(|file| file.ends_with(&format!("/{name}"))) {
                missing.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn tests_named_in_documents_exist() {
    let mut files = Vec::new();
    source_files(&Path::new(ROOT).join("crates"), &["rs"], &mut files);
    let all: String = files
        .iter()
        .map(|file| fs::read_to_string(file).expect("a source file"))
        .collect();
    let is_test = |name: &&str| {
        let plain = name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        plain && name.matches('_').count() > 3
    };
    let mut missing = Vec::new();
    for page in documents() {
        let text = fs::read_to_string(&page).expect("a page");
        for name in quoted(&text).filter(is_test) {
            if !all.contains(&format!("fn {name}(")) {
                missing.push(format!("{}: {name}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn relative_links_in_documents_resolve() {
    let mut broken = Vec::new();
    for page in documents() {
        let text = fs::read_to_string(&page).expect("a page");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().expect("a first part");
            let local = !path.is_empty() && !path.contains("://");
            if local && !page.parent().expect("a folder").join(path).exists() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Runs every `console` block of the book and of README.md, and compares its output.
#[test]
fn console_examples_match_actual_output() {
    let cache = tempfile::tempdir().expect("a folder");
    trycmd::TestCases::new()
        .case("../../README.md")
        .case("../../docs/src/guide/*.md")
        .case("../../docs/src/concepts/*.md")
        .env("GALATEA_CACHE_DIR", cache.path().to_string_lossy())
        .env("COLUMNS", "120")
        .env("DATAFUSION_EXECUTION_TARGET_PARTITIONS", "2")
        .env("NO_COLOR", "1");
}
