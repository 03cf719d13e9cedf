//! Constructors of expressions from other expressions, besides lowering.

use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;

use super::{Expr, ExprKind};
use crate::function::{Function, SortOrder};
use crate::is_string;
use crate::operator::Comparison;

impl Expr {
    /// Three-valued negation.
    pub fn negated(&self) -> Self {
        Self::new(ExprKind::Not(self.clone()), DataType::Boolean, self.nullable())
    }

    /// The key with these parts; a single part is returned unchanged. The type is the first part's.
    pub fn tuple(mut parts: Vec<Self>) -> Option<Self> {
        if parts.len() < 2 {
            return parts.pop();
        }
        let nullable = parts.iter().any(Self::nullable);
        let data_type = parts[0].data_type().clone();
        Some(Self::new(ExprKind::Tuple(parts), data_type, nullable))
    }

    /// The constant key of all rows.
    pub fn no_keys() -> Self {
        Self::new(ExprKind::Tuple(Vec::new()), DataType::Null, false)
    }

    /// The disjunction of conditions; `None` if there are none.
    pub fn any(conditions: impl IntoIterator<Item = Self>) -> Option<Self> {
        conditions.into_iter().reduce(|left, right| {
            let nullable = left.nullable() || right.nullable();
            Self::new(ExprKind::Or(left, right), DataType::Boolean, nullable)
        })
    }

    /// Whether the condition is false or NULL.
    pub fn not_true(condition: Self) -> Self {
        let constant = |value| Self::literal(ScalarValue::Boolean(Some(value)));
        let kind = ExprKind::Case {
            branches: vec![(condition, constant(false))],
            otherwise: Some(constant(true)),
        };
        Self::new(kind, DataType::Boolean, false)
    }

    /// `value` if the condition is true, otherwise `otherwise`, which has the same type.
    pub fn either(condition: Self, value: Self, otherwise: Self) -> Self {
        let (data_type, nullable) = (
            value.data_type().clone(),
            value.nullable() || otherwise.nullable(),
        );
        let kind = ExprKind::Case {
            branches: vec![(condition, value)],
            otherwise: Some(otherwise),
        };
        Self::new(kind, data_type, nullable)
    }

    /// A boolean as a string.
    pub(crate) fn words_of_boolean(value: Self, data_type: &DataType) -> Self {
        let word = |word: &str| Self::literal(ScalarValue::Utf8(Some(word.to_owned())));
        let nullable = value.nullable();
        let branches = vec![(value.clone(), word("true")), (value.negated(), word("false"))];
        let kind = ExprKind::Case {
            branches,
            otherwise: None,
        };
        Self::new(kind, data_type.clone(), nullable)
    }

    /// `value` if the condition is true, otherwise NULL.
    pub fn only_where(condition: Self, value: Self) -> Self {
        let data_type = value.data_type().clone();
        let kind = ExprKind::Case {
            branches: vec![(condition, value)],
            otherwise: None,
        };
        Self::new(kind, data_type, true)
    }

    /// A string of a table that is only returned.
    pub fn late_materialised(self) -> Self {
        let (data_type, nullable) = (self.data_type().clone(), self.nullable());
        Self::new(ExprKind::LateMaterialised(self), data_type, nullable)
    }

