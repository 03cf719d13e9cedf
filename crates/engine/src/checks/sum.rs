//! `sum` that fails if its result is out of range for its type.
//!
//! DataFusion's sum of integers and decimals wraps. The analyzer rule replaces it by a function of the same
//! name and types, whether SQL or a program created the expression. Needed while apache/datafusion#16406 is
//! open (`datafusion_sums_wrap` fails once it is not).

use super::names::names_kept;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Field, FieldRef, Int64Type, UInt64Type,
};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, GroupsAccumulator, LogicalPlan,
    Operator, ReversedUDAF, SetMonotonicity, Signature, StatisticsArgs, WindowFunctionDefinition,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::PhysicalExprRef;

use super::sum_state::{SumOfDistinct, SumOfGroups, SumOfRows, SumType, Target, state_type};
use crate::config::{GalateaConfig, OverflowMode};
use galatea_expression::{Origin, bare};

/// The rule that replaces sums.
#[derive(Debug, Default)]
pub struct CheckSums;

impl AnalyzerRule for CheckSums {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if GalateaConfig::of(config).overflow == OverflowMode::Wrap {
            return Ok(plan);
        }
        let checked = plan.transform_up_with_subqueries(|plan| {
            names_kept(plan, |expression| {
                expression.transform_up(|part| Ok(checked_call(part)))
            })
        });
        checked.map(|checked| checked.data)
    }

    fn name(&self) -> &str {
        "galatea_check_sums"
    }
}

/// The call of our sum instead of DataFusion's; other expressions unchanged.
fn checked_call(part: Expr) -> Transformed<Expr> {
    match part {
        Expr::AggregateFunction(AggregateFunction { func, params }) if is_built_in(&func) => {
            let func = checked_sum();
            Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params }))
        }
        Expr::WindowFunction(mut call) => {
            let WindowFunction { fun, .. } = call.as_mut();
            match fun {
                WindowFunctionDefinition::AggregateUDF(function) if is_built_in(function) => {
                    *function = checked_sum();
                    Transformed::yes(Expr::WindowFunction(call))
                }
                _ => Transformed::no(Expr::WindowFunction(call)),
            }
        }
        part => Transformed::no(part),
    }
}

fn is_built_in(function: &AggregateUDF) -> bool {
    *function == *datafusion::functions_aggregate::sum::sum_udaf()
}

/// Whether a function is the sum that fails if its result is out of range for its type.
pub(crate) fn is_checked_sum(function: &AggregateUDF) -> bool {
    *function == *checked_sum()
}

fn checked_sum() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> =
        LazyLock::new(|| Arc::new(AggregateUDF::from(CheckedSum::default())));
    Arc::clone(&FUNCTION)
}

/// DataFusion's sum, with other accumulators for integers and decimals.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct CheckedSum {
    inner: Sum,
}

/// Calls a function for the type of a sum, or evaluates another expression for types that do not wrap.
macro_rules! for_type {
    ($data_type:expr, $function:ident ($($argument:expr),*), $other:expr) => {
        match $data_type {
            DataType::Int64 => $function::<Int64Type>($($argument),*),
            DataType::UInt64 => $function::<UInt64Type>($($argument),*),
            DataType::Decimal32(..) => $function::<Decimal32Type>($($argument),*),
            DataType::Decimal64(..) => $function::<Decimal64Type>($($argument),*),
            DataType::Decimal128(..) => $function::<Decimal128Type>($($argument),*),
            _ => $other,
        }
    };
}

fn rows<T: SumType>(args: &AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
    let target = target(args);
    Ok(match args.is_distinct {
        true => Box::new(SumOfDistinct::<T>::new(
            args.expr_fields[0].data_type().clone(),
            target,
        )),
        false => Box::new(SumOfRows::<T>::new(target)),
    })
}

fn groups<T: SumType>(args: &AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
    Ok(Box::new(SumOfGroups::<T>::new(target(args))))
}

fn state<T: SumType>(args: &StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
    let name = |state: &str| format!("{}[{state}]", args.name);
    Ok(vec![Arc::new(match args.is_distinct {
        true => {
            let values = Field::new_list_field(args.input_fields[0].data_type().clone(), true);
            Field::new_list(name("sum distinct"), values, false)
        }
        false => Field::new(name("sum"), state_type::<T>(args.return_type()), true),
    })])
}

/// The name of the function.
const SUM: &str = "sum";

/// A call of an aggregate as errors show it: with its arguments, or with the name of its column if a
/// projection computes them.
pub(crate) fn call_text(
    (name, function): (&str, &str),
    is_distinct: bool,
    arguments: &[PhysicalExprRef],
) -> String {
    let arguments: Vec<_> = arguments
        .iter()
        .map(|argument| Origin::new(&bare(argument)).to_string())
        .collect();
    let arguments = arguments.join(", ");
    match arguments.contains("__") {
        true => name.to_owned(),
        false => format!(
            "{function}({}{arguments})",
            if is_distinct { "DISTINCT " } else { "" }
        ),
    }
}

fn target(args: &AccumulatorArgs<'_>) -> Target {
    Target {
        result: args.return_type().clone(),
        name: call_text((args.name, SUM), args.is_distinct, args.exprs),
    }
}

impl AggregateUDFImpl for CheckedSum {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        for_type!(args.return_type(), rows(&args), self.inner.accumulator(args))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        for_type!(args.return_type(), state(&args), self.inner.state_fields(args))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        for_type!(
            args.return_type(),
            groups(&args),
            self.inner.create_groups_accumulator(args)
        )
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        for_type!(
            args.return_type(),
            rows(&args),
            self.inner.create_sliding_accumulator(args)
        )
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_expr()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.set_monotonicity(data_type)
    }

    fn simplify_expr_op_literal(
        &self,
        call: &AggregateFunction,
        argument: &Expr,
        operator: Operator,
        literal: &Expr,
        argument_is_left: bool,
    ) -> Result<Option<Expr>> {
        (self.inner).simplify_expr_op_literal(call, argument, operator, literal, argument_is_left)
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.value_from_stats(args)
    }
}
