//! Builds the plan of a tree of joins.

use super::region::{Key, Region, RelationColumn, Set, Tree, with_columns};
use arrow::datatypes::Schema;
use datafusion::common::{JoinSide, JoinType, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExecBuilder;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::sync::Arc;

/// The region joined in the order of the tree, with the columns of its original plan.
pub(super) fn plan(
    region: &Region,
    tree: &Tree,
    was: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let joined = Builder { region }.join(tree)?;
    let schema = was.schema();
    let columns = region.output.iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| ProjectionExpr {
        expr: Arc::new(joined.column(*column)),
        alias: field.name().clone(),
    });
    let projected = ProjectionExec::try_new(columns.collect::<Vec<_>>(), Arc::clone(&joined.plan))?;
    Ok(Arc::new(projected))
}

/// A subtree as a plan.
struct Joined {
    plan: Arc<dyn ExecutionPlan>,
    /// The relation columns of its output.
    columns: Vec<RelationColumn>,
}

impl Joined {
    fn position(&self, column: RelationColumn) -> Option<usize> {
        self.columns.iter().position(|own| *own == column)
    }

    fn column(&self, column: RelationColumn) -> Column {
        let index = self.position(column).expect("it is needed above, so it was kept");
        Column::new(self.plan.schema().field(index).name(), index)
    }

    fn key(&self, key: &Key) -> Arc<dyn PhysicalExpr> {
        let relation = key.relation;
        with_columns(&key.expression, &|column| {
            self.column(RelationColumn { relation, column })
        })
    }
}

struct Builder<'r> {
    region: &'r Region,
}

impl Builder<'_> {
    fn join(&self, tree: &Tree) -> Result<Joined> {
        let (left, right) = match tree {
            Tree::Relation(relation) => {
                let plan = Arc::clone(&self.region.relations[*relation].plan);
                let relation = *relation;
                let columns = 0..plan.schema().fields().len();
                let columns = columns
                    .map(|column| RelationColumn { relation, column })
                    .collect();
                return Ok(Joined { plan, columns });
            }
            Tree::Join(left, right) => (left, right),
        };
        let sets = [left.set(), right.set()];
        // The right side of a semi join is a relation of its own; it stays there.
        if self.semi(left) {
            return self.joined(
                [sets[1], sets[0]],
                self.join(right)?,
                self.join(left)?,
                JoinType::LeftSemi,
            );
        }
        let kind = if self.semi(right) {
            JoinType::LeftSemi
        } else {
            JoinType::Inner
        };
        self.joined(sets, self.join(left)?, self.join(right)?, kind)
    }

    fn semi(&self, tree: &Tree) -> bool {
        matches!(tree, Tree::Relation(relation) if self.region.relations[*relation].semi)
    }

    fn joined(&self, sets: [Set; 2], left: Joined, right: Joined, kind: JoinType) -> Result<Joined> {
        let keys = self.region.classes.iter().filter_map(|class| {
            let of_side = |side: usize| class.iter().find(|key| sets[side] >> key.relation & 1 != 0);
            let pair = (of_side(0)?, of_side(1)?);
            Some((left.key(pair.0), right.key(pair.1)))
        });
        let keys: Vec<_> = keys.collect();
        let filter = self.filter(sets, &left, &right);
        let needed = self.region.needed(sets[0] | sets[1]);
        let mut columns = left.columns;
        if kind == JoinType::Inner {
            columns.extend(right.columns);
        }
        let kept: Vec<usize> = (0..columns.len())
            .filter(|i| needed.contains(&columns[*i]))
            .collect();
        let columns_kept = kept.iter().map(|i| columns[*i]).collect();
        let projection = (kept.len() < columns.len()).then_some(kept);
        let plan = HashJoinExecBuilder::new(left.plan, right.plan, keys, kind)
            .with_filter(filter)
            .with_projection(projection)
            .with_partition_mode(self.region.mode)
            .build_exec()?;
        Ok(Joined {
            plan,
            columns: columns_kept,
        })
    }

    /// The conditions that can be tested on the join of two sets, and not earlier.
    fn filter(&self, sets: [Set; 2], left: &Joined, right: &Joined) -> Option<JoinFilter> {
        let both = sets[0] | sets[1];
        let tested = self.region.conditions.iter().filter(|condition| {
            let set = condition.set();
            set & !both == 0 && sets.iter().all(|side| set & !side != 0)
        });
        let filters = tested.map(|condition| {
            let columns = condition
                .columns
                .iter()
                .map(|column| match left.position(*column) {
                    Some(index) => ColumnIndex {
                        index,
                        side: JoinSide::Left,
                    },
                    None => ColumnIndex {
                        index: right.column(*column).index(),
                        side: JoinSide::Right,
                    },
                });
            (condition.filter.clone(), columns.collect::<Vec<_>>())
        });
        filters
            .map(|(filter, columns)| {
                JoinFilter::new(
                    Arc::clone(filter.expression()),
                    columns,
                    Arc::clone(filter.schema()),
                )
            })
            .reduce(both_filters)
    }
}

/// The conjunction of two filters.
fn both_filters(first: JoinFilter, second: JoinFilter) -> JoinFilter {
    let shift = first.schema().fields().len();
    let moved = with_columns(second.expression(), &|index| {
        Column::new(second.schema().field(index).name(), index + shift)
    });
    let fields = first
        .schema()
        .fields()
        .iter()
        .chain(second.schema().fields())
        .cloned();
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = [first.column_indices(), second.column_indices()].concat();
    let expression = BinaryExpr::new(Arc::clone(first.expression()), Operator::And, moved);
    JoinFilter::new(Arc::new(expression), columns, schema)
}
