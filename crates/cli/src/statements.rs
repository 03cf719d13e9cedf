//! One statement: plan, run, print, and a footer with its device.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream};
use datafusion::prelude::SessionContext;
use datafusion_cli::object_storage::instrumented::InstrumentedObjectStoreRegistry;
use futures::StreamExt;
use galatea::{GalateaConfig, QueryDevice, QueryPhases, QueryReport, raised_at};
use galatea_engine::config::DeviceChoice;

use crate::errors::CliError;
use crate::interrupt::interruptible_unless;
use crate::output::{Output, Printed, RowLimit, write_rows};
use crate::plan::{Planned, plan};
use crate::progress::Watch;
use crate::session;

/// The name of the memory reservation for results that are being printed.
const CONSUMER: &str = "galatea";

/// Runs one statement, and prints its result and its footer. Ctrl-C cancels the statement, unless it can end
/// early with a partial result. A second Ctrl-C cancels that, too.
pub(crate) async fn run(
    ctx: &SessionContext,
    stores: &Arc<InstrumentedObjectStoreRegistry>,
    output: &Output,
    statement: &str,
) -> Result<(), CliError> {
    let reports = galatea::reports(ctx);
    if let Some(reports) = &reports {
        reports.clear();
    }
    let start = Instant::now();
    let printed = {
        let watch = Watch::start(output.quiet, reports.clone());
        let (session, stores, output, sql) = (
            ctx.clone(),
            Arc::clone(stores),
            output.clone(),
            statement.to_string(),
        );
        let work = move || async move { execute(&session, &stores, &output, &sql, &watch).await };
        let ends = || reports.as_ref().is_some_and(|reports| reports.end_early());
        match interruptible_unless(ends, work).await? {
            Ok(printed) => printed,
            Err(error) => {
                let raised = raised_at(ctx, statement, &error).await;
                return Err(CliError::of_statement(error, statement, raised));
            }
        }
    };
    if output.quiet || output.starting {
        return Ok(());
    }
    let report = galatea::last_query_report(ctx);
    // The time that the user spends in a pager is not part of the statement's.
    let elapsed = printed.complete.unwrap_or_else(Instant::now) - start;
    let mut text = summary(&printed, elapsed);
    if let Some(report) = &report {
        text += &format!(" {}", footer(ctx, report));
    }
    if output.timing {
        text += &format!(
            "\n{}",
            times(elapsed, report.as_ref().map(|report| &report.phases))
        );
    }
    // Programs read only the result, so the footer goes to standard error.
    if output.form().is_for_readers() && output.target.path().is_none() && !printed.for_programs {
        let _ = writeln!(io::stdout(), "{text}\n");
    } else {
        let _ = writeln!(io::stderr(), "{text}");
    }
    Ok(())
}

async fn execute(
    ctx: &SessionContext,
    stores: &Arc<InstrumentedObjectStoreRegistry>,
    output: &Output,
    sql: &str,
    watch: &Watch,
) -> Result<Printed> {
    if let Some(frame) = galatea::own_statement(ctx, sql).await? {
        if is_carried_out(frame.logical_plan()) {
            return Ok(Printed::default());
        }
        let printed = rows(output, frame, RowLimit(None), watch).await;
        // The statement is not a query, so it ran on no device.
        if let Some(reports) = galatea::reports(ctx) {
            reports.clear();
        }
        return printed;
    }
    match plan(ctx, stores, sql).await? {
        Planned::Rows { frame, .. } if is_carried_out(frame.logical_plan()) => Ok(Printed::default()),
        Planned::Rows { frame, complete } => {
            let limit = if complete { RowLimit(None) } else { output.limit };
            rows(output, frame, limit, watch).await
        }
        Planned::Output(frame) => copied_to(ctx, output, frame, watch).await,
        Planned::Text(frame) if !output.form().is_for_readers() => {
            rows(output, frame, RowLimit(None), watch).await
        }
        Planned::Text(frame) => {
            let batches = frame.collect().await?;
            watch.end();
            let mut text = String::new();
            for batch in &batches {
                for row in 0..batch.num_rows() {
                    let cell =
                        |column| arrow::util::display::array_value_to_string(batch.column(column), row);
                    text += &format!("{}\n{}\n\n", cell(0)?, cell(1)?.trim_end());
                }
            }
            let complete = Some(Instant::now());
            output.text(&text)?;
            Ok(Printed {
                complete,
                ..Printed::default()
            })
        }
        Planned::Outline(frame) => {
            let plan = frame.create_physical_plan().await?;
            watch.end();
            let complete = Some(Instant::now());
            output.text(&format!("{}\n\n", galatea::outline(&plan, false)))?;
            Ok(Printed {
                complete,
                ..Printed::default()
            })
        }
        Planned::Analysis(frame) => {
            let context = Arc::new(frame.task_ctx());
            let plan = frame.create_physical_plan().await?;
            watch.follow(&plan);
            let mut stream = execute_stream(Arc::clone(&plan), context)?;
            let mut rows = 0;
            while let Some(batch) = stream.next().await {
                rows += batch?.num_rows();
            }
            watch.end();
            let complete = Some(Instant::now());
            output.text(&format!("{}\n\n", galatea::outline(&plan, true)))?;
            Ok(Printed {
                rows,
                complete,
                ..Printed::default()
            })
        }
    }
}

