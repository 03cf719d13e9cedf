//! Lookups of build-side rows by key: from arrays in device memory, or packed in shared memory.

use super::{Emitter, boolean};
use crate::built::{Part, PayloadKind, Spare};
use crate::dictionary::Bytes;
use crate::ir::Expr;
use crate::key_space::KeySpace;
use crate::kind::Kind;
use crate::lookup_side::{Form, Keys, LookupSide, Payload, Presence, Table};
use crate::packed::{EntryIndex, Field, PackedLookupSide};
use crate::value::Value;
use galatea_base::reason::Reason;
use std::sync::Arc;

/// The place of a row's match in a build side.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Name of the condition that the key is within the build side's key range. For packed build sides it is
    /// always true, and the entry contains the presence bit.
    pub(super) inside: String,
    /// Name of the index. It is 0 if the key is not inside, so that the entry can be read anyway; for packed
    /// build sides, it is the index of the absent entry; for pairs, the pair.
    pub(super) index: String,
    /// The key's NULL flag.
    pub(super) null: Option<String>,
}

/// The error for a column that the build side does not have.
fn not_collected(column: usize) -> Reason {
    Reason::Encoding {
        column,
        needed: "a column that was collected",
    }
}

impl<'a> Emitter<'a> {
    /// Whether a row of the build side has the key; never NULL.
    pub(super) fn member(&mut self, build_side: usize, key: &Expr) -> Result<Value, Reason> {
        let found = self.known_build_side(build_side)?;
        if found.form == Form::Multimap {
            let (_, count) = self.partners(build_side, key)?;
            let member = self.define(&Kind::Bool, &format!("{count} != 0"));
            return Ok(boolean(member, None));
        }
        let place = self.place(build_side, &found, key)?;
        if let Form::Groups(groups) = &found.form {
            let table = self
                .parameters
                .lookup_table(Table::Built(Part::Presence).of(build_side));
            let test = format!("{} && {}", place.inside, groups.member(table, &place.index));
            let member = self.define(&Kind::Bool, &test);
            return Ok(boolean(self.unless_null(&member, place.null.as_ref()), None));
        }
        let member = match (self.packed(build_side), &found.presence) {
            (Some(packed), _) => {
                let word = self.packed_word(build_side, packed, 0, &place.index);
                self.define(&Kind::Bool, &format!("({word} & 1u) != 0"))
            }
            (None, Presence::Entry(column, spare)) => {
                let payload = found.column(*column).ok_or(not_collected(*column))?;
                let entry = self.held(build_side, payload, &place.index);
                self.present(&place, payload, &entry, *spare)
            }
            (None, Presence::Bits(presence)) if place.inside != "false" => {
                let table = self.parameters.lookup_table(presence.of(build_side));
                let test = format!(
                    "{} && table_bit(args.tables[{table}], {})",
                    place.inside, place.index
                );
                self.define(&Kind::Bool, &test)
            }
            _ => place.inside,
        };
        Ok(boolean(self.unless_null(&member, place.null.as_ref()), None))
    }

    /// Whether it is certain, despite NULLs, that no row has the key; never NULL.
    pub(super) fn absent(&mut self, build_side: usize, key: &Expr) -> Result<Value, Reason> {
        let found = self.known_build_side(build_side)?;
        if found.is_built() {
            return Err(Reason::Encoding {
                column: 0,
                needed: "keys that were collected on the host",
            });
        }
        let member = self.member(build_side, key)?;
        // Packed build sides have an entry for NULL, so their places have no NULL flag.
        let null = self.expression(key)?.null;
        let absent = match (found.rows(), found.has_null_keys()) {
            (0, _) => "true".to_owned(),
            (_, true) => "false".to_owned(),
            _ => {
                let absent = self.define(&Kind::Bool, &format!("!{}", member.code));
                self.unless_null(&absent, null.as_ref())
            }
        };
        Ok(boolean(absent, None))
    }

