//! Tables in files contain the same rows as DataFusion reads.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::concat_batches;
use arrow::datatypes::*;
use datafusion::datasource::file_format::options::ArrowReadOptions;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::*;
use galatea_store::*;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};

use crate::data::{Nulls, Shape, all_types, array};
use crate::round_trip::{assert_same, decoded};

pub(crate) fn store() -> Arc<Store> {
    Store::new(StoreOptions {
        memory_limit: Some(1 << 30),
        chunk_rows: 1000,
        ..StoreOptions::default()
    })
}

/// The file scan of a plan.
pub(crate) fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> FileScanConfig {
    if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
        return source
            .data_source()
            .downcast_ref::<FileScanConfig>()
            .unwrap()
            .clone();
    }
    scan_of(plan.children()[0])
}

pub(crate) async fn scan(context: &SessionContext, sql: &str) -> FileScanConfig {
    scan_of(
        &context
            .sql(sql)
            .await
            .unwrap()
            .create_physical_plan()
            .await
            .unwrap(),
    )
}

pub(crate) async fn file_table(context: &SessionContext, store: &Arc<Store>, sql: &str) -> Arc<FileTable> {
    store
        .file_table(&scan(context, sql).await, &context.runtime_env())
        .unwrap()
}

/// All columns of a table as one batch.
async fn loaded(table: &FileTable) -> RecordBatch {
    let schema = ColumnSource::schema(table);
    let columns: Vec<usize> = (0..schema.fields().len()).collect();
    let view = table.load(&columns, &LoadHints::default(), None).await.unwrap();
    assert!(view.columns.iter().all(|column| column.rows() == view.rows));
    RecordBatch::try_new(schema, view.columns.iter().map(decoded).collect()).unwrap()
}

/// The rows that DataFusion's own reader returns, in the order of files.
async fn read_by_datafusion(context: &SessionContext, table: &str) -> RecordBatch {
    let plan = context
        .table(table)
        .await
        .unwrap()
        .create_physical_plan()
        .await
        .unwrap();
    let schema = plan.schema();
    let batches = collect(plan, Arc::new(TaskContext::from(&context.state())))
        .await
        .unwrap();
    concat_batches(&schema, &batches).unwrap()
}

fn assert_same_batch(expected: &RecordBatch, actual: &RecordBatch, what: &str) {
    for (field, (expected, actual)) in expected
        .schema()
        .fields()
        .iter()
        .zip(expected.columns().iter().zip(actual.columns()))
    {
        assert_same(expected, actual, &format!("{what}, column {}", field.name()));
    }
    assert_eq!(expected.num_columns(), actual.num_columns());
}

/// A context with one partition, so that DataFusion returns rows in the order of files.
pub(crate) fn context() -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1))
}

/// A column of every type that Parquet can hold.
pub(crate) fn batch(rows: usize, shape: Shape, nulls: Nulls, seed: u64) -> RecordBatch {
    let writable = |data_type: &DataType| {
        !matches!(
            data_type,
            DataType::Null | DataType::Duration(_) | DataType::Float16
        ) && !matches!(data_type, DataType::Dictionary(_, values) if values.as_ref() != &DataType::Utf8)
            && !matches!(data_type, DataType::Dictionary(key, _) if key.as_ref() == &DataType::UInt64)
            && *data_type != DataType::Date64
    };
    let types = all_types().into_iter().filter(writable).enumerate();
    let columns = types.map(|(index, data_type)| {
        (
            format!("c{index}"),
            array(&data_type, rows, shape, nulls, seed + index as u64),
            true,
        )
    });
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

pub(crate) fn write(path: &Path, batch: &RecordBatch, properties: WriterProperties) {
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

pub(crate) fn properties() -> parquet::file::properties::WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(300))
        .set_data_page_row_count_limit(100)
}

