//! `galatea analyze conflicts`: bank and value conflicts of grouping by a column.

use datafusion::common::TableReference;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionContext;
use galatea::{ConflictAnalysis, ConflictLayoutError, analyse_conflicts};

use crate::arguments::{AnalyzeArguments, QueryArguments, SessionArguments};
use crate::errors::CliError;
use crate::interrupt::interruptible;
use crate::output::Output;
use crate::shell::Shell;
use crate::statements;

pub(crate) async fn run(
    session: &SessionArguments,
    query: &QueryArguments,
    arguments: &AnalyzeArguments,
) -> Result<(), CliError> {
    let mut shell = super::shell(session, query).await?;
    // Tables that -c and -f create can be analysed. The output of these statements is not shown.
    shell.output.quiet = true;
    super::run_all(&mut shell, query).await?;

    let Some((table, column)) = arguments.column.rsplit_once('.') else {
        return Err(CliError::Other(format!(
            "no column is named: {}\nhint: name a table and a column: lineitem.l_returnflag, data/lineitem.parquet.l_returnflag",
            arguments.column
        )));
    };
    let (ctx, table, column, rows) = (
        shell.ctx.clone(),
        table.to_string(),
        column.to_string(),
        arguments.rows,
    );
    let analysis = interruptible(move || async move { analyse(&ctx, &table, &column, rows).await }).await??;
    print(&shell, &analysis, arguments, session.quiet).await
}

/// The table is a file if such a file exists, else a name as in SQL: `schema.table`.
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

async fn print(
    shell: &Shell,
    analysis: &ConflictAnalysis,
    arguments: &AnalyzeArguments,
    quiet: bool,
) -> Result<(), CliError> {
    let output = Output {
        format: arguments.format,
        quiet: true,
        ..shell.output.clone()
    };
    let is_explained = output.form().is_for_readers() && !quiet;
    if is_explained {
        let part = match analysis.rows == analysis.all_rows {
            true => format!("{} rows", analysis.rows),
            false => format!("the first {} of {} rows", analysis.rows, analysis.all_rows),
        };
        output.text(&format!(
            "{}: {} groups in {part}; one 4-byte accumulator per group and copy\n",
            arguments.column, analysis.groups
        ))?;
    }
    let frame = shell.ctx.read_batch(analysis.batch()?)?;
    statements::print(&output, frame).await?;
    if is_explained {
        output.text(&format!(
            "\nOne 64-bit sum per group on {}, as the model predicts: {}.\n",
            analysis.device, analysis.prediction
        ))?;
    }
    Ok(())
}
