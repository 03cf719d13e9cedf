//! Correlated subqueries of all kinds, against the same subquery with the values of each outer row in it.

use crate::{check_all, prepare, rows, session};
use datafusion::prelude::SessionContext;

const TABLES: [&str; 2] = [
    "CREATE TABLE t(a BIGINT, g BIGINT) AS VALUES (1,0),(2,1),(3,2),(4,7),(5,NULL),(6,1)",
    "CREATE TABLE u(a BIGINT, g BIGINT, x BIGINT) AS VALUES (1,0,1),(2,0,2),(3,0,2),(4,1,NULL),(5,1,6),(6,1,6),(7,2,3),(8,NULL,4),(9,2,NULL),(3,1,1)",
];

/// The values of the outer rows. `g` of the fifth is NULL.
const OUTER: [(i64, Option<i64>); 6] = [
    (1, Some(0)),
    (2, Some(1)),
    (3, Some(2)),
    (4, Some(7)),
    (5, None),
    (6, Some(1)),
];

/// Subqueries with one column `v`, and the number of places that refuse each. `@a` and `@g` are columns of
/// the outer row.
const SUBQUERIES: &[(&str, usize)] = &[
    ("SELECT a AS v FROM u WHERE u.g = @g", 0),
    ("SELECT a AS v FROM u WHERE u.g < @g", 0),
    (
        "SELECT row_number() OVER (ORDER BY a) AS v FROM u WHERE u.g = @g",
        0,
    ),
    ("SELECT sum(a) OVER () AS v FROM u WHERE u.g = @g AND u.x > 1", 0),
    (
        "SELECT sum(a) OVER (PARTITION BY x ORDER BY a ROWS 1 PRECEDING) AS v FROM u WHERE u.g = @g",
        0,
    ),
    ("SELECT count(*) OVER () AS v FROM u WHERE u.a % 3 = @g", 0),
    (
        "SELECT count(*) OVER (PARTITION BY g) AS v FROM u WHERE u.g < @a",
        0,
    ),
    ("SELECT count(*) OVER () AS v FROM u WHERE u.g = @g AND @a > 1", 0),
    (
        "SELECT count(*) OVER () AS v FROM u WHERE u.g IS NOT DISTINCT FROM @g",
        0,
    ),
    (
        "SELECT a AS v FROM u WHERE u.g = @g QUALIFY row_number() OVER (ORDER BY a DESC) < 3",
        0,
    ),
    (
        "SELECT v FROM (SELECT row_number() OVER (ORDER BY a) AS v FROM u WHERE u.g = @g) q WHERE v > 1",
        0,
    ),
    ("SELECT DISTINCT x AS v FROM u WHERE u.g = @g", 0),
    (
        "SELECT DISTINCT q.v FROM (SELECT x AS v, g FROM u) q WHERE q.g = @g",
        0,
    ),
    (
        "SELECT DISTINCT ON (x) a AS v FROM u WHERE u.g = @g ORDER BY x, a DESC",
        0,
    ),
    ("SELECT count(*) AS v FROM u WHERE u.g = @g GROUP BY x", 0),
    (
        "SELECT max(a) AS v FROM u WHERE u.g = @g GROUP BY x HAVING count(*) > 1",
        0,
    ),
    (
        "SELECT count(*) AS v FROM u WHERE u.g = @g GROUP BY GROUPING SETS ((x), (a))",
        0,
    ),
    (
        "SELECT grouping(x) + 10 * grouping(g) AS v FROM u WHERE u.g = @g GROUP BY GROUPING SETS ((x), (g))",
        0,
    ),
    (
        "SELECT sum(count(*)) OVER () AS v FROM u WHERE u.g = @g GROUP BY x",
        0,
    ),
    ("SELECT a AS v FROM u WHERE u.g = @g ORDER BY a LIMIT 1", 0),
    (
        "SELECT a AS v FROM u WHERE u.g = @g ORDER BY x DESC NULLS LAST, a LIMIT 2 OFFSET 1",
        0,
    ),
    (
        "SELECT v FROM (SELECT a AS v, x FROM u WHERE u.g = @g ORDER BY x NULLS FIRST, a LIMIT 1) q WHERE x > 0",
        0,
    ),
    (
        "SELECT a AS v FROM u WHERE u.g = @g UNION ALL SELECT x FROM u WHERE u.g = @g",
        0,
    ),
    (
        "SELECT x AS v FROM u WHERE u.g = @g UNION SELECT a FROM u WHERE u.x = @g",
        0,
    ),
    ("SELECT x AS v FROM u WHERE u.g = @g INTERSECT SELECT a FROM u", 0),
    (
        "SELECT x AS v FROM u WHERE u.g = @g EXCEPT SELECT a FROM u w WHERE w.g = @g",
        0,
    ),
    (
        "SELECT w.x AS v FROM u LEFT JOIN (SELECT a, x FROM u WHERE u.g = @g) w ON u.a = w.a WHERE u.g = @g",
        0,
    ),
    (
        "SELECT w.a AS v FROM u JOIN u w ON u.a < w.a AND w.g = @g WHERE u.x = 1",
        0,
    ),
    (
        "SELECT m AS v FROM (SELECT a FROM u WHERE u.g = @g) q, (SELECT max(x) AS m FROM u) w",
        0,
    ),
    (
        "SELECT q.a AS v FROM (SELECT a FROM u WHERE u.g = @g) q, (SELECT a FROM u ORDER BY a LIMIT 2) w WHERE q.a > w.a",
        0,
    ),
    ("SELECT unnest([a, x]) AS v FROM u WHERE u.g = @g", 0),
    ("SELECT count(*) AS v FROM u WHERE u.g = @g", 0),
    ("SELECT sum(x) AS v FROM u WHERE u.g = @g", 0),
    ("SELECT 5 AS v FROM u WHERE u.g = @g HAVING count(*) < 3", 0),
    ("SELECT 5 + 0 * count(*) AS v FROM u WHERE u.g = @g", 0),
    ("SELECT max(a) AS v FROM u WHERE u.g = @g HAVING count(*) > 0", 0),
    ("SELECT max(a) AS v FROM u WHERE u.g = @g HAVING sum(a) > 12", 0),
    ("SELECT count(*) AS v FROM u WHERE u.a % 3 = @g", 0),
    (
        "SELECT count(*) AS v FROM u WHERE CAST(u.a / 2.0 AS BIGINT) = @a",
        0,
    ),
    (
        "SELECT count(*) + 1 AS v FROM (SELECT DISTINCT x FROM u WHERE u.g = @g) q",
        0,
    ),
    (
        "SELECT max(v) AS v FROM (SELECT row_number() OVER (ORDER BY a) AS v FROM u WHERE u.g = @g) q",
        0,
    ),
    (
        "SELECT sum(a) AS v FROM (SELECT a FROM u WHERE u.g = @g ORDER BY a LIMIT 2) q",
        0,
    ),
    (
        "SELECT sum(m) AS v FROM (SELECT x, max(a) AS m FROM u WHERE u.g = @g GROUP BY x) q",
        0,
    ),
    (
        "SELECT m AS v FROM (SELECT count(*) AS c, max(a) AS m FROM u WHERE u.g = @g) q WHERE c > 1",
        0,
    ),
    (
        "WITH q AS (SELECT x AS v, row_number() OVER (ORDER BY a) AS k FROM u WHERE u.g = @g) SELECT v FROM q WHERE k = 2",
        0,
    ),
    (
        "SELECT row_number() OVER (ORDER BY a) AS v FROM u WHERE u.g < @g",
        0,
    ),
    ("SELECT DISTINCT x AS v FROM u WHERE u.g < @g", 0),
    ("SELECT count(*) AS v FROM u WHERE u.g < @g GROUP BY x", 0),
    (
        "SELECT count(*) AS v FROM u WHERE u.g = @g GROUP BY ROLLUP (x)",
        4,
    ),
    ("SELECT a AS v FROM u WHERE u.g < @g ORDER BY a LIMIT 1", 0),
    (
        "SELECT a AS v FROM u WHERE u.g = @g UNION ALL SELECT x FROM u WHERE u.a = 7",
        0,
    ),
    ("SELECT x AS v FROM u EXCEPT SELECT a FROM u WHERE u.g = @g", 0),
    (
        "SELECT w.x AS v FROM u LEFT JOIN (SELECT a, x FROM u WHERE u.g = @g) w ON u.a = w.a",
        0,
    ),
    (
        "SELECT max(c) AS v FROM (SELECT count(*) AS c FROM u WHERE u.g = @g) q",
        0,
    ),
    ("SELECT count(*) AS v FROM u WHERE u.g < @g", 0),
    ("SELECT row_number() OVER (ORDER BY @g) AS v FROM u", 0),
    (
        "SELECT a AS v FROM u WHERE (SELECT max(w.a) FROM u w WHERE w.g = u.g) > @g",
        0,
    ),
    (
        "SELECT a AS v FROM u WHERE EXISTS (SELECT 1 FROM u w WHERE w.a = u.a AND w.g = @g)",
        2,
    ),
];