#[tokio::test]
async fn parquet_columns_equal_datafusions() {
    let variants = [
        ("plain", properties().set_dictionary_enabled(false)),
        ("dictionary", properties().set_compression(Compression::SNAPPY)),
        (
            "spilled dictionary",
            properties()
                .set_dictionary_page_size_limit(64)
                .set_write_batch_size(16),
        ),
        (
            "v2 zstd",
            properties()
                .set_writer_version(WriterVersion::PARQUET_2_0)
                .set_compression(Compression::ZSTD(ZstdLevel::default())),
        ),
        (
            "no statistics",
            properties().set_statistics_enabled(EnabledStatistics::None),
        ),
    ];
    for (name, properties) in variants {
        let properties = properties.build();
        let directory = tempfile::tempdir().unwrap();
        for (file, (shape, nulls)) in [
            (Shape::Random, Nulls::Some),
            (Shape::Few, Nulls::No),
            (Shape::Skewed, Nulls::Some),
        ]
        .into_iter()
        .enumerate()
        {
            write(
                &directory.path().join(format!("{file}.parquet")),
                &batch(850, shape, nulls, 5),
                properties.clone(),
            );
        }
        let context = context();
        let path = directory.path().to_str().unwrap();
        context
            .register_parquet("t", path, ParquetReadOptions::default())
            .await
            .unwrap();
        let table = file_table(&context, &store(), "select * from t").await;
        assert_same_batch(
            &read_by_datafusion(&context, "t").await,
            &loaded(&table).await,
            name,
        );
        // Whole row groups, of two files if they fit.
        let view = table.load(&[], &LoadHints::default(), None).await.unwrap();
        assert_eq!(view.chunk_rows, [850, 850, 850], "{name}");
    }
}

#[tokio::test]
async fn scans_of_file_parts_load_whole_files() {
    let directory = tempfile::tempdir().unwrap();
    for file in 0..3 {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(
            (0..5000).map(|row| file * 5000 + row),
        ));
        let batch = RecordBatch::try_from_iter([("n", numbers)]).unwrap();
        write(
            &directory.path().join(format!("{file}.parquet")),
            &batch,
            properties().build(),
        );
    }
    let config = SessionConfig::new()
        .with_target_partitions(7)
        .set_bool("datafusion.optimizer.repartition_file_scans", true)
        .set_u64("datafusion.optimizer.repartition_file_min_size", 1);
    let context = SessionContext::new_with_config(config);
    context
        .register_parquet(
            "t",
            directory.path().to_str().unwrap(),
            ParquetReadOptions::default(),
        )
        .await
        .unwrap();
    let scan = scan(&context, "select sum(n) from t").await;
    assert!(scan.file_groups.len() > 3, "{}", scan.file_groups.len());
    let table = store().file_table(&scan, &context.runtime_env()).unwrap();
    let expected: ArrayRef = Arc::new(Int64Array::from_iter_values(0..15_000));
    assert_same(&expected, loaded(&table).await.column(0), "whole files in order");
}

#[tokio::test]
async fn file_columns_are_cast_to_the_table_schema() {
    let directory = tempfile::tempdir().unwrap();
    let narrow: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Int32Array::from(vec![Some(1), None, Some(-3)]))),
        ("s", Arc::new(StringArray::from(vec![Some("x"), Some("y"), None]))),
        ("t", Arc::new(TimestampMillisecondArray::from(vec![1, 2, 3]))),
    ];
    let wide: Vec<(&str, ArrayRef)> = vec![
        ("extra", Arc::new(Int32Array::from(vec![1]))),
        ("s", Arc::new(LargeStringArray::from(vec!["z"]))),
        ("a", Arc::new(Int64Array::from(vec![1i64 << 40]))),
    ];
    write(
        &directory.path().join("1.parquet"),
        &RecordBatch::try_from_iter(narrow).unwrap(),
        properties().build(),
    );
    write(
        &directory.path().join("2.parquet"),
        &RecordBatch::try_from_iter(wide).unwrap(),
        properties().build(),
    );
    let schema = Schema::new(vec![
        Field::new("s", DataType::Utf8View, true),
        Field::new("a", DataType::Int64, true),
        Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("nowhere", DataType::Decimal128(10, 2), true),
    ]);
    let context = context();
    let options = ParquetReadOptions::default().schema(&schema);
    context
        .register_parquet("t", directory.path().to_str().unwrap(), options)
        .await
        .unwrap();
    let table = file_table(&context, &store(), "select * from t").await;
    assert_same_batch(
        &read_by_datafusion(&context, "t").await,
        &loaded(&table).await,
        "adapted",
    );
}

