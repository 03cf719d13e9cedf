//! One statement at a time: run, print, and a footer that says where it ran.

use std::io::{self, Write};
use std::time::Instant;

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use datafusion_cli::exec::exec_from_commands;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::{MaxRows, PrintOptions};
use galatea::{ConflictLayoutStatement, QueryDevice, QueryReport};
use std::sync::Arc;

use crate::arguments::QueryArguments;
use crate::errors::CliError;
use crate::interrupt::interruptible;

/// How results are printed.
pub(crate) struct Printer {
    pub(crate) options: PrintOptions,
}

impl Printer {
    pub(crate) fn new(
        query: &QueryArguments,
        quiet: bool,
        color: bool,
        stores: Arc<InstrumentedObjectStoreRegistry>,
    ) -> Self {
        let options = PrintOptions {
            format: query.format.into(),
            quiet,
            maxrows: query.maxrows,
            color,
            instrumented_registry: stores,
        };
        let mut printer = Self { options };
        // The limit is for people; to programs every row is owed.
        if !printer.is_table() {
            printer.options.maxrows = MaxRows::Unlimited;
        }
        printer
    }

    /// Whether results are read by people rather than programs.
    fn is_table(&self) -> bool {
        matches!(self.options.format, PrintFormat::Table | PrintFormat::Automatic)
    }

    /// Runs one statement, prints its result and its footer. Ctrl-C cancels it.
    pub(crate) async fn run(&self, ctx: &SessionContext, statement: &str) -> Result<(), CliError> {
        if let Some(reports) = galatea::reports(ctx) {
            reports.clear();
        }
        let start = Instant::now();
        // Programs read the result alone: what is said about it goes to standard error.
        let options = PrintOptions {
            quiet: self.options.quiet || !self.is_table(),
            ..self.options.clone()
        };
        let (session, statement) = (ctx.clone(), statement.to_string());
        interruptible(move || async move {
            let config = session.copied_config();
            match ConflictLayoutStatement::parse(&config.options().sql_parser, &statement)? {
                Some(layout) => lay_out(&session, &layout, options).await,
                None => exec_from_commands(&session, vec![statement], &options).await,
            }
        })
        .await??;
        if self.options.quiet {
            return Ok(());
        }
        let Some(report) = galatea::last_query_report(ctx) else {
            return Ok(());
        };
        let footer = footer(&report);
        if self.is_table() {
            // DataFusion's own footer, rows and time, ends with an empty line.
            let _ = writeln!(io::stdout(), "{footer}\n");
        } else {
            let _ = writeln!(
                io::stderr(),
                "{:.3} seconds. {footer}",
                start.elapsed().as_secs_f64()
            );
        }
        Ok(())
    }

    /// Runs all statements of `text`, stopping at the first that fails.
    pub(crate) async fn run_all(&self, ctx: &SessionContext, text: &str) -> Result<(), CliError> {
        for statement in split(text) {
            self.run(ctx, &statement).await?;
        }
        Ok(())
    }
}

/// Carries out what DataFusion's command knows nothing of, and prints it as that would.
async fn lay_out(
    ctx: &SessionContext,
    statement: &ConflictLayoutStatement,
    mut options: PrintOptions,
) -> Result<()> {
    let start = Instant::now();
    let frame = statement.execute(ctx).await?;
    let schema = Arc::clone(frame.schema().inner());
    let batches = frame.collect().await?;
    // No query: there is nothing to say of where it ran.
    if let Some(reports) = galatea::reports(ctx) {
        reports.clear();
    }
    if options.format == PrintFormat::Automatic {
        options.format = PrintFormat::Table;
    }
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let format = ctx.copied_config().options().format.clone();
    options.print_batches(schema, &batches, start, rows, &format)
}

/// Where a query ran, and why not on the GPU.
pub(crate) fn footer(report: &QueryReport) -> String {
    let mut text = format!("Ran on the {}", report.device);
    if let [first, others @ ..] = report.reasons.as_slice() {
        // A reason may bring a hint on lines of its own: EXPLAIN shows all, the footer is one line.
        let first = first.lines().next().unwrap_or_default();
        let on_cpu = if report.device == QueryDevice::Cpu {
            ""
        } else {
            "on the CPU: "
        };
        text += &format!(" ({on_cpu}{first}");
        if !others.is_empty() {
            text += &format!("; and {} more, see EXPLAIN", others.len());
        }
        text.push(')');
    }
    text.push('.');
    text
}

/// Splits SQL into statements at semicolons outside of quotes and comments. Statements come without semicolon and without
/// the comments and space around them; empty ones not at all.
pub(crate) fn split(text: &str) -> Vec<String> {
    let mut statements = Vec::new();
    let mut current = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            ';' => statements.push(std::mem::take(&mut current)),
            '\'' | '"' | '`' => {
                current.push(letter);
                // A doubled quote ends one string and begins the next, which reads the same here.
                for inner in letters.by_ref() {
                    current.push(inner);
                    if inner == letter {
                        break;
                    }
                }
            }
            '-' if letters.peek() == Some(&'-') => {
                letters.by_ref().find(|letter| *letter == '\n');
                current.push('\n');
            }
            '/' if letters.peek() == Some(&'*') => {
                letters.next();
                let mut previous = ' ';
                for inner in letters.by_ref() {
                    if previous == '*' && inner == '/' {
                        break;
                    }
                    previous = inner;
                }
                current.push(' ');
            }
            _ => current.push(letter),
        }
    }
    statements.push(current);
    statements
        .iter()
        .map(|statement| statement.trim().to_string())
        .filter(|statement| !statement.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_semicolons_outside_of_quotes_and_comments() {
        assert_eq!(split("SELECT 1; SELECT 2;\n"), ["SELECT 1", "SELECT 2"]);
        assert_eq!(
            split("SELECT ';', \"a;b\", 'it''s; so' ; "),
            ["SELECT ';', \"a;b\", 'it''s; so'"]
        );
        assert_eq!(
            split("-- a; comment\nSELECT 1 -- another;\n+ 1; -- the end"),
            ["SELECT 1 \n+ 1"]
        );
        assert_eq!(split("/* a; b */ SELECT /* c * / ; */ 1"), ["SELECT   1"]);
        assert!(split(" ;; -- nothing\n;").is_empty());
        assert_eq!(split("SELECT 'open; string"), ["SELECT 'open; string"]);
    }

    #[test]
    fn footers_say_where_and_why() {
        let mut report = QueryReport::cpu(vec!["no GPU".to_string()]);
        assert_eq!(footer(&report), "Ran on the CPU (no GPU).");
        report.device = QueryDevice::Both;
        report.reasons.push("window".to_string());
        assert_eq!(
            footer(&report),
            "Ran on the GPU and CPU (on the CPU: no GPU; and 1 more, see EXPLAIN)."
        );
        report.device = QueryDevice::Gpu;
        report.reasons.clear();
        assert_eq!(footer(&report), "Ran on the GPU.");
    }
}
