//! Operators and functions of JSON text, as calls of functions that take the steps of a path one by one.
//!
//! | SQL | call |
//! | --- | --- |
//! | `j -> 'a'`, `json_extract(j, '$.a[0]')` | `json_get_json(j, 'a')`, `json_get_json(j, 'a', 0)` |
//! | `j ->> '/a/0'`, `json_extract_string(j, 'a')` | `json_as_text(j, 'a', 0)`, `json_as_text(j, 'a')` |
//! | `json_array_length(j, '$.a')` | an expression of `json_get_json(j, 'a')` |
//!
//! A value in an argument of `json_object` and the like that is JSON by its function or type is the only
//! field of a struct, [`JSON_FIELD`].
//!
//! A constant path begins with `$` or `/`; any other string is a key, and an integer is a place in an array.
//! The parser reads `j -> 'a' = 1` as `j -> ('a' = 1)`, and `1 = j -> 'a'` as `(1 = j) -> 'a'`; [`operation`]
//! gives the operators of JSON their operands.

use super::SqlError;
use super::ast_parts::{call, plain_arguments, taken, text, unquoted_name};
use super::templates;
use crate::functions::JSON_FIELD;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator,
    Value,
};
use std::sync::LazyLock;

const JSON: &str = "json_get_json";
const TEXT: &str = "json_as_text";
const KEYS: &str = "json_object_keys";
const PATH_FORM: &str = "'$.key', '$.key[0]', '/key/0', 'key' or 0";

/// Names of functions with a path that are calls of another function.
const RENAMED: [(&str, &str); 5] = [
    ("json_extract", JSON),
    ("json_extract_path", JSON),
    ("json_extract_string", TEXT),
    ("json_extract_path_text", TEXT),
    ("json_keys", KEYS),
];

/// The functions that write JSON.
const WRITERS: [&str; 10] = [
    "to_json",
    "row_to_json",
    "array_to_json",
    "json_quote",
    "json_array",
    "json_build_array",
    "json_object",
    "json_build_object",
    "json_group_array",
    "json_group_object",
];

/// Functions whose results hold their arguments.
const HOLDERS: [&str; 7] = [
    "named_struct",
    "struct_pack",
    "row",
    "make_array",
    "list_value",
    "array_agg",
    "list",
];

/// Functions of a value of JSON `$1`, which is the first argument, or its part at a path.
static EXPRESSIONS: LazyLock<[(&str, Expr); 3]> = LazyLock::new(|| {
    [
        ("json_exists", "$1 IS NOT NULL"),
        (
            "json_array_length",
            "CASE WHEN $1 LIKE '[%' THEN json_length($1) WHEN $1 IS NOT NULL THEN 0 END",
        ),
        (
            "json_type",
            "CASE left($1, 1) WHEN '{' THEN 'OBJECT' WHEN '[' THEN 'ARRAY' WHEN '\"' THEN 'VARCHAR' \
             WHEN 't' THEN 'BOOLEAN' WHEN 'f' THEN 'BOOLEAN' WHEN 'n' THEN 'NULL' ELSE CASE \
             WHEN regexp_like($1, '[.eE]') THEN 'DOUBLE' WHEN $1 LIKE '-%' THEN 'BIGINT' \
             WHEN $1 IS NOT NULL THEN 'UBIGINT' END END",
        ),
    ]
    .map(|(name, text)| (name, templates::parsed(text)))
});

/// The function of an operator of JSON.
fn function(op: &BinaryOperator) -> Option<&'static str> {
    match op {
        BinaryOperator::Arrow => Some(JSON),
        BinaryOperator::LongArrow => Some(TEXT),
        _ => None,
    }
}

/// Whether [`rewritten`] changes an expression, so that the planner's name of it differs.
pub(super) fn is_rewritten(expression: &Expr) -> bool {
    match expression {
        Expr::BinaryOp { op, .. } => function(op).is_some(),
        Expr::Function(call) => unquoted_name(call).is_some_and(|name| is_known(&name)),
        _ => false,
    }
}

/// The names of calls that are rewritten.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let renamed = RENAMED.iter().map(|(name, _)| *name);
    renamed.chain(EXPRESSIONS.iter().map(|(name, _)| *name))
}

