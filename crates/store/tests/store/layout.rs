//! Columns with conflict layouts: the same values, other codes; through appends, changes, and eviction.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::compute::concat;
use arrow::datatypes::*;
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionContext};
use galatea_layout::{AccessPattern, Analyser, Goal, LayoutError, for_each_access};
use galatea_store::layout::{CodeMeaning, PIPELINE_TILES, Room, TABLE_BYTES};
use galatea_store::*;
use parquet::arrow::ArrowWriter;

use crate::data::batch;
use crate::files::{context, file_table, properties, scan};
use crate::round_trip::{assert_same, decoded};

const CHUNK: usize = 3000;

fn store() -> Arc<Store> {
    Store::new(StoreOptions {
        memory_limit: Some(1 << 30),
        chunk_rows: CHUNK,
    })
}

fn table(array: &ArrayRef) -> StoredTable {
    let batch = batch(Arc::clone(array));
    StoredTable::from_batches(&store(), "t", batch.schema(), [batch]).unwrap()
}

fn column(table: &StoredTable) -> Arc<Column> {
    Arc::clone(&table.snapshot().columns[0])
}

async fn laid_out(array: &ArrayRef, requested: ConflictLayout) -> Arc<Column> {
    let table = table(array);
    table.set_conflict_layout(&[0], Some(requested)).await.unwrap();
    column(&table)
}

fn layout(column: &Column) -> &SlotLayout {
    column.layout().expect("a laid-out column")
}

/// Integers of few values that conflict in one bank, `step` apart from `base` on, every `nulls`th row NULL
/// (0: none).
fn integers(rows: usize, values: i64, base: i64, step: i64, nulls: usize) -> ArrayRef {
    let value = |row: usize| base + (row as i64 * 7 + row as i64 / 13) % values * step;
    let valid = |row: &usize| nulls == 0 || !row.is_multiple_of(nulls);
    Arc::new(Int64Array::from_iter(
        (0..rows).map(|row| valid(&row).then(|| value(row))),
    ))
}

fn words(rows: usize, nulls: usize) -> ArrayRef {
    let words = ["RAIL", "AIR", "", "TRUCK", "ünï"];
    let valid = |row: usize| nulls == 0 || !row.is_multiple_of(nulls);
    Arc::new(StringArray::from_iter((0..rows).map(|row| {
        valid(row).then(|| words[(row * row + row / 9) % words.len()])
    })))
}

/// The stored slots of all rows.
fn slots(column: &Column) -> Vec<u32> {
    let Encoding::Slots { width, .. } = &column.encoding else {
        panic!("{:?}", column.encoding)
    };
    let of_chunk = |chunk: &Chunk| -> Vec<u32> {
        let data = chunk.data.as_slice();
        match width.bytes() {
            1 => data.iter().map(|slot| u32::from(*slot)).collect(),
            2 => data
                .chunks(2)
                .map(|slot| u32::from(u16::from_le_bytes([slot[0], slot[1]])))
                .collect(),
            bytes => panic!("{bytes} bytes a slot"),
        }
    };
    column.chunks.iter().flat_map(of_chunk).collect()
}

/// Checks the invariants of a layout, from the slots alone.
fn check(array: &ArrayRef, before: &Column, column: &Arc<Column>, what: &str) {
    assert_same(array, &decoded(column), what);
    assert_eq!(column.null_count, before.null_count, "{what}");
    assert_eq!(column.range, before.range, "{what}");
    let (layout, slots, nulls) = (layout(column), slots(column), array.logical_nulls());
    let values = layout.map.values();
    assert_eq!(layout.null.is_some(), column.null_count > 0, "{what}");
    assert!(
        layout.null.is_none_or(|null| null as usize + 1 == values),
        "{what}"
    );
    assert!(
        (0..values as u32).all(|value| layout.map.value(value) == Some(value)),
        "{what}: slots of values"
    );
    assert!(
        layout.map.slots() as u64 * 8 <= TABLE_BYTES,
        "{what}: {} slots",
        layout.map.slots()
    );
    for (row, slot) in slots.iter().enumerate() {
        let value = layout.map.value(*slot).expect("a slot that holds a value");
        let null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        assert_eq!(Some(value) == layout.null, null, "{what}, row {row}");
        let code = layout.slot_codes()[*slot as usize];
        let expected = if null { 0 } else { value };
        assert_eq!(code, expected, "{what}, row {row}");
    }
    for (chunk, zone) in column
        .chunks
        .iter()
        .zip(before.chunks.iter().map(|chunk| &chunk.zone))
    {
        assert_eq!(&chunk.zone, zone, "{what}");
        assert_eq!(chunk.base, layout.base(), "{what}");
        assert_eq!(chunk.validity.is_some(), chunk.zone.null_count > 0, "{what}");
    }
}

