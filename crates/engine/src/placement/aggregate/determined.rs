//! Group keys that other group keys determine.
//!
//! ```text
//! SELECT o_custkey, c_name, sum(o_totalprice) FROM orders JOIN customer ON o_custkey = c_custkey GROUP BY 1, 2
//!
//! orders ── groups by o_custkey ── look up c_name by o_custkey ── rows
//! ```
//!
//! A row of a lookup join has one match at most, so the key of the lookup determines all columns of the
//! match. Such columns need not be in the group table: the groups are computed by the other keys, and a
//! pipeline over the groups looks the columns up. The same applies to keys that are computed from other keys.
//!
//! Keys are removed only if all keys together take more than 64 bits. A group table stores shorter keys as
//! one number, but interns longer ones. The build sides are built twice, so they must be small.

use crate::graph::{BuildSide, PipelineSource, SharedRows};
use crate::placement::chain::{Buildable, Chain};
use crate::placement::nodes::statistics;
use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use galatea_base::policy::policy;
use galatea_codegen::SinkPlan;
use galatea_codegen::aggregate::AggregateCall;
use galatea_expression::{Expr, ExprKind, is_string};
use std::collections::BTreeMap;
use std::iter::zip;
use std::sync::Arc;

policy! {
    /// The group keys that are removed.
    pub(in crate::placement) struct DeterminedPolicy {
        /// Bits of a key that a group table stores as one number.
        bits: u32 = 64,
        /// Maximum number of rows that are scanned again for the build sides, as a share of the rows of the
        /// aggregate.
        again: f64 = 0.1,
    }
}

const POLICY: DeterminedPolicy = DeterminedPolicy::DEFAULT;

/// Bits of a string, or of another value without a known range.
const UNKNOWN_BITS: u32 = 32;

/// The group keys of an aggregate, without those that others determine.
pub(in crate::placement) struct DeterminedKeys {
    /// Numbers of the keys that remain.
    kept: Vec<usize>,
    /// All keys, over the groups by the keys that remain.
    keys: Vec<Expr>,
    /// The build sides that they look up, and the pipelines that build them.
    sides: Vec<(BuildSide, Option<Buildable>)>,
}

impl DeterminedKeys {
    /// The keys over the rows of `chain`, which is the chain of `input`. `group_by` contains them as
    /// DataFusion's expressions. `None` if no key is to be removed.
    pub(in crate::placement) fn of(
        keys: &[Expr],
        chain: &Chain,
        input: &Arc<dyn ExecutionPlan>,
        group_by: &[(Arc<dyn PhysicalExpr>, String)],
    ) -> Option<Self> {
        if keys.len() < 2
            || !chain.is_on_device()
            || bits_of_keys(keys, chain, input, group_by) <= POLICY.bits
        {
            return None;
        }
        let search = Search { chain };
        let mut kept: Vec<usize> = (0..keys.len()).collect();
        let mut by_depth = kept.clone();
        // The deepest expressions first, because they depend on others.
        by_depth.sort_by_key(|number| std::cmp::Reverse(keys[*number].depth()));
        for number in by_depth {
            let others: Vec<&Expr> = (kept.iter())
                .filter(|kept| **kept != number)
                .map(|kept| &keys[*kept])
                .collect();
            if search.determines(&others, &keys[number]) {
                kept.retain(|kept| *kept != number);
            }
        }
        if kept.len() == keys.len() || kept.is_empty() {
            return None;
        }
        let sides = search.sides_of(keys, &kept)?;
        let groups = OverGroups {
            by: kept.iter().map(|number| &keys[*number]).collect(),
            numbers: zip(sides.iter().copied(), 0..).collect(),
        };
        let over_groups = keys.iter().map(|key| groups.rewritten(key)).collect();
        let sides = sides.iter().map(|number| {
            let side = &chain.build_sides[*number];
            let side = BuildSide {
                wanted: groups.rewritten(&side.wanted),
                shared: SharedRows::default(),
                ..side.clone()
            };
            (side, chain.buildable[*number].clone())
        });
        Some(Self {
            keys: over_groups,
            sides: sides.collect(),
            kept,
        })
    }

