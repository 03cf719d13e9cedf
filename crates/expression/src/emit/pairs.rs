//! Rows of multimap joins: the list of matches of a probe row, and the columns of pairs.

use super::lookup::Place;
use super::{Emitter, boolean};
use crate::built::{PairShape, PairSide, PairWord, Part};
use crate::code::Code;
use crate::ir::Expr;
use crate::kind::Kind;
use crate::lookup_side::{LookupSide, Table};
use crate::value::Value;
use galatea_base::reason::Reason;

/// Bits of a pair's number within its chunk: few enough that tests cover joins with several chunks.
pub const PAIR_CHUNK_BITS: u32 = 20;

impl Emitter<'_> {
    /// Defines the start and the length of the list of a key in build side `build_side`.
    pub fn list(
        &mut self,
        build_side: usize,
        key: &Expr,
        code: &mut Code,
    ) -> Result<(String, String), Reason> {
        let list = self.partners(build_side, key)?;
        code.nest(0, &self.out.take());
        Ok(list)
    }

    /// Defines the pair of the current row number.
    pub fn pair_of_row(&mut self, build_side: usize, code: &mut Code) -> Result<String, Reason> {
        let found = self.known_build_side(build_side)?;
        let place = self.place(build_side, &found, &Expr::row_number())?;
        code.nest(0, &self.out.take());
        Ok(place.index)
    }

    /// C++ expressions of the start and the length of the list of a key in build side `build_side`.
    pub(super) fn partners(&mut self, build_side: usize, key: &Expr) -> Result<(String, String), Reason> {
        let found = self.known_build_side(build_side)?;
        let place = self.place(build_side, &found, key)?;
        let inside = self.unless_null(&place.inside, place.null.as_ref());
        let table = (self.parameters).lookup_table(Table::Built(Part::Starts).of(build_side));
        let start = |index: String| format!("((const u32*)args.tables[{table}])[{index}]");
        let first = self.define_as("u32", &start(place.index.clone()));
        let count = format!(
            "{inside} ? {} - {first} : 0u",
            start(format!("u64({}) + 1", place.index))
        );
        let count = self.define_as("u32", &count);
        Ok((first, count))
    }

    /// The pair of the current row number; any pair for rows that are not live.
    pub(super) fn pair(&mut self, build_side: usize) -> Place {
        let number = format!(
            "(live >> i & 1u) != 0 ? (u64(cursor.index()) << {PAIR_CHUNK_BITS}) + row + (u32)i : 0ull"
        );
        let pair = self.define_as("Pair", &format!("pairs{build_side}.at({number})"));
        Place {
            inside: format!("{pair}.kept"),
            index: pair,
            null: None,
        }
    }

    /// A column of a pair; NULL if the pair has no row of the column's side.
    pub(super) fn pair_column(
        &mut self,
        expression: &Expr,
        build_side: usize,
        column: usize,
        (found, shape): (&LookupSide, &PairShape),
        place: &Place,
    ) -> Result<Value, Reason> {
        let pair = &place.index;
        let table = (self.parameters).lookup_table(Table::Built(Part::Directory).of(build_side));
        let address = |word: usize| format!("((const u64*)args.tables[{table}])[{word}]");
        if shape.mark == Some(column) {
            let bits = address(PairWord::Marks as usize);
            let marked = self.define(
                &Kind::Bool,
                &format!("table_bit((const u8*){bits}, {pair}.probe)"),
            );
            return Ok(boolean(marked, None));
        }
        let not_kept = Reason::Encoding {
            column,
            needed: "a column that the join kept",
        };
        let (Some(side), Some(payload)) = (shape.sides.get(&column), found.column(column)) else {
            return Err(not_kept);
        };
        let number = match side {
            PairSide::Probe => format!("{pair}.probe"),
            PairSide::Build => format!("{pair}.build"),
        };
        let word_of = |table: &Table| match table {
            Table::Built(Part::Values(position)) => Some(PairWord::column(*position)),
            Table::Built(Part::Nulls(position)) => Some(PairWord::column(*position) + 1),
            _ => None,
        };
        let values = word_of(&payload.table).ok_or(not_kept)?;
        let (at, absent) = match shape.absent.contains(side) {
            true => {
                let absent = self.define(&Kind::Bool, &format!("{number} == NO_ROW"));
                let at = self.define_as("u32", &format!("{absent} ? 0u : {number}"));
                (at, Some(absent))
            }
            false => (number, None),
        };
        let null = payload.nulls.as_ref().and_then(word_of);
        let null = null.map(|word| format!("table_bit((const u8*){}, {at})", address(word)));
        let null = match (absent, null) {
            (Some(absent), Some(null)) => Some(format!("{absent} || {null}")),
            (absent, null) => absent.or(null),
        };
        let null = null.map(|null| self.define(&Kind::Bool, &null));
        let kind = payload.kind();
        let entry = format!("((const {}*){})[{at}]", payload.c_type, address(values));
        // A side without rows still has entry 0, which is zero.
        let code = self.define(&kind, &format!("({}){entry}", kind.c_type()));
        let code = match (&null, &kind) {
            (Some(null), Kind::Bool) => self.define(&kind, &format!("!{null} && {code}")),
            _ => code,
        };
        Ok(payload.value(code, null, expression.data_type()))
    }
}
