//! Functions of DuckDB, and of systems with the same names, as expressions of functions that DataFusion has.
//!
//! A call is rewritten before it is planned, so that it runs wherever the other functions do: `year(day)` is
//! `date_part('year', day)`, which the device evaluates. A function of the session with the same name is
//! called instead. `docs/src/guide/duckdb.md` lists them.

use std::collections::HashMap;
use std::mem;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    Select, SelectItem, Value, visit_expressions, visit_expressions_mut,
};
use datafusion::sql::sqlparser::dialect::DuckDbDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// Functions that DataFusion has under another name, with the same arguments and clauses.
const RENAMED: &[(&str, &str)] = &[
    ("approx_count_distinct", "approx_distinct"),
    ("arbitrary", "first_value"),
    ("ceiling", "ceil"),
    ("first", "first_value"),
    ("gen_random_uuid", "uuid"),
    ("get_current_timestamp", "now"),
    ("group_concat", "string_agg"),
    ("last", "last_value"),
    ("lcase", "lower"),
    ("len", "length"),
    ("list", "array_agg"),
    ("list_pack", "make_array"),
    ("list_value", "make_array"),
    ("listagg", "string_agg"),
    ("ord", "ascii"),
    ("prefix", "starts_with"),
    ("quantile_cont", "percentile_cont"),
    ("regexp_matches", "regexp_like"),
    ("row", "struct"),
    ("sign", "signum"),
    ("split", "string_to_array"),
    ("str_split", "string_to_array"),
    ("string_split", "string_to_array"),
    ("strftime", "to_char"),
    ("strptime", "to_timestamp"),
    ("suffix", "ends_with"),
    ("today", "current_date"),
    ("typeof", "arrow_typeof"),
    ("ucase", "upper"),
    ("unicode", "ascii"),
    ("variance", "var_samp"),
];

/// Other functions: name, number of arguments, and an expression of the arguments `$1`, `$2` and so on. If it
/// is an aggregate function, it takes over the call's FILTER and OVER.
const REWRITTEN: &[(&str, usize, &str)] = &[
    ("arg_max", 2, ARG_MAX),
    ("arg_min", 2, ARG_MIN),
    ("argmax", 2, ARG_MAX),
    ("argmin", 2, ARG_MIN),
    (
        "century",
        1,
        "CAST(ceil(date_part('year', $1) / 100.0) AS BIGINT)",
    ),
    ("count_if", 1, "count(CASE WHEN $1 THEN 1 END)"),
    ("countif", 1, "count(CASE WHEN $1 THEN 1 END)"),
    ("date_add", 2, "$1 + $2"),
    ("day", 1, "date_part('day', $1)"),
    ("dayname", 1, "to_char($1, '%A')"),
    ("dayofmonth", 1, "date_part('day', $1)"),
    ("dayofweek", 1, "date_part('dow', $1)"),
    ("dayofyear", 1, "date_part('doy', $1)"),
    ("decade", 1, "CAST(floor(date_part('year', $1) / 10.0) AS BIGINT)"),
    ("epoch", 1, "date_part('epoch', $1)"),
    (
        "epoch_ms",
        1,
        "CAST(round(date_part('epoch', $1) * 1000) AS BIGINT)",
    ),
    ("group_concat", 1, "string_agg($1, ',')"),
    ("hour", 1, "date_part('hour', $1)"),
    ("if", 3, "CASE WHEN $1 THEN $2 ELSE $3 END"),
    ("isodow", 1, "(date_part('dow', $1) + 6) % 7 + 1"),
    (
        "last_day",
        1,
        "CAST(date_trunc('month', $1) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)",
    ),
    ("max_by", 2, ARG_MAX),
    ("min_by", 2, ARG_MIN),
    ("minute", 1, "date_part('minute', $1)"),
    ("mod", 2, "$1 % $2"),
    ("month", 1, "date_part('month', $1)"),
    ("monthname", 1, "to_char($1, '%B')"),
    ("quarter", 1, "date_part('quarter', $1)"),
    (
        "regexp_extract",
        2,
        "CASE WHEN $1 IS NOT NULL THEN coalesce((regexp_match($1, '(' || $2 || ')'))[1], '') END",
    ),
    (
        "regexp_extract",
        3,
        "CASE WHEN $1 IS NOT NULL THEN coalesce((regexp_match($1, '(' || $2 || ')'))[$3 + 1], '') END",
    ),
    ("regexp_full_match", 2, "regexp_like($1, '^(?:' || $2 || ')$')"),
    ("second", 1, "date_part('second', $1)"),
    ("struct_extract", 2, "get_field($1, $2)"),
    ("week", 1, "date_part('week', $1)"),
    ("weekday", 1, "date_part('dow', $1)"),
    ("weekofyear", 1, "date_part('week', $1)"),
    ("year", 1, "date_part('year', $1)"),
];

