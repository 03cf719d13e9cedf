//! Scalar expressions, predicates and aggregates over the columns of [`batch`](super::data::batch).

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Generates random SQL from a seed.
pub(super) struct Grammar {
    pub(super) rng: SmallRng,
    /// Names of the tables with columns in scope.
    pub(super) scope: Vec<&'static str>,
    /// Whether to avoid floats, because their sums may differ by rounding.
    pub(super) exact: bool,
}

impl Grammar {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: SmallRng::seed_from_u64(seed),
            scope: vec!["t"],
            exact: false,
        }
    }

    pub(super) fn pick<'a>(&mut self, options: &[&'a str]) -> &'a str {
        options.choose(&mut self.rng).expect("not empty")
    }

    /// True with a probability of 1 in `of`.
    pub(super) fn once_in(&mut self, of: u32) -> bool {
        self.rng.random_range(0..of) == 0
    }

    /// A column of a table in scope.
    pub(super) fn column(&mut self, options: &[&str]) -> String {
        let table = *self.scope.choose(&mut self.rng).expect("a table");
        let float = |name: &str| ["f32", "f64"].contains(&name);
        let fitting: Vec<_> = options
            .iter()
            .copied()
            .filter(|name| !(self.exact && float(name)))
            .collect();
        format!("{table}.{}", self.pick(&fitting))
    }

    pub(super) fn number(&mut self, depth: u32) -> String {
        if depth == 0 {
            return match self.rng.random_range(0..4) {
                0 if self.exact => self.pick(&["1", "-3", "17"]).to_string(),
                0 => self.pick(&["1", "-3", "0.25", "17"]).to_string(),
                _ => self.column(&["i8", "i16", "i32", "k", "v", "u8", "d9", "d18"]),
            };
        }
        match self.rng.random_range(0..10) {
            0 | 1 => format!("({} + {})", self.number(depth - 1), self.number(depth - 1)),
            2 => format!("({} - {})", self.number(depth - 1), self.number(depth - 1)),
            3 => {
                let fraction = if self.exact { "7" } else { "0.5" };
                let column = self.column(&["i8", "k", "d9", "i16"]);
                format!("({column} * {})", self.pick(&["2", "3", "-1", fraction]))
            }
            4 => format!(
                "CASE WHEN {} THEN {} ELSE {} END",
                self.truth(depth - 1),
                self.number(depth - 1),
                self.number(0)
            ),
            5 => format!("coalesce({}, {})", self.number(depth - 1), self.number(0)),
            6 => {
                let exact = if self.exact { "BIGINT" } else { "DOUBLE" };
                format!(
                    "CAST({} AS {})",
                    self.number(depth - 1),
                    self.pick(&["BIGINT", exact, "DECIMAL(30, 4)"])
                )
            }
            7 => {
                let divisor = self.column(&["i8", "k", "u8", "i16"]);
                let operator = self.pick(&["/", "%"]);
                let number = self.column(&["i32", "v", "k", "i16", "d9"]);
                format!("CASE WHEN {divisor} <> 0 THEN {number} {operator} {divisor} ELSE -1 END")
            }
            8 => {
                let divisor = self.column(&["i8", "k", "u8"]);
                format!("({} / nullif({divisor}, 0))", self.column(&["i32", "v", "i64"]))
            }
            _ => self.number(depth - 1),
        }
    }

    pub(super) fn truth(&mut self, depth: u32) -> String {
        if depth == 0 {
            return match self.rng.random_range(0..9) {
                0 => self.column(&["flag"]),
                7 => format!(
                    "{} {} '{}'",
                    self.column(&["low", "high", "view"]),
                    self.pick(&["~", "~*", "!~", "!~*"]),
                    self.pick(&["AI?R", "^[a-c]+$", "(ab|cd)e", "ü|L$", "^$", "[^a-e]"])
                ),
                8 => format!(
                    "{} {}ILIKE '{}'",
                    self.column(&["low", "high", "view"]),
                    self.pick(&["", "NOT "]),
                    self.pick(&["%a%", "AB%", "_i_", "%Ï%", "%", "rail"])
                ),
                1 => format!(
                    "{} {} '{}'",
                    self.column(&["low"]),
                    self.pick(&["=", "<>", "<", ">="]),
                    self.pick(&["AIR", "RAIL", "", "zzz"])
                ),
                2 => format!(
                    "{} LIKE '{}'",
                    self.column(&["low", "high", "view"]),
                    self.pick(&["%A%", "a%", "_I%", "%", "%b_"])
                ),
                3 => format!(
                    "{} {} DATE '{}'",
                    self.column(&["day"]),
                    self.pick(&["<", ">", "="]),
                    self.pick(&["1994-01-01", "1997-06-17"])
                ),
                4 => format!(
                    "{} IS {}NULL",
                    self.column(&["i32", "low", "d38", "f64", "ts"]),
                    self.pick(&["", "NOT "])
                ),
                5 => format!(
                    "{} = '{}'",
                    self.string_only(),
                    self.pick(&["A", "ai", "AIR", ""])
                ),
                _ => format!(
                    "{} BETWEEN {} AND {}",
                    self.column(&["i32"]),
                    self.rng.random_range(-90_000..0),
                    self.rng.random_range(0..90_000)
                ),
            };
        }
        match self.rng.random_range(0..6) {
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
                "{} {}IN (1, 2, {})",
                self.column(&["k", "i8", "i16"]),
                self.pick(&["", "NOT "]),
                self.rng.random_range(-9..9)
            ),
            _ => self.truth(depth - 1),
        }
    }

    pub(super) fn aggregate(&mut self) -> String {
        let call = match self.rng.random_range(0..10) {
            8 => match self.rng.random_range(0..4) {
                3 if !self.exact => format!(
                    "percentile_cont({}, {})",
                    self.column(&["f64", "i16", "v"]),
                    self.pick(&["0.25", "0.5", "0.9"])
                ),
                0 => format!("median({})", self.column(&["i16", "d9", "v", "i8"])),
                1 => format!("approx_distinct({})", self.column(&["i16", "low", "day", "high"])),
                // Rows that are equal in this order have the same value.
                _ => {
                    let (function, column) = (
                        self.pick(&["first_value", "last_value"]),
                        self.column(&["v", "d9", "low"]),
                    );
                    format!(
                        "{function}({column} ORDER BY {column}{})",
                        self.pick(&["", " DESC", " NULLS FIRST"])
                    )
                }
            },
            9 if !self.exact && self.once_in(2) => {
                let one = self.column(&["f64", "f32", "i16", "v"]);
                let other = self.column(&["f64", "f32", "k"]);
                match self.pick(&["var", "stddev_pop", "covar_samp", "regr_sxx"]) {
                    two @ ("covar_samp" | "regr_sxx") => format!("{two}({one}, {other})"),
                    one_alone => format!("{one_alone}({one})"),
                }
            }
            9 => format!("sum(DISTINCT {})", self.column(&["k", "i8", "i16"])),
            0 | 1 => "count(*)".to_string(),
            2 => format!("count({})", self.column(&["i32", "low", "f64", "flag", "d38"])),
            3 => format!("sum({})", self.number(2)),
            4 => format!(
                "avg({})",
                self.column(if self.exact {
                    &["d9", "d18"]
                } else {
                    &["d9", "d18", "f64", "i32", "i8"]
                })
            ),
            5 => format!(
                "min({})",
                self.column(&[
                    "i64", "u32", "d18", "d38", "f64", "day", "ts", "low", "view", "high"
                ])
            ),
            6 => format!("count(DISTINCT {})", self.column(&["k", "i8", "low", "day"])),
            _ => format!(
                "max({})",
                self.column(&["i8", "u64", "d9", "d38", "f32", "day", "low", "high"])
            ),
        };
        if self.once_in(4) {
            format!("{call} FILTER (WHERE {})", self.truth(1))
        } else {
            call
        }
    }

    /// A string expression over strings.
    fn string_only(&mut self) -> String {
        let column = self.column(&["low", "high", "view"]);
        match self.rng.random_range(0..5) {
            3 => format!("right({column}, {})", self.pick(&["2", "-1"])),
            4 => format!(
                "split_part({column}, '{}', {})",
                self.pick(&["A", "b", " "]),
                self.pick(&["1", "2", "-1"])
            ),
            0 => format!("lower({column})"),
            1 => format!("trim({column})"),
            _ => format!("substr({column}, 1, {})", self.rng.random_range(1..3)),
        }
    }

    /// A function of a string.
    pub(super) fn text(&mut self) -> String {
        let column = self.column(&["low", "high", "view"]);
        match self.rng.random_range(0..8) {
            6 => format!(
                "regexp_count({column}, '{}')",
                self.pick(&["[a-c]", "A|I", "de+"])
            ),
            7 => format!("split_part({column}, '{}', 1)", self.pick(&["A", "c"])),
            0 => format!("upper({column})"),
            1 => format!("substr({column}, {}, 2)", self.rng.random_range(1..4)),
            2 => format!("length({column})"),
            3 => format!("concat({column}, '-')"),
            4 => format!("replace({column}, 'a', 'A')"),
            _ => format!("coalesce({column}, 'none')"),
        }
    }

    /// An expression to group by.
    pub(super) fn key(&mut self) -> String {
        match self.rng.random_range(0..5) {
            0 => self.column(&["low", "view", "high", "flag", "k"]),
            1 => self.column(&["i8", "u8", "i32", "i64", "u64", "d9", "d38", "f64", "day", "ts"]),
            2 => format!("{} % {}", self.column(&["k"]), self.rng.random_range(2..5)),
            3 => self.text(),
            _ => self.number(1),
        }
    }
}
