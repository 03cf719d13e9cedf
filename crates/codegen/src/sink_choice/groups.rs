//! Chooses the sink for groups, and derives the parts of their keys.

use super::{BoundSink, POLICY, SinkInput};
use crate::accumulators::AccumulatorPlan;
use crate::aggregate::AggregateCall;
use crate::bound::ResultPlan;
use crate::build_plan::GroupBuildPlan;
use crate::choices::GroupBy;
use crate::column_access::ColumnAccess;
use crate::group_choice::{GroupedRows, SlotKey};
use crate::group_key::{GroupKey, KeyLayout, KeyPart};
use crate::group_layout::{ColumnSlots, DenseLayout};
use crate::sink::Sink;
use crate::sink::dense::DenseSink;
use crate::sink::hash::{HashSink, slots_for};
use crate::sink::scalar::ScalarSink;
use crate::sink::shared::SharedSink;
use crate::strategy::Strategy;
use crate::{group_choice, kept_groups, sample};
use galatea_base::reason::Reason;
use galatea_expression::code::{Code, line};
use galatea_expression::{BuildPart, Emitter, Expr, GroupWords, JoinKeyPart, KeySpace, Value};
use galatea_layout::model::LaidOutColumn;

impl SinkInput<'_> {
    /// Groups in arrays by key.
    pub(super) fn build_groups(
        &self,
        (key, part): (&Expr, Option<BuildPart>),
        aggregates: &[AggregateCall],
        mut emitter: Emitter<'_>,
        code: &mut Code,
    ) -> Result<BoundSink, Reason> {
        let key = (self.rewrite)(key);
        let value = emitter.emit(&key, code)?;
        let rows = self.cardinality.rows;
        let parts = vec![JoinKeyPart::new(&value, false)];
        let space = match part {
            Some(part) => KeySpace::of_part(parts, part)?,
            None => KeySpace::new(parts, rows)?,
        };
        if space.slots.is_some() {
            return Err(Reason::ScatteredGroups {
                numbers: space.numbers().unwrap_or(u64::MAX),
                limit: rows,
            });
        }
        let mut accumulators = self.calls(aggregates, true, &mut emitter, code)?;
        let occupied = accumulators.row_count();
        let words = GroupWords {
            stride: accumulators.words,
            occupied: Some(occupied),
            columns: kept_groups::aggregates(&accumulators, (0, 1), rows)?,
        };
        let number = emitter.key_number(&space, &key, &[value], code)?;
        line!(code, "const u32 group = u32({number});");
        let layout = DenseLayout {
            groups: space.indices(),
            warp_aggregated: true,
            copies: 1,
        };
        let result = ResultPlan::BuildGroups(GroupBuildPlan { keys: space, words });
        let sink = DenseSink { accumulators, layout };
        Ok(BoundSink::new(sink, Strategy::BuildGroups, result))
    }

    pub(super) fn groups(
        &self,
        keys: &[Expr],
        aggregates: &[AggregateCall],
        mut emitter: Emitter<'_>,
        code: &mut Code,
    ) -> Result<BoundSink, Reason> {
        let keys: Vec<Expr> = keys.iter().map(self.rewrite).collect();
        let key_values = keys
            .iter()
            .map(|k| {
                let value = emitter.emit(k, code)?;
                Ok(emitter.interned(value, code))
            })
            .collect::<Result<Vec<Value>, Reason>>()?;
        let mut accumulators = self.calls(aggregates, !keys.is_empty(), &mut emitter, code)?;
        if keys.is_empty() {
            let result = ResultPlan::Aggregate {
                key: None,
                accumulators: accumulators.clone(),
                occupied: None,
            };
            return Ok(BoundSink::new(
                ScalarSink { accumulators },
                Strategy::Scalar,
                result,
            ));
        }
        let key = group_key(&key_values, self.options.group_by)?;
        let KeyLayout::Dense { groups } = key.layout else {
            key.emit(&key_values, code);
            return Ok(self.hashed(key, accumulators));
        };
        // Dense accumulators exist for every possible group, so one word must count rows.
        let occupied = accumulators.row_count();
        let mut choice = self.dense(&keys, &key, groups, &accumulators, code.length());
        let hot: Vec<usize> = (choice.hot.iter())
            .map(|group| emitter.parameter(u64::from(*group)))
            .collect();
        if let Strategy::Shared(layout) = &mut choice.strategy
            && let Some(slots) = &mut layout.slots
        {
            slots.table = emitter.table(group_of_slot(&self.columns[slots.column], &key));
        } else {
            key.emit(&key_values, code);
        }
        let result = ResultPlan::Aggregate {
            key: Some(key),
            accumulators: accumulators.clone(),
            occupied: Some(occupied),
        };
        let sink: Box<dyn Sink> = match choice.strategy {
            Strategy::Shared(layout) => Box::new(SharedSink {
                accumulators,
                layout,
                hot,
            }),
            Strategy::Dense(layout) => Box::new(DenseSink { accumulators, layout }),
            other => unreachable!("{other} collects no dense groups"),
        };
        Ok(BoundSink {
            sink,
            strategy: choice.strategy,
            result,
            why: Some(choice.why),
        })
    }

    /// Groups in a hash table.
    fn hashed(&self, key: GroupKey, accumulators: AccumulatorPlan) -> BoundSink {
        // If a fully sized table would take too much memory, a row may find no slot.
        let groups = key.groups_among(self.cardinality.rows);
        let slot = 8 * (key.slot_key_words() + accumulators.words) as u64;
        let overflows = slots_for(groups).saturating_mul(slot) > self.options.hash_table_bytes;
        let warp_aggregated = self.options.aggregates_warps();
        let result = ResultPlan::Aggregate {
            key: Some(key.clone()),
            accumulators: accumulators.clone(),
            occupied: None,
        };
        let strategy = Strategy::Hash {
            warp_aggregated,
            overflows,
        };
        let sink = HashSink {
            accumulators,
            key,
            overflows,
            warp_aggregated,
            collide: self.options.collide,
        };
        BoundSink::new(sink, strategy, result)
    }

    /// The accumulators of `aggregates`. The arguments are emitted into `code`.
    fn calls(
        &self,
        aggregates: &[AggregateCall],
        grouped: bool,
        emitter: &mut Emitter<'_>,
        code: &mut Code,
    ) -> Result<AccumulatorPlan, Reason> {
        let rows = self.cardinality.rows;
        AccumulatorPlan::of_calls(aggregates, self.rewrite, (rows, grouped), emitter, code)
    }

    /// Chooses how dense groups are collected. `lines` is the number of generated lines per row so far; each
    /// is assumed to take two instructions.
    fn dense(
        &self,
        keys: &[Expr],
        key: &GroupKey,
        groups: u64,
        accumulators: &AccumulatorPlan,
        lines: usize,
    ) -> group_choice::GroupChoice {
        let slots = match keys {
            // A slot does not identify the group, which is needed to compare a row's strings.
            [only] if accumulators.extremes.is_empty() => {
                only.as_column().and_then(|column| self.slots(column))
            }
            _ => None,
        };
        let rows = GroupedRows {
            groups,
            plan: accumulators,
            rows: self.cardinality.rows,
            passing: self.cardinality.passing / self.cardinality.rows.max(1) as f64,
            looks_up: self.looks_up,
            row_bytes: self.columns.iter().map(|c| c.form.row_bytes()).sum(),
            items: self.items,
            instructions: 6.0 + 2.5 * self.columns.len() as f64 + 2.0 * lines as f64,
            sample: sample::sample(self.view, keys, key, self.items),
            slots,
        };
        group_choice::choose(&rows, self.options)
    }

    /// The slots of a laid-out key column, if it was laid out for this number of rows per thread.
    fn slots(&self, column: usize) -> Option<SlotKey> {
        let layout = &self.columns[column].slots.as_ref()?.layout;
        (layout.tiles.rows_per_thread == self.items).then(|| SlotKey {
            slots: ColumnSlots {
                column,
                slots: layout.map.slots() as u32,
                values: layout.map.values() as u32,
                // Set when the layout is chosen.
                table: 0,
            },
            column: LaidOutColumn {
                extra_row_bytes: 0.0,
                ..LaidOutColumn::from(&layout.report)
            },
        })
    }
}

/// Lookup table by slot of a laid-out column: the first slot of a value maps to its group (NULL: the last
/// group), the slot of a copy to the first slot, and an unused slot to 0xffffffff.
fn group_of_slot(column: &ColumnAccess, key: &GroupKey) -> Vec<u8> {
    let Some(slots) = &column.slots else {
        return Vec::new();
    };
    let layout = &slots.layout;
    let values = layout.map.values();
    let entry = |(slot, value): (usize, &u32)| match (*value, layout.null) {
        (value, _) if slot >= values => value,
        (value, Some(null)) if value == null => key.last_group(),
        (value, _) => key.group_of_code(value, layout.base(), layout.factor()),
    };
    let entries: Vec<u32> = layout.map.as_slice().iter().enumerate().map(entry).collect();
    bytemuck::cast_slice(&entries).to_vec()
}

/// The key of a grouped pipeline; a forced hash table is honoured.
fn group_key(values: &[Value], forced: GroupBy) -> Result<GroupKey, Reason> {
    let parts = values.iter().map(KeyPart::new).collect::<Result<Vec<_>, _>>()?;
    let limit = if forced == GroupBy::Hash {
        0
    } else {
        POLICY.dense_groups
    };
    GroupKey::new(parts, limit)
}
