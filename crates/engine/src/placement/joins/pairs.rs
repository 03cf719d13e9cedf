//! Joins with repeated keys, with conditions beside the keys, or without keys: their matches are the rows of
//! a pipeline (`joins/pairs.rs`).
//!
//! The larger side is the probe side, unless the kind of the join determines it: the preserved side of a
//! semijoin, antijoin, mark join or outer join. For an outer join this applies if its rows are known without
//! looking at a match.

use crate::graph::PipelineSource;
use crate::placement::chain::{Chain, Finder, PairInput, PairJoin};
use crate::placement::nodes::{by_size, node, other, refuse, statistics};
use crate::placement::plan_node::Join;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{JoinFilter, JoinOnRef};
use galatea_base::reason::Reason;
use galatea_codegen::Marking;
use galatea_expression::{Expr, is_key, is_string, lower};
use std::sync::Arc;

/// A join, independent of its algorithm on the CPU.
struct AnyJoin<'p> {
    /// Name of DataFusion's node.
    name: &'static str,
    left: &'p Arc<dyn ExecutionPlan>,
    right: &'p Arc<dyn ExecutionPlan>,
    keys: JoinOnRef<'p>,
    /// Whether NULL is a key like others.
    null_keys: bool,
    /// NOT IN: whether a NULL among the keys makes it unknown which rows have no match.
    null_aware: bool,
    filter: Option<&'p JoinFilter>,
    kind: JoinType,
    projection: Option<&'p [usize]>,
}

impl<'p> AnyJoin<'p> {
    /// Refuses joins with a limit, and NOT IN with a condition.
    fn of(join: Join<'p>) -> Result<Self, Reason> {
        let null_keys = |equality| equality == NullEquality::NullEqualsNull;
        let name = join.name();
        Ok(match join {
            Join::Hash(join) if join.fetch().is_some() => return Err(refuse("a limit inside the join")),
            Join::Hash(join) if join.null_aware && join.filter().is_some() => {
                return Err(refuse("NOT IN with a condition beside the keys"));
            }
            Join::Hash(join) => Self {
                name,
                left: join.left(),
                right: join.right(),
                keys: join.on(),
                null_keys: null_keys(join.null_equality()),
                null_aware: join.null_aware,
                filter: join.filter(),
                kind: *join.join_type(),
                projection: join.projection.as_deref(),
            },
            Join::SortMerge(join) => Self {
                name,
                left: join.left(),
                right: join.right(),
                keys: join.on(),
                null_keys: null_keys(join.null_equality()),
                null_aware: false,
                filter: join.filter().as_ref(),
                kind: join.join_type(),
                projection: None,
            },
            Join::NestedLoop(join) => Self {
                name,
                left: join.left(),
                right: join.right(),
                keys: &[],
                null_keys: false,
                null_aware: false,
                filter: join.filter(),
                kind: *join.join_type(),
                projection: join.projection().as_deref(),
            },
            Join::Cross(join) => Self {
                name,
                left: join.left(),
                right: join.right(),
                keys: &[],
                null_keys: false,
                null_aware: false,
                filter: None,
                kind: JoinType::Inner,
                projection: None,
            },
        })
    }

