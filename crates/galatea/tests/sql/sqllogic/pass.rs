//! One pass over a file: runs its records on one session, in order, and returns the outcome of each.

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::prelude::SessionContext;
use datafusion_sqllogictest::{DFColumnType, TestContext};
use futures::{FutureExt, TryStreamExt};
use galatea::{GalateaConfig, QueryDevice};
use sqllogictest::{Condition, Record};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::time::{Duration, Instant};

use super::folder::Workplace;
use super::order::RowOrder;
use super::stored::StoredTables;

/// The time limit of a record.
const RECORD_LIMIT: Duration = Duration::from_secs(180);

/// One statement or query of a file.
pub(super) struct Question {
    pub(super) sql: String,
    pub(super) place: String,
    /// Whether the file expects an error.
    pub(super) fails: bool,
}

/// The statements of a file to run, and the number of EXPLAINs, which do not run.
pub(super) fn questions(records: Vec<Record<DFColumnType>>, place: &Workplace) -> (Vec<Question>, usize) {
    let mut found = Vec::new();
    let mut explains = 0;
    for record in records {
        let (loc, conditions, sql, fails) = match record {
            Record::Halt { .. } => break,
            Record::Statement {
                loc,
                conditions,
                sql,
                expected,
                ..
            } => (
                loc,
                conditions,
                sql,
                matches!(expected, sqllogictest::StatementExpect::Error(_)),
            ),
            Record::Query {
                loc,
                conditions,
                sql,
                expected,
                ..
            } => (
                loc,
                conditions,
                sql,
                matches!(expected, sqllogictest::QueryExpect::Error(_)),
            ),
            _ => continue,
        };
        let ours = |label: &str| label == "Datafusion" || label == "DataFusion";
        let skipped = conditions.iter().any(|condition| match condition {
            Condition::OnlyIf { label } => !ours(label),
            Condition::SkipIf { label } => ours(label),
        });
        if skipped {
            continue;
        }
        if sql
            .trim_start()
            .get(..7)
            .is_some_and(|word| word.eq_ignore_ascii_case("explain"))
        {
            explains += 1;
            continue;
        }
        let file = Path::new(loc.file())
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        found.push(Question {
            sql: place.absolute(&sql),
            place: format!("{file}:{}", loc.line()),
            fails,
        });
    }
    (found, explains)
}

/// A session's answer to a statement or query.
pub(super) enum Answer {
    Rows {
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        order: RowOrder,
    },
    Error(String),
    /// A panic, or a time-out.
    Broken(String),
}

/// An answer and its origin.
pub(super) struct Answered {
    pub(super) answer: Answer,
    /// The answer of a second run, over files.
    pub(super) second: Option<Answer>,
    /// Whether a part of the query was placed on the device and ran there.
    pub(super) on_device: bool,
    pub(super) reasons: Vec<String>,
    pub(super) elapsed: Duration,
}

/// Plain DataFusion, or Galatea over the same context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    DataFusion,
    Galatea,
    /// Like [`Self::Galatea`], but queries read Parquet files in place of tables in memory, and run twice.
    OverFiles,
}

/// Runs the statements and queries in order until `limit` has passed. After a time-out, fewer answers are
/// returned.
pub(super) async fn run(
    engine: Engine,
    file: &Path,
    questions: &[Question],
    limit: Duration,
) -> Result<Vec<Answered>, String> {
    let set_up = AssertUnwindSafe(TestContext::try_new_for_test_file(file)).catch_unwind();
    let test = set_up
        .await
        .map_err(|panic| format!("its tables cannot be registered: {}", message(panic)))?
        .ok_or("DataFusion's runner skips it")?;
    let ctx = test.session_ctx();
    if engine != Engine::DataFusion {
        install(ctx).map_err(|error| error.to_string())?;
    }
    let mut stored = match engine {
        Engine::OverFiles => Some(StoredTables::new().map_err(|error| error.to_string())?),
        _ => None,
    };
    let started = Instant::now();
    let mut answers = Vec::with_capacity(questions.len());
    for question in questions {
        if started.elapsed() > limit {
            break;
        }
        let Some(stored) = &mut stored else {
            answers.push(ask(ctx, &question.sql).await);
            continue;
        };
        let query = stored.prepare(ctx, &question.sql).await;
        let first = ask(ctx, &question.sql).await;
        let second = match (query, &first.answer) {
            (true, Answer::Rows { .. }) => Some(ask(ctx, &question.sql).await.answer),
            _ => None,
        };
        answers.push(Answered { second, ..first });
    }
    Ok(answers)
}

/// Converts the context into a Galatea session on the emulated device.
fn install(ctx: &SessionContext) -> datafusion::error::Result<()> {
    let mut config = GalateaConfig::default();
    for (name, value) in [("device", "emulated"), ("tuning.min_rows", "0")] {
        datafusion::config::ExtensionOptions::set(&mut config, name, value)?;
    }
    ctx.state_ref()
        .write()
        .config_mut()
        .options_mut()
        .extensions
        .insert(config);
    galatea::install_with_emulated_device(ctx, galatea::EmulatorOptions::default())
}

async fn ask(ctx: &SessionContext, sql: &str) -> Answered {
    let reports = galatea::reports(ctx);
    if let Some(reports) = &reports {
        reports.clear();
    }
    let started = Instant::now();
    let asked = AssertUnwindSafe(rows(ctx, sql)).catch_unwind();
    let answer = match tokio::time::timeout(RECORD_LIMIT, asked).await {
        Ok(Ok(Ok(answer))) => answer,
        Ok(Ok(Err(error))) => Answer::Error(error.to_string()),
        Ok(Err(panic)) => Answer::Broken(format!("panicked: {}", message(panic))),
        Err(_) => Answer::Broken(format!("no answer after {RECORD_LIMIT:?}")),
    };
    let report = reports.and_then(|reports| reports.last());
    Answered {
        answer,
        second: None,
        on_device: report
            .as_ref()
            .is_some_and(|report| report.device != QueryDevice::Cpu),
        reasons: report.map(|report| report.reasons).unwrap_or_default(),
        elapsed: started.elapsed(),
    }
}

async fn rows(ctx: &SessionContext, sql: &str) -> datafusion::error::Result<Answer> {
    let frame = ctx.sql(sql).await?;
    let order = RowOrder::of(frame.logical_plan());
    let stream = frame.execute_stream().await?;
    let schema = stream.schema();
    let batches = stream.try_collect().await?;
    Ok(Answer::Rows {
        schema,
        batches,
        order,
    })
}

#[expect(clippy::needless_pass_by_value, reason = "what catch_unwind returns")]
fn message(panic: Box<dyn std::any::Any + Send>) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_default()
}
