//! One comparison: plan SQL expressions, evaluate them both ways, report the first difference.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::common::{DFSchema, DFSchemaRef, Result, ScalarValue};
use datafusion::functions::all_default_functions;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionContext;
use galatea_device::{Architecture, Device, DeviceOptions, EmulatorOptions, Nvrtc, compile_for};
use galatea_engine::corrections::compare_floats;
use galatea_expression::code::Code;
use galatea_expression::timestamp_units::in_units;
use galatea_expression::{Emitter, Expr, ExprKind, Function, Parameters, Value, lower};

use super::device::{Emitted, Outcome, Ran, expected, prepare, run};
use super::rows::{rows, schema};

/// The treatment of unsupported expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// An expression that is not lowered or emitted is a failure.
    AllLowered,
    /// An expression that is not lowered or emitted is counted.
    WhatIsLowered,
}

/// The results of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) compared: usize,
    /// Reasons and their numbers of occurrences.
    pub(crate) refused: BTreeMap<String, usize>,
}

/// The target of generated code.
pub(crate) enum Target {
    /// It runs, and its results are compared.
    Run(Device),
    /// It is compiled only, for a GPU that need not exist.
    Compile(Nvrtc),
}

impl Target {
    pub(crate) fn emulated() -> Self {
        let device = Device::emulated(EmulatorOptions::default(), DeviceOptions::default());
        Self::Run(device.expect("an emulated device"))
    }
}

/// Compares all expressions over the rows of a seed.
pub(crate) fn check(target: &Target, seed: u64, expressions: &[String], check: Check) -> Summary {
    let context = corrected_context();
    let schema = schema();
    let df_schema = Arc::new(DFSchema::try_from(schema.clone()).expect("a schema"));
    let rows = rows(seed);
    let mut summary = Summary::default();
    let mut refuse = |sql: &str, why: String| {
        assert!(check == Check::WhatIsLowered, "seed {seed}: {sql}: {why}");
        *summary.refused.entry(why).or_default() += 1;
    };
    let mut planned: Vec<(&str, Arc<dyn PhysicalExpr>, Expr)> = Vec::new();
    let mut emitted = Vec::new();
    for sql in expressions {
        let physical = plan(&context, sql, &df_schema);
        let physical = match physical {
            Ok(physical) => physical,
            Err(error) => {
                refuse(sql, format!("planning: {error}"));
                continue;
            }
        };
        let lowered = match lower(&physical, &schema) {
            Ok(lowered) => lowered,
            Err(reason) => {
                refuse(sql, reason.to_string());
                continue;
            }
        };
        let data_type = physical.data_type(&schema).expect("a type");
        assert_eq!(*lowered.data_type(), data_type, "seed {seed}: type of {sql}");
        let mut parameters = Parameters::default();
        let mut statements = Code::default();
        let value = Emitter::new(&rows.bindings, &mut parameters).emit(&lowered, &mut statements);
        match value {
            Ok(value) => {
                emitted.push(Emitted {
                    statements: statements.as_str().to_owned(),
                    value,
                    parameters,
                });
                planned.push((sql, physical, lowered));
            }
            Err(reason) => refuse(sql, format!("emission: {reason}")),
        }
    }
    let exact = matches!(target, Target::Run(device) if device.info().emulated);
    let ran = match target {
        Target::Run(device) => {
            let prepared = prepare(device, &rows.batch, &rows.bindings, &emitted);
            run(device, &prepared, rows.batch.num_rows(), &emitted)
        }
        Target::Compile(nvrtc) => {
            // The source does not depend on the device of its arguments.
            let Target::Run(device) = Target::emulated() else {
                unreachable!("emulated devices run")
            };
            let program = prepare(&device, &rows.batch, &rows.bindings, &emitted).program;
            let image = compile_for(Architecture::SM_90, &program, nvrtc);
            image.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            summary.compared = emitted.len();
            return summary;
        }
    };
    let mut failures = Vec::new();
    let options = Arc::clone(context.state_ref().read().config_options());
    for (((sql, physical, lowered), emitted), ran) in planned.iter().zip(&emitted).zip(&ran) {
        let on_cpu = compare_floats(physical, &schema, &options).expect("an expression of the schema");
        let outcomes = evaluate(&on_cpu, &rows.batch);
        let wrong = outcomes
            .iter()
            .zip(ran)
            .enumerate()
            .find_map(|(row, (outcome, ran))| {
                difference(outcome, ran, (&emitted.value, lowered), exact).map(|difference| (row, difference))
            });
        if let Some((row, difference)) = wrong {
            let inputs = lowered.columns().into_iter().map(|column| {
                let value = ScalarValue::try_from_array(rows.batch.column(column), row).expect("a scalar");
                format!("{} = {value:?}", schema.field(column).name())
            });
            failures.push(format!(
                "seed {seed}, row {row}: {sql}\n{difference}\nplan: {physical}\ninputs: {}\n{}literals: {:?}\n",
                inputs.collect::<Vec<_>>().join(", "),
                emitted.statements,
                emitted.parameters.literals,
            ));
        }
        summary.compared += 1;
    }
    assert!(
        failures.is_empty(),
        "{} expressions differ:\n{}",
        failures.len(),
        failures.join("\n")
    );
    summary
}

