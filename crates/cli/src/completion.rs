//! The helper of the line editor: DataFusion's highlighting and hints, and completion of names and keywords.
//!
//! Inside quotes after FROM, JOIN or LOCATION it completes file names; after SET and SHOW, settings;
//! elsewhere keywords, tables, columns and functions. Names are read from the session's catalogs before every
//! line, so that a newly created table is included. Columns of a file are completed in the statement that
//! names the file.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;

use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;
use datafusion_cli::helper::CliHelper;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::{Hint, Hinter};
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use crate::file_columns::FileColumns;

/// The remark on an empty line inside a statement.
const BEGUN: &str = "a semicolon ends the statement, Ctrl-C leaves it";

/// The names of a session.
#[derive(Debug, Default)]
struct Names {
    words: BTreeSet<String>,
    settings: BTreeSet<String>,
}

pub(crate) struct PromptHelper {
    /// Provides highlighting and hints.
    inner: CliHelper,
    /// The lines before the current one of a statement.
    begun: String,
    /// `None` if a server runs the statements: files here are not its files.
    file_columns: Option<FileColumns>,
    files: FilenameCompleter,
    names: RefCell<Names>,
}

impl PromptHelper {
    pub(crate) fn new(ctx: &SessionContext, color: bool, reads_files: bool) -> Self {
        let dialect = ctx.copied_config().options().sql_parser.dialect;
        Self {
            inner: CliHelper::new(&dialect, color),
            begun: String::new(),
            file_columns: reads_files.then(|| FileColumns::new(ctx)),
            files: FilenameCompleter::new(),
            names: RefCell::default(),
        }
    }

    /// Prepares for the next line, which continues the lines `begun` or begins a statement, by reading the
    /// session's names again. Names that cannot be read are not completed.
    pub(crate) async fn refresh(&mut self, ctx: &SessionContext, begun: &str) {
        begun.clone_into(&mut self.begun);
        self.inner.reset_hint();
        self.inner
            .set_dialect(&ctx.copied_config().options().sql_parser.dialect);
        if !begun.is_empty() {
            return;
        }
        if let Some(files) = &self.file_columns {
            files.clear();
        }
        let mut names = Names::default();
        names.words.extend(tables_and_columns(ctx).await);
        names.words.extend(ctx.state().scalar_functions().keys().cloned());
        names
            .words
            .extend(ctx.state().aggregate_functions().keys().cloned());
        names.settings.extend(
            ctx.state()
                .config_options()
                .entries()
                .into_iter()
                .map(|entry| entry.key),
        );
        *self.names.borrow_mut() = names;
    }
}

/// The names of the session's tables and of their columns. They are read from the catalogs instead of by a
/// query, because a query would be placed, run on the device and reported like those of the user.
async fn tables_and_columns(ctx: &SessionContext) -> Vec<String> {
    let mut names = Vec::new();
    let catalogs = ctx
        .catalog_names()
        .into_iter()
        .filter_map(|name| ctx.catalog(&name));
    let schemas = catalogs.flat_map(|catalog| {
        let names = catalog.schema_names().into_iter();
        let names = names.filter(|name| name != "information_schema");
        names.filter_map(|name| catalog.schema(&name)).collect::<Vec<_>>()
    });
    for schema in schemas {
        for name in schema.table_names() {
            if let Ok(Some(table)) = schema.table(&name).await {
                let fields = table.schema();
                names.extend(fields.fields().iter().map(|field| field.name().clone()));
            }
            names.push(name);
        }
    }
    names
}

/// The word that ends at `position`, and where it starts.
fn word(line: &str, position: usize) -> (usize, &str) {
    let before = &line[..position];
    let start = before
        .rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    (start, &before[start..])
}

/// Whether `position` is inside a string that names a file.
fn in_file_name(line: &str, position: usize) -> bool {
    let before = &line[..position];
    if before.matches('\'').count().is_multiple_of(2) {
        return false;
    }
    let quote = before.rfind('\'').unwrap_or(0);
    let keyword = before[..quote]
        .split_whitespace()
        .last()
        .unwrap_or("")
        .to_ascii_uppercase();
    ["FROM", "JOIN", "LOCATION", "TO"].contains(&keyword.as_str())
}

