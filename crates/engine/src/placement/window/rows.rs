//! The rows of a window, and for aggregates with DISTINCT which of them are the first with a value:
//!
//! ```text
//! count(DISTINCT x) OVER (PARTITION BY p ORDER BY o)
//! lower window    row_number() OVER (PARTITION BY p, x ORDER BY o, row)             1: the first with that x
//! upper window    count(CASE WHEN it is 1 THEN x END) OVER (PARTITION BY p ORDER BY o, row)
//! ```
//!
//! A frame that begins with its partition contains the first row of each of its values. Rows that are equal
//! in the order of the window are in the order of the table in both.

use crate::graph::PipelineSource;
use crate::placement::chain::window_input::{WHOLE, Window, WindowFunctionCall};
use crate::placement::chain::{Chain, WindowLevel};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::ExecutionPlan;
use galatea_base::reason::Reason;
use galatea_expression::{Expr, SortOrder, WindowFunction, lower};
use std::sync::Arc;

/// Keys of an order.
pub(in crate::placement) type Keys = Vec<(Expr, SortOrder)>;

/// The rows of a window, with marks for DISTINCT: see the module.
pub(in crate::placement) struct WindowRows<'p> {
    /// The node of the window.
    plan: &'p Arc<dyn ExecutionPlan>,
    /// The node that returns the rows.
    input: &'p Arc<dyn ExecutionPlan>,
    /// A function over the window.
    window: &'p Arc<dyn WindowExpr>,
    /// The columns of the input. If values are marked, the number of the row in the input follows, and for
    /// each value the number of the row among those with the same value.
    chain: Chain,
    marked: Vec<Arc<dyn PhysicalExpr>>,
}

impl<'p> WindowRows<'p> {
    /// The rows of `input`, which has this chain.
    pub(in crate::placement) fn new(
        plan: &'p Arc<dyn ExecutionPlan>,
        input: &'p Arc<dyn ExecutionPlan>,
        chain: Chain,
        window: &'p Arc<dyn WindowExpr>,
    ) -> Self {
        Self {
            plan,
            input,
            window,
            chain,
            marked: Vec::new(),
        }
    }

    /// An expression over the columns of the input.
    pub(in crate::placement) fn lower(&self, expression: &Arc<dyn PhysicalExpr>) -> Result<Expr, Reason> {
        Ok(lower(expression, &self.input.schema())?.substitute(&self.chain.columns))
    }

    /// The keys of the partition.
    pub(in crate::placement) fn partition(&self) -> Result<Keys, Reason> {
        let keys = self.window.partition_by().iter();
        keys.map(|key| Ok((self.lower(key)?, SortOrder::ASCENDING)))
            .collect()
    }

    /// The keys of the order within the partition.
    pub(in crate::placement) fn order(&self) -> Result<Keys, Reason> {
        let keys = self.window.order_by().iter().map(|key| {
            let order = SortOrder {
                descending: key.options.descending,
                nulls_first: key.options.nulls_first,
            };
            Ok((self.lower(&key.expr)?, order))
        });
        keys.collect()
    }

    fn width(&self) -> usize {
        self.input.schema().fields().len()
    }

    /// The number of a row in the order of the input.
    fn number(&self) -> Expr {
        match self.marked.is_empty() {
            true => Expr::row_number(),
            false => self.chain.columns[self.width()].clone(),
        }
    }

    /// Numbers the rows of each partition with the same value, once for each `value`.
    pub(in crate::placement) fn mark(mut self, value: &Arc<dyn PhysicalExpr>) -> Result<Self, Reason> {
        if self.marked.contains(value) {
            return Ok(self);
        }
        let mut partition = self.partition()?;
        partition.push((self.lower(value)?, SortOrder::ASCENDING));
        let (order, number) = (self.order()?, self.number());
        let mut chain = self.chain;
        if self.marked.is_empty() {
            chain.columns.push(number.clone());
            chain.plain.push(None);
        }
        let mark = Arc::new(Field::new("occurrence", DataType::UInt64, false));
        let mut fields: Vec<Arc<Field>> = self.input.schema().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new("row", DataType::UInt32, false)));
        fields.extend((0..=self.marked.len()).map(|_| Arc::clone(&mark)));
        let all: Vec<usize> = (0..fields.len()).collect();
        let source = PipelineSource::Windows(Arc::clone(self.plan));
        let mut over = Chain::over_table(source, Arc::new(Schema::new(fields)), chain.rows(), &all);
        over.windows = Some(Box::new(WindowLevel {
            window: Window {
                partition,
                order,
                row: number,
                functions: vec![WindowFunctionCall {
                    function: WindowFunction::RowNumber,
                    argument: None,
                    ignores_nulls: false,
                    frame: WHOLE,
                    field: mark,
                }],
            }
            .checked()?,
            input: chain,
        }));
        self.marked.push(Arc::clone(value));
        Ok(Self { chain: over, ..self })
    }

    /// Whether a row is the first of its partition with this value; `None` if the value is not marked.
    pub(in crate::placement) fn is_first(&self, value: &Arc<dyn PhysicalExpr>) -> Option<Expr> {
        let number = self.marked.iter().position(|marked| marked == value)?;
        let one = Expr::literal(ScalarValue::UInt64(Some(1)));
        Some(Expr::equal(
            self.chain.columns[self.width() + 1 + number].clone(),
            one,
        ))
    }

    /// The functions over the window of these rows.
    pub(in crate::placement) fn level(
        self,
        order: Keys,
        functions: Vec<WindowFunctionCall>,
    ) -> Result<WindowLevel, Reason> {
        let window = Window {
            partition: self.partition()?,
            order,
            row: self.number(),
            functions,
        };
        let window = window.checked()?;
        let width = self.width();
        let mut input = self.chain;
        input.columns.truncate(width);
        input.plain.truncate(width);
        Ok(WindowLevel { input, window })
    }
}