/// Whether calls of this name are rewritten.
pub(super) fn is_known(name: &str) -> bool {
    names().any(|known| known == name)
}

/// The calls instead of an operator or a function of JSON; `None` for other expressions.
pub(super) fn rewritten(expression: &mut Expr) -> Option<Result<Expr, SqlError>> {
    match expression {
        Expr::BinaryOp { left, op, right } => {
            let name = function(op)?;
            Some(operation(name, taken(left), taken(right)))
        }
        Expr::Function(function) => {
            let name = unquoted_name(function)?;
            if WRITERS.contains(&name.as_str()) {
                mark_parts(function);
                return None;
            }
            if !is_known(&name) || function.filter.is_some() || function.over.is_some() {
                return None;
            }
            let mut arguments = plain_arguments(function)?.into_iter();
            let json = arguments.next()?.clone();
            let renamed = RENAMED.iter().find(|(known, _)| *known == name);
            // Only `json_extract_path` has several keys.
            let path: Vec<&Expr> = arguments.collect();
            if path.len() > 1 && !name.starts_with("json_extract_path") {
                return None;
            }
            let path = match path.into_iter().map(steps).collect::<Result<Vec<_>, _>>() {
                Ok(path) => path.concat(),
                Err(error) => return Some(Err(error)),
            };
            if let Some((_, renamed)) = renamed {
                return Some(Ok(at_path(renamed, json, path)));
            }
            let (_, template) = EXPRESSIONS.iter().find(|(known, _)| *known == name)?;
            let mut expression = template.clone();
            templates::insert(&mut expression, &[at_path(JSON, json, path)]);
            Some(Ok(Expr::Nested(Box::new(expression))))
        }
        _ => None,
    }
}

/// Marks values in the arguments of a function that are JSON already: functions that write JSON write them as
/// they are.
fn mark_parts(function: &mut Function) {
    let FunctionArguments::List(list) = &mut function.args else {
        return;
    };
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value))
        | FunctionArg::Named {
            arg: FunctionArgExpr::Expr(value),
            ..
        } = argument
        {
            mark(value);
        }
    }
}

/// Marks an expression that is JSON, and elements and fields of it that are.
fn mark(expression: &mut Expr) {
    if is_json(expression) {
        *expression = call("named_struct", vec![text(JSON_FIELD), taken(expression)]);
        return;
    }
    match expression {
        Expr::Nested(inner) => mark(inner),
        Expr::Array(array) => array.elem.iter_mut().for_each(mark),
        Expr::Dictionary(fields) => fields.iter_mut().for_each(|field| mark(&mut field.value)),
        Expr::Struct { values, .. } | Expr::Tuple(values) => values.iter_mut().for_each(mark),
        Expr::Named { expr, .. } => mark(expr),
        Expr::Function(holder) => {
            let holds = unquoted_name(holder).is_some_and(|name| HOLDERS.contains(&name.as_str()));
            if holds && !is_marked(holder) {
                mark_parts(holder);
            }
        }
        _ => {}
    }
}

/// Whether a call is the struct that marks JSON.
fn is_marked(holder: &Function) -> bool {
    let arguments = plain_arguments(holder).unwrap_or_default();
    arguments.first().is_some_and(|first| **first == text(JSON_FIELD))
}

/// Whether an expression is JSON by its function or type. Every result of a CASE is.
fn is_json(expression: &Expr) -> bool {
    let is_null = |expression: &Expr| matches!(expression, Expr::Value(value) if value.value == Value::Null);
    match expression {
        Expr::Nested(inner) => is_json(inner),
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::JSON),
        Expr::Case {
            conditions,
            else_result,
            ..
        } => {
            let results = conditions.iter().map(|when| &when.result);
            let mut results = results.chain(else_result.as_deref());
            let has_json = results.clone().any(is_json);
            has_json && results.all(|result| is_json(result) || is_null(result))
        }
        Expr::Function(call) => match call.name.0.as_slice() {
            // The calls of rewritten operators have names in quotes.
            [name] => name.as_ident().is_some_and(|name| {
                let name = name.value.to_ascii_lowercase();
                name == JSON || WRITERS.contains(&name.as_str())
            }),
            _ => false,
        },
        _ => false,
    }
}

