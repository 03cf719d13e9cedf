//! Parquet files that are rewritten for fast loads.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, Date32Array, Date64Array, Float64Array, Int64Array, ListArray, RecordBatch, StringArray,
    TimestampMicrosecondArray, TimestampMillisecondArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Schema, TimeUnit};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use datafusion::parquet::arrow::arrow_writer::ArrowWriterOptions;
use datafusion::parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowWriter, encode_arrow_schema};
use datafusion::parquet::basic::{Compression, ConvertedType, Encoding, Type as PhysicalType, ZstdLevel};
use datafusion::parquet::file::metadata::{
    KeyValue, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData,
};
use datafusion::parquet::file::properties::WriterProperties;
use datafusion::prelude::ParquetReadOptions;
use galatea::{ColumnEncoding, OptimizeError, OptimizeOptions, Optimized, optimize};
use tempfile::TempDir;

use crate::compare::Pair;
use crate::data::{Shape, batch};

/// A folder with a source.
struct Bed {
    folder: TempDir,
    source: PathBuf,
}

impl Bed {
    fn new(rows: &RecordBatch, group: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("source.parquet");
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(group))
            .set_key_value_metadata(Some(vec![KeyValue::new("pandas".to_owned(), "{}".to_owned())]));
        let file = File::create(&source).expect("a file");
        let mut writer =
            ArrowWriter::try_new(file, rows.schema(), Some(properties.build())).expect("a writer");
        writer.write(rows).expect("rows");
        writer.close().expect("a footer");
        Self { folder, source }
    }

    fn target(&self) -> PathBuf {
        self.folder.path().join("target.parquet")
    }

    async fn optimize(&self, options: &OptimizeOptions) -> Result<Optimized, OptimizeError> {
        optimize(
            &self.source,
            &self.target(),
            options,
            &Arc::new(RuntimeEnv::default()),
        )
        .await
    }

    /// Names of the files in the folder.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).expect("a folder").flatten();
        let mut names: Vec<_> = entries
            .map(|entry| entry.file_name().display().to_string())
            .collect();
        names.sort();
        names
    }
}

fn sorted_by(columns: &[&str]) -> OptimizeOptions {
    OptimizeOptions {
        sort_by: columns.iter().map(|name| (*name).to_owned()).collect(),
        ..OptimizeOptions::default()
    }
}

/// All rows of a file, and its footer with the page index.
fn read(path: &Path) -> (RecordBatch, ParquetMetaData) {
    let open = || File::open(path).expect("a file");
    let reader = ParquetRecordBatchReaderBuilder::try_new(open()).expect("a footer");
    let schema = Arc::clone(reader.schema());
    let batches: Vec<_> = reader
        .build()
        .expect("a reader")
        .map(|batch| batch.expect("rows"))
        .collect();
    let index = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
    let footer = index.parse_and_finish(&open()).expect("a page index");
    (
        concat_batches(&schema, &batches).expect("rows of one schema"),
        footer,
    )
}

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn integers(values: impl IntoIterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

/// A number between 0 and 2^32, different for almost all rows.
fn scattered(row: i64) -> i64 {
    (row.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64) >> 32) & 0xFFFF_FFFF
}

#[tokio::test]
async fn rows_of_every_type_are_kept_in_their_order() {
    for (rows, group) in [(0, 10), (1, 10), (33, 33), (1000, 7), (1000, 1000)] {
        let rows = batch(rows, 7, Shape::Ordinary);
        let bed = Bed::new(&rows, group);
        let report = bed.optimize(&OptimizeOptions::default()).await.expect("a target");
        assert_eq!(report.rows, rows.num_rows() as u64);
        let (before, _) = read(&bed.source);
        let (after, footer) = read(&bed.target());
        assert_eq!(after, before, "{} rows in groups of {group}", rows.num_rows());
        let entries = footer.file_metadata().key_value_metadata().expect("entries");
        assert!(
            entries
                .iter()
                .any(|entry| entry.key == "pandas" && entry.value.as_deref() == Some("{}"))
        );
        assert_eq!(bed.files(), ["source.parquet", "target.parquet"]);
    }
}

