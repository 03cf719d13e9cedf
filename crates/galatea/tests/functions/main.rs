//! Checks docs/src/reference/functions.md, which lists where DataFusion's built-in functions run. The test
//! compares it with the engine's placement of a call of each function, and fails if they differ or a function
//! has no call.

use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::datasource::MemTable;
use datafusion::functions;
use datafusion::functions_aggregate;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::displayable;
use datafusion::prelude::SessionContext;
use galatea_expression::code::Code;
use galatea_expression::{ColumnBinding, ColumnKind, Emitter, Expr, Parameters, lower};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const DOCUMENT: &str = "../../docs/src/reference/functions.md";
const UPDATE: &str = "UPDATE_BOOK=1 cargo test --workspace --test functions";

const INTRODUCTION: &str = "\
# Functions

DataFusion's built-in functions, by calls over columns of a table, and the device of each. A test
(`crates/galatea/tests/functions`) generates this page from the calls in its `.sql` files.

- **device**: device code, for each row. Text may be of any length and need no dictionary.
- **per dictionary value**: DataFusion evaluates it once for each value of a column's dictionary, the device reads the result by
  code. A column of too many different values for a dictionary is given one all the same, unless the result is returned as it is: then
  DataFusion computes it of the rows that are returned.
- **device, then CPU**: the device finds the rows or the different values that the result depends on, DataFusion computes it of them.
- **constant**: evaluated while planning.
- **CPU**: the operator with such a call runs on the CPU, for the reason that EXPLAIN gives, too.

Functions of lists, maps and structs have no device versions.
";

/// The lines of a file of calls.
fn calls(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("--"))
        .collect()
}

/// The name of the called function.
fn name(call: &str) -> Option<&str> {
    let name = call.split('(').next()?;
    let plain = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    name.chars().all(plain).then_some(name)
}

fn schema() -> Schema {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    Schema::new(vec![
        field("i", DataType::Int64),
        field("j", DataType::Int64),
        field("d", DataType::Decimal128(15, 2)),
        field("f", DataType::Float64),
        field("g", DataType::Float64),
        field("s", DataType::Utf8View),
        field("w", DataType::Utf8View),
        field("day", DataType::Date32),
        field("ts", DataType::Timestamp(TimeUnit::Microsecond, None)),
        field("flag", DataType::Boolean),
    ])
}

/// A cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The physical expression of an SQL expression, by the same rules as in queries.
fn plan(context: &SessionContext, sql: &str, schema: &DFSchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
    let expression = context.parse_sql_expr(sql, schema)?;
    #[expect(
        deprecated,
        reason = "the builder that replaces it takes more than a test needs"
    )]
    let simplifier = ExprSimplifier::new(
        SimplifyContext::default()
            .with_schema(Arc::clone(schema))
            .with_current_time(),
    );
    let expression = simplifier.simplify(simplifier.coerce(expression, schema)?)?;
    context.create_physical_expr(expression, schema)
}

/// Whether code can be generated for the expression, with string columns of this kind.
fn emits(expression: &Expr, text: &ColumnKind) -> Result<(), String> {
    let fields = schema();
    let bindings: Vec<ColumnBinding> = (fields.fields().iter())
        .map(|field| {
            let known = ColumnBinding::of_type(field.data_type(), true).expect("a type of the device");
            match known.kind {
                ColumnKind::Text => ColumnBinding {
                    kind: text.clone(),
                    ..known
                },
                _ => known,
            }
        })
        .collect();
    let mut parameters = Parameters::default();
    let emitted = Emitter::new(&bindings, &mut parameters).emit(expression, &mut Code::default());
    emitted.map(|_| ()).map_err(|reason| reason.to_string())
}

/// The device of a scalar call.
fn scalar(context: &SessionContext, call: &str) -> String {
    let schema = schema();
    let df_schema = Arc::new(DFSchema::try_from(schema.clone()).expect("a schema"));
    let physical = match plan(context, call, &df_schema) {
        Ok(physical) => physical,
        Err(error) => return format!("not planned by DataFusion: {}", error.strip_backtrace()),
    };
    let lowered = match lower(&physical, &schema) {
        Ok(lowered) => lowered,
        Err(reason) => return format!("CPU: {reason}"),
    };
    if lowered.as_literal().is_some() {
        return "constant".to_owned();
    }
    let values = Arc::new(StringArray::from(vec!["a", "b"]));
    match (
        emits(&lowered, &ColumnKind::Text),
        emits(&lowered, &ColumnKind::Dictionary { values }),
    ) {
        (Ok(()), _) => "device".to_owned(),
        (_, Ok(())) => "per dictionary value".to_owned(),
        (_, Err(reason)) => format!("CPU: {reason}"),
    }
}

