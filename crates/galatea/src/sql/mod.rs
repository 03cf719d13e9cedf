//! Plans one SQL statement as a [`DataFrame`].
//!
//! DataFusion's parser accepts more than its planner plans, and the planner ignores some of the rest without
//! an error. So a statement is rewritten and checked between the two. Each clause that remains unplanned is
//! an error with its name.
//!
//! ```text
//! tokens      PIVOT, UNPIVOT, ASOF JOIN and USING SAMPLE in forms that the parser reads   clause_tokens
//!             columns named index and key in CREATE TABLE                             column_words
//!             FROM t is SELECT * FROM t                                                   from_first
//!             AS MATERIALIZED is AS, 1_000 is 1000                        materialized, digit_groups
//!             list_transform(l, lambda x: x + 1), [x + 1 for x in l]                      lambdas
//!             FILTER (x > 1), x IN [1, 2], TABLE t                                    short_forms
//!             calls of macros are their definitions                                       macros
//! statement   SELECT max(a) is SELECT max(a) AS "max(a)"                                   spelled_names
//!             WITH within the query of a WITH of the same name                                with_names
//!             a IS DISTINCT FROM b AND c is (a IS DISTINCT FROM b) AND c                  distinct_from
//!             (a, b) < (c, d) compares values, SIMILAR TO is a regular expression  row_comparisons, similar_to
//!             a ^ b is power(a, b), named windows are written out, FETCH is LIMIT, ...    rewrite, power, windows
//!             year(day) is date_part('year', day)                          duckdb, quantiles, time_formats
//!             FROM (SELECT 1 AS a): a subquery without a name gets one              unnamed_tables
//!             VALUES with subqueries are SELECTs                                           values
//!             a // b is a / b, l[2:] is l[2:-1]                                            operators
//!             INTERVAL '03:04:05', 'a\\x00'::BLOB                                           literals
//!             j -> '$.a[0]' is json_get_json(j, 'a', 0)                                   json
//!             clauses that the planner does not read are refused by name                  clauses, functions
//!             'folder' in quotes is the folder; SHOW COLUMNS of a file lists its columns  paths
//! types       UBIGINT is BIGINT UNSIGNED, TIMESTAMP_S is in seconds                            types
//! columns     ORDER BY 2 of a computed column of groups                                   ordinals
//!             ORDER BY ALL, names of the SELECT list, values of PIVOT                     resolve
//!             COLUMNS('pattern')                                                      column_lists
//!             columns of joins with USING and NATURAL                                     merged_columns
//!             SELECT a, a: different names         output_names, expression_keys, unnamed_parts, distinct_order
//!             UPDATE ... FROM and DELETE ... USING are subqueries                     change_sources
//!             COPY TO 'file.tsv', 'file.csv.gz': the format and options of the extension      copy
//! ```

mod aliases;
mod asof;
mod ast_parts;
mod change_clauses;
mod change_sources;
mod clause_parts;
mod clause_tokens;
mod clauses;
mod column_lists;
mod column_words;
mod copy;
mod copy_options;
mod definitions;
mod digit_groups;
mod distinct_from;
mod distinct_order;
mod duckdb;
mod error;
mod expression_keys;
mod from_first;
mod functions;
mod join_parts;
mod json;
mod lambdas;
mod literals;
mod macro_captures;
mod macros;
mod materialized;
mod merged_columns;
mod merged_names;
mod merged_outer;
mod not_null;
mod operators;
mod order_all;
mod ordinals;
mod output_names;
mod own_queries;
mod paths;
mod pivot;
mod places;
mod power;
mod quantiles;
mod question;
mod read_functions;
mod resolve;
mod rewrite;
mod row_comparisons;
mod short_forms;
mod similar_to;
mod spelled_names;
mod summarize;
mod templates;
mod time_formats;
mod tokens;
mod types;
mod unnamed_parts;
mod unnamed_tables;
mod unpivot;
mod using_sample;
mod values;
mod variables;
mod windows;
mod with_names;

