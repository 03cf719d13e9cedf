//! Columns of files are kept, evicted, dropped when files change, and loaded once.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arrow::array::*;
use datafusion::prelude::*;
use futures::FutureExt;
use galatea_store::*;
use parquet::arrow::ArrowWriter;

use crate::files::{context, file_table, properties, scan};
use crate::round_trip::{assert_same, decoded};

const ROWS: i64 = 20_000;

fn write(path: &Path, columns: usize, offset: i64) {
    let columns = (0..columns).map(|column| {
        let values = (0..ROWS).map(|row| offset + (row * 31 + column as i64) % 60_000);
        (
            format!("c{column}"),
            Arc::new(Int64Array::from_iter_values(values)) as ArrayRef,
        )
    });
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(
        File::create(path).unwrap(),
        batch.schema(),
        Some(properties().build()),
    )
    .unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

async fn table(path: &Path, store: &Arc<Store>) -> (SessionContext, Arc<FileTable>) {
    let context = context();
    context
        .register_parquet("t", path.to_str().unwrap(), ParquetReadOptions::default())
        .await
        .unwrap();
    let table = file_table(&context, store, "select * from t").await;
    (context, table)
}

fn store(memory_limit: u64) -> Arc<Store> {
    Store::new(StoreOptions {
        memory_limit: Some(memory_limit),
        chunk_rows: 1000,
        ..StoreOptions::default()
    })
}

/// Waits until all work of loads has ended and nothing is in memory.
async fn settle(store: &Store) {
    for _ in 0..200 {
        if store.memory_used() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} bytes stay in use", store.memory_used());
}

/// Counts the rows that loads have read.
fn counter() -> (Arc<AtomicU64>, ProgressCallback) {
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    (
        calls,
        Arc::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        }),
    )
}

#[tokio::test]
async fn columns_are_read_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.parquet");
    write(&path, 3, 0);
    let store = store(1 << 30);
    let (context, table) = table(&path, &store).await;
    let (calls, progress) = counter();
    assert!(!table.is_loaded(&[0], &LoadHints::default()));
    let first = table
        .load(&[0, 2], &LoadHints::default(), Some(Arc::clone(&progress)))
        .await
        .unwrap();
    let after_first = calls.load(Ordering::Relaxed);
    assert!(after_first > 0);
    assert!(table.is_loaded(&[2, 0], &LoadHints::default()));
    // Scans of the same files by other queries are the same table.
    let scan = scan(&context, "select c2 from t where c0 > 5").await;
    let again = store.file_table(&scan, &context.runtime_env()).unwrap();
    let second = again
        .load(&[2, 0, 2], &LoadHints::default(), Some(Arc::clone(&progress)))
        .await
        .unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), after_first);
    assert_eq!(first.id, second.id);
    assert!(Arc::ptr_eq(&first.columns[0], &second.columns[1]));
    assert!(Arc::ptr_eq(&second.columns[0], &second.columns[2]));
    // Only the column that is not cached yet is read.
    again
        .load(&[0, 1], &LoadHints::default(), Some(progress))
        .await
        .unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), after_first + after_first / 2);
    assert_eq!(store.cached_columns(), 3);
    drop((first, second));
    store.clear_cache();
    assert_eq!(store.memory_used(), 0);
}

#[tokio::test]
async fn progress_ends_with_all_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.parquet");
    write(&path, 2, 0);
    let store = store(1 << 30);
    let (_context, table) = table(&path, &store).await;
    let largest = Arc::new(parking_lot::Mutex::new(None::<LoadProgress>));
    let seen = Arc::clone(&largest);
    let progress: ProgressCallback = Arc::new(move |now| {
        let mut largest = seen.lock();
        if largest.is_none_or(|largest| largest.rows_done <= now.rows_done) {
            *largest = Some(now);
        }
    });
    table
        .load(&[0, 1], &LoadHints::default(), Some(progress))
        .await
        .unwrap();
    let last = largest.lock().unwrap();
    assert_eq!(
        (last.rows_done, last.rows_total),
        (ROWS as u64, Some(ROWS as u64))
    );
    assert!(last.bytes_read > 0 && last.bytes_read < std::fs::metadata(&path).unwrap().len());
    // Two bytes a value, except for a last chunk that fits one byte.
    let two = 2 * 2 * ROWS as u64;
    assert!((two - 1000..=two).contains(&last.bytes_encoded), "{last:?}");
}

