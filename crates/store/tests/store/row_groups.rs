//! Loads with predicates read the row groups that these need, and no row of the answer is missing.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::filter_record_batch;
use arrow::datatypes::*;
use datafusion::common::DFSchema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::*;
use galatea_store::*;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};

use crate::files::{context, file_table, store};
use crate::round_trip::decoded;

/// Rows of a row group.
pub(crate) const GROUP: usize = 100;

pub(crate) fn groups() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_max_row_group_row_count(Some(GROUP))
}

/// A file as the table `t`.
pub(crate) struct Bed {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) context: SessionContext,
    pub(crate) store: Arc<Store>,
}

impl Bed {
    pub(crate) async fn new(batch: &RecordBatch, properties: WriterPropertiesBuilder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("a.parquet"), batch, properties.build());
        Self::of(folder).await
    }

    pub(crate) async fn of(folder: tempfile::TempDir) -> Self {
        let context = context();
        let path = folder.path().to_str().unwrap();
        context
            .register_parquet("t", path, ParquetReadOptions::default())
            .await
            .unwrap();
        Self {
            folder,
            context,
            store: store(),
        }
    }

    pub(crate) async fn table(&self) -> Arc<FileTable> {
        file_table(&self.context, &self.store, "select * from t").await
    }

    pub(crate) fn predicate(&self, table: &FileTable, sql: &str) -> Arc<dyn PhysicalExpr> {
        let schema = DFSchema::try_from(ColumnSource::schema(table)).unwrap();
        let expr = self.context.parse_sql_expr(sql, &schema).unwrap();
        self.context.create_physical_expr(expr, &schema).unwrap()
    }

    /// Loads all columns for the rows of a predicate, and asserts that it is true for the same rows as in the
    /// whole table.
    pub(crate) async fn load(&self, sql: &str) -> TableView {
        let table = self.table().await;
        let schema = ColumnSource::schema(&*table);
        let columns: Vec<usize> = (0..schema.fields().len()).collect();
        let predicate = self.predicate(&table, sql);
        let hints = LoadHints {
            predicates: vec![Arc::clone(&predicate)],
            ..LoadHints::default()
        };
        let view = table.load(&columns, &hints, None).await.unwrap();
        assert_eq!(
            view.rows,
            view.chunk_rows.iter().map(|rows| u64::from(*rows)).sum::<u64>()
        );
        for column in &view.columns {
            assert_eq!(column.rows(), view.rows, "{sql}");
        }
        let arrays = view.columns.iter().map(decoded).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(view.rows as usize));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options).unwrap();
        // Another store has no columns of earlier loads.
        let whole = file_table(&self.context, &store(), "select * from t").await;
        let whole = whole.load(&columns, &LoadHints::default(), None).await.unwrap();
        let arrays = whole.columns.iter().map(decoded).collect();
        let whole = RecordBatch::try_new(schema, arrays).unwrap();
        assert_eq!(selected(&rows, &predicate), selected(&whole, &predicate), "{sql}");
        view
    }

    /// Row groups that a load with this predicate reads, and those that statistics and Bloom filters skip.
    pub(crate) async fn counts(&self, sql: &str) -> (u64, u64, u64) {
        let store = store();
        let bed = Self {
            folder: tempfile::tempdir().unwrap(),
            context: self.context.clone(),
            store,
        };
        let view = bed.load(sql).await;
        let pruning = view.loaded.unwrap().pruning.unwrap();
        let (statistics, filters) = (pruning.by_statistics, pruning.by_bloom_filters);
        let read = pruning.row_groups - statistics - filters - pruning.by_pages;
        assert_eq!(pruning.by_pages, 0, "{sql}: pages are whole row groups");
        (read, statistics, filters)
    }
}

/// The rows that satisfy a predicate.
fn selected(rows: &RecordBatch, predicate: &Arc<dyn PhysicalExpr>) -> RecordBatch {
    let kept = predicate.evaluate(rows).unwrap();
    let kept = kept.into_array(rows.num_rows()).unwrap();
    filter_record_batch(rows, kept.as_boolean()).unwrap()
}

pub(crate) fn write(path: &Path, batch: &RecordBatch, properties: WriterProperties) {
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

pub(crate) fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, values)| (name, values, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

pub(crate) fn numbers(count: i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(0..count))
}

