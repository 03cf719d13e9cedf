//! Columns of files are cached on disk: a later store reads them, unless anything that they depend on has
//! changed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::*;
use arrow::datatypes::*;
use datafusion::prelude::{CsvReadOptions, JsonReadOptions, ParquetReadOptions};
use galatea_store::*;
use parquet::arrow::ArrowWriter;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::data::{Nulls, Shape};
use crate::files::{batch, context, file_table, properties};
use crate::round_trip::{assert_same, decoded};

/// Time after which the times of a file show the next change.
const SETTLED: Duration = Duration::from_millis(2100);

/// A folder with source files and a cache.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("cache")).expect("a folder");
        Self { folder }
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A store as of a new process.
    pub(crate) fn store(&self) -> Arc<Store> {
        self.store_with(StoreOptions {
            chunk_rows: 1000,
            ..StoreOptions::default()
        })
    }

    pub(crate) fn store_with(&self, options: StoreOptions) -> Arc<Store> {
        let store = Store::new(StoreOptions {
            memory_limit: options.memory_limit.or(Some(1 << 30)),
            ..options
        });
        store.set_disk_cache(Some(DiskCache::new(self.cache(), 1 << 30)));
        store
    }

    pub(crate) fn cached(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.cache()).expect("a folder");
        let mut files: Vec<_> = entries.map(|entry| entry.expect("a file").path()).collect();
        files.sort();
        files
    }
}

pub(crate) fn cache(store: &Store) -> Arc<DiskCache> {
    store.disk_cache().expect("a cache")
}

pub(crate) fn written(store: &Store) -> DiskCacheCounts {
    assert!(
        cache(store).wait(Duration::from_secs(120)),
        "columns are not written"
    );
    cache(store).counts()
}

pub(crate) fn write(path: &Path, batch: &RecordBatch) {
    let file = File::create(path).expect("a file");
    let properties = properties().build();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("a writer");
    writer.write(batch).expect("written");
    writer.close().expect("closed");
}

pub(crate) fn settle() {
    std::thread::sleep(SETTLED);
}

pub(crate) async fn table(store: &Arc<Store>, path: &Path) -> Arc<FileTable> {
    let context = context();
    let path = path.to_str().expect("a path");
    context
        .register_parquet("t", path, ParquetReadOptions::default())
        .await
        .expect("a table");
    file_table(&context, store, "select * from t").await
}

pub(crate) async fn load(table: &Arc<FileTable>, columns: &[usize], hints: &LoadHints) -> TableView {
    table.load(columns, hints, None).await.expect("loaded")
}

/// All columns of a table.
pub(crate) async fn load_all(table: &Arc<FileTable>) -> TableView {
    let columns: Vec<usize> = (0..ColumnSource::schema(&**table).fields().len()).collect();
    load(table, &columns, &LoadHints::default()).await
}

pub(crate) fn report(view: &TableView) -> LoadReport {
    view.loaded.as_deref().cloned().expect("a load")
}

/// Whether two columns have the same bytes, encoding and bounds.
fn assert_identical(first: &Column, second: &Column, what: &str) {
    assert_eq!(
        format!("{:?}", tags(first)),
        format!("{:?}", tags(second)),
        "{what}"
    );
    assert_eq!(first.chunks.len(), second.chunks.len(), "{what}");
    for (index, (first, second)) in first.chunks.iter().zip(&second.chunks).enumerate() {
        let what = format!("{what}, chunk {index}");
        assert_eq!((first.rows, first.base), (second.rows, second.base), "{what}");
        assert_eq!(
            format!("{:?}", first.zone),
            format!("{:?}", second.zone),
            "{what}"
        );
        let is_packed = |chunk: &Chunk| matches!(chunk.data, ChunkData::Packed(_));
        assert_eq!(is_packed(first), is_packed(second), "{what}");
        assert_eq!(first.views().count(), second.views().count(), "{what}");
        for (first, second) in first.views().zip(second.views()) {
            assert!(first.as_slice() == second.as_slice(), "{what}");
            assert_eq!(first.offset() % 256, 0, "{what}");
        }
    }
}

