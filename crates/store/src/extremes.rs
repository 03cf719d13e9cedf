//! The extremes of many numbers.

/// Number of independent chains of comparisons. A comparison waits for the previous one of its chain, and a
/// processor runs several chains at once.
const CHAINS: usize = 4;

/// Extends earlier extremes by numbers.
#[inline(always)]
pub(crate) fn extremes_with<T: Copy + Ord>((minimum, maximum): (T, T), numbers: &[T]) -> (T, T) {
    let (mut least, mut greatest) = ([minimum; CHAINS], [maximum; CHAINS]);
    let groups = numbers.chunks_exact(CHAINS);
    let rest = groups.remainder();
    for group in groups {
        for (chain, number) in group.iter().enumerate() {
            least[chain] = least[chain].min(*number);
            greatest[chain] = greatest[chain].max(*number);
        }
    }
    let least = least.into_iter().chain(rest.iter().copied());
    let greatest = greatest.into_iter().chain(rest.iter().copied());
    (least.fold(minimum, T::min), greatest.fold(maximum, T::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_counts() {
        for length in 0..20 {
            for place in 0..length {
                let mut numbers = vec![5_i64; length];
                numbers[place] = i64::MIN;
                assert_eq!(
                    extremes_with((5, 5), &numbers),
                    (i64::MIN, 5),
                    "{place} of {length}"
                );
                numbers[place] = i64::MAX;
                assert_eq!(
                    extremes_with((5, 5), &numbers),
                    (5, i64::MAX),
                    "{place} of {length}"
                );
            }
            assert_eq!(extremes_with((3, 9), &vec![5; length]), (3, 9));
        }
    }
}
