//! Estimated rows of sets of joined relations.
//!
//! As in System R, an equality of keys keeps the share 1 / v of the pairs of two relations. Here v is the
//! larger number of distinct values of the two sides, counted in the whole table regardless of filters above
//! it. If values were counted on one side only, they count for both. If on neither, the rows of the smaller
//! table do: the key is assumed to be its primary key. Several keys of the same two relations have together
//! no more distinct values than the smaller table has rows, since they usually are its key. A semi join keeps
//! the rows that it has values for, but no more than an unknown condition: a query writes it as one. An
//! equality that follows from others of the set keeps all rows.

use super::JoinOrderPolicy;
use super::region::{Condition, Key, MAX_RELATIONS, Region, Set};
use super::selectivity::{distinct_values, share};
use datafusion::common::Statistics;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use std::sync::Arc;

/// Estimates of a region's relations.
pub(super) struct Estimates {
    /// By relation.
    rows: Vec<f64>,
    /// Pairs of relations with equal keys, the most selective ones first.
    links: Vec<Link>,
    conditions: Vec<Set>,
    /// Classes of equal keys.
    classes: usize,
}

/// Equal keys of two relations.
struct Link {
    relations: [usize; 2],
    /// Rows of the tables below.
    table_rows: [f64; 2],
    /// Rows of the second relation, if it is the right side of a semi join.
    semi: Option<f64>,
    keys: Vec<LinkKey>,
}

struct LinkKey {
    /// Its number in the region.
    class: usize,
    /// Distinct values on each side, if known.
    values: [Option<f64>; 2],
}

impl Link {
    /// The share of pairs that equalities of these keys keep.
    fn share<'k>(&self, keys: impl Iterator<Item = &'k LinkKey>) -> f64 {
        let mut values = [Some(1.0), Some(1.0)];
        let mut parts = 0;
        for key in keys {
            parts += 1;
            for (all, own) in values.iter_mut().zip(key.values) {
                *all = all.zip(own).map(|(all, own)| all * own);
            }
        }
        let [left, right] = self.table_rows;
        if let Some(rows) = self.semi {
            let values = values[0].unwrap_or(left).min(left);
            return (rows / values).min(JoinOrderPolicy::DEFAULT.unknown) / rows;
        }
        let values = match values {
            _ if parts == 0 => 1.0,
            [Some(a), Some(b)] if parts == 1 => a.min(left).max(b.min(right)),
            [Some(a), Some(b)] => a.min(left).min(b.min(right)),
            [Some(a), None] => a.min(left),
            [None, Some(b)] => b.min(right),
            [None, None] => left.min(right),
        };
        1.0 / values.max(1.0)
    }
}

impl Estimates {
    /// The estimates; `None` if the rows of a relation are not known.
    pub(super) fn of(region: &Region) -> Option<Self> {
        let context = StatisticsContext::new();
        let known = region
            .relations
            .iter()
            .map(|relation| Relation::of(&relation.plan, &context))
            .collect::<Option<Vec<_>>>()?;
        let mut links: Vec<Link> = Vec::new();
        for (number, class) in region.classes.iter().enumerate() {
            for (at, one) in class.iter().enumerate() {
                for other in &class[at + 1..] {
                    let mut pair = [one, other];
                    pair.sort_by_key(|key| key.relation);
                    let relations = pair.map(|key| key.relation);
                    let key = LinkKey {
                        class: number,
                        values: pair.map(|key| known[key.relation].values(key)),
                    };
                    match links.iter_mut().find(|link| link.relations == relations) {
                        Some(link) => link.keys.push(key),
                        None => links.push(Link {
                            relations,
                            table_rows: relations.map(|relation| known[relation].table_rows),
                            semi: region.relations[relations[1]]
                                .semi
                                .then_some(known[relations[1]].rows),
                            keys: vec![key],
                        }),
                    }
                }
            }
        }
        links.sort_by(|a, b| a.share(a.keys.iter()).total_cmp(&b.share(b.keys.iter())));
        Some(Self {
            rows: known.iter().map(|relation| relation.rows).collect(),
            links,
            conditions: region.conditions.iter().map(Condition::set).collect(),
            classes: region.classes.len(),
        })
    }

    pub(super) fn relations(&self) -> usize {
        self.rows.len()
    }

