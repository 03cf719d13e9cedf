//! `galatea analyze conflicts`: what grouping by a column does to the banks of shared memory.

use std::io::{self, Write};

use datafusion::common::TableReference;
use datafusion::config::FormatOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionContext;
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::MaxRows;
use galatea::{ConflictAnalysis, ConflictLayoutError, analyse_conflicts};

use crate::arguments::{AnalyzeArguments, QueryArguments, SessionArguments};
use crate::errors::CliError;
use crate::interrupt::interruptible;
use crate::session;
use crate::statements::Printer;

pub(crate) async fn run(
    session: &SessionArguments,
    query: &QueryArguments,
    arguments: &AnalyzeArguments,
) -> Result<(), CliError> {
    let built = session::build(session).await?;
    // What -c and -f make can be looked at; what they print is not asked for here.
    let before = Printer::new(query, true, false, built.stores.clone());
    super::run_all(&built.ctx, query, &before).await?;

    let Some((table, column)) = arguments.column.rsplit_once('.') else {
        return Err(CliError::Other(format!(
            "no column is named: {}\nhint: name a table and a column: lineitem.l_returnflag, data/lineitem.parquet.l_returnflag",
            arguments.column
        )));
    };
    let (ctx, table, column, rows) = (
        built.ctx.clone(),
        table.to_string(),
        column.to_string(),
        arguments.rows,
    );
    let analysis = interruptible(move || async move { analyse(&ctx, &table, &column, rows).await }).await??;
    print(&analysis, arguments, session.quiet)
}

/// The table is a file where it can be, else a name as SQL has it: `schema.table`.
async fn analyse(ctx: &SessionContext, table: &str, column: &str, rows: usize) -> Result<ConflictAnalysis> {
    let whole = TableReference::bare(table);
    let parsed = TableReference::parse_str(table);
    let is_unknown = |error: &DataFusionError| match error {
        DataFusionError::External(inner) => {
            matches!(inner.downcast_ref(), Some(ConflictLayoutError::Table { .. }))
        }
        _ => false,
    };
    match analyse_conflicts(ctx, &whole, column, rows).await {
        Err(error) if is_unknown(&error) && parsed != whole => {
            analyse_conflicts(ctx, &parsed, column, rows).await
        }
        analysis => analysis,
    }
}

fn print(analysis: &ConflictAnalysis, arguments: &AnalyzeArguments, quiet: bool) -> Result<(), CliError> {
    let format = match arguments.format.into() {
        PrintFormat::Automatic => PrintFormat::Table,
        format => format,
    };
    let for_people = format == PrintFormat::Table && !quiet;
    let mut out = io::stdout().lock();
    if for_people {
        let part = match analysis.rows == analysis.all_rows {
            true => format!("{} rows", analysis.rows),
            false => format!("the first {} of {} rows", analysis.rows, analysis.all_rows),
        };
        let _ = writeln!(
            out,
            "{}: {} groups in {part}; one 4-byte accumulator per group and copy",
            arguments.column, analysis.groups
        );
    }
    let batch = analysis.batch()?;
    let options = FormatOptions::default();
    format.print_batches(
        &mut out,
        batch.schema(),
        &[batch],
        MaxRows::Unlimited,
        true,
        &options,
    )?;
    if for_people {
        let _ = writeln!(
            out,
            "\nOne 64-bit sum per group on an H200, as the model predicts: {}.",
            analysis.prediction
        );
    }
    Ok(())
}
