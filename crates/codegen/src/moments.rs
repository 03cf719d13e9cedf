//! Variance, covariance, correlation and linear regression of integers and decimals, from sums of values and
//! of products.
//!
//! Sums of squares of floats lose digits if the values are far from zero compared with the distances between
//! them. DataFusion therefore updates means row by row (Welford), which is not possible for words that are
//! merged in any order. Sums of integers and of decimals (as integers) lose nothing: they are exact in 128
//! bits, which the values' interval and the number of rows guarantee when a pipeline is bound. All further
//! integer arithmetic on them is exact as well. With m the integer next to the mean:
//!
//! ```text
//! sum (a - m)(b - k)  =  sum ab - m sum b - k sum a + n m k        modulo 2^128, and it fits
//! about the means     =  that - (sum (a - m)) (sum (b - k)) / n
//! ```
//!
//! For a variance the second term is at most half of the first, so the error of a result is a few units of
//! the last place of a double. Floats take two passes over the rows (`placement/aggregate/deviations.rs`).

/// A function of the first and second moments of one or two arguments: (y, x) for a regression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of SQL")]
pub enum Moment {
    VarSamp,
    VarPop,
    StddevSamp,
    StddevPop,
    CovarSamp,
    CovarPop,
    Corr,
    RegrSlope,
    RegrIntercept,
    RegrCount,
    RegrR2,
    RegrAvgx,
    RegrAvgy,
    RegrSxx,
    RegrSyy,
    RegrSxy,
}

impl Moment {
    /// All moment functions, by their DataFusion names.
    pub(super) const ALL: [(&'static str, Self); 16] = [
        ("var", Self::VarSamp),
        ("var_pop", Self::VarPop),
        ("stddev", Self::StddevSamp),
        ("stddev_pop", Self::StddevPop),
        ("covar_samp", Self::CovarSamp),
        ("covar_pop", Self::CovarPop),
        ("corr", Self::Corr),
        ("regr_slope", Self::RegrSlope),
        ("regr_intercept", Self::RegrIntercept),
        ("regr_count", Self::RegrCount),
        ("regr_r2", Self::RegrR2),
        ("regr_avgx", Self::RegrAvgx),
        ("regr_avgy", Self::RegrAvgy),
        ("regr_sxx", Self::RegrSxx),
        ("regr_syy", Self::RegrSyy),
        ("regr_sxy", Self::RegrSxy),
    ];

    /// Number of arguments.
    pub fn arguments(self) -> usize {
        match self {
            Self::VarSamp | Self::VarPop | Self::StddevSamp | Self::StddevPop => 1,
            _ => 2,
        }
    }

    /// The sums that the function is computed from.
    pub(super) fn sums(self) -> &'static [MomentSum] {
        use MomentSum::{A, Aa, Ab, B, Bb};
        match self {
            Self::RegrCount => &[],
            Self::RegrAvgy => &[A],
            Self::RegrAvgx => &[B],
            Self::VarSamp | Self::VarPop | Self::StddevSamp | Self::StddevPop | Self::RegrSyy => &[A, Aa],
            Self::RegrSxx => &[B, Bb],
            Self::CovarSamp | Self::CovarPop | Self::RegrSxy => &[A, B, Ab],
            Self::RegrSlope | Self::RegrIntercept => &[A, B, Ab, Bb],
            Self::Corr | Self::RegrR2 => &[A, B, Aa, Ab, Bb],
        }
    }

    /// The result of a group; `None` is NULL.
    pub fn finish(self, group: &Moments) -> Option<f64> {
        let n = group.count as f64;
        let some = group.count > 0;
        let more = group.count > 1;
        let (aa, bb, ab) = (
            || group.central(0, 0),
            || group.central(1, 1),
            || group.central(0, 1),
        );
        let slope = || ab() / bb();
        match self {
            Self::RegrCount => Some(n),
            Self::RegrAvgy => some.then(|| group.mean(0)),
            Self::RegrAvgx => some.then(|| group.mean(1)),
            Self::VarPop => some.then(|| aa() / n),
            Self::VarSamp => more.then(|| aa() / (n - 1.0)),
            Self::StddevPop => some.then(|| (aa() / n).sqrt()),
            Self::StddevSamp => more.then(|| (aa() / (n - 1.0)).sqrt()),
            Self::CovarPop => some.then(|| ab() / n),
            Self::CovarSamp => more.then(|| ab() / (n - 1.0)),
            Self::RegrSyy => some.then(aa),
            Self::RegrSxx => some.then(bb),
            Self::RegrSxy => some.then(ab),
            Self::RegrSlope => (more && bb() != 0.0).then(slope),
            Self::RegrIntercept => (more && bb() != 0.0).then(|| group.mean(0) - slope() * group.mean(1)),
            Self::Corr => (more && aa() != 0.0 && bb() != 0.0).then(|| ab() / aa().sqrt() / bb().sqrt()),
            // A line fits points of one height exactly.
            Self::RegrR2 => (more && bb() != 0.0).then(|| match aa() {
                0.0 => 1.0,
                aa => ab() * ab() / (aa * bb()),
            }),
        }
    }
}