#[tokio::test]
async fn statistics_skip_row_groups() {
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(
        (0..800).map(|row| format!("t{row:04}")),
    ));
    let day: ArrayRef = Arc::new(Date32Array::from_iter_values((0..800).map(|row| row - 400)));
    let decimal = Decimal128Array::from_iter_values((0..800).map(|row| row * 25));
    let decimal: ArrayRef = Arc::new(decimal.with_precision_and_scale(12, 2).unwrap());
    let flag: ArrayRef = Arc::new(BooleanArray::from_iter((0..800).map(|row| Some(row >= 700))));
    let time: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(
        (0..800).map(|row| row * 1_000_000),
    ));
    let batch = table(vec![
        ("n", numbers(800)),
        ("s", text),
        ("day", day),
        ("d", decimal),
        ("flag", flag),
        ("time", time),
    ]);
    let bed = Bed::new(&batch, groups()).await;
    for (sql, expected) in [
        ("n BETWEEN 150 AND 160", (1, 7, 0)),
        ("n = 399 OR n = 400", (2, 6, 0)),
        ("n < 0", (0, 8, 0)),
        ("n IN (1, 750)", (2, 6, 0)),
        ("s = 't0420'", (1, 7, 0)),
        ("s LIKE 't00%'", (1, 7, 0)),
        ("s > 't0650'", (2, 6, 0)),
        ("day < DATE '1969-01-01'", (1, 7, 0)),
        ("d > 190.5", (1, 7, 0)),
        ("flag", (1, 7, 0)),
        ("time >= TIMESTAMP '1970-01-01 00:12:30'", (1, 7, 0)),
        ("n IS NULL", (0, 8, 0)),
        ("n IS NOT NULL AND n > 780", (1, 7, 0)),
        ("n % 2 = 1", (8, 0, 0)),
        ("n <> 5", (8, 0, 0)),
    ] {
        assert_eq!(bed.counts(sql).await, expected, "{sql}");
    }
}

/// Queries with other predicates need rows that are not in memory.
#[tokio::test]
async fn later_queries_read_the_rows_that_are_missing() {
    let batch = table(vec![("n", numbers(800)), ("m", numbers(800))]);
    let bed = Bed::new(&batch, groups()).await;
    let first = bed.load("n < 50").await;
    assert_eq!((first.rows, first.chunk_rows.len()), (100, 1));
    // The same rows: nothing is read.
    for sql in ["n < 50", "n < 60"] {
        let again = bed.load(sql).await;
        assert_eq!(again.id, first.id, "{sql}");
        assert_eq!(again.loaded, None, "{sql}");
    }
    let other = bed.load("n > 750").await;
    assert_ne!(other.id, first.id);
    assert_eq!(other.rows, 100);
    let both = bed.load("n < 50 OR n > 750").await;
    assert_eq!(both.rows, 200);
    assert!(both.id != first.id && both.id != other.id);
    // Its row groups are among those of the last one.
    assert_eq!(bed.load("n > 760").await.loaded, None);
    let table = bed.table().await;
    let whole = table.load(&[0], &LoadHints::default(), None).await.unwrap();
    assert_eq!((whole.rows, whole.id), (800, table.identity()));
    // A column in memory suffices for all predicates.
    let hints = LoadHints {
        predicates: vec![bed.predicate(&table, "n = 3")],
        ..LoadHints::default()
    };
    let found = table.load(&[0], &hints, None).await.unwrap();
    assert_eq!((found.id, found.rows), (whole.id, 800));
    assert!(found.loaded.is_none());
}

#[tokio::test]
async fn parts_of_a_column_read_at_most_its_bytes() {
    let bed = Bed::new(&table(vec![("n", numbers(800))]), groups()).await;
    let mut partial = 0;
    let mut read = 0;
    let size = std::fs::metadata(bed.folder.path().join("a.parquet"))
        .unwrap()
        .len();
    for first in 0..7 {
        let low = first * 100 + 10;
        let view = bed.load(&format!("n BETWEEN {low} AND {}", low + 100)).await;
        let loaded = view.loaded.unwrap();
        read += loaded.bytes_read;
        if view.rows == 800 {
            break;
        }
        assert_eq!(view.rows, 200);
        partial += 1;
    }
    assert_eq!(partial, 4, "four parts of a quarter of the rows");
    assert!(read < 2 * size, "{read} bytes of {size}");
    let view = bed.load("n = 795").await;
    assert_eq!(view.id, bed.table().await.identity(), "the column is in memory");
}

/// A caller that keeps nothing reads the part each time.
#[tokio::test]
async fn temporary_loads_stay_partial() {
    let bed = Bed::new(&table(vec![("n", numbers(800))]), groups()).await;
    let table = bed.table().await;
    for number in 0..20 {
        let sql = format!("n < {}", 620 + number);
        let hints = LoadHints {
            predicates: vec![bed.predicate(&table, &sql)],
            is_temporary: true,
            ..LoadHints::default()
        };
        let view = table.load(&[0], &hints, None).await.unwrap();
        assert_eq!(view.rows, 700, "{sql}");
        bed.store.clear_cache();
    }
}

