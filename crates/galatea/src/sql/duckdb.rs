//! Functions of DuckDB, and of systems with the same names, as expressions of functions that DataFusion has.
//!
//! A call is rewritten before it is planned, so that it runs wherever the other functions do: `year(day)` is
//! `date_part('year', day)`, which the device evaluates. A function of the session with the same name is
//! called instead. `docs/src/guide/duckdb.md` lists them.

use std::collections::HashMap;
use std::mem;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use super::ast_parts::{is_session_function, plain_arguments, unquoted_name};
use super::templates::{both, insert, parsed};
use super::{column_lists, json, operators, quantiles, time_formats};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    Select, SelectItem, Value,
};
use galatea_engine::syntax::visit_expressions;

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
    ("to_years", 1, "$1 * INTERVAL '1 year'"),
    ("to_months", 1, "$1 * INTERVAL '1 month'"),
    ("to_weeks", 1, "$1 * INTERVAL '1 week'"),
    ("to_days", 1, "$1 * INTERVAL '1 day'"),
    ("to_hours", 1, "$1 * INTERVAL '1 hour'"),
    ("to_minutes", 1, "$1 * INTERVAL '1 minute'"),
    ("to_seconds", 1, "$1 * INTERVAL '1 second'"),
    ("to_milliseconds", 1, "$1 * INTERVAL '1 millisecond'"),
    ("to_microseconds", 1, "$1 * INTERVAL '1 microsecond'"),
    ("arg_max", 2, ARG_MAX),
    ("arg_min", 2, ARG_MIN),
    ("argmax", 2, ARG_MAX),
    ("argmin", 2, ARG_MIN),
    ("century", 1, CENTURY),
    ("count_if", 1, "count(CASE WHEN $1 THEN 1 END)"),
    ("countif", 1, "count(CASE WHEN $1 THEN 1 END)"),
    ("date_add", 2, "$1 + $2"),
    ("day", 1, "date_part('day', $1)"),
    ("dayname", 1, "to_char($1, '%A')"),
    ("dayofmonth", 1, "date_part('day', $1)"),
    ("dayofweek", 1, "date_part('dow', $1)"),
    ("dayofyear", 1, "date_part('doy', $1)"),
    ("decade", 1, DECADE),
    ("epoch", 1, "date_part('epoch', $1)"),
    (
        "epoch_ms",
        1,
        "CAST(round(date_part('epoch', $1) * 1000) AS BIGINT)",
    ),
    ("hour", 1, "date_part('hour', $1)"),
    (
        "json_group_array",
        1,
        "CAST('[' || coalesce(string_agg(coalesce(to_json($1), 'null'), ','), '') || ']' AS JSON)",
    ),
    (
        "json_group_object",
        2,
        "CAST('{' || coalesce(string_agg(to_json(CAST($1 AS VARCHAR)) || ':' || coalesce(to_json($2), 'null'), ','), '') || '}' AS JSON)",
    ),
    ("if", 3, "CASE WHEN $1 THEN $2 ELSE $3 END"),
    ("isodow", 1, "(date_part('dow', $1) + 6) % 7 + 1"),
    (
        "last_day",
        1,
        "CAST(date_trunc('month', $1) + INTERVAL '1 month' - INTERVAL '1 day' AS DATE)",
    ),
    ("make_timestamp", 1, "to_timestamp_micros($1)"),
    (
        "make_timestamp",
        6,
        "to_timestamp_micros(CAST(date_part('epoch', make_date($1, $2, $3)) + date_part('epoch', make_time($4, $5, CAST(floor($6) AS BIGINT))) AS BIGINT) * 1000000 + CAST(round(($6 - floor($6)) * 1000000) AS BIGINT))",
    ),
    ("max_by", 2, ARG_MAX),
    ("millennium", 1, MILLENNIUM),
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

/// Aggregate functions over the elements of a list: `list_median(l)` is `list_aggregate(l, 'median')`.
const LIST_AGGREGATES: &[&str] = &[
    "any_value",
    "approx_count_distinct",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "first",
    "last",
    "median",
    "min",
    "mode",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "var_pop",
    "var_samp",
];
const LIST: &str = "list_aggregate($1, $2)";