    /// The chain of the groups of the aggregate `plan` over the rows of `rows`. `None` if the groups cannot
    /// be read on the device.
    pub(in crate::placement) fn chain(
        self,
        plan: &Arc<dyn ExecutionPlan>,
        (keys, aggregates): (&[Expr], &[AggregateCall]),
        rows: Chain,
    ) -> Option<Chain> {
        let schema = plan.schema();
        let columns = self.kept.iter().copied().chain(keys.len()..schema.fields().len());
        let schema: SchemaRef = Arc::new(schema.project(&columns.collect::<Vec<_>>()).ok()?);
        let sink = SinkPlan::Aggregate {
            keys: self.kept.iter().map(|number| keys[*number].clone()).collect(),
            aggregates: aggregates.to_vec(),
            kept: false,
        };
        let groups = rows.finish(sink, Arc::clone(&schema)).ok()?;
        if groups.root().plan.finishes_on_host() {
            return None;
        }
        let mut chain = Chain::over_groups(plan, schema, groups);
        let aggregates = chain.columns.split_off(self.kept.len());
        let columns = self.keys.into_iter().chain(aggregates);
        chain.project(columns.map(|column| (column, None)).collect());
        (chain.build_sides, chain.buildable) = self.sides.into_iter().unzip();
        Some(chain)
    }
}

/// The search for keys that others determine.
struct Search<'c> {
    /// The chain of the aggregate's rows.
    chain: &'c Chain,
}

impl Search<'_> {
    /// Whether all rows with equal values of `others` have the same value of `key`.
    fn determines(&self, others: &[&Expr], key: &Expr) -> bool {
        // Zeros of both signs are one group, but other functions of them differ.
        if others.contains(&key) {
            return !key.data_type().is_floating();
        }
        match key.kind() {
            ExprKind::Literal(_) => true,
            ExprKind::Lookup { build_side, key, .. } | ExprKind::Member { build_side, key } => {
                self.rows_of_side(*build_side).is_some() && self.determines(others, key)
            }
            ExprKind::Column(_)
            | ExprKind::Pending(_)
            | ExprKind::RowNumber
            | ExprKind::TableRow
            | ExprKind::LateMaterialised(_)
            | ExprKind::Dictionary { .. }
            | ExprKind::Hosted { .. }
            | ExprKind::Absent { .. } => false,
            _ => {
                let operands = key.children();
                !operands.is_empty()
                    && operands
                        .into_iter()
                        .all(|operand| self.determines(others, operand))
            }
        }
    }

    /// The number of rows that are scanned to build a build side again; `None` if it cannot be built twice.
    fn rows_of_side(&self, number: usize) -> Option<u64> {
        match self.chain.buildable.get(number)?.as_ref()? {
            Buildable::Rows { chain, .. } => scanned(chain),
            _ => None,
        }
    }

    /// The build sides that the removed keys look up, in ascending order. `None` if they are too large.
    fn sides_of(&self, keys: &[Expr], kept: &[usize]) -> Option<Vec<usize>> {
        let by: Vec<&Expr> = kept.iter().map(|number| &keys[*number]).collect();
        let mut sides = Vec::new();
        let removed = (0..keys.len()).filter(|number| !kept.contains(number));
        removed.for_each(|number| add_sides(&keys[number], &by, &mut sides));
        sides.sort_unstable();
        sides.dedup();
        let rows = sides.iter().map(|side| self.rows_of_side(*side));
        let rows: u64 = rows.sum::<Option<u64>>()?;
        let all = self.chain.rows()?;
        (rows as f64 <= POLICY.again * all as f64).then_some(sides)
    }
}