/// The rows of a query for an outer row, from the values of the subquery.
type RightRows = fn(i64, &Values) -> Vec<String>;

/// The place of a scalar subquery, which fails if an outer row has several values.
const SCALAR: &str = "SELECT t.a, (@) AS v FROM t";

/// Places of a subquery; their rows are computed from the values of the subquery for each outer row.
const PLACES: [(&str, RightRows); 9] = [
    ("SELECT t.a, l.v FROM t, LATERAL (@) l", |a, values| {
        values.after(a)
    }),
    (
        "SELECT t.a, (SELECT count(v) FROM (@) q) AS c FROM t",
        |a, values| vec![format!("{a}, {}", values.0.iter().flatten().count())],
    ),
    (SCALAR, |a, values| match values.0.is_empty() {
        true => vec![format!("{a}, NULL")],
        false => values.after(a),
    }),
    (
        "SELECT t.a, l.v FROM t LEFT JOIN LATERAL (@) l ON true",
        |a, values| match values.0.is_empty() {
            true => vec![format!("{a}, NULL")],
            false => values.after(a),
        },
    ),
    ("SELECT t.a FROM t WHERE EXISTS (@)", |a, values| {
        values.if_true(a, Some(!values.0.is_empty()))
    }),
    ("SELECT t.a, NOT EXISTS (@) AS e FROM t", |a, values| {
        vec![format!("{a}, {}", values.0.is_empty())]
    }),
    ("SELECT t.a FROM t WHERE t.a IN (@)", |a, values| {
        values.if_true(a, values.contains(a))
    }),
    ("SELECT t.a FROM t WHERE t.a NOT IN (@)", |a, values| {
        values.if_true(a, values.contains(a).map(|is_in| !is_in))
    }),
    ("SELECT t.a, t.a IN (@) AS e FROM t", |a, values| {
        let is_in = values
            .contains(a)
            .map_or("NULL".to_owned(), |is_in| is_in.to_string());
        vec![format!("{a}, {is_in}")]
    }),
];

