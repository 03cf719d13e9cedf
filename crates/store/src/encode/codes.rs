//! Unsigned codes of the narrowest width, and the loops that write them.

use crate::column::Width;
use crate::packed::{BLOCK_CODES, LocalPacked};

/// The type of a code.
pub(crate) trait Code: bytemuck::Pod + Send + Sync {
    /// The low bits of `code`.
    fn truncate(code: u64) -> Self;
    /// The code as 64 bits.
    fn widen(self) -> u64;
}

macro_rules! code {
    ($($native:ty),*) => {$(
        impl Code for $native {
            #[inline(always)]
            fn truncate(code: u64) -> Self {
                code as $native
            }
            #[inline(always)]
            fn widen(self) -> u64 {
                u64::from(self)
            }
        }
    )*};
}
code!(u8, u16, u32, u64);

/// Codes of a chunk while its column is being encoded.
#[derive(Debug)]
pub(crate) enum Codes {
    /// This number of zeros.
    Zero(usize),
    One(Vec<u8>),
    Two(Vec<u16>),
    Four(Vec<u32>),
    Eight(Vec<u64>),
    Packed(LocalPacked),
}

impl Codes {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Zero(_) => 0,
            Self::One(codes) => codes.len(),
            Self::Two(codes) => codes.len() * 2,
            Self::Four(codes) => codes.len() * 4,
            Self::Eight(codes) => codes.len() * 8,
            Self::Packed(codes) => codes.bytes(),
        }
    }

    /// Narrows codes that are at most `maximum`.
    pub(crate) fn narrow(codes: Vec<u32>, maximum: u32) -> Self {
        match Width::for_maximum(u64::from(maximum)) {
            Width::Zero => Self::Zero(codes.len()),
            Width::One => Self::One(codes.iter().map(|code| *code as u8).collect()),
            Width::Two => Self::Two(codes.iter().map(|code| *code as u16).collect()),
            Width::Four | Width::Eight => Self::Four(codes),
        }
    }

    /// Writes `map(code)` for every code into `target`, which has exactly the size of that many codes of
    /// `width`.
    pub(crate) fn write_mapped(&self, width: Width, target: &mut [u8], map: impl Fn(u64) -> u64 + Copy) {
        match width {
            Width::Zero => {}
            Width::One => self.write_as::<u8>(bytemuck::cast_slice_mut(target), map),
            Width::Two => self.write_as::<u16>(bytemuck::cast_slice_mut(target), map),
            Width::Four => self.write_as::<u32>(bytemuck::cast_slice_mut(target), map),
            Width::Eight => self.write_as::<u64>(bytemuck::cast_slice_mut(target), map),
        }
    }

    fn write_as<C: Code>(&self, target: &mut [C], map: impl Fn(u64) -> u64 + Copy) {
        match self {
            Self::Zero(_) => target.fill(C::truncate(map(0))),
            Self::One(codes) => copy_mapped(codes, target, map),
            Self::Two(codes) => copy_mapped(codes, target, map),
            Self::Four(codes) => copy_mapped(codes, target, map),
            Self::Eight(codes) => copy_mapped(codes, target, map),
            Self::Packed(codes) => {
                let mut blocks = target.chunks_mut(BLOCK_CODES);
                codes.for_each_block(|codes| match blocks.next() {
                    Some(target) => {
                        copy_mapped(codes, target, map);
                        true
                    }
                    None => false,
                });
            }
        }
    }

    /// Calls `visit` with `map(code)` of all codes, in blocks of [`BLOCK_CODES`] and a last, shorter one,
    /// until it returns false. Returns whether it always returned true.
    pub(crate) fn for_each_block(
        &self,
        map: impl Fn(u64) -> u64 + Copy,
        mut visit: impl FnMut(&[u64]) -> bool,
    ) -> bool {
        match self {
            Self::Zero(rows) => {
                let block = [map(0); BLOCK_CODES];
                let firsts = (0..*rows).step_by(BLOCK_CODES);
                firsts
                    .map(|first| BLOCK_CODES.min(rows - first))
                    .all(|rows| visit(&block[..rows]))
            }
            Self::One(codes) => mapped_blocks(codes, map, visit),
            Self::Two(codes) => mapped_blocks(codes, map, visit),
            Self::Four(codes) => mapped_blocks(codes, map, visit),
            Self::Eight(codes) => mapped_blocks(codes, map, visit),
            Self::Packed(codes) => codes.for_each_block(|codes| {
                codes.iter_mut().for_each(|code| *code = map(*code));
                visit(codes)
            }),
        }
    }

    /// Calls `visit` with every code, in order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(u64)) {
        match self {
            Self::Zero(rows) => (0..*rows).for_each(|_| visit(0)),
            Self::One(codes) => codes.iter().for_each(|code| visit(code.widen())),
            Self::Two(codes) => codes.iter().for_each(|code| visit(code.widen())),
            Self::Four(codes) => codes.iter().for_each(|code| visit(code.widen())),
            Self::Eight(codes) => codes.iter().for_each(|code| visit(*code)),
            Self::Packed(codes) => {
                codes.for_each_block(|codes| {
                    codes.iter().for_each(|code| visit(*code));
                    true
                });
            }
        }
    }
}

