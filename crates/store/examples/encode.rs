//! Measures how fast a table like TPC-H's lineitem is encoded: from record batches, and from a Parquet file,
//! compared with only reading the file.
//!
//! `cargo run --release -p galatea-store --example encode -- [million rows, default 8]`

use std::error::Error;
use std::fs::File;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::*;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use galatea_store::{ColumnSource, Encoding, FileTable, LoadHints, Store, StoreOptions, StoredTable};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Rows of one generated batch.
const BATCH: usize = 1 << 16;

fn batch(seed: u64) -> Result<RecordBatch, Box<dyn Error>> {
    let rng = &mut SmallRng::seed_from_u64(seed);
    let mut decimals = |range: std::ops::Range<i64>, step: i64| -> Result<ArrayRef, Box<dyn Error>> {
        let values = (0..BATCH).map(|_| i128::from(rng.random_range(range.clone()) * step));
        Ok(Arc::new(
            Decimal128Array::from_iter_values(values).with_precision_and_scale(15, 2)?,
        ))
    };
    let (quantity, price) = (decimals(1..51, 100)?, decimals(90_000..10_500_000, 1)?);
    let (discount, tax) = (decimals(0..11, 1)?, decimals(0..9, 1)?);
    let start = seed as i64 * BATCH as i64;
    let order_key: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..BATCH as i64).map(|row| (start + row) / 4),
    ));
    let part_key: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..BATCH).map(|_| rng.random_range(1..20_000_000)),
    ));
    let words = |rng: &mut SmallRng, words: &[&str]| -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(
            (0..BATCH).map(|_| words[rng.random_range(0..words.len())]),
        ))
    };
    let flag = words(rng, &["A", "N", "R"]);
    let instruction = words(
        rng,
        &["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"],
    );
    let ship_date: ArrayRef = Arc::new(Date32Array::from_iter_values(
        (0..BATCH).map(|_| rng.random_range(8036..10_562)),
    ));
    let comments = (0..BATCH).map(|_| {
        let length = rng.random_range(10..44);
        (0..length)
            .map(|_| char::from(rng.random_range(b'a'..=b'z')))
            .collect::<String>()
    });
    let comment: ArrayRef = Arc::new(StringViewArray::from_iter_values(comments));
    Ok(RecordBatch::try_from_iter([
        ("orderkey", order_key),
        ("partkey", part_key),
        ("quantity", quantity),
        ("extendedprice", price),
        ("discount", discount),
        ("tax", tax),
        ("returnflag", flag),
        ("shipinstruct", instruction),
        ("shipdate", ship_date),
        ("comment", comment),
    ])?)
}

fn describe(encoding: &Encoding) -> String {
    match encoding {
        Encoding::Dictionary { width, values } => {
            format!("dictionary of {}, width {}", values.len(), width.bytes())
        }
        other => format!("{other:?}"),
    }
}

fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    match plan.downcast_ref::<DataSourceExec>() {
        Some(source) => source.data_source().downcast_ref(),
        None => plan.children().first().and_then(|child| scan_of(child)),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let millions: usize = std::env::args()
        .nth(1)
        .map_or(Ok(8), |argument| argument.parse())?;
    let batches = (0..(millions << 20).div_ceil(BATCH) as u64)
        .map(batch)
        .collect::<Result<Vec<_>, _>>()?;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let arrow_bytes: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
    let store = Store::new(StoreOptions::default());
    let threads = rayon::current_num_threads();
    println!(
        "{rows} rows, {:.2} GB of Arrow, {threads} threads",
        arrow_bytes as f64 / 1e9
    );

    for (index, field) in batches[0].schema().fields().iter().enumerate() {
        let column = batches
            .iter()
            .map(|batch| batch.project(&[index]))
            .collect::<Result<Vec<_>, _>>()?;
        let bytes: usize = column.iter().map(RecordBatch::get_array_memory_size).sum();
        let schema = column[0].schema();
        let start = Instant::now();
        let table = StoredTable::from_batches(&store, "column", schema, column)?;
        let seconds = start.elapsed().as_secs_f64();
        let encoded = &table.snapshot().columns[0];
        println!(
            "  {:14} {:6.2} GB/s {:8.1} M rows/s  {:5.2} B/row  {}",
            field.name(),
            bytes as f64 / seconds / 1e9,
            rows as f64 / seconds / 1e6,
            encoded.scan_bytes() as f64 / rows as f64,
            describe(&encoded.encoding)
        );
    }
    let start = Instant::now();
    let table = StoredTable::from_batches(&store, "lineitem", batches[0].schema(), batches.iter().cloned())?;
    let seconds = start.elapsed().as_secs_f64();
    let encoded: u64 = table.snapshot().columns.iter().map(|column| column.bytes()).sum();
    println!(
        "all columns: {:.3} s, {:.2} GB/s of Arrow, {:.2} GB encoded",
        seconds,
        arrow_bytes as f64 / seconds / 1e9,
        encoded as f64 / 1e9
    );
    drop(table);

    let path = std::env::temp_dir().join(format!("galatea-encode-{}.parquet", std::process::id()));
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .build();
    let mut writer = ArrowWriter::try_new(File::create(&path)?, batches[0].schema(), Some(properties))?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    writer.close()?;
    drop(batches);
    let result = from_parquet(&store, &path.to_string_lossy(), rows).await;
    std::fs::remove_file(&path)?;
    result
}

async fn from_parquet(store: &Arc<Store>, path: &str, rows: usize) -> Result<(), Box<dyn Error>> {
    let config = SessionConfig::new().with_target_partitions(rayon::current_num_threads());
    let context = SessionContext::new_with_config(config);
    context
        .register_parquet("lineitem", path, ParquetReadOptions::default())
        .await?;
    let q1 = "quantity, extendedprice, discount, tax, returnflag, shipdate";
    for columns in [q1, "*"] {
        let frame = context.sql(&format!("select {columns} from lineitem")).await?;
        let plan = frame.clone().create_physical_plan().await?;
        let start = Instant::now();
        let streams = frame.execute_stream_partitioned().await?;
        let drained = streams
            .into_iter()
            .map(|stream| tokio::spawn(futures::StreamExt::count(stream)));
        futures::future::try_join_all(drained).await?;
        let reading = start.elapsed().as_secs_f64();

        let scan = scan_of(&plan).ok_or("no file scan in the plan")?;
        let table: Arc<FileTable> = store.file_table(scan, &context.runtime_env())?;
        let schema = plan.schema();
        let names = schema
            .fields()
            .iter()
            .map(|field| ColumnSource::schema(table.as_ref()).index_of(field.name()));
        let wanted = names.collect::<Result<Vec<_>, _>>()?;
        store.clear_cache();
        let start = Instant::now();
        let view = table.load(&wanted, &LoadHints::default(), None).await?;
        let loading = start.elapsed().as_secs_f64();
        let start = Instant::now();
        table.load(&wanted, &LoadHints::default(), None).await?;
        let again = start.elapsed();
        println!(
            "Parquet, {} columns, {} chunks: DataFusion reads {:.3} s ({:.1} M rows/s), the store loads {:.3} s ({:.1} M rows/s), again {again:?}",
            view.columns.len(),
            view.chunk_rows.len(),
            reading,
            rows as f64 / reading / 1e6,
            loading,
            rows as f64 / loading / 1e6,
        );
    }
    Ok(())
}
