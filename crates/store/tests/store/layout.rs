//! Columns with conflict layouts have the same values with other codes, through appends and changes.

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::concat;
use datafusion::prelude::SessionContext;
use galatea_layout::{AccessPattern, Analyser, Goal, LayoutError, for_each_access};
use galatea_store::layout::{CodeMeaning, PIPELINE_TILES, Room, TABLE_BYTES};
use galatea_store::*;

use crate::data::batch;
use crate::round_trip::{assert_same, decoded};

const CHUNK: usize = 3000;

pub(crate) fn store() -> Arc<Store> {
    Store::new(StoreOptions {
        memory_limit: Some(1 << 30),
        chunk_rows: CHUNK,
        ..StoreOptions::default()
    })
}

fn table(array: &ArrayRef) -> StoredTable {
    let batch = batch(Arc::clone(array));
    StoredTable::from_batches(&store(), "t", batch.schema(), [batch]).unwrap()
}

pub(crate) fn column(table: &StoredTable) -> Arc<Column> {
    Arc::clone(&table.snapshot().columns[0])
}

async fn laid_out(array: &ArrayRef, requested: ConflictLayout) -> Arc<Column> {
    let table = table(array);
    table.set_conflict_layout(&[0], Some(requested)).await.unwrap();
    column(&table)
}

pub(crate) fn layout(column: &Column) -> &SlotLayout {
    column.layout().expect("a laid-out column")
}

/// Integers of few values that conflict in one bank, `step` apart from `base` on. Every `nulls`th row is NULL
/// (0: none).
pub(crate) fn integers(rows: usize, values: i64, base: i64, step: i64, nulls: usize) -> ArrayRef {
    let value = |row: usize| base + (row as i64 * 7 + row as i64 / 13) % values * step;
    let valid = |row: &usize| nulls == 0 || !row.is_multiple_of(nulls);
    Arc::new(Int64Array::from_iter(
        (0..rows).map(|row| valid(&row).then(|| value(row))),
    ))
}

pub(crate) fn words(rows: usize, nulls: usize) -> ArrayRef {
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
        let data = chunk.data.stored().as_slice();
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
async fn laid_out_columns_decode_to_the_original() {
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
            // Without a layout again.
            table.set_conflict_layout(&[0], None).await.expect(&what);
            let again = column(&table);
            assert!(again.layout().is_none(), "{what}");
            assert_same(&array, &decoded(&again), &what);
            assert_eq!(again.scan_bytes(), before.scan_bytes(), "{what}");
        }
    }
}

#[tokio::test]
async fn laid_out_integers_of_every_type_round_trip() {
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
                // A few values around 0 are at both ends of an unsigned type.
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
async fn layouts_of_skewed_values_avoid_conflicts() {
    // Half of the rows share a value. With a window it needs more copies than there are banks.
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
    // With a bound, and for reads.
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

/// Compares slots, bytes of their numbers, and rounds of a write, for different limits on copies.
#[tokio::test]
async fn columns_are_widened_only_if_profitable() {
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
    // No slot is left for copies: half of the lanes of every access would conflict.
    let array = half(256);
    let (slots, width, (before, after)) = laid_out_in(&array, Room::Auto).await;
    assert!(slots > 256 && width == Width::Two, "{slots} slots");
    assert!(before > 15.0 && after < 1.1, "{before} {after}");
    // Conflicts of few lanes are not worth a byte per row, and a requested budget is kept.
    let uniform: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..20_000).map(|row| row * 7919 % 20_011 % 250),
    ));
    let (slots, width, _) = laid_out_in(&uniform, Room::Auto).await;
    assert!(slots <= 256 && width == Width::One, "{slots} slots");
    let (slots, ..) = laid_out_in(&half(256), Room::Copies(1.0)).await;
    assert_eq!(slots, 256);
    // A wider column does not get wider.
    let (slots, width, (_, after)) = laid_out_in(&half(257), Room::Auto).await;
    assert!(
        slots > 257 && width == Width::Two && after < 1.1,
        "{slots} slots, {after}"
    );
}

#[tokio::test]
async fn layout_refusal_contains_the_exceeded_limits() {
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
    // The maximum, which leaves no slot for copies.
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
async fn appended_rows_use_first_copies() {
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
async fn new_values_rebuild_the_layout() {
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
