//! The identity of a query in the cache: its logical plan before any rule and the functions that it calls.

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::logical_expr::expr::WindowFunctionDefinition;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableScan, TableSource, Volatility, WindowUDF,
};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Maximum number of expressions in a query with a cached plan.
const EXPRESSIONS: usize = 1 << 14;

/// A function of a query. Equal ones are interchangeable, by DataFusion's contract.
#[derive(Debug, Clone, PartialEq)]
enum Function {
    Scalar(Arc<ScalarUDF>),
    HigherOrder(Arc<HigherOrderUDF>),
    Aggregate(Arc<AggregateUDF>),
    Window(Arc<WindowUDF>),
}

impl Function {
    /// The function that an expression calls.
    fn of(expression: &Expr) -> Option<Self> {
        match expression {
            Expr::ScalarFunction(call) => Some(Self::Scalar(Arc::clone(&call.func))),
            Expr::HigherOrderFunction(call) => Some(Self::HigherOrder(Arc::clone(&call.func))),
            Expr::AggregateFunction(call) => Some(Self::Aggregate(Arc::clone(&call.func))),
            Expr::WindowFunction(call) => Some(match &call.fun {
                WindowFunctionDefinition::AggregateUDF(function) => Self::Aggregate(Arc::clone(function)),
                WindowFunctionDefinition::WindowUDF(function) => Self::Window(Arc::clone(function)),
            }),
            _ => None,
        }
    }

    fn volatility(&self) -> Volatility {
        match self {
            Self::Scalar(function) => function.signature().volatility,
            Self::HigherOrder(function) => function.signature().volatility,
            Self::Aggregate(function) => function.signature().volatility,
            Self::Window(function) => function.signature().volatility,
        }
    }
}

/// A query with a plan that can be reused, over any versions of its tables. It holds no table.
#[derive(Debug)]
pub(super) struct Query {
    /// The logical plan; its tables have schemas and no rows.
    plan: LogicalPlan,
    hash: u64,
    functions: Vec<Function>,
}

/// The parts of a logical plan that identify it.
#[derive(Default)]
struct Parts {
    functions: Vec<Function>,
    expressions: usize,
    /// Whether the meaning of some part may change.
    unknown: bool,
}

impl Query {
    /// The query of a plan, and the tables that it scans, in the order of its nodes; `None` if its plan must
    /// not be reused.
    pub(super) fn of(plan: &LogicalPlan) -> Option<(Self, Vec<Arc<dyn TableSource>>)> {
        let mut parts = Parts::default();
        plan.apply_with_subqueries(|node| parts.read(node)).ok()?;
        if parts.unknown {
            return None;
        }
        let mut tables = Vec::new();
        let plan = with_tables(plan, |scan| {
            tables.push(Arc::clone(&scan.source));
            Ok(Arc::new(SchemaOnly(scan.source.schema())))
        });
        let plan = plan.ok()?;
        let mut state = DefaultHasher::new();
        plan.hash(&mut state);
        let query = Self {
            plan,
            hash: state.finish(),
            functions: parts.functions,
        };
        Some((query, tables))
    }

    /// The logical plan over tables: those that [`Self::of`] returned, or others with the same columns.
    ///
    /// # Errors
    /// An internal error for fewer tables than scans.
    pub(super) fn over(&self, tables: &[Arc<dyn TableSource>]) -> Result<LogicalPlan> {
        let mut tables = tables.iter();
        with_tables(&self.plan, |_| {
            let table = tables.next().cloned();
            table.ok_or_else(|| internal_datafusion_err!("a known query has more scans than tables"))
        })
    }

    /// A hash of the logical plan.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Whether this is the same query, over any tables.
    pub(super) fn same(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.hash == other.hash && self.functions == other.functions && self.plan == other.plan)
    }
}

impl Parts {
    fn read(&mut self, node: &LogicalPlan) -> Result<TreeNodeRecursion> {
        match node {
            LogicalPlan::TableScan(scan) => self.unknown |= !scan.statistics_requests.is_empty(),
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Repartition(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::Distinct(_)
            | LogicalPlan::Unnest(_) => {}
            // Statements have side effects; extensions and the rows of a recursive query are not supported
            // here.
            _ => self.unknown = true,
        }
        node.apply_expressions(|expression| expression.apply(|part| self.read_expression(part)))?;
        Ok(match self.unknown {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    }

    fn read_expression(&mut self, expression: &Expr) -> Result<TreeNodeRecursion> {
        self.expressions += 1;
        let variable = matches!(expression, Expr::ScalarVariable(..) | Expr::Placeholder(_));
        self.unknown |= variable || self.expressions > EXPRESSIONS;
        if let Some(function) = Function::of(expression) {
            // `now()` is one moment in a query and another one in the next; `random()` is anything.
            self.unknown |= function.volatility() != Volatility::Immutable;
            self.functions.push(function);
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

/// A table without rows.
#[derive(Debug)]
struct SchemaOnly(SchemaRef);

impl TableSource for SchemaOnly {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0)
    }
}

/// A plan with other tables in its scans, in the order of the plan's nodes: those of a cached query would
/// live as long as it is cached.
fn with_tables(
    plan: &LogicalPlan,
    mut table: impl FnMut(&TableScan) -> Result<Arc<dyn TableSource>>,
) -> Result<LogicalPlan> {
    let plan = plan.clone().transform_down_with_subqueries(|node| {
        Ok(match node {
            LogicalPlan::TableScan(scan) => Transformed::yes(LogicalPlan::TableScan(TableScan {
                source: table(&scan)?,
                ..scan
            })),
            node => Transformed::no(node),
        })
    })?;
    Ok(plan.data)
}
