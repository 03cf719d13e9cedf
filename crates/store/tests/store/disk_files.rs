//! Files of the column cache on disk: damage, limits, permissions, and several stores that share a folder.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow::array::*;
use arrow::datatypes::{DataType, Int64Type};
use galatea_store::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::disk::{Place, cache, integers, load, load_all, report, settle, special, table, write, written};
use crate::round_trip::{assert_same, decoded};

#[tokio::test]
async fn damaged_files_are_ignored() {
    let place = Place::new();
    let path = place.file("t.parquet");
    let strings = Arc::new(StringArray::from_iter_values(
        (0..40).map(|row| format!("v{}", row % 3)),
    ));
    write(
        &path,
        &RecordBatch::try_from_iter([("s", strings as ArrayRef)]).expect("a column"),
    );
    settle();
    let store = place.store();
    let expected = load_all(&table(&store, &path).await).await;
    let expected = decoded(&expected.columns[0]);
    assert_eq!(written(&store).written, 1);
    let files = place.cached();
    let file = files[0].clone();
    let whole = std::fs::read(&file).expect("a file");
    assert!(whole.len() < 20_000, "{}", whole.len());

    let seed = 29;
    let mut random = StdRng::seed_from_u64(seed);
    let step = |at: usize| if at < 600 { 1 } else { 61 };
    let mut damaged: Vec<(String, Vec<u8>)> = Vec::new();
    let mut at = 0;
    while at < whole.len() {
        damaged.push((format!("truncated at {at}"), whole[..at].to_vec()));
        at += step(at);
    }
    let length = u64::from_le_bytes(whole[16..24].try_into().expect("eight bytes")) as usize;
    let end = 64 + length;
    let unused = format!("flipped at {end}, seed {seed}");
    for at in (0..=end).chain((end + 1..whole.len()).filter(|at| whole[*at] != 0)) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << random.random_range(0..8);
        damaged.push((format!("flipped at {at}, seed {seed}"), flipped));
    }
    damaged.push(("longer".to_owned(), [whole.clone(), vec![0]].concat()));
    damaged.push(("another file".to_owned(), b"PAR1".repeat(500)));
    for (what, bytes) in &damaged {
        std::fs::write(&file, bytes).expect("written");
        let store = place.store();
        // Files are only read: the next one replaces this one.
        let view = load_all(&table(&store, &path).await).await;
        assert_same(&expected, &decoded(&view.columns[0]), what);
        let counts = cache(&store).counts();
        // Bytes between metadata and sections have no meaning.
        let is_used = *what != unused;
        assert_eq!(counts.damaged, u64::from(is_used), "{what}");
        assert_eq!(report(&view).disk_columns, u64::from(!is_used), "{what}");
        if !is_used {
            continue;
        }
        written(&store);
        assert_eq!(std::fs::read(&file).expect("written again"), whole, "{what}");
    }
}

#[tokio::test]
async fn the_least_recently_used_files_are_removed() {
    let place = Place::new();
    let paths: Vec<PathBuf> = (0..3)
        .map(|file| place.file(&format!("{file}.parquet")))
        .collect();
    for path in &paths {
        let values = (0..20_000_i64).map(|row| row * row % 60_000);
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
        write(
            path,
            &RecordBatch::try_from_iter([("a", values)]).expect("a column"),
        );
    }
    settle();
    let store = place.store();
    let mut files = Vec::new();
    for path in &paths[..2] {
        load_all(&table(&store, path).await).await;
        written(&store);
        let new: Vec<_> = place
            .cached()
            .into_iter()
            .filter(|file| !files.contains(file))
            .collect();
        files.extend(new);
    }
    let bytes = std::fs::metadata(&files[0]).expect("a file").len();
    for (file, age) in files.iter().zip([200, 100]) {
        let time = SystemTime::now() - Duration::from_secs(age);
        File::options()
            .write(true)
            .open(file)
            .and_then(|file| file.set_modified(time))
            .expect("a time");
    }
    // Reading a file updates its time: the older file becomes the younger one.
    let store = place.store();
    let view = load_all(&table(&store, &paths[0]).await).await;
    assert_eq!(report(&view).disk_columns, 1);
    cache(&store).set_limit(2 * bytes + bytes / 2);
    load_all(&table(&store, &paths[2]).await).await;
    assert_eq!(written(&store).evicted, 1);
    assert!(files[0].exists() && !files[1].exists());
    assert_eq!(place.cached().len(), 2);
    // A column larger than the limit is not written, and evicts nothing.
    cache(&store).set_limit(bytes / 2);
    load_all(&table(&store, &paths[1]).await).await;
    assert_eq!((written(&store).written, place.cached().len()), (1, 2));
    assert_eq!(cache(&store).clear(), 2);
    assert!(place.cached().is_empty());
}

