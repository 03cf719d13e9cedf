//! Whole queries.

use super::grammar::Grammar;
use rand::Rng;

/// A query, and whether it determines the order of its rows.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) sql: String,
    pub(super) ordered: bool,
}

impl From<String> for Query {
    fn from(sql: String) -> Self {
        Self { sql, ordered: false }
    }
}

/// `SELECT` up to the end of `HAVING`, and the number of its columns.
pub(super) struct Select {
    pub(super) sql: String,
    pub(super) columns: usize,
}

impl Grammar {
    pub(super) fn one_table(&mut self) -> Query {
        let filter = self.filter();
        self.select("t", &filter).sql.into()
    }

    /// Two to six tables, joined by one key or several, with and without matches, NULL and repeated keys.
    pub(super) fn join(&mut self) -> Query {
        let (from, filter) = self.joined();
        self.select(&from, &filter).sql.into()
    }

    /// Predicates and values with subqueries over another table.
    pub(super) fn subquery(&mut self) -> Query {
        let mut parts = vec![self.asking()];
        if self.once_in(2) {
            parts.push(self.truth(1));
        }
        if self.once_in(3) {
            parts.push(self.asking());
        }
        let operator = if self.once_in(4) { " OR " } else { " AND " };
        let filter = format!(" WHERE {}", parts.join(operator));
        if self.once_in(4) {
            let value = self.scalar_subquery();
            return format!("SELECT t.v, {value} AS asked FROM t{filter}").into();
        }
        self.select("t", &filter).sql.into()
    }