#[tokio::test]
async fn nested_columns_are_kept() {
    let lists = [Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(3)])];
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
    let zone = TimestampMicrosecondArray::from(vec![Some(1), None, Some(-1), Some(i64::MAX)]);
    let rows = table(vec![
        ("lists", Arc::new(lists)),
        ("a.b", integers(0..4)),
        ("at", Arc::new(zone.with_timezone("+01:00"))),
    ]);
    let bed = Bed::new(&rows, 2);
    let report = bed.optimize(&OptimizeOptions::default()).await.expect("a target");
    assert_eq!(report.columns[0].encoding, None);
    assert_eq!(read(&bed.target()).0.columns(), rows.columns());
}

/// Arrow reads such a file of pyarrow as milliseconds. Other readers read days, before and after.
#[tokio::test]
async fn days_remain_days() {
    let days: ArrayRef = Arc::new(Date64Array::from(vec![Some(86_400_000), None, Some(-86_400_000)]));
    let rows = table(vec![("day", days)]);
    let folder = tempfile::tempdir().expect("a folder");
    let bed = Bed {
        source: folder.path().join("source.parquet"),
        folder,
    };
    let properties = WriterProperties::builder().set_coerce_types(true).build();
    let file = File::create(&bed.source).expect("a file");
    let mut writer = ArrowWriter::try_new(file, rows.schema(), Some(properties)).expect("a writer");
    writer.write(&rows).expect("rows");
    writer.close().expect("a footer");
    let types = |path: &Path| {
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).expect("a file"));
        let reader = reader.expect("a footer");
        let column = reader.parquet_schema().column(0);
        (column.physical_type(), column.converted_type())
    };
    assert_eq!(types(&bed.source), (PhysicalType::INT32, ConvertedType::DATE));
    bed.optimize(&OptimizeOptions::default()).await.expect("a target");
    assert_eq!(types(&bed.target()), (PhysicalType::INT32, ConvertedType::DATE));
    let after = read(&bed.target()).0;
    let days = after
        .column(0)
        .as_any()
        .downcast_ref::<Date32Array>()
        .expect("days");
    assert_eq!(days, &Date32Array::from(vec![Some(1), None, Some(-1)]));
}

/// Such a file of pyarrow has seconds in its Arrow schema, and milliseconds in its columns.
#[tokio::test]
async fn time_zones_of_other_units_are_kept() {
    let zone = |unit: TimeUnit| DataType::Timestamp(unit, Some("Europe/Berlin".into()));
    let field = |unit: TimeUnit| Field::new("at", zone(unit), true);
    let list = |unit: TimeUnit| Field::new("list", DataType::List(Arc::new(field(unit))), true);
    let schema = |unit: TimeUnit| Arc::new(Schema::new(vec![field(unit), list(unit)]));
    let times = TimestampMillisecondArray::from(vec![Some(1000), None]).with_timezone("Europe/Berlin");
    let offsets = OffsetBuffer::new(vec![0, 1, 2].into());
    let lists = ListArray::new(
        Arc::new(field(TimeUnit::Millisecond)),
        offsets,
        Arc::new(times.clone()),
        None,
    );
    let rows = RecordBatch::try_new(
        schema(TimeUnit::Millisecond),
        vec![Arc::new(times), Arc::new(lists)],
    );
    let rows = rows.expect("rows");
    let folder = tempfile::tempdir().expect("a folder");
    let bed = Bed {
        source: folder.path().join("source.parquet"),
        folder,
    };
    let stated = encode_arrow_schema(&schema(TimeUnit::Second));
    let entry = KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), stated);
    let properties = WriterProperties::builder()
        .set_key_value_metadata(Some(vec![entry]))
        .build();
    let options = ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true);
    let file = File::create(&bed.source).expect("a file");
    let mut writer = ArrowWriter::try_new_with_options(file, rows.schema(), options).expect("a writer");
    writer.write(&rows).expect("rows");
    writer.close().expect("a footer");
    let before = read(&bed.source).0;
    assert_eq!(
        *before.schema().field(0).data_type(),
        DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()))
    );
    bed.optimize(&OptimizeOptions::default()).await.expect("a target");
    assert_eq!(read(&bed.target()).0, rows);
}

