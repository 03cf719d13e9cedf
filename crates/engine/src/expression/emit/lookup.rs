//! Rows of dimensions, by key.

use super::{Emitter, boolean};
use crate::expression::dictionary::Bytes;
use crate::expression::dimension::{Dimension, Keys, PayloadKind};
use crate::expression::interval::Interval;
use crate::expression::ir::Expr;
use crate::expression::value::{Kind, Value};
use crate::reason::Reason;
use std::sync::Arc;

/// Where a row's partner would be.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Name of the condition that the key is between the least and the greatest.
    inside: String,
    /// Name of the index; 0 where the key is not inside, so that it may be read.
    index: String,
    /// The key's NULL flag.
    null: Option<String>,
}

impl Emitter<'_> {
    /// Whether a row of the dimension has the key; never NULL.
    pub(super) fn member(&mut self, dimension: usize, key: &Expr) -> Result<Value, Reason> {
        let found = self.known_dimension(dimension)?;
        let place = self.place(dimension, &found, key)?;
        let member = match &found.presence {
            Some(presence) if place.inside != "false" => {
                let table = self.parameters.table(Arc::clone(presence));
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

    /// A column of the row that has the key; where none has it, any value of the column.
    pub(super) fn lookup(
        &mut self,
        expression: &Expr,
        dimension: usize,
        column: usize,
        key: &Expr,
    ) -> Result<Value, Reason> {
        let found = self.known_dimension(dimension)?;
        let payload = found.column(column).ok_or(Reason::Encoding {
            column,
            needed: "a column that was collected",
        })?;
        let index = self.place(dimension, &found, key)?.index;
        let null = payload.nulls.as_ref().map(|nulls| {
            let table = self.parameters.table(Arc::clone(nulls));
            self.define(&Kind::Bool, &format!("table_bit(args.tables[{table}], {index})"))
        });
        let table = self.parameters.table(Arc::clone(&payload.table));
        let kind = payload.kind();
        let entry = format!("((const {}*)args.tables[{table}])[{index}]", payload.c_type);
        let code = self.define(&kind, &format!("({}){entry}", kind.c_type()));
        Ok(Value {
            code,
            null,
            kind,
            data_type: expression.data_type().clone(),
            range: match payload.values {
                PayloadKind::Integer(Interval { low, high }) => Some((low, high)),
                _ => None,
            },
        })
    }

    fn known_dimension(&self, dimension: usize) -> Result<Arc<Dimension>, Reason> {
        let found = self.dimensions.get(dimension).cloned();
        found.ok_or_else(|| Reason::Expression {
            expression: format!("dimension {dimension}"),
            detail: "its rows were not collected".to_owned(),
        })
    }

    fn place(&mut self, dimension: usize, found: &Dimension, key: &Expr) -> Result<Place, Reason> {
        let known = (dimension, key.clone());
        if let Some(place) = self.scope.places.get(&known) {
            return Ok(place.clone());
        }
        let value = self.text_operand(key)?;
        let (offset, inside) = match &found.keys {
            Keys::Nothing => ("0u".to_owned(), "false".to_owned()),
            Keys::Integers(interval) => self.offset(*interval, &value),
            Keys::Strings(keys) => self.translated_rank(&Bytes::of(keys)?, key, &value)?,
        };
        // Rows that are not there have any key: what is not inside must not be read either.
        let index = self.define_as("u32", &format!("{inside} ? (u32){offset} : 0u"));
        let place = Place {
            inside,
            index,
            null: value.null,
        };
        self.scope.places.insert(known, place.clone());
        Ok(place)
    }

    /// The distance from the least key, modulo the machine type, and whether it is one of the dimension.
    fn offset(&mut self, keys: Interval, key: &Value) -> (String, String) {
        let span = self.parameters.literal((keys.high - keys.low) as u64);
        let (unsigned, low) = match key.kind {
            Kind::I32 if keys.within(Interval::of::<i32>()) => {
                let low = self.parameters.literal(keys.low as u64);
                ("u32", format!("(u32)args.literals[{low}]"))
            }
            Kind::I32 | Kind::I64 if keys.within(Interval::of::<i64>()) => {
                let low = self.parameters.literal(keys.low as u64);
                ("u64", format!("args.literals[{low}]"))
            }
            _ => {
                let low = self.parameters.wide_literal(keys.low);
                let high = low + 1;
                (
                    "u128",
                    format!("(u128)make_i128(args.literals[{low}], args.literals[{high}])"),
                )
            }
        };
        // Sign extended first: an i32 becomes the u64 of the same number modulo 2^64.
        let signed = unsigned.replace('u', "i");
        let offset = self.define_as(unsigned, &format!("({unsigned})({signed}){} - {low}", key.code));
        let inside = self.define(
            &Kind::Bool,
            &format!("{offset} <= ({unsigned})args.literals[{span}]"),
        );
        (offset, inside)
    }

    /// The rank of the key's string among the dimension's, by a table over the codes of its dictionary.
    fn translated_rank(
        &mut self,
        keys: &Bytes,
        key: &Expr,
        value: &Value,
    ) -> Result<(String, String), Reason> {
        let Kind::Code { values } = &value.kind else {
            return Err(Reason::Encoding {
                column: key.columns().into_iter().next().unwrap_or_default(),
                needed: "dictionary encoded",
            });
        };
        let values = Bytes::of(values)?;
        let absent = keys.len();
        let ranks: Vec<i128> = (0..values.len())
            .map(|code| {
                values
                    .get(code)
                    .and_then(|bytes| keys.rank(bytes).ok())
                    .unwrap_or(absent) as i128
            })
            .collect();
        let codes = self.parameters.literal(values.len() as u64);
        let absent = self.parameters.literal(absent as u64);
        let entry = self.number_table(&ranks, &value.code);
        let rank = self.define_as(
            "u32",
            &format!(
                "{0} < args.literals[{codes}] ? (u32){entry} : (u32)args.literals[{absent}]",
                value.code
            ),
        );
        let inside = self.define(&Kind::Bool, &format!("{rank} < (u32)args.literals[{absent}]"));
        Ok((rank, inside))
    }
}