/// Runs a COPY to standard output. Nothing else may be written there, so the number of rows is in the footer.
pub(crate) async fn copied_to(
    ctx: &SessionContext,
    output: &Output,
    frame: DataFrame,
    watch: &Watch,
) -> Result<Printed> {
    session::register_output(ctx, output.target.clone())?;
    let batches = frame.collect().await?;
    watch.end();
    Ok(Printed {
        rows: usize::try_from(galatea::changed_rows(&batches)).unwrap_or(usize::MAX),
        for_programs: true,
        ..Printed::default()
    })
}

/// Whether the plan belongs to a statement that has already run and returns no rows.
fn is_carried_out(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(empty) if empty.schema.fields().is_empty())
}

/// Prints all rows of `frame`, and nothing else.
pub(crate) async fn print(output: &Output, frame: DataFrame) -> Result<(), CliError> {
    rows(output, frame, RowLimit(None), &Watch::start(true, None)).await?;
    Ok(())
}

/// Runs a query and prints its rows.
async fn rows(output: &Output, frame: DataFrame, limit: RowLimit, watch: &Watch) -> Result<Printed> {
    let context = Arc::new(frame.task_ctx());
    let plan: Arc<dyn ExecutionPlan> = frame.create_physical_plan().await?;
    if plan.boundedness().is_unbounded() && plan.pipeline_behavior() == EmissionType::Final {
        return Err(DataFusionError::Plan(
            "the result is complete only when the source ends, and the source has no end".to_string(),
        ));
    }
    let memory = MemoryConsumer::new(CONSUMER).register(context.memory_pool());
    let options = context.session_config().options().format.clone();
    watch.follow(&plan);
    let stream = execute_stream(plan, context)?;
    write_rows(output, stream, limit, &options, &memory, watch).await
}

/// The number of printed rows, and the time.
pub(crate) fn summary(printed: &Printed, elapsed: Duration) -> String {
    let seconds = format!("{:.3} s.", elapsed.as_secs_f64());
    if printed.columns == 0 && printed.rows == 0 {
        return format!("Done in {seconds}");
    }
    let rows = if printed.rows == 1 { "row" } else { "rows" };
    let mut text = format!("{} {rows}", printed.rows);
    if let Some((shown, columns)) = printed.shown {
        let mut parts = Vec::new();
        if shown < printed.rows {
            parts.push(format!("{shown} rows"));
        }
        if columns < printed.columns {
            parts.push(format!("{columns} of {} columns", printed.columns));
        }
        text += &format!(" ({} shown)", parts.join(", "));
    }
    format!("{text} in {seconds}")
}

/// The device of a query, and the reason if it is not the GPU.
pub(crate) fn footer(ctx: &SessionContext, report: &QueryReport) -> String {
    let wants_gpu = GalateaConfig::of(ctx.copied_config().options()).device == DeviceChoice::Auto;
    let nothing_placed = report.device == QueryDevice::Cpu && report.placed == 0;
    footer_of(
        report,
        wants_gpu && nothing_placed && !galatea_device::driver_is_installed(),
    )
}