#[tokio::test]
async fn the_smallest_encoding_is_chosen() {
    let count = 100_000;
    let words = ["air", "rail", "ship"];
    let rows = table(vec![
        ("ascending", integers((0..count).map(|row| row * 3))),
        ("few", integers((0..count).map(|row| scattered(row) % 5))),
        (
            "float",
            Arc::new(Float64Array::from_iter_values(
                (0..count).map(|row| 1.0 + scattered(row) as f64 / 1e12),
            )),
        ),
        (
            "word",
            Arc::new(StringArray::from_iter_values(
                (0..count).map(|row| words[row as usize % 3]),
            )),
        ),
        (
            "text",
            Arc::new(StringArray::from_iter_values(
                (0..count).map(|row| format!("{:x}", scattered(row))),
            )),
        ),
    ]);
    let bed = Bed::new(&rows, 10_000);
    let report = bed.optimize(&OptimizeOptions::default()).await.expect("a target");
    let chosen: Vec<_> = report
        .columns
        .iter()
        .map(|column| column.encoding.expect("an encoding"))
        .collect();
    assert_eq!(
        chosen,
        [
            ColumnEncoding::Delta,
            ColumnEncoding::Dictionary,
            ColumnEncoding::SplitBytes,
            ColumnEncoding::Dictionary,
            ColumnEncoding::DeltaLength,
        ]
    );
    let (after, footer) = read(&bed.target());
    assert_eq!(after.columns(), rows.columns());
    let written = [
        Encoding::DELTA_BINARY_PACKED,
        Encoding::RLE_DICTIONARY,
        Encoding::BYTE_STREAM_SPLIT,
        Encoding::RLE_DICTIONARY,
        Encoding::DELTA_LENGTH_BYTE_ARRAY,
    ];
    for (column, (encoding, reported)) in footer
        .row_group(0)
        .columns()
        .iter()
        .zip(written.iter().zip(&report.columns))
    {
        assert!(
            column.encodings().any(|found| found == *encoding),
            "{} {encoding}",
            reported.name
        );
        assert_eq!(column.compression(), Compression::SNAPPY);
        assert_eq!(
            column.compressed_size().unsigned_abs(),
            reported.bytes_after,
            "{}",
            reported.name
        );
    }
}

#[tokio::test]
async fn row_groups_have_the_rows_of_a_chunk_in_many_pages() {
    let rows = table(vec![("v", integers((0..(1 << 20) + 1).map(scattered)))]);
    let bed = Bed::new(&rows, 300_000);
    for options in [OptimizeOptions::default(), sorted_by(&["v"])] {
        let options = OptimizeOptions {
            replace: true,
            ..options
        };
        bed.optimize(&options).await.expect("a target");
        let (after, footer) = read(&bed.target());
        let groups: Vec<_> = footer
            .row_groups()
            .iter()
            .map(RowGroupMetaData::num_rows)
            .collect();
        assert_eq!(groups, [1 << 20, 1]);
        let pages = &footer.offset_index().expect("an offset index")[0][0].page_locations;
        assert!((128..=129).contains(&pages.len()), "{} pages", pages.len());
        if options.sort_by.is_empty() {
            assert_eq!(after.columns(), rows.columns());
        } else {
            let values = after
                .column(0)
                .as_any()
                .downcast_ref::<Int64Array>()
                .expect("integers");
            let mut expected: Vec<_> = (0..(1 << 20) + 1).map(scattered).collect();
            expected.sort_unstable();
            assert!(values.values().iter().eq(&expected));
        }
    }
}

#[tokio::test]
async fn rows_are_sorted_by_columns_with_nulls_last() {
    let rows = table(vec![
        (
            "k",
            Arc::new(Int64Array::from(vec![Some(2), None, Some(1), Some(2), Some(1)])),
        ),
        ("v", Arc::new(StringArray::from(vec!["b", "e", "d", "a", "c"]))),
    ]);
    let bed = Bed::new(&rows, 2);
    bed.optimize(&sorted_by(&["k", "v"])).await.expect("a target");
    let expected = table(vec![
        (
            "k",
            Arc::new(Int64Array::from(vec![Some(1), Some(1), Some(2), Some(2), None])),
        ),
        ("v", Arc::new(StringArray::from(vec!["c", "d", "a", "b", "e"]))),
    ]);
    assert_eq!(read(&bed.target()).0.columns(), expected.columns());
}

