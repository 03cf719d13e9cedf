//! Columns with conflict layouts in queries and files, and their memory.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionContext};
use galatea_store::*;
use parquet::arrow::ArrowWriter;

use crate::data::batch;
use crate::files::{context, file_table, properties, scan};
use crate::layout::{column, integers, store, words};
use crate::round_trip::{assert_same, decoded};

#[tokio::test]
async fn conflict_layouts_change_no_results_or_zones() {
    let (plain, context) = (SessionContext::new(), SessionContext::new());
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("n", integers(9500, 50, -20, 5, 7), true),
        ("w", words(9500, 6), true),
        // Ascending, so that chunks can be pruned.
        (
            "day",
            Arc::new(Date32Array::from_iter_values(
                (0..9500).map(|row| 9000 + row / 200),
            )),
            false,
        ),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    plain.register_batch("t", batch.clone()).unwrap();
    let table = StoredTable::from_batches(&store(), "t", batch.schema(), [batch]).unwrap();
    let without_layout = table.snapshot();
    table
        .set_conflict_layout(&[0, 1, 2], Some(ConflictLayout::AUTO))
        .await
        .unwrap();
    let snapshot = table.snapshot();
    context.register_table("t", Arc::new(table)).unwrap();
    for sql in [
        "SELECT n, count(*), min(w), max(day) FROM t GROUP BY n ORDER BY n",
        "SELECT w, sum(n) FROM t WHERE w > 'AIR' GROUP BY w ORDER BY w",
        "SELECT count(*), min(n), max(n), min(w), max(w), min(day), max(day) FROM t",
        "SELECT count(*), count(n), count(w) FROM t WHERE day BETWEEN '1994-09-20' AND '1994-10-01'",
        "SELECT a.n, count(*) FROM t a JOIN t b ON a.day = b.day AND a.w = b.w GROUP BY a.n ORDER BY 1",
        "SELECT n, w, day FROM t WHERE n IS NULL OR w = 'ünï' ORDER BY day, n, w LIMIT 50",
    ] {
        let rows = async |context: &SessionContext| {
            let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
            arrow::util::pretty::pretty_format_batches(&batches)
                .unwrap()
                .to_string()
        };
        assert_eq!(rows(&plain).await, rows(&context).await, "{sql}");
    }
    // The same chunks are pruned as before.
    let pruned = async |sql: &str| {
        let plan = context
            .sql(sql)
            .await
            .unwrap()
            .create_physical_plan()
            .await
            .unwrap();
        datafusion::physical_plan::displayable(plan.as_ref())
            .indent(false)
            .to_string()
    };
    let plan = pruned("SELECT n FROM t WHERE day > '1994-10-01'").await;
    assert!(plan.contains("chunks=2/4"), "{plan}");
    let plan = pruned("SELECT n FROM t WHERE w = 'BARGE'").await;
    assert!(plan.contains("chunks=0/4"), "{plan}");
    let hints = LoadHints::with_dictionaries(vec![1]);
    let view = snapshot.load(&[1], &hints, None).await.unwrap();
    assert!(view.columns[0].layout().is_some() && view.columns[0].dictionary().is_some());
    assert!(
        without_layout
            .columns
            .iter()
            .all(|column| column.layout().is_none())
    );
}

fn write(path: &Path, array: &ArrayRef) {
    let batch = batch(Arc::clone(array));
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties().build())).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

#[tokio::test]
async fn requested_layouts_of_file_columns_survive_eviction() {
    let directory = tempfile::tempdir().unwrap();
    let (parquet, csv) = (directory.path().join("f.parquet"), directory.path().join("f.csv"));
    let array = integers(20_000, 12, 5, 64, 0);
    write(&parquet, &array);
    let text: String = array
        .as_primitive::<Int64Type>()
        .values()
        .iter()
        .map(|value| format!("{value}\n"))
        .collect();
    std::fs::write(&csv, format!("c\n{text}")).unwrap();
    for file in [&parquet, &csv] {
        let (context, store) = (context(), crate::files::store());
        let path = file.to_str().unwrap();
        match file == &parquet {
            true => {
                context
                    .register_parquet("t", path, ParquetReadOptions::default())
                    .await
            }
            false => context.register_csv("t", path, CsvReadOptions::new()).await,
        }
        .unwrap();
        let table = file_table(&context, &store, "select * from t").await;
        let before = Arc::clone(
            &table
                .load(&[0], &LoadHints::default(), None)
                .await
                .unwrap()
                .columns[0],
        );
        assert!(before.layout().is_none());
        let requested = Some(ConflictLayout::AUTO);
        table.set_conflict_layout(&[0], requested).await.unwrap();
        // The column is laid out in another query's scan of the same file, before and after eviction.
        let scan = scan(&context, "select c from t where c > 100").await;
        let other = store.file_table(&scan, &context.runtime_env()).unwrap();
        let load = async || {
            let view = other.load(&[0], &LoadHints::default(), None).await.unwrap();
            Arc::clone(&view.columns[0])
        };
        let laid_out = load().await;
        assert!(laid_out.layout().is_some(), "{path}");
        assert_same(&array, &decoded(&laid_out), path);
        drop(before);
        assert_eq!(store.memory_used(), laid_out.bytes(), "{path}");
        drop(laid_out);
        store.clear_cache();
        assert_eq!(store.memory_used(), 0, "{path}");
        let again = load().await;
        assert!(again.layout().is_some(), "{path}: after eviction");
        assert_same(&array, &decoded(&again), path);
        // A file with values that cannot have a layout is loaded without one.
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        if file == &parquet {
            let wide = integers(20_000, 15_000, 0, 1, 0);
            write(file, &wide);
            let changed = load().await;
            assert!(changed.layout().is_none());
            assert_same(&wide, &decoded(&changed), path);
            let refused = table.set_conflict_layout(&[0], requested).await;
            assert!(matches!(refused, Err(StoreError::NoLayout { .. })));
            write(file, &array);
        }
        table.set_conflict_layout(&[0], None).await.unwrap();
        store.clear_cache();
        assert!(load().await.layout().is_none(), "{path}: turned back");
    }
}

#[tokio::test]
async fn memory_of_a_layout_is_counted_and_bounded() {
    let array = integers(20_000, 12, 5, 64, 0);
    let batch = batch(Arc::clone(&array));
    let store = store();
    let table = StoredTable::from_batches(&store, "t", batch.schema(), [batch]).unwrap();
    let without_layout = store.memory_used();
    let auto = Some(ConflictLayout::AUTO);
    store.set_memory_limit(without_layout + 50_000);
    // Laying it out needs four bytes a row.
    match table.set_conflict_layout(&[0], auto).await {
        Err(StoreError::StoreLimit { needed, .. }) => assert!(needed >= 80_000, "{needed}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(store.memory_used(), without_layout);
    store.set_memory_limit(1 << 30);
    table.set_conflict_layout(&[0], auto).await.unwrap();
    assert_eq!(store.memory_used(), column(&table).bytes());
}
