//! Joins with equalities and IS NOT DISTINCT FROM in ON and WHERE, against loops written in Rust.

use crate::{DEVICES, check_all, prepare, rows, session};
use datafusion::prelude::SessionContext;

/// Values of the columns k, d and e.
type Row = [Option<i64>; 3];

const P: &[Row] = &[
    [Some(1), None, Some(1)],
    [Some(1), Some(5), Some(1)],
    [None, Some(7), None],
    [None, None, Some(2)],
    [Some(2), Some(5), None],
    [None, None, None],
];

const Q: &[Row] = &[
    [Some(1), None, Some(1)],
    [Some(1), Some(5), None],
    [None, Some(7), Some(2)],
    [None, None, Some(2)],
    [Some(3), Some(5), Some(1)],
    [None, None, None],
    [Some(2), Some(5), Some(2)],
];

/// A condition over a row of p and a row of q: as SQL, and as a function that returns whether it is true.
/// A row beyond an outer join is NULL.
type Condition = (&'static str, fn(Row, Row) -> bool);

fn equal(one: Option<i64>, other: Option<i64>) -> bool {
    one.is_some() && one == other
}

const CONDITIONS: &[Condition] = &[
    ("(p.k IS NOT DISTINCT FROM q.k)", |p, q| p[0] == q[0]),
    ("p.d = q.d AND (p.k IS NOT DISTINCT FROM q.k)", |p, q| {
        equal(p[1], q[1]) && p[0] == q[0]
    }),
    (
        "(p.k IS NOT DISTINCT FROM q.k) AND (p.d IS NOT DISTINCT FROM q.d)",
        |p, q| p[0] == q[0] && p[1] == q[1],
    ),
    (
        "(p.k IS NOT DISTINCT FROM q.k) AND p.d = q.d AND p.e = q.e",
        |p, q| p[0] == q[0] && equal(p[1], q[1]) && equal(p[2], q[2]),
    ),
    (
        "(p.k IS NOT DISTINCT FROM q.k) AND (p.d IS NOT DISTINCT FROM q.d) AND p.e = q.e",
        |p, q| p[0] == q[0] && p[1] == q[1] && equal(p[2], q[2]),
    ),
    ("(p.k + 1 IS NOT DISTINCT FROM q.k + 1)", |p, q| p[0] == q[0]),
    ("(p.e IS NOT DISTINCT FROM q.e) AND p.d < 9", |p, q| {
        p[2] == q[2] && p[1].is_some()
    }),
    ("p.d = q.d", |p, q| equal(p[1], q[1])),
    ("true", |_, _| true),
];

const FILTERS: &[Condition] = &[
    ("true", |_, _| true),
    ("p.d = q.d", |p, q| equal(p[1], q[1])),
    ("NOT (p.d <> q.d)", |p, q| equal(p[1], q[1])),
    ("q.e = p.e AND p.d = q.d", |p, q| {
        equal(p[1], q[1]) && equal(p[2], q[2])
    }),
    ("p.d + 1 = q.d + 1", |p, q| equal(p[1], q[1])),
    ("p.d = q.d AND (p.k IS NOT DISTINCT FROM q.k)", |p, q| {
        equal(p[1], q[1]) && p[0] == q[0]
    }),
    ("p.d = q.d OR p.e = q.e", |p, q| {
        equal(p[1], q[1]) || equal(p[2], q[2])
    }),
    ("(p.d = q.d AND p.e = 1) OR (p.d = q.d AND q.e = 2)", |p, q| {
        equal(p[1], q[1]) && (p[2] == Some(1) || q[2] == Some(2))
    }),
    ("p.k IS NULL", |p, _| p[0].is_none()),
];

/// The rows of a join of `P` and `Q`, by their numbers.
fn joined(kind: &str, on: fn(Row, Row) -> bool) -> Vec<(Option<usize>, Option<usize>)> {
    let mut all = Vec::new();
    for (left, p) in P.iter().enumerate() {
        let matches = (0..Q.len()).filter(|right| on(*p, Q[*right]));
        all.extend(matches.map(|right| (Some(left), Some(right))));
    }
    let unmatched = |used: Vec<usize>, len: usize| (0..len).filter(move |row| !used.contains(row));
    let lefts = unmatched(all.iter().filter_map(|pair| pair.0).collect(), P.len());
    let rights = unmatched(all.iter().filter_map(|pair| pair.1).collect(), Q.len());
    if ["LEFT", "FULL"].contains(&kind) {
        all.extend(lefts.map(|row| (Some(row), None)));
    }
    if ["RIGHT", "FULL"].contains(&kind) {
        all.extend(rights.map(|row| (None, Some(row))));
    }
    all
}

fn shown(row: Option<usize>) -> String {
    row.map_or("NULL".to_owned(), |row| row.to_string())
}

/// The queries with their expected rows.
fn queries() -> Vec<(String, Vec<String>)> {
    let mut all = Vec::new();
    for (on, matches) in CONDITIONS {
        for kind in ["INNER", "LEFT", "RIGHT", "FULL"] {
            for (filter, keeps) in FILTERS {
                let row = |rows: &[Row], at: Option<usize>| at.map_or([None; 3], |at| rows[at]);
                let kept = joined(kind, *matches)
                    .into_iter()
                    .filter(|(left, right)| keeps(row(P, *left), row(Q, *right)));
                let expected = kept.map(|(left, right)| format!("{}, {}", shown(left), shown(right)));
                let sql = format!("SELECT p.id, q.id FROM p {kind} JOIN q ON {on} WHERE {filter}");
                all.push((sql, expected.collect()));
            }
        }
        let with = |has: bool| {
            let rows = P.iter().enumerate();
            let rows = rows.filter(move |(_, p)| Q.iter().any(|q| matches(**p, *q)) == has);
            rows.map(|(id, _)| id.to_string()).collect::<Vec<_>>()
        };
        for (join, exists, has) in [("SEMI", "EXISTS", true), ("ANTI", "NOT EXISTS", false)] {
            all.push((
                format!("SELECT p.id FROM p LEFT {join} JOIN q ON {on}"),
                with(has),
            ));
            all.push((
                format!("SELECT p.id FROM p WHERE {exists} (SELECT 1 FROM q WHERE {on})"),
                with(has),
            ));
        }
    }
    all
}

/// Queries over three tables, one of them joined by IS NOT DISTINCT FROM, the others by equality.
fn queries_of_three() -> Vec<(String, Vec<String>)> {
    let mut all = Vec::new();
    let third = "(SELECT * FROM q) r";
    for (on, matches) in CONDITIONS {
        for (filter, keeps) in FILTERS {
            // Rows of r are those of q.
            let mut expected = Vec::new();
            for (left, right) in joined("INNER", *matches) {
                let (Some(left), Some(right)) = (left, right) else {
                    continue;
                };
                let thirds = Q.iter().enumerate().filter(|(_, r)| equal(r[2], P[left][2]));
                let thirds = thirds.filter(|_| keeps(P[left], Q[right]));
                expected.extend(thirds.map(|(third, _)| format!("{left}, {right}, {third}")));
            }
            let select = "SELECT p.id, q.id, r.id FROM p";
            all.push((
                format!("{select} JOIN q ON {on} JOIN {third} ON r.e = p.e WHERE {filter}"),
                expected.clone(),
            ));
            all.push((
                format!("{select} JOIN {third} ON r.e = p.e JOIN q ON {on} WHERE {filter}"),
                expected.clone(),
            ));
            all.push((
                format!("{select} JOIN q ON {on}, {third} WHERE ({filter}) AND r.e = p.e"),
                expected,
            ));
        }
    }
    all
}

fn values(rows: &[Row]) -> String {
    let value = |value: &Option<i64>| value.map_or("NULL".to_owned(), |value| value.to_string());
    let row = |(id, row): (usize, &Row)| {
        let values: Vec<String> = row.iter().map(value).collect();
        format!("({id}, {})", values.join(", "))
    };
    rows.iter().enumerate().map(row).collect::<Vec<_>>().join(", ")
}

async fn compare(ctx: &SessionContext, queries: Vec<(String, Vec<String>)>, context: &str) {
    let mut failed = Vec::new();
    for (sql, mut expected) in queries {
        expected.sort();
        let actual = rows(ctx, &sql).await;
        if actual.as_ref() != Ok(&expected) {
            failed.push(format!("{sql}\n  expected {expected:?}\n  got      {actual:?}"));
        }
    }
    assert!(failed.is_empty(), "{context}\n{}", failed.join("\n"));
}

async fn in_memory(device: &str, queries: Vec<(String, Vec<String>)>) {
    let ctx = session(device, 3);
    let columns = "(id INT, k BIGINT, d BIGINT, e BIGINT)";
    let tables = [("p", P), ("q", Q)];
    let tables =
        tables.map(|(name, rows)| format!("CREATE TABLE {name}{columns} AS VALUES {}", values(rows)));
    prepare(&ctx, &tables.each_ref().map(String::as_str)).await;
    compare(&ctx, queries, device).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn equalities_match_no_nulls_on_the_cpu() {
    in_memory("cpu", queries()).await;
    in_memory("cpu", queries_of_three()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn equalities_match_no_nulls_on_the_device() {
    let some = |queries: Vec<_>| queries.into_iter().step_by(7).collect();
    in_memory("emulated", some(queries())).await;
    in_memory("emulated", some(queries_of_three())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn equalities_over_files_match_no_nulls() {
    let folder = tempfile::tempdir().expect("a folder");
    for device in DEVICES {
        let ctx = session(device, 3);
        for (name, rows) in [("p", P), ("q", Q)] {
            let path = folder.path().join(format!("{device}-{name}.parquet"));
            let path = path.display();
            let copy = format!(
                "COPY (SELECT * FROM (VALUES {}) v(id, k, d, e)) TO '{path}'",
                values(rows)
            );
            let table = format!("CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{path}'");
            prepare(&ctx, &[&copy, &table]).await;
        }
        let all = queries().into_iter().chain(queries_of_three());
        compare(&ctx, all.step_by(5).collect(), device).await;
    }
}

/// INTERSECT and EXCEPT match NULLs; equalities beside them do not.
#[tokio::test(flavor = "multi_thread")]
async fn set_operations_match_nulls_beside_equalities() {
    let tables = [
        "CREATE TABLE p(k INT, d INT) AS VALUES (1, NULL), (1, 5), (NULL, 7), (NULL, NULL)",
        "CREATE TABLE q(k INT, d INT) AS VALUES (1, NULL), (1, 5), (NULL, 8), (NULL, NULL)",
    ];
    let queries: &[(&str, &[&str])] = &[
        (
            "SELECT * FROM p INTERSECT SELECT * FROM q",
            &["1, NULL", "1, 5", "NULL, NULL"],
        ),
        ("SELECT * FROM p EXCEPT SELECT * FROM q", &["NULL, 7"]),
        (
            "SELECT s.k, s.d FROM (SELECT * FROM p INTERSECT SELECT * FROM q) s, q WHERE s.d = q.d AND s.k = q.k",
            &["1, 5"],
        ),
        (
            "SELECT s.k, s.d FROM (SELECT * FROM p INTERSECT SELECT * FROM q) s JOIN q ON (s.k IS NOT DISTINCT FROM q.k) WHERE s.d = q.d",
            &["1, 5"],
        ),
        (
            "SELECT (SELECT count(*) FROM p JOIN q ON (p.k IS NOT DISTINCT FROM q.k) WHERE p.d = q.d) AS n",
            &["1"],
        ),
        (
            "SELECT k, d FROM p WHERE d IN (SELECT d FROM q WHERE (q.k IS NOT DISTINCT FROM p.k))",
            &["1, 5"],
        ),
        (
            "SELECT k, d FROM p WHERE 5 NOT IN (SELECT d FROM q WHERE (q.k IS NOT DISTINCT FROM p.k))",
            &[],
        ),
        (
            "SELECT k, d FROM p WHERE 5 NOT IN (SELECT q.k FROM q WHERE (q.d IS NOT DISTINCT FROM p.d))",
            &["1, 5", "NULL, 7"],
        ),
    ];
    check_all(&tables, queries).await;
}
