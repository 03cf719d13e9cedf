//! Bit packing: numbers with a fixed number of bits each, the lowest bits first.

/// Maximum number of bits of a packed number.
pub(crate) const MOST_BITS: u32 = 32;

/// Number of codes that are packed with constant shifts. They fill whole words, for any number of bits.
pub(crate) const GROUP: usize = 32;

/// An unsigned code that is packed.
pub(crate) trait PackedCode: Copy + Ord {
    /// [`pack_with`] for each number of bits.
    const PACKERS: [Pack<Self>; MOST_BITS as usize + 1];

    fn widen(self) -> u64;

    /// The code minus `least`. The difference is below 2^32.
    fn distance(self, least: u64) -> u32;
}

/// [`pack_with`] for a number of bits.
type Pack<C> = fn(&[C], u64, &mut [u32]);

/// [`pack_with`] for each number of bits.
macro_rules! packers {
    ($code:ty: $($bits:literal)*) => { [$(pack_with::<$code, $bits>),*] };
}

macro_rules! packed_code {
    ($($code:ty),*) => {$(
        impl PackedCode for $code {
            const PACKERS: [Pack<Self>; MOST_BITS as usize + 1] = packers!(
                $code: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
            );

            #[inline(always)]
            fn widen(self) -> u64 {
                u64::from(self)
            }

            #[inline(always)]
            fn distance(self, least: u64) -> u32 {
                (self - least as $code) as u32
            }
        }
    )*};
}
packed_code!(u32, u64);

/// Packs the distances of codes from `least` with `BITS` bits each, and zeroes the words that remain.
fn pack_with<C: PackedCode, const BITS: usize>(codes: &[C], least: u64, mut words: &mut [u32]) {
    for group in codes.chunks(GROUP) {
        let mut distances = [0_u32; GROUP];
        for (distance, code) in distances.iter_mut().zip(group) {
            *distance = code.distance(least);
        }
        let packed = pack_group::<BITS>(&distances);
        let (target, rest) = words.split_at_mut(BITS.min(words.len()));
        target.copy_from_slice(&packed[..target.len()]);
        words = rest;
    }
    words.fill(0);
}

/// The packed words of a group: the first `BITS` words of the array. Words and shifts are constants of each
/// line. The compiler does not unroll a loop over the rows, and it takes five times as long.
#[inline(always)]
#[rustfmt::skip]
fn pack_group<const BITS: usize>(distances: &[u32; GROUP]) -> [u32; GROUP + 1] {
    let mut packed = [0_u32; GROUP + 1];
    macro_rules! row {
        ($row:literal) => {
            let (word, shift) = ($row * BITS / 32, $row * BITS % 32);
            packed[word] |= distances[$row] << shift;
            if shift + BITS > 32 {
                packed[word + 1] |= distances[$row] >> (32 - shift);
            }
        };
    }
    row!(0); row!(1); row!(2); row!(3); row!(4); row!(5); row!(6); row!(7);
    row!(8); row!(9); row!(10); row!(11); row!(12); row!(13); row!(14); row!(15);
    row!(16); row!(17); row!(18); row!(19); row!(20); row!(21); row!(22); row!(23);
    row!(24); row!(25); row!(26); row!(27); row!(28); row!(29); row!(30); row!(31);
    packed
}