    /// The relations that keys join to those of a set.
    pub(super) fn neighbours(&self, set: Set) -> Set {
        self.links.iter().fold(0, |neighbours, link| {
            let [a, b] = link.relations.map(|relation| 1 << relation);
            neighbours | if set & a != 0 { b } else { 0 } | if set & b != 0 { a } else { 0 }
        })
    }

    /// Rows of the join of a set of relations.
    pub(super) fn rows(&self, set: Set) -> f64 {
        let of_set = |relation: &usize| set >> relation & 1 != 0;
        let mut rows: f64 = (0..self.rows.len())
            .filter(of_set)
            .map(|relation| self.rows[relation])
            .product();
        // By class, the relations with keys that the links so far have equated.
        let mut equal: Vec<Vec<Set>> = vec![Vec::new(); self.classes];
        for link in self.links.iter().filter(|link| link.relations.iter().all(of_set)) {
            let added = link.keys.iter().filter(|key| {
                let [a, b] = link.relations.map(|relation| 1 << relation);
                !equal[key.class].iter().any(|set| set & a != 0 && set & b != 0)
            });
            let added: Vec<&LinkKey> = added.collect();
            rows *= link.share(added.iter().copied());
            for key in added {
                let mut joined = link.relations.iter().fold(0, |set, relation| set | 1 << relation);
                equal[key.class].retain(|set| {
                    let meets = set & joined != 0;
                    joined |= if meets { *set } else { 0 };
                    !meets
                });
                equal[key.class].push(joined);
            }
        }
        let tested = self.conditions.iter().filter(|condition| *condition & !set == 0);
        rows * JoinOrderPolicy::DEFAULT
            .unknown
            .powi(i32::try_from(tested.count()).unwrap_or(i32::MAX))
    }
}

/// Statistics of a relation.
struct Relation {
    rows: f64,
    /// Rows of its largest table, before filters.
    table_rows: f64,
    statistics: Arc<Statistics>,
}

impl Relation {
    fn of(plan: &Arc<dyn ExecutionPlan>, context: &StatisticsContext) -> Option<Self> {
        Some(Self {
            rows: filtered_rows(plan, context)?.max(1.0),
            table_rows: table_rows(plan, context)?.max(1.0),
            statistics: context.compute(plan.as_ref(), &StatisticsArgs::new()).ok()?,
        })
    }

    /// Distinct values of a key, if known.
    fn values(&self, key: &Key) -> Option<f64> {
        let column = key.expression.downcast_ref::<Column>()?;
        distinct_values(
            self.statistics.column_statistics.get(column.index())?,
            self.table_rows,
        )
    }
}

/// Rows of a plan; filters keep the share that [`share`] estimates.
pub(super) fn filtered_rows(plan: &Arc<dyn ExecutionPlan>, context: &StatisticsContext) -> Option<f64> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let rows = filtered_rows(filter.input(), context)?;
        let input = context
            .compute(filter.input().as_ref(), &StatisticsArgs::new())
            .ok()?;
        return Some(rows * share(filter.predicate(), &input));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return filtered_rows(projection.input(), context);
    }
    known_rows(plan, context).or_else(|| {
        // At most as many groups as rows.
        let aggregate = plan.downcast_ref::<AggregateExec>()?;
        filtered_rows(aggregate.input(), context)
    })
}

/// Rows that pass the filters and joins of a plan, before any grouping.
pub(super) fn passed_rows(plan: &Arc<dyn ExecutionPlan>, context: &StatisticsContext) -> Option<f64> {
    if let Some(region) = Region::of(plan) {
        let estimates = Estimates::of(&region)?;
        return Some(estimates.rows(Set::MAX >> (MAX_RELATIONS - estimates.relations())));
    }
    match plan.children()[..] {
        [input] if !plan.is::<FilterExec>() => passed_rows(input, context),
        _ => filtered_rows(plan, context),
    }
}

fn known_rows(plan: &Arc<dyn ExecutionPlan>, context: &StatisticsContext) -> Option<f64> {
    let statistics = context.compute(plan.as_ref(), &StatisticsArgs::new()).ok()?;
    statistics.num_rows.get_value().map(|rows| *rows as f64)
}

/// Rows of the largest table under a plan.
pub(super) fn table_rows(plan: &Arc<dyn ExecutionPlan>, context: &StatisticsContext) -> Option<f64> {
    let children = plan.children();
    if children.is_empty() {
        return known_rows(plan, context);
    }
    let rows = children.into_iter().map(|child| table_rows(child, context));
    rows.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
}
