//! The metrics that queries record with a recorder installed. This is the only test of its program, because a
//! recorder belongs to the process.

use datafusion::prelude::SessionContext;
use galatea::EmulatorOptions;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The values of a metric: one of a counter or gauge, all of a histogram.
#[derive(Debug, Default)]
struct Values(Mutex<Vec<f64>>);

impl CounterFn for Values {
    fn increment(&self, value: u64) {
        self.increment_by(value as f64);
    }

    fn absolute(&self, value: u64) {
        *self.0.lock().expect("no panic") = vec![value as f64];
    }
}

impl GaugeFn for Values {
    fn increment(&self, value: f64) {
        self.increment_by(value);
    }

    fn decrement(&self, value: f64) {
        self.increment_by(-value);
    }

    fn set(&self, value: f64) {
        *self.0.lock().expect("no panic") = vec![value];
    }
}

impl HistogramFn for Values {
    fn record(&self, value: f64) {
        self.0.lock().expect("no panic").push(value);
    }
}

impl Values {
    fn increment_by(&self, value: f64) {
        let mut values = self.0.lock().expect("no panic");
        let sum = values.iter().sum::<f64>() + value;
        *values = vec![sum];
    }
}

/// A recorder that keeps all metrics, by name and labels.
#[derive(Debug, Default)]
struct Kept {
    values: Mutex<BTreeMap<String, Arc<Values>>>,
    described: Mutex<BTreeMap<String, Option<Unit>>>,
}

static KEPT: OnceLock<Kept> = OnceLock::new();

/// The recorder in the form that the crate `metrics` requires.
struct Handle;

impl Kept {
    fn of(&self, key: &Key) -> Arc<Values> {
        let labels = key.labels().map(|label| format!(" {}", label.value()));
        let name = key.name().to_string() + &labels.collect::<String>();
        Arc::clone(self.values.lock().expect("no panic").entry(name).or_default())
    }

    fn all(&self, name: &str) -> Vec<f64> {
        let values = self.values.lock().expect("no panic");
        values
            .get(name)
            .map_or_else(Vec::new, |values| values.0.lock().expect("no panic").clone())
    }

    /// The sum of a metric's values; 0 if it has none.
    fn sum(&self, name: &str) -> f64 {
        self.all(name).iter().sum()
    }
}

fn kept() -> &'static Kept {
    KEPT.get_or_init(Kept::default)
}

fn describe(key: KeyName, unit: Option<Unit>) {
    kept()
        .described
        .lock()
        .expect("no panic")
        .insert(key.as_str().to_string(), unit);
}

