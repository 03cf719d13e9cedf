//! Window functions: the rows below stay on the device in the order of the window, and are the rows of the
//! pipeline above, which computes the functions where they are used.
//!
//! Adjacent nodes with the same window share one order. Each different window is a level of its own: the rows
//! of the lower one are put in the order of the upper one.

mod rows;

use crate::graph::PipelineSource;
use crate::placement::aggregate::call::repeated_call;
use crate::placement::chain::window_input::{WHOLE, WindowFunctionCall};
use crate::placement::chain::{Chain, Finder};
use crate::placement::nodes::{node, statistics};
use crate::placement::plan_node::{PlanNode, Window};
use arrow::datatypes::{DataType, FieldRef, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::WindowUDFExpr;
use galatea_base::reason::Reason;
use galatea_codegen::aggregate::AggregateFunction;
use galatea_expression::{
    Distance, Expr, Frame, FrameBound, Interval, RangeKey, SortOrder, Units, WindowFunction, domain,
    integer_literal, is_string,
};
use rows::WindowRows;
use std::sync::Arc;

impl<'p> Window<'p> {
    /// The functions, and whether each is computed while rows arrive.
    fn calls(&self) -> impl Iterator<Item = (&'p Arc<dyn WindowExpr>, bool)> + use<'p> {
        let bounded = self.bounded;
        self.functions.iter().map(move |function| (function, bounded))
    }

    /// Columns of the input.
    fn width(&self) -> usize {
        self.input.schema().fields().len()
    }

    /// Whether all functions have the window of `first`.
    fn has_window_of(&self, first: &Arc<dyn WindowExpr>) -> bool {
        let mut functions = self.functions.iter();
        functions.all(|function| {
            function.partition_by() == first.partition_by() && function.order_by() == first.order_by()
        })
    }
}

/// The node below that returns the same rows in any order: the device sorts them for the window.
fn unsorted(mut plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    loop {
        match PlanNode::of(plan) {
            PlanNode::Sort(sort) if sort.fetch().is_none() => plan = sort.input(),
            PlanNode::Arrangement(input) => plan = input,
            _ => return plan,
        }
    }
}

/// The chain over the rows of the window functions of `plan`.
pub(in crate::placement) fn chain<'p>(
    top: &Window<'p>,
    plan: &'p Arc<dyn ExecutionPlan>,
    finder: &Finder<'_>,
) -> Result<Chain, Reason> {
    let refuse = |detail: &str| node(top.name(), detail);
    let first = top.functions.first().ok_or_else(|| refuse("no function"))?;
    if !top.has_window_of(first) {
        return Err(refuse("functions over different windows in one node"));
    }
    // The lowest first.
    let mut functions: Vec<_> = top.calls().collect();
    let mut input = unsorted(top.input);
    while let PlanNode::Window(next) = PlanNode::of(input)
        && next.has_window_of(first)
    {
        let width = next.width();
        let reads_functions = |(function, _): &(&Arc<dyn WindowExpr>, bool)| {
            let all = function.all_expressions();
            let mut all = all
                .args
                .iter()
                .chain(&all.partition_by_exprs)
                .chain(&all.order_by_exprs);
            all.any(|e| collect_columns(e).iter().any(|column| column.index() >= width))
        };
        if functions.iter().any(reads_functions) {
            break;
        }
        functions.splice(0..0, next.calls());
        input = unsorted(next.input);
    }
    let chain = finder.below(input)?;
    if !finder.takes(&chain) {
        return Err(refuse("its rows are not on the device"));
    }
    let mut rows = WindowRows::new(plan, input, chain, first);
    for (function, _) in &functions {
        if let Some(value) = distinct_value(function) {
            rows = rows.mark(&value)?;
        }
    }
    let order = rows.order()?;
    let functions = functions.into_iter().map(|(function, in_runs)| {
        let field = function.field().map_err(|error| refuse(&error.to_string()))?;
        let call = Call {
            function,
            in_runs,
            field: &field,
            order: &order,
        };
        call.lowered(&rows)
    });
    let functions = functions.collect::<Result<Vec<_>, Reason>>()?;
    let known = statistics(input).and_then(|known| known.num_rows.get_value().copied());
    let all: Vec<usize> = (0..plan.schema().fields().len()).collect();
    let source = PipelineSource::Windows(Arc::clone(plan));
    let mut over = Chain::over_table(source, plan.schema(), known.map(|rows| rows as u64), &all);
    over.windows = Some(Box::new(rows.level(order, functions)?));
    Ok(over)
}

/// A function of a node.
struct Call<'c> {
    function: &'c Arc<dyn WindowExpr>,
    /// Whether DataFusion computes it while rows arrive.
    in_runs: bool,
    field: &'c FieldRef,
    order: &'c [(Expr, SortOrder)],
}

