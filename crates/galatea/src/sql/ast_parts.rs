//! Parts of statements that rewrites create, and visits of expressions.

use super::result;
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, ExprWithAlias, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, SelectItem, Statement, TableAlias,
    TableAliasColumnDef, Value, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use galatea_base::stack::for_levels;
use galatea_engine::syntax::visit_mut;
use std::collections::HashSet;
use std::convert::Infallible;
use std::mem;
use std::ops::ControlFlow;

/// Levels of stack for the visit of an expression; a visit of a deeper one continues on a new stack.
const SPARE: usize = 4;

/// The name in lower case, or as it is in quotes: equal names have equal keys.
pub(crate) fn key(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

/// Whether a session has a function of this name, of any kind.
pub(super) fn is_session_function(name: &str, state: &SessionState) -> bool {
    state.scalar_functions().contains_key(name)
        || state.aggregate_functions().contains_key(name)
        || state.window_functions().contains_key(name)
        || state.higher_order_function(name).is_ok()
}

/// A string literal.
pub(crate) fn text(value: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.to_owned()).into())
}

/// A call of a function with this name, in quotes.
pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    call_of(Ident::with_quote('"', name), arguments)
}

/// A call of a function.
pub(super) fn call_of(name: Ident, arguments: Vec<Expr>) -> Expr {
    let arguments = arguments
        .into_iter()
        .map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)));
    Expr::Function(Function {
        name: ObjectName::from(vec![name]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// The lower-case name of a call that is not quoted and has no schema.
pub(super) fn unquoted_name(call: &Function) -> Option<String> {
    let [part] = call.name.0.as_slice() else {
        return None;
    };
    let part = part.as_ident()?;
    part.quote_style
        .is_none()
        .then(|| part.value.to_ascii_lowercase())
}

/// The arguments of a call, if they are expressions without names and clauses.
pub(super) fn plain_arguments(call: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    let plain = list.clauses.is_empty() && list.duplicate_treatment.is_none();
    let plain = plain && call.within_group.is_empty() && call.null_treatment.is_none();
    plain.then(|| list.args.iter().map(argument_expression).collect())?
}

fn argument_expression(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => Some(expression),
        _ => None,
    }
}

/// The expression of an item of a SELECT list; `None` for wildcards.
pub(super) fn item_expression(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// An expression, with NULL in its place.
pub(super) fn taken(expression: &mut Expr) -> Expr {
    mem::replace(expression, Expr::Value(Value::Null.into()))
}

/// Names an unnamed column of a SELECT list by [`spelled`]. Returns the name; `None` for other items.
pub(super) fn name_as_spelled(item: &mut SelectItem) -> Option<Ident> {
    let SelectItem::UnnamedExpr(expr) = item else {
        return None;
    };
    let alias = Ident::with_quote('"', spelled(expr));
    let expr = taken(expr);
    *item = SelectItem::ExprWithAlias {
        expr,
        alias: alias.clone(),
    };
    Some(alias)
}

/// An expression as the query spells it, without parentheses around it, and with names in lower case unless
/// they are in quotes.
pub(super) fn spelled(expression: &Expr) -> String {
    let mut copy = without_parentheses(expression).clone();
    let ControlFlow::Continue(()) = visit_mut(&mut copy, &mut LowerCase);
    copy.to_string()
}

/// An expression without the parentheses around it.
pub(super) fn without_parentheses(expression: &Expr) -> &Expr {
    match expression {
        Expr::Nested(inner) => without_parentheses(inner),
        expression => expression,
    }
}

/// The call, if an expression is a call of the function of this name.
pub(super) fn called<'e>(expression: &'e Expr, name: &str) -> Option<&'e Function> {
    let Expr::Function(function) = expression else {
        return None;
    };
    match function.name.0.as_slice() {
        [part] if key(part.as_ident()?) == name => Some(function),
        _ => None,
    }
}

/// Writes the names of columns and functions in lower case unless they are in quotes.
struct LowerCase;

impl VisitorMut for LowerCase {
    type Break = Infallible;

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<Infallible> {
        let lower = |name: &mut Ident| name.value = key(name);
        match expression {
            Expr::Identifier(name) => lower(name),
            Expr::CompoundIdentifier(names) => names.iter_mut().for_each(lower),
            Expr::Function(function) => {
                let parts = function.name.0.iter_mut();
                parts
                    .filter_map(|part| match part {
                        ObjectNamePart::Identifier(name) => Some(name),
                        ObjectNamePart::Function(_) => None,
                    })
                    .for_each(lower);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The number of a column that an expression in GROUP BY or ORDER BY is, from 1 on.
pub(super) fn position(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse().ok().filter(|number| *number > 0),
            _ => None,
        },
        _ => None,
    }
}

pub(super) fn named(expr: Expr, alias: Option<Ident>) -> ExprWithAlias {
    ExprWithAlias { expr, alias }
}

/// An alias of a table and its columns.
pub(super) fn alias(name: &str, columns: &[&str]) -> TableAlias {
    TableAlias {
        explicit: true,
        name: Ident::with_quote('"', name),
        columns: columns
            .iter()
            .map(|column| TableAliasColumnDef::from_name(*column))
            .collect(),
        at: None,
    }
}

/// Both conditions.
pub(super) fn and(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(left))),
        op: BinaryOperator::And,
        right: Box::new(Expr::Nested(Box::new(right))),
    }
}

