//! Variance, covariance, correlation and regression of floats, from sums about a value of the group.
//!
//! DataFusion updates a mean row by row (Welford), and a mean between two neighbouring doubles cannot be
//! represented. Here each group keeps its first value, and sums of the others' distances from it and of their
//! products, each as a pair of doubles: about 106 bits. A distance is exact in a pair. As the value belongs
//! to the group, the sum of squares about it is at most n times that about the mean, for n rows in the group,
//! so that their difference keeps its digits:
//!
//! ```text
//! sum (y - mean)(x - mean)  =  sum (y - k)(x - l)  -  (sum (y - k)) (sum (x - l)) / n
//! ```

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, UInt64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::StateFieldsArgs;
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator};
use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

/// A function of the moments of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Deviation {
    VarianceSample,
    VariancePopulation,
    StddevSample,
    StddevPopulation,
    CovarianceSample,
    CovariancePopulation,
    Correlation,
    Slope,
    Intercept,
    R2,
    Sxx,
    Syy,
    Sxy,
}

impl Deviation {
    /// Our version of one of DataFusion's functions.
    pub(super) fn of(function: &dyn AggregateUDFImpl) -> Option<Self> {
        use datafusion::functions_aggregate::{correlation, covariance, regr, stddev, variance};
        let known = function.is::<variance::VarianceSample>()
            || function.is::<variance::VariancePopulation>()
            || function.is::<stddev::Stddev>()
            || function.is::<stddev::StddevPop>()
            || function.is::<covariance::CovarianceSample>()
            || function.is::<covariance::CovariancePopulation>()
            || function.is::<correlation::Correlation>()
            || function.is::<regr::Regr>();
        known.then_some(())?;
        Some(match function.name() {
            "var" => Self::VarianceSample,
            "var_pop" => Self::VariancePopulation,
            "stddev" => Self::StddevSample,
            "stddev_pop" => Self::StddevPopulation,
            "covar_samp" => Self::CovarianceSample,
            "covar_pop" => Self::CovariancePopulation,
            "corr" => Self::Correlation,
            "regr_slope" => Self::Slope,
            "regr_intercept" => Self::Intercept,
            "regr_r2" => Self::R2,
            "regr_sxx" => Self::Sxx,
            "regr_syy" => Self::Syy,
            "regr_sxy" => Self::Sxy,
            _ => return None,
        })
    }

    fn arguments(self) -> usize {
        match self {
            Self::VarianceSample | Self::VariancePopulation | Self::StddevSample | Self::StddevPopulation => {
                1
            }
            _ => 2,
        }
    }

    /// The result for a group; `None` is NULL.
    pub(super) fn finish(self, group: &Sums) -> Option<f64> {
        let n = group.count as f64;
        let [some, more] = [group.count > 0, group.count > 1];
        let yy = || not_negative(group.about_means(group.yy, group.y, group.y));
        let xx = || not_negative(group.about_means(group.xx, group.x, group.x));
        let xy = || group.about_means(group.xy, group.y, group.x);
        let slope = || xy() / xx();
        match self {
            Self::VariancePopulation => some.then(|| yy() / n),
            Self::VarianceSample => more.then(|| yy() / (n - 1.0)),
            Self::StddevPopulation => some.then(|| (yy() / n).sqrt()),
            Self::StddevSample => more.then(|| (yy() / (n - 1.0)).sqrt()),
            Self::CovariancePopulation => some.then(|| xy() / n),
            Self::CovarianceSample => more.then(|| xy() / (n - 1.0)),
            Self::Syy => some.then(yy),
            Self::Sxx => some.then(xx),
            Self::Sxy => some.then(xy),
            Self::Correlation => {
                (more && yy() != 0.0 && xx() != 0.0).then(|| xy() / yy().sqrt() / xx().sqrt())
            }
            Self::Slope => (more && xx() != 0.0).then(slope),
            Self::Intercept => (more && xx() != 0.0).then(|| {
                let [y, x] = group.means();
                y - slope() * x
            }),
            // A line fits points of one height exactly.
            Self::R2 => (more && xx() != 0.0).then(|| match yy() {
                0.0 => 1.0,
                yy => xy() * xy() / (xx() * yy),
            }),
        }
    }
}

/// A sum of squares, zero if rounding resulted in a negative one; NaN stays.
fn not_negative(squares: f64) -> f64 {
    if squares < 0.0 { 0.0 } else { squares }
}