impl Call<'_> {
    fn refuse(&self, detail: impl Into<String>) -> Reason {
        Reason::Function {
            name: self.function.name().to_owned(),
            detail: detail.into(),
        }
    }

    fn lowered(&self, rows: &WindowRows<'_>) -> Result<WindowFunctionCall, Reason> {
        let any = self.function.as_any();
        let (function, argument) = if let Some(standard) = any.downcast_ref::<StandardWindowExpr>() {
            self.standard(standard, rows)?
        } else if let Some(call) = aggregate_of(self.function) {
            self.aggregate(call, rows)?
        } else {
            return Err(self.refuse("no function of a window"));
        };
        let ignores_nulls = self.ignores_nulls();
        if ignores_nulls && !function.may_ignore_nulls(self.in_runs) {
            return Err(self.refuse("IGNORE NULLS"));
        }
        let frame = match function.has_frame() {
            true => self.frame(self.function.get_window_frame())?,
            false => WHOLE,
        };
        Ok(WindowFunctionCall {
            function,
            argument,
            ignores_nulls,
            frame,
            field: Arc::clone(self.field),
        })
    }

    /// Whether a pure window function has `IGNORE NULLS`.
    fn ignores_nulls(&self) -> bool {
        let standard = self.function.as_any().downcast_ref::<StandardWindowExpr>();
        let function = standard.map(StandardWindowExpr::get_standard_func_expr);
        // DataFusion exposes it only in the debug output.
        function.is_some_and(|function| format!("{function:?}").contains("ignore_nulls: true"))
    }

    /// A pure window function.
    fn standard(
        &self,
        standard: &StandardWindowExpr,
        rows: &WindowRows<'_>,
    ) -> Result<(WindowFunction, Option<Expr>), Reason> {
        let function = standard.get_standard_func_expr();
        let function = function.as_any().downcast_ref::<WindowUDFExpr>();
        let function = function.ok_or_else(|| self.refuse("no function of a window"))?;
        let arguments = function.args();
        let constant = |number: usize| -> Result<Option<ScalarValue>, Reason> {
            let Some(argument) = arguments.get(number) else {
                return Ok(None);
            };
            let literal = argument.downcast_ref::<Literal>();
            let literal = literal.ok_or_else(|| self.refuse("an argument that is no constant"))?;
            Ok(Some(literal.value().clone()))
        };
        let integer = |number: usize| -> Result<Option<i64>, Reason> {
            let value = constant(number)?.filter(|value| !value.is_null());
            let value = value.map(|value| integer_literal(&value).and_then(|n| i64::try_from(n).ok()));
            let refuse = || self.refuse("an argument that is no integer");
            value.map(|value| value.ok_or_else(refuse)).transpose()
        };
        let of_value = |kind: WindowFunction| -> Result<(WindowFunction, Option<Expr>), Reason> {
            let value = arguments.first().ok_or_else(|| self.refuse("no argument"))?;
            Ok((kind, Some(rows.lower(value)?)))
        };
        Ok(match function.fun().name() {
            "row_number" => (WindowFunction::RowNumber, None),
            "rank" => (WindowFunction::Rank, None),
            "dense_rank" => (WindowFunction::DenseRank, None),
            "percent_rank" => (WindowFunction::PercentRank, None),
            "cume_dist" => (WindowFunction::CumeDist, None),
            "ntile" => match integer(0)? {
                Some(tiles @ 1..) => (WindowFunction::Tile(tiles as u64), None),
                _ => return Err(self.refuse("no positive number of tiles")),
            },
            name @ ("lag" | "lead") => {
                let offset = integer(1)?.unwrap_or(1);
                let offset = match name {
                    "lag" => Some(offset),
                    _ => offset.checked_neg(),
                };
                let most = i64::from(u32::MAX);
                let offset = offset.map(|offset| offset.clamp(-most, most));
                let offset = offset.ok_or_else(|| self.refuse("an offset of 64 bits"))?;
                let default = constant(2)?.filter(|value| !value.data_type().is_null());
                let data_type = self.field.data_type();
                let default = match default {
                    Some(value) => value.cast_to(data_type),
                    None => ScalarValue::try_from(data_type),
                };
                let default = default.map_err(|error| self.refuse(error.to_string()))?;
                if is_string(data_type) && !default.is_null() {
                    return Err(self.refuse("a default that is a string"));
                }
                of_value(WindowFunction::Shift { offset, default })?
            }
            "first_value" => of_value(WindowFunction::First)?,
            "last_value" => of_value(WindowFunction::Last)?,
            "nth_value" => match integer(1)? {
                None | Some(0) => return Err(self.refuse("no number of a row")),
                Some(n) if n.unsigned_abs() > u64::from(u32::MAX) => {
                    return Err(self.refuse("a number of 64 bits"));
                }
                Some(n) => of_value(WindowFunction::Nth(n))?,
            },
            _ => return Err(self.refuse("no function of a window")),
        })
    }

    /// An aggregate of a frame.
    fn aggregate(
        &self,
        call: &AggregateFunctionExpr,
        rows: &WindowRows<'_>,
    ) -> Result<(WindowFunction, Option<Expr>), Reason> {
        // DataFusion exposes it only in the debug output.
        let text = format!("{:?}", self.function);
        if !text
            .rsplit("filter: ")
            .next()
            .is_some_and(|filter| filter.starts_with("None"))
        {
            return Err(self.refuse("FILTER"));
        }
        let of_frame = repeated_call(call, None, Arc::clone(self.field), &|value| rows.lower(value))?;
        let mut argument = of_frame.argument;
        if is_distinct(call) {
            argument = Some(self.distinct(call, rows)?);
        }
        let function = match call.fun().name() {
            "count" => WindowFunction::Count,
            "sum" => WindowFunction::Sum {
                wraps: of_frame.function == AggregateFunction::SumWrapping,
            },
            "avg" => {
                let of = argument.as_ref().map(Expr::data_type);
                let digits = match (self.field.data_type(), of) {
                    (DataType::Decimal128(_, result), Some(DataType::Decimal128(_, of))) => result - of,
                    _ => 0,
                };
                let digits = u32::try_from(digits);
                WindowFunction::Avg {
                    digits: digits.map_err(|_| self.refuse("an average of fewer digits"))?,
                }
            }
            "min" => WindowFunction::Min,
            "max" => WindowFunction::Max,
            _ => return Err(self.refuse("no aggregate of a window")),
        };
        Ok((function, argument))
    }

    /// The value of a row for an aggregate with DISTINCT: NULL unless the row is the first one with it.
    fn distinct(&self, call: &AggregateFunctionExpr, rows: &WindowRows<'_>) -> Result<Expr, Reason> {
        let value = distinct_value(self.function);
        let first = value.and_then(|value| Some((rows.is_first(&value)?, value)));
        let (first, value) = first.ok_or_else(|| {
            self.refuse("DISTINCT of several values, or over a frame that does not begin with its partition")
        })?;
        let value = rows.lower(&value)?;
        Ok(match call.fun().name() {
            "count" => {
                let counts = [first, value.is_null().negated()];
                let one = Expr::literal(ScalarValue::Int32(Some(1)));
                Expr::all(counts).map_or(one.clone(), |counts| Expr::only_where(counts, one))
            }
            _ => Expr::only_where(first, value),
        })
    }

    fn frame(&self, frame: &WindowFrame) -> Result<Frame, Reason> {
        let is_range = frame.units == WindowFrameUnits::Range;
        let bound = |bound: &WindowFrameBound, is_end: bool| -> Result<FrameBound, Reason> {
            let (distance, behind) = match bound {
                WindowFrameBound::CurrentRow => return Ok(FrameBound::CurrentRow),
                WindowFrameBound::Preceding(distance) => (distance, false),
                WindowFrameBound::Following(distance) => (distance, true),
            };
            if distance.is_null() {
                return match behind == is_end {
                    true => Ok(FrameBound::Unbounded),
                    false => Err(self.refuse("a frame without rows")),
                };
            }
            let distance = match is_range {
                true => self.distance(distance)?,
                false => {
                    let number = integer_literal(distance);
                    self.number(number.ok_or_else(|| self.refuse("a bound that is no integer"))?)?
                }
            };
            Ok(match behind {
                true => FrameBound::Following(distance),
                false => FrameBound::Preceding(distance),
            })
        };
        let (start, end) = (bound(&frame.start_bound, false)?, bound(&frame.end_bound, true)?);
        let counts = |bound| matches!(bound, FrameBound::Preceding(_) | FrameBound::Following(_));
        let units = match frame.units {
            WindowFrameUnits::Rows => Units::Rows,
            WindowFrameUnits::Groups => Units::Groups,
            WindowFrameUnits::Range if counts(start) || counts(end) => {
                let [(key, order)] = self.order else {
                    return Err(self.refuse("a RANGE frame by more than one key"));
                };
                let domain = match key.data_type().is_floating() {
                    true => Some(Interval::point(0)),
                    false => domain(key.data_type()),
                };
                let domain = domain.ok_or_else(|| self.refuse("a RANGE frame by a key that is no number"))?;
                Units::Range(Some(RangeKey {
                    column: 0,
                    order: *order,
                    domain: (domain.low, domain.high),
                }))
            }
            WindowFrameUnits::Range => Units::Range(None),
        };
        Ok(Frame { units, start, end })
    }

    /// A bound of a RANGE frame in the units of its key.
    fn distance(&self, distance: &ScalarValue) -> Result<Distance, Reason> {
        let refuse = || self.refuse("a bound of a RANGE frame that is no integer of its key's unit");
        let [(key, _)] = self.order else {
            return Err(self.refuse("a RANGE frame by more than one key"));
        };
        const DAY: i128 = 86_400_000_000_000;
        let data_type = key.data_type();
        let (months, days, nanoseconds) = match distance {
            ScalarValue::IntervalMonthDayNano(Some(interval)) => {
                (interval.months, interval.days, interval.nanoseconds)
            }
            ScalarValue::IntervalDayTime(Some(interval)) => {
                (0, interval.days, i64::from(interval.milliseconds) * 1_000_000)
            }
            ScalarValue::IntervalYearMonth(Some(months)) => (*months, 0, 0),
            ScalarValue::Float32(Some(float)) if *data_type == DataType::Float32 => {
                return self.float_distance((*float).into());
            }
            ScalarValue::Float64(Some(float)) if *data_type == DataType::Float64 => {
                return self.float_distance(*float);
            }
            plain if plain.data_type() == *data_type && domain(data_type).is_some() => {
                return self.number(integer_literal(plain).ok_or_else(refuse)?);
            }
            _ => return Err(refuse()),
        };
        let unit = match data_type {
            DataType::Date32 => DAY,
            DataType::Date64 => 1_000_000,
            DataType::Timestamp(unit, None) => match unit {
                TimeUnit::Second => 1_000_000_000,
                TimeUnit::Millisecond => 1_000_000,
                TimeUnit::Microsecond => 1_000,
                TimeUnit::Nanosecond => 1,
            },
            _ => return Err(refuse()),
        };
        let all = i128::from(days) * DAY + i128::from(nanoseconds);
        match (data_type, months) {
            (_, 0) if all % unit == 0 => self.number(all / unit),
            (DataType::Date32, 0..) if days >= 0 && nanoseconds >= 0 => Ok(Distance::Interval {
                months,
                days,
                nanoseconds,
            }),
            // Months do not keep the order of timestamps: the time of day stays, while the day is clamped to
            // the month.
            (DataType::Timestamp(..), 1..) => {
                Err(self.refuse("months as a bound of a RANGE frame by timestamps"))
            }
            _ => Err(refuse()),
        }
    }

    fn number(&self, number: i128) -> Result<Distance, Reason> {
        match number {
            0.. => Ok(Distance::Number(number)),
            _ => Err(self.refuse("a bound below zero")),
        }
    }

    fn float_distance(&self, float: f64) -> Result<Distance, Reason> {
        match float >= 0.0 {
            true => Ok(Distance::Float(float)),
            false => Err(self.refuse("a bound below zero")),
        }
    }
}

/// The aggregate call of a window function, if it is one.
fn aggregate_of(function: &Arc<dyn WindowExpr>) -> Option<&AggregateFunctionExpr> {
    let any = function.as_any();
    let plain = any.downcast_ref::<PlainAggregateWindowExpr>();
    let sliding = any.downcast_ref::<SlidingAggregateWindowExpr>();
    plain
        .map(PlainAggregateWindowExpr::get_aggregate_expr)
        .or_else(|| sliding.map(SlidingAggregateWindowExpr::get_aggregate_expr))
}

/// Whether repeated values change the result and have to be left out.
fn is_distinct(call: &AggregateFunctionExpr) -> bool {
    call.is_distinct() && !matches!(call.fun().name(), "min" | "max")
}

/// The value that an aggregate with DISTINCT counts once, if every frame contains the first row with it.
fn distinct_value(function: &Arc<dyn WindowExpr>) -> Option<Arc<dyn PhysicalExpr>> {
    let call = aggregate_of(function).filter(|call| is_distinct(call))?;
    let so_far = function.get_window_frame().start_bound.is_unbounded();
    match call.expressions().as_slice() {
        [value] if so_far => Some(Arc::clone(value)),
        _ => None,
    }
}
