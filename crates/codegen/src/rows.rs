//! The rows of a thread: loaded from columns and decoded one by one.

use super::column_access::{AccessForm, ColumnAccess};
use galatea_expression::code::{Code, line};
use galatea_expression::{ColumnKind, kind_for};
use std::collections::BTreeSet;

/// Whether row `i` of the thread exists and has passed the filters so far.
pub(super) const LIVE: &str = "(live >> i & 1u) != 0";

/// Loads columns and iterates over the rows of a thread, stage by stage.
#[derive(Debug)]
pub(super) struct RowLoops<'a> {
    columns: &'a [ColumnAccess],
    items: u32,
    loaded: Vec<bool>,
}

impl<'a> RowLoops<'a> {
    /// The loops of a pipeline with these columns and `items` rows per thread.
    pub(super) fn new(columns: &'a [ColumnAccess], items: u32) -> Self {
        Self {
            columns,
            items,
            loaded: vec![false; columns.len()],
        }
    }

    /// A loop for threads with a live row. Loads the columns `used` that no earlier loop loaded, and runs
    /// `row` for each row.
    pub(super) fn stage(&mut self, used: &BTreeSet<usize>, row: &Code, code: &mut Code) {
        let items = self.items;
        // Registers are declared outside the condition so that later stages can use them.
        let fresh: Vec<usize> = used.iter().copied().filter(|k| !self.loaded[*k]).collect();
        let mut loads = Code::default();
        for &k in &fresh {
            self.loaded[k] = true;
            if let Some(element) = element(self.columns[k].form) {
                line!(code, "Rows<{element}, {items}> q{k};");
                line!(loads, "q{k} = load_rows<{element}, {items}>(d{k}, row);");
            }
            if self.columns[k].nullable {
                line!(code, "u32 v{k} = 0;");
                line!(loads, "v{k} = load_validity<{items}>(m{k}, row);");
            }
        }
        let mut body = Code::default();
        for &k in used {
            let column = &self.columns[k];
            line!(body, "{}", decode(k, column));
            if column.nullable {
                line!(body, "const bool c{k}_null = (v{k} >> i & 1u) == 0;");
            }
        }
        body.nest(0, row);
        code.lines("if (live != 0) {");
        code.nest(1, &loads);
        code.lines("#pragma unroll");
        line!(code, "    for (int i = 0; i < {items}; ++i) {{");
        code.nest(2, &body);
        code.lines("    }\n}");
    }
}

/// Declares the buffers of a chunk's columns.
pub(super) fn declare_buffers(columns: &[ColumnAccess], code: &mut Code) {
    for (k, column) in columns.iter().enumerate() {
        if element(column.form).is_some() || matches!(column.form, AccessForm::Text { .. }) {
            line!(code, "const unsigned char* d{k} = cursor.data({k});");
        }
        if matches!(column.form, AccessForm::Text { .. }) {
            line!(code, "const unsigned char* o{k} = cursor.offsets({k});");
        }
        if matches!(column.form, AccessForm::Integer { .. }) {
            line!(code, "const i64 b{k} = cursor.base({k});");
        }
        if column.nullable {
            line!(code, "const unsigned char* m{k} = cursor.validity({k});");
        }
    }
}

/// Declares, for each laid-out column, the table from slot to code.
pub(super) fn declare_slot_tables(columns: &[ColumnAccess], code: &mut Code) {
    for (k, column) in columns.iter().enumerate() {
        if let Some(slots) = &column.slots {
            line!(
                code,
                "const u32* const s{k} = (const u32*)args.tables[{}];",
                slots.table
            );
        }
    }
}

/// C++ element type of a column's codes; `None` if nothing is loaded per row.
fn element(form: AccessForm) -> Option<&'static str> {
    Some(match form {
        AccessForm::Integer { width, .. } | AccessForm::Code { width } => match width {
            0 => return None,
            1 => "u8",
            2 => "u16",
            4 => "u32",
            _ => "u64",
        },
        AccessForm::Boolean => "u8",
        AccessForm::Float32 => "float",
        AccessForm::Float64 => "double",
        AccessForm::Wide => "i128",
        AccessForm::Text { .. } => return None,
    })
}