/// The query of this string, which a rewrite completes.
pub(super) fn parsed_query(text: &str) -> Query {
    let parser = Parser::new(&GenericDialect {}).try_with_sql(text);
    let statement = parser.and_then(|mut parser| parser.parse_statement());
    match statement {
        Ok(Statement::Query(query)) => *query,
        _ => panic!("not a query: {text}"),
    }
}

/// The columns of a table that none of the expressions names.
pub(super) fn other_columns<'e>(schema: &DFSchema, used: impl Iterator<Item = &'e Expr>) -> Vec<Expr> {
    let mut names = HashSet::new();
    for expression in used {
        let mut copy = expression.clone();
        // The closure returns no error.
        let _ = each_part(&mut copy, |part| {
            match part {
                Expr::Identifier(name) => _ = names.insert(key(name)),
                Expr::CompoundIdentifier(parts) => names.extend(parts.last().map(key)),
                _ => {}
            }
            ControlFlow::Continue(())
        });
    }
    let others = schema.iter().filter(|(_, field)| !names.contains(field.name()));
    others.map(|(table, field)| column(table, field.name())).collect()
}

/// A column of a table.
pub(super) fn column(table: Option<&datafusion::common::TableReference>, name: &str) -> Expr {
    let quoted = |part: &str| Ident::with_quote('"', part);
    let Some(table) = table else {
        return Expr::Identifier(quoted(name));
    };
    let mut parts = Vec::new();
    parts.extend(table.catalog().map(quoted));
    parts.extend(table.schema().map(quoted));
    parts.push(quoted(table.table()));
    parts.push(quoted(name));
    Expr::CompoundIdentifier(parts)
}

/// Calls a function for each part of an expression outside of its queries and lambdas.
struct Parts<'f> {
    depth: usize,
    each: &'f mut dyn FnMut(&mut Expr) -> ControlFlow<DataFusionError>,
}

impl VisitorMut for Parts<'_> {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<DataFusionError> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<DataFusionError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<DataFusionError> {
        self.depth += usize::from(matches!(expression, Expr::Lambda(_)));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<DataFusionError> {
        if matches!(expression, Expr::Lambda(_)) {
            self.depth -= 1;
            return ControlFlow::Continue(());
        }
        match self.depth {
            0 => (self.each)(expression),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Calls `each` for the parts of an expression outside of its queries and lambdas, from the inside out.
pub(super) fn each_part(
    expression: &mut Expr,
    mut each: impl FnMut(&mut Expr) -> ControlFlow<DataFusionError>,
) -> Result<()> {
    let mut parts = Parts {
        depth: 0,
        each: &mut each,
    };
    for_levels(SPARE, || result(visit_mut(expression, &mut parts)))
}