#[tokio::test]
async fn every_shape_comes_back() {
    let requested = ConflictLayout::AUTO;
    for rows in [1, 31, 32, 33, 255, 2999, 3000, 3001, 8192, 8193, 9500] {
        let arrays: Vec<(&str, ArrayRef)> = vec![
            ("integers", integers(rows, 5, -3, 32, 0)),
            ("integers with nulls", integers(rows, 40, i64::MIN, 1000, 3)),
            ("one value", integers(rows, 1, 77, 1, 0)),
            ("one value and null", integers(rows, 1, 77, 1, 2)),
            ("all null", Arc::new(Int64Array::new_null(rows))),
            ("strings", words(rows, 0)),
            ("strings with nulls", words(rows, 4)),
            ("no strings", Arc::new(StringArray::new_null(rows))),
        ];
        for (name, array) in arrays {
            let what = format!("{name}, {rows} rows");
            let table = table(&array);
            let before = column(&table);
            table
                .set_conflict_layout(&[0], Some(requested))
                .await
                .expect(&what);
            let after = column(&table);
            check(&array, &before, &after, &what);
            // And back.
            table.set_conflict_layout(&[0], None).await.expect(&what);
            let again = column(&table);
            assert!(again.layout().is_none(), "{what}");
            assert_same(&array, &decoded(&again), &what);
            assert_eq!(again.scan_bytes(), before.scan_bytes(), "{what}");
        }
    }
}

#[tokio::test]
async fn every_type_of_integers_comes_back() {
    for data_type in crate::data::all_types() {
        let array = crate::data::array(
            &data_type,
            700,
            crate::data::Shape::Few,
            crate::data::Nulls::Some,
            5,
        );
        let table = table(&array);
        let before = column(&table);
        match table.set_conflict_layout(&[0], Some(ConflictLayout::AUTO)).await {
            Ok(()) => check(&array, &before, &column(&table), &data_type.to_string()),
            Err(StoreError::NoLayout { reason, .. }) => {
                let kept = matches!(
                    before.encoding,
                    Encoding::Boolean | Encoding::Float32 | Encoding::Float64
                );
                // A few values around 0 lie at both ends of an unsigned type.
                let wraps =
                    data_type.is_unsigned_integer() && matches!(reason, NoLayout::TooManyValues { .. });
                assert!(kept || wraps, "{data_type}: {reason}");
                assert!(column(&table).layout().is_none());
            }
            Err(error) => panic!("{data_type}: {error}"),
        }
    }
}

#[tokio::test]
async fn skewed_values_have_copies_and_conflicts_go() {
    // Half of the rows share a value: with a window it needs more copies than there are banks.
    let skewed = (0..50_000).map(|row: i64| if row % 2 == 0 { 0 } else { row * row % 13 });
    let array: ArrayRef = Arc::new(Int64Array::from_iter_values(skewed));
    let requested = ConflictLayout {
        room: Room::Table,
        ..ConflictLayout::AUTO
    };
    let column = laid_out(&array, requested).await;
    let layout = layout(&column);
    assert!(layout.report.most_copies > 32, "{:?}", layout.report);
    let chunk_rows: Vec<u32> = column.chunks.iter().map(|chunk| chunk.rows).collect();
    let pattern = PIPELINE_TILES.in_chunks(&chunk_rows).unwrap();
    let rounds = |words: &[u32]| Analyser::default().words(words, &pattern).mean_write_rounds();
    let codes = layout.map.decode(&slots(&column)).unwrap();
    let (before, after) = (rounds(&codes), rounds(&slots(&column)));
    assert!(before > 10.0 && after < 1.01, "{before} {after}");
    assert_eq!(layout.rounds, (before, after));
    // No access uses a slot that one of the 16 before it in its block used.
    let slots = slots(&column);
    for block in 0..pattern.blocks(slots.len()) {
        let mut recent: Vec<Vec<u32>> = Vec::new();
        for_each_access(&pattern, slots.len(), block, |_, rows| {
            let used: Vec<u32> = rows.iter().map(|row| slots[*row]).collect();
            let window = recent.iter().rev().take(ConflictLayout::WINDOW);
            assert!(!window.flatten().any(|slot| used.contains(slot)), "block {block}");
            recent.push(used);
        });
    }
    // Bounded, and for reads.
    let requested = ConflictLayout {
        room: Room::Copies(2.0),
        ..ConflictLayout::AUTO
    };
    let bounded = laid_out(&array, requested).await;
    assert!(self::layout(&bounded).map.slots() <= 26);
    let requested = ConflictLayout {
        goal: Goal::Reads,
        room: Room::Table,
    };
    let column = laid_out(&integers(9500, 200, 0, 32, 0), requested).await;
    let (before, after) = self::layout(&column).rounds;
    assert!(after < before && after < 1.1, "{before} {after}");
}

