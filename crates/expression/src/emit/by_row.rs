//! Texts without a dictionary that are only returned: build sides have them by the numbers of their rows.

use super::Emitter;
use crate::binding::ColumnKind;
use crate::built::PayloadKind;
use crate::ir::{Expr, ExprKind};
use crate::is_text;
use crate::value::Value;
use arrow::datatypes::{DataType, Field};
use galatea_base::reason::Reason;

impl Emitter<'_> {
    /// A text as the number of its row, where it has no dictionary.
    pub(super) fn by_row(&mut self, expression: &Expr, text: &Expr) -> Result<Value, Reason> {
        let binding = text.as_column().and_then(|column| self.bindings.get(column));
        if !matches!(binding.map(|binding| &binding.kind), Some(ColumnKind::Text)) {
            return self.expression(text);
        }
        // Which texts are NULL the host sees.
        Ok(Value {
            data_type: expression.data_type().clone(),
            ..self.expression(&Expr::row_number())?
        })
    }

    /// Where the text of an output is that a build side has by the number of its row: the build side, its
    /// column, and that number, which is NULL where there is no row.
    pub fn row_of_text(&self, output: &Expr) -> Option<(usize, usize, Expr)> {
        match output.kind() {
            ExprKind::Lookup {
                dimension,
                column,
                name,
                key,
                ..
            } if is_text(output.data_type()) => {
                let payload = self.dimensions.get(*dimension)?.column(*column)?;
                let number = Field::new(name, DataType::Int64, false);
                let row = || Expr::lookup(*dimension, *column, &number, key.clone());
                matches!(payload.values, PayloadKind::Integer(_)).then(|| (*dimension, *column, row()))
            }
            ExprKind::Case { .. } => {
                let (condition, value) = output.as_only_where()?;
                let (dimension, column, row) = self.row_of_text(value)?;
                Some((dimension, column, Expr::only_where(condition.clone(), row)))
            }
            _ => None,
        }
    }
}