/// A call with the steps of a path.
fn at_path(function: &str, json: Expr, path: Vec<Expr>) -> Expr {
    call(function, std::iter::once(json).chain(path).collect())
}

/// The steps of a path.
fn steps(path: &Expr) -> Result<Vec<Expr>, SqlError> {
    let constant = match path {
        Expr::Value(value) => value.value.clone().into_string(),
        Expr::Array(_) => {
            return Err(SqlError::clause(
                "a list of JSON paths",
                "is not supported",
                PATH_FORM,
            ));
        }
        _ => None,
    };
    let Some(constant) = constant else {
        return Ok(vec![path.clone()]);
    };
    match constant.as_bytes().first() {
        Some(b'$') => path_steps(&constant),
        Some(b'/') => Ok(constant[1..].split('/').map(pointer_step).collect()),
        _ => Ok(vec![text(&constant)]),
    }
}

/// A step of a JSON pointer (RFC 6901).
fn pointer_step(step: &str) -> Expr {
    match step.parse::<u32>() {
        Ok(place) => number(i64::from(place)),
        Err(_) => text(&step.replace("~1", "/").replace("~0", "~")),
    }
}

fn number(place: i64) -> Expr {
    let value = Expr::Value(Value::Number(place.unsigned_abs().to_string(), false).into());
    match place < 0 {
        true => Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(value),
        },
        false => value,
    }
}

