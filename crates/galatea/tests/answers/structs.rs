//! Fields of NULL structs.

use crate::check_all;

const TABLES: &[&str] = &[
    "CREATE TABLE b AS SELECT named_struct('a', 4, 'c', 'w', 'in', named_struct('d', 5)) AS s",
    "CREATE TABLE n AS SELECT nullif(s, s) AS s FROM b UNION ALL SELECT s FROM b",
    "CREATE TABLE i AS SELECT named_struct('a', 4, 'in', nullif(s['in'], s['in'])) AS s FROM b",
];

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_null_structs_are_null() {
    check_all(
        TABLES,
        &[
            (
                "SELECT s['a'], s['c'], s['in']['d'] FROM n",
                &["4, w, 5", "NULL, NULL, NULL"],
            ),
            ("SELECT n.s.a FROM n WHERE n.s.a IS NULL", &["NULL"]),
            ("SELECT count(*) FROM n WHERE s['a'] = 4", &["1"]),
            ("SELECT count(s['in']['d']), sum(s['a']) FROM n", &["1, 4"]),
            (
                "SELECT s['a'], count(*) FROM n GROUP BY s['a']",
                &["4, 1", "NULL, 1"],
            ),
            ("SELECT s['a'], s['in']['d'] FROM i", &["4, NULL"]),
            ("SELECT get_field(nullif(s, s), 'a') AS x FROM b", &["NULL"]),
            ("SELECT coalesce(s['a'], -1) FROM n ORDER BY s['a']", &["-1", "4"]),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unnest_of_null_structs_returns_nulls() {
    check_all(
        TABLES,
        &[
            ("SELECT unnest(s) FROM n", &["4, w, {d: 5}", "NULL, NULL, NULL"]),
            ("SELECT unnest(s['in']) FROM n", &["5", "NULL"]),
            ("SELECT unnest(s['in']) FROM i", &["NULL"]),
            (
                "SELECT unnest(x) FROM (SELECT unnest(make_array(s)) AS x FROM n) q",
                &["4, w, {d: 5}", "NULL, NULL, NULL"],
            ),
        ],
    )
    .await;
}