/// The values of a subquery for an outer row.
struct Values(Vec<Option<i64>>);

impl Values {
    fn after(&self, a: i64) -> Vec<String> {
        let rows = self.0.iter();
        let rows = rows.map(|value| match value {
            Some(value) => format!("{a}, {value}"),
            None => format!("{a}, NULL"),
        });
        rows.collect()
    }

    fn if_true(&self, a: i64, condition: Option<bool>) -> Vec<String> {
        match condition {
            Some(true) => vec![a.to_string()],
            _ => Vec::new(),
        }
    }

    fn contains(&self, a: i64) -> Option<bool> {
        if self.0.contains(&Some(a)) {
            return Some(true);
        }
        (!self.0.contains(&None)).then_some(false)
    }
}

async fn values(ctx: &SessionContext, subquery: &str, a: i64, g: Option<i64>) -> Values {
    let g = g.map_or("CAST(NULL AS BIGINT)".to_owned(), |g| {
        format!("CAST({g} AS BIGINT)")
    });
    let sql = subquery
        .replace("@a", &format!("CAST({a} AS BIGINT)"))
        .replace("@g", &g);
    let rows = rows(ctx, &sql).await.expect(&sql);
    Values(rows.iter().map(|value| value.parse().ok()).collect())
}

/// Errors of refused subqueries.
const REFUSALS: [&str; 4] = [
    "not implemented",
    "is not supported",
    "must be aggregated to return at most one row",
    "cannot contain non-correlated columns",
];

/// The differences of a subquery in places, and the number of refused places.
async fn differences(ctx: &SessionContext, subquery: &str, places: usize, failed: &mut Vec<String>) -> usize {
    let mut of_rows = Vec::new();
    for (a, g) in OUTER {
        of_rows.push((a, values(ctx, subquery, a, g).await));
    }
    let correlated = subquery.replace("@a", "t.a").replace("@g", "t.g");
    let mut refused = 0;
    for (place, answer) in &PLACES[..places] {
        let sql = place.replace('@', &correlated);
        let answers = of_rows.iter();
        let mut expected: Vec<String> = answers.flat_map(|(a, values)| answer(*a, values)).collect();
        expected.sort();
        let repeats = *place == SCALAR && of_rows.iter().any(|(_, values)| values.0.len() > 1);
        match rows(ctx, &sql).await {
            Err(error) if REFUSALS.iter().any(|refusal| error.contains(refusal)) => refused += 1,
            Err(error) if repeats && error.contains("rows for a row of the query around it") => {}
            actual if repeats => {
                failed.push(format!("{sql}\n  expected several rows\n  got      {actual:?}"));
            }
            actual if actual.as_ref() == Ok(&expected) => {}
            actual => failed.push(format!("{sql}\n  expected {expected:?}\n  got      {actual:?}")),
        }
    }
    refused
}

