//! Rewrites SQL that DataFusion's planner does not support into SQL that it supports.

use super::{asof, read_functions, values};
use super::{
    change_clauses, distinct_from, duckdb, json, literals, merged_columns, operators, pivot, power,
    quantiles, row_comparisons, similar_to, unnamed_tables, using_sample, windows,
};
use crate::database::Database;
use datafusion::config::Dialect;
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Fetch, FunctionArg, FunctionArgExpr,
    GroupByExpr, GroupByWithModifier, JoinOperator, LimitClause, Query, Select, SelectFlavor, SelectItem,
    Statement, TableFactor, TableWithJoins, Value, VisitorMut, WildcardAdditionalOptions,
};
use galatea_base::stack::for_levels;
use std::mem;
use std::ops::ControlFlow;

/// Levels of stack for a rewrite of a SELECT beside the visit of the statement.
const SPARE: usize = 4;

/// Maximum number of digits of a decimal.
const DECIMAL_DIGITS: usize = 38;

/// Rewrites a statement in place.
#[derive(Debug)]
pub(super) struct Rewrite<'s> {
    state: &'s SessionState,
    /// Whether `^` is the power.
    power: bool,
    /// Whether `xor(a, b)` is the operator, because no function of the session has the name.
    exclusive_or: bool,
}

impl<'s> Rewrite<'s> {
    pub(super) fn new(dialect: Dialect, state: &'s SessionState) -> Self {
        Self {
            state,
            power: matches!(dialect, Dialect::Generic | Dialect::DuckDB | Dialect::Redshift),
            exclusive_or: !state.scalar_functions().contains_key("xor"),
        }
    }
}

