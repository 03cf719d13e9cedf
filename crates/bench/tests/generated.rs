//! Generated kernels compile for a GPU, if NVRTC is found. The emulated device accepts code that NVRTC
//! refuses, such as a name from a header that the kernel does not include.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use galatea::EmulatorOptions;
use galatea_bench::random::{Family, Plan, Storage};
use galatea_device::{Architecture, Program, compile_for, environment, testing};
use galatea_kernels::headers;
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Collects the sources of the pipelines that the process generates, from the engine's log.
#[derive(Clone, Default)]
struct Sources(Arc<Mutex<BTreeSet<String>>>);

impl Subscriber for Sources {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("galatea_engine") && *metadata.level() <= Level::DEBUG
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Source(self));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The log field that contains the source.
struct Source<'s>(&'s Sources);

impl Visit for Source<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "source" {
            self.0.0.lock().insert(value.to_owned());
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

/// Statements that random queries do not contain.
const STATEMENTS: &[&str] = &[
    "CREATE TABLE t AS SELECT value AS k, value % 7 AS g, CAST(value AS DECIMAL(38, 0)) AS d FROM generate_series(1, 5000)",
    "SELECT count(*), sum(k) FROM t TABLESAMPLE BERNOULLI (10) REPEATABLE (7)",
    "SELECT g, count(*) FROM t TABLESAMPLE SYSTEM (30) REPEATABLE (3) GROUP BY g",
    "SELECT count(*), min(k) FROM t TABLESAMPLE (1000 ROWS) REPEATABLE (5)",
    "SELECT count(*) FROM t TABLESAMPLE BERNOULLI (5) REPEATABLE (9) JOIN t AS u ON t.k = u.k",
    "SELECT g, sum(d), avg(k) FROM t GROUP BY g",
    "SELECT max(s) FROM (SELECT g, sum(d) AS s FROM t GROUP BY g) WHERE s > 7",
    "SELECT x.c, y.c, x.s FROM (SELECT 'store' AS c, g, sum(k) AS s FROM t GROUP BY g) x
     JOIN (SELECT 'web' AS c, g, k, count(*) AS s FROM t GROUP BY g, k) y ON x.g = y.g",
];

#[tokio::test]
async fn generated_kernels_compile_for_a_gpu() {
    let Some(nvrtc) = testing::nvrtc() else { return };
    let sources = Sources::default();
    tracing::subscriber::set_global_default(sources.clone()).expect("the only one of the process");
    let ctx = galatea::session()
        .with_emulated_device(EmulatorOptions::default())
        .with_setting("galatea.device", "emulated")
        .with_setting("galatea.tuning.min_rows", "0")
        .with_setting("galatea.fallback", "error")
        .build()
        .expect("a session");
    for sql in STATEMENTS {
        let before = sources.0.lock().len();
        let frame = galatea::sql(&ctx, sql).await.expect(sql);
        frame.collect().await.expect(sql);
        let is_query = sql.starts_with("SELECT");
        assert!(
            !is_query || sources.0.lock().len() > before,
            "no new kernel: {sql}"
        );
    }
    let plan = Plan {
        seed: environment::seed(),
        queries: 48 + environment::campaign(),
        time: None,
        sessions: 1,
        families: Family::all(),
        tables: Storage::Mixed,
        files: None,
        settings: vec![("galatea.device".to_owned(), "emulated".to_owned())],
    };
    plan.run(|_, _| {}).await.expect("the emulated device");
    let sources = std::mem::take(&mut *sources.0.lock());
    assert!(sources.len() > 100, "{} kernels", sources.len());
    for source in &sources {
        let program = Program::new("pipeline", source)
            .headers(headers())
            .entry("pipeline");
        let image = compile_for(Architecture::SM_90, &program, &nvrtc);
        assert!(image.is_ok(), "{source}\n{image:?}");
    }
}