fn tags(column: &Column) -> impl std::fmt::Debug + '_ {
    (
        &column.name,
        &column.data_type,
        &column.encoding,
        &column.range,
        (column.null_count, column.has_nan, column.bytes()),
    )
}

/// Loads a table with two stores. The second reads every column from the cache, and gets the same columns.
async fn assert_round_trip(place: &Place, path: &Path, options: StoreOptions, what: &str) {
    let first = place.store_with(options);
    let before = load_all(&table(&first, path).await).await;
    let columns = before.columns.len() as u64;
    assert_eq!(report(&before).disk_columns, 0, "{what}");
    let counts = written(&first);
    assert_eq!((counts.written, counts.failed_writes), (columns, 0), "{what}");

    let second = place.store_with(options);
    let reopened = table(&second, path).await;
    assert!(reopened.on_disk(0, &LoadHints::default()).is_some(), "{what}");
    let after = load_all(&reopened).await;
    let report = report(&after);
    assert_eq!((report.disk_columns, report.bytes_read), (columns, 0), "{what}");
    assert!(report.disk_bytes > 0 && report.on_host() == 0, "{what}");
    assert_eq!(before.chunk_rows, after.chunk_rows, "{what}");
    for (before, after) in before.columns.iter().zip(&after.columns) {
        let what = format!("{what}, column {}", before.name);
        assert_identical(before, after, &what);
        assert_same(&decoded(before), &decoded(after), &what);
    }
    assert_eq!(first.memory_used(), second.memory_used(), "{what}");
    assert_eq!(written(&second).written, 0, "{what}");
    assert_eq!(cache(&second).counts().read, columns, "{what}");
    drop((before, after));
    second.clear_cache();
    assert_eq!(second.memory_used(), 0, "{what}");
}

fn random_strings(rows: usize, length: usize, seed: u64) -> ArrayRef {
    let mut random = StdRng::seed_from_u64(seed);
    let strings = (0..rows).map(|_| {
        let letters = (0..random.random_range(0..=length)).map(|_| random.random_range('a'..='z'));
        letters.collect::<String>()
    });
    Arc::new(StringArray::from_iter_values(strings))
}

/// Columns of encodings that `batch` does not have in every shape.
pub(crate) fn special(rows: usize, seed: u64) -> RecordBatch {
    let mut random = StdRng::seed_from_u64(seed);
    let floats = (0..rows).map(|row| match row % 5 {
        0 => f64::NAN,
        1 => -0.0,
        2 => f64::INFINITY,
        _ => random.random::<f64>(),
    });
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values(floats));
    let wide = (0..rows).map(|row| 10_i128.pow(30) + row as i128);
    let wide = Decimal128Array::from_iter_values(wide).with_precision_and_scale(38, 2);
    let small = Decimal128Array::from_iter_values((0..rows).map(|row| 100 * row as i128));
    let nulls = Int64Array::from(vec![None; rows]);
    let null_strings = StringArray::from(vec![None::<&str>; rows]);
    let stepped = (0..rows).map(|row| 1_000_000_007 + 60 * (row as i64 % 977));
    let unpackable = (0..rows).map(|row| (row as i64 % 3) << 40);
    let booleans = (0..rows).map(|row| (row % 7 > 0).then_some(row % 2 == 0));
    let few = (0..rows).map(|row| Some(["AIR", "", "RAIL", "\u{1F680}"][row % 4]));
    RecordBatch::try_from_iter([
        ("floats", floats),
        ("wide", Arc::new(wide.expect("38 digits")) as ArrayRef),
        (
            "small",
            Arc::new(small.with_precision_and_scale(20, 2).expect("20 digits")),
        ),
        ("nulls", Arc::new(nulls)),
        ("null_strings", Arc::new(null_strings)),
        ("constant", Arc::new(Int64Array::from(vec![42; rows]))),
        ("stepped", Arc::new(Int64Array::from_iter_values(stepped))),
        ("unpackable", Arc::new(Int64Array::from_iter_values(unpackable))),
        ("booleans", Arc::new(booleans.collect::<BooleanArray>())),
        ("few", Arc::new(few.collect::<StringArray>())),
        ("text", random_strings(rows, 200, seed)),
    ])
    .expect("columns of the same length")
}