#[tokio::test]
async fn the_least_recently_used_column_is_evicted_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.parquet");
    write(&path, 4, 0);
    // Two bytes a row: room for three columns, their padding, and one being encoded.
    let column_bytes = 46_000;
    let store = store(3 * column_bytes);
    let (_context, table) = table(&path, &store).await;
    let hints = LoadHints::default();
    for column in [0, 1, 2] {
        table.load(&[column], &hints, None).await.unwrap();
    }
    assert_eq!(store.cached_columns(), 3);
    table.load(&[0], &hints, None).await.unwrap();
    table.load(&[3], &hints, None).await.unwrap();
    assert!(store.memory_used() <= store.memory_limit());
    let loaded: Vec<bool> = (0..4).map(|column| table.is_loaded(&[column], &hints)).collect();
    assert_eq!(loaded, [true, false, true, true]);
    // A column held by a query is not evicted; the remaining memory does not suffice.
    let held = table.load(&[0, 2], &hints, None).await.unwrap();
    store.set_memory_limit(2 * column_bytes + 1000);
    match table.load(&[1], &hints, None).await.unwrap_err() {
        StoreError::StoreLimit {
            needed, used, limit, ..
        } => {
            assert!(
                used >= held.columns.iter().map(|column| column.bytes()).sum() && used + needed > limit,
                "{needed} {used} {limit}"
            );
        }
        other => panic!("{other}"),
    }
    assert!(table.is_loaded(&[0, 2], &hints));
    drop(held);
    table.load(&[1], &hints, None).await.unwrap();
    assert!(store.memory_used() <= store.memory_limit());
}

#[tokio::test]
async fn oversized_tables_are_rejected_early_and_remembered() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.parquet");
    write(&path, 4, 0);
    let store = store(ROWS as u64);
    let (_context, table) = table(&path, &store).await;
    let (calls, progress) = counter();
    let error = table
        .load(&[0, 1, 2, 3], &LoadHints::default(), Some(Arc::clone(&progress)))
        .await
        .unwrap_err();
    match error {
        StoreError::StoreLimit { needed, .. } => assert!(needed >= 4 * ROWS as u64, "{needed}"),
        other => panic!("{other}"),
    }
    settle(&store).await;
    let units = 4 * table
        .load(&[], &LoadHints::default(), None)
        .await
        .unwrap()
        .chunk_rows
        .len() as u64;
    let first = calls.load(Ordering::Relaxed);
    assert!(first < units, "{first} of {units}");
    table
        .load(&[0, 1, 2, 3], &LoadHints::default(), Some(Arc::clone(&progress)))
        .await
        .unwrap_err();
    assert_eq!(calls.load(Ordering::Relaxed), first);
    store.set_memory_limit(1 << 30);
    table
        .load(&[0, 1, 2, 3], &LoadHints::default(), Some(progress))
        .await
        .unwrap();
}

#[tokio::test]
async fn changed_files_are_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.parquet");
    write(&path, 2, 0);
    let store = store(1 << 30);
    let (_context, table) = table(&path, &store).await;
    let before = table.load(&[0, 1], &LoadHints::default(), None).await.unwrap();
    // The same size, but other contents.
    tokio::time::sleep(Duration::from_millis(20)).await;
    write(&path, 2, 5);
    let after = table.load(&[0], &LoadHints::default(), None).await.unwrap();
    assert_ne!(before.id, after.id);
    assert_eq!(table.identity(), after.id);
    let expected = |offset: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(
            (0..ROWS).map(|row| offset + row * 31 % 60_000),
        ))
    };
    assert_same(&expected(5), &decoded(&after.columns[0]), "after");
    assert_same(&expected(0), &decoded(&before.columns[0]), "before, still held");
    // No column of the old version is cached.
    assert_eq!(store.cached_columns(), 1);
    drop(before);
    assert_eq!(store.memory_used(), after.columns[0].bytes());
}

