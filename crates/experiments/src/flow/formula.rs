//! The paper's own method of choosing a partition (XeFlow, sections 5.2 and 5.3): a fit by gradient descent,
//! and formula 3. The tuner is compared with it.
//!
//! Formula 3 sets all R_i to one common value, solves for the N_i, and scales these to the sum N. It takes
//! the root at which R increases. After scaling, the R_i are equal only if R is linear. The formula is
//! therefore a heuristic, whereas [`exact`](galatea_flow::tuner::exact) finds the best partition.

use galatea_flow::tuner::{Model, Sample};

/// The model by batch gradient descent, as published: over features and times scaled to mean 0 and deviation
/// 1, for a fixed number of steps. `None` without samples.
pub(super) fn gradient_descent(samples: &[Sample], steps: u32, rate: f64) -> Option<Model> {
    if samples.is_empty() {
        return None;
    }
    let count = samples.len() as f64;
    let scaled = |values: Vec<f64>| {
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
        let values: Vec<f64> = values.iter().map(|value| (value - mean) / deviation).collect();
        (values, mean, deviation)
    };
    let (x, x_mean, x_deviation) = scaled(samples.iter().map(|(warps, _)| f64::from(*warps)).collect());
    let (y, y_mean, y_deviation) = scaled(samples.iter().map(|(_, time)| *time).collect());
    // The square of the scaled number, so that the two features are hardly correlated.
    let (square, square_mean, square_deviation) = scaled(x.iter().map(|x| x * x).collect());
    let (mut of_square, mut of_linear) = (0.0, 0.0);
    for _ in 0..steps {
        let (mut gradient_square, mut gradient_linear) = (0.0, 0.0);
        for ((x, square), y) in x.iter().zip(&square).zip(&y) {
            let error = of_square * square + of_linear * x - y;
            gradient_square += error * square;
            gradient_linear += error * x;
        }
        of_square -= rate * gradient_square / count;
        of_linear -= rate * gradient_linear / count;
    }
    // Back to the samples' own scale.
    let a = of_square * y_deviation / (square_deviation * x_deviation * x_deviation);
    let b = of_linear * y_deviation / x_deviation;
    let c = y_mean - of_square * y_deviation * square_mean / square_deviation;
    Some(Model {
        square: a,
        linear: b - 2.0 * a * x_mean,
        constant: c - b * x_mean + a * x_mean * x_mean,
    })
}

/// The number of warps for which a model predicts this time, on the branch where it increases. `None` if it
/// never does, or if the number is not positive.
fn warps_at(model: &Model, time: f64) -> Option<f64> {
    let flat = model.square.abs() * 1e6 < model.linear.abs();
    let warps = if flat {
        (time - model.constant) / model.linear
    } else {
        let discriminant = model.linear * model.linear - 4.0 * model.square * (model.constant - time);
        (discriminant >= 0.0).then(|| (discriminant.sqrt() - model.linear) / (2.0 * model.square))?
    };
    (warps.is_finite() && warps > 0.0).then_some(warps)
}

/// A partition by formula 3. The common time is the mean of the models' times for equal shares. `None` if a
/// model never reaches that time; the caller then uses [`exact`].
pub(super) fn by_formula(models: &[Model], warps: u32) -> Option<Vec<u32>> {
    let share = f64::from(warps) / models.len() as f64;
    let common = models.iter().map(|model| model.time(share)).sum::<f64>() / models.len() as f64;
    let ideal: Option<Vec<f64>> = models.iter().map(|model| warps_at(model, common)).collect();
    round(&ideal?, warps)
}

/// Rounds shares to integers in proportion to `ideal` by the largest remainder. Each is at least 1, and their
/// sum is `warps`. `None` for more operators than warps.
fn round(ideal: &[f64], warps: u32) -> Option<Vec<u32>> {
    let spare = warps.checked_sub(ideal.len() as u32)?;
    let sum: f64 = ideal.iter().sum();
    // Each gets one, and the rest is distributed in proportion to the remaining shares.
    let above: Vec<f64> = ideal
        .iter()
        .map(|share| (share * f64::from(warps) / sum - 1.0).max(0.0))
        .collect();
    let missing: f64 = above.iter().sum();
    let exact = above.iter().map(|share| {
        if missing > 0.0 {
            share * f64::from(spare) / missing
        } else {
            0.0
        }
    });
    let exact: Vec<f64> = exact.collect();
    let mut shares: Vec<u32> = exact.iter().map(|share| share.floor() as u32).collect();
    let mut order: Vec<usize> = (0..ideal.len()).collect();
    order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
    let left = spare - shares.iter().sum::<u32>();
    for place in order.iter().cycle().take(left as usize) {
        shares[*place] += 1;
    }
    Some(shares.into_iter().map(|share| share + 1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUADRATIC: Model = Model {
        square: 0.75,
        linear: 3.0,
        constant: 40.0,
    };

    #[test]
    fn fit_recovers_a_quadratic() {
        let samples = [2, 4, 8, 12, 16, 20, 24, 28].map(|warps| (warps, QUADRATIC.time(f64::from(warps))));
        let found = gradient_descent(&samples, 20_000, 0.1).unwrap();
        for warps in [1.0, 7.0, 16.0, 31.0] {
            let (found, expected) = (found.time(warps), QUADRATIC.time(warps));
            assert!(
                (found - expected).abs() <= 1e-4 * expected,
                "{found} for {expected}"
            );
        }
    }

    #[test]
    fn models_of_few_samples_have_lower_degree() {
        assert_eq!(gradient_descent(&[], 10, 0.1), None);
        // All samples have one number of warps, so the deviation is 0.
        let flat = gradient_descent(&[(4, 7.0), (4, 9.0)], 100, 0.1).unwrap();
        assert!((flat.time(4.0) - 8.0).abs() < 1e-9);
    }

    #[test]
    fn equal_operators_get_equal_shares() {
        assert_eq!(by_formula(&[QUADRATIC, QUADRATIC], 32), Some(vec![16, 16]));
        assert_eq!(
            by_formula(&[QUADRATIC; 3], 32).map(|shares| shares.iter().sum()),
            Some(32)
        );
    }

    #[test]
    fn formula_returns_none_without_a_solution() {
        // Linear models have no square to divide by.
        let linear = |slope| Model {
            square: 0.0,
            linear: slope,
            constant: 0.0,
        };
        assert_eq!(by_formula(&[linear(1.0), linear(3.0)], 32), Some(vec![24, 8]));
        // A decreasing model predicts less than its constant, so it has no number of warps for a common time
        // above that.
        let falling = Model {
            square: 0.0,
            linear: -1.0,
            constant: 5.0,
        };
        assert_eq!(by_formula(&[linear(10.0), falling], 32), None);
        // A negative discriminant.
        let high = Model {
            square: 1.0,
            linear: 0.0,
            constant: 1e6,
        };
        assert_eq!(by_formula(&[linear(1e-3), high], 32), None);
        // Every operator gets a warp, however small its share.
        assert_eq!(by_formula(&[linear(1.0), linear(1e4)], 32), Some(vec![31, 1]));
        assert_eq!(round(&[1.0; 33], 32), None);
    }
}