#[tokio::test]
async fn every_encoding_survives_a_restart() {
    let place = Place::new();
    let mut all = Vec::new();
    for (seed, rows) in [0, 1, 31, 33, 2500].into_iter().enumerate() {
        let seed = seed as u64 + 11;
        let path = place.file(&format!("special-{rows}.parquet"));
        write(&path, &special(rows, seed));
        all.push((path, format!("special columns, {rows} rows, seed {seed}")));
        for (shape, nulls) in [
            (Shape::Random, Nulls::Some),
            (Shape::Skewed, Nulls::No),
            (Shape::Few, Nulls::All),
        ] {
            let path = place.file(&format!("{shape:?}-{rows}.parquet"));
            write(&path, &batch(rows, shape, nulls, seed));
            all.push((path, format!("{shape:?}, {nulls:?}, {rows} rows, seed {seed}")));
        }
    }
    settle();
    for packing in [Packing::Off, Packing::On] {
        let options = StoreOptions {
            chunk_rows: 1000,
            packing,
            ..StoreOptions::default()
        };
        for (path, what) in &all {
            assert_round_trip(&place, path, options, &format!("{what}, {packing:?}")).await;
        }
    }
}

#[tokio::test]
async fn columns_of_several_files_and_large_dictionaries_survive_a_restart() {
    let place = Place::new();
    let folder = place.file("many");
    std::fs::create_dir(&folder).expect("a folder");
    for file in 0..3 {
        write(
            &folder.join(format!("{file}.parquet")),
            &special(4000 + file, file as u64),
        );
    }
    settle();
    let options = StoreOptions::default();
    assert_round_trip(&place, &folder, options, "three files").await;

    // A column without a dictionary does not satisfy a hint that demands one, and one with it does.
    let text = ColumnSource::schema(&*table(&place.store(), &folder).await)
        .index_of("text")
        .expect("a column");
    let hints = LoadHints::with_dictionaries(vec![text]);
    for expected in [0, 1] {
        let store = place.store_with(options);
        let view = load(&table(&store, &folder).await, &[text], &hints).await;
        assert_eq!(report(&view).disk_columns, expected);
        assert!(view.columns[0].dictionary().is_some());
        assert_eq!(written(&store).written, 1 - expected);
    }
}

#[tokio::test]
async fn csv_and_json_columns_survive_a_restart() {
    let place = Place::new();
    let csv: String = (0..3000)
        .map(|row| format!("{row},name {}\n", row % 40))
        .collect();
    std::fs::write(place.file("t.csv"), format!("number,name\n{csv}")).expect("written");
    let json: String = (0..3000).map(|row| format!("{{\"a\": {}}}\n", row * 3)).collect();
    std::fs::write(place.file("t.json"), json).expect("written");
    settle();
    for (sql, columns) in [("t.csv", 2), ("t.json", 1)] {
        let mut before = None;
        for is_second in [false, true] {
            let context = context();
            let (csv, json) = (place.file("t.csv"), place.file("t.json"));
            let (csv, json) = (csv.to_str().expect("a path"), json.to_str().expect("a path"));
            context
                .register_csv("c", csv, CsvReadOptions::new())
                .await
                .expect("a table");
            context
                .register_json("j", json, JsonReadOptions::default())
                .await
                .expect("a table");
            let name = if sql == "t.csv" { "c" } else { "j" };
            let store = place.store();
            let table = file_table(&context, &store, &format!("select * from {name}")).await;
            let view = load_all(&table).await;
            let expected = if is_second { columns } else { 0 };
            assert_eq!(report(&view).disk_columns, expected, "{sql}");
            let rows: Vec<ArrayRef> = view.columns.iter().map(decoded).collect();
            written(&store);
            match &before {
                None => before = Some(rows),
                Some(before) => assert_eq!(before, &rows, "{sql}"),
            }
        }
    }
}

pub(crate) fn integers(rows: i64, factor: i64) -> RecordBatch {
    let values = |offset| {
        Arc::new(Int64Array::from_iter_values(
            (0..rows).map(|row| offset + factor * row),
        ))
    };
    RecordBatch::try_from_iter([("a", values(0) as ArrayRef), ("b", values(7) as ArrayRef)]).expect("columns")
}

