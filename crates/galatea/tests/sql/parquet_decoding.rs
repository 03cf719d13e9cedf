//! The emulated device decodes Parquet files: the CPU's answers for all encodings, in little memory, with
//! failing driver calls, after cancellation, and after changes of the setting.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::compute::concat_batches;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, Encoding, ZstdLevel};
use datafusion::parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use datafusion::physical_plan::{collect, execute_stream};
use datafusion::prelude::ParquetReadOptions;
use futures::StreamExt;
use galatea::{EmulatorOptions, GalateaConfig};
use galatea_device::{DriverCall, FaultCode, Faults};
use galatea_engine::device::DeviceRuntime;
use galatea_engine::session::Session;
use tempfile::TempDir;

use crate::compare::{Pair, answer, same};
use crate::data::{Shape, batch};
use crate::joins::text;

/// Queries that read columns of every type.
const QUERIES: &[&str] = &[
    "SELECT count(*), count(i8), sum(i16), min(i32), max(i64), sum(d9), max(d18), min(d38), min(day) FROM t",
    "SELECT low, flag, count(*), min(f64), max(f32) FROM t GROUP BY low, flag",
    "SELECT i32, u8, high, t.\"view\" FROM t WHERE i32 % 3 = 1",
];

/// Files with a table `t` in two sessions, and the handle of the faults of their device.
struct Bed {
    folder: TempDir,
    pair: Pair,
    faults: Faults,
}

impl Bed {
    fn new(settings: &[(&str, &str)]) -> Self {
        let faults = Faults::default();
        let emulator = EmulatorOptions {
            faults: faults.clone(),
            ..EmulatorOptions::default()
        };
        let mut all = vec![
            ("galatea.tuning.parquet_decoding", "device"),
            ("galatea.tuning.chunk_rows", "400"),
            ("galatea.tuning.block_threads", "32"),
            ("galatea.tuning.min_rows", "0"),
            // Each query loads its columns again.
            ("galatea.cache.files", "false"),
        ];
        all.extend(settings);
        Self {
            folder: tempfile::tempdir().expect("a folder"),
            pair: Pair::emulated(emulator, &all),
            faults,
        }
    }

    /// Writes a file of the table, in row groups of these rows.
    fn write(
        &self,
        name: &str,
        rows: &RecordBatch,
        properties: WriterPropertiesBuilder,
        row_groups: &[usize],
    ) {
        write(&self.folder.path().join(name), rows, properties, row_groups);
    }

    /// Registers the files as `t`.
    async fn register(&self) {
        let path = self.folder.path().display().to_string();
        for ctx in [&self.pair.cpu, &self.pair.gpu] {
            let table = ctx.register_parquet("t", &path, ParquetReadOptions::default());
            table.await.expect("files of one schema");
        }
    }

    fn device(&self) -> Arc<DeviceRuntime> {
        let state = self.pair.gpu.state();
        let config = GalateaConfig::of(state.config_options());
        let session: Arc<Session> = state.config().get_extension().expect("a Galatea session");
        session.engine().device(&config).expect("the emulated device")
    }

    /// Bytes of device memory in use after all is freed that no query uses.
    fn level(&self) -> u64 {
        let runtime = self.device();
        runtime.clear().expect("evicted");
        runtime.device().synchronize().expect("idle");
        runtime.device().budget().used()
    }

    async fn explained(&self, sql: &str) -> String {
        text(&self.pair, &format!("EXPLAIN ANALYZE {sql}")).await
    }
}

fn write(path: &Path, rows: &RecordBatch, properties: WriterPropertiesBuilder, row_groups: &[usize]) {
    let file = std::fs::File::create(path).expect("a new file");
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties.build())).expect("a writer");
    let mut start = 0;
    for rows_of_group in row_groups {
        let end = rows.num_rows().min(start + rows_of_group);
        writer.write(&rows.slice(start, end - start)).expect("written");
        writer.flush().expect("a row group");
        start = end;
    }
    writer
        .write(&rows.slice(start, rows.num_rows() - start))
        .expect("written");
    writer.close().expect("a footer");
}

/// Small pages, so that a row group has several.
fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_data_page_row_count_limit(150)
        .set_write_batch_size(50)
}

/// Rows of all types: random, then with few values, then all NULL where NULL is possible.
fn rows(count: usize) -> RecordBatch {
    let parts = [
        batch(count / 2, 3, Shape::Ordinary),
        batch(count / 4, 4, Shape::Skewed),
        batch(count - count / 2 - count / 4, 5, Shape::AllNull),
    ];
    concat_batches(&parts[0].schema(), &parts).expect("one schema")
}