#[tokio::test]
async fn hive_partitions_are_columns() {
    let directory = tempfile::tempdir().unwrap();
    for (year, region) in [(2024, "eu"), (2024, "us"), (2025, "eu")] {
        let folder = directory.path().join(format!("year={year}/region={region}"));
        std::fs::create_dir_all(&folder).unwrap();
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..70));
        write(
            &folder.join("f.parquet"),
            &RecordBatch::try_from_iter([("n", numbers)]).unwrap(),
            properties().build(),
        );
    }
    let context = context();
    let path = directory.path().to_str().unwrap();
    let create = format!(
        "create external table t (n bigint, year int, region varchar) stored as parquet partitioned by (year, region) location '{path}'"
    );
    context.sql(&create).await.unwrap().collect().await.unwrap();
    let table = file_table(&context, &store(), "select * from t").await;
    assert_same_batch(
        &read_by_datafusion(&context, "t").await,
        &loaded(&table).await,
        "partitions",
    );
}

#[tokio::test]
async fn other_formats_are_read_by_datafusion() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let mut csv = "id;name;price\n".to_owned();
    let mut json = String::new();
    for row in 0..3500 {
        csv += &format!(
            "{row};\"name {}\";{}\n",
            row % 7,
            if row % 5 == 0 {
                String::new()
            } else {
                format!("{row}.25")
            }
        );
        json += &format!("{{\"id\": {row}, \"name\": \"name {}\"}}\n", row % 7);
    }
    std::fs::write(path("f.csv"), csv).unwrap();
    std::fs::write(path("f.json"), json).unwrap();
    let context = context();
    context
        .register_csv("csv", path("f.csv"), CsvReadOptions::new().delimiter(b';'))
        .await
        .unwrap();
    context
        .register_json("json", path("f.json"), JsonReadOptions::default())
        .await
        .unwrap();
    let arrow = batch(3000, Shape::Random, Nulls::Some, 9);
    let mut writer =
        arrow::ipc::writer::FileWriter::try_new(File::create(path("f.arrow")).unwrap(), &arrow.schema())
            .unwrap();
    writer.write(&arrow).unwrap();
    writer.finish().unwrap();
    context
        .register_arrow("arrow", &path("f.arrow"), ArrowReadOptions::default())
        .await
        .unwrap();
    for name in ["csv", "json", "arrow"] {
        let table = file_table(&context, &store(), &format!("select * from {name}")).await;
        assert_same_batch(
            &read_by_datafusion(&context, name).await,
            &loaded(&table).await,
            name,
        );
        let view = table.load(&[], &LoadHints::default(), None).await.unwrap();
        assert!(view.chunk_rows.len() >= 3, "{name} {:?}", view.chunk_rows);
    }
    // A scan of one column identifies the whole CSV file, so columns loaded later share its chunks.
    let table = file_table(&context, &store(), "select name from csv where name < 'name 3'").await;
    let name = table.load(&[1], &LoadHints::default(), None).await.unwrap();
    let rest = table.load(&[2, 0], &LoadHints::default(), None).await.unwrap();
    assert_eq!((name.id, &name.chunk_rows), (rest.id, &rest.chunk_rows));
    let expected = read_by_datafusion(&context, "csv").await;
    assert_same(expected.column(0), &decoded(&rest.columns[1]), "csv id");
    // Without any column, only rows are counted.
    let table = file_table(&context, &store(), "select id from json").await;
    assert_eq!(
        table.load(&[], &LoadHints::default(), None).await.unwrap().rows,
        3500
    );
}