const CENTURY: &str = "CAST(ceil(date_part('year', $1) / 100.0) AS BIGINT)";
const DECADE: &str = "CAST(floor(date_part('year', $1) / 10.0) AS BIGINT)";
const MILLENNIUM: &str = "CAST(ceil(date_part('year', $1) / 1000.0) AS BIGINT)";

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

/// Functions of one argument that DataFusion has with more arguments only.
const SHORTENED: &[(&str, &str)] = &[("array_first", "$1[1]"), ("list_first", "$1[1]")];

/// Parts of times that DataFusion's `date_part` lacks.
const PARTS: &[(&str, &str)] = &[
    ("century", CENTURY),
    ("decade", DECADE),
    ("millennium", MILLENNIUM),
];

/// The function that creates a struct of named arguments.
const PACK: &str = "struct_pack";

/// Names of the function that joins strings; its separator is a comma if it has none.
const JOINING: [&str; 3] = ["group_concat", "listagg", "string_agg"];

/// The parsed expressions.
static EXPRESSIONS: LazyLock<HashMap<&str, Expr>> = LazyLock::new(|| {
    let rewritten = REWRITTEN.iter().map(|(_, _, text)| *text);
    let differences = DIFFERENCES.iter().map(|(_, text)| *text);
    rewritten
        .chain(differences)
        .chain(SHORTENED.iter().chain(PARTS).map(|(_, text)| *text))
        .chain([LIST])
        .chain(time_formats::EXPRESSIONS)
        .map(|text| (text, parsed(text)))
        .collect()
});

/// How a call is rewritten.
enum Rewriting {
    Renamed(&'static str),
    /// An expression, with these arguments instead of the call's.
    Expression(&'static Expr, Vec<Expr>),
}

/// Whether calls of this name are rewritten.
pub(super) fn is_known(name: &str) -> bool {
    JOINING.contains(&name)
        || name == PACK
        || SHORTENED.iter().any(|(known, _)| *known == name)
        || RENAMED.iter().any(|(known, _)| *known == name)
        || REWRITTEN.iter().any(|(known, _, _)| *known == name)
        || ["date_diff", "datediff"].contains(&name)
        || quantiles::NAMES.contains(&name)
        || list_aggregate(name).is_some()
        || json::is_known(name)
}

/// The rewriting of a call; `None` if the function is not one of these, or is one of the session's.
fn rewriting(call: &Function, state: &SessionState) -> Option<Rewriting> {
    let name = unquoted_name(call)?;
    if let Some(expression) = extended(call, &name) {
        return Some(expression);
    }
    if is_session_function(&name, state) {
        return None;
    }
    replaced(call, &name).or_else(|| {
        let (_, renamed) = RENAMED.iter().find(|(from, _)| *from == name)?;
        Some(Rewriting::Renamed(renamed))
    })
}

/// The aggregate function of `list_median` and the like.
fn list_aggregate(name: &str) -> Option<&str> {
    let function = name.strip_prefix("list_")?;
    LIST_AGGREGATES.contains(&function).then_some(function)
}

/// The expression instead of a call of one of DataFusion's functions with arguments that it does not support.
fn extended(call: &Function, name: &str) -> Option<Rewriting> {
    let arguments = plain_arguments(call)?;
    if let [value, format] = arguments.as_slice()
        && let Some((text, format)) = time_formats::of_patterns(name, format)
    {
        let arguments = vec![(*value).clone(), super::ast_parts::text(&format)];
        return Some(Rewriting::Expression(EXPRESSIONS.get(text)?, arguments));
    }
    let (text, argument) = match (name, arguments.as_slice()) {
        ("date_part" | "datepart", [Expr::Value(part), time]) => {
            let part = part.value.clone().into_string()?.to_ascii_lowercase();
            (PARTS.iter().find(|(known, _)| *known == part)?.1, *time)
        }
        (_, [argument]) => (SHORTENED.iter().find(|(known, _)| *known == name)?.1, *argument),
        _ => return None,
    };
    Some(Rewriting::Expression(
        EXPRESSIONS.get(text)?,
        vec![argument.clone()],
    ))
}

/// The value of `extract(century FROM t)` and others; `None` if the planner has the part.
pub(super) fn extracted(field: &DateTimeField, time: &Expr) -> Option<Expr> {
    let part = field.to_string().to_ascii_lowercase();
    let (_, text) = PARTS.iter().find(|(known, _)| *known == part)?;
    let mut expression = EXPRESSIONS.get(text)?.clone();
    insert(&mut expression, std::slice::from_ref(time));
    Some(Expr::Nested(Box::new(expression)))
}

/// Adds the separator to a call that joins strings without one.
fn add_separator(call: &mut Function) {
    let joins = unquoted_name(call).is_some_and(|name| JOINING.contains(&&*name));
    if let (true, FunctionArguments::List(list)) = (joins, &mut call.args)
        && list.args.len() == 1
    {
        let comma = super::ast_parts::text(",");
        list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(comma)));
    }
}

