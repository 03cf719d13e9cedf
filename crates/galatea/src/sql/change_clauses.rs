//! Clauses of INSERT, UPDATE and DELETE that are not planned, with the SQL to write instead.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, Delete, FromTable, Ident, ObjectNamePart, Statement, TableFactor, TableWithJoins,
    Update,
};

use super::SqlError;
use super::ast_parts::key;

const SUBQUERY: &str =
    "read other tables in subqueries: SET b = (SELECT ... FROM u WHERE u.k = t.k) WHERE k IN (SELECT ...)";
const CONDITION: &str = "use a condition in WHERE, such as id IN (SELECT id FROM t ORDER BY ... LIMIT ...)";
const RETURNING: &str = "the result is the number of changed rows; SELECT the rows in a statement of its own";

/// The error for the first clause that is not planned; `None` if the planner supports all clauses.
pub(super) fn of_change(statement: &Statement) -> Option<SqlError> {
    let (clause, hint) = match statement {
        Statement::Update(update) => of_update(update)?,
        Statement::Delete(delete) => of_delete(delete)?,
        Statement::Insert(insert) if insert.returning.is_some() => {
            ("RETURNING of INSERT".to_owned(), RETURNING)
        }
        _ => return None,
    };
    let hint = Some(hint);
    Some(SqlError::Unsupported { clause, hint })
}

fn of_update(update: &Update) -> Option<(String, &'static str)> {
    let tuple = |target: &AssignmentTarget| matches!(target, AssignmentTarget::Tuple(_));
    let mut targets = update.assignments.iter().map(|assignment| &assignment.target);
    let clauses = [
        ("UPDATE of joined tables", !is_table(&update.table), SUBQUERY),
        ("RETURNING of UPDATE", update.returning.is_some(), RETURNING),
        ("OUTPUT of UPDATE", update.output.is_some(), RETURNING),
        ("UPDATE with ORDER BY", !update.order_by.is_empty(), CONDITION),
        ("UPDATE with LIMIT", update.limit.is_some(), CONDITION),
        (
            "UPDATE of a list of columns, (a, b) = ...,",
            targets.any(tuple),
            "assign to each column: SET a = 1, b = 2",
        ),
    ];
    named(clauses).or_else(|| {
        let clause = format!("UPDATE with two values of the column {}", assigned_twice(update)?);
        Some((clause, "assign to each column once"))
    })
}

fn of_delete(delete: &Delete) -> Option<(String, &'static str)> {
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    named([
        ("RETURNING of DELETE", delete.returning.is_some(), RETURNING),
        ("OUTPUT of DELETE", delete.output.is_some(), RETURNING),
        ("DELETE with ORDER BY", !delete.order_by.is_empty(), CONDITION),
        ("DELETE with LIMIT", delete.limit.is_some(), CONDITION),
        (
            "DELETE from anything but one table",
            tables.len() != 1 || !tables.iter().all(is_table) || !delete.tables.is_empty(),
            SUBQUERY,
        ),
    ])
}

fn named<const N: usize>(clauses: [(&str, bool, &'static str); N]) -> Option<(String, &'static str)> {
    let (name, _, hint) = clauses.into_iter().find(|(_, has, _)| *has)?;
    Some((name.to_owned(), hint))
}

/// Changes the columns of SET to lower case unless they are quoted, as the planner does with other columns.
pub(super) fn normalize(statement: &mut Statement) {
    let Statement::Update(update) = statement else {
        return;
    };
    for assignment in &mut update.assignments {
        let AssignmentTarget::ColumnName(name) = &mut assignment.target else {
            continue;
        };
        if let Some(ObjectNamePart::Identifier(column)) = name.0.last_mut() {
            column.value = key(column);
        }
    }
}

/// Whether the relation is one table without arguments.
fn is_table(table: &TableWithJoins) -> bool {
    let plain = matches!(
        &table.relation,
        TableFactor::Table {
            args: None,
            sample: None,
            ..
        }
    );
    plain && table.joins.is_empty()
}

/// The first column that an UPDATE assigns to for the second time.
fn assigned_twice(update: &Update) -> Option<&Ident> {
    let mut names = HashSet::new();
    let mut columns = update.assignments.iter().filter_map(|assignment| {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return None;
        };
        name.0.last()?.as_ident()
    });
    columns.find(|column| !names.insert(key(column)))
}