/// A large CSV file is split into ranges. Its rows stay in order.
#[tokio::test]
async fn large_csv_stays_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.csv");
    let mut csv = "id,text\n".to_owned();
    for row in 0..400_000 {
        csv += &format!(
            "{row},some text that makes the line of a file a bit longer {}\n",
            row % 10
        );
    }
    std::fs::write(&path, csv).unwrap();
    let context = context();
    context
        .register_csv("t", path.to_str().unwrap(), CsvReadOptions::new())
        .await
        .unwrap();
    let store = Store::new(StoreOptions {
        memory_limit: Some(1 << 30),
        chunk_rows: 1 << 16,
        ..StoreOptions::default()
    });
    let table = file_table(&context, &store, "select id from t").await;
    let view = table.load(&[0], &LoadHints::default(), None).await.unwrap();
    let expected: ArrayRef = Arc::new(Int64Array::from_iter_values(0..400_000));
    assert_same(&expected, &decoded(&view.columns[0]), "order");
    assert!(view.chunk_rows.len() > 7, "{:?}", view.chunk_rows);
}

#[tokio::test]
async fn damaged_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.parquet");
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..900).map(|row| row * row * 7919)));
    let other: ArrayRef = Arc::new(Int64Array::from_iter_values(0..900));
    let batch = RecordBatch::try_from_iter([("good", other), ("bad", numbers)]).unwrap();
    let properties = properties()
        .set_dictionary_enabled(false)
        .set_compression(Compression::SNAPPY)
        .build();
    write(&path, &batch, properties);
    let context = context();
    context
        .register_parquet("t", path.to_str().unwrap(), ParquetReadOptions::default())
        .await
        .unwrap();
    let scan = scan(&context, "select * from t").await;
    let metadata = parquet::file::metadata::ParquetMetaDataReader::new()
        .parse_and_finish(&File::open(&path).unwrap())
        .unwrap();
    let (start, length) = metadata.row_group(1).column(1).byte_range();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[start as usize..(start + length) as usize].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let table = store().file_table(&scan, &context.runtime_env()).unwrap();
    table.load(&[0], &LoadHints::default(), None).await.unwrap();
    match table.load(&[1], &LoadHints::default(), None).await.unwrap_err() {
        StoreError::CorruptFile {
            file,
            column,
            row_group,
            ..
        } => {
            assert_eq!(
                (file.as_str(), column.as_deref(), row_group),
                (path.to_str().unwrap(), Some("bad"), Some(1))
            );
        }
        other => panic!("{other}"),
    }
    // No footer at all.
    std::fs::write(&path, b"not a parquet file, but longer than a footer").unwrap();
    match table.load(&[0], &LoadHints::default(), None).await.unwrap_err() {
        StoreError::CorruptFile {
            file, column: None, ..
        } => assert_eq!(file, path.to_str().unwrap()),
        other => panic!("{other}"),
    }
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(
        table.load(&[0], &LoadHints::default(), None).await.unwrap_err(),
        StoreError::Io { .. }
    ));
}

#[tokio::test]
async fn nested_columns_are_refused_by_name_and_others_load() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.parquet");
    let list: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([
        Some(vec![Some(1)]),
        None,
    ]));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![4, 5]));
    write(
        &path,
        &RecordBatch::try_from_iter([("list", list), ("n", numbers)]).unwrap(),
        properties().build(),
    );
    let context = context();
    context
        .register_parquet("t", path.to_str().unwrap(), ParquetReadOptions::default())
        .await
        .unwrap();
    let table = file_table(&context, &store(), "select * from t").await;
    assert_eq!(
        table.load(&[1], &LoadHints::default(), None).await.unwrap().rows,
        2
    );
    match table.load(&[0], &LoadHints::default(), None).await.unwrap_err() {
        StoreError::UnsupportedType { column, .. } => assert_eq!(column, "list"),
        other => panic!("{other}"),
    }
    assert!(matches!(
        table.load(&[2], &LoadHints::default(), None).await,
        Err(StoreError::UnknownColumn { index: 2, columns: 2 })
    ));
}