impl VisitorMut for Rewrite<'_> {
    type Break = DataFusionError;

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<DataFusionError> {
        if self.state.config_options().sql_parser.enable_ident_normalization {
            change_clauses::normalize(statement);
        }
        // Without a database, all tables end with the session.
        if self.state.config().get_extension::<Database>().is_none() {
            match statement {
                Statement::CreateTable(table) => table.temporary = false,
                Statement::CreateView(view) => view.temporary = false,
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<DataFusionError> {
        fetch_as_limit(query);
        values::as_selects(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<DataFusionError> {
        windows::write_out(query)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<DataFusionError> {
        unnamed_tables::name(select);
        let lifted = for_levels(SPARE, || {
            pivot::from_select(select)?;
            using_sample::lift(select)
        });
        if let Err(error) = lifted {
            return ControlFlow::Break(error);
        }
        if select.flavor == SelectFlavor::FromFirstNoSelect {
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
            select.flavor = SelectFlavor::Standard;
        }
        duckdb::name_columns(select, self.state);
        with_rollup(&mut select.group_by);
        for table in &mut select.from {
            joins(table);
            asof::nest(table, false);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<DataFusionError> {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            joins(table_with_joins);
            asof::nest(table_with_joins, true);
        }
        unnest_lateral(factor);
        merged_columns::as_query(factor);
        pivot::name_aggregates(factor);
        let functions = self.state.table_functions();
        if let Err(error) = read_functions::replace(factor, |name| functions.contains_key(name)) {
            return ControlFlow::Break(error);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<DataFusionError> {
        distinct_from::mend(expression);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> ControlFlow<DataFusionError> {
        operators::rewrite(expression);
        match json::rewritten(expression) {
            Some(Err(error)) => return ControlFlow::Break(error.into()),
            Some(Ok(call)) => {
                *expression = call;
                return ControlFlow::Continue(());
            }
            None => {}
        }
        let rewritten = match expression {
            Expr::BinaryOp {
                left,
                op: BinaryOperator::BitwiseXor,
                right,
            } if self.power => {
                let take = |side: &mut Expr| mem::replace(side, Expr::Value(Value::Null.into()));
                power::power(take(left), take(right))
            }
            Expr::Function(function) => {
                match quantiles::rewritten(function, self.state) {
                    Some(Err(error)) => return ControlFlow::Break(error.into()),
                    Some(Ok(quantile)) => {
                        *expression = quantile;
                        return ControlFlow::Continue(());
                    }
                    None => {}
                }
                let exclusive_or = self.exclusive_or.then(|| power::exclusive_or(function)).flatten();
                exclusive_or.or_else(|| duckdb::rewritten(function, self.state))
            }
            Expr::SimilarTo { .. } => match similar_to::matched(expression) {
                Some(Err(error)) => return ControlFlow::Break(error),
                matched => matched.and_then(Result::ok),
            },
            Expr::Extract { field, expr, .. } => duckdb::extracted(field, expr),
            Expr::Value(value) => large_integer(&value.value),
            _ => literals::rewritten(expression).or_else(|| row_comparisons::by_values(expression)),
        };
        if let Some(rewritten) = rewritten {
            *expression = rewritten;
        }
        ControlFlow::Continue(())
    }
}

/// `LATERAL UNNEST(l)`, which is parsed as a table function, as `UNNEST(l)`.
fn unnest_lateral(factor: &mut TableFactor) {
    let TableFactor::Function {
        lateral: true,
        name,
        args,
        with_ordinality: false,
        alias,
    } = factor
    else {
        return;
    };
    let lists = args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(list)) => Some(list.clone()),
        _ => None,
    });
    let (true, Some(array_exprs)) = (name.to_string().eq_ignore_ascii_case("unnest"), lists.collect()) else {
        return;
    };
    *factor = TableFactor::UNNEST {
        alias: alias.take(),
        array_exprs,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
}

/// An integer beyond 64 bits, which the planner would read as a float, as a decimal.
fn large_integer(value: &Value) -> Option<Expr> {
    let Value::Number(digits, false) = value else {
        return None;
    };
    let is_decimal = digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.len() <= DECIMAL_DIGITS;
    (is_decimal && digits.parse::<u64>().is_err()).then(|| Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(Value::SingleQuotedString(digits.clone()).into())),
        data_type: DataType::Decimal(ExactNumberInfo::PrecisionAndScale(digits.len() as u64, 0)),
        array: false,
        format: None,
    })
}

/// Rewrites FETCH FIRST n ROWS ONLY as LIMIT n.
fn fetch_as_limit(query: &mut Query) {
    let Some(Fetch {
        with_ties: false,
        percent: false,
        quantity,
    }) = &query.fetch
    else {
        return;
    };
    let one = || Expr::Value(Value::Number("1".to_string(), false).into());
    let rows = quantity.clone().unwrap_or_else(one);
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset {
            limit: limit @ None, ..
        }) => *limit = Some(rows),
        none @ None => {
            *none = Some(LimitClause::LimitOffset {
                limit: Some(rows),
                offset: None,
                limit_by: Vec::new(),
            });
        }
        // The query has both: FETCH stays, and is refused.
        Some(_) => return,
    }
    query.fetch = None;
}

/// Rewrites GROUP BY a, b WITH ROLLUP as GROUP BY ROLLUP (a, b), and WITH CUBE likewise.
fn with_rollup(group_by: &mut GroupByExpr) {
    let GroupByExpr::Expressions(keys, modifiers) = group_by else {
        return;
    };
    let sets: fn(Vec<Vec<Expr>>) -> Expr = match modifiers.as_slice() {
        [GroupByWithModifier::Rollup] => Expr::Rollup,
        [GroupByWithModifier::Cube] => Expr::Cube,
        _ => return,
    };
    let keys = mem::take(keys).into_iter().map(|key| vec![key]);
    *group_by = GroupByExpr::Expressions(vec![sets(keys.collect())], Vec::new());
}

/// Rewrites joins to the names that the planner supports.
fn joins(table: &mut TableWithJoins) {
    for join in &mut table.joins {
        let operator = mem::replace(&mut join.join_operator, JoinOperator::CrossApply);
        join.join_operator = match operator {
            JoinOperator::Semi(constraint) => JoinOperator::LeftSemi(constraint),
            JoinOperator::Anti(constraint) => JoinOperator::LeftAnti(constraint),
            JoinOperator::StraightJoin(constraint) => JoinOperator::Inner(constraint),
            other => other,
        };
    }
}