#[tokio::test]
async fn files_rewritten_within_a_clock_tick_are_reread() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.parquet");
    let rewrite = |value: i64| {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values([value; 10]));
        let batch = RecordBatch::try_from_iter([("c", values)]).unwrap();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        std::fs::write(&path, &file).unwrap();
        let earlier = std::time::SystemTime::now() - Duration::from_secs(3600);
        let earlier = earlier
            .duration_since(std::time::UNIX_EPOCH)
            .map(|at| Duration::from_secs(at.as_secs() / 86400 * 86400))
            .unwrap();
        let opened = File::options().write(true).open(&path).unwrap();
        opened.set_modified(std::time::UNIX_EPOCH + earlier).unwrap();
        file.len()
    };
    let length = rewrite(0);
    let store = store(1 << 30);
    let (_context, table) = table(&path, &store).await;
    let check = async |value: i64| {
        let view = table.load(&[0], &LoadHints::default(), None).await.unwrap();
        let expected: ArrayRef = Arc::new(Int64Array::from_iter_values([value; 10]));
        assert_same(&expected, &decoded(&view.columns[0]), &format!("round {value}"));
        view.id
    };
    for round in 1..100 {
        assert_eq!(rewrite(round), length);
        let first = check(round).await;
        assert_eq!(first, check(round).await, "the same contents are not read again");
    }
    // Later the times can be trusted; they still show a change.
    let before = check(99).await;
    tokio::time::sleep(Duration::from_millis(2100)).await;
    assert_eq!((before, before), (check(99).await, check(99).await));
    assert_eq!(rewrite(100), length);
    assert_ne!(before, check(100).await);
}

#[tokio::test]
async fn next_load_uses_a_new_chunk_size() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.csv");
    let rows: String = (0..500).map(|row| format!("{row}\n")).collect();
    std::fs::write(&path, format!("n\n{rows}")).unwrap();
    let store = store(1 << 30);
    let context = context();
    context
        .register_csv("t", path.to_str().unwrap(), CsvReadOptions::default())
        .await
        .unwrap();
    let table = file_table(&context, &store, "select * from t").await;
    for (rows, chunks) in [(1000, 1), (100, 5), (250, 2)] {
        store.set_chunk_rows(rows);
        let view = table.load(&[0], &LoadHints::default(), None).await.unwrap();
        assert_eq!(view.chunk_rows.len(), chunks, "{rows} rows a chunk");
        assert_eq!(view.rows, 500);
        assert_eq!(store.cached_columns(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_loads_of_a_column_read_it_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.parquet");
    write(&path, 6, 0);
    let store = store(1 << 30);
    let (_context, table) = table(&path, &store).await;
    let (calls, progress) = counter();
    let loads = (0..12).map(|load: usize| {
        let (table, progress) = (Arc::clone(&table), Arc::clone(&progress));
        let columns: Vec<usize> = (0..6)
            .filter(|column| !(column + load).is_multiple_of(3))
            .collect();
        tokio::spawn(async move {
            table
                .load(&columns, &LoadHints::default(), Some(progress))
                .await
                .unwrap()
        })
    });
    let views = futures::future::join_all(loads).await;
    let chunks = views[0].as_ref().unwrap().chunk_rows.len() as u64;
    assert_eq!(calls.load(Ordering::Relaxed), 6 * chunks);
    assert_eq!(store.cached_columns(), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_a_load_stops_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f.parquet");
    write(&path, 8, 0);
    let store = store(1 << 30);
    let (_context, table) = table(&path, &store).await;
    let units = 8 * table
        .load(&[], &LoadHints::default(), None)
        .await
        .unwrap()
        .chunk_rows
        .len();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let progress: ProgressCallback = Arc::new(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(5));
    });
    let columns: Vec<usize> = (0..8).collect();
    let hints = LoadHints::default();
    let mut load = Box::pin(table.load(&columns, &hints, Some(progress)));
    while calls.load(Ordering::SeqCst) == 0 {
        assert!(load.as_mut().now_or_never().is_none());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(load);
    // Running work ends, no other work begins, and the memory is released.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let stopped = calls.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(calls.load(Ordering::SeqCst), stopped);
    assert!(stopped < units / 2, "{stopped} of {units}");
    assert_eq!(store.cached_columns(), 0);
    settle(&store).await;
    // Another load succeeds, because the cancelled one released everything.
    table.load(&columns, &LoadHints::default(), None).await.unwrap();
}
