//! Clauses that are parsed but not planned, by name.
//!
//! DataFusion's planner ignores many of them without an error. For others, it prints the parser's structures.
//! Each is a line of a table below: its name, and whether a part of a statement has it. Clauses that the
//! planner itself refuses readably are not listed.

use super::functions::Functions;
use super::join_parts::constraint;
use super::{SqlError, change_clauses, functions};
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ColumnOption, CreateTable, Expr, GroupByExpr, HiveDistributionStyle, HiveFormat, Join,
    JoinConstraint, JoinOperator, ObjectType, Query, Select, Set, SetExpr, Statement, TableAlias,
    TableFactor, TableWithJoins, UnaryOperator, Value, ValueWithSpan, Visitor,
};
use std::ops::ControlFlow;

/// A name, and whether a part of a statement has the clause.
type Clause<T> = (&'static str, fn(&T) -> bool);

const OF_QUERIES: [Clause<Query>; 7] = [
    ("FETCH WITH TIES, or PERCENT, or beside LIMIT,", |query| {
        query.fetch.is_some()
    }),
    ("FOR UPDATE, FOR SHARE", |query| !query.locks.is_empty()),
    ("FOR XML, FOR JSON, FOR BROWSE", |query| {
        query.for_clause.is_some()
    }),
    ("SETTINGS", |query| query.settings.is_some()),
    ("FORMAT", |query| query.format_clause.is_some()),
    ("WITH name AS (...) FROM", |query| {
        let with = query.with.as_ref();
        with.is_some_and(|with| with.cte_tables.iter().any(|table| table.from.is_some()))
    }),
    (
        "ORDER BY, LIMIT, OFFSET, FETCH or WITH in a recursive query of WITH RECURSIVE",
        |query| {
            let with = query.with.as_ref().filter(|with| with.recursive);
            with.is_some_and(|with| {
                let mut tables = with.cte_tables.iter().map(|table| table.query.as_ref());
                tables.any(is_limited_union)
            })
        },
    ),
];

const OF_SELECTS: [Clause<Select>; 12] = [
    ("PREWHERE", |select| select.prewhere.is_some()),
    ("CONNECT BY, START WITH", |select| !select.connect_by.is_empty()),
    ("LATERAL VIEW", |select| !select.lateral_views.is_empty()),
    ("CLUSTER BY", |select| !select.cluster_by.is_empty()),
    ("SORT BY", |select| !select.sort_by.is_empty()),
    ("TOP", |select| select.top.is_some()),
    ("SELECT AS STRUCT, SELECT AS VALUE", |select| {
        select.value_table_mode.is_some()
    }),
    ("EXCLUDE after the select list", |select| select.exclude.is_some()),
    (
        "GROUP BY ... WITH TOTALS, or several modifiers,",
        |select| match &select.group_by {
            GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => !modifiers.is_empty(),
        },
    ),
    ("SELECT INTO TEMPORARY, SELECT INTO UNLOGGED", |select| {
        let into = select.into.as_ref();
        into.is_some_and(|into| into.temporary || into.unlogged)
    }),
    (
        "a modifier of SELECT (HIGH_PRIORITY, SQL_CALC_FOUND_ROWS, ...)",
        |select| {
            let modifiers = select.select_modifiers.as_ref();
            modifiers.is_some_and(datafusion::logical_expr::sqlparser::ast::SelectModifiers::is_any_set)
        },
    ),
    ("WINDOW outside of a query's SELECT", |select| {
        !select.named_window.is_empty()
    }),
];

const OF_RELATIONS: [Clause<TableFactor>; 17] = [
    (
        "a table hint, WITH (...),",
        |relation| matches!(relation, TableFactor::Table { with_hints, .. } if !with_hints.is_empty()),
    ),
    (
        "an index hint (USE, FORCE, IGNORE INDEX)",
        |relation| matches!(relation, TableFactor::Table { index_hints, .. } if !index_hints.is_empty()),
    ),
    (
        "another version of a table (FOR SYSTEM_TIME AS OF, VERSION AS OF, AT, CHANGES)",
        |relation| matches!(relation, TableFactor::Table { version: Some(_), .. }),
    ),
    (
        "PARTITION (...) of a table",
        |relation| matches!(relation, TableFactor::Table { partitions, .. } if !partitions.is_empty()),
    ),
    ("a path into a table", |relation| {
        matches!(
            relation,
            TableFactor::Table {
                json_path: Some(_),
                ..
            }
        )
    }),
    ("WITH ORDINALITY", |relation| {
        matches!(
            relation,
            TableFactor::Table {
                with_ordinality: true,
                ..
            } | TableFactor::Function {
                with_ordinality: true,
                ..
            } | TableFactor::UNNEST {
                with_ordinality: true,
                ..
            }
        )
    }),
    ("UNNEST WITH OFFSET", |relation| {
        matches!(
            relation,
            TableFactor::UNNEST {
                with_offset: true,
                ..
            }
        )
    }),
    (
        "SETTINGS of a table function",
        |relation| matches!(relation, TableFactor::Table { args: Some(args), .. } if args.settings.is_some()),
    ),
    ("AT after an alias", |relation| {
        alias(relation).is_some_and(|alias| alias.at.is_some())
    }),
    ("types in the columns of an alias", |relation| {
        let types = |alias: &TableAlias| alias.columns.iter().any(|column| column.data_type.is_some());
        alias(relation).is_some_and(types)
    }),
    ("MATCH_RECOGNIZE", |relation| {
        matches!(relation, TableFactor::MatchRecognize { .. })
    }),
    ("JSON_TABLE", |relation| {
        matches!(relation, TableFactor::JsonTable { .. })
    }),
    ("OPENJSON", |relation| {
        matches!(relation, TableFactor::OpenJsonTable { .. })
    }),
    ("XMLTABLE", |relation| {
        matches!(relation, TableFactor::XmlTable { .. })
    }),
    ("SEMANTIC_VIEW", |relation| {
        matches!(relation, TableFactor::SemanticView { .. })
    }),
    ("TABLE(...) as a table", |relation| {
        matches!(relation, TableFactor::TableFunction { .. })
    }),
    (
        "an alias of several columns' names for joined tables",
        |relation| matches!(relation, TableFactor::NestedJoin { alias: Some(alias), .. } if !alias.columns.is_empty()),
    ),
];

const OF_JOINS: [Clause<Join>; 6] = [
    ("GLOBAL JOIN", |join| join.global),
    ("ASOF JOIN with MATCH_CONDITION", |join| {
        matches!(join.join_operator, JoinOperator::AsOf { .. })
    }),
    ("ARRAY JOIN", |join| {
        matches!(
            join.join_operator,
            JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin | JoinOperator::InnerArrayJoin
        )
    }),
    ("CROSS APPLY, OUTER APPLY", |join| {
        matches!(
            join.join_operator,
            JoinOperator::CrossApply | JoinOperator::OuterApply
        )
    }),
    ("CROSS JOIN with ON or USING", |join| match &join.join_operator {
        JoinOperator::CrossJoin(constraint) => *constraint != JoinConstraint::None,
        _ => false,
    }),
    ("a SEMI, ANTI or FULL join of this form", |join| {
        matches!(join.join_operator, JoinOperator::Semi(_) | JoinOperator::Anti(_))
    }),
];

const OF_TABLES: [Clause<CreateTable>; 2] = [
    (
        "PARTITIONED BY, CLUSTERED BY, SKEWED BY of CREATE TABLE",
        |table| table.hive_distribution != HiveDistributionStyle::NONE,
    ),
    ("ROW FORMAT, STORED AS, LOCATION of CREATE TABLE", |table| {
        let nothing = HiveFormat {
            row_format: None,
            serde_properties: None,
            storage: None,
            location: None,
        };
        table
            .hive_formats
            .as_ref()
            .is_some_and(|formats| *formats != nothing)
    }),
];

/// Refuses clauses that no planner reads.
#[derive(Debug)]
pub(super) struct Check<'a> {
    functions: Functions<'a>,
    /// The number of queries around the visited one.
    depth: usize,
}

