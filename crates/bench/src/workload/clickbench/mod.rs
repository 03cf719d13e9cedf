//! ClickBench: 43 queries over one wide table of web requests, `hits`. Its data is published, not generated.

use super::Query;

/// The 43 queries, numbered from 0.
pub fn queries() -> Vec<Query> {
    let lines = include_str!("queries.sql")
        .lines()
        .filter(|line| !line.starts_with("--"));
    lines
        .enumerate()
        .map(|(number, line)| Query::from_file(number.to_string(), line))
        .collect()
}