#[tokio::test]
async fn the_device_reads_the_target() {
    let rows = batch(5000, 11, Shape::Ordinary);
    let bed = Bed::new(&rows, 700);
    bed.optimize(&OptimizeOptions::default()).await.expect("a target");
    for decoding in ["device", "host"] {
        let pair = Pair::new(&[
            ("galatea.tuning.parquet_decoding", decoding),
            ("galatea.tuning.min_rows", "0"),
        ]);
        for (ctx, file) in [(&pair.cpu, &bed.source), (&pair.gpu, &bed.target())] {
            let path = file.display().to_string();
            ctx.register_parquet("t", &path, ParquetReadOptions::default())
                .await
                .expect("a table");
        }
        for query in [
            "SELECT count(*), count(i8), sum(i16), min(i32), max(i64), sum(d9), max(d18), min(d38), min(day) FROM t",
            "SELECT low, flag, count(*), min(f64), max(f32) FROM t GROUP BY low, flag",
        ] {
            pair.check(query, true, decoding).await;
        }
    }
}

#[tokio::test]
async fn a_refused_file_changes_nothing() {
    let rows = table(vec![("key", integers(0..10)), ("value", integers(0..10))]);
    let bed = Bed::new(&rows, 10);
    let error = bed.optimize(&sorted_by(&["keys"])).await.expect_err("no column");
    assert_eq!(
        error.to_string(),
        format!(
            "'{}' has no column keys\nhint: a similar name is key",
            bed.source.display()
        )
    );
    fs::write(bed.target(), "kept").expect("a file");
    let error = bed
        .optimize(&OptimizeOptions::default())
        .await
        .expect_err("the target exists");
    assert!(matches!(error, OptimizeError::Exists { .. }), "{error}");
    assert_eq!(fs::read(bed.target()).expect("a file"), b"kept");
    let replace = OptimizeOptions {
        replace: true,
        ..OptimizeOptions::default()
    };
    let whole = fs::read(&bed.source).expect("a file");
    fs::write(&bed.source, &whole[..whole.len() - 9]).expect("a file");
    let error = bed.optimize(&replace).await.expect_err("a damaged file");
    assert!(matches!(error, OptimizeError::Damaged { .. }), "{error}");
    fs::remove_file(&bed.source).expect("a file");
    let error = bed.optimize(&replace).await.expect_err("no file");
    assert!(matches!(error, OptimizeError::Read { .. }), "{error}");
    assert_eq!(fs::read(bed.target()).expect("a file"), b"kept");
    assert_eq!(bed.files(), ["target.parquet"]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_is_replaced_with_its_permissions() {
    use std::os::unix::fs::PermissionsExt;

    let rows = table(vec![("v", integers(0..1000))]);
    let bed = Bed::new(&rows, 10);
    fs::set_permissions(&bed.source, fs::Permissions::from_mode(0o640)).expect("permissions");
    let options = OptimizeOptions {
        replace: true,
        ..OptimizeOptions::default()
    };
    let runtime = Arc::new(RuntimeEnv::default());
    optimize(&bed.source, &bed.source, &options, &runtime)
        .await
        .expect("a target");
    let mode = fs::metadata(&bed.source).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    let (after, footer) = read(&bed.source);
    assert_eq!((after.columns(), footer.num_row_groups()), (rows.columns(), 1));
    assert_eq!(bed.files(), ["source.parquet"]);
}

/// COPY writes Parquet files with pages that a GPU decompresses and decodes in parallel.
#[tokio::test]
async fn copied_parquet_files_have_many_snappy_pages() {
    let ctx = galatea::session()
        .with_setting("galatea.device", "cpu")
        .build()
        .expect("a session");
    let folder = tempfile::tempdir().expect("a folder");
    let copy = async |name: &str, options: &str| {
        let path = folder.path().join(name);
        let rows = "SELECT value AS v FROM generate_series(1, 100000)";
        let copy = format!("COPY ({rows}) TO '{}' {options}", path.display());
        galatea::sql(&ctx, &copy)
            .await
            .expect("a plan")
            .collect()
            .await
            .expect("a file");
        let (_, footer) = read(&path);
        let pages = footer.offset_index().expect("an offset index")[0][0]
            .page_locations
            .len();
        (footer.row_group(0).column(0).compression(), pages)
    };
    assert_eq!(copy("a.parquet", "").await, (Compression::SNAPPY, 13));
    let options = "OPTIONS ('format.compression' 'lz4_raw', 'format.data_page_row_count_limit' '50000')";
    assert_eq!(copy("b.parquet", options).await, (Compression::LZ4_RAW, 2));
    ctx.sql("SET datafusion.execution.parquet.compression = 'gzip(1)'")
        .await
        .expect("a setting");
    let (compression, pages) = copy("c.parquet", "").await;
    assert!(matches!(compression, Compression::GZIP(_)), "{compression}");
    assert_eq!(pages, 13);
}