/// The device of an aggregate.
async fn aggregate(context: &SessionContext, call: &str) -> String {
    let keys = if call.starts_with("grouping(") {
        " GROUP BY ROLLUP (i)"
    } else {
        ""
    };
    let query = context.sql(&format!("SELECT {call} FROM t{keys}")).await;
    let plan = match query {
        Ok(query) => query.create_physical_plan().await,
        Err(error) => return format!("not planned by DataFusion: {}", error.strip_backtrace()),
    };
    match plan {
        Ok(plan)
            if displayable(plan.as_ref())
                .indent(false)
                .to_string()
                .contains("AggregateExec") =>
        {
            "device, then CPU".to_owned()
        }
        Ok(_) => "device".to_owned(),
        Err(error) => {
            let text = error.strip_backtrace();
            let mut lines = text
                .lines()
                .skip_while(|line| !line.contains("cannot run on the device"));
            let reason = lines.nth(1).unwrap_or(&text).trim();
            format!("CPU: {}", reason.trim_start_matches("AggregateExec: "))
        }
    }
}

fn table(title: &str, rows: &[(&str, String)]) -> String {
    let mut text = format!("\n## {title}\n\n| call | where |\n| --- | --- |\n");
    for (call, place) in rows {
        writeln!(text, "| `{}` | {} |", cell(call), cell(place)).expect("writing to a string");
    }
    text
}

async fn document() -> String {
    let mut text = INTRODUCTION.to_owned();
    let context = SessionContext::new();
    let mut left = calls(include_str!("scalar.sql"));
    let groups = [
        ("Conditions, casts and types", functions::core::functions()),
        ("Numbers", functions::math::functions()),
        ("Dates and times", functions::datetime::functions()),
        (
            "Text",
            [functions::string::functions(), functions::unicode::functions()].concat(),
        ),
        ("Regular expressions", functions::regex::functions()),
        (
            "Hashes and encodings",
            [functions::crypto::functions(), functions::encoding::functions()].concat(),
        ),
    ];
    for (title, group) in groups {
        let mut rows = Vec::new();
        for function in group {
            let of_it: Vec<&str> = (left.iter().copied())
                .filter(|call| name(call) == Some(function.name()))
                .collect();
            assert!(!of_it.is_empty(), "scalar.sql has no call of {}", function.name());
            left.retain(|call| !of_it.contains(call));
            rows.extend(of_it.into_iter().map(|call| (call, scalar(&context, call))));
        }
        rows.sort();
        text += &table(title, &rows);
    }
    let others: Vec<_> = left
        .into_iter()
        .map(|call| (call, scalar(&context, call)))
        .collect();
    text += &table("Operators", &others);

    let session = galatea::session()
        .with_emulated_device(galatea::EmulatorOptions::default())
        .with_setting("galatea.device", "emulated")
        .with_setting("galatea.fallback", "error")
        .build()
        .expect("a session");
    let schema = Arc::new(schema());
    let table_of_none = MemTable::try_new(Arc::clone(&schema), vec![vec![RecordBatch::new_empty(schema)]]);
    session
        .register_table("t", Arc::new(table_of_none.expect("a table")))
        .expect("a new table");
    let aggregates = calls(include_str!("aggregate.sql"));
    for function in functions_aggregate::all_default_aggregate_functions() {
        let names = function
            .aliases()
            .iter()
            .map(String::as_str)
            .chain([function.name()]);
        let called = names.flat_map(|known| aggregates.iter().map(move |call| name(call) == Some(known)));
        assert!(
            called.into_iter().any(|called| called),
            "aggregate.sql has no call of {}",
            function.name()
        );
    }
    let mut rows = Vec::new();
    for call in aggregates {
        rows.push((call, aggregate(&session, call).await));
    }
    rows.sort();
    text += &table("Aggregates", &rows);
    text
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a switch of this test alone")]
async fn function_reference_is_up_to_date() {
    let path = Path::new(DOCUMENT);
    let expected = document().await;
    if std::env::var("UPDATE_BOOK").is_ok_and(|value| value == "1") {
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, expected).expect("written");
        return;
    }
    let found = fs::read_to_string(path).expect("the page");
    assert_eq!(found, expected, "run: {UPDATE}");
}