#[tokio::test(flavor = "multi_thread")]
async fn correlated_subqueries_see_the_rows_of_one_outer_row() {
    let ctx = session("cpu", 4);
    prepare(&ctx, &TABLES).await;
    let mut failed = Vec::new();
    for (subquery, refused) in SUBQUERIES {
        let actual = differences(&ctx, subquery, PLACES.len(), &mut failed).await;
        if actual != *refused {
            failed.push(format!("{actual} places refuse, not {refused}: {subquery}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn correlated_subqueries_see_the_rows_of_one_outer_row_on_the_device() {
    let ctx = session("emulated", 4);
    prepare(&ctx, &TABLES).await;
    let mut failed = Vec::new();
    for (subquery, _) in SUBQUERIES {
        differences(&ctx, subquery, 3, &mut failed).await;
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn scalar_subqueries_of_one_row_are_values() {
    check_all(
        &TABLES,
        &[
            (
                "SELECT a, (SELECT u.a FROM u WHERE u.g = t.g ORDER BY x DESC NULLS LAST, u.a LIMIT 1) AS c FROM t",
                &["1, 2", "2, 5", "3, 7", "4, NULL", "5, NULL", "6, 5"],
            ),
            (
                "SELECT a, (SELECT u.a FROM u WHERE u.g = t.g ORDER BY u.a LIMIT 1 OFFSET 1) AS c FROM t",
                &["1, 2", "2, 4", "3, 9", "4, NULL", "5, NULL", "6, 4"],
            ),
            (
                "SELECT a, (SELECT 7 FROM u WHERE u.g = t.g LIMIT 1) AS c FROM t",
                &["1, 7", "2, 7", "3, 7", "4, NULL", "5, NULL", "6, 7"],
            ),
            (
                "SELECT a, (SELECT count(*) FROM u WHERE u.g = t.g GROUP BY u.g) AS c FROM t",
                &["1, 3", "2, 4", "3, 2", "4, NULL", "5, NULL", "6, 4"],
            ),
            (
                "SELECT a, (SELECT t.a + count(*) FROM u WHERE u.g = t.g) AS c FROM t",
                &["1, 4", "2, 6", "3, 5", "4, 4", "5, 5", "6, 10"],
            ),
            (
                "SELECT a FROM t WHERE a > (SELECT u.a FROM u WHERE u.g = t.g ORDER BY u.a LIMIT 1)",
                &["6"],
            ),
            (
                "SELECT sum((SELECT max(u.a) FROM u WHERE u.g = t.g)) AS c, sum((SELECT u.a FROM u WHERE u.g = t.g ORDER BY u.a LIMIT 1)) AS d FROM t",
                &["24, 14"],
            ),
            (
                "SELECT g, sum((SELECT count(*) FROM u WHERE u.g = t.g)) FILTER (WHERE a > 2) AS c FROM t GROUP BY g",
                &["0, NULL", "1, 4", "2, 2", "7, 0", "NULL, 0"],
            ),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_and_conditions_of_lateral_joins_apply() {
    check_all(
        &TABLES,
        &[
            (
                "SELECT t.a, l.x FROM t JOIN LATERAL (SELECT a, x FROM u WHERE u.g = t.g) l USING (a)",
                &["1, 1", "6, 6"],
            ),
            (
                "SELECT t.a, l.c FROM t LEFT JOIN LATERAL (SELECT min(a) AS a, count(*) AS c FROM u WHERE u.g = t.g) l USING (a)",
                &["1, 3", "2, NULL", "3, NULL", "4, NULL", "5, NULL", "6, NULL"],
            ),
            (
                "SELECT t.a, l.m, l.c FROM t LEFT JOIN LATERAL (SELECT max(a) AS m, count(*) AS c FROM u WHERE u.g = t.g HAVING count(*) < 4) l ON l.c < t.a",
                &["1, NULL, NULL", "2, NULL, NULL", "3, 9, 2", "4, NULL, 0", "5, NULL, 0", "6, NULL, NULL"],
            ),
            (
                "SELECT t.a, l.five, l.s, l.m FROM t, LATERAL (SELECT 5 AS five, t.a + count(*) AS s, max(a) AS m FROM u WHERE u.g = t.g) l WHERE t.a > 2",
                &["3, 5, 5, 9", "4, 5, 4, NULL", "5, 5, 5, NULL", "6, 5, 10, 6"],
            ),
            (
                "SELECT t.a, l.s, m.k FROM t, LATERAL (SELECT a AS s FROM u WHERE u.g = t.g ORDER BY a LIMIT 1) l, LATERAL (SELECT row_number() OVER (ORDER BY a) AS k FROM u WHERE u.x = l.s) m",
                &["1, 1, 1", "1, 1, 2", "2, 3, 1", "6, 3, 1"],
            ),
        ],
    )
    .await;
}
