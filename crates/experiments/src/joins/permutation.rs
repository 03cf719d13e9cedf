//! Random permutations of key ranges, and draws by a Zipf distribution, computed without memory.

use galatea_kernels::flow::mix64;

/// A pseudo-random permutation of `0..domain`.
///
/// Multiplications by odd numbers and shifted exclusive ors permute the numbers of a power of two. A number
/// that is outside of the domain is permuted again until it is inside, less than twice on average.
#[derive(Debug, Clone, Copy)]
pub(super) struct Permutation {
    domain: u64,
    mask: u64,
    shift: u32,
    factors: [u64; 2],
    add: u64,
}

impl Permutation {
    pub(super) fn new(domain: u64, seed: u64) -> Self {
        let bits = domain.max(2).next_power_of_two().ilog2();
        Self {
            domain,
            mask: (1 << bits) - 1,
            shift: bits.div_ceil(2),
            factors: [1, 2].map(|number| mix64(seed ^ number) | 1),
            add: mix64(seed ^ 3),
        }
    }

    #[inline]
    pub(super) fn at(&self, number: u64) -> u64 {
        let mut number = number;
        loop {
            number = number.wrapping_add(self.add) & self.mask;
            for factor in self.factors {
                number = number.wrapping_mul(factor) & self.mask;
                number ^= number >> self.shift;
            }
            if number < self.domain {
                return number;
            }
        }
    }
}

/// Draws of `0..domain` with probability proportional to `(number + 1)^-exponent`.
///
/// Rejection-inversion sampling after W. Hörmann and G. Derflinger (1996): the inverse of the integral of the
/// density, and few rejections.
#[derive(Debug, Clone, Copy)]
pub(super) struct Zipf {
    domain: f64,
    exponent: f64,
    /// Range of the integral.
    range: (f64, f64),
    /// Values this close to their number are accepted without a further test.
    close: f64,
}

impl Zipf {
    pub(super) fn new(domain: u64, exponent: f64) -> Self {
        let mut zipf = Self {
            domain: domain as f64,
            exponent,
            range: (0.0, 0.0),
            close: 0.0,
        };
        zipf.range = (zipf.integral(1.5) - 1.0, zipf.integral(zipf.domain + 0.5));
        zipf.close = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 {
            x.ln()
        } else {
            (power * x.ln()).exp_m1() / power
        }
    }

    fn inverse(&self, y: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power.abs() < 1e-9 {
            y.exp()
        } else {
            // The argument is slightly below -1 at most by rounding.
            ((y * power).max(-1.0).ln_1p() / power).exp()
        }
    }

    /// The number for a random word.
    pub(super) fn draw(&self, random: u64) -> u64 {
        let mut random = random;
        loop {
            let unit = (random >> 11) as f64 / (1_u64 << 53) as f64;
            let y = self.range.1 + unit * (self.range.0 - self.range.1);
            let x = self.inverse(y);
            let number = x.round().clamp(1.0, self.domain);
            if number - x <= self.close || y >= self.integral(number + 0.5) - self.density(number) {
                return number as u64 - 1;
            }
            random = mix64(random);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permutations_contain_each_number_once() {
        for domain in [1_u64, 2, 3, 31, 32, 33, 1000, 1024, 5000] {
            for seed in 0..3 {
                let permutation = Permutation::new(domain, seed);
                let mut seen: Vec<u64> = (0..domain).map(|number| permutation.at(number)).collect();
                if domain >= 1000 {
                    assert!(seen.iter().enumerate().filter(|(i, n)| *i as u64 == **n).count() < 20);
                }
                seen.sort_unstable();
                assert!(seen.iter().copied().eq(0..domain), "{domain}");
            }
        }
    }

    /// Frequencies of the first numbers agree with the distribution within 5 standard deviations.
    #[test]
    fn draws_follow_the_zipf_distribution() {
        const DRAWS: u64 = 200_000;
        for domain in [1_u64, 2, 10, 1000] {
            for exponent in [0.25, 0.5, 1.0, 1.25, 1.75] {
                let zipf = Zipf::new(domain, exponent);
                let mut counts = vec![0_u64; domain as usize];
                for draw in 0..DRAWS {
                    counts[zipf.draw(mix64(draw ^ 0x5eed << 40)) as usize] += 1;
                }
                let weights: Vec<f64> = (1..=domain).map(|n| (n as f64).powf(-exponent)).collect();
                let total: f64 = weights.iter().sum();
                for (number, weight) in weights.iter().enumerate().take(20) {
                    let expected = weight / total * DRAWS as f64;
                    let difference = (counts[number] as f64 - expected).abs();
                    assert!(
                        difference <= 5.0 * expected.sqrt() + 1.0,
                        "{domain} {exponent} {number}"
                    );
                }
            }
        }
    }
}
