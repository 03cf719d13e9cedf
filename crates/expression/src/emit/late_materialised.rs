//! Strings without a dictionary that are only returned: build sides store their row numbers.

use super::Emitter;
use crate::binding::ColumnKind;
use crate::built::PayloadKind;
use crate::ir::{Expr, ExprKind};
use crate::is_string;
use crate::value::Value;
use arrow::datatypes::{DataType, Field};
use galatea_base::reason::Reason;

impl Emitter<'_> {
    /// A string as its row number, if it has no dictionary.
    pub(super) fn late_materialised(&mut self, expression: &Expr, text: &Expr) -> Result<Value, Reason> {
        let binding = text.as_column().and_then(|column| self.bindings.get(column));
        if !matches!(binding.map(|binding| &binding.kind), Some(ColumnKind::Text)) {
            return self.expression(text);
        }
        // The host determines which strings are NULL.
        Ok(Value {
            data_type: expression.data_type().clone(),
            ..self.expression(&Expr::row_number())?
        })
    }

    /// The location of an output string that a build side stores by row number: the build side, its column,
    /// and the row number, which is NULL if no row matches.
    pub fn row_of_string(&self, output: &Expr) -> Option<(usize, usize, Expr)> {
        match output.kind() {
            ExprKind::Lookup {
                build_side,
                column,
                name,
                key,
                ..
            } if is_string(output.data_type()) => {
                let payload = self.build_sides.get(*build_side)?.column(*column)?;
                let number = Field::new(name, DataType::Int64, false);
                let row = || Expr::lookup(*build_side, *column, &number, key.clone());
                matches!(payload.values, PayloadKind::Integer(_)).then(|| (*build_side, *column, row()))
            }
            ExprKind::Case { .. } => {
                let (condition, value) = output.as_only_where()?;
                let (build_side, column, row) = self.row_of_string(value)?;
                Some((build_side, column, Expr::only_where(condition.clone(), row)))
            }
            _ => None,
        }
    }
}
