//! Rows that other pipelines left on the device in several parts, which are the chunks of a pipeline.
//!
//! The values of all parts are computed for each row, and one is selected. For rows of another part, the
//! first entry is read, which is in the cache.

use super::Emitter;
use super::lookup::Place;
use crate::built::Part;
use crate::ir::Expr;
use crate::kind::Kind;
use crate::lookup_side::{Payload, Table};
use crate::value::Value;

impl Emitter<'_> {
    /// The position of a row in its part. The row is inside if its part is number `part`.
    pub(super) fn part_place(&mut self, part: u32) -> Place {
        let inside = self.define(&Kind::Bool, &format!("cursor.index() == {part}u"));
        let index = format!("{inside} && (live >> i & 1u) != 0 ? row + (u32)i : 0u");
        Place {
            index: self.define_as("u32", &index),
            inside,
            null: None,
        }
    }

    /// A column of the row at a position.
    pub(super) fn part_column(
        &mut self,
        expression: &Expr,
        build_side: usize,
        payload: &Payload,
        place: &Place,
    ) -> Value {
        let directory = Table::Built(Part::Directory).of(build_side);
        let table = self.parameters.lookup_table(directory);
        let address = |table: &Table, table_number: usize| {
            let word = match table {
                Table::Built(Part::Nulls(position)) => 2 * position + 1,
                Table::Built(Part::Values(position)) => 2 * position,
                _ => 0,
            };
            format!("table_entry<u64>(args.tables[{table_number}], {word})")
        };
        let index = &place.index;
        let null = payload.nulls.as_ref().map(|nulls| {
            let bits = address(nulls, table);
            self.define(&Kind::Bool, &format!("table_bit((const u8*){bits}, {index})"))
        });
        let kind = payload.kind();
        let entries = address(&payload.table, table);
        let entry = format!("((const {}*){entries})[{index}]", payload.c_type);
        let code = self.define(&kind, &format!("({}){entry}", kind.c_type()));
        let code = match (&null, &kind) {
            (Some(null), Kind::Bool) => self.define(&kind, &format!("!{null} && {code}")),
            _ => code,
        };
        payload.value(code, null, expression.data_type())
    }
}
