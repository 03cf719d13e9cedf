//! Filters above joins of tables with equal column names.

use crate::check_all;

const TABLE: &str =
    "CREATE TABLE t AS SELECT * FROM (VALUES (1, 2, 'xA'), (2, 1, 'b'), (3, 9, 'c'), (4, 1, 'A')) v(k, v, w)";

#[tokio::test]
async fn join_filters_resolve_equal_names_by_side() {
    let conditions = "(t.w LIKE '%A%' OR s.w LIKE '%A%')";
    let of = |join: &str, condition: &str| {
        format!(
            "SELECT count(*), count(t.k), count(s.k) FROM t {join} JOIN (SELECT * FROM t WHERE k > 0) s ON t.v = s.k WHERE {condition}"
        )
    };
    let queries = [
        (of("RIGHT", conditions), "4, 3, 4"),
        (of("FULL", conditions), "4, 3, 4"),
        (of("LEFT", conditions), "3, 3, 3"),
        (of("INNER", conditions), "3, 3, 3"),
        (of("RIGHT", "coalesce(t.w, 'A') || s.w LIKE '%A%'"), "5, 3, 5"),
        (of("LEFT", "t.w || coalesce(s.w, 'A') LIKE '%A%'"), "4, 4, 3"),
    ];
    let queries: Vec<(&str, Vec<&str>)> = queries
        .iter()
        .map(|(sql, row)| (sql.as_str(), vec![*row]))
        .collect();
    let queries: Vec<(&str, &[&str])> = queries
        .iter()
        .map(|(sql, rows)| (*sql, rows.as_slice()))
        .collect();
    check_all(&[TABLE], &queries).await;
}