/// Ways to write the same rows: encodings, codecs, versions of pages, sizes of dictionaries.
fn variants() -> Vec<(&'static str, WriterPropertiesBuilder)> {
    let version_2 = || properties().set_writer_version(WriterVersion::PARQUET_2_0);
    vec![
        ("plain", properties().set_dictionary_enabled(false)),
        (
            "dictionaries, Snappy",
            properties().set_compression(Compression::SNAPPY),
        ),
        (
            "full dictionaries, LZ4",
            properties()
                .set_dictionary_page_size_limit(100)
                .set_compression(Compression::LZ4_RAW),
        ),
        (
            "deltas in version 2, Zstandard",
            version_2()
                .set_dictionary_enabled(false)
                .set_compression(Compression::ZSTD(ZstdLevel::default())),
        ),
        (
            "joined strings in version 2, Snappy",
            version_2()
                .set_dictionary_enabled(false)
                .set_column_encoding("high".into(), Encoding::DELTA_BYTE_ARRAY)
                .set_column_encoding("f64".into(), Encoding::BYTE_STREAM_SPLIT)
                .set_compression(Compression::SNAPPY),
        ),
        (
            "gzip in version 2",
            version_2().set_compression(Compression::GZIP(Default::default())),
        ),
    ]
}

#[tokio::test]
async fn every_encoding_returns_the_rows_of_the_cpu() {
    let rows = rows(900);
    for (number, (name, properties)) in variants().into_iter().enumerate() {
        let bed = Bed::new(&[]);
        let shapes: [&[usize]; 3] = [&[], &[1, 100, 333], &[450, 450]];
        bed.write("a.parquet", &rows, properties.clone(), shapes[number % 3]);
        bed.write("b.parquet", &rows.slice(200, 60), properties, &[7]);
        bed.register().await;
        for sql in QUERIES {
            bed.pair.check(sql, true, name).await;
        }
        let plan = bed.explained(QUERIES[0]).await;
        assert!(
            plan.contains(" decoded on the GPU, 0 on the CPU"),
            "{name}\n{plan}"
        );
        assert!(!plan.contains(" 0 decoded on the GPU"), "{name}\n{plan}");
    }
}

/// A Parquet column that needs a cast, and one with a codec that the device's decoder lacks.
#[tokio::test]
async fn explain_analyze_shows_reasons_of_the_host() {
    let bed = Bed::new(&[]);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..500));
    let strings: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..500).map(|row| format!("s{}", row % 7)),
    ));
    let rows = RecordBatch::try_from_iter([("n", Arc::clone(&numbers)), ("s", strings), ("z", numbers)]);
    let lz4 = properties().set_column_compression("s".into(), Compression::LZ4);
    bed.write("a.parquet", &rows.expect("one length"), lz4, &[]);
    bed.register().await;
    let sql = "SELECT s, count(*), sum(n), max(z) FROM t GROUP BY s";
    bed.pair.check(sql, true, "reasons").await;
    let plan = bed.explained(sql).await;
    assert!(
        plan.contains("2 decoded on the GPU, 1 on the CPU (1 codec)"),
        "{plan}"
    );
    let frame = bed.pair.gpu.sql(sql).await.expect("a plan");
    let plan = frame.create_physical_plan().await.expect("a plan");
    collect(Arc::clone(&plan), bed.pair.gpu.task_ctx())
        .await
        .expect("an answer");
    let outline = galatea::outline(&plan, true);
    assert!(
        outline.contains("from files") && outline.contains("GB/s"),
        "{outline}"
    );
    let steps = outline.lines().find(|line| line.contains("load steps"));
    let steps = steps.expect("steps of the load");
    for step in [
        "open",
        "read",
        "decode",
        "encode",
        "decode on the device",
        "write",
    ] {
        assert!(steps.contains(&format!("{step} ")), "{step}: {steps}");
    }
}

#[tokio::test]
async fn setting_chooses_the_side_for_later_loads() {
    let bed = Bed::new(&[]);
    bed.write("a.parquet", &rows(400), properties(), &[]);
    bed.register().await;
    let sql = QUERIES[1];
    for (value, expected) in [
        ("device", "4 decoded on the GPU, 0 on the CPU"),
        ("host", "0 decoded on the GPU, 4 on the CPU (4 no device)"),
        // The emulated device runs on the cores of the host.
        ("auto", "0 decoded on the GPU, 4 on the CPU (4 no device)"),
        ("default", "0 decoded on the GPU, 4 on the CPU (4 no device)"),
        ("device", "4 decoded on the GPU, 0 on the CPU"),
    ] {
        let change = format!("ALTER SYSTEM SET galatea.tuning.parquet_decoding = '{value}'");
        galatea::sql(&bed.pair.gpu, &change).await.expect("changed");
        bed.pair.check(sql, true, value).await;
        let plan = bed.explained(sql).await;
        assert!(plan.contains(expected), "{value}\n{plan}");
    }
    let refused = galatea::sql(
        &bed.pair.gpu,
        "ALTER SYSTEM SET galatea.tuning.parquet_decoding = 'gpu'",
    )
    .await;
    let refused = refused.expect_err("no such side").to_string();
    assert!(refused.contains("accepts auto, device or host"), "{refused}");
}