    /// A column of the row with the key; undefined if no row has the key.
    pub(super) fn lookup(
        &mut self,
        expression: &Expr,
        build_side: usize,
        column: usize,
        key: &Expr,
    ) -> Result<Value, Reason> {
        let found = self.known_build_side(build_side)?;
        if let Form::Groups(groups) = &found.form {
            let index = self.place(build_side, &found, key)?.index;
            let table = self
                .parameters
                .lookup_table(Table::Built(Part::Presence).of(build_side));
            return groups.column(self, (build_side, table, &index), column, expression.data_type());
        }
        let not_collected = not_collected(column);
        if let Form::Pairs(shape) = &found.form {
            let place = self.place(build_side, &found, key)?;
            return self.pair_column(expression, build_side, column, (&found, shape), &place);
        }
        if let Form::Windows(shape) = &found.form {
            let place = self.place(build_side, &found, key)?;
            return self.window_column(expression, build_side, column, (&found, shape), &place);
        }
        if let Form::Stored(_) = found.form {
            let place = self.place(build_side, &found, key)?;
            let payload = found.column(column).ok_or(not_collected)?;
            return Ok(self.part_column(expression, build_side, payload, &place));
        }
        let payload = found.column(column).ok_or(not_collected.clone())?;
        let place = self.place(build_side, &found, key)?;
        let index = &place.index;
        let kind = payload.kind();
        let (code, null) = match self.packed(build_side) {
            Some(packed) => {
                let (parts, null) = packed.column(column).ok_or(not_collected)?;
                let null = null.map(|null| {
                    let bit = self.packed_field(build_side, packed, null, index);
                    self.define(&Kind::Bool, &format!("{bit} != 0"))
                });
                let parts = (parts.iter()).map(|part| self.packed_field(build_side, packed, *part, index));
                let parts: Vec<String> = parts.collect();
                let value = self.unpacked(&payload.values, &kind, &parts);
                (self.define(&kind, &value), null)
            }
            None => {
                let null = payload.nulls.as_ref().map(|nulls| {
                    let table = self.parameters.lookup_table(nulls.of(build_side));
                    self.define(&Kind::Bool, &format!("table_bit(args.tables[{table}], {index})"))
                });
                let entry = self.held(build_side, payload, index);
                let code = match (&found.presence, &payload.values) {
                    // A sentinel is not a code and must not be looked up in a table by code.
                    (Presence::Entry(marker, spare), PayloadKind::Code(_)) if *marker == column => {
                        let present = self.present(&place, payload, &entry, *spare);
                        self.define(&kind, &format!("{present} ? {entry} : 0"))
                    }
                    _ => entry,
                };
                (code, null)
            }
        };
        Ok(payload.value(code, null, expression.data_type()))
    }

    /// The entry of a column at an index.
    fn held(&mut self, build_side: usize, payload: &Payload, index: &str) -> String {
        let table = self.parameters.lookup_table(payload.table.of(build_side));
        let kind = payload.kind();
        let entry = format!(
            "({})table_entry<{}>(args.tables[{table}], {index})",
            kind.c_type(),
            payload.c_type
        );
        self.define(&kind, &entry)
    }

    /// Whether the index has a row, given the entry of the column with the sentinel.
    fn present(&mut self, place: &Place, payload: &Payload, entry: &str, spare: Spare) -> String {
        let (inside, c_type) = (&place.inside, payload.kind().c_type());
        let test = format!("{inside} && {entry} != ({c_type})({})", spare.value);
        self.define(&Kind::Bool, &test)
    }