pub(crate) use asof::planned as asof_join;
pub(crate) use clauses::of_relation;
pub use copy::STANDARD_OUTPUT;
pub(crate) use definitions::DefinitionLimit;
pub use error::SqlError;
pub(crate) use macros::Macros;
pub use own_queries::{SessionStatement, session_statement};
pub(crate) use pivot::grouped;
pub(crate) use read_functions::{Kind as ReadKind, Read};
pub use summarize::summary_schema;
pub(crate) use types::TypeNames;
pub(crate) use unpivot::joined;
pub(crate) use using_sample::sampled;
pub(crate) use variables::Variables;

use datafusion::common::{not_impl_err, plan_datafusion_err};
use datafusion::config::Dialect;
use datafusion::dataframe::DataFrame;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{CopyToSource, DFParserBuilder, ParserInput, Statement};
use datafusion::sql::sqlparser::ast::{Visitor, VisitorMut};
use datafusion::sql::sqlparser::dialect::dialect_from_str;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::Tokenizer;
use futures::future::BoxFuture;
use galatea_base::stack::for_levels;
use galatea_engine::plans::{PlanCache, levels_of_statement, with_stack_for};
use galatea_engine::session::Session;
use galatea_engine::syntax;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::alter_table::AlterTable;
use crate::database::{self, with_targets};
use crate::layout::ConflictLayoutStatement;
use crate::reset::Reset;
use crate::system_settings::AlterSystem;
use macros::MacroStatement;
use summarize::Summarize;
use variables::VariableStatement;

/// Plans one SQL statement like [`SessionContext::sql`]. Further statements are executed immediately:
/// `ALTER TABLE` with ADD, DROP, RENAME and ALTER COLUMN, with RENAME TO, and with SET (conflict_layout ...);
/// `ALTER SYSTEM SET galatea.memory.admission = value`, which changes a setting of the engine
/// ([`EngineSettings`](crate::EngineSettings)) for all of its sessions; `ALTER SYSTEM RESET name` and `ALTER
/// SYSTEM RESET ALL`; `RESET name` and `SET name = DEFAULT`, which give a setting of the session, of Galatea
/// or of DataFusion, its default value; `SUMMARIZE table` and `SUMMARIZE query`, which return a row for each
/// column with its extremes, distinct values, distribution and NULLs.
///
/// A query with the SQL text of an earlier one is not parsed again, as long as its names and functions have
/// the same meaning (`galatea.cache.plans` limits the remembered texts, too). Its logical plan is one node,
/// and its columns have their final types.
///
/// [`statement`] documents the extensions of its SQL to that of [`SessionContext::sql`].
///
/// | option | values | meaning |
/// | --- | --- | --- |
/// | `conflict_layout` | `'auto'`, `'writes'`, `'reads'`, `'values'`, `'none'` | every column of the table that can have a layout: for atomics, for reads, against value conflicts only, or none; auto is writes, but a column of at most 256 values keeps one byte per row, unless more copies save more than a second byte costs |
/// | `conflict_layout.<column>` | the same | one column; an error if it cannot have the layout |
/// | `conflict_window` | a whole number, 16 by default | number of preceding accesses of a block that exclude their copies from reuse |
/// | `conflict_budget` | a number from 1 on | copies per value, on average; by default the number that fits 64 KiB of 8-byte slots, for auto as under `conflict_layout` |
///
/// The result has a row per column: its layout, the size of the table with copies, and mean rounds of an
/// access to shared memory before and after. Tables of the store and files can be altered. The layout of
/// files belongs to this session; the files are not rewritten.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// let session = galatea::session().with_emulated_device(galatea::EmulatorOptions::default());
/// let ctx = session.with_setting("galatea.device", "emulated").build()?;
/// galatea::sql(&ctx, "CREATE TABLE t AS SELECT value % 7 AS k FROM generate_series(1, 10000)").await?.collect().await?;
/// let changed = galatea::sql(&ctx, "ALTER TABLE t SET (conflict_layout.k = 'writes')").await?.collect().await?;
/// assert_eq!(changed[0].num_rows(), 1);
///
/// let sevens = "SELECT k, count(*) FROM t GROUP BY k";
/// for _ in 0..2 {
///     assert_eq!(galatea::sql(&ctx, sevens).await?.count().await?, 7);
/// }
/// assert_eq!(galatea::plan_statistics(&ctx).expect("a Galatea session").known, 1);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// DataFusion's; [`ConflictLayoutError`](crate::ConflictLayoutError) for unknown tables, columns and values,
/// and [`galatea_store::StoreError::NoLayout`] for a named column that cannot have the layout.
pub async fn sql(ctx: &SessionContext, text: &str) -> Result<DataFrame> {
    if let Some(result) = own_statement(ctx, text).await? {
        return Ok(result);
    }
    let state = ctx.state();
    match state.config().get_extension::<PlanCache>() {
        Some(plans) => {
            let macros = state.config().get_extension::<Macros>();
            let calls = macros.is_some_and(|macros| macros.may_be_called(text));
            let plan = match calls || reads_rows(text) {
                false => plans.statement(text, &state, statement(text, &state)).await?,
                // Rows or macros determine the statement, so it is the key together with the string.
                true => {
                    let statement = statement(text, &state).await?;
                    let key = format!("{text}\n{statement}");
                    let parsed = std::future::ready(Ok(statement));
                    plans.statement(&key, &state, parsed).await?
                }
            };
            match plan {
                // These statements change the session.
                LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => execute(ctx, plan).await,
                // Like `execute_logical_plan`, but without its copy of the state, which would take as long as
                // everything else here.
                plan => {
                    let plan = with_targets(&state, plan)?;
                    Ok(DataFrame::new(state, plan))
                }
            }
        }
        None => {
            let plan = state.statement_to_plan(statement(text, &state).await?).await?;
            execute(ctx, plan).await
        }
    }
}