/// A number of about 106 bits, as the unevaluated sum of two doubles.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Pair {
    high: f64,
    low: f64,
}

impl Pair {
    /// A rounded sum and its rounding error. A sum that overflows has no rounding error.
    fn new(high: f64, low: f64) -> Self {
        let low = if high.is_finite() { low } else { 0.0 };
        Self { high, low }
    }

    /// The exact sum of two doubles.
    fn sum(a: f64, b: f64) -> Self {
        let high = a + b;
        let part = high - a;
        Self::new(high, (a - (high - part)) + (b - part))
    }

    fn value(self) -> f64 {
        self.high + self.low
    }

    fn over(self, divisor: f64) -> Self {
        let high = self.high / divisor;
        if !high.is_finite() {
            return Self::new(high, 0.0);
        }
        let rest = (-high).mul_add(divisor, self.high) + self.low;
        Self::sum(high, rest / divisor)
    }
}

impl From<f64> for Pair {
    fn from(value: f64) -> Self {
        Self::new(value, 0.0)
    }
}

impl Add for Pair {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let high = Self::sum(self.high, other.high);
        let low = Self::sum(self.low, other.low);
        let carried = Self::sum(high.high, high.low + low.high);
        Self::sum(carried.high, carried.low + low.low)
    }
}

impl Neg for Pair {
    type Output = Self;

    fn neg(self) -> Self {
        Self::new(-self.high, -self.low)
    }
}

impl Sub for Pair {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Pair {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let high = self.high * other.high;
        if !high.is_finite() {
            return Self::new(high, 0.0);
        }
        let error = self.high.mul_add(other.high, -high);
        Self::sum(high, error + (self.high * other.low + self.low * other.high))
    }
}

/// The number of rows of a group, and sums of their distances from its first values and of products of these.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    count: u64,
    /// The first values of y and x.
    first: [f64; 2],
    y: Pair,
    x: Pair,
    yy: Pair,
    xx: Pair,
    xy: Pair,
}

impl Sums {
    pub(super) fn add(&mut self, y: f64, x: f64) {
        if self.count == 0 {
            *self = Self {
                first: [y, x],
                ..Self::default()
            };
        }
        let one = Pair::sum(y, -self.first[0]);
        let other = Pair::sum(x, -self.first[1]);
        self.y = self.y + one;
        self.x = self.x + other;
        self.yy = self.yy + one * one;
        self.xx = self.xx + other * other;
        self.xy = self.xy + one * other;
        self.count += 1;
    }

    /// Adds the rows of another part of the group.
    pub(super) fn merge(&mut self, part: &Self) {
        if part.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *part;
            return;
        }
        // The part's distances are converted to those from this group's first values.
        let n = Pair::from(part.count as f64);
        let dy = Pair::sum(part.first[0], -self.first[0]);
        let dx = Pair::sum(part.first[1], -self.first[1]);
        self.yy = self.yy + part.yy + dy * part.y + dy * part.y + n * dy * dy;
        self.xx = self.xx + part.xx + dx * part.x + dx * part.x + n * dx * dx;
        self.xy = self.xy + part.xy + dy * part.x + dx * part.y + n * dy * dx;
        self.y = self.y + part.y + n * dy;
        self.x = self.x + part.x + n * dx;
        self.count += part.count;
    }

    /// The sum of products of distances from the means.
    fn about_means(&self, products: Pair, one: Pair, other: Pair) -> f64 {
        (products - (one * other).over(self.count as f64)).value()
    }

    fn means(&self) -> [f64; 2] {
        let n = self.count as f64;
        let mean = |first: f64, sum: Pair| (Pair::from(first) + sum.over(n)).value();
        [mean(self.first[0], self.y), mean(self.first[1], self.x)]
    }

    /// The words of the state of a function with that number of arguments.
    fn words(&self, arguments: usize) -> Vec<f64> {
        let mut words = vec![self.first[0], self.y.high, self.y.low, self.yy.high, self.yy.low];
        if arguments == 2 {
            let more = [self.x, self.xx, self.xy];
            words.push(self.first[1]);
            words.extend(more.iter().flat_map(|sum| [sum.high, sum.low]));
        }
        words
    }

    fn from_words(count: u64, words: &[f64]) -> Self {
        let pair = |at: usize| match words.get(at..at + 2) {
            Some(&[high, low]) => Pair { high, low },
            _ => Pair::default(),
        };
        let first = [words[0], words.get(5).copied().unwrap_or_default()];
        Self {
            count,
            first,
            y: pair(1),
            yy: pair(3),
            x: pair(6),
            xx: pair(8),
            xy: pair(10),
        }
    }
}