/// The expression instead of a call of the function with this name.
fn replaced(call: &Function, name: &str) -> Option<Rewriting> {
    let arguments = plain_arguments(call)?;
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
    if let [value, format] = arguments.as_slice()
        && let Some((text, format)) = time_formats::rewritten(name, format)
    {
        let arguments = vec![(*value).clone(), super::ast_parts::text(&format)];
        return Some(Rewriting::Expression(EXPRESSIONS.get(text)?, arguments));
    }
    if let (Some(function), [list]) = (list_aggregate(name), arguments.as_slice()) {
        let arguments = vec![(*list).clone(), super::ast_parts::text(function)];
        return Some(Rewriting::Expression(EXPRESSIONS.get(LIST)?, arguments));
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

/// `struct_pack(a := 1)` is `named_struct('a', 1)`.
fn pack(call: &mut Function) {
    let is_pack = unquoted_name(call).is_some_and(|name| name == PACK);
    let (true, FunctionArguments::List(list)) = (is_pack, &mut call.args) else {
        return;
    };
    let is_named = |argument: &FunctionArg| matches!(argument, FunctionArg::Named { .. });
    if !list.args.iter().all(is_named) {
        return;
    }
    let pairs = list.args.drain(..).flat_map(|argument| match argument {
        FunctionArg::Named { name, arg, .. } => {
            let name = FunctionArgExpr::Expr(super::ast_parts::text(&name.value));
            [name, arg].map(FunctionArg::Unnamed)
        }
        other => [other.clone(), other],
    });
    list.args = pairs.collect();
    call.name = ObjectName::from(vec![Ident::new("named_struct")]);
}

/// The expression of a call; `None` if it stays as it is.
pub(super) fn rewritten(call: &mut Function, state: &SessionState) -> Option<Expr> {
    add_separator(call);
    pack(call);
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

/// Adds an alias to each column of a SELECT that will be rewritten: the expression as the query spells it.
pub(super) fn name_columns(select: &mut Select, state: &SessionState) {
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expression) = item else {
            continue;
        };
        if column_lists::has_list(expression) {
            continue;
        }
        let found = visit_expressions(expression, |part| match part {
            Expr::Function(call) if unquoted_name(call).is_some_and(|name| name == PACK) => {
                ControlFlow::Break(())
            }
            Expr::Function(call) if rewriting(call, state).is_some() => ControlFlow::Break(()),
            Expr::Function(call) if quantiles::rewritten(call, state).is_some() => ControlFlow::Break(()),
            Expr::SimilarTo { .. } => ControlFlow::Break(()),
            Expr::Extract { field, expr, .. } if extracted(field, expr).is_some() => ControlFlow::Break(()),
            part if operators::is_rewritten(part) || json::is_rewritten(part) => ControlFlow::Break(()),
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
mod tests;
