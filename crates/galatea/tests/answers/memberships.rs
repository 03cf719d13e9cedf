//! IN and NOT IN over small random tables with NULLs, against three-valued logic written in Rust.

use crate::{rows, session};
use datafusion::prelude::SessionContext;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Values of two columns.
type Row = [Option<i64>; 2];

/// Conditions that correlate the inner row (y, h) with the outer row (x, g): as SQL, and as a function.
type Correlation = (&'static str, fn(Row, Row) -> Option<bool>);

const CORRELATIONS: [Correlation; 6] = [
    ("true", |_, _| Some(true)),
    ("i.h = o.g", |inner, outer| Some(inner[1]? == outer[1]?)),
    ("i.h < o.g", |inner, outer| Some(inner[1]? < outer[1]?)),
    ("i.h = o.g AND i.y > 0", |inner, outer| {
        and(equal(inner[1], outer[1]), inner[0].map(|y| y > 0))
    }),
    ("i.h IS NOT DISTINCT FROM o.g", |inner, outer| {
        Some(inner[1] == outer[1])
    }),
    ("i.y <> o.g", |inner, outer| Some(inner[0]? != outer[1]?)),
];

/// Uses of `x IN (...)`, written `{in}`, and `x NOT IN (...)`, written `{not}`: the query, and a function
/// that returns whether the row is in the result, or its value.
type Use = (&'static str, fn(Option<bool>, Row) -> Option<String>);

const USES: [Use; 9] = [
    ("SELECT id FROM o WHERE {in}", |found, _| kept(found)),
    ("SELECT id FROM o WHERE {not}", |found, _| kept(not(found))),
    ("SELECT id FROM o WHERE NOT ({in} OR g = 1)", |found, row| {
        kept(not(or(found, equal(row[1], Some(1)))))
    }),
    ("SELECT id FROM o WHERE {not} OR g = 1", |found, row| {
        kept(or(not(found), equal(row[1], Some(1))))
    }),
    ("SELECT id FROM o WHERE NOT ({not} AND g = 1)", |found, row| {
        kept(not(and(not(found), equal(row[1], Some(1)))))
    }),
    ("SELECT id FROM o WHERE ({not}) IS NULL", |found, _| {
        kept(Some(found.is_none()))
    }),
    ("SELECT id, {in} AS b FROM o", |found, _| Some(shown(found))),
    ("SELECT id, {not} AS b FROM o", |found, _| Some(shown(not(found)))),
    (
        "SELECT id, CASE WHEN {in} THEN true WHEN {not} THEN false END AS b FROM o",
        |found, _| Some(shown(found)),
    ),
];

fn not(value: Option<bool>) -> Option<bool> {
    value.map(|value| !value)
}

fn and(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    not(and(not(one), not(other)))
}

fn equal(one: Option<i64>, other: Option<i64>) -> Option<bool> {
    Some(one? == other?)
}

/// A row of a filter; its number is its only value.
fn kept(condition: Option<bool>) -> Option<String> {
    (condition == Some(true)).then(String::new)
}

fn shown(value: Option<bool>) -> String {
    value.map_or(", NULL".to_owned(), |value| format!(", {value}"))
}

/// Whether the value of an outer row is among those of the correlated inner rows.
fn found(outer: Row, inner: &[Row], belongs: fn(Row, Row) -> Option<bool>) -> Option<bool> {
    let among = inner.iter().filter(|inner| belongs(**inner, outer) == Some(true));
    let equalities = among.map(|inner| equal(inner[0], outer[0]));
    equalities.reduce(or).unwrap_or(Some(false))
}

fn random_rows(rng: &mut SmallRng) -> Vec<Row> {
    let mut value = |_| rng.random_bool(0.75).then(|| rng.random_range(0..3));
    let rows: Vec<Row> = (0..24).map(|_| [value(0), value(1)]).collect();
    let number = rng.random_range(0..6);
    rows[..number].to_vec()
}

async fn make(ctx: &SessionContext, name: &str, columns: [&str; 2], values: &[Row]) {
    let text = |value: Option<i64>| value.map_or("NULL".to_owned(), |value| value.to_string());
    let values = values.iter().enumerate();
    let values: Vec<String> = values
        .map(|(id, row)| format!("({id}, {}, {})", text(row[0]), text(row[1])))
        .collect();
    let columns = format!("id INT, {} BIGINT, {} BIGINT", columns[0], columns[1]);
    let mut statements = vec![format!("DROP TABLE IF EXISTS {name}")];
    statements.push(match values.is_empty() {
        true => format!("CREATE TABLE {name} ({columns})"),
        false => format!("CREATE TABLE {name} ({columns}) AS VALUES {}", values.join(", ")),
    });
    for statement in statements {
        rows(ctx, &statement)
            .await
            .unwrap_or_else(|error| panic!("{statement}\n{error}"));
    }
}

async fn compare(device: &str, tables: usize, seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let ctx = session(device, 3);
    for _ in 0..tables {
        let (outer, inner) = (random_rows(&mut rng), random_rows(&mut rng));
        make(&ctx, "o", ["x", "g"], &outer).await;
        make(&ctx, "i", ["y", "h"], &inner).await;
        for (condition, belongs) in CORRELATIONS {
            for (query, result) in USES {
                let subquery = format!("(SELECT y FROM i WHERE {condition})");
                let sql = query.replace("{in}", &format!("x IN {subquery}"));
                let sql = sql.replace("{not}", &format!("x NOT IN {subquery}"));
                let rows_of_query = outer.iter().enumerate().filter_map(|(id, row)| {
                    let rest = result(found(*row, &inner, belongs), *row)?;
                    Some(format!("{id}{rest}"))
                });
                let expected: Vec<String> = rows_of_query.collect();
                let actual = rows(&ctx, &sql).await;
                assert_eq!(
                    actual,
                    Ok(expected),
                    "{device}, seed {seed}\n{sql}\no {outer:?}\ni {inner:?}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_uses_three_valued_logic_on_the_cpu() {
    compare("cpu", 20, 20_261_125).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_uses_three_valued_logic_on_the_device() {
    compare("emulated", 3, 20_261_126).await;
}
