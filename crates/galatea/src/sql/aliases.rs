//! Names that a SELECT list gives, used in WHERE and by later expressions of the list.
//!
//! `SELECT price * 2 AS double, double + 1 FROM t WHERE double > 7`. The name is replaced by its expression.
//! A column of the tables wins over the name, and the name wins over a column of an enclosing query.

use super::SqlError;
use super::ast_parts::{each_part, key};
use super::question::{Answer, Question, query_of, select_of};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::Volatility;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, Ident, Select, SelectItem, SetExpr, Value, WildcardAdditionalOptions,
};
use std::collections::{HashMap, HashSet};
use std::mem;
use std::ops::ControlFlow;

/// Whether an expression contains one of the names outside of its queries.
fn uses(expression: &Expr, names: &HashSet<String>) -> bool {
    let mut found = false;
    let mut copy = expression.clone();
    // The closure returns no error.
    let _ = each_part(&mut copy, |part| {
        found |= matches!(part, Expr::Identifier(name) if names.contains(&key(name)));
        ControlFlow::Continue(())
    });
    found
}

fn expression(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. } => {
            Some(expression)
        }
        _ => None,
    }
}

/// The query of a SELECT's tables, if a clause may use a name of its list.
pub(super) fn question(select: &Select) -> Option<Question> {
    let mut names = HashSet::new();
    let mut is_used = false;
    for item in &select.projection {
        is_used |= !names.is_empty() && expression(item).is_some_and(|item| uses(item, &names));
        if let SelectItem::ExprWithAlias { expr, alias } = item {
            // The name of a column renames nothing.
            let is_same = matches!(expr, Expr::Identifier(name) if key(name) == key(alias));
            if !is_same {
                names.insert(key(alias));
            }
        }
    }
    is_used |= select
        .selection
        .as_ref()
        .is_some_and(|selection| !names.is_empty() && uses(selection, &names));
    let wildcard = || vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
    is_used.then(|| {
        let tables = match select.from.is_empty() {
            // No columns.
            true => select_of(
                vec![SelectItem::ExprWithAlias {
                    expr: Expr::value(Value::Null),
                    alias: Ident::with_quote('"', ""),
                }],
                Vec::new(),
            ),
            false => select_of(wildcard(), select.from.clone()),
        };
        Question::Columns(query_of(SetExpr::Select(Box::new(tables))))
    })
}

/// Replaces the names.
pub(super) fn rewrite(select: &mut Select, answer: Answer, state: &SessionState) -> Result<()> {
    let Answer::Columns(Some(columns)) = answer else {
        return Ok(());
    };
    let mut names = Names {
        columns: columns.into_iter().collect(),
        expressions: HashMap::new(),
        state,
    };
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expression) => {
                let spelled = expression.to_string();
                if names.replace(expression, Place::List)? {
                    let expr = mem::replace(expression, Expr::Identifier(Ident::new("")));
                    let alias = Ident::with_quote('"', spelled);
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                names.replace(expr, Place::List)?;
                names.expressions.insert(key(alias), expr.clone());
            }
            _ => {}
        }
    }
    match &mut select.selection {
        Some(selection) => names.replace(selection, Place::Where).map(|_| ()),
        None => Ok(()),
    }
}

/// The clause that uses a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    List,
    Where,
}

struct Names<'s> {
    /// The columns of the tables.
    columns: HashSet<String>,
    expressions: HashMap<String, Expr>,
    state: &'s SessionState,
}

impl Names<'_> {
    /// Replaces the names in an expression. Returns whether it had any.
    fn replace(&self, expression: &mut Expr, place: Place) -> Result<bool> {
        let mut replaced = false;
        each_part(expression, |part| {
            let Expr::Identifier(name) = part else {
                return ControlFlow::Continue(());
            };
            let known = self.expressions.get(&key(name));
            let Some(known) = known.filter(|_| !self.columns.contains(&key(name))) else {
                return ControlFlow::Continue(());
            };
            if let Some(error) = self.refusal(name, known, place) {
                return ControlFlow::Break(error.into());
            }
            *part = match known {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) | Expr::Nested(_) => {
                    known.clone()
                }
                other => Expr::Nested(Box::new(other.clone())),
            };
            replaced = true;
            ControlFlow::Continue(())
        })?;
        Ok(replaced)
    }

    /// The reason that a name cannot be replaced by its expression.
    fn refusal(&self, name: &Ident, expression: &Expr, place: Place) -> Option<SqlError> {
        let mut kinds = Vec::new();
        let mut copy = expression.clone();
        // The closure returns no error.
        let _ = each_part(&mut copy, |part| {
            if let Expr::Function(function) = part {
                kinds.extend(self.kind(function));
            }
            ControlFlow::Continue(())
        });
        let refused = |problem, hint| {
            let name = name.value.clone();
            Some(SqlError::Alias { name, problem, hint })
        };
        if kinds.contains(&Kind::Volatile) {
            return refused(
                "its expression returns another value at each evaluation",
                "compute it in a subquery: SELECT ... FROM (SELECT random() AS r, ...)",
            );
        }
        match place {
            Place::Where if kinds.contains(&Kind::Window) => refused(
                "it is a window function, and WHERE is evaluated before them",
                "use QUALIFY in place of WHERE",
            ),
            Place::Where if kinds.contains(&Kind::Aggregate) => refused(
                "it is an aggregate, and WHERE is evaluated before them",
                "use HAVING in place of WHERE",
            ),
            _ => None,
        }
    }

    fn kind(&self, function: &Function) -> Option<Kind> {
        if function.over.is_some() {
            return Some(Kind::Window);
        }
        let name = function.name.to_string().to_lowercase();
        if self.state.aggregate_functions().contains_key(&name) {
            return Some(Kind::Aggregate);
        }
        let scalar = self.state.udf(&name).ok()?;
        (scalar.signature().volatility == Volatility::Volatile).then_some(Kind::Volatile)
    }
}

/// Functions that depend on more than the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Aggregate,
    Window,
    Volatile,
}