/// Slots, bytes of their numbers, and rounds of a write, by how much room there is.
#[tokio::test]
async fn small_columns_stay_one_byte_wide_unless_more_is_worth_it() {
    // Every other row has one value; the others have the rest, in turn.
    let half = |values: i64| -> ArrayRef {
        let value = |row: i64| if row % 2 == 0 { 0 } else { row / 2 % values };
        Arc::new(Int64Array::from_iter_values((0..20_000).map(value)))
    };
    let laid_out_in = async |array: &ArrayRef, room| {
        let requested = ConflictLayout {
            room,
            ..ConflictLayout::AUTO
        };
        let column = laid_out(array, requested).await;
        let layout = layout(&column);
        assert_eq!(layout.map.decode(&slots(&column)).unwrap().len(), 20_000);
        (layout.map.slots(), layout.width(), layout.rounds)
    };
    for values in [2, 13, 120] {
        let array = half(values);
        let (slots, width, (before, after)) = laid_out_in(&array, Room::Auto).await;
        assert!(
            slots <= 256 && width == Width::One,
            "{values} values: {slots} slots"
        );
        assert!(before > 15.0 && after < 3.5, "{values} values: {before} {after}");
        let (slots, width, (_, free)) = laid_out_in(&array, Room::Table).await;
        assert!(
            slots > 256 && width == Width::Two,
            "{values} values: {slots} slots"
        );
        assert!(free < 1.1, "{values} values: {free}");
    }
    // No slot is to spare: half of the lanes of every access would conflict.
    let array = half(256);
    let (slots, width, (before, after)) = laid_out_in(&array, Room::Auto).await;
    assert!(slots > 256 && width == Width::Two, "{slots} slots");
    assert!(before > 15.0 && after < 1.1, "{before} {after}");
    // Conflicts of few lanes are not worth a byte, and a budget that was asked for holds.
    let uniform: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..20_000).map(|row| row * 7919 % 20_011 % 250),
    ));
    let (slots, width, _) = laid_out_in(&uniform, Room::Auto).await;
    assert!(slots <= 256 && width == Width::One, "{slots} slots");
    let (slots, ..) = laid_out_in(&half(256), Room::Copies(1.0)).await;
    assert_eq!(slots, 256);
    // Wider columns have nothing to lose.
    let (slots, width, (_, after)) = laid_out_in(&half(257), Room::Auto).await;
    assert!(
        slots > 257 && width == Width::Two && after < 1.1,
        "{slots} slots, {after}"
    );
}

#[tokio::test]
async fn columns_that_cannot_have_a_layout_are_refused_with_numbers() {
    let refused = async |array: ArrayRef, requested: ConflictLayout| {
        let table = table(&array);
        let before = table.snapshot();
        let error = table
            .set_conflict_layout(&[0], Some(requested))
            .await
            .unwrap_err();
        assert_eq!(table.snapshot().id, before.id, "the table is unchanged");
        match error {
            StoreError::NoLayout { column, reason } => {
                assert_eq!(column, "c");
                reason
            }
            other => panic!("{other}"),
        }
    };
    let auto = ConflictLayout::AUTO;
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values([1.0, 2.0]));
    assert!(matches!(refused(floats, auto).await, NoLayout::Encoding(_)));
    let none: ArrayRef = Arc::new(Int64Array::from_iter_values([]));
    assert_eq!(refused(none, auto).await, NoLayout::Empty);
    let many: ArrayRef = Arc::new(Int64Array::from_iter(
        (0..9000).map(|row| (row > 0).then_some(row % 8193)),
    ));
    let too_many = NoLayout::TooManyValues {
        values: 8194,
        limit: 8192,
    };
    assert_eq!(refused(many, auto).await, too_many);
    let wide: ArrayRef = Arc::new(Int64Array::from_iter_values([i64::MIN, i64::MAX, 0]));
    assert!(matches!(
        refused(wide, auto).await,
        NoLayout::TooManyValues { values, .. } if values == 1 << 64
    ));
    let few = ConflictLayout {
        room: Room::Copies(0.5),
        ..auto
    };
    assert!(matches!(
        refused(integers(10, 3, 0, 1, 0), few).await,
        NoLayout::Layout(LayoutError::Budget { .. })
    ));
    let strings = (0..2000).map(|row| format!("{row}"));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values(strings));
    assert!(matches!(refused(text, auto).await, NoLayout::Encoding(_)));
    // As many as there may be, which leaves no room for copies.
    let full = laid_out(&integers(9000, 8192, -5, 3, 0), auto).await;
    assert_eq!(layout(&full).map.slots(), 8192);
    assert!(matches!(
        layout(&full).meaning,
        CodeMeaning::Integer { base: -5, factor: 3 }
    ));
    let table = table(&integers(10, 3, 0, 1, 0));
    let unknown = table.set_conflict_layout(&[1], Some(auto)).await;
    assert!(matches!(unknown, Err(StoreError::UnknownColumn { index: 1, .. })));
}