fn candidates(names: &Names, of_files: &[String], line: &str, position: usize) -> (usize, Vec<Pair>) {
    let (start, prefix) = word(line, position);
    if prefix.is_empty() {
        return (position, Vec::new());
    }
    let first = line.split_whitespace().next().unwrap_or("").to_ascii_uppercase();
    let is_setting = matches!(first.as_str(), "SET" | "SHOW" | "RESET") && start > 0;
    let lower = prefix.to_ascii_lowercase();
    let matches = |name: &&str| name.to_ascii_lowercase().starts_with(&lower);
    let pair = |text: &str| Pair {
        display: text.to_string(),
        replacement: text.to_string(),
    };
    let settings = names.settings.iter().map(String::as_str).filter(|_| is_setting);
    let of_files = of_files.iter().filter(|name| !names.words.contains(*name));
    let words = names.words.iter().chain(of_files);
    let words = words.map(String::as_str).filter(|_| !is_setting);
    let mut found: Vec<Pair> = words.chain(settings).filter(matches).map(pair).collect();
    // Keywords are completed in the case of the prefix.
    let is_lower = prefix.chars().all(|c| !c.is_uppercase());
    found.extend(ALL_KEYWORDS.iter().copied().filter(matches).map(|keyword| {
        if is_lower {
            pair(&keyword.to_ascii_lowercase())
        } else {
            pair(keyword)
        }
    }));
    (start, found)
}

impl Completer for PromptHelper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        ctx: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        if in_file_name(line, position) {
            return self.files.complete(line, position, ctx);
        }
        let of_files = match &self.file_columns {
            Some(files) if !word(line, position).1.is_empty() => files.of(&format!("{}{line}", self.begun)),
            _ => Vec::new(),
        };
        Ok(candidates(&self.names.borrow(), &of_files, line, position))
    }
}

impl Highlighter for PromptHelper {
    fn highlight<'l>(&self, line: &'l str, position: usize) -> Cow<'l, str> {
        self.inner.highlight(line, position)
    }

    fn highlight_char(&self, line: &str, position: usize, kind: CmdKind) -> bool {
        self.inner.highlight_char(line, position, kind)
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        self.inner.highlight_hint(hint)
    }
}

/// A remark behind the cursor. Unlike completions, it cannot be accepted into the line.
pub(crate) struct Remark(String);

impl Hint for Remark {
    fn display(&self) -> &str {
        &self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for PromptHelper {
    type Hint = Remark;

    /// On an empty line of a statement, the hint is the remark about the end of statements.
    fn hint(&self, line: &str, position: usize, ctx: &Context<'_>) -> Option<Remark> {
        if !self.begun.is_empty() {
            return line.is_empty().then(|| Remark(BEGUN.to_string()));
        }
        self.inner.hint(line, position, ctx).map(Remark)
    }
}

impl Validator for PromptHelper {}

impl Helper for PromptHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(line: &str) -> Vec<String> {
        let names = Names {
            words: ["lineitem", "l_quantity", "sum"].map(str::to_string).into(),
            settings: ["galatea.device", "galatea.fallback"].map(str::to_string).into(),
        };
        let of_files = ["name", "l_quantity"].map(str::to_string);
        candidates(&names, &of_files, line, line.len())
            .1
            .into_iter()
            .map(|pair| pair.replacement)
            .collect()
    }

    #[test]
    fn completion_depends_on_the_context() {
        assert_eq!(complete("SELECT l_q"), ["l_quantity"]);
        assert_eq!(complete("select su").first().map(String::as_str), Some("sum"));
        assert!(complete("sel").contains(&"select".to_string()));
        assert!(complete("SEL").contains(&"SELECT".to_string()));
        assert!(complete("SELECT nam").contains(&"name".to_string()));
        assert_eq!(complete("SET galatea.d"), ["galatea.device"]);
        assert!(complete("SELECT galatea.d").is_empty());
        assert!(complete("SELECT ").is_empty());
    }

    #[test]
    fn file_names_are_completed_in_quotes_after_from() {
        let at_end = |line: &str| in_file_name(line, line.len());
        assert!(at_end("SELECT * FROM 'da") && at_end("select * from 'a.csv' join 'b"));
        assert!(
            !at_end("SELECT 'da") && !at_end("SELECT * FROM 'a' WHERE x = 'b") && !at_end("SELECT * FROM da")
        );
        assert_eq!(word("SELECT größe, na", "SELECT größe, na".len()), (16, "na"));
    }
}