/// A sum over the rows of a group, where a and b are the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MomentSum {
    /// The sum of a.
    A,
    /// The sum of b.
    B,
    /// The sum of a².
    Aa,
    /// The sum of a b.
    Ab,
    /// The sum of b².
    Bb,
}

/// The sums of a group.
#[derive(Debug, Clone, Default)]
pub struct Moments {
    /// Number of rows without a NULL argument.
    pub count: u64,
    /// The sums of a and b.
    pub sums: [i128; 2],
    /// The sums of a², a b and b².
    pub products: [i128; 3],
    /// Divisors that convert the integers to the values of a and b.
    pub units: [f64; 2],
}

impl Moments {
    fn mean(&self, of: usize) -> f64 {
        self.sums[of] as f64 / self.count as f64 / self.units[of]
    }

    /// The sum of the products of the two arguments' distances from their means.
    fn central(&self, left: usize, right: usize) -> f64 {
        let n = i128::from(self.count.max(1));
        let nearest = |of: usize| (2 * self.sums[of] + n).div_euclid(2 * n);
        let (m, k) = (nearest(left), nearest(right));
        let (a, b) = (self.sums[left], self.sums[right]);
        let about = self.products[left + right]
            .wrapping_sub(m.wrapping_mul(b))
            .wrapping_sub(k.wrapping_mul(a))
            .wrapping_add(n.wrapping_mul(m.wrapping_mul(k)));
        let rest = |sum: i128, nearest: i128| sum.wrapping_sub(n.wrapping_mul(nearest));
        let rests = rest(a, m) as f64 * rest(b, k) as f64;
        (about as f64 - rests / n as f64) / (self.units[left] * self.units[right])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(i128, i128)]) -> Moments {
        let sum = |f: &dyn Fn(i128, i128) -> i128| values.iter().map(|(a, b)| f(*a, *b)).sum();
        Moments {
            count: values.len() as u64,
            sums: [sum(&|a, _| a), sum(&|_, b| b)],
            products: [sum(&|a, _| a * a), sum(&|a, b| a * b), sum(&|_, b| b * b)],
            units: [1.0, 1.0],
        }
    }

    #[test]
    fn variance_of_values_far_from_zero_is_exact() {
        // The squares have 116 bits; the variance is 1.25.
        let far = 1_i128 << 58;
        let group = of(&[
            (far, -far),
            (far + 1, 1 - far),
            (far + 2, 2 - far),
            (far + 3, 3 - far),
        ]);
        assert_eq!(Moment::VarPop.finish(&group), Some(1.25));
        assert_eq!(Moment::CovarPop.finish(&group), Some(1.25));
        assert_eq!(Moment::Corr.finish(&group), Some(1.0));
        assert_eq!(Moment::RegrSlope.finish(&group), Some(1.0));
    }

    #[test]
    fn moments_of_few_rows_and_equal_values() {
        let (none, one, same) = (of(&[]), of(&[(7, 1)]), of(&[(7, 1), (7, 2), (7, 5)]));
        assert_eq!(Moment::VarPop.finish(&none), None);
        assert_eq!(Moment::RegrCount.finish(&none), Some(0.0));
        assert_eq!(
            (Moment::VarSamp.finish(&one), Moment::VarPop.finish(&one)),
            (None, Some(0.0))
        );
        assert_eq!(
            (Moment::Corr.finish(&same), Moment::RegrSyy.finish(&same)),
            (None, Some(0.0))
        );
    }
}
