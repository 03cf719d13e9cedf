//! Chooses the number of warps of a block for each operator on the device (XeFlow, sections 5.2 and 5.3).
//!
//! Operators that compute and operators that wait for the link benefit differently from another warp. A model
//! of each, R(N) = θ2 N² + θ1 N + θ0, is fitted to a few samples; a partition {N_i} of the block's N warps
//! then minimises the longest time.
//!
//! * R is the time of a fixed amount of work *per warp*, so it grows with N as warps contend for resources.
//!   The time of a frame is R(N) / N.
//! * [`exact`] finds the best of all partitions. The paper's formula 3 is a heuristic, which
//!   `galatea_experiments` compares with it.

/// A quadratic model of an operator: the time of a fixed amount of work per warp, as a function of the warps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Model {
    /// Coefficient of the square.
    pub square: f64,
    /// Coefficient of the number of warps.
    pub linear: f64,
    /// Constant term.
    pub constant: f64,
}

/// A sample: warps, and the time for a fixed amount of work per warp.
pub type Sample = (u32, f64);

impl Model {
    /// The modelled time with `warps` warps.
    #[must_use]
    pub fn time(&self, warps: f64) -> f64 {
        (self.square * warps + self.linear) * warps + self.constant
    }

    /// The modelled time of a frame, which the warps share.
    #[must_use]
    pub fn frame_time(&self, warps: u32) -> f64 {
        self.time(f64::from(warps)) / f64::from(warps)
    }

    /// The model with the least squared error. Its degree is lower if the samples have fewer than three
    /// different numbers of warps. `None` without samples.
    #[must_use]
    pub fn least_squares(samples: &[Sample]) -> Option<Self> {
        let mut distinct: Vec<u32> = samples.iter().map(|(warps, _)| *warps).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let terms = distinct.len().min(3);
        // Normal equations, over warps scaled to about 1, solved by elimination.
        let scale = f64::from(*distinct.last()?);
        let mut rows = [[0.0; 4]; 3];
        for (warps, time) in samples {
            let x = f64::from(*warps) / scale;
            let powers = [1.0, x, x * x];
            for row in 0..terms {
                for column in 0..terms {
                    rows[row][column] += powers[row] * powers[column];
                }
                rows[row][3] += powers[row] * time;
            }
        }
        for pivot in 0..terms {
            let best =
                (pivot..terms).max_by(|a, b| rows[*a][pivot].abs().total_cmp(&rows[*b][pivot].abs()))?;
            rows.swap(pivot, best);
            let chosen = rows[pivot];
            for (number, row) in rows.iter_mut().enumerate().take(terms) {
                if number != pivot {
                    let factor = row[pivot] / chosen[pivot];
                    for (value, of_pivot) in row.iter_mut().zip(&chosen) {
                        *value -= factor * of_pivot;
                    }
                }
            }
        }
        let solved = |term: usize| {
            if term < terms {
                rows[term][3] / rows[term][term]
            } else {
                0.0
            }
        };
        Some(Self {
            square: solved(2) / (scale * scale),
            linear: solved(1) / scale,
            constant: solved(0),
        })
    }
}

/// The partition with the least longest time of all partitions, by dynamic programming over operators and
/// warps. `time(i, n)` is the time of operator `i` with `n` warps. `None` for more operators than warps, or
/// no operators.
#[must_use]
pub fn exact(operators: usize, warps: u32, time: impl Fn(usize, u32) -> f64) -> Option<Vec<u32>> {
    if operators == 0 || operators as u32 > warps {
        return None;
    }
    let width = warps as usize + 1;
    // By the number of first operators and their warps: the least longest time, and the last operator's
    // share.
    let mut best = vec![vec![(f64::INFINITY, 0_u32); width]; operators + 1];
    best[0][0] = (f64::NEG_INFINITY, 0);
    for operator in 0..operators {
        for used in operator + 1..width {
            for own in 1..=used {
                let (before, _) = best[operator][used - own];
                let longest = before.max(time(operator, own as u32));
                if longest < best[operator + 1][used].0 {
                    best[operator + 1][used] = (longest, own as u32);
                }
            }
        }
    }
    let mut left = warps as usize;
    let mut shares = vec![0; operators];
    for operator in (0..operators).rev() {
        shares[operator] = best[operator + 1][left].1;
        left -= shares[operator] as usize;
    }
    (!shares.contains(&0)).then_some(shares)
}