    fn input(&self, side: JoinSide) -> &'p Arc<dyn ExecutionPlan> {
        match side {
            JoinSide::Right => self.right,
            _ => self.left,
        }
    }

    /// The number of the first column of a side.
    fn first(&self, side: JoinSide) -> usize {
        match side {
            JoinSide::Right => self.left.schema().fields().len(),
            _ => 0,
        }
    }

    /// The side that probes the other one.
    fn probe(&self) -> JoinSide {
        match self.kind {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark | JoinType::Left => JoinSide::Left,
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark | JoinType::Right => {
                JoinSide::Right
            }
            JoinType::Inner | JoinType::Full => by_size(self.left, self.right)[0],
        }
    }

    /// The keys that can be looked up, and the others; floats are looked up if no other key can be.
    fn keys(&self) -> Result<Keys, Reason> {
        let (left, right) = (self.left.schema(), self.right.schema());
        let mut keys = Keys::default();
        for (own, others) in self.keys {
            let (own, others) = (lower(own, &left)?, lower(others, &right)?);
            // Strings of any type are alike.
            let (one, other) = (own.data_type(), others.data_type());
            let alike = one == other || is_string(one) && is_string(other);
            if alike && has_number(one) && has_number(other) {
                keys.own.push((own, others));
            } else if one == other {
                let first = self.first(JoinSide::Right);
                let others = others.remap_columns(&|column| first + column);
                let equal = Expr::equal(own.clone(), others.clone());
                let both_null = Expr::all([own.is_null(), others.is_null()]);
                let both_null = both_null.filter(|_| self.null_keys);
                keys.compared
                    .extend(Expr::any([Some(equal), both_null].into_iter().flatten()));
            } else {
                return Err(node(self.name, "keys of different types"));
            }
        }
        if !keys.own.is_empty() || keys.compared.is_empty() {
            return Ok(keys);
        }
        // Floats are looked up by one hash of all of them, and then compared like other conditions: by their
        // bits, with zeros of both signs equal.
        let (mut owns, mut all_others) = (Vec::new(), Vec::new());
        for (own, others) in self.keys {
            let (own, others) = (lower(own, &left)?, lower(others, &right)?);
            if is_float(own.data_type()) {
                owns.push(own);
                all_others.push(others);
            }
        }
        let own = Expr::tuple(owns).zip(Expr::tuple(all_others));
        keys.own
            .extend(own.map(|(own, others)| (hashed(&own), hashed(&others))));
        Ok(keys)
    }

    /// One side with its keys.
    fn pair_input(
        &self,
        side: JoinSide,
        keys: &[(Expr, Expr)],
        finder: &Finder<'_>,
    ) -> Result<PairInput, Reason> {
        let plan = self.input(side);
        let chain = finder.below(plan)?;
        if !finder.takes(&chain) {
            return Err(node(self.name, "a side whose rows CPU operators compute"));
        }
        let keys = keys.iter().map(|(left, right)| match side {
            JoinSide::Right => right,
            _ => left,
        });
        let parts = keys.map(|key| key.substitute(&chain.columns)).collect();
        // Without keys, all rows have the same one.
        let key = Expr::tuple(parts).unwrap_or_else(Expr::no_keys);
        Ok(PairInput {
            plan: Arc::clone(plan),
            chain,
            key,
            first: self.first(side),
        })
    }

    /// The columns of the left side, of the right side, and the mark column; those of a side that may have no
    /// match are nullable.
    fn schema(&self) -> SchemaRef {
        let (left, right) = match self.kind {
            JoinType::Left => (false, true),
            JoinType::Right => (true, false),
            JoinType::Full => (true, true),
            _ => (false, false),
        };
        let fields = |plan: &Arc<dyn ExecutionPlan>, absent: bool| -> Vec<Field> {
            let schema = plan.schema();
            let field = |field: &Arc<Field>| {
                let nullable = field.is_nullable() || absent;
                Field::clone(field).with_nullable(nullable)
            };
            schema.fields().iter().map(field).collect()
        };
        let mark = Field::new("mark", DataType::Boolean, false);
        let all = [fields(self.left, left), fields(self.right, right), vec![mark]];
        Arc::new(Schema::new(all.concat()))
    }

    /// The condition beside the keys, over the join's columns.
    fn condition(&self, schema: &Schema) -> Result<Vec<Expr>, Reason> {
        let Some(filter) = self.filter else {
            return Ok(Vec::new());
        };
        let columns: Vec<Expr> = (filter.column_indices().iter())
            .map(|column| column_of(schema, self.first(column.side) + column.index))
            .collect();
        let filter = lower(filter.expression(), filter.schema())?.substitute(&columns);
        Ok(filter.conjuncts())
    }
}

