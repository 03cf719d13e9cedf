//! Functions of long texts, which have no dictionary: nothing is left to the CPU.

use crate::compare::Pair;
use crate::joins::STRICT;
use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray, StringViewArray};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

const PIECES: [&str; 12] = [
    "http://",
    "example",
    ".com",
    "/",
    "?q=",
    "Ünï",
    "日本",
    "42",
    "A",
    "b",
    " ",
    "İSTANBUL",
];

/// Addresses, nearly all different; a tenth NULL.
fn table(rows: usize, seed: u64) -> RecordBatch {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut texts = || -> Vec<Option<String>> {
        let mut text = || {
            let length = rng.random_range(0..20);
            let pieces = (0..length).map(|_| *PIECES.choose(&mut rng).expect("not empty"));
            let text: String = pieces.collect();
            (rng.random_range(0..10) > 0).then_some(text)
        };
        (0..rows).map(|_| text()).collect()
    };
    let (url, referer) = (texts(), texts());
    let number = Int32Array::from_iter_values((0..rows).map(|row| row as i32 % 9 - 3));
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("url", Arc::new(StringArray::from(url)), true),
        ("referer", Arc::new(StringViewArray::from_iter(referer)), true),
        ("n", Arc::new(number), false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).expect("one length")
}

const QUERIES: &[&str] = &[
    "SELECT count(*), sum(n) FROM t WHERE url ILIKE '%EXAMPLE.com%'",
    "SELECT count(*) FROM t WHERE referer NOT ILIKE '%ünï%' AND url ILIKE 'http://%'",
    "SELECT count(*) FROM t WHERE url ~ '^http://(example)+\\.com' OR referer ~ '[0-9]{2}$'",
    "SELECT n, count(*) FROM t WHERE url !~ 'b.*A' GROUP BY n",
    "SELECT n, sum(regexp_count(url, '42|日')), max(regexp_count(referer, '[a-z]+')) FROM t GROUP BY n",
    "SELECT count(*) FROM t WHERE url ~* 'istanbul' AND regexp_like(referer, 'EXAMPLE', 'i')",
    "SELECT count(*), sum(length(split_part(url, '/', 3))) FROM t WHERE split_part(url, '/', -1) <> ''",
    "SELECT n, sum(length(right(url, n + 5))), sum(length(left(referer, n))) FROM t GROUP BY n",
    "SELECT url, referer FROM t WHERE right(url, 4) = '.com' OR substr(referer, 4) LIKE '%42'",
    "SELECT max(bit_length(url)), count(CASE WHEN url ~ 'q=' THEN referer ELSE url END) FROM t",
    "SELECT url FROM t WHERE url SIMILAR TO 'http://%(com|/)'",
];

#[tokio::test]
async fn long_texts_are_searched_on_the_device() {
    for (rows, seed) in [(1, 1), (700, 2), (3000, 3)] {
        let pair = Pair::new(&[STRICT, ("galatea.chunk_rows", "512")]);
        pair.table("t", &[table(rows, seed)]);
        for sql in QUERIES {
            pair.check(sql, true, &format!("{rows} rows")).await;
        }
    }
}

/// What has no automaton is the CPU's, which says why.
#[tokio::test]
async fn what_is_not_regular_is_left_to_the_cpu() {
    let pair = Pair::new(&[]);
    pair.table("t", &[table(300, 4)]);
    pair.check(
        r"SELECT count(*) FROM t WHERE url || referer ~ '\bA'",
        false,
        "a boundary",
    )
    .await;
    let report = galatea::last_query_report(&pair.gpu).expect("a query ran");
    assert!(
        report
            .reasons
            .iter()
            .any(|reason| reason.contains("no automaton") || reason.contains("||")),
        "{report:?}"
    );
}