/// The steps of `$.key."a key"[0][#-1]`.
fn path_steps(path: &str) -> Result<Vec<Expr>, SqlError> {
    let problem = |problem: &str| SqlError::clause("the JSON path", format!("{path} {problem}"), PATH_FORM);
    let quoted = |rest: &str| {
        let key = rest.strip_prefix('"')?;
        let end = key.find('"')?;
        Some((key[..end].to_owned(), key[end + 1..].to_owned()))
    };
    let mut steps = Vec::new();
    let mut rest = path[1..].to_owned();
    while !rest.is_empty() {
        let (step, after) = if let Some(key) = rest.strip_prefix('.') {
            let (key, after) = quoted(key).unwrap_or_else(|| {
                let end = key.find(['.', '[']).unwrap_or(key.len());
                (key[..end].to_owned(), key[end..].to_owned())
            });
            if key.is_empty() {
                return Err(problem("has an empty key"));
            }
            if key == "*" {
                return Err(problem("has a wildcard, which is not supported"));
            }
            (text(&key), after)
        } else if let Some((place, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            if place == "*" {
                return Err(problem("has a wildcard, which is not supported"));
            }
            let step = match quoted(place) {
                Some((key, end)) if end.is_empty() => text(&key),
                _ => {
                    let place = place.strip_prefix('#').unwrap_or(place);
                    let place = place
                        .parse()
                        .map_err(|_| problem("has a place that is no integer"))?;
                    number(place)
                }
            };
            (step, after.to_owned())
        } else {
            return Err(problem("is no JSON path"));
        };
        steps.push(step);
        rest = after;
    }
    Ok(steps)
}

/// The call instead of an operator of JSON, with its own operands: `(1 = j) -> 'a'` is `1 = (j -> 'a')`. It
/// takes the last operand on its left, and the first one on its right.
fn operation(name: &'static str, mut left: Expr, mut right: Expr) -> Result<Expr, SqlError> {
    let json = last_operand(&mut left).map(taken);
    let path = first_operand(&mut right).map(taken);
    let (left, json) = match json {
        Some(json) => (Some(left), json),
        None => (None, left),
    };
    let (right, path) = match path {
        Some(path) => (Some(right), path),
        None => (None, right),
    };
    let mut built = at_path(name, json, steps(&path)?);
    if let Some(mut left) = left
        && let Some(place) = last_operand(&mut left)
    {
        *place = built;
        built = left;
    }
    if let Some(mut right) = right
        && let Some(place) = first_operand(&mut right)
    {
        *place = built;
        built = right;
    }
    Ok(built)
}

fn is_comparison(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}

/// The last operand of a comparison outside of parentheses.
fn last_operand(expression: &mut Expr) -> Option<&mut Expr> {
    match expression {
        Expr::BinaryOp { op, right, .. } if is_comparison(op) => Some(right),
        _ => None,
    }
}

/// The first operand of the first comparison or concatenation outside of parentheses.
fn first_operand(expression: &mut Expr) -> Option<&mut Expr> {
    let first = match expression {
        Expr::BinaryOp { left, op, .. } if is_comparison(op) || *op == BinaryOperator::StringConcat => left,
        Expr::IsNull(first)
        | Expr::IsNotNull(first)
        | Expr::IsTrue(first)
        | Expr::IsNotTrue(first)
        | Expr::IsFalse(first)
        | Expr::IsNotFalse(first)
        | Expr::IsDistinctFrom(first, _)
        | Expr::IsNotDistinctFrom(first, _) => first,
        Expr::InList { expr, .. }
        | Expr::InSubquery { expr, .. }
        | Expr::Between { expr, .. }
        | Expr::Like { expr, .. }
        | Expr::ILike { expr, .. }
        | Expr::SimilarTo { expr, .. } => expr,
        _ => return None,
    };
    match first_operand(first).is_some() {
        true => first_operand(first),
        false => Some(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use galatea_engine::syntax::visit_expressions_mut;
    use std::ops::ControlFlow;

    fn calls(sql: &str) -> String {
        let dialect = datafusion::sql::sqlparser::dialect::GenericDialect;
        let parser = datafusion::sql::sqlparser::parser::Parser::new(&dialect).try_with_sql(sql);
        let mut expression = parser.and_then(|mut parser| parser.parse_expr()).unwrap();
        let _ = visit_expressions_mut(&mut expression, |part| {
            if let Some(call) = rewritten(part) {
                *part = call.unwrap();
            }
            ControlFlow::<()>::Continue(())
        });
        expression.to_string().replace('"', "")
    }

    #[test]
    fn operators_have_their_operands() {
        for (sql, expected) in [
            ("j -> 'a'", "json_get_json(j, 'a')"),
            ("j -> 'a' ->> 0", "json_as_text(json_get_json(j, 'a'), 0)"),
            ("j ->> 'a' = 'x'", "json_as_text(j, 'a') = 'x'"),
            ("'x' = j ->> 'a'", "'x' = json_as_text(j, 'a')"),
            (
                "1 < j -> 'a' -> 'b' AND c",
                "1 < json_get_json(json_get_json(j, 'a'), 'b') AND c",
            ),
            ("j ->> 'a' IS NULL", "json_as_text(j, 'a') IS NULL"),
            (
                "j ->> 'a' IN ('x', 'y') OR c",
                "json_as_text(j, 'a') IN ('x', 'y') OR c",
            ),
            ("j ->> 'a' || 'x' = 'y'", "json_as_text(j, 'a') || 'x' = 'y'"),
            (
                "json_array(j -> 'a', k, to_json(l))",
                "json_array(named_struct('galatea json', json_get_json(j, 'a')), k, named_struct('galatea json', to_json(l)))",
            ),
            ("j ->> 'a' LIKE 'x%'", "json_as_text(j, 'a') LIKE 'x%'"),
            ("NOT j ->> 'a' = 'x'", "NOT json_as_text(j, 'a') = 'x'"),
            (
                "(j -> 'a') = (k -> 'b')",
                "(json_get_json(j, 'a')) = (json_get_json(k, 'b'))",
            ),
            (
                "j -> 'a' = k -> 'b'",
                "json_get_json(j, 'a') = json_get_json(k, 'b')",
            ),
        ] {
            assert_eq!(calls(sql), expected, "{sql}");
        }
    }

    #[test]
    fn paths_have_steps() {
        for (path, expected) in [
            ("$", "json_get_json(j)"),
            ("$.a.b[0]", "json_get_json(j, 'a', 'b', 0)"),
            ("$.\"a.b\"[#-1]", "json_get_json(j, 'a.b', -1)"),
            ("$[\"a\"][-2]", "json_get_json(j, 'a', -2)"),
            ("/a~1b/0", "json_get_json(j, 'a/b', 0)"),
            ("a.b", "json_get_json(j, 'a.b')"),
        ] {
            assert_eq!(calls(&format!("j -> '{path}'")), expected, "{path}");
        }
        for path in ["$.*", "$[*].a", "$..a", "$[x]", "$a"] {
            assert!(steps(&text(path)).is_err(), "{path}");
        }
    }
}