#[tokio::test]
async fn appended_rows_take_first_copies_and_earlier_rows_keep_theirs() {
    for nulls in [0, 5] {
        for rows in [100, CHUNK, 2 * CHUNK + 2000] {
            let (first, more) = (words(rows, nulls), words(150, nulls));
            let table = table(&first);
            table
                .set_conflict_layout(&[0], Some(ConflictLayout::AUTO))
                .await
                .unwrap();
            let before = column(&table);
            let what = format!("{rows} rows, null {nulls}");
            table.append(vec![batch(Arc::clone(&more))]).await.unwrap();
            let after = column(&table);
            let all = concat(&[first.as_ref(), more.as_ref()]).unwrap();
            assert_same(&all, &decoded(&after), &what);
            assert!(
                Arc::ptr_eq(before.layout().unwrap(), after.layout().unwrap()),
                "{what}"
            );
            let (was, is) = (slots(&before), slots(&after));
            assert_eq!(was[..], is[..rows], "{what}");
            let values = layout(&after).map.values() as u32;
            assert!(is[rows..].iter().all(|slot| *slot < values), "{what}");
        }
    }
}

#[tokio::test]
async fn new_values_lay_the_column_out_again() {
    let first = integers(5000, 10, 100, 20, 0);
    for (name, more) in [
        ("within", vec![Some(100), Some(280)]),
        ("between", vec![Some(110)]),
        ("below", vec![Some(80)]),
        ("above", vec![Some(300)]),
        ("null", vec![None, Some(100)]),
    ] {
        let table = table(&first);
        table
            .set_conflict_layout(&[0], Some(ConflictLayout::AUTO))
            .await
            .unwrap();
        let before = column(&table);
        let more: ArrayRef = Arc::new(Int64Array::from(more));
        table.append(vec![batch(Arc::clone(&more))]).await.unwrap();
        let after = column(&table);
        let all = concat(&[first.as_ref(), more.as_ref()]).unwrap();
        assert_same(&all, &decoded(&after), name);
        let kept = Arc::ptr_eq(before.layout().unwrap(), after.layout().unwrap());
        assert_eq!(kept, name == "within", "{name}");
        assert_eq!(layout(&after).null.is_some(), name == "null");
    }
    // Values beyond the limit: stored without a layout, and laid out again when they are deleted.
    let table = table(&first);
    table
        .set_conflict_layout(&[0], Some(ConflictLayout::AUTO))
        .await
        .unwrap();
    table
        .append(vec![batch(Arc::new(Int64Array::from(vec![1_000_001])))])
        .await
        .unwrap();
    assert!(column(&table).layout().is_none());
    assert_eq!(table.snapshot().rows(), 5001);
    let context = SessionContext::new();
    context.register_table("t", Arc::new(table.clone())).unwrap();
    let run = async |sql: &str| context.sql(sql).await.unwrap().collect().await.unwrap();
    run("DELETE FROM t WHERE c > 1000000").await;
    assert!(column(&table).layout().is_some());
    assert_same(&first, &decoded(&column(&table)), "after a deletion");
    // An empty column has no layout; inserted rows have.
    run("TRUNCATE TABLE t").await;
    assert!(column(&table).layout().is_none());
    run("INSERT INTO t VALUES (5), (7), (5)").await;
    assert!(column(&table).layout().is_some());
    let without_layout = table.set_conflict_layout(&[0], None).await;
    without_layout.unwrap();
    run("INSERT INTO t VALUES (9)").await;
    assert!(column(&table).layout().is_none());
}

#[tokio::test]
async fn queries_and_zones_see_no_difference() {
    let (plain, context) = (SessionContext::new(), SessionContext::new());
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("n", integers(9500, 50, -20, 5, 7), true),
        ("w", words(9500, 6), true),
        // Ascending: chunks can be pruned.
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
    // Chunks are kept or not as before.
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
    let hints = LoadHints { dictionary: vec![1] };
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
async fn columns_of_files_are_laid_out_whenever_they_are_loaded() {
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
        // Another query's scan of the same file finds it laid out, before and after eviction.
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
        // A file with values that cannot have a layout is loaded without.
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