fn footer_of(report: &QueryReport, without_gpu: bool) -> String {
    let mut text = format!("Ran on the {}", report.device);
    if without_gpu {
        return text + ", no GPU here.";
    }
    if let [first, others @ ..] = report.reasons.as_slice() {
        // A reason may have a hint on further lines. EXPLAIN shows all of them, the footer the first.
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
    if report.plan_reused {
        text += ", plan reused";
    }
    text.push('.');
    text
}

/// The time of a statement, and of its phases if they are recorded. Planning and execution add up to the
/// total. Phases of pipelines on a device are part of execution, where pipelines overlap.
fn times(elapsed: Duration, phases: Option<&QueryPhases>) -> String {
    let milliseconds = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    let time = format!("Time: {}.", milliseconds(elapsed));
    let Some(phases) = phases else {
        return time;
    };
    let inner = [
        ("loading", phases.load),
        ("compiling", phases.compile),
        ("transfer", phases.transfer),
        ("kernels", phases.kernel),
    ];
    let known = inner.into_iter().filter(|(_, time)| !time.is_zero());
    let inner: Vec<_> = known
        .map(|(name, time)| format!("{name} {}", milliseconds(time)))
        .collect();
    if phases.planning.is_zero() && inner.is_empty() {
        return time;
    }
    let planning = phases.planning.min(elapsed);
    let mut text = format!(
        "{time} Phases: planning {}, execution {}",
        milliseconds(planning),
        milliseconds(elapsed - planning)
    );
    if !inner.is_empty() {
        text += &format!(" (overlapping: {})", inner.join(", "));
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footer_shows_device_and_reason() {
        let footer = |report: &QueryReport| footer_of(report, false);
        let mut report = QueryReport::cpu(vec!["no GPU".to_string()]);
        assert_eq!(footer(&report), "Ran on the CPU (no GPU).");
        assert_eq!(footer_of(&report, true), "Ran on the CPU, no GPU here.");
        report.device = QueryDevice::Both;
        report.reasons.push("window".to_string());
        assert_eq!(
            footer(&report),
            "Ran on the GPU and CPU (on the CPU: no GPU; and 1 more, see EXPLAIN)."
        );
        report.device = QueryDevice::Gpu;
        report.reasons.clear();
        assert_eq!(footer(&report), "Ran on the GPU.");
        report.plan_reused = true;
        assert_eq!(footer(&report), "Ran on the GPU, plan reused.");
    }

    #[test]
    fn times_show_known_phases() {
        let second = Duration::from_secs(1);
        let mut phases = QueryPhases::default();
        assert_eq!(times(second, None), "Time: 1000.0 ms.");
        assert_eq!(times(second, Some(&phases)), "Time: 1000.0 ms.");
        phases.kernel = Duration::from_micros(1500);
        assert_eq!(
            times(second, Some(&phases)),
            "Time: 1000.0 ms. Phases: planning 0.0 ms, execution 1000.0 ms (overlapping: kernels 1.5 ms)."
        );
        phases.planning = Duration::from_millis(20);
        assert_eq!(
            times(second, Some(&phases)),
            "Time: 1000.0 ms. Phases: planning 20.0 ms, execution 980.0 ms (overlapping: kernels 1.5 ms)."
        );
    }

    #[test]
    fn summary_shows_row_counts_and_truncation() {
        let second = Duration::from_secs(1);
        let mut printed = Printed {
            rows: 1,
            columns: 9,
            shown: None,
            for_programs: false,
            complete: None,
        };
        assert_eq!(summary(&printed, second), "1 row in 1.000 s.");
        printed.rows = 60;
        printed.shown = Some((40, 7));
        assert_eq!(
            summary(&printed, second),
            "60 rows (40 rows, 7 of 9 columns shown) in 1.000 s."
        );
        assert_eq!(summary(&Printed::default(), second), "Done in 1.000 s.");
    }
}