#[tokio::test]
async fn columns_of_changed_files_are_not_used() {
    let place = Place::new();
    let path = place.file("t.parquet");
    write(&path, &integers(3000, 1));
    // A file that was just written is not cached.
    let store = place.store();
    load_all(&table(&store, &path).await).await;
    assert_eq!(written(&store).written, 0);
    settle();
    let store = place.store();
    load_all(&table(&store, &path).await).await;
    assert_eq!(written(&store).written, 2);
    // The same size and time of modification, and other values.
    let modified = std::fs::metadata(&path)
        .and_then(|found| found.modified())
        .expect("a time");
    let size = std::fs::metadata(&path).expect("a file").len();
    let mut changed = std::fs::read(&path).expect("a file");
    write(&path, &integers(3000, 2));
    if std::fs::metadata(&path).expect("a file").len() == size {
        changed = std::fs::read(&path).expect("a file");
    }
    std::fs::write(&path, &changed).expect("written");
    let file = File::options().write(true).open(&path).expect("a file");
    file.set_modified(modified).expect("a time");
    settle();
    let store = place.store();
    let view = load_all(&table(&store, &path).await).await;
    assert_eq!(report(&view).disk_columns, 0);
    assert_eq!(cache(&store).counts().stale, 2);
    written(&store);
    // A different number of rows.
    write(&path, &integers(3001, 3));
    settle();
    let store = place.store();
    let view = load_all(&table(&store, &path).await).await;
    assert_eq!((report(&view).disk_columns, view.rows), (0, 3001));
    assert_eq!(
        decoded(&view.columns[0]).as_primitive::<Int64Type>().value(3000),
        9000
    );
    written(&store);
    // Another file at the same path, as old as the first one.
    let other = place.file("other.parquet");
    write(&other, &integers(3001, 4));
    settle();
    std::fs::rename(&other, &path).expect("renamed");
    settle();
    let store = place.store();
    let view = load_all(&table(&store, &path).await).await;
    assert_eq!(report(&view).disk_columns, 0);
    assert_eq!(
        decoded(&view.columns[0]).as_primitive::<Int64Type>().value(3000),
        12000
    );
}

#[tokio::test]
async fn other_schemas_and_settings_have_other_columns() {
    let place = Place::new();
    let path = place.file("t.parquet");
    write(&path, &integers(3000, 1));
    settle();
    let options = StoreOptions {
        chunk_rows: 1000,
        ..StoreOptions::default()
    };
    let load_with = async |options: StoreOptions, schema: Option<&Schema>| {
        let store = place.store_with(options);
        let context = context();
        let read = ParquetReadOptions {
            schema,
            ..ParquetReadOptions::default()
        };
        let path = path.to_str().expect("a path");
        context.register_parquet("t", path, read).await.expect("a table");
        let table = file_table(&context, &store, "select * from t").await;
        let view = load_all(&table).await;
        written(&store);
        report(&view).disk_columns
    };
    assert_eq!(load_with(options, None).await, 0);
    assert_eq!(load_with(options, None).await, 2);
    let chunk_rows = StoreOptions {
        chunk_rows: 500,
        ..options
    };
    assert_eq!(load_with(chunk_rows, None).await, 0);
    let packing = StoreOptions {
        packing: Packing::On,
        ..options
    };
    assert_eq!(load_with(packing, None).await, 0);
    let fields = |data_type: DataType| {
        Schema::new(vec![
            Field::new("a", data_type, true),
            Field::new("b", DataType::Int64, true),
        ])
    };
    assert_eq!(load_with(options, Some(&fields(DataType::Int32))).await, 0);
    assert_eq!(load_with(options, Some(&fields(DataType::Int32))).await, 2);
    // The columns in the other order.
    let swapped = Schema::new(vec![
        Field::new("b", DataType::Int64, true),
        Field::new("a", DataType::Int64, true),
    ]);
    assert_eq!(load_with(options, Some(&swapped)).await, 0);
    assert_eq!(load_with(options, None).await, 2);
}
