//! Accumulators of sums that are wider than the result: 128 bits for integers, 256 for decimals of 128.
//!
//! A partial sum may be out of range for the type of the result while the total is not, so states are as wide
//! as sums, and only a result is checked against its type. Rows can be added in any order and in any
//! partitions.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, AsArray, BooleanArray, ListArray, PrimitiveArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType,
    Field, Int64Type, UInt64Type, i256,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use galatea_expression::RowError;

/// A type with sums in a wider type.
pub(super) trait SumType: ArrowPrimitiveType<Native: Hash + Eq> + Debug + Send + Sync {
    /// Holds the sum of the maximum number of rows.
    type Wide: DecimalType + Debug + Send + Sync;

    fn widen(value: Self::Native) -> <Self::Wide as ArrowPrimitiveType>::Native;

    /// The sum as a result of that type; `None` if it does not fit.
    fn narrow(sum: <Self::Wide as ArrowPrimitiveType>::Native, result: &DataType) -> Option<Self::Native>;

    /// The sum of values, at most 2^31 of them.
    fn total(values: &[Self::Native]) -> <Self::Wide as ArrowPrimitiveType>::Native {
        let zero = <Self::Wide as ArrowPrimitiveType>::Native::ZERO;
        values
            .iter()
            .fold(zero, |sum, value| sum.add_wrapping(Self::widen(*value)))
    }
}

/// The sum of 64-bit integers as the sums of their halves, which do not overflow and are added several at a
/// time.
macro_rules! total_by_halves {
    ($integer:ty) => {
        fn total(values: &[$integer]) -> i128 {
            let (mut low, mut high) = (0u64, 0 as $integer);
            for value in values {
                low += u64::from(*value as u32);
                high += *value >> 32;
            }
            (i128::from(high) << 32) + i128::from(low)
        }
    };
}

impl SumType for Int64Type {
    type Wide = Decimal128Type;

    fn widen(value: i64) -> i128 {
        value.into()
    }

    fn narrow(sum: i128, _result: &DataType) -> Option<i64> {
        sum.try_into().ok()
    }

    total_by_halves!(i64);
}

impl SumType for UInt64Type {
    type Wide = Decimal128Type;

    fn widen(value: u64) -> i128 {
        value.into()
    }

    fn narrow(sum: i128, _result: &DataType) -> Option<u64> {
        sum.try_into().ok()
    }

    total_by_halves!(u64);
}

macro_rules! decimal_sum {
    ($own:ty, $native:ty, $wide:ty, $wide_native:ty, $result:ident, $widen:expr, $narrow:expr) => {
        impl SumType for $own {
            type Wide = $wide;

            fn widen(value: $native) -> $wide_native {
                $widen(value)
            }

            fn narrow(sum: $wide_native, result: &DataType) -> Option<$native> {
                let DataType::$result(precision, scale) = result else {
                    return None;
                };
                let sum: $native = $narrow(sum)?;
                <$own>::validate_decimal_precision(sum, *precision, *scale).ok()?;
                Some(sum)
            }
        }
    };
}

decimal_sum!(
    Decimal32Type,
    i32,
    Decimal128Type,
    i128,
    Decimal32,
    i128::from,
    |sum: i128| sum.try_into().ok()
);
decimal_sum!(
    Decimal64Type,
    i64,
    Decimal128Type,
    i128,
    Decimal64,
    i128::from,
    |sum: i128| sum.try_into().ok()
);
decimal_sum!(
    Decimal128Type,
    i128,
    Decimal256Type,
    i256,
    Decimal128,
    i256::from_i128,
    i256::to_i128
);

type WideNative<T> = <<T as SumType>::Wide as ArrowPrimitiveType>::Native;

/// The type of a state.
pub(super) fn state_type<T: SumType>(result: &DataType) -> DataType {
    let scale = match result {
        DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale) => {
            *scale
        }
        _ => 0,
    };
    <T::Wide as DecimalType>::TYPE_CONSTRUCTOR(<T::Wide as DecimalType>::MAX_PRECISION, scale)
}

/// The type of a sum, and its name in errors.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The type of the result.
    pub(super) result: DataType,
    /// The call, for errors.
    pub(super) name: String,
}

impl Target {
    fn narrow<T: SumType>(&self, sum: WideNative<T>) -> Result<T::Native> {
        T::narrow(sum, &self.result).ok_or_else(|| RowError::overflow(&self.name, &self.result).into())
    }
}

/// Maximum number of values to add up at once.
const PIECE: usize = 1 << 20;

fn total<T: SumType>(values: &PrimitiveArray<T>) -> WideNative<T> {
    let zero = WideNative::<T>::ZERO;
    if values.null_count() == 0 {
        let pieces = values.values().chunks(PIECE);
        return pieces.fold(zero, |sum, piece| sum.add_wrapping(T::total(piece)));
    }
    let values = values.iter().flatten();
    values.fold(zero, |sum, value| sum.add_wrapping(T::widen(value)))
}

/// The sum of all rows, or of a sliding frame.
#[derive(Debug)]
pub(super) struct SumOfRows<T: SumType> {
    sum: WideNative<T>,
    /// Number of values in it.
    count: u64,
    target: Target,
}

impl<T: SumType> SumOfRows<T> {
    pub(super) fn new(target: Target) -> Self {
        Self {
            sum: WideNative::<T>::ZERO,
            count: 0,
            target,
        }
    }
}

fn valid(array: &dyn Array) -> u64 {
    (array.len() - array.null_count()) as u64
}

