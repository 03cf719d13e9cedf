//! Intervals in the names that DataFusion gives to columns.
//!
//! DataFusion writes an interval as the debug form of its Rust type, also in the names of columns.

use galatea_expression::interval_text;

/// The start of an interval within a name, and within an expression.
const STARTS: [(&str, &str); 2] = [
    ("IntervalMonthDayNano(\"IntervalMonthDayNano { ", " }\")"),
    ("IntervalMonthDayNano { ", " }"),
];

/// Replaces the debug form of intervals in a name or expression by SQL.
pub(super) fn with_sql_intervals(text: &str) -> String {
    let mut written = text.to_owned();
    for (start, end) in STARTS {
        let mut done = 0;
        while let Some(found) = written[done..].find(start) {
            let at = done + found;
            let fields = at + start.len();
            let Some(length) = written[fields..].find(end) else {
                break;
            };
            match interval(&written[fields..fields + length]) {
                Some(interval) => {
                    written.replace_range(at..fields + length + end.len(), &interval);
                    done = at + interval.len();
                }
                None => done = fields,
            }
        }
    }
    written
}

/// `months: 1, days: 2, nanoseconds: 3` in SQL.
fn interval(fields: &str) -> Option<String> {
    let mut fields = fields.split(", ");
    let mut field = |name: &str| fields.next()?.strip_prefix(name)?.strip_prefix(": ");
    let months = field("months")?.parse().ok()?;
    let days = field("days")?.parse().ok()?;
    let nanoseconds = field("nanoseconds")?.parse().ok()?;
    Some(interval_text(months, days, nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::with_sql_intervals;

    #[test]
    fn intervals_of_names_and_expressions_are_sql() {
        let dump = |months: i32, nanoseconds: i64| {
            format!("IntervalMonthDayNano {{ months: {months}, days: 0, nanoseconds: {nanoseconds} }}")
        };
        let name = |dump: String| format!("date_bin(IntervalMonthDayNano(\"{dump}\"),t.ts)");
        for (text, expected) in [
            (name(dump(0, 60_000_000_000)), "date_bin(INTERVAL '60 s',t.ts)"),
            (
                format!("ts + {} AS {}", dump(-1, 0), name(dump(2, 5000))),
                "ts + INTERVAL '-1 months' AS date_bin(INTERVAL '2 months 5 us',t.ts)",
            ),
            ("IntervalMonthDayNano { x".to_owned(), "IntervalMonthDayNano { x"),
            (
                "IntervalMonthDayNano { x }".to_owned(),
                "IntervalMonthDayNano { x }",
            ),
            ("a + 1".to_owned(), "a + 1"),
        ] {
            assert_eq!(with_sql_intervals(&text), expected);
        }
    }
}