/// Executes a plan like [`SessionContext::execute_logical_plan`], for callers that plan the statements of
/// [`statement`] themselves. In a session with a database ([`open`](crate::open)), the plan's changes last.
///
/// # Errors
/// DataFusion's; [`DatabaseError`](crate::DatabaseError).
pub async fn execute(ctx: &SessionContext, plan: LogicalPlan) -> Result<DataFrame> {
    database::execute(ctx, plan).await
}

/// The physical plan of one SQL statement, like that of the frame that [`sql()`] returns. For callers that
/// execute plans themselves, such as servers with many clients: for a query with a cached plan, it neither
/// copies the session's state nor applies the rules of DataFusion's planning, which take half of the time
/// from the string to the plan.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// use datafusion::physical_plan::collect;
///
/// let ctx = galatea::session().with_setting("galatea.device", "cpu").build()?;
/// let plan = galatea::physical_plan(&ctx, "SELECT 1 + 1 AS two").await?;
/// assert_eq!(collect(plan, ctx.task_ctx()).await?[0].num_rows(), 1);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`sql()`], and of DataFusion's planning.
pub async fn physical_plan(ctx: &SessionContext, text: &str) -> Result<Arc<dyn ExecutionPlan>> {
    let state = ctx.state_ref();
    let cache = {
        let state = state.read();
        let config = state.config();
        config
            .get_extension::<PlanCache>()
            .zip(config.get_extension::<Session>())
    };
    if let Some((plans, session)) = cache
        && let Some(plan) = plans.plan(text, &state, &session).await?
    {
        return Ok(plan);
    }
    sql(ctx, text).await?.create_physical_plan().await
}

