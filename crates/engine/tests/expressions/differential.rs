//! One comparison: plan SQL expressions, evaluate them both ways, report the first difference.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::common::DFSchema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::prelude::SessionContext;
use galatea_engine::expression::{Emitter, Expr, Parameters, lower};

use super::device::{Emitted, Outcome, Ran, expected, run};
use super::rows::{rows, schema};

/// What must be supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// An expression that is not lowered or emitted is a failure.
    AllLowered,
    /// It is counted.
    WhatIsLowered,
}

/// What happened.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) compared: usize,
    /// Reasons and how often they were given.
    pub(crate) refused: BTreeMap<String, usize>,
}

/// Compares all expressions over the rows of a seed.
pub(crate) fn check(seed: u64, expressions: &[String], check: Check) -> Summary {
    let context = SessionContext::new();
    let schema = schema();
    let df_schema = DFSchema::try_from(schema.clone()).expect("a schema");
    let rows = rows(seed);
    let mut summary = Summary::default();
    let mut refuse = |sql: &str, why: String| {
        assert!(check == Check::WhatIsLowered, "seed {seed}: {sql}: {why}");
        *summary.refused.entry(why).or_default() += 1;
    };
    let mut planned: Vec<(&str, Arc<dyn PhysicalExpr>, Expr)> = Vec::new();
    let mut emitted = Vec::new();
    for sql in expressions {
        let physical = context
            .parse_sql_expr(sql, &df_schema)
            .and_then(|expression| context.create_physical_expr(expression, &df_schema));
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
        let mut statements = String::new();
        let value = Emitter::new(&rows.bindings, &mut parameters).emit(&lowered, &mut statements);
        match value {
            Ok(value) => {
                emitted.push(Emitted {
                    statements,
                    value,
                    parameters,
                });
                planned.push((sql, physical, lowered));
            }
            Err(reason) => refuse(sql, format!("emission: {reason}")),
        }
    }
    let ran = run(&rows.batch, &rows.bindings, &emitted);
    for (((sql, physical, lowered), emitted), ran) in planned.iter().zip(&emitted).zip(&ran) {
        let outcomes = evaluate(physical, &rows.batch);
        for (row, (outcome, Ran { outcome: found, raw })) in outcomes.iter().zip(ran).enumerate() {
            let inputs = || {
                lowered
                    .columns()
                    .into_iter()
                    .map(|column| {
                        let array = rows.batch.column(column);
                        let value = datafusion::common::ScalarValue::try_from_array(array, row);
                        format!("{} = {:?}", schema.field(column).name(), value.expect("a scalar"))
                    })
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            assert_eq!(
                found,
                outcome,
                "seed {seed}, row {row}: {sql}\n{physical}\ninputs: {}\n{}\nliterals: {:?}",
                inputs(),
                emitted.statements,
                emitted.parameters.literals,
            );
            if let Some((low, high)) = emitted.value.range {
                assert!(
                    low <= *raw && *raw <= high,
                    "seed {seed}, row {row}: {sql}: {raw} outside {low}..={high}\ninputs: {}\n{}",
                    inputs(),
                    emitted.statements
                );
            }
            assert!(
                lowered.nullable() || *outcome != Outcome::Null,
                "seed {seed}, row {row}: {sql} is NULL but not nullable"
            );
        }
        summary.compared += 1;
    }
    summary
}

/// DataFusion's outcome per row; rows are evaluated one by one where the batch as a whole fails.
fn evaluate(physical: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Vec<Outcome> {
    let array = |batch: &RecordBatch| -> Result<ArrayRef, datafusion::error::DataFusionError> {
        physical.evaluate(batch)?.into_array(batch.num_rows())
    };
    match array(batch) {
        Ok(array) => (0..array.len()).map(|row| expected(&array, row)).collect(),
        Err(_) => (0..batch.num_rows())
            .map(|row| array(&batch.slice(row, 1)).map_or(Outcome::Error, |array| expected(&array, 0)))
            .collect(),
    }
}