/// The physical expression of an SQL expression, after the rules that queries pass. The caller applies
/// `compare_floats` to the expression that the CPU evaluates, and only to that one, as queries do.
/// A context with the engine's versions of functions.
fn corrected_context() -> SessionContext {
    let context = SessionContext::new();
    for function in all_default_functions() {
        if let Some(corrected) = in_units(&function) {
            context.register_udf(Arc::unwrap_or_clone(corrected));
        }
    }
    context
}

fn plan(context: &SessionContext, sql: &str, schema: &DFSchemaRef) -> Result<Arc<dyn PhysicalExpr>> {
    let expression = context.parse_sql_expr(sql, schema)?;
    #[expect(
        deprecated,
        reason = "the builder that replaces it takes more than a test needs"
    )]
    let simplifier = ExprSimplifier::new(SimplifyContext::default().with_schema(Arc::clone(schema)));
    let expression = simplifier.simplify(simplifier.coerce(expression, schema)?)?;
    context.create_physical_expr(expression, schema)
}

/// The error in the outcome of a row, if any; `exact`: the device has the host's library of functions.
fn difference(
    expected: &Outcome,
    ran: &Ran,
    (value, lowered): (&Value, &Expr),
    exact: bool,
) -> Option<String> {
    if ran.outcome != *expected && (exact || !is_near(expected, ran, lowered)) {
        return Some(format!("expected {expected:?}, got {:?}", ran.outcome));
    }
    if value
        .range
        .is_some_and(|(low, high)| ran.raw < low || high < ran.raw)
    {
        return Some(format!("{} is outside {:?}", ran.raw, value.range));
    }
    if *expected == Outcome::Null && !lowered.nullable() {
        return Some("NULL, but not nullable".to_owned());
    }
    None
}

/// Whether the outcomes are doubles that differ by no more than a device's library may. The emulated device
/// has the host's library.
fn is_near(expected: &Outcome, ran: &Ran, lowered: &Expr) -> bool {
    let elementary = matches!(
        lowered.kind(),
        ExprKind::Call {
            function: Function::Elementary(_),
            ..
        }
    );
    match (expected, &ran.outcome) {
        (Outcome::Bits(expected), Outcome::Bits(found)) => elementary && expected.abs_diff(*found) <= 4,
        _ => false,
    }
}

/// DataFusion's outcome for each row; rows are evaluated one by one if the batch as a whole fails.
fn evaluate(physical: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Vec<Outcome> {
    let array =
        |batch: &RecordBatch| -> Result<ArrayRef> { physical.evaluate(batch)?.into_array(batch.num_rows()) };
    match array(batch) {
        Ok(array) => (0..array.len()).map(|row| expected(&array, row)).collect(),
        Err(_) => (0..batch.num_rows())
            .map(|row| array(&batch.slice(row, 1)).map_or(Outcome::Error, |array| expected(&array, 0)))
            .collect(),
    }
}