fn copy_mapped<S: Code, C: Code>(codes: &[S], target: &mut [C], map: impl Fn(u64) -> u64 + Copy) {
    for (target, code) in target.iter_mut().zip(codes) {
        *target = C::truncate(map(code.widen()));
    }
}

fn mapped_blocks<S: Code>(
    codes: &[S],
    map: impl Fn(u64) -> u64 + Copy,
    mut visit: impl FnMut(&[u64]) -> bool,
) -> bool {
    let mut block = [0; BLOCK_CODES];
    codes.chunks(BLOCK_CODES).all(|codes| {
        for (mapped, code) in block.iter_mut().zip(codes) {
            *mapped = map(code.widen());
        }
        visit(&block[..codes.len()])
    })
}

/// Exact division of multiples: by an odd number by multiplying with its inverse modulo 2^64, by two by
/// shifting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Divisor {
    shift: u32,
    inverse: u64,
    largest_quotient: u64,
}

impl Divisor {
    /// Prepares division by `value`, which is not 0.
    pub(crate) fn new(value: u64) -> Self {
        let shift = value.trailing_zeros();
        let odd = value >> shift;
        // Newton's iteration: each step doubles the correct low bits, and odd * odd is 1 modulo 8.
        let mut inverse = odd;
        for _ in 0..5 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        }
        Self {
            shift,
            inverse,
            largest_quotient: u64::MAX / value,
        }
    }

    /// `multiple / value`, for a multiple of the value.
    #[inline(always)]
    pub(crate) fn divide(self, multiple: u64) -> u64 {
        (multiple >> self.shift).wrapping_mul(self.inverse)
    }

    /// Whether `number` is a multiple.
    #[inline(always)]
    pub(crate) fn divides(self, number: u64) -> bool {
        number.wrapping_mul(self.inverse).rotate_right(self.shift) <= self.largest_quotient
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisor_agrees_with_division() {
        let divisors = [
            1,
            2,
            3,
            5,
            6,
            7,
            10,
            96,
            100,
            1000,
            1_000_000,
            1 << 32,
            (1 << 63) - 1,
            1 << 63,
            u64::MAX,
        ];
        for value in divisors {
            let divisor = Divisor::new(value);
            for factor in [0, 1, 2, 3, 17, 99, u64::MAX / value / 2, u64::MAX / value] {
                let Some(multiple) = value.checked_mul(factor) else {
                    continue;
                };
                assert!(divisor.divides(multiple), "{multiple} by {value}");
                assert_eq!(divisor.divide(multiple), factor, "{multiple} by {value}");
                for other in [multiple.wrapping_add(1), multiple.wrapping_sub(1), multiple ^ 4] {
                    assert_eq!(divisor.divides(other), other % value == 0, "{other} by {value}");
                }
            }
        }
    }
}
