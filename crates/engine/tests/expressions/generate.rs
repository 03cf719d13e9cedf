//! Random SQL expressions over the columns of [`super::rows`], by type.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The result type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Integer,
    Decimal,
    Float,
    Date,
    Timestamp,
    Boolean,
    Text,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Integer,
        Self::Boolean,
        Self::Decimal,
        Self::Boolean,
        Self::Float,
        Self::Date,
        Self::Timestamp,
        Self::Text,
    ];
}

/// Generates expressions from a seed.
pub(crate) struct Generator {
    random: SmallRng,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            random: SmallRng::seed_from_u64(seed),
        }
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.random.random_range(0..choices.len())]
    }

    /// An expression of a kind with operators nested up to `depth`.
    pub(crate) fn expression(&mut self, kind: Kind, depth: u32) -> String {
        if depth == 0 {
            return self.leaf(kind);
        }
        let below = depth - 1;
        // Forms that every kind supports.
        match self.random.random_range(0..12) {
            0 => {
                let (condition, a, b) = (
                    self.expression(Kind::Boolean, below),
                    self.expression(kind, below),
                    self.expression(kind, below),
                );
                return format!("CASE WHEN {condition} THEN {a} ELSE {b} END");
            }
            1 => {
                let (condition, other) = (
                    self.expression(Kind::Boolean, below),
                    self.expression(Kind::Boolean, below),
                );
                let (a, b) = (self.expression(kind, below), self.expression(kind, below));
                return format!("CASE WHEN {condition} THEN {a} WHEN {other} THEN {b} END");
            }
            2 => {
                let (a, b) = (self.expression(kind, below), self.expression(kind, below));
                return format!("COALESCE({a}, {b})");
            }
            3 => {
                let (a, b) = (self.expression(kind, below), self.expression(kind, below));
                return format!("NULLIF({a}, {b})");
            }
            _ => {}
        }
        match kind {
            Kind::Integer => self.integer(below),
            Kind::Decimal => self.decimal(below),
            Kind::Float => self.float(below),
            Kind::Date => self.date(below),
            Kind::Timestamp => self.timestamp(below),
            Kind::Boolean => self.boolean(below),
            Kind::Text => self.text(below),
        }
    }

    fn leaf(&mut self, kind: Kind) -> String {
        match kind {
            Kind::Integer => self.pick(&[
                "tiny",
                "short",
                "number",
                "big",
                "small",
                "byte",
                "natural",
                "huge",
                "0",
                "1",
                "-1",
                "7",
                "100",
                "2147483647",
                "9223372036854775807",
                "small",
                "NULL::bigint",
            ]),
            Kind::Decimal => self.pick(&[
                "price",
                "discount",
                "rate",
                "vast",
                "1.00",
                "0.05",
                "12.3456",
                "-7.5",
                "CAST(99999999999999.99 AS DECIMAL(16,2))",
                "discount",
                "price",
            ]),
            Kind::Float => self.pick(&[
                "single",
                "real",
                "CAST(0.5 AS DOUBLE)",
                "CAST(3 AS REAL)",
                "CAST('NaN' AS DOUBLE)",
                "-real",
            ]),
            Kind::Date => self.pick(&[
                "day",
                "DATE '1998-09-02'",
                "DATE '2000-02-29'",
                "DATE '1969-12-31'",
            ]),
            Kind::Timestamp => self.pick(&["moment", "instant", "TIMESTAMP '2024-05-01T12:34:56.789012'"]),
            Kind::Boolean => self.pick(&["flag", "certain", "true", "false", "NULL::boolean", "flag"]),
            Kind::Text => self.pick(&["word", "city", "note", "memo", "'banana'", "'Köln'", "''", "word"]),
        }
        .to_owned()
    }

    fn integer(&mut self, below: u32) -> String {
        let choice = self.random.random_range(0..17);
        let mut part = |kind| self.expression(kind, below);
        match choice {
            0..=3 => {
                let (a, b) = (part(Kind::Integer), part(Kind::Integer));
                format!("({a} {} {b})", self.pick(&["+", "-", "*"]))
            }
            4 => {
                let (a, b) = (part(Kind::Integer), part(Kind::Integer));
                format!("({a} {} {b})", self.pick(&["/", "%"]))
            }
            5 => {
                let a = part(Kind::Integer);
                format!(
                    "({a} {} {})",
                    self.pick(&["/", "%"]),
                    self.pick(&["10", "7", "-1", "3", "1000000"])
                )
            }
            6 => format!("(- {})", part(Kind::Integer)),
            15 => {
                let (a, b) = (part(Kind::Integer), part(Kind::Integer));
                format!("{}({a}, {b})", self.pick(&["gcd", "lcm"]))
            }
            16 => format!(
                "round({}, {})",
                part(Kind::Integer),
                self.pick(&["-1", "-2", "3"])
            ),
            7 => {
                let (a, b) = (part(Kind::Integer), part(Kind::Integer));
                format!(
                    "(CAST({a} AS BIGINT) {} CAST({b} AS BIGINT))",
                    self.pick(&["&", "|", "^", "<<", ">>"])
                )
            }
            8 => {
                let from = [Kind::Integer, Kind::Decimal, Kind::Float, Kind::Boolean]
                    [self.random.random_range(0..4)];
                let value = self.expression(from, below);
                let name = self.pick(&["CAST", "TRY_CAST"]);
                let to = self.pick(&[
                    "TINYINT",
                    "SMALLINT",
                    "INT",
                    "BIGINT",
                    "INT UNSIGNED",
                    "BIGINT UNSIGNED",
                ]);
                format!("{name}({value} AS {to})")
            }
            9 => {
                let from = if self.random.random() {
                    Kind::Date
                } else {
                    Kind::Timestamp
                };
                let value = self.expression(from, below);
                let field = self.pick(&[
                    "year",
                    "quarter",
                    "month",
                    "week",
                    "day",
                    "dow",
                    "isodow",
                    "doy",
                    "hour",
                    "minute",
                    "second",
                    "millisecond",
                    "microsecond",
                    "isoyear",
                ]);
                format!("date_part('{field}', {value})")
            }
            10 => {
                let value = self.expression(Kind::Text, below);
                format!(
                    "{}({value})",
                    self.pick(&["length", "octet_length", "character_length", "ascii"])
                )
            }
            11 => format!("abs({})", part(Kind::Integer)),
            12 => {
                let (a, b) = (part(Kind::Integer), part(Kind::Integer));
                format!("{}({a}, {b}, small)", self.pick(&["GREATEST", "LEAST"]))
            }
            13 => {
                let (a, b) = (part(Kind::Date), part(Kind::Date));
                format!("({a} - {b})")
            }
            _ => {
                let value = self.expression(Kind::Text, below);
                format!(
                    "strpos({value}, {})",
                    self.pick(&["'a'", "'an'", "''", "'ü'", "city"])
                )
            }
        }
    }

    fn decimal(&mut self, below: u32) -> String {
        let choice = self.random.random_range(0..8);
        let mut part = |kind| self.expression(kind, below);
        match choice {
            0..=2 => {
                let (a, b) = (part(Kind::Decimal), part(Kind::Decimal));
                format!("({a} {} {b})", self.pick(&["+", "-", "*"]))
            }
            3 => {
                let (a, b) = (part(Kind::Decimal), part(Kind::Decimal));
                format!("({a} {} {b})", self.pick(&["/", "%"]))
            }
            4 => format!("(price * (1 - {}))", part(Kind::Decimal)),
            5 => {
                let from = [Kind::Integer, Kind::Decimal, Kind::Float][self.random.random_range(0..3)];
                let value = self.expression(from, below);
                let name = self.pick(&["CAST", "TRY_CAST"]);
                let to = self.pick(&[
                    "DECIMAL(15,2)",
                    "DECIMAL(38,10)",
                    "DECIMAL(5,0)",
                    "DECIMAL(20,6)",
                    "DECIMAL(10,4)",
                ]);
                format!("{name}({value} AS {to})")
            }
            6 => format!("(- {})", part(Kind::Decimal)),
            _ => {
                let value = part(Kind::Decimal);
                self.pick(&[
                    "abs(x)",
                    "ceil(x)",
                    "floor(x)",
                    "round(x, 1)",
                    "round(x)",
                    "trunc(x, -1)",
                ])
                .replace('x', &value)
            }
        }
    }

    fn float(&mut self, below: u32) -> String {
        let choice = self.random.random_range(0..7);
        let mut part = |kind| self.expression(kind, below);
        match choice {
            0..=2 => {
                let (a, b) = (part(Kind::Float), part(Kind::Float));
                format!("({a} {} {b})", self.pick(&["+", "-", "*", "/", "%"]))
            }
            3 => {
                let from = [Kind::Integer, Kind::Decimal, Kind::Float, Kind::Boolean]
                    [self.random.random_range(0..4)];
                let value = self.expression(from, below);
                let to = self.pick(&["DOUBLE", "REAL"]);
                format!("CAST({value} AS {to})")
            }
            4 => {
                let value = part(Kind::Float);
                format!(
                    "{}({value})",
                    self.pick(&[
                        "abs", "ceil", "floor", "sqrt", "signum", "trunc", "radians", "cbrt"
                    ])
                )
            }
            5 => format!("date_part('epoch', {})", part(Kind::Timestamp)),
            _ => format!("(- {})", part(Kind::Float)),
        }
    }

    fn date(&mut self, below: u32) -> String {
        let choice = self.random.random_range(0..4);
        match choice {
            0 | 1 => {
                let value = self.expression(Kind::Date, below);
                let interval = self.pick(&[
                    "1 month",
                    "3 days",
                    "1 year",
                    "13 months",
                    "90 days",
                    "1 month 1 day",
                ]);
                format!("({value} {} INTERVAL '{interval}')", self.pick(&["+", "-"]))
            }
            2 => format!("CAST({} AS DATE)", self.expression(Kind::Timestamp, below)),
            _ => format!(
                "CAST({} AS DATE)",
                self.pick(&["number % 100000", "small", "short"])
            ),
        }
    }

    fn timestamp(&mut self, below: u32) -> String {
        let choice = self.random.random_range(0..5);
        match choice {
            4 => {
                let value = self.expression(Kind::Timestamp, below);
                let stride = self.pick(&["15 minutes", "1 hour", "3 days", "1 second"]);
                format!("date_bin(INTERVAL '{stride}', {value}, TIMESTAMP '2001-01-01 00:00:07')")
            }
            0 | 1 => {
                let value = self.expression(Kind::Timestamp, below);
                let unit = self.pick(&[
                    "year",
                    "quarter",
                    "month",
                    "week",
                    "day",
                    "hour",
                    "minute",
                    "second",
                    "millisecond",
                ]);
                format!("date_trunc('{unit}', {value})")
            }
            2 => {
                let value = self.expression(Kind::Timestamp, below);
                let interval = self.pick(&[
                    "1 month",
                    "36 hours",
                    "1 year",
                    "1 microsecond",
                    "2 months 3 days 5 seconds",
                ]);
                format!("({value} {} INTERVAL '{interval}')", self.pick(&["+", "-"]))
            }
            _ => format!("CAST({} AS TIMESTAMP)", self.expression(Kind::Date, below)),
        }
    }

    fn boolean(&mut self, below: u32) -> String {
        let choice = self.random.random_range(0..12);
        let kinds = [
            Kind::Integer,
            Kind::Decimal,
            Kind::Float,
            Kind::Date,
            Kind::Timestamp,
            Kind::Text,
            Kind::Boolean,
        ];
        let kind = kinds[self.random.random_range(0..kinds.len())];
        let mut part = |kind| self.expression(kind, below);
        match choice {
            0 | 1 => {
                let (a, b) = (part(Kind::Boolean), part(Kind::Boolean));
                format!("({a} {} {b})", self.pick(&["AND", "OR"]))
            }
            2 => format!("NOT ({})", part(Kind::Boolean)),
            3 => {
                let value = part(kind);
                format!("({value}) IS {}NULL", self.pick(&["", "NOT "]))
            }
            4 => {
                let value = part(Kind::Boolean);
                format!(
                    "({value}) IS {}",
                    self.pick(&["TRUE", "NOT TRUE", "FALSE", "NOT FALSE", "UNKNOWN"])
                )
            }
            5 => {
                let (value, low, high) = (part(kind), part(kind), part(kind));
                format!("({value} {}BETWEEN {low} AND {high})", self.pick(&["", "NOT "]))
            }
            6 => self.membership(below),
            7 | 8 => {
                let value = self.expression(Kind::Text, below);
                match self.random.random_range(0..4) {
                    3 => {
                        let operator = self.pick(&["~", "~*", "!~", "!~*"]);
                        let pattern = self.pick(&[
                            "an",
                            "^a",
                            "a$",
                            "^$",
                            "[aeiou]{2}",
                            "^.{3}$",
                            "本|ü",
                            "(an)+a?$",
                            "\\d\\D",
                            "^\\w+$",
                        ]);
                        format!("({value} {operator} '{pattern}')")
                    }
                    0 => format!(
                        "starts_with({value}, {})",
                        self.pick(&["'a'", "'Z'", "'日'", "''"])
                    ),
                    1 => format!("contains({value}, {})", self.pick(&["'an'", "'ü'", "''"])),
                    _ => {
                        let name = self.pick(&["LIKE", "NOT LIKE", "ILIKE"]);
                        let pattern = self.pick(&[
                            "a%",
                            "%a",
                            "%an%",
                            "_a%",
                            "%_",
                            "100\\%",
                            "Z_rich",
                            "%",
                            "a_",
                            "%n_n%",
                            "under\\_%",
                            "_本%",
                        ]);
                        format!("({value} {name} '{pattern}')")
                    }
                }
            }
            _ => {
                let (a, b) = (part(kind), part(kind));
                let operator = self.pick(&[
                    "=",
                    "<>",
                    "<",
                    "<=",
                    ">",
                    ">=",
                    "IS DISTINCT FROM",
                    "IS NOT DISTINCT FROM",
                ]);
                format!("({a} {operator} {b})")
            }
        }
    }

    fn membership(&mut self, below: u32) -> String {
        let not = self.pick(&["", "NOT "]);
        let (kind, list) = match self.random.random_range(0..6) {
            0 => (Kind::Integer, "1, 2, 3, 7, -7, NULL".to_owned()),
            1 => (
                Kind::Integer,
                (0..40)
                    .map(|item| (item * item * 3 - 5).to_string())
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
            2 => (
                Kind::Integer,
                (0..40)
                    .map(|item: i64| (item.pow(9) - 3).to_string())
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
            3 => (Kind::Date, "DATE '1998-09-02', DATE '1970-01-02'".to_owned()),
            4 => (
                Kind::Text,
                "'apple', 'banana', 'Zürich', 'x', 'not there'".to_owned(),
            ),
            _ => (Kind::Decimal, "0.05, 0.06, 0.07, 1.00".to_owned()),
        };
        let value = self.expression(kind, below);
        format!("({value} {not}IN ({list}))")
    }

    fn text(&mut self, below: u32) -> String {
        let value = self.expression(Kind::Text, below);
        match self.random.random_range(0..10) {
            8 => format!("right({value}, {})", self.pick(&["0", "1", "-1", "50"])),
            9 => format!(
                "split_part({value}, {}, {})",
                self.pick(&["'a'", "'an'", "' '"]),
                self.pick(&["1", "2", "-1"])
            ),
            6 => format!("{}({value})", self.pick(&["btrim", "ltrim", "rtrim"])),
            7 => format!("left({value}, {})", self.pick(&["0", "1", "3", "50"])),
            0 => format!("upper({value})"),
            1 => format!("lower({value})"),
            2 | 3 => format!(
                "substr({value}, {}, {})",
                self.pick(&["1", "2", "-1", "3"]),
                self.pick(&["1", "2", "0", "4"])
            ),
            4 => format!("replace({value}, 'a', 'bb')"),
            _ => format!("substr({value}, 2)"),
        }
    }
}