#[tokio::test]
async fn changed_files_have_other_parts() {
    let bed = Bed::new(&table(vec![("n", numbers(800))]), groups()).await;
    assert_eq!(bed.load("n < 50").await.rows, 100);
    let reversed: ArrayRef = Arc::new(Int64Array::from_iter_values((0..800).rev()));
    let path = bed.folder.path().join("a.parquet");
    write(&path, &table(vec![("n", reversed)]), groups().build());
    let view = bed.load("n < 50").await;
    assert_eq!(view.rows, 100);
    let values = decoded(&view.columns[0]);
    assert_eq!(values.as_primitive::<Int64Type>().value(0), 99);
    assert_eq!(bed.store.cached_columns(), 1, "the old part is dropped");
    // The new file has fewer row groups than the old one.
    write(&path, &table(vec![("n", numbers(150))]), groups().build());
    assert_eq!(bed.load("n >= 120").await.rows, 50);
}

/// Dictionaries of parts have only the strings of these.
#[tokio::test]
async fn parts_of_string_columns_have_dictionaries_of_their_own() {
    let text = (0..800).map(|row| format!("{}", row / 10));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(text));
    let bed = Bed::new(&table(vec![("n", numbers(800)), ("s", text)]), groups()).await;
    let table = bed.table().await;
    let hints = LoadHints {
        predicates: vec![bed.predicate(&table, "n < 100")],
        ..LoadHints::with_dictionaries(vec![1])
    };
    let view = table.load(&[1], &hints, None).await.unwrap();
    assert_eq!(view.columns[0].dictionary().unwrap().len(), 10);
    // Its row group, and the one from 0 to 9.
    assert_eq!(bed.load("s = '79'").await.rows, 200);
    assert_eq!(bed.load("s = 'none'").await.loaded, None, "any part will do");
    assert_eq!(bed.counts("s = 'none'").await, (0, 8, 0));
}

#[tokio::test]
async fn columns_that_files_lack_or_store_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let narrow: ArrayRef = Arc::new(Int32Array::from_iter_values(0..400));
    let extra: ArrayRef = Arc::new(Int64Array::from_iter_values(1000..1400));
    let first = table(vec![("n", narrow)]);
    let second = table(vec![("n", numbers(400)), ("x", extra)]);
    write(&folder.path().join("a.parquet"), &second, groups().build());
    write(&folder.path().join("b.parquet"), &first, groups().build());
    let context = context();
    let fields = ["n", "x"].map(|name| Field::new(name, DataType::Int64, true));
    let schema = Schema::new(fields.to_vec());
    let options = ParquetReadOptions::default().schema(&schema);
    let path = folder.path().to_str().unwrap();
    context.register_parquet("t", path, options).await.unwrap();
    let bed = Bed {
        context,
        store: store(),
        folder,
    };
    assert_eq!(bed.counts("n = 250").await, (2, 6, 0), "one in each file");
    assert_eq!(bed.counts("x = 1250").await, (1, 7, 0), "a file has no x");
    assert_eq!(bed.counts("x IS NULL").await, (4, 4, 0));
    assert_eq!(bed.counts("x IS NULL AND n > 350").await, (1, 7, 0));
}

#[tokio::test]
async fn values_of_partition_columns_skip_files() {
    let folder = tempfile::tempdir().unwrap();
    for year in [2024, 2025, 2026] {
        let path = folder.path().join(format!("year={year}"));
        std::fs::create_dir(&path).unwrap();
        write(
            &path.join("a.parquet"),
            &table(vec![("n", numbers(300))]),
            groups().build(),
        );
    }
    let context = context();
    let options =
        ParquetReadOptions::default().table_partition_cols(vec![("year".to_owned(), DataType::Int32)]);
    context
        .register_parquet("t", folder.path().to_str().unwrap(), options)
        .await
        .unwrap();
    let bed = Bed {
        folder,
        context,
        store: store(),
    };
    assert_eq!(bed.counts("year = 2025").await, (3, 6, 0));
    assert_eq!(bed.counts("year > 2024 AND n < 5").await, (2, 7, 0));
    assert_eq!(bed.counts("year IS NULL").await, (0, 9, 0));
}

/// Other columns of the file are nested.
#[tokio::test]
async fn files_with_nested_columns_are_read_in_part() {
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(
        (0..800).map(|row| Some((0..row % 4).map(Some).collect::<Vec<_>>())),
    );
    let folder = tempfile::tempdir().unwrap();
    let batch = table(vec![("l", Arc::new(lists) as ArrayRef), ("n", numbers(800))]);
    write(&folder.path().join("a.parquet"), &batch, groups().build());
    let bed = Bed::of(folder).await;
    let table = bed.table().await;
    let hints = LoadHints {
        predicates: vec![
            bed.predicate(&table, "n > 770"),
            bed.predicate(&table, "cardinality(l) = 3"),
        ],
        ..LoadHints::default()
    };
    let view = table.load(&[1], &hints, None).await.unwrap();
    assert_eq!(view.rows, 100);
}

/// Files may lack all statistics of pages and row groups.
#[tokio::test]
async fn files_without_statistics_are_read_whole() {
    let properties = groups().set_statistics_enabled(EnabledStatistics::None);
    let bed = Bed::new(&table(vec![("n", numbers(800))]), properties).await;
    assert_eq!(bed.counts("n = 5").await, (8, 0, 0));
}
