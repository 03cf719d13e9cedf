//! Continuous queries over a stream of events at a fixed rate: latencies of results, and a check that no
//! event is lost.
//!
//! An event's time is its due time by the clock. A thread sends batches of due events; each batch waits for
//! its last event. The latency of a filtered row is measured from its time to the return of its batch to the
//! query's reader. That of a window's groups is measured from the end of the window, which is later than the
//! times of its events. The number of events counted by the windows is compared with the number sent.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arrow::array::{ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, TimestampNanosecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit, TimestampNanosecondType};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use galatea::stream::{Channel, ChannelSender};
use galatea_experiments::flow::Row;
use galatea_kernels::pattern;

use crate::{BenchError, Result};

/// The measurements to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Number of events per second.
    pub rate: u64,
    /// Duration of a run.
    pub duration: Duration,
    /// Number of measured runs.
    pub runs: usize,
    /// Seed of the keys.
    pub seed: u64,
    /// Whether to run on the emulated device.
    pub emulated: bool,
}

/// Time between two batches.
const TICK: Duration = Duration::from_millis(1);
/// The length of a window.
const WINDOW: Duration = Duration::from_millis(10);
/// Number of groups of a window.
const KEYS: u64 = 1000;

/// A query, and the start of its latencies.
struct Query {
    name: &'static str,
    sql: &'static str,
    /// Added to the time of a result's row.
    from: Duration,
}

const QUERIES: [Query; 2] = [
    Query {
        name: "filter",
        sql: "SELECT ts, v * 2 AS x FROM events WHERE v % 100 = 7",
        from: Duration::ZERO,
    },
    Query {
        name: "windowed group-by",
        sql: "SELECT date_bin(INTERVAL '10 milliseconds', ts) AS w, count(*) AS n, sum(v) AS s, k FROM events GROUP BY w, k",
        from: WINDOW,
    },
];

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Nanosecond, None), false),
        Field::new("k", DataType::Int32, false),
        Field::new("v", DataType::Int64, false),
    ]))
}

/// Nanoseconds since 1970.
fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// Sends events when they are due. Returns the number of events, and of those that pass the filter.
fn send(sender: &ChannelSender, plan: &Plan) -> (u64, u64) {
    let batch = (plan.rate as f64 * TICK.as_secs_f64()).max(1.0) as u64;
    let step = 1e9 / plan.rate as f64;
    let keys = (0..batch).map(|row| (pattern(plan.seed, row) % KEYS) as i32);
    let keys: ArrayRef = Arc::new(Int32Array::from_iter_values(keys));
    // The first event of a batch passes the filter, and one in a hundred of the others.
    let values: Vec<i64> = (0..batch).map(|row| ((row * 7919 + 7) % 10_000) as i64).collect();
    let passing = values.iter().filter(|value| **value % 100 == 7).count() as u64;
    let values: ArrayRef = Arc::new(Int64Array::from(values));
    let schema = schema();
    let (begun, start) = (Instant::now(), now());
    let mut sent = 0;
    while begun.elapsed() < plan.duration {
        let times = (sent..sent + batch).map(|event| start + (event as f64 * step) as i64);
        let times: ArrayRef = Arc::new(TimestampNanosecondArray::from_iter_values(times));
        let due = Duration::from_secs_f64((sent + batch) as f64 * step / 1e9);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let columns = vec![times, Arc::clone(&keys), Arc::clone(&values)];
        let Ok(events) = RecordBatch::try_new(Arc::clone(&schema), columns) else {
            break;
        };
        // The query failed, and its error is returned.
        if sender.send_blocking(events).is_err() {
            break;
        }
        sent += batch;
    }
    (sent, sent / batch * passing)
}

/// One run of a query.
struct Measured {
    /// Latencies in nanoseconds, sorted.
    latencies: Vec<i64>,
    /// Number of events sent, and of those that pass the filter.
    sent: (u64, u64),
    /// Number of events in results.
    counted: u64,
    seconds: f64,
}

async fn measure(ctx: &SessionContext, query: &Query, plan: &Plan) -> Result<Measured> {
    let (sender, table) = Channel::new(schema()).ordered_by(["ts"]).capacity(64).open()?;
    let _ = ctx.deregister_table("events")?;
    ctx.register_table("events", table)?;
    let mut results = ctx.sql(query.sql).await?.execute_stream().await?;
    let sending = plan.clone();
    let begun = Instant::now();
    let sending = tokio::task::spawn_blocking(move || send(&sender, &sending));
    let (mut latencies, mut counted) = (Vec::new(), 0);
    while let Some(batch) = results.next().await {
        let (batch, now) = (batch?, now());
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>().values();
        let from = query.from.as_nanos() as i64;
        latencies.extend(times.iter().map(|time| now - time - from));
        counted += match batch.schema_ref().index_of("n") {
            Ok(n) => batch
                .column(n)
                .as_primitive::<Int64Type>()
                .values()
                .iter()
                .sum::<i64>() as u64,
            Err(_) => batch.num_rows() as u64,
        };
    }
    let seconds = begun.elapsed().as_secs_f64();
    let sent = sending
        .await
        .map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
    latencies.sort_unstable();
    Ok(Measured {
        latencies,
        sent,
        counted,
        seconds,
    })
}

/// Runs the queries on the device and on DataFusion's operators, and passes each row to `done`.
///
/// # Errors
/// DataFusion's; [`BenchError::Lost`].
pub async fn run(plan: &Plan, done: &mut impl FnMut(Row)) -> Result<()> {
    let device = match plan.emulated {
        true => galatea::session()
            .with_emulated_device(galatea::EmulatorOptions::default())
            .with_setting("galatea.device", "emulated"),
        false => galatea::session().with_setting("galatea.device", "gpu"),
    };
    let engines = [
        ("galatea", device.build()?),
        (
            "datafusion",
            galatea::session().with_setting("galatea.device", "cpu").build()?,
        ),
    ];
    for query in &QUERIES {
        for (engine, ctx) in &engines {
            let (mut rates, mut p50, mut p99, mut most) = (vec![], vec![], vec![], vec![]);
            // The first run compiles kernels.
            for number in 0..=plan.runs {
                let measured = measure(ctx, query, plan).await?;
                check(query, &measured)?;
                if number == 0 {
                    continue;
                }
                let at = |share: f64| {
                    let last = measured.latencies.len().saturating_sub(1);
                    let value = measured.latencies.get((last as f64 * share) as usize);
                    value.map_or(f64::NAN, |value| *value as f64 / 1e6)
                };
                rates.push(measured.sent.0 as f64 / measured.seconds);
                p50.push(at(0.5));
                p99.push(at(0.99));
                most.push(at(1.0));
            }
            let figures = [
                ("events a second", rates),
                ("p50 ms", p50),
                ("p99 ms", p99),
                ("most ms", most),
            ];
            for (metric, values) in figures {
                done(Row {
                    experiment: "sql",
                    method: (*engine).to_owned(),
                    operator: query.name.to_owned(),
                    frame_bytes: 64 << 10,
                    metric,
                    values,
                });
            }
        }
    }
    Ok(())
}

/// Checks that every event is in the results once: in a window, or if it passes the filter.
fn check(query: &Query, measured: &Measured) -> Result<()> {
    let expected = match query.from.is_zero() {
        true => measured.sent.1,
        false => measured.sent.0,
    };
    if measured.counted == expected {
        return Ok(());
    }
    Err(BenchError::Lost {
        query: query.name,
        expected,
        found: measured.counted,
    })
}
