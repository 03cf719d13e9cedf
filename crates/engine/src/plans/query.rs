//! What a query is known again by: its logical plan before any rule, the functions that it calls, its tables.

use super::tables::{self, TableVersion};
use arrow::datatypes::SchemaRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::WindowFunctionDefinition;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, TableScan, TableSource, Volatility, WindowUDF,
};
use galatea_store::Identity;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Expressions of a query whose plan is kept, at most.
const EXPRESSIONS: usize = 1 << 14;

/// A function of a query. Equal ones can stand for each other, by DataFusion's contract.
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

/// A query whose plan can be used again. Holds no table.
#[derive(Debug)]
pub(super) struct Query {
    /// The logical plan, whose tables have schemas and no rows.
    plan: LogicalPlan,
    hash: u64,
    functions: Vec<Function>,
    tables: Vec<TableVersion>,
}

/// What is read off a logical plan.
#[derive(Default)]
struct Parts {
    functions: Vec<Function>,
    sources: Vec<Arc<dyn TableSource>>,
    expressions: usize,
    /// Whether some part may mean something else the next time.
    unknown: bool,
}

impl Query {
    /// The query of a plan, with the tables as they are now and what tells when those of the store have other
    /// versions; none if its plan may not be used again.
    pub(super) fn of(plan: &LogicalPlan) -> Option<(Self, Vec<Arc<Identity>>)> {
        let mut parts = Parts::default();
        plan.apply_with_subqueries(|node| parts.read(node)).ok()?;
        if parts.unknown {
            return None;
        }
        let (mut versions, mut identities) = (Vec::new(), Vec::new());
        for source in &parts.sources {
            let (version, identity) = tables::version(source)?;
            versions.push(version);
            identities.extend(identity);
        }
        let plan = plan
            .clone()
            .transform_down_with_subqueries(without_table)
            .ok()?
            .data;
        let mut state = DefaultHasher::new();
        plan.hash(&mut state);
        let query = Self {
            plan,
            hash: state.finish(),
            functions: parts.functions,
            tables: versions,
        };
        Some((query, identities))
    }

    /// A hash of the logical plan.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    /// Whether this is the same query over the same versions of the same tables.
    pub(super) fn same(&self, other: &Self) -> bool {
        let mut tables = self.tables.iter().zip(&other.tables);
        self.tables.len() == other.tables.len()
            && tables.all(|(one, other)| one.same(other))
            && self.functions == other.functions
            && self.plan == other.plan
    }
}

impl Parts {
    fn read(&mut self, node: &LogicalPlan) -> Result<TreeNodeRecursion> {
        match node {
            LogicalPlan::TableScan(scan) => {
                self.unknown |= !scan.statistics_requests.is_empty();
                self.sources.push(Arc::clone(&scan.source));
            }
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
            // Statements change something, extensions and the rows of a recursive query are not known here.
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

/// A scan as it is compared: without its table, which would live as long as the plan is kept.
fn without_table(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    Ok(match node {
        LogicalPlan::TableScan(scan) => Transformed::yes(LogicalPlan::TableScan(TableScan {
            source: Arc::new(SchemaOnly(scan.source.schema())),
            ..scan
        })),
        node => Transformed::no(node),
    })
}
