//! Work on the CPU with the widest vectors that it supports.
//!
//! A program is compiled for every CPU of its architecture, which on x86-64 means vectors of 16 bytes and no
//! fused multiply-adds. Work that the compiler vectorises is also compiled for wider vectors, and the CPU's
//! features are checked at run time.

/// Work that is compiled once for each kind of vectors.
pub trait VectorWork {
    /// Its result.
    type Output;

    /// Does the work. Implementations are `#[inline(always)]`, like all functions that they call, since only
    /// inlined code is compiled for the wider vectors. `FUSED`: `mul_add` is an instruction.
    fn run<const FUSED: bool>(self) -> Self::Output;
}

/// Does the work with the widest vectors that the CPU supports.
#[cfg(target_arch = "x86_64")]
pub fn in_vectors<W: VectorWork>(work: W) -> W::Output {
    macro_rules! has {
        ($($feature:tt),*) => { $(std::arch::is_x86_feature_detected!($feature))&&* };
    }
    if has!("avx512f", "avx512vl", "avx512dq", "avx512bw", "fma") {
        // SAFETY: the CPU has all features of the function, as just checked.
        return unsafe { avx512(work) };
    }
    if has!("avx2", "fma") {
        // SAFETY: as above.
        return unsafe { avx2(work) };
    }
    work.run::<false>()
}

/// Does the work with the widest vectors that the CPU supports.
#[cfg(not(target_arch = "x86_64"))]
pub fn in_vectors<W: VectorWork>(work: W) -> W::Output {
    work.run::<{ cfg!(target_arch = "aarch64") }>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
fn avx512<W: VectorWork>(work: W) -> W::Output {
    work.run::<true>()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2<W: VectorWork>(work: W) -> W::Output {
    work.run::<true>()
}

#[cfg(test)]
mod tests {
    use super::{VectorWork, in_vectors};

    struct Dot<'a>(&'a [f32], &'a [f32]);

    impl VectorWork for Dot<'_> {
        type Output = f32;

        #[inline(always)]
        fn run<const FUSED: bool>(self) -> f32 {
            let pairs = self.0.iter().zip(self.1);
            pairs.fold(
                0.0,
                |sum, (a, b)| if FUSED { a.mul_add(*b, sum) } else { sum + a * b },
            )
        }
    }

    #[test]
    fn vectorised_dot_product_is_correct() {
        let numbers: Vec<f32> = (0..1000).map(|i| (i % 7) as f32).collect();
        let expected: f32 = numbers.iter().map(|number| number * number).sum();
        assert_eq!(in_vectors(Dot(&numbers, &numbers)), expected);
    }
}
