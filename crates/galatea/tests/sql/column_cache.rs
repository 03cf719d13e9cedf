//! The column cache on disk: sessions of a second engine read columns that the first one has encoded, and
//! return the same rows.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::physical_plan::collect;
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionContext};
use galatea::{EmulatorOptions, Engine};
use galatea_engine::session::Session;

use crate::compare::answer;
use crate::data::{Shape, batch};

/// Time after which the times of a file show the next change, so that its columns are cached.
pub(crate) const SETTLED: Duration = Duration::from_millis(2100);

const QUERIES: [&str; 3] = [
    "SELECT low, flag, count(*), min(f64), max(f32) FROM t GROUP BY low, flag ORDER BY low, flag",
    "SELECT count(*), sum(i16), min(i32), max(i64), sum(d9), max(d18), min(d38), min(day) FROM t",
    "SELECT n, name FROM c WHERE n % 500 = 7 ORDER BY n",
];

/// A session on the emulated device with an engine of its own, as of a new process.
async fn session(folder: &Path, limit: &str) -> SessionContext {
    let engine = Engine::builder()
        .with_emulated_device(EmulatorOptions::default())
        .with_setting("galatea.cache.disk", limit)
        .with_setting("galatea.tuning.chunk_rows", "700")
        .with_column_folder(folder.join("columns"))
        .build()
        .expect("an engine");
    let ctx = galatea::session()
        .with_engine(&engine)
        .with_setting("galatea.device", "emulated")
        .with_setting("galatea.tuning.min_rows", "0")
        .with_setting("galatea.warmup", "off")
        .build()
        .expect("a session");
    let path = |name: &str| folder.join(name).to_str().expect("a path").to_owned();
    let options = ParquetReadOptions::default();
    ctx.register_parquet("t", path("t.parquet"), options)
        .await
        .expect("a table");
    let options = CsvReadOptions::new();
    ctx.register_csv("c", path("c.csv"), options)
        .await
        .expect("a table");
    ctx
}

/// The rows of a query, as a table.
async fn text(ctx: &SessionContext, sql: &str) -> String {
    let rows = answer(ctx, sql).await;
    pretty_format_batches(&rows).expect("printable").to_string()
}

async fn answers(ctx: &SessionContext) -> Vec<String> {
    let mut all = Vec::new();
    for sql in QUERIES {
        all.push(text(ctx, sql).await);
        let report = galatea::last_query_report(ctx).expect("a report");
        assert_ne!(
            report.device,
            galatea::QueryDevice::Cpu,
            "{sql}: {:?}",
            report.reasons
        );
    }
    all
}

fn counts(ctx: &SessionContext) -> Option<galatea_store::DiskCacheCounts> {
    let session: Arc<Session> = ctx.copied_config().get_extension().expect("a Galatea session");
    let cache = session.engine().store().disk_cache();
    cache.map(|cache| cache.counts())
}

fn write(folder: &Path, seed: u64) {
    let rows = batch(3000, seed, Shape::Ordinary);
    let file = File::create(folder.join("t.parquet")).expect("a file");
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(500))
        .build();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).expect("a writer");
    writer.write(&rows).expect("written");
    writer.close().expect("closed");
    let lines: String = (0..4000)
        .map(|row| format!("{row},name {}\n", row % 90))
        .collect();
    std::fs::write(folder.join("c.csv"), format!("n,name\n{lines}")).expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_engine_reads_columns_of_first() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 5);
    tokio::time::sleep(SETTLED).await;
    let first = session(folder.path(), "1 GiB").await;
    let expected = answers(&first).await;
    assert!(galatea::finish_column_writes(&first, Duration::from_secs(120)).await);
    let written = counts(&first).expect("a cache").written;
    assert!(written > 5, "{written}");

    let second = session(folder.path(), "1 GiB").await;
    let frame = second.sql(QUERIES[1]).await.expect("a plan");
    let plan = frame.create_physical_plan().await.expect("a plan");
    let rows = collect(Arc::clone(&plan), second.task_ctx()).await;
    rows.expect("rows");
    let explained = galatea::outline(&plan, true);
    assert!(explained.contains("from the column cache"), "{explained}");
    assert!(!explained.contains("from files"), "{explained}");
    assert_eq!(answers(&second).await, expected);
    let of_second = counts(&second).expect("a cache");
    assert_eq!((of_second.read, of_second.written), (written, 0), "{of_second:?}");

    // After a change, the new rows are read.
    write(folder.path(), 6);
    tokio::time::sleep(SETTLED).await;
    let third = session(folder.path(), "1 GiB").await;
    let changed = answers(&third).await;
    let off = session(folder.path(), "off").await;
    assert_eq!(answers(&off).await, changed);
    assert_ne!(changed, expected);
    assert_eq!(counts(&third).expect("a cache").read, 0);
    assert!(counts(&off).is_none());
}

#[tokio::test]
async fn cache_is_switched_by_alter_system() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 5);
    tokio::time::sleep(SETTLED).await;
    let ctx = session(folder.path(), "off").await;
    assert!(counts(&ctx).is_none() && !folder.path().join("columns").exists());
    let set = async |value: &str| {
        let sql = format!("ALTER SYSTEM SET galatea.cache.disk = '{value}'");
        let frame = galatea::sql(&ctx, &sql).await?;
        frame.collect().await
    };
    set("100 MiB").await.expect("a size");
    assert!(counts(&ctx).is_some());
    // The folder is created at the first use.
    assert!(!folder.path().join("columns").exists());
    answers(&ctx).await;
    assert!(folder.path().join("columns").exists());
    set("auto").await.expect("auto");
    assert!(counts(&ctx).is_some());
    set("0").await.expect("off");
    assert!(counts(&ctx).is_none());
    let refused = set("10%").await.expect_err("no share of the disk");
    assert!(
        refused.to_string().contains("accepts off, auto, or a size"),
        "{refused}"
    );
}

#[tokio::test]
async fn folders_that_others_can_write_are_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), 5);
    tokio::time::sleep(SETTLED).await;
    let columns = folder.path().join("columns");
    std::fs::create_dir(&columns).expect("a folder");
    std::fs::set_permissions(&columns, PermissionsExt::from_mode(0o777)).expect("permitted");
    let ctx = session(folder.path(), "1 GiB").await;
    answers(&ctx).await;
    assert!(galatea::finish_column_writes(&ctx, Duration::from_secs(60)).await);
    assert_eq!(counts(&ctx), Some(galatea_store::DiskCacheCounts::default()));
    assert_eq!(std::fs::read_dir(&columns).expect("a folder").count(), 0);
}
