//! A tree of inner and semi joins, as relations and conditions.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Relations that a [`Set`] can hold.
pub(super) const MAX_RELATIONS: usize = 64;

/// A set of relations, one bit each.
pub(super) type Set = u64;

/// A column of a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RelationColumn {
    pub(super) relation: usize,
    pub(super) column: usize,
}

/// An order of joins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tree {
    Relation(usize),
    Join(Box<Tree>, Box<Tree>),
}

impl Tree {
    pub(super) fn join(left: Tree, right: Tree) -> Self {
        Self::Join(Box::new(left), Box::new(right))
    }

    /// Its set of relations.
    pub(super) fn set(&self) -> Set {
        match self {
            Self::Relation(relation) => 1 << relation,
            Self::Join(left, right) => left.set() | right.set(),
        }
    }
}

/// A relation, and the way it is joined.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// Whether it is the right side of a semi join: only the existence of a row with equal keys counts. It is
    /// joined to one other relation.
    pub(super) semi: bool,
}

/// An expression over the columns of one relation.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub(super) relation: usize,
    pub(super) expression: Arc<dyn PhysicalExpr>,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.relation == other.relation && self.expression.as_ref() == other.expression.as_ref()
    }
}

/// A condition other than an equality, over columns of its own schema.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    pub(super) filter: JoinFilter,
    /// The relation columns behind its columns.
    pub(super) columns: Vec<RelationColumn>,
}

impl Condition {
    pub(super) fn set(&self) -> Set {
        self.columns
            .iter()
            .fold(0, |set, column| set | 1 << column.relation)
    }
}

/// Relations and their join conditions.
#[derive(Debug, Clone)]
pub(super) struct Region {
    pub(super) relations: Vec<Relation>,
    /// Equal keys, each of another relation. When two sets with keys of one class are joined, one pair of
    /// them tests them all.
    pub(super) classes: Vec<Vec<Key>>,
    pub(super) conditions: Vec<Condition>,
    /// The columns of its rows.
    pub(super) output: Vec<RelationColumn>,
    pub(super) written: Tree,
    pub(super) mode: PartitionMode,
}

impl Region {
    /// The region with this plan as its root, if it joins relations.
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        Self::below(plan)?.with_equal_keys()
    }

    /// The region with its pairs of keys as classes, unless it has more relations than a set can hold.
    fn with_equal_keys(mut self) -> Option<Self> {
        if self.relations.len() > MAX_RELATIONS {
            return None;
        }
        self.classes = equal_keys(&self);
        Some(self)
    }

    /// The region of a semi join that also tests a condition, and of its left side. The condition is left
    /// out: it only removes rows. The last relation is the right side.
    pub(super) fn of_conditional_semi_join(join: &HashJoinExec) -> Option<Self> {
        if !is_plain(join) || *join.join_type() != JoinType::LeftSemi || join.filter().is_none() {
            return None;
        }
        let mut region = Self::of_input(join.left());
        let relation = region.relations.len();
        for (left, right) in join.on() {
            let expression = Arc::clone(right);
            let pair = vec![region.key(left)?, Key { relation, expression }];
            region.classes.push(pair);
        }
        region.relations.push(Relation {
            plan: Arc::clone(join.right()),
            semi: true,
        });
        region.with_equal_keys()
    }

    /// The joins of a plan, if it is one or projects one.
    fn below(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            let mut region = Self::below(projection.input())?;
            let columns = projection.expr().iter();
            let columns = columns.map(|column| Some(column.expr.downcast_ref::<Column>()?.index()));
            let columns: Vec<usize> = columns.collect::<Option<_>>()?;
            region.project(&columns);
            return Some(region);
        }
        let join = plan.downcast_ref::<HashJoinExec>()?;
        let semi = *join.join_type() == JoinType::LeftSemi && join.filter().is_none();
        if !is_plain(join) || !(semi || *join.join_type() == JoinType::Inner) {
            return None;
        }
        let left = Self::of_input(join.left());
        let right = match semi {
            true => Self::of_relation(join.right(), true),
            false => Self::of_input(join.right()),
        };
        let mut keys = Vec::with_capacity(join.on().len());
        for (left_key, right_key) in join.on() {
            keys.push(vec![left.key(left_key)?, right.key(right_key)?]);
        }
        let met = keys.first()?[0].relation;
        if semi && keys.iter().any(|pair| pair[0].relation != met) {
            return None;
        }
        left.joined(right, keys, join)
    }

    fn of_input(plan: &Arc<dyn ExecutionPlan>) -> Self {
        Self::below(plan).unwrap_or_else(|| Self::of_relation(plan, false))
    }

    fn of_relation(plan: &Arc<dyn ExecutionPlan>, semi: bool) -> Self {
        Self {
            relations: vec![Relation {
                plan: Arc::clone(plan),
                semi,
            }],
            classes: vec![],
            conditions: vec![],
            output: (0..plan.schema().fields().len())
                .map(|column| RelationColumn { relation: 0, column })
                .collect(),
            written: Tree::Relation(0),
            mode: PartitionMode::Auto,
        }
    }

    fn project(&mut self, columns: &[usize]) {
        self.output = columns.iter().map(|column| self.output[*column]).collect();
    }

    /// A key over the output as one over a relation, if it belongs to a single relation.
    fn key(&self, key: &Arc<dyn PhysicalExpr>) -> Option<Key> {
        let columns = collect_columns(key);
        let mut relations = columns.iter().map(|column| self.output[column.index()].relation);
        let relation = relations.next()?;
        if relations.any(|other| other != relation) || is_volatile(key) {
            return None;
        }
        let schema = self.relations[relation].plan.schema();
        let expression = with_columns(key, &|index| {
            let column = self.output[index].column;
            Column::new(schema.field(column).name(), column)
        });
        Some(Key { relation, expression })
    }

    /// Both regions in one; `None` if the condition of the join concerns only one relation, or is volatile.
    fn joined(mut self, mut right: Self, mut keys: Vec<Vec<Key>>, join: &HashJoinExec) -> Option<Self> {
        let shift = self.relations.len();
        right.shift(shift);
        for pair in &mut keys {
            pair[1].relation += shift;
        }
        self.classes.extend(right.classes);
        self.classes.extend(keys);
        self.conditions.extend(right.conditions);
        self.relations.extend(right.relations);
        if let Some(filter) = join.filter() {
            let columns = filter.column_indices().iter();
            let columns = columns.map(|column| match column.side {
                JoinSide::Right => right.output[column.index],
                _ => self.output[column.index],
            });
            let condition = Condition {
                columns: columns.collect(),
                filter: filter.clone(),
            };
            if condition.set().count_ones() < 2 || is_volatile(filter.expression()) {
                return None;
            }
            self.conditions.push(condition);
        }
        if *join.join_type() == JoinType::Inner {
            self.output.extend(right.output);
        }
        self.written = Tree::join(self.written, right.written);
        self.mode = *join.partition_mode();
        if let Some(projection) = join.projection.as_ref() {
            self.project(projection);
        }
        Some(self)
    }

    /// The columns that are needed above the join of a set.
    pub(super) fn needed(&self, set: Set) -> BTreeSet<RelationColumn> {
        let mut needed: BTreeSet<RelationColumn> = self.output.iter().copied().collect();
        let split = self.classes.iter().filter(|class| {
            let inside = class.iter().filter(|key| set >> key.relation & 1 != 0).count();
            inside < class.len()
        });
        for key in split.flatten() {
            let columns = collect_columns(&key.expression);
            needed.extend(columns.iter().map(|column| RelationColumn {
                relation: key.relation,
                column: column.index(),
            }));
        }
        let later = self
            .conditions
            .iter()
            .filter(|condition| condition.set() & !set != 0);
        needed.extend(later.flat_map(|condition| &condition.columns));
        needed
    }

    /// Columns of a set's rows that are needed above its join.
    pub(super) fn width(&self, set: Set) -> usize {
        let own = |column: &&RelationColumn| set >> column.relation & 1 != 0;
        self.needed(set).iter().filter(own).count()
    }

    /// Numbers its relations from `by` on.
    fn shift(&mut self, by: usize) {
        let conditions = self.conditions.iter_mut();
        let columns = conditions.flat_map(|condition| &mut condition.columns);
        for column in columns.chain(&mut self.output) {
            column.relation += by;
        }
        for key in self.classes.iter_mut().flatten() {
            key.relation += by;
        }
        shift_tree(&mut self.written, by);
    }
}