/// Rows in which one of both is NULL are ignored.
const ARG_MAX: &str = "first_value($1 ORDER BY $2 DESC) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)";
const ARG_MIN: &str = "first_value($1 ORDER BY $2) FILTER (WHERE $1 IS NOT NULL AND $2 IS NOT NULL)";

/// Units of `date_diff`, and the number of their boundaries between two times; of whole weeks between two
/// days.
const DIFFERENCES: &[(&str, &str)] = &[
    ("year", "date_part('year', $2) - date_part('year', $1)"),
    (
        "quarter",
        "(date_part('year', $2) - date_part('year', $1)) * 4 + date_part('quarter', $2) - date_part('quarter', $1)",
    ),
    (
        "month",
        "(date_part('year', $2) - date_part('year', $1)) * 12 + date_part('month', $2) - date_part('month', $1)",
    ),
    ("week", SECONDS),
    ("day", SECONDS),
    ("hour", SECONDS),
    ("minute", SECONDS),
    ("second", SECONDS),
];

/// `$3` is the unit that times are truncated to, `$4` the seconds of the unit that is counted.
const SECONDS: &str =
    "CAST((date_part('epoch', date_trunc($3, $2)) - date_part('epoch', date_trunc($3, $1))) / $4 AS BIGINT)";

/// The parsed expressions.
static EXPRESSIONS: LazyLock<HashMap<&str, Expr>> = LazyLock::new(|| {
    let rewritten = REWRITTEN.iter().map(|(_, _, text)| *text);
    let differences = DIFFERENCES.iter().map(|(_, text)| *text);
    rewritten
        .chain(differences)
        .map(|text| (text, parsed(text)))
        .collect()
});

fn parsed(text: &str) -> Expr {
    let parser = Parser::new(&DuckDbDialect {}).try_with_sql(text);
    let expression = parser.and_then(|mut parser| parser.parse_expr());
    expression.expect("an expression of this file")
}

/// The lower-case name of a call that is not quoted and has no schema.
fn name(call: &Function) -> Option<String> {
    let [part] = call.name.0.as_slice() else {
        return None;
    };
    let part = part.as_ident()?;
    part.quote_style
        .is_none()
        .then(|| part.value.to_ascii_lowercase())
}

/// The arguments, if they are expressions without names and clauses.
fn arguments(call: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    let plain = list.clauses.is_empty() && list.duplicate_treatment.is_none();
    let plain = plain && call.within_group.is_empty() && call.null_treatment.is_none();
    plain.then(|| list.args.iter().map(expression).collect())?
}

fn expression(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => Some(expression),
        _ => None,
    }
}