/// Adds the build sides that `key` looks up, except in the keys `by`.
fn add_sides(key: &Expr, by: &[&Expr], sides: &mut Vec<usize>) {
    if by.contains(&key) {
        return;
    }
    if let ExprKind::Lookup { build_side, .. } | ExprKind::Member { build_side, .. } = key.kind() {
        sides.push(*build_side);
    }
    (key.children().into_iter()).for_each(|operand| add_sides(operand, by, sides));
}

/// The number of rows of the tables that a chain reads. `None` if other rows are among them, or if it is
/// unknown.
fn scanned(chain: &Chain) -> Option<u64> {
    let is_table = matches!(
        chain.source,
        PipelineSource::Stored(_) | PipelineSource::Files { .. }
    );
    let sides = chain.buildable.iter().map(|side| match side {
        Some(Buildable::Rows { chain, .. }) => scanned(chain),
        _ => None,
    });
    let sides: u64 = sides.sum::<Option<u64>>()?;
    Some(sides + chain.rows().filter(|_| is_table)?)
}

/// Expressions over the groups by some of the keys.
struct OverGroups<'k> {
    /// The keys of the groups.
    by: Vec<&'k Expr>,
    /// By number of a build side, its number in the pipeline over the groups.
    numbers: BTreeMap<usize, usize>,
}

impl OverGroups<'_> {
    /// The expression over the groups.
    fn rewritten(&self, expression: &Expr) -> Expr {
        expression.replaced(&|part| {
            if let Some(column) = self.by.iter().position(|key| *key == part) {
                return Some(Expr::column(column, part.data_type().clone(), part.nullable()));
            }
            let kind = match part.kind() {
                ExprKind::Lookup {
                    build_side,
                    column,
                    name,
                    made,
                    key,
                } => ExprKind::Lookup {
                    build_side: self.numbers[build_side],
                    column: *column,
                    name: name.clone(),
                    made: *made,
                    key: self.rewritten(key),
                },
                ExprKind::Member { build_side, key } => ExprKind::Member {
                    build_side: self.numbers[build_side],
                    key: self.rewritten(key),
                },
                _ => return None,
            };
            Some(Expr::new(kind, part.data_type().clone(), part.nullable()))
        })
    }
}

/// The expected number of bits of all keys together.
fn bits_of_keys(
    keys: &[Expr],
    chain: &Chain,
    input: &Arc<dyn ExecutionPlan>,
    group_by: &[(Arc<dyn PhysicalExpr>, String)],
) -> u32 {
    let known = statistics(input);
    let bits = zip(keys, group_by).map(|(key, (expression, _))| {
        let column = expression.downcast_ref::<Column>();
        let column = column.and_then(|column| known.as_ref()?.column_statistics.get(column.index()));
        bits_of(key, chain, column)
    });
    bits.sum()
}

/// The expected number of bits of a key with these statistics.
fn bits_of(key: &Expr, chain: &Chain, known: Option<&ColumnStatistics>) -> u32 {
    let number = |value: &Precision<ScalarValue>| galatea_expression::integer_literal(value.get_value()?);
    let span = known.and_then(|known| {
        let [least, greatest] = [&known.min_value, &known.max_value].map(number);
        u64::try_from(greatest?.checked_sub(least?)?).ok()
    });
    let distinct = known.and_then(|known| known.distinct_count.get_value());
    if let Some(values) = span.or(distinct.map(|values| *values as u64)) {
        return u64::BITS - values.leading_zeros();
    }
    if !is_string(key.data_type()) {
        let bytes = key.data_type().primitive_width();
        return bytes.map_or(UNKNOWN_BITS, |bytes| 8 * bytes as u32);
    }
    // A dictionary has one value for each row of its table at most.
    let rows = match key.kind() {
        ExprKind::Lookup { build_side, .. } => match &chain.buildable[*build_side] {
            Some(Buildable::Rows { chain, .. }) => chain.rows(),
            _ => chain.build_sides[*build_side].rows,
        },
        _ => chain.rows(),
    };
    rows.map_or(UNKNOWN_BITS, |rows| u64::BITS - rows.leading_zeros())
}