impl<'a> Check<'a> {
    pub(super) fn new(state: &'a SessionState) -> Self {
        Self {
            functions: Functions::of(state),
            depth: 0,
        }
    }
}

fn refuse<T>(part: &T, clauses: &[Clause<T>]) -> ControlFlow<DataFusionError> {
    match clauses.iter().find(|(_, has)| has(part)) {
        Some((name, _)) => unsupported(*name),
        None => ControlFlow::Continue(()),
    }
}

fn unsupported(clause: impl Into<String>) -> ControlFlow<DataFusionError> {
    ControlFlow::Break(SqlError::unsupported(clause).into())
}

/// The clause of a table in FROM that is not planned; `None` if all of them are.
pub(crate) fn of_relation(relation: &TableFactor) -> Option<SqlError> {
    let clause = OF_RELATIONS.iter().find(|(_, has)| has(relation));
    clause.map(|(name, _)| SqlError::unsupported(*name))
}

impl Visitor for Check<'_> {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<DataFusionError> {
        refuse(query, &OF_QUERIES)?;
        let is_select = matches!(query.body.as_ref(), SetExpr::Select(_));
        if (self.depth > 0 || !is_select) && selects_into(&query.body) {
            return unsupported("SELECT INTO within a query");
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<DataFusionError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<DataFusionError> {
        refuse(select, &OF_SELECTS)?;
        select.from.iter().try_for_each(joins)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<DataFusionError> {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            joins(table_with_joins)?;
        }
        match of_relation(factor) {
            Some(error) => ControlFlow::Break(error.into()),
            None => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expression: &Expr) -> ControlFlow<DataFusionError> {
        match expression {
            Expr::Function(function) => match self.functions.check(function) {
                Some(error) => ControlFlow::Break(error.into()),
                None => ControlFlow::Continue(()),
            },
            Expr::BinaryOp { op, .. } if !is_planned(op) => unsupported(format!("the operator {op}")),
            Expr::UnaryOp { op, .. } => match op {
                UnaryOperator::Not | UnaryOperator::Plus | UnaryOperator::Minus => ControlFlow::Continue(()),
                op => unsupported(format!("the operator {op}")),
            },
            other => match functions::of_expression(other) {
                Some(clause) => unsupported(clause),
                None => ControlFlow::Continue(()),
            },
        }
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<DataFusionError> {
        match &value.value {
            Value::Number(..)
            | Value::SingleQuotedString(_)
            | Value::DoubleQuotedString(_)
            | Value::DollarQuotedString(_)
            | Value::EscapedStringLiteral(_)
            | Value::HexStringLiteral(_)
            | Value::Boolean(_)
            | Value::Null
            | Value::Placeholder(_) => ControlFlow::Continue(()),
            other => unsupported(format!("a literal of this form, {other},")),
        }
    }

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<DataFusionError> {
        if let Some(error) = change_clauses::of_change(statement) {
            return ControlFlow::Break(error.into());
        }
        match of_statement(statement) {
            Some(clause) => unsupported(clause),
            None => ControlFlow::Continue(()),
        }
    }
}

fn alias(relation: &TableFactor) -> Option<&TableAlias> {
    match relation {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias.as_ref(),
        _ => None,
    }
}

/// Refuses joins of tables in FROM.
fn joins(table: &TableWithJoins) -> ControlFlow<DataFusionError> {
    let mut left = &table.relation;
    for join in &table.joins {
        refuse(join, &OF_JOINS)?;
        let positional = |alias: &TableAlias| {
            !alias.explicit
                && alias.name.quote_style.is_none()
                && alias.name.value.eq_ignore_ascii_case("positional")
        };
        // The parser reads the word as the alias of the preceding table.
        if alias(left).is_some_and(positional) {
            return ControlFlow::Break(
                SqlError::Unsupported {
                    clause: "POSITIONAL JOIN".to_string(),
                    hint: Some(
                        "number the rows of both with row_number() OVER (ORDER BY ...), and join on that",
                    ),
                }
                .into(),
            );
        }
        if lacks_condition(join) {
            return ControlFlow::Break(
                SqlError::Unsupported {
                    clause: "JOIN without ON or USING".to_string(),
                    hint: Some("CROSS JOIN pairs each row with every other"),
                }
                .into(),
            );
        }
        left = &join.relation;
    }
    ControlFlow::Continue(())
}

/// Whether a join that needs a condition has none. CROSS JOIN needs none; [`OF_JOINS`] refuses SEMI and ANTI
/// without a side, and STRAIGHT_JOIN is left to the planner.
fn lacks_condition(join: &Join) -> bool {
    let is_other = matches!(
        join.join_operator,
        JoinOperator::CrossJoin(_)
            | JoinOperator::Semi(_)
            | JoinOperator::Anti(_)
            | JoinOperator::StraightJoin(_)
    );
    !is_other && constraint(join) == Some(&JoinConstraint::None)
}

/// Whether a query of WITH RECURSIVE is a union with further clauses. The planner reads only the union.
fn is_limited_union(query: &Query) -> bool {
    let limited = query.order_by.is_some()
        || query.limit_clause.is_some()
        || query.fetch.is_some()
        || query.with.is_some()
        || !query.pipe_operators.is_empty();
    limited && matches!(query.body.as_ref(), SetExpr::SetOperation { .. })
}

/// Whether a SELECT of a set operation, or the query itself, creates a table.
fn selects_into(body: &SetExpr) -> bool {
    let mut bodies = vec![body];
    while let Some(body) = bodies.pop() {
        match body {
            SetExpr::Select(select) if select.into.is_some() => return true,
            SetExpr::SetOperation { left, right, .. } => bodies.extend([left.as_ref(), right.as_ref()]),
            _ => {}
        }
    }
    false
}

/// Whether the planner supports the operator.
#[expect(clippy::match_same_arms, reason = "a line for each kind of operator")]
fn is_planned(operator: &BinaryOperator) -> bool {
    use BinaryOperator as B;
    match operator {
        B::Gt | B::GtEq | B::Lt | B::LtEq | B::Eq | B::NotEq | B::Spaceship | B::And | B::Or => true,
        B::Plus | B::Minus | B::Multiply | B::Divide | B::Modulo | B::PGExp => true,
        B::DuckIntegerDivide | B::MyIntegerDivide | B::StringConcat => true,
        B::PGRegexMatch | B::PGRegexIMatch | B::PGRegexNotMatch | B::PGRegexNotIMatch => true,
        B::PGLikeMatch | B::PGILikeMatch | B::PGNotLikeMatch | B::PGNotILikeMatch => true,
        B::BitwiseAnd | B::BitwiseOr | B::Xor | B::BitwiseXor | B::PGBitwiseXor => true,
        B::PGBitwiseShiftRight | B::PGBitwiseShiftLeft => true,
        B::ArrowAt | B::AtArrow | B::Arrow | B::LongArrow | B::HashArrow | B::HashLongArrow => true,
        B::AtAt | B::HashMinus | B::AtQuestion | B::Question | B::QuestionAnd | B::QuestionPipe => true,
        B::Custom(name) => name == ":",
        _ => false,
    }
}

/// The clause of a statement that is not planned.
fn of_statement(statement: &Statement) -> Option<String> {
    let name = |clause: &str, has: bool| has.then(|| clause.to_string());
    match statement {
        Statement::CreateTable(table) => {
            let clause = OF_TABLES.iter().find(|(_, has)| has(table));
            let clause = clause.map(|(name, _)| (*name).to_string());
            let options = table.columns.iter().flat_map(|column| &column.options);
            clause.or_else(|| options.filter_map(|option| of_column(&option.option)).next())
        }
        Statement::CreateView(view) => name("SECURE of CREATE VIEW", view.secure)
            .or_else(|| name("CREATE OR ALTER VIEW", view.or_alter))
            .or_else(|| {
                name(
                    "ALGORITHM, DEFINER, SQL SECURITY of CREATE VIEW",
                    view.params.is_some(),
                )
            })
            .or_else(|| {
                let options = view.columns.iter().any(|column| column.options.is_some());
                name("an option of a view's column", options)
            }),
        Statement::CreateSchema {
            with,
            options,
            default_collate_spec,
            clone,
            ..
        } => {
            let has =
                with.is_some() || options.is_some() || default_collate_spec.is_some() || clone.is_some();
            name("an option of CREATE SCHEMA", has)
        }
        Statement::CreateDatabase {
            location,
            managed_location,
            or_replace,
            transient,
            clone,
            comment,
            ..
        } => {
            let has =
                location.is_some() || managed_location.is_some() || clone.is_some() || comment.is_some();
            name("an option of CREATE DATABASE", has || *or_replace || *transient)
        }
        Statement::Drop {
            object_type,
            cascade,
            purge,
            temporary,
            ..
        } => {
            // Views that read a table or view stay, with CASCADE as without it.
            let drops = [ObjectType::Schema, ObjectType::Table, ObjectType::View];
            name("CASCADE of DROP", *cascade && !drops.contains(object_type))
                .or_else(|| name("PURGE of DROP", *purge))
                .or_else(|| name("DROP TEMPORARY", *temporary))
        }
        Statement::Set(set) => match set {
            Set::SingleAssignment { values, .. } => {
                let constant = |value: &Expr| {
                    let value = match value {
                        Expr::UnaryOp { expr, .. } => expr.as_ref(),
                        value => value,
                    };
                    matches!(value, Expr::Identifier(_) | Expr::Value(_))
                };
                let other = values.iter().find(|value| !constant(value));
                other.map(|value| format!("SET to the expression {value}, and not to a constant,"))
            }
            other => Some(format!("{other}")),
        },
        _ => None,
    }
}

/// The option of a column that is not planned.
fn of_column(option: &ColumnOption) -> Option<String> {
    let name = match option {
        ColumnOption::Null
        | ColumnOption::NotNull
        | ColumnOption::Default(_)
        | ColumnOption::PrimaryKey(_)
        | ColumnOption::Unique(_)
        | ColumnOption::ForeignKey(_)
        | ColumnOption::Check(_) => return None,
        ColumnOption::Generated { .. } => "GENERATED".to_string(),
        ColumnOption::Identity(_) => "IDENTITY".to_string(),
        ColumnOption::Comment(_) => "COMMENT".to_string(),
        other => other.to_string(),
    };
    Some(format!("{name} of a column"))
}