/// Executes a statement that DataFusion does not have, and returns its rows; `None` for any other statement.
/// [`sql()`] calls it first. The statements are `ALTER TABLE`, `ALTER SYSTEM ...`, `RESET name`, `SET name =
/// DEFAULT`, `SUMMARIZE`, `SET VARIABLE`, `CREATE MACRO` and `DROP MACRO`.
///
/// # Errors
/// Those of [`sql()`] for these statements.
pub async fn own_statement(ctx: &SessionContext, text: &str) -> Result<Option<DataFrame>> {
    let config = ctx.copied_config();
    let options = &config.options().sql_parser;
    if let Some(statement) = ConflictLayoutStatement::parse(options, text)? {
        return statement.execute(ctx).await.map(Some);
    }
    if let Some(statement) = AlterTable::parse(options, text)? {
        return statement.execute(ctx, plan).await.map(Some);
    }
    if let Some(reset) = Reset::parse(options, text)? {
        return reset.execute(ctx).await.map(Some);
    }
    if let Some(statement) = VariableStatement::read(text)? {
        return statement.execute(ctx).await.map(Some);
    }
    let is_macro = MacroStatement::read(text, &ctx.state_ref().read())?;
    if let Some(statement) = is_macro {
        let name = statement.name().to_owned();
        let text = statement.creates().then_some(text);
        let done = statement.execute(ctx)?;
        database::kept_macro(ctx, &name, text)?;
        return Ok(Some(done));
    }
    if let Some(summarize) = Summarize::parse(text) {
        return summarize.execute(ctx).await.map(Some);
    }
    match AlterSystem::parse(options, text)? {
        Some(change) => change.execute(ctx).map(Some),
        None => Ok(None),
    }
}

/// Creates a macro of a database in its session.
///
/// # Errors
/// Those of CREATE MACRO.
pub(crate) fn create_macro(ctx: &SessionContext, text: &str) -> Result<()> {
    let statement = MacroStatement::read(text, &ctx.state_ref().read())?;
    match statement {
        Some(statement) => statement.execute(ctx).map(drop),
        None => Ok(()),
    }
}

/// The plan of one statement in a session.
pub(crate) fn plan(text: String, state: SessionState) -> BoxFuture<'static, Result<LogicalPlan>> {
    Box::pin(async move {
        let statement = statement(&text, &state).await?;
        state.statement_to_plan(statement).await
    })
}

/// Parses one statement as Galatea reads it. [`SessionState::statement_to_plan`] plans it.
///
/// It differs from [`SessionState::sql_to_statement`] as follows: `FROM t` is `SELECT * FROM t`; `a ^ b` is
/// `power(a, b)` and `xor(a, b)` is the bitwise exclusive or (in the dialects `generic`, `duckdb` and
/// `redshift`); named windows may be used everywhere; FETCH FIRST, SEMI JOIN, ANTI JOIN and WITH ROLLUP are
/// supported; functions of DuckDB such as `year` and `regexp_extract` are those of DataFusion; SHOW COLUMNS
/// lists the columns of files; COPY writes every format that it names, also compressed, and has options in
/// parentheses; PIVOT, UNPIVOT, ASOF JOIN, USING SAMPLE, ORDER BY ALL, names of the SELECT list in other
/// clauses, macros and `read_csv` are supported; and a clause that the planner would ignore is an error.
///
/// The columns, and for PIVOT the rows, of tables may be read.
///
/// # Errors
/// DataFusion's; [`SqlError`]; a planning error if expressions and queries are nested deeper than
/// [`MAX_LEVELS`](galatea_engine::plans::MAX_LEVELS).
pub async fn statement(text: &str, state: &SessionState) -> Result<Statement> {
    let mut statement = unresolved_statement(text, state)?;
    paths::resolve(&mut statement, state).await?;
    change_sources::resolve(&mut statement, state).await?;
    resolve::resolve(text, &mut statement, state).await?;
    Ok(statement)
}