/// Whether the operators' times under a partition differ enough to search for another: their standard
/// deviation exceeds `threshold` of their mean.
pub(crate) fn is_uneven(times: &[f64], threshold: f64) -> bool {
    let count = times.len().max(1) as f64;
    let mean = times.iter().sum::<f64>() / count;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count;
    variance.sqrt() > threshold * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUADRATIC: Model = Model {
        square: 0.75,
        linear: 3.0,
        constant: 40.0,
    };

    fn close(found: Model, expected: Model, tolerance: f64) {
        for warps in [1.0, 7.0, 16.0, 31.0] {
            let (found, expected) = (found.time(warps), expected.time(warps));
            assert!(
                (found - expected).abs() <= tolerance * expected.abs(),
                "{found} for {expected}"
            );
        }
    }

    #[test]
    fn fit_recovers_a_quadratic() {
        let samples = [2, 4, 8, 12, 16, 20, 24, 28].map(|warps| (warps, QUADRATIC.time(f64::from(warps))));
        close(Model::least_squares(&samples).unwrap(), QUADRATIC, 1e-9);
    }

    #[test]
    fn models_of_few_samples_have_lower_degree() {
        assert_eq!(Model::least_squares(&[]), None);
        let one = Model::least_squares(&[(4, 7.0), (4, 9.0)]).unwrap();
        assert!((one.time(20.0) - 8.0).abs() < 1e-12);
        let two = Model::least_squares(&[(4, 8.0), (8, 16.0)]).unwrap();
        assert!((two.time(20.0) - 40.0).abs() < 1e-9, "{two:?}");
    }

    #[test]
    fn noisy_samples_are_averaged() {
        let noise = [0.6, -0.4, -0.2, 0.3, -0.3];
        let mut all = Vec::new();
        for warps in 1..=31 {
            let time = QUADRATIC.time(f64::from(warps));
            all.extend(noise.iter().map(|noise| (warps, time + noise)));
        }
        close(Model::least_squares(&all).unwrap(), QUADRATIC, 1e-9);
    }

    #[test]
    fn exact_partition_equals_exhaustive_search() {
        let models = [
            QUADRATIC,
            Model {
                square: 0.01,
                linear: 9.0,
                constant: 300.0,
            },
            Model {
                square: 2.0,
                linear: 0.5,
                constant: 100.0,
            },
        ];
        let time = |operator: usize, warps: u32| models[operator].frame_time(warps);
        let longest = |shares: &[u32]| {
            let times = shares
                .iter()
                .enumerate()
                .map(|(operator, warps)| time(operator, *warps));
            times.fold(f64::NEG_INFINITY, f64::max)
        };
        let mut least = f64::INFINITY;
        for first in 1..=30 {
            for second in 1..=31 - first {
                least = least.min(longest(&[first, second, 32 - first - second]));
            }
        }
        let found = exact(3, 32, time).unwrap();
        assert_eq!(found.iter().sum::<u32>(), 32);
        assert!((longest(&found) - least).abs() < 1e-12, "{found:?}");
        assert_eq!(exact(0, 32, time), None);
        assert_eq!(exact(3, 2, time), None);
        assert_eq!(exact(3, 3, time), Some(vec![1, 1, 1]));
    }

    #[test]
    fn retuning_requires_uneven_times() {
        assert!(!is_uneven(&[1.0, 1.05, 0.95], 0.1));
        assert!(is_uneven(&[1.0, 2.0], 0.1));
        assert!(!is_uneven(&[], 0.1));
    }
}