impl<T: SumType> Accumulator for SumOfRows<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<T>();
        self.count += valid(values);
        self.sum = self.sum.add_wrapping(total(values));
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<T>();
        self.count -= valid(values);
        self.sum = self.sum.sub_wrapping(total(values));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states = states[0].as_primitive::<T::Wide>();
        self.count += valid(states);
        for sum in states.iter().flatten() {
            self.sum = self.sum.add_wrapping(sum);
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sum = (self.count > 0).then_some(self.sum);
        let data_type = state_type::<T>(&self.target.result);
        Ok(vec![ScalarValue::new_primitive::<T::Wide>(sum, &data_type)?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = (self.count > 0).then(|| self.target.narrow::<T>(self.sum));
        ScalarValue::new_primitive::<T>(sum.transpose()?, &self.target.result)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.target.name.capacity()
    }
}

/// The sum of the distinct values, also of a sliding frame.
#[derive(Debug)]
pub(super) struct SumOfDistinct<T: SumType> {
    /// Number of times that each value was added.
    values: HashMap<T::Native, u64>,
    /// The type of the values.
    data_type: DataType,
    target: Target,
}

impl<T: SumType> SumOfDistinct<T> {
    pub(super) fn new(data_type: DataType, target: Target) -> Self {
        Self {
            values: HashMap::new(),
            data_type,
            target,
        }
    }
}

impl<T: SumType> Accumulator for SumOfDistinct<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<T>().iter().flatten() {
            *self.values.entry(value).or_default() += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for value in values[0].as_primitive::<T>().iter().flatten() {
            if let Some(count) = self.values.get_mut(&value) {
                *count -= 1;
                if *count == 0 {
                    self.values.remove(&value);
                }
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[list])?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = PrimitiveArray::<T>::from_iter_values(self.values.keys().copied());
        let values = values.with_data_type(self.data_type.clone());
        let field = Arc::new(Field::new_list_field(self.data_type.clone(), true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let list = ListArray::try_new(field, offsets, Arc::new(values), None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let zero = WideNative::<T>::ZERO;
        let sum = self
            .values
            .keys()
            .fold(zero, |sum, value| sum.add_wrapping(T::widen(*value)));
        let sum = (!self.values.is_empty()).then(|| self.target.narrow::<T>(sum));
        ScalarValue::new_primitive::<T>(sum.transpose()?, &self.target.result)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * (size_of::<T::Native>() + size_of::<u64>() + 1)
    }
}

/// The sums of many groups.
#[derive(Debug)]
pub(super) struct SumOfGroups<T: SumType> {
    sums: Vec<WideNative<T>>,
    /// Whether a group has a value.
    seen: Vec<bool>,
    target: Target,
}

impl<T: SumType> SumOfGroups<T> {
    pub(super) fn new(target: Target) -> Self {
        Self {
            sums: Vec::new(),
            seen: Vec::new(),
            target,
        }
    }

    fn add<V: ArrowPrimitiveType>(
        &mut self,
        values: &PrimitiveArray<V>,
        groups: &[usize],
        nulls: Option<&NullBuffer>,
        total_groups: usize,
        widen: impl Fn(V::Native) -> WideNative<T>,
    ) {
        self.sums.resize(total_groups, WideNative::<T>::ZERO);
        self.seen.resize(total_groups, false);
        for (row, (group, value)) in groups.iter().zip(values.values()).enumerate() {
            if nulls.is_none_or(|nulls| nulls.is_valid(row)) {
                self.sums[*group] = self.sums[*group].add_wrapping(widen(*value));
                self.seen[*group] = true;
            }
        }
    }

    fn nulls(&mut self, emit_to: EmitTo) -> Option<NullBuffer> {
        let seen = emit_to.take_needed(&mut self.seen);
        Some(NullBuffer::from(seen)).filter(|nulls| nulls.null_count() > 0)
    }
}

/// The rows with values that count: valid ones that pass the filter.
fn counting(values: &dyn Array, filter: Option<&BooleanArray>) -> Option<NullBuffer> {
    let filter = filter.map(|filter| {
        let passed = match filter.nulls() {
            None => filter.values().clone(),
            Some(nulls) => filter.values() & nulls.inner(),
        };
        NullBuffer::new(passed)
    });
    NullBuffer::union(values.nulls(), filter.as_ref())
}

impl<T: SumType> GroupsAccumulator for SumOfGroups<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        let values = values[0].as_primitive::<T>();
        let nulls = counting(values, filter);
        self.add(values, groups, nulls.as_ref(), total_groups, T::widen);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        let states = states[0].as_primitive::<T::Wide>();
        self.add(states, groups, states.nulls(), total_groups, |sum| sum);
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let nulls = self.nulls(emit_to);
        let narrow = |sum: &WideNative<T>| self.target.narrow::<T>(*sum);
        let sums: Vec<T::Native> = sums.iter().map(narrow).collect::<Result<_>>()?;
        let sums = PrimitiveArray::<T>::try_new(sums.into(), nulls)?;
        Ok(Arc::new(sums.with_data_type(self.target.result.clone())))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let sums = emit_to.take_needed(&mut self.sums);
        let nulls = self.nulls(emit_to);
        let sums = PrimitiveArray::<T::Wide>::try_new(sums.into(), nulls)?;
        Ok(vec![Arc::new(
            sums.with_data_type(state_type::<T>(&self.target.result)),
        )])
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let [values] = values else {
            return internal_err!("a sum has one argument");
        };
        let values = values.as_primitive::<T>();
        let sums: Vec<WideNative<T>> = values.values().iter().map(|value| T::widen(*value)).collect();
        let sums = PrimitiveArray::<T::Wide>::try_new(sums.into(), counting(values, filter))?;
        Ok(vec![Arc::new(
            sums.with_data_type(state_type::<T>(&self.target.result)),
        )])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<WideNative<T>>() + self.seen.capacity()
    }
}
