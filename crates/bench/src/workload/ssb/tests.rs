use std::collections::HashSet;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Int32Type, Int64Type};

use super::*;

fn whole(table: &dyn TableGenerator, chunks: usize) -> RecordBatch {
    let batches: Vec<_> = (0..chunks).flat_map(|chunk| table.chunk(chunk, chunks)).collect();
    concat_batches(&table.schema(), &batches).expect("one schema")
}

fn table(name: &str, scale: f64) -> Box<dyn TableGenerator> {
    let position = TABLES.iter().position(|table| *table == name).expect("a table");
    tables(scale).swap_remove(position)
}

fn texts(batch: &RecordBatch, name: &str) -> Vec<String> {
    let column = batch.column_by_name(name).expect(name).as_string::<i32>();
    column.iter().flatten().map(str::to_string).collect()
}

fn longs(batch: &RecordBatch, name: &str) -> Vec<i64> {
    batch
        .column_by_name(name)
        .expect(name)
        .as_primitive::<Int64Type>()
        .values()
        .to_vec()
}

fn ints(batch: &RecordBatch, name: &str) -> Vec<i32> {
    batch
        .column_by_name(name)
        .expect(name)
        .as_primitive::<Int32Type>()
        .values()
        .to_vec()
}

#[test]
fn rows_follow_the_specification() {
    assert_eq!(
        Rows::at(1.0),
        Rows {
            suppliers: 2_000,
            customers: 30_000,
            parts: 200_000,
            orders: 1_500_000
        }
    );
    assert_eq!(Rows::at(100.0).parts, 1_400_000);
    let counts: Vec<u64> = tables(0.01).iter().map(|table| table.expected_rows()).collect();
    assert_eq!(counts, [2557, 20, 300, 2_000, 60_000]);
    assert_eq!(whole(table("date", 0.01).as_ref(), 1).num_rows(), 2557);
    let lines = whole(table("lineorder", 0.01).as_ref(), 1).num_rows();
    assert!((59_000..61_000).contains(&lines), "{lines}");
}

#[test]
fn chunked_generation_matches_the_whole_table() {
    for table in tables(0.001) {
        assert_eq!(
            whole(table.as_ref(), 1),
            whole(table.as_ref(), 3),
            "{}",
            table.name()
        );
        assert_eq!(
            whole(table.as_ref(), 1),
            whole(table.as_ref(), 1),
            "{}",
            table.name()
        );
    }
}

#[test]
fn date_dimension_is_a_valid_calendar() {
    let dates = whole(table("date", 1.0).as_ref(), 1);
    let keys = ints(&dates, "d_datekey");
    assert_eq!(
        (keys[0], keys[59], keys[2556]),
        (19_920_101, 19_920_229, 19_981_231)
    );
    let row = keys
        .iter()
        .position(|key| *key == 19_971_225)
        .expect("Christmas 1997");
    assert_eq!(texts(&dates, "d_yearmonth")[row], "Dec1997");
    assert_eq!(texts(&dates, "d_dayofweek")[row], "Thursday");
    assert_eq!(texts(&dates, "d_date")[row], "December 25, 1997");
    assert_eq!(ints(&dates, "d_yearmonthnum")[row], 199_712);
    assert_eq!(texts(&dates, "d_sellingseason")[row], "Christmas");
    assert_eq!(ints(&dates, "d_weeknuminyear")[row], 52);
}

#[test]
fn dimension_domains_contain_query_constants() {
    let parts = whole(table("part", 0.1).as_ref(), 1);
    let brands: HashSet<_> = texts(&parts, "p_brand1").into_iter().collect();
    let categories: HashSet<_> = texts(&parts, "p_category").into_iter().collect();
    assert_eq!((brands.len(), categories.len()), (1000, 25));
    assert!(brands.contains("MFGR#2221") && categories.contains("MFGR#14"));
    let customers = whole(table("customer", 1.0).as_ref(), 1);
    let cities: HashSet<_> = texts(&customers, "c_city").into_iter().collect();
    assert_eq!(cities.len(), 250);
    assert!(cities.contains("UNITED KI1") && cities.contains("UNITED ST9") && cities.contains("PERU     0"));
    let regions: HashSet<_> = texts(&customers, "c_region").into_iter().collect();
    assert_eq!(regions.len(), 5);
}

#[test]
fn order_lines_are_consistent_with_orders() {
    let lines = whole(table("lineorder", 0.001).as_ref(), 1);
    let (price, discount, revenue) = (
        longs(&lines, "lo_extendedprice"),
        ints(&lines, "lo_discount"),
        longs(&lines, "lo_revenue"),
    );
    let (order, number, total) = (
        longs(&lines, "lo_orderkey"),
        ints(&lines, "lo_linenumber"),
        longs(&lines, "lo_ordtotalprice"),
    );
    let days: HashSet<i32> = ints(&whole(table("date", 1.0).as_ref(), 1), "d_datekey")
        .into_iter()
        .collect();
    for row in 0..lines.num_rows() {
        assert_eq!(revenue[row], price[row] * (100 - i64::from(discount[row])) / 100);
        if row > 0 && order[row] == order[row - 1] {
            assert_eq!((number[row], total[row]), (number[row - 1] + 1, total[row - 1]));
        } else {
            assert_eq!(number[row], 1);
        }
    }
    assert!(ints(&lines, "lo_orderdate").iter().all(|day| days.contains(day)));
    assert!(ints(&lines, "lo_commitdate").iter().all(|day| days.contains(day)));
    // A year is 1/7 of the dates, and discounts 1-3 are 3/11 of the lines: approximately the selectivity of
    // flight 1.
    let share = discount.iter().filter(|d| (1..=3).contains(*d)).count() as f64 / lines.num_rows() as f64;
    assert!((share - 3.0 / 11.0).abs() < 0.02, "{share}");
}
