//! Arithmetic of UPDATE and DELETE that fails on overflow.
//!
//! A table evaluates their expressions itself, from the logical plan, so no physical rule processes them. The
//! rule replaces each operation that may overflow by a function.

use super::names::names_kept;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, DmlStatement, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, WriteOp,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::{BinaryExpr as PhysicalBinaryExpr, Column};
use std::sync::Arc;

use super::overflow::checked;
use super::rules::guarded;
use crate::config::{GalateaConfig, OverflowMode};

/// The rule that replaces the operations.
#[derive(Debug, Default)]
pub struct CheckUpdates;

impl OptimizerRule for CheckUpdates {
    fn name(&self) -> &'static str {
        "galatea_check_updates"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Dml(statement) = &plan else {
            return Ok(Transformed::no(plan));
        };
        let wraps = GalateaConfig::of(config.options().as_ref()).overflow != OverflowMode::Error;
        if wraps || !matches!(statement.op, WriteOp::Update | WriteOp::Delete) {
            return Ok(Transformed::no(plan));
        }
        let input = Arc::unwrap_or_clone(Arc::clone(&statement.input)).transform_up(checked_node)?;
        Ok(match input.transformed {
            true => Transformed::yes(LogicalPlan::Dml(DmlStatement::new(
                statement.table_name.clone(),
                Arc::clone(&statement.target),
                statement.op.clone(),
                Arc::new(input.data),
            ))),
            false => Transformed::no(plan),
        })
    }
}

fn checked_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let inputs = node.inputs();
    let schema = match (&node, inputs.as_slice()) {
        (LogicalPlan::TableScan(scan), _) => Arc::clone(&scan.projected_schema),
        (_, [input]) => Arc::clone(input.schema()),
        _ => return Ok(Transformed::no(node)),
    };
    names_kept(node, |expression| {
        expression.transform_up(|part| checked_operation(part, &schema))
    })
}

fn checked_operation(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &part else {
        return Ok(Transformed::no(part));
    };
    let is_exact = |data_type: &DataType| data_type.is_integer() || data_type.is_decimal();
    let types = [left.get_type(schema)?, right.get_type(schema)?];
    let own = part.get_type(schema)?;
    let checks = match op {
        Operator::Plus | Operator::Minus | Operator::Multiply => is_exact(&own),
        Operator::Divide => own.is_decimal(),
        _ => false,
    };
    if !checks || !types.iter().all(is_exact) {
        return Ok(Transformed::no(part));
    }
    let function = ScalarUDF::new_from_impl(CheckedOperation::new(*op, own));
    Ok(Transformed::yes(
        function.call(vec![left.as_ref().clone(), right.as_ref().clone()]),
    ))
}

/// One operation of two numbers, which fails on overflow.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedOperation {
    op: Operator,
    returns: DataType,
    signature: Signature,
}

impl CheckedOperation {
    fn new(op: Operator, returns: DataType) -> Self {
        Self {
            op,
            returns,
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for CheckedOperation {
    fn name(&self) -> &'static str {
        "checked_operation"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = ColumnarValue::values_to_arrays(&arguments.args)?;
        let fields = values.iter().zip(["l", "r"]);
        let fields = fields.map(|(values, name)| Field::new(name, values.data_type().clone(), true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let column = |name, at| Arc::new(Column::new(name, at)) as PhysicalExprRef;
        let operation = PhysicalBinaryExpr::new(column("l", 0), self.op, column("r", 1));
        let operation: PhysicalExprRef = Arc::new(operation);
        let operation = checked(&operation, &schema)?.unwrap_or(operation);
        let operation = guarded(&operation, &schema)?.unwrap_or(operation);
        let batch = RecordBatch::try_new(schema, values)?;
        let result: ArrayRef = operation.evaluate(&batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(result))
    }
}
