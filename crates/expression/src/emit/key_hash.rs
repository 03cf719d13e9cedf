//! Hashes of keys by value, so that both sides of a join compute the same hash whatever the encodings of
//! their columns: strings are hashed by their bytes, not by their codes. Also words of integer keys in their
//! order.

use arrow::datatypes::DataType;

use super::{Emitter, integer_value};
use crate::dictionary::Bytes;
use crate::interval::Interval;
use crate::ir::Expr;
use crate::kind::Kind;
use crate::value::Value;
use galatea_base::reason::Reason;

/// Maximum hash of a key.
const MOST_KEY_HASH: u32 = u32::MAX;

impl Emitter<'_> {
    /// The hash of a key with these parts.
    pub(super) fn key_hash(&mut self, parts: &[Expr], spreads: bool) -> Result<Value, Reason> {
        let mut hash = "0ull".to_owned();
        let mut nulls = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let value = self.string_operand(part)?;
            let mut word = self.key_word(&value)?;
            if let Some(null) = &value.null {
                word = format!("({null} ? 0ull : {word})");
                nulls.push(null.clone());
            }
            // The first word is hashed as well, since key tables hash the same numbers.
            hash = self.define_as("u64", &format!("hash_next({hash}, {word}, {}u)", number + 1));
        }
        if spreads && !nulls.is_empty() {
            let row = self.expression(&Expr::table_row())?.code;
            let nulls = nulls.join(" || ");
            hash = self.define_as("u64", &format!("{nulls} ? hash_word(u64({row})) : {hash}"));
        }
        let code = self.define_as("i64", &format!("i64({hash} >> 32)"));
        let range = Interval {
            low: 0,
            high: MOST_KEY_HASH.into(),
        };
        Ok(integer_value(code, None, Kind::I64, DataType::Int64, range))
    }

    /// The word of an integer key in the order of the values.
    pub(super) fn key_order(&mut self, key: &Expr) -> Result<Value, Reason> {
        let value = self.expression(key)?;
        if !matches!(value.kind, Kind::Bool | Kind::I32 | Kind::I64) {
            return Err(Reason::Type {
                data_type: value.data_type,
                place: "a range of keys".into(),
            });
        }
        let mut word = format!("u64(i64({})) ^ (1ull << 63)", value.code);
        if let Some(null) = &value.null {
            word = format!("{null} ? 0ull : {word}");
        }
        let code = self.define_as("i64", &format!("i64({word})"));
        let range = Interval::of::<i64>();
        Ok(integer_value(code, None, Kind::I64, DataType::Int64, range))
    }

    /// A 64-bit word that is the same for equal values.
    fn key_word(&mut self, value: &Value) -> Result<String, Reason> {
        let code = &value.code;
        Ok(match &value.kind {
            Kind::Bool => format!("u64({code})"),
            Kind::I32 | Kind::I64 => format!("u64(i64({code}))"),
            // A number that fits 64 bits yields its 64-bit word.
            Kind::I128 => {
                let wide = self.define_as("i128", code);
                let extended = format!("u64(i64({wide}) >> 63)");
                format!("(u64({wide}) + hash_word(u64({wide} >> 64) ^ {extended}))")
            }
            Kind::F32 | Kind::F64 => format!("float_group(double({code}))"),
            Kind::Code { values } => {
                let values = Bytes::of(values)?;
                let hashes = (0..values.len()).map(|code| values.get(code).map_or(0, hash_of));
                let hashes: Vec<i128> = hashes.collect();
                let codes = self.parameters.literal(hashes.len() as u64);
                let entry = self.number_table(&hashes, code);
                // The code of NULL is undefined.
                format!("({code} < args.literals[{codes}] ? u64({entry}) : 0ull)")
            }
            Kind::Text | Kind::ComputedString => format!("u64(string_hash({code}))"),
            Kind::Place => {
                return Err(Reason::Type {
                    data_type: value.data_type.clone(),
                    place: "a hash of interned strings".into(),
                });
            }
        })
    }
}

/// The FNV-1a hash of a string, reduced to 31 bits, which are enough. `string_hash` (`computed_string.cuh`)
/// is its equivalent on the device.
fn hash_of(bytes: &[u8]) -> i128 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    i128::from((hash ^ hash >> 32) & 0x7fff_ffff)
}