/// Whether rows can be looked up by values of the type.
fn has_number(data_type: &DataType) -> bool {
    is_key(data_type) || *data_type == DataType::Boolean
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// The hash of a key; NULL if a part of it is NULL.
fn hashed(key: &Expr) -> Expr {
    let hash = Expr::key_hash(key, false);
    let nullable = key.parts().iter().filter(|part| part.nullable());
    match Expr::all(nullable.map(|part| part.is_null().negated())) {
        Some(present) => Expr::only_where(present, hash),
        None => hash,
    }
}

/// The keys of a join.
#[derive(Default)]
struct Keys {
    /// The lookup keys of the left side and of the right side, each over the columns of its input.
    own: Vec<(Expr, Expr)>,
    /// Equality conditions on the other keys, over the columns of the join.
    compared: Vec<Expr>,
}

/// A column of the join.
fn column_of(schema: &Schema, number: usize) -> Expr {
    let field = schema.field(number);
    Expr::column(number, field.data_type().clone(), field.is_nullable())
}

/// The chain over the matches of the join `plan`.
pub(in crate::placement) fn chain(
    join: Join<'_>,
    plan: &Arc<dyn ExecutionPlan>,
    finder: &Finder<'_>,
) -> Result<Chain, Reason> {
    let join = AnyJoin::of(join)?;
    let side = join.probe();
    let Keys { own, compared } = join.keys()?;
    let mut probe = join.pair_input(side, &own, finder)?;
    let build = join.pair_input(other(side), &own, finder)?;
    if join.null_aware {
        probe.only_certain(join.pair_input(other(side), &own, finder)?);
    }
    let schema = join.schema();
    let mut conditions = compared;
    conditions.extend(join.condition(&schema)?);
    let mark = schema.fields().len() - 1;
    let conditional = !conditions.is_empty();
    let outer = |build| Marking::Outer {
        conditional,
        probe: conditional,
        build,
    };
    let (marking, keeps_all) = match join.kind {
        JoinType::Inner => (None, false),
        JoinType::Left | JoinType::Right => (conditional.then(|| outer(false)), !conditional),
        JoinType::Full => (Some(outer(true)), !conditional),
        JoinType::LeftSemi | JoinType::RightSemi => (Some(Marking::Semi), false),
        JoinType::LeftAnti | JoinType::RightAnti => (Some(Marking::Anti), false),
        JoinType::LeftMark | JoinType::RightMark => (Some(Marking::Mark { column: mark }), false),
    };
    let own = probe.first..probe.first + probe.chain.columns.len();
    let (semi, anti) = (marking == Some(Marking::Semi), marking == Some(Marking::Anti));
    if (semi || anti) && !conditional {
        // Without conditions, the keys determine whether a match exists.
        let (mut chain, member) = probe.with_member(build, join.null_keys)?;
        chain.filters.push(if anti { member.negated() } else { member });
        if let Some(projection) = join.projection {
            let columns = projection.iter();
            let columns = columns.map(|column| (chain.columns[*column].clone(), chain.plain[*column]));
            let columns = columns.collect();
            chain.project(columns);
        }
        return Ok(chain);
    }
    let known = |plan| statistics(plan).and_then(|known| known.num_rows.get_value().copied());
    let rows = match join.keys.is_empty() {
        // The condition is tested for every pair.
        true => known(join.left)
            .zip(known(join.right))
            .map(|(left, right)| left.saturating_mul(right)),
        false => known(plan),
    };
    let all: Vec<usize> = (0..schema.fields().len()).collect();
    let source = PipelineSource::Pairs(Arc::clone(plan));
    let mut chain = Chain::over_table(source, Arc::clone(&schema), rows.map(|rows| rows as u64), &all);
    let conditions = match marking {
        None => {
            chain.filters = conditions;
            Vec::new()
        }
        Some(_) => conditions,
    };
    chain.pairs = Some(Box::new(PairJoin {
        probe,
        build,
        plan: Arc::clone(plan),
        schema: Arc::clone(&schema),
        marking,
        null_keys: join.null_keys,
        keeps_all,
        conditions,
    }));
    let returned: Vec<usize> = match join.kind {
        JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => (0..mark).collect(),
        JoinType::LeftMark | JoinType::RightMark => own.chain([mark]).collect(),
        _ => own.collect(),
    };
    let returned = match join.projection {
        Some(projection) => projection.iter().map(|column| returned[*column]).collect(),
        None => returned,
    };
    let columns = returned.into_iter();
    chain.project(columns.map(|column| (column_of(&schema, column), None)).collect());
    Ok(chain)
}