impl Recorder for Handle {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        describe(key, unit);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        describe(key, unit);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, _: SharedString) {
        describe(key, unit);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(kept().of(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(kept().of(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(kept().of(key))
    }
}

async fn run(ctx: &SessionContext, sql: &str) {
    let frame = galatea::sql(ctx, sql)
        .await
        .unwrap_or_else(|error| panic!("{sql}\n{error}"));
    frame
        .collect()
        .await
        .unwrap_or_else(|error| panic!("{sql}\n{error}"));
}

#[tokio::test]
async fn queries_are_counted() {
    metrics::set_global_recorder(Handle).expect("the first");
    galatea::metrics::describe();
    let ctx = galatea::session()
        .with_emulated_device(EmulatorOptions::default())
        .with_setting("galatea.device", "emulated")
        .with_setting("galatea.tuning.min_rows", "0")
        .with_setting("galatea.tuning.chunk_rows", "1000")
        .build()
        .expect("a session");
    let table = "CREATE TABLE t AS SELECT value * 7919 % 1000003 * 1000003 AS x, value * 3 AS y FROM generate_series(1, 20000) AS g(value)";
    run(&ctx, table).await;
    let kept = kept();
    let recorded: Vec<_> = kept.values.lock().expect("no panic").keys().cloned().collect();
    // Creating the table from rows was a query, too.
    assert_eq!(
        recorded,
        ["galatea_plans_total not_kept"],
        "before a pipeline ran"
    );
    run(&ctx, "SELECT sum(x) FROM t").await;
    assert_eq!(kept.sum("galatea_pipelines_total device"), 1.0);
    assert_eq!(kept.all("galatea_wait_seconds").len(), 1);
    let kernels = kept.all("galatea_kernel_seconds");
    assert!(kernels.len() == 1 && kernels[0] > 0.0, "{kernels:?}");
    assert_eq!(kept.sum("galatea_scanned_rows_total"), 20_000.0);
    assert!(kept.sum("galatea_launches_total") >= 1.0);
    let columns = kept.sum("galatea_device_bytes columns");
    // Four bytes a row, plus alignment.
    assert!((80_000.0..90_000.0).contains(&columns), "{columns} B");
    assert!(kept.sum("galatea_device_bytes working") > 0.0);
    assert!(kept.sum("galatea_device_bytes limit") > 1e6);
    let (up, down) = (
        "galatea_link_bytes_total to_device",
        "galatea_link_bytes_total to_host",
    );
    let copied = kept.sum(up);
    assert!(copied >= 80_000.0, "{copied} B copied");
    assert!(
        (8.0..10_000.0).contains(&kept.sum(down)),
        "{} B read",
        kept.sum(down)
    );
    // Nothing is copied again; rows are counted again.
    run(&ctx, "SELECT sum(x) FROM t").await;
    assert_eq!(kept.sum("galatea_pipelines_total device"), 2.0);
    assert_eq!(kept.sum("galatea_scanned_rows_total"), 40_000.0);
    assert!(kept.sum(up) < copied + 10_000.0);
    assert_eq!(
        (
            kept.sum("galatea_evicted_pages_total"),
            kept.all("galatea_run_seconds").len()
        ),
        (0.0, 2)
    );
    let plans = ["made", "reused"].map(|outcome| kept.sum(&format!("galatea_plans_total {outcome}")));
    assert_eq!(plans, [1.0, 1.0]);
    // The limit is too small for both columns, so pages are evicted.
    run(&ctx, "ALTER SYSTEM SET galatea.memory.gpu_limit = '100 KiB'").await;
    run(&ctx, "ALTER SYSTEM SET galatea.memory.replacement = 'lru'").await;
    run(&ctx, "SELECT sum(y) FROM t").await;
    assert!(kept.sum("galatea_evicted_pages_total") > 0.0);
    // Nothing fits, so the query falls back to the CPU.
    run(&ctx, "ALTER SYSTEM SET galatea.memory.gpu_limit = '1 KiB'").await;
    run(&ctx, "SELECT sum(x + 1) FROM t").await;
    assert_eq!(kept.sum("galatea_pipelines_total fell_back"), 1.0);
    run(&ctx, "SET galatea.fallback = 'error'").await;
    let frame = ctx.sql("SELECT sum(x + 2) FROM t").await.expect("a plan");
    let error = frame.collect().await.expect_err("no room");
    assert_eq!(kept.sum("galatea_pipelines_total failed"), 1.0, "{error}");
    run(&ctx, "ALTER SYSTEM SET galatea.memory.gpu_limit = '100 KiB'").await;
    // The query is dropped at various points of its run; its duration depends on the machine.
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut attempt = 0;
    while kept.sum("galatea_pipelines_total cancelled") == 0.0 {
        assert!(Instant::now() < deadline, "no query was cancelled while it ran");
        let frame = ctx
            .sql("SELECT x, y FROM t WHERE x % 2 = 0")
            .await
            .expect("a plan");
        let mut stream = frame.execute_stream().await.expect("a stream");
        let wait = Duration::from_micros(50 << (attempt % 8));
        let _ = tokio::time::timeout(wait, futures::StreamExt::next(&mut stream)).await;
        drop(stream);
        // The thread that ran the query counts it.
        tokio::time::sleep(Duration::from_millis(1)).await;
        attempt += 1;
    }
    run(&ctx, "DROP TABLE t").await;
    // Every name has a description and a unit.
    let described = kept.described.lock().expect("no panic");
    for name in kept.values.lock().expect("no panic").keys() {
        let name = name.split(' ').next().expect("a name");
        let unit = described
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not described"));
        let expected = match name {
            name if name.ends_with("_seconds") => Unit::Seconds,
            name if name.contains("bytes") => Unit::Bytes,
            _ => Unit::Count,
        };
        assert_eq!(*unit, Some(expected), "{name}");
    }
}
