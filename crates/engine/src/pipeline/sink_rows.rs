//! What a pipeline does with its surviving rows: the strategy is chosen here, and the sink's code for a row
//! emitted.

use super::aggregate::AggregateCall;
use super::bind::{AccumulatorPlan, ColumnAccess, Strategy, group_key};
use super::generate::{ResultPlan, Shape};
use super::group_key::{GroupKey, KeyLayout};
use super::group_layout::{self, GroupedRows, PlacedKey};
use super::sample;
use super::sink::build::GroupBuildPlan;
use super::sink::dense::DenseLayout;
use super::sink::{self, hash::slots_for, shared::SharedHome};
use super::{PipelinePlan, SinkPlan};
use crate::config::RowOutput;
use crate::expression::{Emitter, Expr, GroupWords, KeySpace, Value};
use crate::reason::Reason;
use galatea_layout::model::PlacedColumn;
use galatea_store::TableView;
use std::fmt::Write;

/// Rows of a table, and how many of them are expected to pass the filters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cardinality {
    pub(super) rows: u64,
    pub(super) passing: f64,
}

/// Rows for which the columns of an append sink have room at once; when more are expected, the heap is at
/// least as fast.
const DIRECT_ROWS: f64 = 16.0 * 1024.0 * 1024.0;

/// Where rows that are returned go.
pub(super) fn row_strategy(forced: RowOutput, cardinality: Cardinality) -> Strategy {
    match forced {
        RowOutput::Direct => Strategy::Append { counted: false },
        RowOutput::Auto if cardinality.passing <= DIRECT_ROWS => Strategy::Append { counted: false },
        RowOutput::Counted => Strategy::Append { counted: true },
        RowOutput::Auto | RowOutput::Heap => Strategy::Chains,
    }
}

/// A sink plan, bound: how rows are collected, and what is made of them.
pub(super) struct Sunk {
    pub(super) strategy: Strategy,
    pub(super) result: ResultPlan,
    pub(super) hot: Vec<usize>,
    pub(super) why: Option<String>,
}

/// What a sink is generated from.
pub(super) struct SinkInput<'a> {
    pub(super) plan: &'a PipelinePlan,
    pub(super) view: &'a TableView,
    pub(super) columns: &'a [ColumnAccess],
    /// From source columns to kernel columns.
    pub(super) rewrite: &'a dyn Fn(&Expr) -> Expr,
    pub(super) items: u32,
    pub(super) shape: Shape,
    pub(super) cardinality: Cardinality,
}