    fn packed(&self, build_side: usize) -> Option<&'a PackedLookupSide> {
        self.packed.get(build_side)?.as_ref()
    }

    /// The entry of a plane.
    fn packed_word(
        &mut self,
        build_side: usize,
        packed: &PackedLookupSide,
        plane: usize,
        index: &str,
    ) -> String {
        let entry = if packed.is_bitmap(plane) {
            format!("dim{build_side}_{plane}[{index} >> 5] >> ({index} & 31) & 1u")
        } else {
            format!("dim{build_side}_{plane}[{index}]")
        };
        self.define_as("u32", &entry)
    }

    /// Bits of an entry. Their shift and mask are literals and not part of the source, so that build sides
    /// with similar values share kernels.
    fn packed_field(
        &mut self,
        build_side: usize,
        packed: &PackedLookupSide,
        field: Field,
        index: &str,
    ) -> String {
        let word = self.packed_word(build_side, packed, field.plane, index);
        if field.shift == 0 && field.top {
            return word;
        }
        let mask = (1u64 << field.bits) - 1;
        let place = self.parameters.literal(mask << 32 | u64::from(field.shift));
        let (shift, mask) = (
            format!("(u32)args.literals[{place}]"),
            format!("(u32)(args.literals[{place}] >> 32)"),
        );
        let bits = match (field.shift, field.top) {
            (0, _) => format!("{word} & {mask}"),
            (_, true) => format!("{word} >> {shift}"),
            _ => format!("{word} >> {shift} & {mask}"),
        };
        self.define_as("u32", &bits)
    }

    /// The value, given the 32-bit parts of its distance from the least value.
    fn unpacked(&mut self, values: &PayloadKind, kind: &Kind, parts: &[String]) -> String {
        let part = |number: usize| parts.get(number).map_or("0u", String::as_str);
        let long = |low: usize| match part(low + 1) {
            "0u" => format!("(u64){}", part(low)),
            high => format!("((u64){high} << 32 | {})", part(low)),
        };
        match (values, kind) {
            (PayloadKind::Integer(interval), Kind::I32) => {
                let low = self.parameters.literal(interval.low as u64);
                format!("(i32)((u32)args.literals[{low}] + {})", part(0))
            }
            (PayloadKind::Integer(interval), Kind::I64) => {
                let low = self.parameters.literal(interval.low as u64);
                format!("(i64)(args.literals[{low}] + {})", long(0))
            }
            (PayloadKind::Integer(interval), _) => {
                let low = self.parameters.wide_literal(interval.low);
                let distance = match part(2) {
                    "0u" => format!("(u128){}", long(0)),
                    _ => format!("((u128){} << 64 | {})", long(2), long(0)),
                };
                format!(
                    "(i128)((u128)make_i128(args.literals[{low}], args.literals[{}]) + {distance})",
                    low + 1
                )
            }
            (PayloadKind::Boolean, _) => format!("{} != 0", part(0)),
            (PayloadKind::Float32, _) => format!("__uint_as_float({})", part(0)),
            (PayloadKind::Float64, _) => format!("__longlong_as_double((i64){})", long(0)),
            (PayloadKind::Code(_), _) => part(0).to_owned(),
        }
    }

    pub(super) fn known_build_side(&self, build_side: usize) -> Result<Arc<LookupSide>, Reason> {
        let found = self.build_sides.get(build_side).cloned();
        found.ok_or_else(|| Reason::Expression {
            expression: format!("build side {build_side}"),
            detail: "its rows were not collected".to_owned(),
        })
    }

    pub(super) fn place(
        &mut self,
        build_side: usize,
        found: &LookupSide,
        key: &Expr,
    ) -> Result<Place, Reason> {
        let known = (build_side, key.clone());
        if let Some(place) = self.scope.places.get(&known) {
            return Ok(place.clone());
        }
        let place = match (self.packed(build_side), &found.keys) {
            (Some(packed), _) => self.packed_place(packed, found, key)?,
            (None, Keys::Space(space)) => self.numbered_place(build_side, space, key)?,
            (None, Keys::Rows) if matches!(found.form, Form::Pairs(_)) => self.pair(build_side),
            (None, Keys::Rows) if matches!(found.form, Form::Windows(_)) => self.window_place(build_side),
            (None, Keys::Rows) => match found.form {
                Form::Stored(part) => self.part_place(part),
                // The rows of a step are distributed one by one, see `generate`. No row beyond the last is
                // read.
                ref form => {
                    // Other rows are in one chunk.
                    let first = match form {
                        Form::Partitions => "(u32)first_row + ",
                        _ => "",
                    };
                    let index = format!("(live >> i & 1u) != 0 ? {first}row + (u32)i * blockDim.x : 0u");
                    Place {
                        inside: "true".to_owned(),
                        index: self.define_as("u32", &index),
                        null: None,
                    }
                }
            },
            (None, _) => {
                let value = self.string_operand(key)?;
                let (offset, inside) = match &found.keys {
                    Keys::Nothing => ("0u".to_owned(), "false".to_owned()),
                    Keys::Integers(interval) => {
                        let (unsigned, offset) = self.offset(*interval, &value);
                        let span = self.parameters.literal((interval.high - interval.low) as u64);
                        let inside = format!("{offset} <= ({unsigned})args.literals[{span}]");
                        (offset, self.define(&Kind::Bool, &inside))
                    }
                    Keys::Strings(keys) => self.translated_rank(&Bytes::of(keys)?, key, &value)?,
                    Keys::Space(_) | Keys::Rows => unreachable!("matched above"),
                };
                // Rows that are not live have undefined keys, so the index must be safe for any key.
                Place {
                    index: self.define_as("u32", &format!("{inside} ? (u32){offset} : 0u")),
                    inside,
                    null: value.null,
                }
            }
        };
        self.scope.places.insert(known, place.clone());
        Ok(place)
    }

    /// The entry of the key; the absent entry for keys that the build side does not have.
    fn packed_place(
        &mut self,
        packed: &PackedLookupSide,
        found: &LookupSide,
        key: &Expr,
    ) -> Result<Place, Reason> {
        let (unsigned, number, null) = match &packed.index {
            EntryIndex::Slot { slot, null } => ("u32", slot.clone(), null.clone()),
            EntryIndex::Code => {
                let value = self.string_operand(key)?;
                ("u32", value.code, value.null)
            }
            EntryIndex::Key => {
                let value = self.string_operand(key)?;
                let (unsigned, number) = match &found.keys {
                    Keys::Nothing | Keys::Space(_) | Keys::Rows => ("u32", "0u".to_owned()),
                    Keys::Integers(interval) => self.offset(*interval, &value),
                    Keys::Strings(keys) => ("u32", self.translated_rank(&Bytes::of(keys)?, key, &value)?.0),
                };
                (unsigned, number, value.null)
            }
        };
        let entries = self.parameters.literal(u64::from(packed.entries));
        let number = self.define_as(unsigned, &number);
        let index = format!(
            "{number} < ({unsigned})args.literals[{entries}] ? (u32){number} : (u32)args.literals[{entries}]"
        );
        Ok(Place {
            inside: "true".to_owned(),
            index: self.define_as("u32", &index),
            null,
        })
    }

    /// The place of a key by its number.
    fn numbered_place(&mut self, build_side: usize, space: &KeySpace, key: &Expr) -> Result<Place, Reason> {
        let mut parts = Vec::new();
        for part in key.parts() {
            parts.push(self.string_operand(part)?);
        }
        // If NULL is a key value, it has a number.
        let without = parts.iter().zip(&space.parts).filter(|(_, part)| !part.nulls);
        let nulls: Vec<&str> = without.filter_map(|(value, _)| value.null.as_deref()).collect();
        let null = (!nulls.is_empty()).then(|| nulls.join(" || "));
        let null = null.map(|null| self.define(&Kind::Bool, &null));
        let (number, inside) = self.number(space, Some(build_side), key, &parts)?;
        let Some(slots) = space.slots else {
            let index = self.define_as("u32", &format!("{inside} ? (u32){number} : 0u"));
            return Ok(Place { inside, index, null });
        };
        let table = self
            .parameters
            .lookup_table(Table::Built(Part::Presence).of(build_side));
        let mask = self.parameters.literal(slots - 1);
        let found = format!(
            "{inside} ? key_table_find((const u64*)args.tables[{table}], args.literals[{mask}], {number}) : NO_SLOT"
        );
        let found = self.define_as("u32", &found);
        let inside = self.define(&Kind::Bool, &format!("{found} != NO_SLOT"));
        let index = self.define_as("u32", &format!("{inside} ? {found} : 0u"));
        Ok(Place { inside, index, null })
    }
}