#[tokio::test]
async fn host_decodes_if_device_memory_is_short() {
    let bed = Bed::new(&[
        ("galatea.tuning.chunk_rows", "4000"),
        ("galatea.memory.gpu_limit", "640 KiB"),
    ]);
    bed.write("a.parquet", &rows(4000), properties(), &[]);
    bed.register().await;
    for sql in QUERIES {
        bed.pair.check(sql, false, "little memory").await;
        assert!(bed.device().device().budget().peak() <= 640 << 10);
    }
    let plan = bed
        .explained("SELECT count(*), sum(i32) FROM t WHERE i32 > 0")
        .await;
    assert!(
        plan.contains("0 decoded on the GPU, 1 on the CPU (1 device memory)"),
        "{plan}"
    );
    // With more memory, the device decodes again.
    let change = "ALTER SYSTEM SET galatea.memory.gpu_limit = '64 MiB'";
    galatea::sql(&bed.pair.gpu, change).await.expect("changed");
    let plan = bed
        .explained("SELECT count(*), sum(i32) FROM t WHERE i32 > 0")
        .await;
    assert!(plan.contains("1 decoded on the GPU, 0 on the CPU"), "{plan}");
}

/// Each call of a load fails once. The answer is that of the CPU, and no memory remains in use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn loads_survive_failing_calls() {
    let bed = Bed::new(&[]);
    bed.write(
        "a.parquet",
        &rows(300),
        properties().set_compression(Compression::SNAPPY),
        &[],
    );
    bed.register().await;
    let sql = QUERIES[1];
    let expected = answer(&bed.pair.cpu, sql).await;
    let check = async |context: &str| {
        let rows = tokio::time::timeout(Duration::from_secs(60), answer(&bed.pair.gpu, sql)).await;
        let rows = rows.unwrap_or_else(|_| panic!("{context}: the query hangs"));
        same(&expected, &rows).unwrap_or_else(|difference| panic!("{context}\n{difference}"));
    };
    check("before").await;
    check("before").await;
    let level = bed.level();
    let mut injected = 0;
    for call in DriverCall::ALL {
        bed.faults.clear();
        check("counting").await;
        let calls = bed.faults.calls(call);
        let codes = [FaultCode::OutOfMemory, FaultCode::Refused, FaultCode::Lost];
        for (before, code) in (0..calls)
            .step_by((calls as usize / 6).max(1))
            .zip(codes.into_iter().cycle())
        {
            let context = format!("call {before} of {calls} {call:?} returns {code:?}");
            bed.faults.fail(call, before, 1, code);
            check(&context).await;
            injected += bed.faults.injected();
            bed.faults.clear();
            check(&context).await;
            assert_eq!(bed.level(), level, "{context}");
        }
    }
    assert!(injected > 30, "{injected} calls failed");
    let plan = bed.explained(sql).await;
    assert!(plan.contains("4 decoded on the GPU, 0 on the CPU"), "{plan}");
}

/// Queries are dropped while they load. Loads end soon, and later ones work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_queries_stop_their_loads() {
    let bed = Bed::new(&[("galatea.tuning.chunk_rows", "100")]);
    bed.write("a.parquet", &rows(6000), properties(), &[100; 60]);
    bed.register().await;
    let sql = QUERIES[0];
    let start = Instant::now();
    bed.pair.check(sql, true, "before").await;
    let whole = start.elapsed();
    let level = bed.level();
    for share in [0.05, 0.2, 0.4, 0.6] {
        let frame = bed.pair.gpu.sql(sql).await.expect("a plan");
        let plan = frame.create_physical_plan().await.expect("a plan");
        let mut stream = execute_stream(plan, bed.pair.gpu.task_ctx()).expect("a stream");
        let _ = tokio::time::timeout(whole.mul_f64(share), stream.next()).await;
        drop(stream);
        // Threads of the load end with the column chunk that they decode.
        let start = Instant::now();
        while bed.level() != level {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{share}: memory in use"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    bed.pair.check(sql, true, "after").await;
}

/// Several queries load different columns of the same files at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_loads_share_the_device() {
    let bed = Bed::new(&[]);
    bed.write("a.parquet", &rows(1200), properties(), &[300; 4]);
    bed.register().await;
    let mut running = Vec::new();
    for sql in QUERIES {
        let ctx = bed.pair.gpu.clone();
        running.push((sql, tokio::spawn(async move { answer(&ctx, sql).await })));
    }
    for (sql, running) in running {
        let expected = answer(&bed.pair.cpu, sql).await;
        let rows = running.await.expect("no panic");
        same(&expected, &rows).unwrap_or_else(|difference| panic!("{sql}\n{difference}"));
    }
}

/// A file that is changed is loaded again.
#[tokio::test]
async fn changed_files_are_decoded_again() {
    let bed = Bed::new(&[("galatea.cache.files", "true")]);
    let path: PathBuf = bed.folder.path().join("a.parquet");
    for (round, seed) in [7, 8].into_iter().enumerate() {
        write(
            &path,
            &batch(300 + seed as usize, seed, Shape::Ordinary),
            properties(),
            &[],
        );
        if round == 0 {
            bed.register().await;
        }
        bed.pair.check(QUERIES[1], true, "first").await;
        bed.pair.check(QUERIES[1], true, "cached").await;
    }
    let plan = bed.explained(QUERIES[1]).await;
    assert!(!plan.contains("column chunks"), "{plan}");
}
