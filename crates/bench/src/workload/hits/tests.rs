use std::collections::HashSet;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Int16Type, Int32Type, Int64Type};

use super::super::Workload;
use super::*;

fn whole(scale: f64, chunks: usize) -> RecordBatch {
    let table = tables(scale).swap_remove(0);
    let batches: Vec<_> = (0..chunks).flat_map(|chunk| table.chunk(chunk, chunks)).collect();
    concat_batches(&table.schema(), &batches).expect("one schema")
}

fn texts<'a>(batch: &'a RecordBatch, name: &str) -> Vec<&'a str> {
    let column = batch.column_by_name(name).expect(name).as_string::<i32>();
    column.iter().flatten().collect()
}

fn longs(batch: &RecordBatch, name: &str) -> Vec<i64> {
    let column = batch.column_by_name(name).expect(name);
    column.as_primitive::<Int64Type>().values().to_vec()
}

fn distinct<T: std::hash::Hash + Eq>(values: &[T]) -> usize {
    values.iter().collect::<HashSet<_>>().len()
}

#[test]
fn chunked_generation_matches_the_whole_table() {
    assert_eq!(whole(0.000_2, 1), whole(0.000_2, 3));
    assert_eq!(whole(0.000_2, 1).num_rows(), 20_000);
}

/// Cardinalities, shares and lengths relative to the rows, as in the module's table.
#[test]
fn column_statistics_match_published_ones() {
    let hits = whole(0.001, 1);
    let rows = hits.num_rows() as f64;
    let share = |count: usize| count as f64 / rows;
    let near = |name: &str, found: f64, expected: f64| {
        assert!(
            (found / expected - 1.0).abs() < 0.08,
            "{name}: {found}, not {expected}"
        );
    };
    near("users", share(distinct(&longs(&hits, "UserID"))), 0.176);
    near("pages", share(distinct(&texts(&hits, "URL"))), 0.183);
    near("rows", share(distinct(&longs(&hits, "WatchID"))), 1.0);
    let phrases = texts(&hits, "SearchPhrase");
    let searched = phrases.iter().filter(|phrase| !phrase.is_empty()).count();
    near("searches", share(searched), 0.132);
    near("phrases", share(distinct(&phrases)), 0.062);
    let bytes = |name: &str| texts(&hits, name).iter().map(|text| text.len()).sum::<usize>();
    for (name, lengths) in [
        ("URL", 75.0..95.0),
        ("Title", 65.0..90.0),
        ("SearchPhrase", 4.0..8.0),
    ] {
        let bytes = share(bytes(name));
        assert!(lengths.contains(&bytes), "{name}: {bytes} bytes");
    }
    let empty = texts(&hits, "Referer")
        .iter()
        .filter(|text| text.is_empty())
        .count();
    near("no referer", share(empty), 0.224);
    let advertisers = hits.column_by_name("AdvEngineID").expect("a column");
    let advertisers = advertisers.as_primitive::<Int16Type>().values();
    let advertised = advertisers.iter().filter(|id| **id != 0).count();
    near("advertisements", share(advertised), 0.007_8);
    let counters = hits.column_by_name("CounterID").expect("a column");
    let counters = counters.as_primitive::<Int32Type>().values();
    let asked_for = counters.iter().filter(|id| **id == 62).count();
    assert!((0.005..0.02).contains(&share(asked_for)), "{asked_for}");
}

/// The constants that queries compare with.
#[test]
fn query_constants_occur_in_the_data() {
    let hits = whole(0.000_2, 1);
    for (name, constant) in [
        ("UserID", 435_090_932_899_640_449),
        ("URLHash", 2_868_770_270_353_813_622),
        ("RefererHash", 3_594_120_000_172_545_465),
    ] {
        assert!(longs(&hits, name).contains(&constant), "{name}");
    }
    for (name, part) in [("URL", "google"), ("URL", ".google."), ("Title", "Google")] {
        assert!(
            texts(&hits, name).iter().any(|text| text.contains(part)),
            "{part} in {name}"
        );
    }
}

#[test]
fn queries_are_numbered_and_read_columns_that_exist() {
    let queries = queries();
    assert_eq!(queries.len(), 43);
    let asked = ["0", "q07", "42"].map(String::from);
    let selected = Workload::Hits.select(0.001, &asked).expect("queries");
    let names: Vec<&str> = selected.iter().map(|query| query.name.as_str()).collect();
    assert_eq!(names, ["0", "7", "42"]);
    let schema = tables(0.001)[0].schema();
    assert_eq!(schema.fields().len(), 105);
    for (number, query) in queries.iter().enumerate() {
        assert_eq!(query.name, number.to_string());
        for name in query.sql.split('"').skip(1).step_by(2) {
            assert!(
                schema.column_with_name(name).is_some(),
                "{name} in query {number}"
            );
        }
    }
}