#[tokio::test]
async fn unwritable_folders_disable_only_the_cache() {
    let place = Place::new();
    let path = place.file("t.parquet");
    write(&path, &integers(3000, 1));
    settle();
    let store = place.store();
    let missing = DiskCache::new(place.file("missing"), 1 << 30);
    store.set_disk_cache(Some(Arc::clone(&missing)));
    let view = load_all(&table(&store, &path).await).await;
    assert_eq!(view.rows, 3000);
    assert!(missing.wait(Duration::from_secs(60)));
    assert_eq!((missing.counts().written, missing.counts().failed_writes), (0, 2));
}

#[tokio::test]
async fn files_are_private_to_the_user() {
    let place = Place::new();
    let path = place.file("t.parquet");
    write(&path, &integers(100, 1));
    settle();
    let store = place.store();
    load_all(&table(&store, &path).await).await;
    written(&store);
    for file in place.cached() {
        let found = std::fs::metadata(&file).expect("a file");
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        assert_eq!(
            found.uid(),
            std::fs::metadata(place.cache()).expect("a folder").uid()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stores_share_a_folder_at_the_same_time() {
    let place = Arc::new(Place::new());
    let path = place.file("t.parquet");
    let expected = special(5000, 3);
    write(&path, &expected);
    settle();
    let tasks = (0..6).map(|number| {
        let (place, path, expected) = (Arc::clone(&place), path.clone(), expected.clone());
        tokio::spawn(async move {
            for round in 0..4 {
                let store = place.store();
                // Some of them evict what the others read.
                if number == 5 {
                    cache(&store).set_limit(100_000);
                }
                let view = load_all(&table(&store, &path).await).await;
                for (column, expected) in view.columns.iter().zip(expected.columns()) {
                    assert_eq!(
                        decoded(column).len(),
                        expected.len(),
                        "store {number}, round {round}, {}",
                        column.name
                    );
                }
                let text = view.columns.last().expect("a column");
                let text = arrow::compute::cast(&decoded(text), &DataType::Utf8).expect("strings");
                assert_eq!(&text, expected.column(10), "store {number}, round {round}");
                let counts = written(&store);
                assert_eq!((counts.damaged, counts.failed_writes), (0, 0));
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
}

#[tokio::test]
async fn store_limit_holds_for_cached_columns() {
    let place = Place::new();
    let path = place.file("t.parquet");
    write(&path, &integers(100_000, 1));
    settle();
    let store = place.store();
    load_all(&table(&store, &path).await).await;
    written(&store);
    let small = place.store_with(StoreOptions {
        memory_limit: Some(10_000),
        chunk_rows: 1000,
        ..StoreOptions::default()
    });
    let refused = table(&small, &path).await;
    let refused = refused.load(&[0, 1], &LoadHints::default(), None).await;
    let error = refused.expect_err("too large");
    assert!(error.is_refusal(), "{error}");
    assert_eq!(small.memory_used(), 0);
    assert_eq!(cache(&small).counts().damaged, 0);
}

#[tokio::test]
async fn cached_chunks_that_contradict_the_source_are_dropped() {
    let place = Place::new();
    let (path, other) = (place.file("t.parquet"), place.file("other.parquet"));
    write(&path, &integers(3000, 1));
    write(&other, &integers(2500, 1));
    settle();
    // The first column of both tables, and then that of the other table under the first one's name.
    let mut files = Vec::new();
    for path in [&path, &other] {
        let store = place.store();
        load(&table(&store, path).await, &[0], &LoadHints::default()).await;
        written(&store);
        let new = place.cached().into_iter().find(|file| !files.contains(file));
        files.extend(new);
    }
    let right = std::fs::read(&files[0]).expect("a file");
    let mut wrong = std::fs::read(&files[1]).expect("a file");
    let length = u64::from_le_bytes(wrong[16..24].try_into().expect("eight bytes")) as usize;
    wrong[64..96].copy_from_slice(&right[64..96]);
    let digest = *blake3::hash(&wrong[64..64 + length]).as_bytes();
    wrong[24..56].copy_from_slice(&digest);
    std::fs::write(&files[0], wrong).expect("written");

    let store = place.store();
    let table = table(&store, &path).await;
    let view = load(&table, &[0], &LoadHints::default()).await;
    assert_eq!((report(&view).disk_columns, view.rows), (1, 2500));
    // The source has other rows: the cached column is read again from there.
    let view = load_all(&table).await;
    assert_eq!((view.rows, view.columns[0].rows()), (3000, 3000));
    assert_eq!(cache(&store).counts().damaged, 1);
    assert_eq!(
        decoded(&view.columns[0]).as_primitive::<Int64Type>().value(2999),
        2999
    );
}
