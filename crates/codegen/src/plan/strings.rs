//! Determines which strings of a pipeline are used by their codes, and which are only returned.

use super::{PipelinePlan, RowOrder, SinkPlan};
use galatea_expression::{Expr, ExprKind, is_string};
use std::collections::{BTreeMap, BTreeSet, HashSet};

impl PipelinePlan {
    /// The strings of build sides, by number and column, that are only returned.
    pub fn returned_strings(&self) -> BTreeSet<(usize, usize)> {
        let SinkPlan::Rows { outputs, order } = &self.sink else {
            return BTreeSet::new();
        };
        let (mut texts, mut others) = (BTreeSet::new(), BTreeSet::new());
        for output in outputs {
            output.collect_returned_strings(&mut texts, &mut others);
        }
        let order = order.iter().flat_map(RowOrder::expressions);
        let lookups = self.filters.iter().chain(order).map(Expr::lookups);
        others.extend(lookups.flat_map(BTreeMap::into_keys));
        texts.difference(&others).copied().collect()
    }

    /// Source columns that must be dictionary encoded, whatever their cardinality: those of strings that are
    /// used by their codes, and arguments of string functions without device code.
    pub fn dictionary_columns(&self) -> BTreeSet<usize> {
        let outputs = match &self.sink {
            SinkPlan::Rows { outputs, .. } => outputs.as_slice(),
            _ => &[],
        };
        // Whether the host computes an output depends on the encodings, which are available only at binding.
        let outputs: HashSet<&Expr> = outputs.iter().flat_map(Expr::returned).collect();
        let expressions = self
            .expressions()
            .into_iter()
            .flat_map(|e| match outputs.contains(e) {
                true => e.values_for_host(),
                false => vec![e],
            });
        let functions = expressions.map(Expr::dictionary_columns);
        let coded = self.coded_strings().into_iter().map(Expr::columns);
        functions.chain(coded).flatten().collect()
    }

    /// Strings that are used by their codes: group keys, keys and columns of build sides and windows, and
    /// those output columns, sort keys and arguments of MIN and MAX that are selected or evaluated by value.
    /// Strings that need no dictionary are excluded: computed strings in group and join keys, and sort keys
    /// that are ordered by their bytes.
    pub(super) fn coded_strings(&self) -> Vec<&Expr> {
        let is_coded = |column: &&Expr| !matches!(column.kind(), ExprKind::LateMaterialised(_));
        let mut all: Vec<&Expr> = Vec::new();
        if let Some((_, aggregates)) = self.sink.grouped() {
            let ordered = aggregates.iter().filter(|call| call.function.orders_values());
            let ordered = ordered.filter_map(|call| call.argument.as_ref());
            // Pipelines that read a result on the device can sort and return it only if it is a code.
            let returned = matches!(self.sink, SinkPlan::Aggregate { kept: false, .. });
            let by_place = |text: &Expr| text.is_made() || (returned && text.as_column().is_some());
            all.extend(ordered.filter(|text| !by_place(text)));
        }
        if let Some((key, columns)) = self.sink.keyed() {
            let by_place = matches!(
                self.sink,
                SinkPlan::Build { .. } | SinkPlan::Multimap { .. } | SinkPlan::Probe { .. }
            );
            all.extend(key.parts().iter().filter(|part| !by_place || !part.is_made()));
            all.extend(columns.iter().map(|(_, column)| column).filter(is_coded));
        }
        match &self.sink {
            // Keys without a dictionary are interned and used by their places.
            SinkPlan::Aggregate { keys, .. } => all.extend(keys.iter().filter(|key| !key.is_made())),
            SinkPlan::Rows { outputs, order } => {
                let values = outputs.iter().flat_map(Expr::values_for_host);
                all.extend(values.filter(|value| value.as_column().is_none()));
                let keys = order.iter().flat_map(RowOrder::expressions);
                let keys = keys.flat_map(Expr::children);
                all.extend(keys.filter(|key| !key.has_bytes()));
            }
            SinkPlan::Windows(input) => {
                let columns = input.columns.iter().map(|(_, column)| column);
                all.extend(columns.filter(is_coded));
                let keys = input.words().flat_map(Expr::children);
                all.extend(keys.filter(|key| !key.has_bytes()));
            }
            SinkPlan::Store { columns, .. } => all.extend(columns.iter().map(|(_, column)| column)),
            SinkPlan::BuildGroups { key, .. } => all.extend(key.parts()),
            _ => {}
        }
        all.retain(|expression| is_string(expression.data_type()));
        all
    }
}