/// Like [`statement`], without reading any table or file: parts that depend on columns or rows of tables stay
/// as they are. For callers that check the tables and files of a statement before they are read.
///
/// # Errors
/// Those of [`statement`], except those of tables.
pub fn unresolved_statement(text: &str, state: &SessionState) -> Result<Statement> {
    let dialect = state.config_options().sql_parser.dialect;
    let mut statement = with_stack_for(text, || {
        let mut statement = parse(text, dialect, state)?;
        not_null::mark(&mut statement);
        let levels = levels_of_statement(&statement)?;
        for_levels(levels, || spelled_names::name(&mut statement));
        macros::expand(&mut statement, state)?;
        levels_of_statement(&statement)?;
        with_names::distinguish(&mut statement);
        visit_mut(&mut statement, &mut rewrite::Rewrite::new(dialect, state))?;
        visit(&statement, &mut clauses::Check::new(state))?;
        Ok::<_, DataFusionError>(statement)
    })?;
    copy::name_format(&mut statement, state)?;
    Ok(statement)
}

/// Whether the meaning of a statement may depend on rows: PIVOT creates columns for values.
fn reads_rows(text: &str) -> bool {
    let word = b"pivot";
    text.as_bytes()
        .windows(word.len())
        .any(|part| part.eq_ignore_ascii_case(word))
}

/// The only statement of `text`.
fn parse(text: &str, dialect: Dialect, state: &SessionState) -> Result<Statement> {
    let name = dialect;
    let dialect = dialect_from_str(name).ok_or_else(|| {
        plan_datafusion_err!(
            "unknown SQL dialect: {name}\nhint: dialects are {}",
            Dialect::available()
        )
    })?;
    let tokens = Tokenizer::new(dialect.as_ref(), text).tokenize_with_location();
    let tokens = tokens.map_err(|error| DataFusionError::from(ParserError::from(error)))?;
    let tokens = materialized::without(digit_groups::joined(tokens));
    let tokens = clause_tokens::rewritten(column_words::quoted(tokens))?;
    let tokens = lambdas::marked(copy_options::rewritten(tokens)?, state);
    let tokens = short_forms::written_out(tokens);
    let tokens = match dialect.supports_from_first_select() {
        true => from_first::with_select(tokens),
        false => tokens,
    };
    let mut parser = DFParserBuilder::new(ParserInput::Tokens(tokens))
        .with_dialect(dialect.as_ref())
        .with_recursion_limit(state.config_options().sql_parser.recursion_limit.get())
        .build()?;
    let mut statements = parser.parse_statements()?;
    match (statements.pop_front(), statements.is_empty()) {
        (Some(mut statement), true) => {
            lambdas::in_calls(&mut statement, state)?;
            Ok(statement)
        }
        (Some(_), false) => not_impl_err!("only one statement can be planned at a time"),
        (None, _) => Err(plan_datafusion_err!("the statement is empty")),
    }
}

/// Visits the parts of a statement.
fn visit(statement: &Statement, visitor: &mut dyn Visitor<Break = DataFusionError>) -> Result<()> {
    let flow = match statement {
        Statement::Statement(statement) => syntax::visit(statement.as_ref(), visitor),
        Statement::CopyTo(copy) => match &copy.source {
            CopyToSource::Query(query) => syntax::visit(query.as_ref(), visitor),
            CopyToSource::Relation(name) => visitor.pre_visit_relation(name),
        },
        Statement::Explain(explain) => return visit(&explain.statement, visitor),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    };
    result(flow)
}

/// Visits the parts of a statement to change them.
fn visit_mut(statement: &mut Statement, visitor: &mut dyn VisitorMut<Break = DataFusionError>) -> Result<()> {
    result(flow_mut(statement, visitor))
}

/// Like [`visit_mut`], for visitors with another reason to end early.
fn flow_mut<B>(statement: &mut Statement, visitor: &mut dyn VisitorMut<Break = B>) -> ControlFlow<B> {
    match statement {
        Statement::Statement(statement) => syntax::visit_mut(statement.as_mut(), visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => syntax::visit_mut(query.as_mut(), visitor),
            CopyToSource::Relation(name) => visitor.pre_visit_relation(name),
        },
        Statement::Explain(explain) => flow_mut(&mut explain.statement, visitor),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    }
}

fn result(flow: ControlFlow<DataFusionError>) -> Result<()> {
    match flow {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}