/// Whether a join has no limit and NULL is equal to nothing.
fn is_plain(join: &HashJoinExec) -> bool {
    join.null_equality() == NullEquality::NullEqualsNothing && join.fetch().is_none()
}

/// The classes of keys that the pairs of a region equate. A pair has a class of its own if it belongs to a
/// semi join, if its types differ, or if its class would have two keys of one relation, which nothing would
/// compare.
fn equal_keys(region: &Region) -> Vec<Vec<Key>> {
    let stands_alone = |pair: &&Vec<Key>| {
        let relation = |key: &Key| &region.relations[key.relation];
        let kind = |key: &Key| key.expression.data_type(&relation(key).plan.schema()).ok();
        pair.iter().any(|key| relation(key).semi) || kind(&pair[0]) != kind(&pair[1])
    };
    let (mut alone, pairs): (Vec<_>, Vec<_>) = region.classes.iter().partition(stands_alone);
    let mut classes: Vec<(Vec<Key>, Vec<&Vec<Key>>)> = Vec::new();
    for pair in pairs {
        let mut keys = pair.clone();
        let mut members = vec![pair];
        classes.retain(|(class, pairs)| {
            let meets = class.iter().any(|key| keys.contains(key));
            if meets {
                keys.extend(
                    class
                        .iter()
                        .filter(|key| !keys.contains(key))
                        .cloned()
                        .collect::<Vec<_>>(),
                );
                members.extend(pairs);
            }
            !meets
        });
        classes.push((keys, members));
    }
    let (whole, split): (Vec<_>, Vec<_>) = classes.into_iter().partition(|(keys, _)| {
        let set = keys.iter().fold(0, |set: Set, key| set | 1 << key.relation);
        set.count_ones() as usize == keys.len()
    });
    alone.extend(split.into_iter().flat_map(|(_, pairs)| pairs));
    let whole = whole.into_iter().map(|(keys, _)| keys);
    whole.chain(alone.into_iter().cloned()).collect()
}

fn shift_tree(tree: &mut Tree, by: usize) {
    match tree {
        Tree::Relation(relation) => *relation += by,
        Tree::Join(left, right) => {
            shift_tree(left, by);
            shift_tree(right, by);
        }
    }
}

/// The expression with other columns: `column` returns the one for each index.
pub(super) fn with_columns(
    expression: &Arc<dyn PhysicalExpr>,
    column: &dyn Fn(usize) -> Column,
) -> Arc<dyn PhysicalExpr> {
    let changed = Arc::clone(expression).transform(|node| {
        Ok(match node.downcast_ref::<Column>() {
            Some(before) => Transformed::yes(Arc::new(column(before.index())) as _),
            None => Transformed::no(node),
        })
    });
    changed.expect("nothing in it fails").data
}
