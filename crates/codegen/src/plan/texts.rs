//! Which texts of a pipeline go by their codes, and which are only returned.

use super::{PipelinePlan, RowOrder, SinkPlan};
use galatea_expression::{Expr, ExprKind, is_text};
use std::collections::{BTreeMap, BTreeSet, HashSet};

impl PipelinePlan {
    /// The texts of build sides, by number and column, that are returned and nothing else is computed of.
    pub fn returned_texts(&self) -> BTreeSet<(usize, usize)> {
        let SinkPlan::Materialise { outputs, order } = &self.sink else {
            return BTreeSet::new();
        };
        let (mut texts, mut others) = (BTreeSet::new(), BTreeSet::new());
        for output in outputs {
            output.collect_returned_texts(&mut texts, &mut others);
        }
        let order = order.iter().flat_map(RowOrder::expressions);
        let lookups = self.filters.iter().chain(order).map(Expr::lookups);
        others.extend(lookups.flat_map(BTreeMap::into_keys));
        texts.difference(&others).copied().collect()
    }

    /// Source columns that must arrive dictionary encoded, whatever their cardinality: those of texts that go
    /// by their codes, and arguments of string functions that have no device form.
    pub fn dictionary_columns(&self) -> BTreeSet<usize> {
        let outputs = match &self.sink {
            SinkPlan::Materialise { outputs, .. } => outputs.as_slice(),
            _ => &[],
        };
        // Whether the host computes them shows when encodings are known.
        let outputs: HashSet<&Expr> = outputs.iter().flat_map(Expr::returned).collect();
        let expressions = self
            .expressions()
            .into_iter()
            .flat_map(|e| match outputs.contains(e) {
                true => e.values_for_host(),
                false => vec![e],
            });
        let functions = expressions.map(Expr::dictionary_columns);
        let coded = self.coded_texts().into_iter().map(Expr::columns);
        functions.chain(coded).flatten().collect()
    }

    /// Texts that go by their codes: those of group keys, of keys and columns of build sides and windows, and
    /// those among output columns, keys of an order and arguments of MIN and MAX that are chosen or evaluated
    /// by their values. Not among them are those that need no dictionary: made texts that are keys of groups
    /// and of joins, and texts of orders by their bytes.
    pub(super) fn coded_texts(&self) -> Vec<&Expr> {
        let is_coded = |column: &&Expr| !matches!(column.kind(), ExprKind::ByRow(_));
        let mut all: Vec<&Expr> = Vec::new();
        if let Some((_, aggregates)) = self.sink.grouped() {
            let ordered = aggregates.iter().filter(|call| call.function.orders_values());
            let ordered = ordered.filter_map(|call| call.argument.as_ref());
            // Pipelines that read a result where it is can order and return it if it is a code.
            let returned = matches!(self.sink, SinkPlan::Aggregate { kept: false, .. });
            let by_place = |text: &Expr| text.is_made() || (returned && text.as_column().is_some());
            all.extend(ordered.filter(|text| !by_place(text)));
        }
        if let Some((key, columns)) = self.sink.keyed() {
            let by_place = matches!(
                self.sink,
                SinkPlan::Build { .. } | SinkPlan::Lists { .. } | SinkPlan::Probe { .. }
            );
            all.extend(key.parts().iter().filter(|part| !by_place || !part.is_made()));
            all.extend(columns.iter().map(|(_, column)| column).filter(is_coded));
        }
        match &self.sink {
            // Those that have no dictionary go by their places among them.
            SinkPlan::Aggregate { keys, .. } => all.extend(keys.iter().filter(|key| !key.is_made())),
            SinkPlan::Materialise { outputs, order } => {
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
        all.retain(|expression| is_text(expression.data_type()));
        all
    }
}
