//! Quoted names that are paths.
//!
//! Catalogs that look up a name do not see its quotes. So a quoted `'folder'` that is not the name of a table
//! becomes `'folder/'` in the statement, and only names that look like a path are looked up as files: a bare
//! name is never a folder. SHOW COLUMNS reads the information schema, which does not contain files; for a
//! file, it becomes a query of the file's columns.

use super::{result, visit_mut};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::TableReference;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, Ident, ObjectName, ObjectNamePart, ShowStatementIn, ShowStatementOptions, VisitorMut,
};
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::Path;

/// Resolves the paths of a statement.
pub(super) async fn resolve(statement: &mut Statement, state: &SessionState) -> Result<()> {
    visit_mut(statement, &mut Folders(state))?;
    if let Statement::Statement(inner) = statement
        && let Some(name) = columns_of(inner)
    {
        let mut name = name.clone();
        result(Folders(state).pre_visit_relation(&mut name))?;
        if let Some(query) = file_columns(&name, state).await? {
            let dialect = state.config_options().sql_parser.dialect;
            *statement = state.sql_to_statement(&query, &dialect)?;
        }
    }
    Ok(())
}

/// The name, if it is one part in single quotes.
fn quoted(name: &ObjectName) -> Option<&Ident> {
    let [part] = name.0.as_slice() else {
        return None;
    };
    part.as_ident().filter(|part| part.quote_style == Some('\''))
}

/// Whether a schema of the session has the table without looking at files.
fn is_table(name: &str, state: &SessionState) -> bool {
    let schema = state.schema_for_ref(TableReference::bare(name));
    schema.is_ok_and(|schema| schema.table_exist(name))
}

/// Marks folders.
struct Folders<'a>(&'a SessionState);

impl VisitorMut for Folders<'_> {
    type Break = DataFusionError;

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<DataFusionError> {
        if let Some(name) = quoted(relation)
            && !name.value.contains(['/', '\\'])
            && !is_table(&name.value, self.0)
            && Path::new(&name.value).is_dir()
        {
            let mut folder = name.clone();
            folder.value.push('/');
            *relation = ObjectName(vec![ObjectNamePart::Identifier(folder)]);
        }
        ControlFlow::Continue(())
    }
}

/// The table of a SHOW COLUMNS without a filter.
fn columns_of(statement: &ast::Statement) -> Option<&ObjectName> {
    let ast::Statement::ShowColumns {
        show_options:
            ShowStatementOptions {
                show_in:
                    Some(ShowStatementIn {
                        parent_type: None,
                        parent_name: Some(name),
                        ..
                    }),
                starts_with: None,
                limit: None,
                limit_from: None,
                filter_position: None,
            },
        ..
    } = statement
    else {
        return None;
    };
    Some(name)
}

/// A query that lists the columns of a file; `None` if `name` is not a file.
async fn file_columns(name: &ObjectName, state: &SessionState) -> Result<Option<String>> {
    let Some(file) = quoted(name).filter(|file| !is_listed(&file.value, state)) else {
        return Ok(None);
    };
    let reference = TableReference::bare(file.value.as_str());
    let table = state.schema_for_ref(reference)?.table(&file.value).await?;
    Ok(table.map(|table| described(&file.value, &table.schema(), state)))
}

/// Whether the information schema has the table.
fn is_listed(name: &str, state: &SessionState) -> bool {
    let schema = state.schema_for_ref(TableReference::bare(name));
    schema.is_ok_and(|schema| schema.table_names().iter().any(|table| table == name))
}

/// A query that lists the columns of a table like the information schema.
fn described(name: &str, schema: &SchemaRef, state: &SessionState) -> String {
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let catalog = &state.config_options().catalog;
    let (catalog, schema_name) = (text(&catalog.default_catalog), text(&catalog.default_schema));
    let mut query = String::from(
        "SELECT table_catalog, table_schema, table_name, column_name, data_type, is_nullable FROM (VALUES ",
    );
    for (position, field) in schema.fields().iter().enumerate() {
        let comma = if position == 0 { "" } else { ", " };
        let nullable = if field.is_nullable() { "YES" } else { "NO" };
        // Writing to a string does not fail.
        let _ = write!(
            query,
            "{comma}({catalog}, {schema_name}, {}, {}, {}, '{nullable}', {position})",
            text(name),
            text(field.name()),
            text(&field.data_type().to_string())
        );
    }
    if schema.fields().is_empty() {
        query += "('', '', '', '', '', '', -1)";
    }
    query
        + ") AS columns(table_catalog, table_schema, table_name, column_name, data_type, is_nullable, position) \
           WHERE position >= 0 ORDER BY position"
}