    /// Set operations, DISTINCT, and aggregates over another query.
    pub(super) fn combination(&mut self) -> Query {
        match self.rng.random_range(0..8) {
            0 | 1 => {
                let columns = ["k", "i8", "low", "d9", "day", "flag"];
                let chosen: Vec<_> = (0..self.rng.random_range(1..3))
                    .map(|_| self.pick(&columns))
                    .collect();
                let mut side = |table: &'static str| {
                    self.scope = vec![table];
                    let outputs: Vec<_> = chosen
                        .iter()
                        .enumerate()
                        .map(|(i, c)| format!("{c} AS c{i}"))
                        .collect();
                    format!("SELECT {} FROM {table}{}", outputs.join(", "), self.filter())
                };
                let (left, right) = (side("t"), side("u"));
                let operator = self.pick(&["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "UNION ALL"]);
                let all = format!("{left} {operator} {right}");
                match self.rng.random_range(0..6) {
                    0 | 1 => format!("SELECT c0, count(*) FROM ({all}) GROUP BY c0"),
                    2 => format!("SELECT c0, count(*) OVER (PARTITION BY c0) AS n FROM ({all})"),
                    3 => {
                        let key = chosen[0];
                        format!("SELECT c0, count(*), sum(w.v) FROM ({all}) AS s JOIN w ON s.c0 = w.{key} GROUP BY c0")
                    }
                    4 => format!("SELECT c0, count(*) FROM ({all} UNION ALL SELECT {} FROM w) GROUP BY c0", chosen.join(", ")),
                    _ => all,
                }
                .into()
            }
            2 => {
                let keys: Vec<_> = (0..self.rng.random_range(1..3))
                    .map(|i| format!("{} AS c{i}", self.key()))
                    .collect();
                format!("SELECT DISTINCT {} FROM t{}", keys.join(", "), self.filter()).into()
            }
            3 => {
                let inner_key = self.column(&["k", "low", "i8", "day"]);
                let (aggregate, filter) = (self.aggregate(), self.filter());
                let limit = self.rng.random_range(0..20);
                format!(
                    "SELECT count(*), count(a), min(g), max(g) FROM \
                     (SELECT {inner_key} AS g, {aggregate} AS a, count(*) AS n FROM t{filter} GROUP BY 1) WHERE n > {limit}"
                )
                .into()
            }
            4 | 5 => self.groups_of_groups().into(),
            6 => self.many_partners().into(),
            _ => {
                let (aggregate, filter) = (self.aggregate(), self.filter());
                let kind = self.pick(&["JOIN", "LEFT JOIN", "LEFT ANTI JOIN"]);
                self.scope = vec!["u"];
                let outer = self.filter();
                let key = self.pick(&["k", "k", "v", "k * 1000000000000000000", "v * 1000000000000"]);
                format!(
                    "WITH g AS (SELECT {key} AS k, {aggregate} AS a, count(*) AS n FROM t{filter} GROUP BY 1) \
                     SELECT u.low, count(*), sum(u.v) FROM u {kind} g ON u.{key} = g.k{outer} GROUP BY u.low"
                )
                .into()
            }
        }
    }

    /// An aggregate of the groups of another one, by some of their keys.
    fn groups_of_groups(&mut self) -> String {
        let keys: Vec<_> = (0..self.rng.random_range(1..4))
            .map(|i| format!("{} AS k{i}", self.key()))
            .collect();
        let positions: Vec<_> = (1..=keys.len()).map(|i| i.to_string()).collect();
        let way = self.rng.random_range(0..4);
        let one = self.aggregate();
        // An average of floats may differ in its last bit, and would then be another group.
        let before = self.exact;
        self.exact |= way == 2;
        let other = self.aggregate();
        self.exact = before;
        let filter = self.filter();
        let inner = format!(
            "SELECT {}, {one} AS a, {other} AS b, count(*) AS n FROM t{filter} GROUP BY {}",
            keys.join(", "),
            positions.join(", ")
        );
        let calls = "count(*), sum(n), min(a), max(b), count(a)";
        match way {
            0 => format!("SELECT {calls} FROM ({inner})"),
            1 => format!("SELECT n, {calls} FROM ({inner}) GROUP BY n"),
            2 => format!("SELECT b, count(DISTINCT k0), count(*) FROM ({inner}) WHERE n > 1 GROUP BY b"),
            _ => format!("SELECT k0, {calls} FROM ({inner}) GROUP BY k0 HAVING count(*) > 1"),
        }
    }

    /// Aggregates over the rows of `t` that match a row of `u`.
    fn many_partners(&mut self) -> String {
        let call = |grammar: &mut Self| {
            let function = grammar.pick(&["count", "sum", "min", "max"]);
            format!("{function}(t.{})", grammar.pick(&["v", "i8", "d9", "k"]))
        };
        let (one, other) = (call(self), call(self));
        let kind = self.pick(&["LEFT JOIN", "JOIN", "RIGHT JOIN"]);
        let (from, key) = match kind {
            "RIGHT JOIN" => ("t RIGHT JOIN u", self.pick(&["u.k", "u.low", "u.k % 3"])),
            "JOIN" => ("u JOIN t", self.pick(&["u.k", "u.day"])),
            _ => ("u LEFT JOIN t", self.pick(&["u.k", "u.low", "u.day"])),
        };
        format!("SELECT {key}, {one}, {other}, count(*) FROM {from} ON u.k = t.k GROUP BY 1")
    }

    /// ORDER BY every column, so that ties are equal rows, with LIMIT and OFFSET.
    pub(super) fn limited(&mut self) -> Query {
        self.exact = true;
        let select = if self.once_in(2) {
            let filter = self.filter();
            self.select("t", &filter)
        } else {
            let (from, filter) = self.joined();
            self.select(&from, &filter)
        };
        let order: Vec<_> = (1..=select.columns)
            .map(|i| {
                format!(
                    "{i} {}",
                    self.pick(&["ASC", "DESC", "ASC NULLS FIRST", "DESC NULLS LAST"])
                )
            })
            .collect();
        let mut sql = format!("{} ORDER BY {}", select.sql, order.join(", "));
        if !self.once_in(4) {
            sql += &format!(" LIMIT {}", self.rng.random_range(0..30));
        }
        if self.once_in(3) {
            sql += &format!(" OFFSET {}", self.rng.random_range(0..40));
        }
        Query { sql, ordered: true }
    }

    pub(super) fn filter(&mut self) -> String {
        if self.once_in(4) {
            String::new()
        } else {
            format!(" WHERE {}", self.truth(2))
        }
    }

    /// FROM and WHERE of a join. The tables that remain are in scope.
    pub(super) fn joined(&mut self) -> (String, String) {
        if self.once_in(12) {
            return self.without_equal_keys();
        }
        let mut from = "t".to_string();
        let mut remaining = vec!["t"];
        let count = match self.rng.random_range(0..8) {
            0..5 => 1,
            5 | 6 => 2,
            _ => self.rng.random_range(3..6),
        };
        for (number, &table) in ["u", "w", "x", "y", "z"][..count].iter().enumerate() {
            let kind = self.pick(&[
                "JOIN",
                "JOIN",
                "JOIN",
                "JOIN",
                "LEFT JOIN",
                "LEFT JOIN",
                "RIGHT JOIN",
                "FULL JOIN",
                "LEFT SEMI JOIN",
                "LEFT ANTI JOIN",
                "RIGHT SEMI JOIN",
                "RIGHT ANTI JOIN",
            ]);
            self.scope = remaining.clone();
            let pairs: &[(&[&str], &str)] = &[
                (&["k", "i8", "i16", "v"], "v"),
                (&["k", "i8", "i16"], "v"),
                (&["v"], "v"),
                (&["k"], "k"),
                (&["i8"], "i8"),
                (&["low"], "low"),
                (&["i16", "u8"], "k"),
                (&["flag"], "flag"),
            ];
            // From the third table on, each row has at most one match, because repeated keys would multiply
            // the rows.
            let pairs = if number < 2 { pairs } else { &pairs[..3] };
            let keys = if self.once_in(4) { 2 } else { 1 };
            let mut conditions: Vec<_> = (0..keys)
                .map(|_| {
                    let (left, right) = pairs[self.rng.random_range(0..pairs.len())];
                    format!("{} = {table}.{right}", self.column(left))
                })
                .collect();
            if self.once_in(6) {
                // Sparse keys; both together exceed 64 bits.
                let far = |column: &str, factor: &str| {
                    format!("t.{column} * {factor} = {table}.{column} * {factor}")
                };
                conditions = match (number, self.rng.random_range(0..2)) {
                    (0, 0) => vec![far("v", "1000000000000")],
                    (0, _) => vec![far("v", "1000000000000"), far("k", "1000000000000000000")],
                    _ => conditions,
                };
            }
            if self.once_in(4) {
                self.scope.push(table);
                conditions.push(self.truth(1));
            }
            from += &format!(" {kind} {table} ON {}", conditions.join(" AND "));
            match kind {
                "LEFT SEMI JOIN" | "LEFT ANTI JOIN" => {}
                "RIGHT SEMI JOIN" | "RIGHT ANTI JOIN" => remaining = vec![table],
                _ => remaining.push(table),
            }
        }
        self.scope = remaining;
        (from, self.filter())
    }

    /// Like [`Self::joined`], for two tables without equal keys: all pairs of rows, or those that a
    /// comparison selects.
    fn without_equal_keys(&mut self) -> (String, String) {
        self.scope = vec!["t", "w"];
        let from = match self.rng.random_range(0..3) {
            0 => "t CROSS JOIN w".to_string(),
            number => {
                let kind = if number == 1 { "JOIN" } else { "LEFT JOIN" };
                let operator = self.pick(&["<", ">=", "<>"]);
                let (left, right) = (self.pick(&["v", "k", "i8"]), self.pick(&["v", "i16", "k"]));
                format!("t {kind} w ON t.{left} {operator} w.{right}")
            }
        };
        (from, self.filter())
    }

    /// A predicate on `t` with a subquery over `u`.
    fn asking(&mut self) -> String {
        let not = self.pick(&["", "NOT "]);
        self.scope = vec!["u"];
        let condition = self.truth(1);
        self.scope = vec!["t"];
        match self.rng.random_range(0..4) {
            0 => {
                let (own, other) = [
                    ("k", "v"),
                    ("i8", "i8"),
                    ("low", "low"),
                    ("v", "v"),
                    ("day", "day"),
                ][self.rng.random_range(0..5)];
                format!("t.{own} {not}IN (SELECT u.{other} FROM u WHERE {condition})")
            }
            1 => {
                let key = self.pick(&["k", "i8", "low", "flag"]);
                format!("{not}EXISTS (SELECT 1 FROM u WHERE u.{key} = t.{key} AND {condition})")
            }
            2 => format!(
                "{not}EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.v {} t.i8)",
                self.pick(&["<", ">", "<>"])
            ),
            _ => format!(
                "{} {} {}",
                self.column(&["v", "i8", "k"]),
                self.pick(&["<", ">=", "="]),
                self.scalar_subquery()
            ),
        }
    }

    /// One value of `u`, for all rows of `t` or for the row's key.
    fn scalar_subquery(&mut self) -> String {
        self.scope = vec!["u"];
        let call = format!(
            "{}({})",
            self.pick(&["min", "max", "sum", "count"]),
            self.column(&["v", "i8", "k"])
        );
        let condition = self.truth(1);
        self.scope = vec!["t"];
        if self.once_in(2) {
            format!("(SELECT {call} FROM u WHERE u.k = t.k AND {condition})")
        } else {
            format!("(SELECT {call} FROM u WHERE {condition})")
        }
    }

    pub(super) fn select(&mut self, from: &str, filter: &str) -> Select {
        if self.once_in(5) {
            let columns = self.rng.random_range(1..4);
            let outputs: Vec<String> = (0..columns)
                .map(|i| match self.rng.random_range(0..3) {
                    0 => format!("{} AS c{i}", self.number(2)),
                    1 => format!("{} AS c{i}", self.truth(1)),
                    _ => {
                        let column = self.column(&["low", "high", "view", "ts", "day", "d38", "u64", "f32"]);
                        format!("{column} AS c{i}")
                    }
                })
                .collect();
            return Select {
                sql: format!("SELECT {} FROM {from}{filter}", outputs.join(", ")),
                columns,
            };
        }
        let keys: Vec<String> = (0..self.rng.random_range(0..4)).map(|_| self.key()).collect();
        let mut items: Vec<String> = keys
            .iter()
            .enumerate()
            .map(|(i, k)| format!("{k} AS key{i}"))
            .collect();
        items.extend((0..self.rng.random_range(1..4)).map(|i| format!("{} AS agg{i}", self.aggregate())));
        let positions: Vec<_> = (1..=keys.len()).map(|i| i.to_string()).collect();
        let mut sql = format!("SELECT {} FROM {from}{filter}", items.join(", "));
        if !keys.is_empty() && self.once_in(6) {
            sql += &format!(" GROUP BY {}", self.grouping_sets(&keys));
        } else if !keys.is_empty() {
            sql += &format!(" GROUP BY {}", positions.join(", "));
        }
        if self.once_in(4) {
            sql += &format!(
                " HAVING count(*) {} {}",
                self.pick(&["<", ">", "="]),
                self.rng.random_range(0..20)
            );
        }
        Select {
            sql,
            columns: items.len(),
        }
    }

    /// Several groupings by these keys.
    pub(super) fn grouping_sets(&mut self, keys: &[String]) -> String {
        let all = keys.join(", ");
        match self.rng.random_range(0..3) {
            0 => format!("ROLLUP ({all})"),
            1 => format!("CUBE ({all})"),
            _ => format!("GROUPING SETS (({all}), ({}), ())", keys[0]),
        }
    }

    /// Window functions, and queries over their results.
    pub(super) fn window(&mut self) -> Query {
        self.exact = true;
        self.scope = vec!["t"];
        let filter = self.filter();
        let partition = match self.rng.random_range(0..4) {
            0 => String::new(),
            _ => format!(
                "PARTITION BY {} ",
                self.pick(&[
                    "t.k",
                    "t.low",
                    "t.flag",
                    "t.i8",
                    "t.day",
                    "t.high",
                    "concat(t.low, t.k)"
                ])
            ),
        };
        let first = format!("{} OVER ({partition}{})", self.ranking(), self.unique_order());
        let second = self.over_frame(&partition);
        let inner = format!("SELECT t.v, t.k, t.low, {first} AS w0, {second} AS w1 FROM t{filter}");
        match self.rng.random_range(0..5) {
            0 | 1 => inner,
            2 => format!(
                "SELECT v, w0, w1 FROM ({inner}) AS p WHERE w0 <= {}",
                self.rng.random_range(0..9)
            ),
            3 => format!("SELECT w0, count(*), sum(v), min(w1), max(w1) FROM ({inner}) AS p GROUP BY w0"),
            _ => format!(
                "SELECT u.k, count(*), sum(w0), max(w1) FROM ({inner}) AS p JOIN u ON p.v = u.v GROUP BY u.k"
            ),
        }
        .into()
    }

    /// A numeric ranking function.
    fn ranking(&mut self) -> String {
        match self.rng.random_range(0..5) {
            0 | 1 => "row_number()".to_string(),
            2 => "rank()".to_string(),
            3 => "dense_rank()".to_string(),
            _ => format!("ntile({})", self.rng.random_range(1..9)),
        }
    }

    /// An order of `t` without ties.
    fn unique_order(&mut self) -> String {
        let before = self.pick(&[
            "",
            "t.i8, ",
            "t.day DESC, ",
            "t.low NULLS FIRST, ",
            "t.high DESC, ",
            "concat(t.view, t.low), ",
            "t.d9 DESC NULLS LAST, ",
        ]);
        format!("ORDER BY {before}t.v{}", self.pick(&["", " DESC"]))
    }

    /// A function over a frame of the partition, or of a nearby row.
    fn over_frame(&mut self, partition: &str) -> String {
        let column = self.column(&["i8", "i16", "i32", "k", "v", "d9", "u8"]);
        let (from, to) = (self.rng.random_range(0..9), self.rng.random_range(0..9));
        if self.once_in(3) {
            let function = match self.rng.random_range(0..5) {
                0 => format!("lag({column}, {from})"),
                1 => format!("lead({column}, {from})"),
                2 => format!("first_value({column})"),
                3 => format!("last_value({column})"),
                _ => format!("nth_value({column}, {})", to + 1),
            };
            let nulls = match from > 0 && !function.starts_with("lead") && self.once_in(3) {
                true => " IGNORE NULLS",
                false => "",
            };
            return format!("{function}{nulls} OVER ({partition}{})", self.unique_order());
        }
        let function = self.pick(&["count", "sum", "min", "max"]);
        let frame = match self.rng.random_range(0..5) {
            0 => String::new(),
            1 => self.unique_order(),
            2 => {
                let rows = format!(" ROWS BETWEEN {from} PRECEDING AND {to} FOLLOWING");
                self.unique_order() + &rows
            }
            3 => format!("ORDER BY t.k GROUPS BETWEEN {from} PRECEDING AND CURRENT ROW"),
            _ => format!("ORDER BY t.v RANGE BETWEEN {from} PRECEDING AND {to} FOLLOWING"),
        };
        format!("{function}({column}) OVER ({partition}{frame})")
    }
}
