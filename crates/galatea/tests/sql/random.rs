//! Random queries: predicates, keys and aggregates drawn from a grammar. The seed is printed on failure;
//! `GALATEA_TEST_SEED` replays one, `GALATEA_TEST_QUERIES` draws more.

use crate::compare::Pair;
use crate::data::{Shape, batch};
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

struct Grammar(SmallRng);

impl Grammar {
    fn pick<'a>(&mut self, options: &[&'a str]) -> &'a str {
        options.choose(&mut self.0).expect("not empty")
    }

    fn number(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self
                .pick(&[
                    "i8", "i16", "i32", "k", "v", "u8", "d9", "d18", "1", "-3", "0.25", "17",
                ])
                .to_string();
        }
        match self.0.random_range(0..8) {
            0 | 1 => format!("({} + {})", self.number(depth - 1), self.number(depth - 1)),
            2 => format!("({} - {})", self.number(depth - 1), self.number(depth - 1)),
            3 => format!(
                "({} * {})",
                self.pick(&["i8", "k", "d9", "i16"]),
                self.pick(&["2", "k", "u8", "0.5"])
            ),
            4 => format!(
                "CASE WHEN {} THEN {} ELSE {} END",
                self.truth(depth - 1),
                self.number(depth - 1),
                self.number(0)
            ),
            5 => format!("coalesce({}, {})", self.number(depth - 1), self.number(0)),
            6 => format!(
                "CAST({} AS {})",
                self.number(depth - 1),
                self.pick(&["BIGINT", "DOUBLE", "DECIMAL(30, 4)"])
            ),
            _ => self.number(depth - 1),
        }
    }

    fn truth(&mut self, depth: u32) -> String {
        if depth == 0 {
            return match self.0.random_range(0..6) {
                0 => "flag".into(),
                1 => format!(
                    "low {} '{}'",
                    self.pick(&["=", "<>", "<", ">="]),
                    self.pick(&["AIR", "RAIL", "", "zzz"])
                ),
                2 => format!(
                    "{} LIKE '{}'",
                    self.pick(&["low", "high", "view"]),
                    self.pick(&["%A%", "a%", "_I%", "%", "%b_"])
                ),
                3 => format!(
                    "day {} DATE '{}'",
                    self.pick(&["<", ">", "="]),
                    self.pick(&["1994-01-01", "1997-06-17"])
                ),
                4 => format!(
                    "{} IS {}NULL",
                    self.pick(&["i32", "low", "d38", "f64", "ts"]),
                    self.pick(&["", "NOT "])
                ),
                _ => format!(
                    "i32 BETWEEN {} AND {}",
                    self.0.random_range(-90_000..0),
                    self.0.random_range(0..90_000)
                ),
            };
        }
        match self.0.random_range(0..6) {
            0 => format!("({} AND {})", self.truth(depth - 1), self.truth(depth - 1)),
            1 => format!("({} OR {})", self.truth(depth - 1), self.truth(depth - 1)),
            2 => format!("NOT ({})", self.truth(depth - 1)),
            3 => format!(
                "{} {} {}",
                self.number(depth - 1),
                self.pick(&["<", "<=", ">", "=", "<>"]),
                self.number(0)
            ),
            4 => format!(
                "{} IN (1, 2, {})",
                self.pick(&["k", "i8", "i16"]),
                self.0.random_range(-9..9)
            ),
            _ => self.truth(depth - 1),
        }
    }

    fn aggregate(&mut self) -> String {
        let call = match self.0.random_range(0..6) {
            0 => "count(*)".to_string(),
            1 => format!("count({})", self.pick(&["i32", "low", "f64", "flag", "d38"])),
            2 => format!("sum({})", self.number(2)),
            3 => format!("avg({})", self.pick(&["d9", "d18", "f64", "i32", "i8"])),
            4 => format!(
                "min({})",
                self.pick(&["i64", "u32", "d18", "f64", "day", "ts", "low", "view", "high"])
            ),
            _ => format!(
                "max({})",
                self.pick(&["i8", "u64", "d9", "f32", "day", "low", "high"])
            ),
        };
        if self.0.random_range(0..4) == 0 {
            format!("{call} FILTER (WHERE {})", self.truth(1))
        } else {
            call
        }
    }

    fn query(&mut self) -> String {
        let filter = if self.0.random_range(0..4) > 0 {
            format!(" WHERE {}", self.truth(2))
        } else {
            String::new()
        };
        if self.0.random_range(0..5) == 0 {
            let outputs: Vec<String> = (0..self.0.random_range(1..4))
                .map(|i| match self.0.random_range(0..3) {
                    0 => format!("{} AS c{i}", self.number(2)),
                    1 => format!("{} AS c{i}", self.truth(1)),
                    _ => format!(
                        "{} AS c{i}",
                        self.pick(&["low", "high", "view", "ts", "day", "d38", "u64", "f32"])
                    ),
                })
                .collect();
            return format!("SELECT {} FROM t{filter}", outputs.join(", "));
        }
        let keys: Vec<String> = (0..self.0.random_range(0..4))
            .map(|_| match self.0.random_range(0..4) {
                0 => self.pick(&["low", "view", "high", "flag", "k"]).to_string(),
                1 => self
                    .pick(&["i8", "u8", "i32", "i64", "u64", "d9", "d38", "f64", "day", "ts"])
                    .to_string(),
                2 => format!("k % {}", self.0.random_range(2..5)),
                _ => self.number(1),
            })
            .collect();
        let mut items: Vec<String> = keys
            .iter()
            .enumerate()
            .map(|(i, k)| format!("{k} AS key{i}"))
            .collect();
        items.extend((0..self.0.random_range(1..4)).map(|i| format!("{} AS agg{i}", self.aggregate())));
        let group = if keys.is_empty() {
            String::new()
        } else {
            format!(
                " GROUP BY {}",
                (1..=keys.len())
                    .map(|i| i.to_string())
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        };
        format!("SELECT {} FROM t{filter}{group}", items.join(", "))
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own knob")]
fn knob(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(default)
}

#[tokio::test]
async fn random_queries_agree() {
    let first = knob("GALATEA_TEST_SEED", 1);
    let count = knob("GALATEA_TEST_QUERIES", 60);
    let shapes = [Shape::Ordinary, Shape::Ordinary, Shape::Skewed, Shape::AllEqual];
    for seed in first..first + count {
        let mut grammar = Grammar(SmallRng::seed_from_u64(seed));
        let rows = *[40, 257, 700].choose(&mut grammar.0).expect("not empty");
        let shape = shapes[seed as usize % shapes.len()];
        let chunk_rows = grammar.0.random_range(30..900).to_string();
        let pair = Pair::new(&[("galatea.chunk_rows", &chunk_rows)]);
        pair.table("t", &[batch(rows, seed, shape)]);
        let sql = grammar.query();
        pair.check(
            &sql,
            false,
            &format!("seed {seed}, {rows} rows, {shape:?}, chunk_rows {chunk_rows}"),
        )
        .await;
    }
}