/// How a call is rewritten.
enum Rewriting {
    Renamed(&'static str),
    /// An expression, with these arguments instead of the call's.
    Expression(&'static Expr, Vec<Expr>),
}

/// Whether calls of this name are rewritten.
pub(super) fn is_known(name: &str) -> bool {
    RENAMED.iter().any(|(known, _)| *known == name)
        || REWRITTEN.iter().any(|(known, _, _)| *known == name)
        || ["date_diff", "datediff"].contains(&name)
}

/// The rewriting of a call; `None` if the function is not one of these, or is one of the session's.
fn rewriting(call: &Function, state: &SessionState) -> Option<Rewriting> {
    let name = name(call)?;
    let is_known = state.scalar_functions().contains_key(&name)
        || state.aggregate_functions().contains_key(&name)
        || state.window_functions().contains_key(&name)
        || state.higher_order_function(&name).is_ok();
    if is_known {
        return None;
    }
    replaced(call, &name).or_else(|| {
        let (_, renamed) = RENAMED.iter().find(|(from, _)| *from == name)?;
        Some(Rewriting::Renamed(renamed))
    })
}

/// The expression instead of a call of the function with this name.
fn replaced(call: &Function, name: &str) -> Option<Rewriting> {
    let arguments = arguments(call)?;
    let owned = || arguments.iter().map(|argument| (*argument).clone());
    if let ("date_diff" | "datediff", [Expr::Value(unit), _, _]) = (name, arguments.as_slice()) {
        let unit = unit.value.clone().into_string()?.to_ascii_lowercase();
        let unit = unit.strip_suffix('s').unwrap_or(&unit);
        let (unit, text) = DIFFERENCES.iter().find(|(known, _)| *known == unit)?;
        let (truncated, seconds) = match *unit {
            "week" => ("day", "604800"),
            "day" => ("day", "86400"),
            "hour" => ("hour", "3600"),
            "minute" => ("minute", "60"),
            _ => ("second", "1"),
        };
        let literals = [
            Value::SingleQuotedString(truncated.to_owned()),
            Value::Number(seconds.to_owned(), false),
        ];
        let literals = literals.map(|value| Expr::Value(value.into()));
        return Some(Rewriting::Expression(
            EXPRESSIONS.get(text)?,
            owned().skip(1).chain(literals).collect(),
        ));
    }
    let (_, _, text) = REWRITTEN
        .iter()
        .find(|(known, count, _)| *known == name && *count == arguments.len())?;
    let expression = EXPRESSIONS.get(text)?;
    // Only functions can have these clauses.
    let is_plain = call.filter.is_none() && call.over.is_none();
    let is_function = matches!(expression, Expr::Function(_));
    (is_plain || is_function).then(|| Rewriting::Expression(expression, owned().collect()))
}

/// The expression of a call; `None` if it stays as it is.
pub(super) fn rewritten(call: &mut Function, state: &SessionState) -> Option<Expr> {
    match rewriting(call, state)? {
        Rewriting::Renamed(name) => {
            call.name = ObjectName::from(vec![Ident::new(name)]);
            None
        }
        Rewriting::Expression(expression, arguments) => {
            let mut expression = expression.clone();
            insert(&mut expression, &arguments);
            if let Expr::Function(function) = &mut expression {
                function.over = call.over.take();
                function.filter = both(function.filter.take(), call.filter.take());
                return Some(expression);
            }
            Some(Expr::Nested(Box::new(expression)))
        }
    }
}

/// Replaces `$1` by the first argument, and so on.
fn insert(expression: &mut Expr, arguments: &[Expr]) {
    let _ = visit_expressions_mut(expression, |part| {
        if let Expr::Value(value) = part
            && let Value::Placeholder(name) = &value.value
            && let Some(argument) = name[1..]
                .parse()
                .ok()
                .and_then(|number: usize| arguments.get(number - 1))
        {
            // The visitor has visited the parts before, so placeholders of the argument remain.
            *part = argument.clone();
        }
        ControlFlow::<()>::Continue(())
    });
}

fn both(one: Option<Box<Expr>>, other: Option<Box<Expr>>) -> Option<Box<Expr>> {
    match (one, other) {
        (Some(left), Some(right)) => Some(Box::new(Expr::BinaryOp {
            left: Box::new(Expr::Nested(left)),
            op: BinaryOperator::And,
            right: Box::new(Expr::Nested(right)),
        })),
        (one, other) => one.or(other),
    }
}

/// Adds an alias to each column of a SELECT that will be rewritten: the expression as the query spells it.
pub(super) fn name_columns(select: &mut Select, state: &SessionState) {
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expression) = item else {
            continue;
        };
        let found = visit_expressions(expression, |part| match part {
            Expr::Function(call) if rewriting(call, state).is_some() => ControlFlow::Break(()),
            Expr::SimilarTo { .. } => ControlFlow::Break(()),
            part if super::row_comparisons::is_comparison(part) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        if found.is_break() {
            let alias = Ident::with_quote('"', expression.to_string());
            let expr = mem::replace(expression, Expr::Value(Value::Null.into()));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::compute::cast;
    use arrow::datatypes::DataType;
    use datafusion::prelude::SessionContext;

    fn session() -> SessionContext {
        let session = crate::session().with_setting("galatea.device", "cpu");
        session.build().expect("a session")
    }

    /// The only value of a query as text, with the name of its column.
    async fn value(ctx: &SessionContext, sql: &str) -> (String, Option<String>) {
        let frame = crate::sql(ctx, sql)
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        let rows = frame
            .collect()
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error}"));
        let rows = rows.iter().find(|rows| rows.num_rows() > 0).expect("a row");
        let text = cast(rows.column(0), &DataType::Utf8).expect("text");
        let text = text.as_string::<i32>().iter().next().flatten().map(str::to_owned);
        (rows.schema().field(0).name().clone(), text)
    }

    /// The values are DuckDB's.
    #[tokio::test]
    async fn functions_return_the_values_of_duckdb() {
        let ctx = session();
        for (call, expected) in [
            ("year(DATE '2024-02-29')", "2024"),
            ("month(DATE '2024-02-29')", "2"),
            ("day(DATE '2024-02-29')", "29"),
            ("dayofmonth(DATE '2024-02-29')", "29"),
            ("quarter(DATE '2024-05-01')", "2"),
            ("century(DATE '2000-12-31')", "20"),
            ("century(TIMESTAMP '2001-01-01 10:00:00')", "21"),
            ("decade(DATE '1999-12-31')", "199"),
            (
                "epoch_ms(TIMESTAMP '2024-01-01 00:00:00.123999')",
                "1704067200124",
            ),
            ("epoch_ms(TIMESTAMP '1969-12-31 23:59:59.999')", "-1"),
            ("epoch_ms(DATE '1970-01-02')", "86400000"),
            ("mod(-7, 3)", "-1"),
            ("mod(7.5, 2)", "1.5"),
            ("mod(1 + 6, 1 + 2)", "1"),
            ("regexp_full_match('abc', 'b')", "false"),
            ("regexp_full_match('abc', 'a.c')", "true"),
            ("regexp_full_match('abc', 'a|abc')", "true"),
            ("regexp_full_match('a' || chr(10) || 'b', 'a.b')", "false"),
            ("struct_extract({'a': 1, 'b': 'x'}, 'b')", "x"),
            ("week(DATE '2021-01-03')", "53"),
            ("weekofyear(DATE '2021-01-04')", "1"),
            ("dayofyear(DATE '2024-12-31')", "366"),
            ("dayofweek(DATE '2024-02-25')", "0"),
            ("weekday(DATE '2024-02-29')", "4"),
            ("isodow(DATE '2024-02-25')", "7"),
            ("isodow(DATE '2024-02-26')", "1"),
            ("hour(TIMESTAMP '2024-02-29 13:14:15')", "13"),
            ("minute(TIMESTAMP '2024-02-29 13:14:15')", "14"),
            ("second(TIMESTAMP '2024-02-29 13:14:15')", "15"),
            ("epoch(TIMESTAMP '1970-01-02 00:00:01')", "86401.0"),
            ("dayname(DATE '2024-02-29')", "Thursday"),
            ("monthname(DATE '2024-02-29')", "February"),
            ("last_day(DATE '2024-02-11')", "2024-02-29"),
            ("strftime(DATE '2024-02-29', '%d.%m.%Y')", "29.02.2024"),
            ("date_diff('day', DATE '2024-02-28', DATE '2024-03-01')", "2"),
            (
                "datediff('day', TIMESTAMP '2024-02-28 23:59:59', TIMESTAMP '2024-02-29 00:00:00')",
                "1",
            ),
            (
                "date_diff('hour', TIMESTAMP '2024-01-01 00:59:00', TIMESTAMP '2024-01-01 02:01:00')",
                "2",
            ),
            (
                "date_diff('minute', TIMESTAMP '2024-01-01 00:00:59', TIMESTAMP '2024-01-01 00:01:00')",
                "1",
            ),
            (
                "date_diff('second', TIMESTAMP '1969-12-31 23:59:59', TIMESTAMP '1970-01-01 00:00:01')",
                "2",
            ),
            ("date_diff('week', DATE '2024-01-07', DATE '2024-01-13')", "0"),
            ("date_diff('week', DATE '2024-01-14', DATE '2024-01-07')", "-1"),
            ("date_diff('month', DATE '2023-12-31', DATE '2024-01-01')", "1"),
            ("date_diff('quarter', DATE '2023-12-31', DATE '2024-04-01')", "2"),
            ("date_diff('years', DATE '2024-12-31', DATE '2021-01-01')", "-3"),
            (
                "CAST(date_add(DATE '2024-02-28', INTERVAL '2 days') AS DATE)",
                "2024-03-01",
            ),
            ("if(1 > 2, 'a', 'b')", "b"),
            ("if(NULL, 1, 2)", "2"),
            ("regexp_extract('abc-123', '[0-9]+')", "123"),
            ("regexp_extract('abc-123', '([a-z]+)-([0-9]+)')", "abc-123"),
            ("regexp_extract('abc-123', '([a-z]+)-([0-9]+)', 2)", "123"),
            ("regexp_extract('abc', '[0-9]+')", ""),
            ("regexp_matches('abc', 'b.')", "true"),
            ("string_split('a,b,c', ',')[2]", "b"),
            ("prefix('abc', 'ab')", "true"),
            ("suffix('abc', 'bc')", "true"),
            ("ucase('abc') || lcase('DEF')", "ABCdef"),
            ("len('abc')", "3"),
            ("ord('a')", "97"),
            ("sign(-3.5)", "-1.0"),
            ("list_value(1, 2, 3)[3]", "3"),
            ("year(DATE '2024-02-29') + month(DATE '2024-02-29') * 2", "2028"),
            ("YEAR(CAST(if(true, '2024-02-29', '') AS DATE))", "2024"),
        ] {
            let (name, found) = value(&ctx, &format!("SELECT {call}")).await;
            assert_eq!(found.as_deref(), Some(expected), "{call}");
            let is_renamed = name == call || !call.contains('(');
            assert!(
                is_renamed || name.contains(call.split('(').next().expect("a name")),
                "{call}: {name}"
            );
        }
        for call in [
            "regexp_extract(NULL, 'a')",
            "year(CAST(NULL AS DATE))",
            "date_diff('day', NULL, DATE '2024-01-01')",
        ] {
            assert_eq!(value(&ctx, &format!("SELECT {call}")).await.1, None, "{call}");
        }
    }

    #[tokio::test]
    async fn aggregates_keep_their_clauses() {
        let ctx = session();
        let rows = "(VALUES ('a', 1, 10), ('b', 3, 20), ('c', NULL, 30), (NULL, 9, 40), ('d', 2, 50)) AS t(name, v, w)";
        for (call, expected) in [
            ("arg_max(name, v)", "b"),
            ("arg_min(name, v)", "a"),
            ("max_by(name, w) FILTER (WHERE w < 25)", "b"),
            ("count_if(v > 1)", "3"),
            ("count_if(v > 1) FILTER (WHERE w > 10)", "3"),
            ("group_concat(name, '-' ORDER BY name)", "a-b-c-d"),
            ("len(string_agg(name, ''))", "4"),
            ("array_length(list(DISTINCT v))", "5"),
            ("quantile_cont(w, 0.5)", "30"),
        ] {
            let found = value(&ctx, &format!("SELECT {call} FROM {rows}")).await.1;
            let found = found.as_deref().map(|found| found.trim_end_matches(".0"));
            assert_eq!(found, Some(expected), "{call}");
        }
        let over = format!("SELECT max(n) FROM (SELECT count_if(v > 1) OVER (ORDER BY w) AS n FROM {rows})");
        assert_eq!(value(&ctx, &over).await.1.as_deref(), Some("3"));
        let by = format!(
            "SELECT count(*) FROM (SELECT year(day), count(*) FROM (SELECT DATE '2024-01-01' + CASE WHEN w > 20 THEN INTERVAL '1 day' ELSE INTERVAL '2 days' END AS day FROM {rows}) GROUP BY year(day))"
        );
        assert_eq!(value(&ctx, &by).await.1.as_deref(), Some("1"));
    }

    #[test]
    fn guide_lists_all_functions() {
        let guide = include_str!("../../../../docs/src/guide/duckdb.md");
        let renamed = super::RENAMED.iter().map(|(name, _)| name);
        for name in renamed.chain(super::REWRITTEN.iter().map(|(name, _, _)| name)) {
            let listed = [format!("`{name}`"), format!("`{name}(")];
            assert!(listed.iter().any(|text| guide.contains(text)), "{name}");
        }
    }

    #[tokio::test]
    async fn functions_of_the_session_are_called() {
        use datafusion::arrow::array::Int64Array;
        use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
        use std::sync::Arc;
        let ctx = session();
        let own = |_: &[ColumnarValue]| Ok(ColumnarValue::Array(Arc::new(Int64Array::from(vec![42]))));
        ctx.register_udf(create_udf(
            "year",
            vec![DataType::Date32],
            DataType::Int64,
            Volatility::Volatile,
            Arc::new(own),
        ));
        let found = value(&ctx, "SELECT year(DATE '2024-02-29')").await.1;
        assert_eq!(found.as_deref(), Some("42"));
    }
}
