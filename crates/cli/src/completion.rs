//! The line editor's helper: DataFusion's highlighting, validation and hints, and completion of what a query is made of.
//!
//! Inside quotes after FROM, JOIN or LOCATION, file names; after SET and SHOW, settings; elsewhere keywords, tables, columns
//! and functions. Names are read from the session's information schema before every line, so that a table just created is
//! known.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;

use arrow::array::AsArray;
use datafusion::config::{Dialect, SqlParserOptions};
use datafusion::prelude::SessionContext;
use datafusion_cli::helper::CliHelper;
use galatea::ConflictLayoutStatement;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};

use crate::statements::split;

/// Keywords worth completing; what is not here is short or rare.
const KEYWORDS: [&str; 60] = [
    "AND",
    "ANALYZE",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COALESCE",
    "COPY",
    "COUNT",
    "CREATE",
    "CROSS",
    "CSV",
    "DATE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTERNAL",
    "EXTRACT",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "NOT",
    "NULL",
    "OFFSET",
    "ORDER",
    "OVER",
    "PARQUET",
    "PARTITION",
    "SELECT",
    "SHOW",
    "STORED",
    "TABLE",
    "TABLES",
    "THEN",
    "UNION",
    "VALUES",
    "VIEW",
    "WHERE",
    "WITH",
];

/// What can be completed in a session.
#[derive(Debug, Default)]
struct Names {
    words: BTreeSet<String>,
    settings: BTreeSet<String>,
}

pub(crate) struct PromptHelper {
    inner: CliHelper,
    files: FilenameCompleter,
    names: RefCell<Names>,
}

impl PromptHelper {
    pub(crate) fn new(dialect: &Dialect, color: bool) -> Self {
        Self {
            inner: CliHelper::new(dialect, color),
            files: FilenameCompleter::new(),
            names: RefCell::default(),
        }
    }

    pub(crate) fn set_dialect(&mut self, dialect: &Dialect) {
        self.inner.set_dialect(dialect);
    }

    pub(crate) fn reset_hint(&self) {
        self.inner.reset_hint();
    }

    /// Reads the session's names anew. What cannot be read is not completed; the prompt goes on.
    pub(crate) async fn refresh(&self, ctx: &SessionContext) {
        let mut names = Names::default();
        let columns = texts(ctx, "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema <> 'information_schema'").await;
        names.words.extend(columns);
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

async fn texts(ctx: &SessionContext, sql: &str) -> Vec<String> {
    let batches = match ctx.sql(sql).await {
        Ok(frame) => frame.collect().await.unwrap_or_default(),
        Err(_) => Vec::new(),
    };
    let columns = batches.iter().flat_map(|batch| batch.columns().to_vec());
    columns
        .filter_map(|column| {
            Some(
                column
                    .as_string_opt::<i32>()?
                    .iter()
                    .flatten()
                    .map(str::to_string)
                    .collect::<Vec<_>>(),
            )
        })
        .flatten()
        .collect()
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

/// Whether the line is complete and has a statement that DataFusion's parser does not know. What is wrong with one is said
/// when it runs.
fn lays_out(line: &str) -> bool {
    let ours = |statement: &String| {
        let parsed = ConflictLayoutStatement::parse(&SqlParserOptions::default(), statement);
        !matches!(parsed, Ok(None))
    };
    line.trim_end().ends_with(';') && split(line).iter().any(ours)
}

fn candidates(names: &Names, line: &str, position: usize) -> (usize, Vec<Pair>) {
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
    let words = names.words.iter().map(String::as_str).filter(|_| !is_setting);
    let mut found: Vec<Pair> = words.chain(settings).filter(matches).map(pair).collect();
    // Keywords in the case that is being typed.
    let is_lower = prefix.chars().all(|c| !c.is_uppercase());
    found.extend(KEYWORDS.iter().copied().filter(matches).map(|keyword| {
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
        Ok(candidates(&self.names.borrow(), line, position))
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

impl Hinter for PromptHelper {
    type Hint = String;

    fn hint(&self, line: &str, position: usize, ctx: &Context<'_>) -> Option<String> {
        self.inner.hint(line, position, ctx)
    }
}

impl Validator for PromptHelper {
    fn validate(&self, ctx: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        if lays_out(ctx.input()) {
            self.inner.reset_hint();
            return Ok(ValidationResult::Valid(None));
        }
        self.inner.validate(ctx)
    }
}

impl Helper for PromptHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(line: &str) -> Vec<String> {
        let names = Names {
            words: ["lineitem", "l_quantity", "sum"].map(str::to_string).into(),
            settings: ["galatea.device", "galatea.fallback"].map(str::to_string).into(),
        };
        candidates(&names, line, line.len())
            .1
            .into_iter()
            .map(|pair| pair.replacement)
            .collect()
    }

    #[test]
    fn words_settings_and_keywords_are_completed_where_they_belong() {
        assert_eq!(complete("SELECT l_q"), ["l_quantity"]);
        assert_eq!(complete("select su"), ["sum"]);
        assert_eq!(complete("sel"), ["select"]);
        assert_eq!(complete("SEL"), ["SELECT"]);
        assert_eq!(complete("SET galatea.d"), ["galatea.device"]);
        assert!(complete("SELECT galatea.d").is_empty());
        assert!(complete("SELECT ").is_empty());
    }

    #[test]
    fn layouts_are_for_us_to_judge() {
        assert!(lays_out("ALTER TABLE t SET (conflict_layout.k = 'auto');\n"));
        assert!(lays_out(
            "SELECT 1; ALTER TABLE t SET (conflict_layout = 'wrong');"
        ));
        assert!(!lays_out("ALTER TABLE t SET (conflict_layout.k = 'auto')"));
        assert!(!lays_out("SELECT 'conflict_layout';"));
    }

    #[test]
    fn file_names_are_in_quotes_after_from() {
        let at_end = |line: &str| in_file_name(line, line.len());
        assert!(at_end("SELECT * FROM 'da") && at_end("select * from 'a.csv' join 'b"));
        assert!(
            !at_end("SELECT 'da") && !at_end("SELECT * FROM 'a' WHERE x = 'b") && !at_end("SELECT * FROM da")
        );
        assert_eq!(word("SELECT größe, na", "SELECT größe, na".len()), (16, "na"));
    }
}
