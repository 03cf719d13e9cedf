//! EXCEPT ALL, INTERSECT ALL and similar operations over small random tables, against multisets in Rust.

use crate::{check_all, rows, session};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;

type Row = (Option<i64>, Option<i64>);

fn copies(rows: &[Row]) -> BTreeMap<Row, usize> {
    let mut copies = BTreeMap::new();
    rows.iter().for_each(|row| *copies.entry(*row).or_insert(0) += 1);
    copies
}

/// The rows of a multiset operation, by the numbers of copies on both sides.
fn of_copies(left: &[Row], right: &[Row], stay: fn(usize, usize) -> usize) -> Vec<Row> {
    let (left, right) = (copies(left), copies(right));
    let number = |row: &Row, count: usize| stay(count, right.get(row).copied().unwrap_or(0));
    left.iter()
        .flat_map(|(row, count)| vec![*row; number(row, *count)])
        .collect()
}

fn texts(rows: &[Row]) -> Vec<String> {
    let text = |value: Option<i64>| value.map_or("NULL".to_owned(), |value| value.to_string());
    let mut texts: Vec<String> = rows
        .iter()
        .map(|row| format!("{}, {}", text(row.0), text(row.1)))
        .collect();
    texts.sort();
    texts
}

fn values(rows: &[Row]) -> String {
    let text =
        |value: Option<i64>| value.map_or("CAST(NULL AS BIGINT)".to_owned(), |value| value.to_string());
    let rows: Vec<String> = rows
        .iter()
        .map(|row| format!("({}, {})", text(row.0), text(row.1)))
        .collect();
    rows.join(", ")
}

async fn compare(device: &str, tables: usize, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let ctx = session(device, 3);
    for _ in 0..tables {
        let mut random = || -> Vec<Row> {
            let mut value = || rng.random_bool(0.7).then(|| rng.random_range(0..2));
            (0..8).map(|_| (value(), value())).collect()
        };
        let (l, r, s) = (random(), random(), random());
        for (name, rows_of) in [("l", &l), ("r", &r), ("s", &s)] {
            for sql in [
                format!("DROP TABLE IF EXISTS {name}"),
                format!(
                    "CREATE TABLE {name}(a BIGINT, b BIGINT) AS VALUES {}",
                    values(rows_of)
                ),
            ] {
                rows(&ctx, &sql)
                    .await
                    .unwrap_or_else(|error| panic!("{sql}\n{error}"));
            }
        }
        let except = |l: &[Row], r: &[Row]| of_copies(l, r, usize::saturating_sub);
        let intersect = |l: &[Row], r: &[Row]| of_copies(l, r, usize::min);
        let once = |left: usize, _: usize| left.min(1);
        for (sql, expected) in [
            ("SELECT * FROM l EXCEPT ALL SELECT * FROM r", except(&l, &r)),
            ("SELECT * FROM l INTERSECT ALL SELECT * FROM r", intersect(&l, &r)),
            (
                "SELECT * FROM l EXCEPT SELECT * FROM r",
                of_copies(&l, &r, |left, right| usize::from(left > 0 && right == 0)),
            ),
            (
                "SELECT * FROM l INTERSECT SELECT * FROM r",
                of_copies(&l, &r, |left, right| left.min(right).min(1)),
            ),
            (
                "SELECT * FROM l EXCEPT ALL SELECT * FROM r EXCEPT ALL SELECT * FROM s",
                except(&except(&l, &r), &s),
            ),
            (
                "SELECT * FROM l EXCEPT ALL (SELECT * FROM r EXCEPT ALL SELECT * FROM s)",
                except(&l, &except(&r, &s)),
            ),
            (
                "SELECT * FROM l EXCEPT ALL SELECT * FROM r INTERSECT ALL SELECT * FROM s",
                except(&l, &intersect(&r, &s)),
            ),
            (
                "SELECT * FROM l UNION ALL SELECT * FROM r EXCEPT ALL SELECT * FROM s",
                except(&[l.clone(), r.clone()].concat(), &s),
            ),
            (
                "SELECT DISTINCT * FROM l INTERSECT ALL SELECT * FROM r",
                intersect(&of_copies(&l, &[], once), &r),
            ),
            ("SELECT * FROM l INTERSECT ALL SELECT * FROM l", l.clone()),
        ] {
            let actual = rows(&ctx, sql).await;
            assert_eq!(
                actual,
                Ok(texts(&expected)),
                "{device}, seed {seed}\n{sql}\nl {l:?}\nr {r:?}\ns {s:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn set_operations_keep_multiplicity_on_the_cpu() {
    compare("cpu", 10, 20_261_127).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn set_operations_keep_multiplicity_on_the_device() {
    compare("emulated", 2, 20_261_128).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sides_of_different_types_and_names() {
    check_all(
        &[
            "CREATE TABLE l(a INT, b VARCHAR) AS VALUES (1,'x'),(1,'x'),(2,NULL),(2,NULL)",
            "CREATE TABLE r(c BIGINT, d VARCHAR) AS VALUES (1,'x'),(2,NULL),(3,'z')",
        ],
        &[
            (
                "SELECT a, b FROM l EXCEPT ALL SELECT c, d FROM r",
                &["1, x", "2, NULL"],
            ),
            ("SELECT a FROM l EXCEPT ALL SELECT c FROM r", &["1", "2"]),
            ("SELECT c FROM r INTERSECT ALL SELECT a FROM l", &["1", "2"]),
            (
                "SELECT count(*) FROM (SELECT a FROM l EXCEPT ALL SELECT c FROM r) q",
                &["2"],
            ),
            (
                "SELECT a FROM l WHERE a IN (SELECT a FROM l EXCEPT ALL SELECT c FROM r WHERE c = 1)",
                &["1", "1", "2", "2"],
            ),
        ],
    )
    .await;
}
