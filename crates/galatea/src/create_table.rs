//! `CREATE TABLE ... AS`: the columns of the table are nullable, as in other databases.
//!
//! DataFusion gives the columns of `CREATE TABLE t AS SELECT 1 AS a` the nullability of the query, so that
//! NULL cannot be inserted, and ignores NOT NULL in a list of columns. Here columns with NOT NULL and columns
//! of a primary key are not nullable, and all others are. The plan of the statement does not contain NOT
//! NULL. So `sql/not_null.rs` adds a derived table to the query. Its alias contains the numbers of these
//! columns.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{Constraint, plan_err};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::{MemTable, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, LogicalPlan};
use datafusion::prelude::SessionContext;
use galatea_store::rows_in_memory;

use crate::changes::in_table;

/// The prefix of the alias; the numbers of the columns follow, separated by spaces.
pub(crate) const MARK: &str = "__galatea_not_null";

/// The numbers of the columns with NOT NULL, and of those of a primary key.
fn required(create: &CreateMemoryTable) -> Vec<usize> {
    let mut all: Vec<usize> = Vec::new();
    for key in create.constraints.iter() {
        if let Constraint::PrimaryKey(columns) = key {
            all.extend(columns);
        }
    }
    let mut plan = create.input.as_ref();
    loop {
        plan = match plan {
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::SubqueryAlias(alias) => {
                let columns = alias.alias.table().strip_prefix(MARK);
                let columns = columns.unwrap_or_default().split_whitespace();
                all.extend(columns.filter_map(|number| number.parse::<usize>().ok()));
                return all;
            }
            _ => return all,
        }
    }
}

/// Executes CREATE TABLE AS like [`SessionContext::execute_logical_plan`].
///
/// # Errors
/// Those of DataFusion; two columns with one name; NULL in a column that is not nullable.
pub(crate) async fn create(ctx: &SessionContext, create: CreateMemoryTable) -> Result<DataFrame> {
    let is_query = !matches!(create.input.as_ref(), LogicalPlan::EmptyRelation(_));
    let exists = ctx.table(create.name.clone()).await.is_ok();
    if !is_query || create.temporary || exists && (create.if_not_exists || !create.or_replace) {
        let plan = LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create));
        return ctx.execute_logical_plan(plan).await;
    }
    let required = required(&create);
    let state = ctx.state();
    let input = state.optimize(&create.input)?;
    let schema = nullable(input.schema().inner(), &required);
    let mut names = std::collections::HashSet::new();
    if let Some(twice) = schema.fields().iter().find(|field| !names.insert(field.name())) {
        return plan_err!(
            "the query of CREATE TABLE has two columns '{}'\nhint: rename one with AS",
            twice.name()
        );
    }
    let partitions = DataFrame::new(state, input).collect_partitioned().await?;
    let partitions = partitions.into_iter().map(|batches| {
        let batches = batches.into_iter().map(|batch| {
            in_table(
                "CREATE TABLE",
                batch.columns(),
                batch.num_rows(),
                &schema,
                &create.name,
            )
        });
        batches.collect::<Result<Vec<_>>>()
    });
    let partitions = partitions.collect::<Result<Vec<_>>>()?;
    let table = MemTable::try_new(schema, partitions)?
        .with_constraints(create.constraints.clone())
        .with_column_defaults(create.column_defaults.iter().cloned().collect());
    let replaced = match exists {
        true => ctx.deregister_table(create.name.clone())?,
        false => None,
    };
    if let Err(error) = ctx.register_table(create.name.clone(), Arc::new(table)) {
        // Memory may be short for the encoded rows, for example. The former table stays.
        if let Some(replaced) = replaced {
            ctx.register_table(create.name, replaced)?;
        }
        return Err(error);
    }
    ctx.read_empty()?.limit(0, Some(0))
}

/// The schema with all columns nullable, except those with the numbers `required`.
fn nullable(schema: &SchemaRef, required: &[usize]) -> SchemaRef {
    let fields = schema.fields().iter().enumerate().map(|(number, field)| {
        let field = field.as_ref().clone();
        field.with_nullable(!required.contains(&number))
    });
    Arc::new(Schema::new_with_metadata(
        fields.collect::<Vec<_>>(),
        schema.metadata().clone(),
    ))
}

/// The table without PRIMARY KEY and UNIQUE, which no statement enforces: DataFusion would leave out a
/// DISTINCT or a join because of them.
///
/// # Errors
/// The table is being written.
pub(crate) fn without_keys(name: &str, table: Arc<dyn TableProvider>) -> Result<Arc<dyn TableProvider>> {
    let Some(memory) = table.downcast_ref::<MemTable>() else {
        return Ok(table);
    };
    if memory.constraints().is_none_or(|keys| keys.is_empty()) {
        return Ok(table);
    }
    let (partitions, defaults) = rows_in_memory(name, memory)?;
    let table = MemTable::try_new(memory.schema(), partitions)?.with_column_defaults(defaults);
    Ok(Arc::new(table))
}