/// The fields of a state: the number of rows, then the words of [`Sums::words`].
pub(super) fn state_fields(deviation: Deviation, args: &StateFieldsArgs) -> Vec<FieldRef> {
    let words = Sums::default().words(deviation.arguments()).len();
    let field = |name: String, data_type| -> FieldRef {
        Arc::new(Field::new(format_state_name(args.name, &name), data_type, true))
    };
    let count = field("count".to_owned(), DataType::UInt64);
    let words = (0..words).map(|word| field(format!("sum{word}"), DataType::Float64));
    std::iter::once(count).chain(words).collect()
}

pub(super) fn accumulator(deviation: Deviation) -> Box<dyn Accumulator> {
    let sums = Sums::default();
    Box::new(Whole { deviation, sums })
}

pub(super) fn groups_accumulator(deviation: Deviation) -> Box<dyn GroupsAccumulator> {
    let groups = Vec::new();
    Box::new(Groups { deviation, groups })
}

/// Calls `each` with the number and the arguments of every row without NULL; with one argument, x is y.
pub(super) fn for_rows(values: &[ArrayRef], mut each: impl FnMut(usize, f64, f64)) {
    let y = values[0].as_primitive::<Float64Type>();
    let x = values.last().unwrap_or(&values[0]).as_primitive::<Float64Type>();
    for row in 0..y.len() {
        if y.is_valid(row) && x.is_valid(row) {
            each(row, y.value(row), x.value(row));
        }
    }
}

/// The groups of a batch of states.
fn states(states: &[ArrayRef]) -> impl Iterator<Item = Sums> {
    let counts = states[0].as_primitive::<UInt64Type>();
    let words: Vec<&Float64Array> = states[1..].iter().map(AsArray::as_primitive).collect();
    (0..counts.len()).map(move |row| {
        let words: Vec<f64> = words.iter().map(|words| words.value(row)).collect();
        Sums::from_words(counts.value(row), &words)
    })
}

/// The states of groups, as columns.
fn columns(deviation: Deviation, groups: &[Sums]) -> Vec<ArrayRef> {
    let counts: UInt64Array = groups.iter().map(|group| group.count).collect();
    let rows: Vec<Vec<f64>> = groups
        .iter()
        .map(|group| group.words(deviation.arguments()))
        .collect();
    let number = Sums::default().words(deviation.arguments()).len();
    let words = (0..number).map(|word| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row[word])))
    });
    let counts: ArrayRef = Arc::new(counts);
    std::iter::once(counts).chain(words).collect()
}

#[derive(Debug)]
struct Whole {
    deviation: Deviation,
    sums: Sums,
}

impl Accumulator for Whole {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for_rows(values, |_, y, x| self.sums.add(y, x));
        Ok(())
    }

    fn merge_batch(&mut self, parts: &[ArrayRef]) -> Result<()> {
        states(parts).for_each(|part| self.sums.merge(&part));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = columns(self.deviation, &[self.sums]);
        columns
            .iter()
            .map(|column| ScalarValue::try_from_array(column, 0))
            .collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.deviation.finish(&self.sums)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

struct Groups {
    deviation: Deviation,
    groups: Vec<Sums>,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.groups.resize(groups, Sums::default());
        for_rows(values, |row, y, x| {
            if filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row)) {
                self.groups[group_indices[row]].add(y, x);
            }
        });
        Ok(())
    }

    fn merge_batch(&mut self, parts: &[ArrayRef], group_indices: &[usize], groups: usize) -> Result<()> {
        self.groups.resize(groups, Sums::default());
        for (part, group) in states(parts).zip(group_indices) {
            self.groups[*group].merge(&part);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let groups = emit_to.take_needed(&mut self.groups);
        let results: Float64Array = groups.iter().map(|group| self.deviation.finish(group)).collect();
        Ok(Arc::new(results))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = emit_to.take_needed(&mut self.groups);
        Ok(columns(self.deviation, &groups))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let mut rows = vec![Sums::default(); values[0].len()];
        for_rows(values, |row, y, x| {
            if filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row)) {
                rows[row].add(y, x);
            }
        });
        Ok(columns(self.deviation, &rows))
    }

    fn size(&self) -> usize {
        self.groups.capacity() * size_of::<Sums>()
    }
}

#[cfg(test)]
mod tests;
