//! Clauses of function calls, and expressions, that are parsed but not planned.
//!
//! The kind of a function determines the clauses that it supports. For example, the planner would compute a
//! scalar function with OVER without the window.

use super::{SqlError, time_formats};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::AggregateUDF;
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArgumentClause, FunctionArgumentList, FunctionArguments,
    Value, WindowType,
};
use std::sync::Arc;

/// Window functions that support IGNORE NULLS.
const OVER_NULLS: [&str; 5] = ["lag", "lead", "first_value", "last_value", "nth_value"];

/// The functions of a session.
#[derive(Debug)]
pub(super) struct Functions<'a>(&'a SessionState);

impl<'a> Functions<'a> {
    pub(super) fn of(state: &'a SessionState) -> Self {
        Self(state)
    }

    /// The reason for refusing a call; `None` if the planner reads all of it.
    pub(super) fn check(&self, call: &Function) -> Option<SqlError> {
        let name = name(call)?;
        if let Some(WindowType::NamedWindow(window)) = &call.over {
            return Some(SqlError::Window {
                name: window.value.clone(),
            });
        }
        if let Some(WindowType::WindowSpec(spec)) = &call.over
            && let Some(window) = &spec.window_name
        {
            return Some(SqlError::Window {
                name: window.value.clone(),
            });
        }
        if let Some(pattern) = time_formats::unsupported(&name, call) {
            return Some(SqlError::unsupported(format!("the pattern {pattern} of {name}")));
        }
        let clause = self.clause(call, &name)?;
        Some(SqlError::unsupported(clause))
    }

    /// The clause of a call that the planner would ignore.
    fn clause(&self, call: &Function, name: &str) -> Option<String> {
        if call.parameters != FunctionArguments::None {
            return Some(format!("a second list of arguments of {name}"));
        }
        if matches!(call.args, FunctionArguments::Subquery(_)) {
            return Some(format!(
                "a query without parentheses of its own as the argument of {name}"
            ));
        }
        let is_scalar = self.0.scalar_functions().contains_key(name)
            || self.0.higher_order_function(name).is_ok()
            || ["unnest", "unnest_outer"].contains(&name);
        let clause = if is_scalar {
            of_scalar(call)?
        } else if call.over.is_some() {
            let aggregate = self.0.aggregate_functions().get(name);
            let aggregate = aggregate.filter(|_| !OVER_NULLS.contains(&name));
            of_window_function(call, name, aggregate)?
        } else {
            return None;
        };
        let kind = match is_scalar {
            true => "the scalar function ",
            false => "",
        };
        Some(format!("{clause} with {kind}{name}"))
    }
}

/// The name of a function, as the planner looks it up.
fn name(call: &Function) -> Option<String> {
    let [part] = call.name.0.as_slice() else {
        return Some(call.name.to_string());
    };
    let part = part.as_ident()?;
    Some(match part.quote_style {
        Some(_) => part.value.clone(),
        None => part.value.to_lowercase(),
    })
}

fn arguments(call: &Function) -> Option<&FunctionArgumentList> {
    match &call.args {
        FunctionArguments::List(list) => Some(list),
        _ => None,
    }
}

fn is_distinct(call: &Function) -> bool {
    let treatment = arguments(call).and_then(|list| list.duplicate_treatment);
    treatment == Some(DuplicateTreatment::Distinct)
}

fn treats_nulls(call: &Function) -> bool {
    let is_nulls =
        |clause: &FunctionArgumentClause| matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(_));
    call.null_treatment.is_some() || arguments(call).is_some_and(|list| list.clauses.iter().any(is_nulls))
}

/// The unsupported clause of a scalar function, which supports none.
fn of_scalar(call: &Function) -> Option<&'static str> {
    let clauses = [
        ("OVER", call.over.is_some()),
        ("FILTER", call.filter.is_some()),
        ("WITHIN GROUP", !call.within_group.is_empty()),
        ("IGNORE NULLS or RESPECT NULLS", treats_nulls(call)),
        ("DISTINCT", is_distinct(call)),
        (
            "ORDER BY in the arguments",
            arguments(call).is_some_and(|list| !list.clauses.is_empty()),
        ),
    ];
    let clause = clauses.into_iter().find(|(_, has)| *has)?;
    Some(clause.0)
}

/// The unsupported clause of a window function, or of `aggregate` over a window.
fn of_window_function(
    call: &Function,
    name: &str,
    aggregate: Option<&Arc<AggregateUDF>>,
) -> Option<&'static str> {
    let takes_nulls = match aggregate {
        Some(aggregate) => aggregate.supports_null_handling_clause(),
        None => OVER_NULLS.contains(&name),
    };
    let clauses = [
        ("FILTER", call.filter.is_some() && aggregate.is_none()),
        ("DISTINCT", is_distinct(call) && aggregate.is_none()),
        (
            "IGNORE NULLS or RESPECT NULLS",
            treats_nulls(call) && !takes_nulls,
        ),
    ];
    let clause = clauses.into_iter().find(|(_, has)| *has)?;
    Some(clause.0)
}

/// The name of an expression that is not planned; `None` if it is.
pub(super) fn of_expression(expression: &Expr) -> Option<String> {
    let name = match expression {
        Expr::IsNormalized { .. } => "IS NORMALIZED",
        Expr::InUnnest { .. } => "IN UNNEST",
        Expr::Convert { .. } => "CONVERT",
        Expr::Collate { .. } => "COLLATE",
        Expr::RLike { .. } => "RLIKE, REGEXP",
        Expr::MatchAgainst { .. } => "MATCH ... AGAINST",
        Expr::OuterJoin(_) => "(+) of an outer join",
        Expr::Prior(_) => "PRIOR",
        Expr::MemberOf(_) => "MEMBER OF",
        Expr::Prefixed { prefix, .. } => return Some(format!("the prefix {prefix} of a literal")),
        Expr::AtTimeZone { time_zone, .. } => match time_zone.as_ref() {
            Expr::Value(zone) if matches!(zone.value, Value::SingleQuotedString(_)) => return None,
            _ => "AT TIME ZONE of anything but a string literal",
        },
        _ => return None,
    };
    Some(name.to_string())
}
