//! NOT NULL in CREATE TABLE AS, which the plan of the statement does not contain (`create_table.rs`).

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{self, ColumnOption, Ident, SelectItem, TableFactor};

use super::question::query_over;
use crate::create_table::MARK;

/// Adds a derived table to the query of CREATE TABLE AS. Its alias contains the numbers of the columns with
/// NOT NULL.
pub(super) fn mark(statement: &mut Statement) {
    let Statement::Statement(statement) = statement else {
        return;
    };
    let ast::Statement::CreateTable(create) = statement.as_mut() else {
        return;
    };
    let Some(query) = &mut create.query else { return };
    let columns = create.columns.iter().enumerate();
    let required = columns.filter(|(_, column)| {
        let mut options = column.options.iter();
        options.any(|option| option.option == ColumnOption::NotNull)
    });
    let required: Vec<String> = required.map(|(number, _)| number.to_string()).collect();
    if required.is_empty() {
        return;
    }
    let alias = ast::TableAlias {
        explicit: true,
        name: Ident::with_quote('"', format!("{MARK} {}", required.join(" "))),
        columns: Vec::new(),
        at: None,
    };
    let rows = TableFactor::Derived {
        lateral: false,
        subquery: query.clone(),
        alias: Some(alias),
        sample: None,
    };
    let all = vec![SelectItem::Wildcard(ast::WildcardAdditionalOptions::default())];
    let from = ast::TableWithJoins {
        relation: rows,
        joins: Vec::new(),
    };
    **query = query_over(all, vec![from]);
}