/// The declaration of `c{k}` for row `i`.
fn decode(k: usize, column: &ColumnAccess) -> String {
    let code = match column.slots {
        // The slot that was loaded for a row that is not live is invalid.
        Some(_) => format!("s{k}[{LIVE} ? q{k}[i] : 0]"),
        None => format!("q{k}[i]"),
    };
    match (column.form, &column.binding.kind) {
        (AccessForm::Integer { width, factor }, ColumnKind::Integer { min, max }) => {
            let ctype = kind_for(*min, *max).c_type();
            // Codes are unsigned and their product with the factor stays inside the interval, modulo 2^n.
            let unsigned = match ctype {
                "i32" => "u32",
                "i64" => "u64",
                _ => "u128",
            };
            match (width, factor) {
                (0, _) => format!("const {ctype} c{k} = {ctype}(b{k});"),
                (_, 1) => format!("const {ctype} c{k} = {ctype}({unsigned}(b{k}) + {unsigned}({code}));"),
                _ => format!(
                    "const {ctype} c{k} = {ctype}({unsigned}(b{k}) + {unsigned}({code}) * {unsigned}({factor}ull));"
                ),
            }
        }
        (AccessForm::Wide, ColumnKind::Integer { min, max }) => {
            let ctype = kind_for(*min, *max).c_type();
            format!("const {ctype} c{k} = {ctype}(q{k}[i]);")
        }
        (AccessForm::Boolean, _) => format!("const bool c{k} = q{k}[i] != 0;"),
        (AccessForm::Float32, _) => format!("const float c{k} = q{k}[i];"),
        (AccessForm::Float64, _) => format!("const double c{k} = q{k}[i];"),
        (AccessForm::Code { width: 0 }, _) => format!("const u32 c{k} = 0;"),
        // The code that was loaded for a row that is not live is undefined, and tables by code have no entry
        // for it.
        (AccessForm::Code { .. }, _) if column.slots.is_none() => {
            format!("const u32 c{k} = {LIVE} ? u32({code}) : 0u;")
        }
        (AccessForm::Code { .. }, _) => format!("const u32 c{k} = u32({code});"),
        (form @ AccessForm::Text { .. }, _) => format!(
            "const Text c{k} = string_at<{}>(o{k}, d{k}, row + i, end);",
            form.offset_type().unwrap_or_default()
        ),
        (form, kind) => format!("#error column {k}: {form:?} as {kind:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, RecordBatch, StringArray};
    use galatea_expression::Parameters;
    use galatea_store::{ConflictLayout, Store, StoreOptions, StoredTable};

    /// The slot that was loaded for a row that is not live is undefined and must not be looked up.
    #[test]
    fn slots_are_looked_up_only_for_live_rows() {
        let numbers = Int32Array::from_iter_values((0..100).map(|row| row % 3 * 10));
        let words = StringArray::from_iter_values((0..100).map(|row| ["a", "b"][row % 2]));
        let batch = RecordBatch::try_from_iter([
            ("n", std::sync::Arc::new(numbers) as _),
            ("w", std::sync::Arc::new(words) as _),
        ]);
        let batch = batch.expect("columns of one length");
        let store = Store::new(StoreOptions::default());
        let table = StoredTable::from_batches(&store, "t", batch.schema(), [batch]).expect("encoded");
        let change = table.set_conflict_layout(&[0, 1], Some(ConflictLayout::AUTO));
        futures::executor::block_on(change).expect("laid out");
        let mut parameters = Parameters::default();
        let codes = table.snapshot().columns.clone().into_iter().enumerate();
        let codes: Vec<String> = codes
            .map(|(k, column)| decode(k, &ColumnAccess::new(k, &column, &mut parameters)))
            .collect();
        assert_eq!(
            codes,
            [
                "const i32 c0 = i32(u32(b0) + u32(s0[(live >> i & 1u) != 0 ? q0[i] : 0]) * u32(10ull));",
                "const u32 c1 = u32(s1[(live >> i & 1u) != 0 ? q1[i] : 0]);",
            ]
        );
        assert_eq!(parameters.tables.len(), 2);
    }
}
