//! A field of a NULL struct is NULL.
//!
//! Below a NULL struct, its fields may hold values: `nullif(s, s)` is an example. DataFusion's access to a
//! field, and UNNEST of structs, return these unchanged. The rule masks structs first: [`MaskFunction`] sets
//! a field to NULL wherever the struct around it is NULL, at every depth. Structs that are read from files
//! have no such values, and stay unmasked, so that scans still read single fields.

use crate::checks::names_kept;
use arrow::array::{Array, ArrayRef, BooleanArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::compute::nullif;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::datasource::source_as_provider;
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::functions::core::named_struct::NamedStructFunc;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ExpressionPlacement, LogicalPlan, LogicalPlanBuilder,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Unnest, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

use crate::hive_table::listing;

/// The rule that masks structs.
#[derive(Debug, Default)]
pub(super) struct MaskFields;

impl AnalyzerRule for MaskFields {
    fn name(&self) -> &'static str {
        "galatea_mask_fields"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let masked = plan.transform_up_with_subqueries(|node| match &node {
            LogicalPlan::Unnest(unnest) if !unnest.struct_type_columns.is_empty() => masked_below(unnest),
            _ => masked_fields(node),
        });
        Ok(masked?.data)
    }
}

/// UNNEST over structs with masked fields.
fn masked_below(unnest: &Unnest) -> Result<Transformed<LogicalPlan>> {
    let mut columns = Vec::new();
    for (at, column) in unnest.input.schema().columns().into_iter().enumerate() {
        let plain = Expr::Column(column.clone());
        columns.push(match unnest.struct_type_columns.contains(&at) {
            true => masked(plain).alias_qualified(column.relation, column.name),
            false => plain,
        });
    }
    let input = LogicalPlanBuilder::from(unnest.input.as_ref().clone()).project(columns)?;
    let unnest = Unnest {
        input: Arc::new(input.build()?),
        ..unnest.clone()
    };
    Ok(Transformed::yes(LogicalPlan::Unnest(unnest)))
}

/// The node, with a mask on the structs that its expressions read fields of.
fn masked_fields(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut reads_fields = false;
    node.apply_expressions(|expr| {
        reads_fields |= expr.exists(|part| Ok(field_access(part).is_some()))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !reads_fields {
        return Ok(Transformed::no(node));
    }
    let from_files = reads_files(&node);
    let schema = merge_schema(&node.inputs());
    names_kept(node, |expr| {
        expr.transform_up(|part| mask_base(part, &schema, from_files))
    })
}

/// Whether all columns of a node's expressions are read from files unchanged.
fn reads_files(node: &LogicalPlan) -> bool {
    let mut below = node;
    loop {
        below = match below {
            LogicalPlan::TableScan(scan) => {
                let provider = source_as_provider(&scan.source);
                return provider.is_ok_and(|provider| listing(provider.as_ref()).is_some());
            }
            LogicalPlan::Projection(_) if std::ptr::eq(below, node) => match node.inputs().first() {
                Some(input) => input,
                None => return false,
            },
            LogicalPlan::Filter(filter) => &filter.input,
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Sort(sort) => &sort.input,
            LogicalPlan::Limit(limit) => &limit.input,
            LogicalPlan::Aggregate(aggregate) if std::ptr::eq(below, node) => &aggregate.input,
            _ => return false,
        };
    }
}

/// The call, if an expression reads a field.
fn field_access(expr: &Expr) -> Option<&ScalarFunction> {
    match expr {
        Expr::ScalarFunction(call) if call.func.inner().is::<GetFieldFunc>() => Some(call),
        _ => None,
    }
}

/// An access to a field of a masked struct; `from_files`: columns are unchanged since they were read.
fn mask_base(expr: Expr, schema: &DFSchema, from_files: bool) -> Result<Transformed<Expr>> {
    let Some(base) = field_access(&expr).and_then(|call| call.args.first()) else {
        return Ok(Transformed::no(expr));
    };
    // Structs of these functions have no hidden values; the mask of an inner access covers the outer ones.
    let is_plain = match base {
        Expr::ScalarFunction(call) => {
            call.func.inner().is::<MaskFunction>()
                || call.func.inner().is::<NamedStructFunc>()
                || field_access(base).is_some()
        }
        Expr::Column(_) => from_files,
        _ => false,
    };
    if is_plain || !matches!(base.get_type(schema), Ok(DataType::Struct(_))) {
        return Ok(Transformed::no(expr));
    }
    let Expr::ScalarFunction(mut call) = expr else {
        return Ok(Transformed::no(expr));
    };
    let base = call.args[0].clone();
    call.args[0] = masked(base);
    Ok(Transformed::yes(Expr::ScalarFunction(call)))
}

fn masked(value: Expr) -> Expr {
    let function = ScalarUDF::new_from_impl(MaskFunction::new());
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![value]))
}

/// A struct without values below NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MaskFunction {
    signature: Signature,
}

impl MaskFunction {
    fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for MaskFunction {
    fn name(&self) -> &'static str {
        "mask_fields"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    /// The placement of a field access: a masked field of a column is computed where the column is read, so
    /// that operators above transfer the field and not the struct.
    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        match args {
            [ExpressionPlacement::Column | ExpressionPlacement::MoveTowardsLeafNodes] => {
                ExpressionPlacement::MoveTowardsLeafNodes
            }
            _ => ExpressionPlacement::KeepInPlace,
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args.args[0].to_array(args.number_rows)?;
        Ok(ColumnarValue::Array(without_hidden(&values, None)?))
    }
}

/// An array that is NULL wherever it or its parent struct is NULL, with its fields masked the same way.
fn without_hidden(values: &ArrayRef, around: Option<&NullBuffer>) -> Result<ArrayRef> {
    if let Some(structs) = values.as_any().downcast_ref::<StructArray>() {
        let nulls = NullBuffer::union(values.nulls(), around);
        let fields = structs.columns().iter();
        let fields = fields.map(|field| without_hidden(field, nulls.as_ref()));
        let fields = fields.collect::<Result<Vec<_>>>()?;
        // A non-nullable field may be NULL below a NULL struct.
        let masked =
            StructArray::try_new_with_length(structs.fields().clone(), fields, nulls, structs.len())?;
        return Ok(Arc::new(masked));
    }
    let Some(around) = around.filter(|around| around.null_count() > 0) else {
        return Ok(Arc::clone(values));
    };
    // These types have no NULLs of their own.
    if matches!(
        values.data_type(),
        DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..)
    ) {
        return Ok(Arc::clone(values));
    }
    Ok(nullif(values, &BooleanArray::new(!around.inner(), None))?)
}
