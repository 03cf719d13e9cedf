//! ALTER TABLE: columns of a table, and the names of tables and views.
//!
//! DataFusion has no such statement. A change of columns is a CREATE OR REPLACE TABLE of a query over the
//! table, so that it lasts in a database, and an error leaves the table as it was:
//!
//! ```text
//! ALTER TABLE t ADD COLUMN c INT DEFAULT 1, DROP COLUMN a
//! CREATE OR REPLACE TABLE t AS SELECT b, CAST(1 AS INT) AS c FROM t      with the defaults and NOT NULL of b
//! ```

use datafusion::common::{Result, TableReference, ToDFSchema, plan_datafusion_err, plan_err};
use datafusion::config::SqlParserOptions;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::TableProvider;
use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, Expr, LogicalPlan};
use datafusion::prelude::SessionContext;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ColumnOption, Ident, ObjectName, RenameTableNameKind,
    Statement,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::changes::check_kind;
use crate::create_table::MARK;
use crate::database;
use crate::system_settings::dialect_of;
use crate::views::Planner;

/// A statement that changes a table.
#[derive(Debug)]
pub(crate) struct AlterTable {
    name: ObjectName,
    if_exists: bool,
    operations: Vec<AlterTableOperation>,
    normalize: bool,
}

/// A column of the changed table.
struct Column {
    name: String,
    /// Its values as SQL over the table before.
    values: String,
    is_required: bool,
    default: Option<Expr>,
}

impl AlterTable {
    /// Parses `ALTER TABLE`; `None` for any other statement.
    ///
    /// # Errors
    /// The session's dialect is unknown.
    pub(crate) fn parse(options: &SqlParserOptions, text: &str) -> Result<Option<Self>> {
        let first = text.split_ascii_whitespace().next().unwrap_or_default();
        if !first.eq_ignore_ascii_case("ALTER") {
            return Ok(None);
        }
        let dialect = dialect_of(options)?;
        // Only the dialect of PostgreSQL has USING of a new type.
        let statements = Parser::parse_sql(dialect.as_ref(), text)
            .or_else(|_| Parser::parse_sql(&PostgreSqlDialect {}, text));
        // Errors of all other statements are DataFusion's.
        let Ok(mut statements) = statements else {
            return Ok(None);
        };
        Ok(match (statements.pop(), statements.is_empty()) {
            (Some(Statement::AlterTable(alter)), true) => Some(Self {
                name: alter.name,
                if_exists: alter.if_exists,
                operations: alter.operations,
                normalize: options.enable_ident_normalization,
            }),
            _ => None,
        })
    }

    /// Changes the table. `planner` plans a query over it.
    ///
    /// # Errors
    /// Unknown tables and columns, names that exist, operations that are not supported; NULL in a column that
    /// becomes NOT NULL, and values that cannot be converted to the new type of their column.
    pub(crate) async fn execute(self, ctx: &SessionContext, planner: Planner) -> Result<DataFrame> {
        let table = object_name_to_table_reference(self.name.clone(), self.normalize)?;
        if self.if_exists && !ctx.table_exist(table.clone())? {
            return ctx.read_empty()?.limit(0, Some(0));
        }
        if let [AlterTableOperation::RenameTable { table_name }] = self.operations.as_slice() {
            let (RenameTableNameKind::As(name) | RenameTableNameKind::To(name)) = table_name;
            let name = object_name_to_table_reference(name.clone(), self.normalize)?;
            rename(ctx, table, name).await?;
            return ctx.read_empty()?.limit(0, Some(0));
        }
        let provider = ctx.table_provider(table.clone()).await?;
        if !database::is_stored(ctx, &table) {
            check_kind(&"ALTER TABLE", &provider, &table)?;
        }
        let mut columns = columns(provider.as_ref());
        for operation in &self.operations {
            self.apply(ctx, operation, &mut columns)?;
        }
        self.replace((ctx, planner), table, columns).await
    }

    fn name_of(&self, name: &Ident) -> String {
        match self.normalize && name.quote_style.is_none() {
            true => name.value.to_lowercase(),
            false => name.value.clone(),
        }
    }

    fn apply(
        &self,
        ctx: &SessionContext,
        operation: &AlterTableOperation,
        columns: &mut Vec<Column>,
    ) -> Result<()> {
        match operation {
            AlterTableOperation::AddColumn {
                if_not_exists,
                column_def,
                column_position: None,
                ..
            } => {
                let name = self.name_of(&column_def.name);
                if columns.iter().any(|column| column.name == name) {
                    return match if_not_exists {
                        true => Ok(()),
                        false => plan_err!("the table {} has a column {name} already", self.name),
                    };
                }
                columns.push(self.added(ctx, name, column_def)?);
            }
            AlterTableOperation::DropColumn {
                column_names,
                if_exists,
                ..
            } => {
                for name in column_names {
                    let name = self.name_of(name);
                    match columns.iter().position(|column| column.name == name) {
                        Some(at) => drop(columns.remove(at)),
                        None if *if_exists => {}
                        None => return self.unknown(&name),
                    }
                }
                if columns.is_empty() {
                    return plan_err!("the table {} would have no columns", self.name);
                }
            }
            AlterTableOperation::RenameColumn {
                old_column_name,
                new_column_name,
            } => {
                let (old, new) = (self.name_of(old_column_name), self.name_of(new_column_name));
                if columns.iter().any(|column| column.name == new) {
                    return plan_err!("the table {} has a column {new} already", self.name);
                }
                self.column(columns, &old)?.name = new;
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let name = self.name_of(column_name);
                let column = self.column(columns, &name)?;
                match op {
                    AlterColumnOperation::SetNotNull => column.is_required = true,
                    AlterColumnOperation::DropNotNull => column.is_required = false,
                    AlterColumnOperation::SetDefault { value } => {
                        column.default = Some(constant(ctx, value)?);
                    }
                    AlterColumnOperation::DropDefault => column.default = None,
                    AlterColumnOperation::SetDataType { data_type, using, .. } => {
                        let values = using
                            .as_ref()
                            .map_or_else(|| column.values.clone(), ToString::to_string);
                        column.values = format!("CAST({values} AS {data_type})");
                    }
                    other @ AlterColumnOperation::AddGenerated { .. } => {
                        return plan_err!("ALTER COLUMN ... {other} is not supported");
                    }
                }
            }
            AlterTableOperation::RenameTable { .. } => {
                return plan_err!("RENAME TO must be the only operation of its ALTER TABLE");
            }
            other => {
                return plan_err!(
                    "ALTER TABLE ... {other} is not supported\nhint: there is ADD COLUMN, DROP COLUMN, RENAME COLUMN, \
                     ALTER COLUMN and RENAME TO"
                );
            }
        }
        Ok(())
    }

