//! Queries that read a table more than once, so that their subtrees may share an input.

use super::grammar::Grammar;
use super::shapes::Query;
use rand::Rng;

impl Grammar {
    /// Self joins, grouping sets and several DISTINCT above joins, unions of one table, common table
    /// expressions that are used twice, and scalar subqueries over the table itself.
    pub(super) fn repeated(&mut self) -> Query {
        match self.rng.random_range(0..8) {
            0 => self.self_join(),
            1 | 2 => self.sets_of_a_join(),
            3 | 4 => self.distinct_of_a_join(),
            5 => self.union_of_one_table(),
            6 => self.expression_used_twice(),
            _ => self.subqueries_over_itself(),
        }
        .into()
    }

    fn self_join(&mut self) -> String {
        let kind = self.pick(&["JOIN", "LEFT JOIN", "FULL JOIN"]);
        let key = self.pick(&["v = s.v", "v = s.k", "k = s.v", "i8 = s.v"]);
        self.scope = vec!["t", "s"];
        let filter = self.filter();
        self.select(&format!("t {kind} t AS s ON t.{key}"), &filter).sql
    }

    fn sets_of_a_join(&mut self) -> String {
        let (from, filter) = self.joined();
        let keys: Vec<String> = (0..self.rng.random_range(1..3)).map(|_| self.key()).collect();
        let sets = self.grouping_sets(&keys);
        let (one, other) = (self.aggregate(), self.aggregate());
        let keys = keys.join(", ");
        format!("SELECT {keys}, {one} AS a, {other} AS b FROM {from}{filter} GROUP BY {sets}")
    }

    fn distinct_of_a_join(&mut self) -> String {
        let (from, filter) = self.joined();
        let mut calls: Vec<String> = (0..self.rng.random_range(2..4))
            .map(|_| {
                let column = self.column(&["k", "i8", "low", "day", "v", "view"]);
                format!("count(DISTINCT {column})")
            })
            .collect();
        calls.push(self.aggregate());
        if self.once_in(2) {
            return format!("SELECT {} FROM {from}{filter}", calls.join(", "));
        }
        let key = self.key();
        let calls = calls.join(", ");
        format!("SELECT {key} AS g, {calls} FROM {from}{filter} GROUP BY 1")
    }

    fn union_of_one_table(&mut self) -> String {
        let (from, filter) = self.joined();
        let (key, one, other) = (self.key(), self.number(1), self.aggregate_of("n"));
        let second = self.filter();
        let operator = self.pick(&["UNION ALL", "UNION", "INTERSECT", "EXCEPT"]);
        let side = format!("SELECT {key} AS g, {one} AS n FROM {from}");
        format!("SELECT g, count(*), {other} FROM ({side}{filter} {operator} {side}{second}) GROUP BY g")
    }

    fn expression_used_twice(&mut self) -> String {
        self.exact = true;
        let (from, filter) = self.joined();
        let (key, call) = (self.key(), self.aggregate());
        if self.once_in(2) {
            return format!(
                "WITH j AS (SELECT {key} AS g, {call} AS a, count(*) AS n FROM {from}{filter} GROUP BY 1) \
                 SELECT j.g, j.n, j.a, o.n AS m FROM j JOIN j AS o ON j.g = o.g"
            );
        }
        let number = self.number(1);
        format!(
            "WITH j AS (SELECT {key} AS g, {number} AS n FROM {from}{filter}) \
             SELECT (SELECT count(*) FROM j WHERE n > 0) AS c, (SELECT max(n) FROM j) AS m, count(g), min(n) FROM j"
        )
    }

    fn subqueries_over_itself(&mut self) -> String {
        self.exact = true;
        self.scope = vec!["t"];
        let (filter, inner) = (self.filter(), self.filter());
        let key = self.key();
        let (call, column) = (
            self.pick(&["min", "max", "avg", "count"]),
            self.column(&["v", "i8", "d9"]),
        );
        let comparison = self.pick(&["<", ">=", "<>"]);
        format!(
            "SELECT {key} AS g, count(*), (SELECT max(t.v) FROM t{inner}) AS m FROM t{filter} GROUP BY 1 \
             HAVING count(*) >= (SELECT count(*) FROM t WHERE t.v {comparison} (SELECT {call}({column}) FROM t)) \
             OR count(*) < 9"
        )
    }

    fn aggregate_of(&mut self, column: &str) -> String {
        format!("{}({column})", self.pick(&["sum", "min", "max", "count"]))
    }
}
