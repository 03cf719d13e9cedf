//! The plan of a stream, and the subtrees that can be persistent operators.

use crate::graph::{PipelineRef, PipelineSource};
use arrow::datatypes::{DataType, SchemaRef, TimeUnit};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use galatea_base::reason::Reason;
use galatea_codegen::{PipelinePlan, SinkPlan};
use galatea_expression::{Expr, ExprKind, Function, TruncateUnit};
use std::sync::Arc;

/// The plan of a stream.
#[derive(Debug, Clone)]
pub(crate) struct StreamPlan {
    /// Filters and sink, over the source's columns.
    pub(super) pipeline: PipelinePlan,
    /// For groups: their windows.
    pub(super) window: Option<Window>,
    /// Schema of the source.
    pub(super) schema: SchemaRef,
    /// The plan of the input rows.
    pub(super) input: Arc<dyn ExecutionPlan>,
}

/// Consecutive tumbling windows of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// The group key that is the start of the window.
    pub(super) key: usize,
    /// The source's time column, by which rows are ordered.
    pub(super) time: usize,
    /// Length of a window in units of time.
    pub(super) stride: i64,
    /// The start of one of the windows.
    pub(super) origin: i64,
    /// Nanoseconds per unit.
    pub(super) nanoseconds: i64,
    /// Whether times that exceed 64 bits in nanoseconds have no window.
    pub(super) checked: bool,
}

fn refuse(detail: impl Into<String>) -> Reason {
    Reason::Node {
        node: "a stream".into(),
        detail: detail.into(),
    }
}

impl StreamPlan {
    /// The plan of a subtree over unbounded input.
    ///
    /// # Errors
    /// The reason why it cannot be a persistent operator.
    pub(crate) fn new(pipeline: PipelineRef<'_>) -> Result<Self, Reason> {
        let PipelineSource::Plan(input) = &pipeline.source else {
            return Err(refuse("its rows are made by another operator of the device"));
        };
        if !pipeline.build_sides.is_empty() {
            return Err(refuse("it is joined"));
        }
        let window = match &pipeline.plan.sink {
            SinkPlan::Rows { order: None, .. } => None,
            SinkPlan::Rows { .. } => return Err(refuse("all of its rows would be sorted")),
            SinkPlan::Aggregate { keys, .. } => Some(window(keys, input.plan())?),
            _ => return Err(refuse("it has no pipeline of its own")),
        };
        Ok(Self {
            pipeline: pipeline.plan.clone(),
            window,
            schema: Arc::clone(&pipeline.schema),
            input: Arc::clone(input.plan()),
        })
    }

    /// The result column that is the start of a window.
    pub(super) fn window_key(&self) -> Option<usize> {
        self.window.map(|window| window.key)
    }

    /// Its windows, for EXPLAIN.
    pub(crate) fn windows(&self) -> Option<String> {
        let window = self.window?;
        let nanoseconds = i128::from(window.stride) * i128::from(window.nanoseconds);
        let units = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
        let (unit, length) = units
            .into_iter()
            .find(|(_, length)| nanoseconds % length == 0)
            .unwrap_or(("ns", 1));
        let time = self.schema.field(window.time).name();
        Some(format!("{} {unit} of {time}", nanoseconds / length))
    }
}

/// The windows by which rows are grouped.
fn window(keys: &[Expr], input: &Arc<dyn ExecutionPlan>) -> Result<Window, Reason> {
    let found = keys
        .iter()
        .enumerate()
        .find_map(|(key, expr)| tumbling(key, expr));
    let window = found.ok_or_else(|| {
        refuse("no group would ever be complete: no group key is date_bin or date_trunc of a column")
    })?;
    let first = input.output_ordering().map(LexOrdering::first);
    let ordered = first.is_some_and(|first| {
        let column = first.expr.downcast_ref::<Column>();
        !first.options.descending && column.is_some_and(|column| column.index() == window.time)
    });
    match ordered {
        true => Ok(window),
        false => Err(refuse(
            "no window would ever be complete: the input is not declared to be ordered by its time (WITH ORDER)",
        )),
    }
}

/// The windows with that key as their start.
fn tumbling(key: usize, expr: &Expr) -> Option<Window> {
    let ExprKind::Call { function, arguments } = expr.kind() else {
        return None;
    };
    let [time] = arguments.as_slice() else {
        return None;
    };
    let DataType::Timestamp(unit, _) = expr.data_type() else {
        return None;
    };
    let nanoseconds = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    let (stride, origin, checked) = match function {
        Function::DateBin { stride, origin } if *stride > 0 => (*stride, *origin, true),
        Function::DateTrunc(unit) => {
            let length = match unit {
                TruncateUnit::Microsecond => 1_000,
                TruncateUnit::Millisecond => 1_000_000,
                TruncateUnit::Second => 1_000_000_000,
                TruncateUnit::Minute => 60 * 1_000_000_000,
                TruncateUnit::Hour => 3_600 * 1_000_000_000,
                TruncateUnit::Day => 86_400 * 1_000_000_000,
                _ => return None,
            };
            ((length / nanoseconds).max(1), 0, false)
        }
        _ => return None,
    };
    Some(Window {
        key,
        time: time.as_column()?,
        stride,
        origin,
        nanoseconds,
        checked,
    })
}

impl Window {
    /// The number of the window that contains a time; `None` if its start is NULL.
    pub(super) fn number(&self, time: i64) -> Option<i64> {
        let [time, stride, origin] = [time, self.stride, self.origin].map(i128::from);
        let distance = time - origin;
        let bin = distance - distance.rem_euclid(stride);
        let fits = |units: i128| i64::try_from(units * i128::from(self.nanoseconds)).is_ok();
        if self.checked && ![time, distance, bin, bin + origin].into_iter().all(fits) {
            return None;
        }
        i64::try_from((bin + origin).div_euclid(stride)).ok()
    }

    /// The start of the window with this number.
    pub(super) fn start(&self, number: i64) -> i64 {
        let phase = self.origin.rem_euclid(self.stride);
        number.wrapping_mul(self.stride).wrapping_add(phase)
    }

    /// Milliseconds in units of time, rounded up.
    pub(super) fn units(&self, milliseconds: u64) -> i64 {
        let nanoseconds = u128::from(milliseconds) * 1_000_000;
        i64::try_from(nanoseconds.div_ceil(self.nanoseconds as u128)).unwrap_or(i64::MAX)
    }
}