    fn unknown<T>(&self, name: &str) -> Result<T> {
        plan_err!("the table {} has no column {name}", self.name)
    }

    fn column<'c>(&self, columns: &'c mut [Column], name: &str) -> Result<&'c mut Column> {
        match columns.iter_mut().find(|column| column.name == name) {
            Some(column) => Ok(column),
            None => self.unknown(name),
        }
    }

    /// A new column, which has its default in all rows.
    fn added(&self, ctx: &SessionContext, name: String, definition: &ast::ColumnDef) -> Result<Column> {
        let (mut is_required, mut default) = (false, None);
        for option in &definition.options {
            match &option.option {
                ColumnOption::NotNull => is_required = true,
                ColumnOption::Null => is_required = false,
                ColumnOption::Default(value) => default = Some(value),
                other => {
                    return plan_err!("{other} of a new column is not supported (table {})", self.name);
                }
            }
        }
        let value = default.map_or_else(|| "NULL".to_owned(), ToString::to_string);
        Ok(Column {
            name,
            values: format!("CAST({value} AS {})", definition.data_type),
            is_required,
            default: default.map(|value| constant(ctx, value)).transpose()?,
        })
    }

    /// Replaces the table by one with these columns.
    async fn replace(
        self,
        (ctx, planner): (&SessionContext, Planner),
        table: TableReference,
        columns: Vec<Column>,
    ) -> Result<DataFrame> {
        let values = columns
            .iter()
            .map(|column| format!("{} AS {}", column.values, quoted(&column.name)));
        let values = values.collect::<Vec<_>>().join(", ");
        let required = columns
            .iter()
            .enumerate()
            .filter(|(_, column)| column.is_required);
        let required = required
            .map(|(number, _)| format!(" {number}"))
            .collect::<String>();
        let query = format!(
            "SELECT * FROM (SELECT {values} FROM {}) AS {}",
            self.name,
            quoted(&format!("{MARK}{required}"))
        );
        let input = planner(query, ctx.state()).await?;
        let defaults = columns
            .into_iter()
            .filter_map(|column| Some((column.name, column.default?)));
        let create = CreateMemoryTable {
            name: table,
            constraints: Default::default(),
            input: input.into(),
            if_not_exists: false,
            or_replace: true,
            column_defaults: defaults.collect(),
            temporary: false,
        };
        let create = LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create));
        database::execute(ctx, create).await
    }
}

fn quoted(name: &str) -> String {
    Ident::with_quote('"', name).to_string()
}

/// The columns of a table as they are.
fn columns(table: &dyn TableProvider) -> Vec<Column> {
    let schema = table.schema();
    let columns = schema.fields().iter().map(|field| Column {
        name: field.name().clone(),
        values: quoted(field.name()),
        is_required: !field.is_nullable(),
        default: table.get_column_default(field.name()).cloned(),
    });
    columns.collect()
}

/// The expression of a default, which has no columns.
fn constant(ctx: &SessionContext, value: &ast::Expr) -> Result<Expr> {
    let none = arrow::datatypes::Schema::empty().to_dfschema()?;
    ctx.state().create_logical_expr(&value.to_string(), &none)
}

/// Gives a table or a view another name.
async fn rename(ctx: &SessionContext, table: TableReference, name: TableReference) -> Result<()> {
    // In the schema of the table, unless the name has a schema of its own.
    let name = match (&table, name) {
        (TableReference::Partial { schema, .. }, TableReference::Bare { table }) => TableReference::Partial {
            schema: schema.clone(),
            table,
        },
        (TableReference::Full { catalog, schema, .. }, TableReference::Bare { table }) => {
            TableReference::Full {
                catalog: catalog.clone(),
                schema: schema.clone(),
                table,
            }
        }
        (_, name) => name,
    };
    if ctx.table_exist(name.clone())? {
        return plan_err!("the table {name} already exists");
    }
    if database::renamed(ctx, &table, &name).await? {
        return Ok(());
    }
    let found = ctx.deregister_table(table.clone())?;
    let provider = found.ok_or_else(|| plan_datafusion_err!("no such table: {table}"))?;
    if let Err(error) = ctx.register_table(name, provider.clone()) {
        ctx.register_table(table, provider)?;
        return Err(error);
    }
    Ok(())
}
