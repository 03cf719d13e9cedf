//! The numbers of keys in their key spaces, for build sides and for rows that look them up.

use super::Emitter;
use crate::built::Part;
use crate::code::Code;
use crate::dictionary::Bytes;
use crate::interval::Interval;
use crate::ir::Expr;
use crate::key_space::{JoinKeyPart, KeySpace};
use crate::kind::Kind;
use crate::lookup_side::Table;
use crate::value::Value;
use galatea_base::reason::Reason;
use std::sync::Arc;

impl Emitter<'_> {
    /// Defines the number of a key within the space.
    pub fn key_number(
        &mut self,
        space: &KeySpace,
        key: &Expr,
        parts: &[Value],
        code: &mut Code,
    ) -> Result<String, Reason> {
        let (number, _) = self.number(space, None, key, parts)?;
        code.nest(0, &self.out.take());
        Ok(number)
    }

    /// The number of a key, and a C++ condition that the key is within the space. `build_side` is the build
    /// side of the space, unless the row's own pipeline builds it.
    pub(super) fn number(
        &mut self,
        space: &KeySpace,
        build_side: Option<usize>,
        key: &Expr,
        values: &[Value],
    ) -> Result<(String, String), Reason> {
        if space.is_wide {
            return self.wide_number(space, build_side, key, values);
        }
        let (mut number, mut inside) = (String::new(), Vec::new());
        for ((part, value), key) in space.parts.iter().zip(values).zip(key.parts()) {
            let span = (part.interval.high - part.interval.low) as u64;
            let before = inside.len();
            let offset = match self.number_of_string(part, build_side, (key, value))? {
                Some((offset, test)) => {
                    inside.extend(test);
                    offset
                }
                None => {
                    let (unsigned, offset) = self.offset(part.interval, value);
                    let most = self.parameters.literal(span);
                    inside.push(format!("{offset} <= ({unsigned})args.literals[{most}]"));
                    offset
                }
            };
            let (offset, radix) = match (part.nulls, &value.null) {
                (true, Some(null)) => {
                    for test in &mut inside[before..] {
                        *test = format!("({null} || {test})");
                    }
                    let last = self.parameters.literal(span + 1);
                    let offset = format!("({null} ? args.literals[{last}] : (u64){offset})");
                    (offset, span + 2)
                }
                (nulls, _) => (offset, span + 1 + u64::from(nulls)),
            };
            number = if number.is_empty() {
                format!("(u64){offset}")
            } else {
                let radix = self.parameters.literal(radix);
                format!("({number}) * args.literals[{radix}] + (u64){offset}")
            };
        }
        let inside = match inside.as_slice() {
            [] => "true".to_owned(),
            inside => self.define(&Kind::Bool, &inside.join(" && ")),
        };
        if number.is_empty() {
            return Ok(("0ull".to_owned(), inside));
        }
        Ok((self.define_as("u64", &number), inside))
    }

    /// C++ expressions of a string's code or place among the keys, and of whether it is one of them. `None`
    /// of other values.
    fn number_of_string(
        &mut self,
        part: &JoinKeyPart,
        build_side: Option<usize>,
        (key, value): (&Expr, &Value),
    ) -> Result<Option<(String, Option<String>)>, Reason> {
        Ok(match (&part.values, &value.kind) {
            // The build side's own dictionary.
            (Some(keys), Kind::Code { values }) if Arc::ptr_eq(keys, values) => {
                Some((value.code.clone(), None))
            }
            (Some(keys), _) => {
                let (rank, found) = self.translated_rank(&Bytes::of(keys)?, key, value)?;
                Some((rank, Some(found)))
            }
            (None, _) if part.by_place => {
                let place = self.place_of_string(build_side, key, value)?;
                let found = format!("{place} != 0");
                Some((place, Some(found)))
            }
            (None, _) => None,
        })
    }

    /// Like [`Self::number`], for keys wider than a word: the place of their words, which the build side
    /// interns and other pipelines look up.
    fn wide_number(
        &mut self,
        space: &KeySpace,
        build_side: Option<usize>,
        key: &Expr,
        values: &[Value],
    ) -> Result<(String, String), Reason> {
        let (mut words, mut inside) = (Vec::new(), Vec::new());
        for ((part, value), key) in space.parts.iter().zip(values).zip(key.parts()) {
            let (mut own, mut tests) = (Vec::new(), Vec::new());
            let word = Interval::of::<i64>();
            match self.number_of_string(part, build_side, (key, value))? {
                Some((number, test)) => {
                    own.push(number);
                    tests.extend(test);
                }
                None if part.interval.within(word) => {
                    own.push(format!("i64({})", value.code));
                    if !value.interval().within(word) {
                        tests.push(format!("i128(i64({0})) == {0}", value.code));
                    }
                }
                None => {
                    let wide = self.define_as("u128", &format!("u128(i128({}))", value.code));
                    own.extend([wide.clone(), format!("{wide} >> 64")]);
                }
            }
            // If NULL is a key value, an additional word contains the NULL flag.
            match (part.nulls, &value.null) {
                (true, Some(null)) => {
                    for word in &mut own {
                        *word = format!("({null} ? 0ull : u64({word}))");
                    }
                    for test in &mut tests {
                        *test = format!("({null} || {test})");
                    }
                    own.push(null.clone());
                }
                (true, None) => own.push("0".to_owned()),
                (false, _) => {}
            }
            words.extend(own);
            inside.extend(tests);
        }
        let bytes = format!("key_bytes({})", words.join(", "));
        self.parameters.finds_strings = true;
        let Some(build_side) = build_side else {
            let place = self.intern(&bytes);
            let place = self.define_as("u64", &place);
            return Ok((place, "true".to_owned()));
        };
        let texts = Table::Built(Part::Texts).of(build_side);
        let texts = self.parameters.lookup_table(texts);
        let found = format!("find_interned(args.tables[{texts}], {bytes})");
        let place = match inside.as_slice() {
            [] => found,
            inside => format!("{} ? {found} : 0ull", inside.join(" && ")),
        };
        let place = self.define_as("u64", &place);
        let inside = self.define(&Kind::Bool, &format!("{place} != 0"));
        Ok((place, inside))
    }

    /// Defines the partition of a key; `parts` is a power of two. The keys of a partition have indices (or
    /// home slots in a key table) with equal high bits. Keys outside the space, including NULL, may be in any
    /// partition.
    pub fn partition(
        &mut self,
        space: &KeySpace,
        parts: u32,
        key: &Expr,
        code: &mut Code,
    ) -> Result<String, Reason> {
        if space.is_wide {
            return Err(Reason::Limit {
                expression: "partitions".into(),
                asked: 128,
                limit: 64,
                unit: "bits of a key",
            });
        }
        let mut values = Vec::new();
        for part in key.parts() {
            values.push(self.string_operand(part)?);
        }
        let (number, inside) = self.number(space, None, key, &values)?;
        let (hash, bits) = match space.slots {
            Some(_) => (format!("hash_word({number})"), u64::BITS),
            None => {
                let most = space.indices().saturating_sub(1);
                (number, (u64::BITS - most.leading_zeros()).max(parts.ilog2()))
            }
        };
        let shift = self.parameters.literal(u64::from(bits - parts.ilog2()));
        // The code of NULL is undefined.
        let partition = format!(
            "{inside} ? (u32)({hash} >> args.literals[{shift}]) & {}u : 0u",
            parts - 1
        );
        let partition = self.define_as("u32", &partition);
        code.nest(0, &self.out.take());
        Ok(partition)
    }

    /// The place of a string among the keys of a build side; 0 if it is none of them. A key of the row's own
    /// build side is already interned.
    fn place_of_string(
        &mut self,
        build_side: Option<usize>,
        key: &Expr,
        value: &Value,
    ) -> Result<String, Reason> {
        if matches!(value.kind, Kind::Place) {
            return Ok(value.code.clone());
        }
        let build_side = build_side.ok_or_else(|| Reason::without_dictionary(key))?;
        let text = self.as_string(value.clone())?;
        self.parameters.finds_strings = true;
        let texts = Table::Built(Part::Texts).of(build_side);
        let texts = self.parameters.lookup_table(texts);
        Ok(self.define_as(
            "u64",
            &format!("find_interned(args.tables[{texts}], {})", text.code),
        ))
    }

    /// The unsigned machine type, and the distance from the least key modulo this type.
    pub(super) fn offset(&mut self, keys: Interval, key: &Value) -> (&'static str, String) {
        let (unsigned, low) = match key.kind {
            Kind::I32 | Kind::Bool if keys.within(Interval::of::<i32>()) => {
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
        // Sign-extended first: an i32 becomes the u64 of the same number modulo 2^64.
        let signed = unsigned.replace('u', "i");
        let offset = format!("({unsigned})({signed}){} - {low}", key.code);
        (unsigned, self.define_as(unsigned, &offset))
    }

    /// The rank of the key's string among the build side's strings, by a table over the codes of its
    /// dictionary, or by a search for its bytes if it has no dictionary.
    pub(super) fn translated_rank(
        &mut self,
        keys: &Bytes,
        key: &Expr,
        value: &Value,
    ) -> Result<(String, String), Reason> {
        let Kind::Code { values } = &value.kind else {
            if !value.kind.is_bytes() {
                return Err(Reason::Encoding {
                    column: key.columns().into_iter().next().unwrap_or_default(),
                    needed: "dictionary encoded",
                });
            }
            let items: Vec<&[u8]> = (0..keys.len()).filter_map(|rank| keys.get(rank)).collect();
            let (rank, absent) = self.string_rank(value, &items);
            let rank = self.define_as("u32", &rank);
            let inside = self.define(&Kind::Bool, &format!("{rank} != {absent}"));
            return Ok((rank, inside));
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