impl SinkInput<'_> {
    /// Emits what the sink does with a live row.
    pub(super) fn sink_rows(&self, mut emitter: Emitter<'_>, code: &mut String) -> Result<Sunk, Reason> {
        match &self.plan.sink {
            SinkPlan::Aggregate { keys, aggregates } => self.groups(keys, aggregates, emitter, code),
            SinkPlan::BuildGroups { key, aggregates } => {
                let value = emitter.emit(&(self.rewrite)(key), code)?;
                let keys = value.interval();
                let rows = self.cardinality.rows;
                let space = KeySpace::new(vec![keys], rows)?;
                if space.slots.is_some() {
                    return Err(Reason::Limit {
                        expression: "groups of a build side".into(),
                        asked: space.numbers(),
                        limit: rows,
                        unit: "keys, from the least to the greatest",
                    });
                }
                let mut accumulators = AccumulatorPlan::default();
                self.calls(aggregates, true, &mut accumulators, &mut emitter, code)?;
                let occupied = accumulators.row_count();
                let words = GroupWords {
                    stride: accumulators.words,
                    occupied: Some(occupied),
                    columns: sink::kept::aggregates(&accumulators, (0, 1), rows)?,
                };
                let number = emitter.key_number(&space, &[value], code);
                let _ = writeln!(code, "const u32 group = u32({number});");
                let layout = DenseLayout {
                    groups: space.indices(),
                    warps: true,
                    copies: 1,
                };
                sink::dense::update(&accumulators, &layout, code);
                Ok(Sunk {
                    strategy: Strategy::BuildGroups,
                    result: ResultPlan::BuildGroups(GroupBuildPlan { keys, words }),
                    hot: Vec::new(),
                    why: None,
                })
            }
            SinkPlan::Build { key, columns, unique } => {
                let key = (self.rewrite)(key);
                let columns: Vec<(usize, Expr)> = (columns.iter())
                    .map(|(number, column)| (*number, (self.rewrite)(column)))
                    .collect();
                let rows = self.cardinality.rows;
                let plan = sink::build::store(&mut emitter, &key, &columns, *unique, rows, code)?;
                Ok(Sunk {
                    strategy: Strategy::Build,
                    result: ResultPlan::Build(plan),
                    hot: Vec::new(),
                    why: None,
                })
            }
            SinkPlan::Materialise { outputs, .. } => {
                let mut columns = Vec::new();
                for (index, output) in outputs.iter().enumerate() {
                    let output = (self.rewrite)(output);
                    columns.push(match sink::append::text_column(&output, self.columns) {
                        Some(text) => text,
                        None => sink::append::column(index, &emitter.emit(&output, code)?)?,
                    });
                }
                let strategy = row_strategy(self.shape.row_output, self.cardinality);
                match strategy {
                    Strategy::Chains => sink::chains::store(&columns, code)?,
                    _ => sink::append::store(&columns, code)?,
                }
                Ok(Sunk {
                    strategy,
                    result: ResultPlan::Rows(columns),
                    hot: Vec::new(),
                    why: None,
                })
            }
        }
    }

    fn groups(
        &self,
        keys: &[Expr],
        aggregates: &[AggregateCall],
        mut emitter: Emitter<'_>,
        code: &mut String,
    ) -> Result<Sunk, Reason> {
        let keys: Vec<Expr> = keys.iter().map(self.rewrite).collect();
        let key_values = keys
            .iter()
            .map(|k| emitter.emit(k, code))
            .collect::<Result<Vec<Value>, _>>()?;
        let mut accumulators = AccumulatorPlan::default();
        self.calls(
            aggregates,
            !keys.is_empty(),
            &mut accumulators,
            &mut emitter,
            code,
        )?;
        if keys.is_empty() {
            sink::scalar::update(&accumulators, code);
            return Ok(Sunk {
                strategy: Strategy::Scalar,
                result: ResultPlan::Groups {
                    key: None,
                    accumulators,
                    occupied: None,
                },
                hot: Vec::new(),
                why: None,
            });
        }
        let key = group_key(&key_values, self.shape.group_by)?;
        let (mut occupied, mut hot) = (None, Vec::new());
        let (strategy, why) = if let KeyLayout::Dense { groups } = key.layout {
            // Dense homes have a word for every group there could be: one word must count rows.
            occupied = Some(accumulators.row_count());
            let choice = self.dense(&keys, &key, groups, &accumulators, code.lines().count());
            hot = (choice.hot.iter())
                .map(|group| emitter.parameter(u64::from(*group)))
                .collect();
            (choice.strategy, Some(choice.why))
        } else {
            (self.hash(&key, &accumulators), None)
        };
        let named =
            matches!(strategy, Strategy::Shared(layout) if matches!(layout.home, SharedHome::Placed { .. }));
        if !named {
            key.emit(&key_values, code);
        }
        match &strategy {
            Strategy::Shared(layout) => sink::shared::update(&accumulators, layout, code),
            Strategy::Dense(layout) => sink::dense::update(&accumulators, layout, code),
            Strategy::Hash { waits, warps } => {
                sink::hash::update(&accumulators, &key, *waits, *warps, code);
            }
            other => unreachable!("{other} collects no groups"),
        }
        Ok(Sunk {
            strategy,
            result: ResultPlan::Groups {
                key: Some(key),
                accumulators,
                occupied,
            },
            hot,
            why,
        })
    }

    /// Adds the accumulators of calls, and emits their arguments.
    fn calls(
        &self,
        aggregates: &[AggregateCall],
        grouped: bool,
        accumulators: &mut AccumulatorPlan,
        emitter: &mut Emitter<'_>,
        code: &mut String,
    ) -> Result<(), Reason> {
        for call in aggregates {
            let here = |e: &Option<Expr>| e.as_ref().map(self.rewrite);
            let filter = here(&call.filter).map(|f| emitter.emit(&f, code)).transpose()?;
            // An argument is evaluated for the rows that the call's filter keeps.
            let kept: Vec<String> = filter.iter().map(|f| f.code.clone()).collect();
            let argument = here(&call.argument)
                .map(|a| emitter.emit_where(&kept, &a, code))
                .transpose()?;
            let rows = self.cardinality.rows;
            accumulators.call(call, argument.as_ref(), filter.as_ref(), rows, grouped)?;
        }
        Ok(())
    }

    /// How hashed groups are collected.
    fn hash(&self, key: &GroupKey, accumulators: &AccumulatorPlan) -> Strategy {
        // Where a fully sized table would take too much, there may be no place for a row.
        let groups = key.groups_among(self.cardinality.rows);
        let slot = 8 * (key.slot_key_words() + accumulators.words) as u64;
        Strategy::Hash {
            waits: slots_for(groups).saturating_mul(slot) > self.shape.hash_room,
            warps: self.shape.combines_at_home(),
        }
    }

    /// How dense groups are collected, by `lines` of code up to here, of about two instructions each.
    fn dense(
        &self,
        keys: &[Expr],
        key: &GroupKey,
        groups: u64,
        accumulators: &AccumulatorPlan,
        lines: usize,
    ) -> group_layout::GroupChoice {
        let placed = match keys {
            [only] => only.as_column().and_then(|column| self.placed(column)),
            _ => None,
        };
        let rows = GroupedRows {
            groups,
            plan: accumulators,
            rows: self.cardinality.rows,
            row_bytes: self.columns.iter().map(|c| c.form.row_bytes()).sum(),
            items: self.items,
            instructions: 6.0 + 2.5 * self.columns.len() as f64 + 2.0 * lines as f64,
            sample: sample::sample(self.view, keys, key, self.items),
            placed,
        };
        group_layout::choose(&rows, &self.shape)
    }

    /// The key column's slots, when lanes take rows as they were placed for.
    fn placed(&self, column: usize) -> Option<PlacedKey> {
        let layout = &self.columns[column].placed.as_ref()?.layout;
        (layout.tiles.rows_per_thread == self.items).then(|| PlacedKey {
            home: SharedHome::Placed {
                column,
                slots: layout.map.slots() as u32,
                values: layout.map.values() as u32,
                table: 0,
            },
            column: PlacedColumn {
                extra_row_bytes: 0.0,
                ..PlacedColumn::from(&layout.report)
            },
        })
    }
}

/// Of a placed column: for the first slot of each value its group, NULL being the last as keys have it; for
/// copies the first slot of their value; all ones for holes.
pub(super) fn group_of_slot(column: &ColumnAccess, result: &ResultPlan) -> Vec<u8> {
    let (Some(placed), ResultPlan::Groups { key: Some(key), .. }) = (&column.placed, result) else {
        return Vec::new();
    };
    let layout = &placed.layout;
    let values = layout.map.values();
    let entry = |(slot, value): (usize, &u32)| match (*value, layout.null) {
        (value, _) if slot >= values => value,
        (value, Some(null)) if value == null => key.last_group(),
        (value, _) => key.group_of_code(value, layout.base(), layout.factor()),
    };
    let entries: Vec<u32> = layout.map.as_slice().iter().enumerate().map(entry).collect();
    bytemuck::cast_slice(&entries).to_vec()
}