    /// The condition and the value, if this is an [only-where](Self::only_where) expression.
    pub(crate) fn as_only_where(&self) -> Option<(&Self, &Self)> {
        match self.kind() {
            ExprKind::Case {
                branches,
                otherwise: None,
            } => match branches.as_slice() {
                [(condition, value)] => Some((condition, value)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether two values of the same type are equal.
    pub fn equal(left: Self, right: Self) -> Self {
        let nullable = left.nullable() || right.nullable();
        let kind = ExprKind::Compare {
            operator: Comparison::Equal,
            left,
            right,
            equal_zeros: true,
        };
        Self::new(kind, DataType::Boolean, nullable)
    }

    /// The sort key of these values, see [`Function::SortKey`].
    pub fn sort_key(keys: impl IntoIterator<Item = (Self, SortOrder)>) -> Self {
        let (arguments, orders) = keys.into_iter().unzip();
        let function = Function::SortKey(orders);
        Self::new(ExprKind::Call { function, arguments }, DataType::Int64, false)
    }

    /// The words of the complete sort key of these values, the most significant first. The number of words is
    /// the maximum for the values' types; see [`Function::SortWord`].
    pub fn sort_words(keys: impl IntoIterator<Item = (Self, SortOrder)>) -> Vec<Self> {
        let (arguments, orders): (Vec<Self>, Vec<SortOrder>) = keys.into_iter().unzip();
        let bits: u32 = (arguments.iter())
            .map(|argument| sort_bits(argument.data_type()) + u32::from(argument.nullable()))
            .sum();
        let words = bits.div_ceil(u64::BITS);
        let word = |word| {
            let function = Function::SortWord {
                orders: orders.clone(),
                word,
                words,
            };
            let arguments = arguments.clone();
            Self::new(ExprKind::Call { function, arguments }, DataType::Int64, false)
        };
        (0..words).rev().map(word).collect()
    }

    /// The 63-bit sort key for the order of these words.
    pub fn sort_key_of(words: &[Self]) -> Option<Self> {
        match words.first()?.kind() {
            ExprKind::Call {
                function: Function::SortWord { orders, .. },
                arguments,
            } => Some(Self::sort_key(
                arguments.iter().cloned().zip(orders.iter().copied()),
            )),
            _ => None,
        }
    }

    /// A hash of the values of a key, see [`Function::KeyHash`].
    pub fn key_hash(key: &Self, spreads: bool) -> Self {
        let kind = ExprKind::Call {
            function: Function::KeyHash { spreads },
            arguments: key.parts().to_vec(),
        };
        Self::new(kind, DataType::Int64, false)
    }

    /// The word of an integer key, see [`Function::KeyOrder`].
    pub fn key_order(key: &Self) -> Self {
        let kind = ExprKind::Call {
            function: Function::KeyOrder,
            arguments: vec![key.clone()],
        };
        Self::new(kind, DataType::Int64, false)
    }

    /// The bucket of this sort key, see [`Function::Bucket`].
    pub fn bucket(&self, least: i64, shift: u32) -> Self {
        self.with_constants(Function::Bucket, [least, shift.into()], DataType::Int32)
    }

    /// Whether this sort key is between the two bounds, inclusive, see [`Function::Within`].
    pub fn within(&self, least: i64, greatest: i64) -> Self {
        self.with_constants(Function::Within, [least, greatest], DataType::Boolean)
    }

    fn with_constants(&self, function: Function, constants: [i64; 2], result: DataType) -> Self {
        let constants = constants.map(|value| Self::literal(ScalarValue::Int64(Some(value))));
        let arguments = [self.clone()].into_iter().chain(constants).collect();
        Self::new(ExprKind::Call { function, arguments }, result, false)
    }

    /// Whether the value is NULL.
    pub fn is_null(&self) -> Self {
        Self::new(ExprKind::IsNull(self.clone()), DataType::Boolean, false)
    }

    /// Whether TABLESAMPLE selects the row: random words are generated from `state`, one for each `2^shift`
    /// rows, and a row is selected if its word is below `bound`.
    pub fn drawn(shift: u32, state: u64, bound: u64) -> Self {
        let row = Self::table_row();
        let constants = [state, bound].map(u64::cast_signed);
        row.with_constants(Function::Drawn { shift }, constants, DataType::Boolean)
    }

    /// The number of the row in its table.
    pub fn table_row() -> Self {
        Self::new(ExprKind::TableRow, DataType::Int64, false)
    }

    /// The row number.
    pub fn row_number() -> Self {
        Self::new(ExprKind::RowNumber, DataType::UInt32, false)
    }

    /// Whether build side `build_side` has a row with this key.
    pub fn member(build_side: usize, key: Self) -> Self {
        Self::new(ExprKind::Member { build_side, key }, DataType::Boolean, false)
    }

    /// Whether it is certain that build side `build_side` has no row with this key.
    pub fn absent(build_side: usize, key: Self) -> Self {
        Self::new(ExprKind::Absent { build_side, key }, DataType::Boolean, false)
    }

    /// Column `column`, described by `field`, of the row with this key in build side `build_side`.
    pub fn lookup(build_side: usize, column: usize, field: &Field, key: Self) -> Self {
        let kind = ExprKind::Lookup {
            build_side,
            column,
            name: field.name().clone(),
            made: false,
            key,
        };
        Self::new(kind, field.data_type().clone(), field.is_nullable())
    }

    /// Like [`Self::lookup`], for a computed string without a dictionary.
    pub fn lookup_made(build_side: usize, column: usize, field: &Field, key: Self) -> Self {
        let kind = ExprKind::Lookup {
            build_side,
            column,
            name: field.name().clone(),
            made: true,
            key,
        };
        Self::new(kind, field.data_type().clone(), field.is_nullable())
    }

    /// Column `column`, described by `field`, of a row in one of these build sides, which are the parts of a
    /// pipeline's rows.
    pub fn of_parts(parts: &[usize], column: usize, field: &Field, row: &Self) -> Self {
        let values = parts
            .iter()
            .map(|part| Self::lookup(*part, column, field, row.clone()));
        Self::by_part(parts, values.collect(), field, row)
    }

    /// Like [`Self::of_parts`], for a column with these values, one per part.
    pub fn by_part(parts: &[usize], mut values: Vec<Self>, field: &Field, row: &Self) -> Self {
        let last = values.pop().expect("a union has parts");
        if values.is_empty() {
            return last;
        }
        let branches = parts.iter().zip(values);
        let branches = branches.map(|(part, value)| (Self::member(*part, row.clone()), value));
        let kind = ExprKind::Case {
            branches: branches.collect(),
            otherwise: Some(last),
        };
        Self::new(kind, field.data_type().clone(), field.is_nullable())
    }

    /// The name of the column, if this is a column [of parts](Self::of_parts).
    pub(crate) fn name_of_parts(&self) -> Option<&str> {
        let ExprKind::Case {
            branches,
            otherwise: Some(last),
        } = self.kind()
        else {
            return None;
        };
        let is_row = |key: &Self| matches!(key.kind(), ExprKind::RowNumber);
        let by_part = (branches.iter())
            .all(|(part, _)| matches!(part.kind(), ExprKind::Member { key, .. } if is_row(key)));
        match last.kind() {
            ExprKind::Lookup { name, key, .. } if by_part && is_row(key) => Some(name),
            _ => None,
        }
    }

    /// The conjunction of conditions; `None` if there are none.
    pub fn all(conditions: impl IntoIterator<Item = Self>) -> Option<Self> {
        conditions.into_iter().reduce(|left, right| {
            let nullable = left.nullable() || right.nullable();
            Self::new(ExprKind::And(left, right), DataType::Boolean, nullable)
        })
    }
}

/// Number of bits of a sort key's field that distinguishes any two values of this type.
fn sort_bits(data_type: &DataType) -> u32 {
    match data_type {
        DataType::Boolean => 1,
        // Codes of a dictionary, or places of interned strings.
        text if is_string(text) => u32::BITS,
        // Singles are sorted as doubles.
        DataType::Float16 | DataType::Float32 => u64::BITS,
        other => other
            .primitive_width()
            .map_or(u128::BITS, |bytes| 8 * bytes as u32),
    }
}
