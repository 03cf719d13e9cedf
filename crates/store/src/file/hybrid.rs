//! The hybrid of runs and bit-packed numbers that Parquet stores levels and dictionary indices in.

use crate::encode::Validity;

/// Numbers of a bit-packed group, by Parquet's format.
const GROUP: usize = 8;

/// Decodes numbers of up to 32 bits.
#[derive(Debug, Clone)]
pub(super) struct Hybrid<'a> {
    bytes: &'a [u8],
    width: u32,
}

impl<'a> Hybrid<'a> {
    /// The numbers of `width` bits in these bytes; none if that is more than 32 bits.
    pub(super) fn new(bytes: &'a [u8], width: u32) -> Option<Self> {
        (width <= u32::BITS).then_some(Self { bytes, width })
    }

    /// Appends the first `count` numbers to `target`; none if the bytes have fewer.
    pub(super) fn read(mut self, count: usize, target: &mut Vec<u32>) -> Option<()> {
        let end = target.len() + count;
        target.reserve(count.min(self.bytes.len().saturating_mul(GROUP)));
        while target.len() < end {
            let left = end - target.len();
            let header = self.header()?;
            let length = usize::try_from(header >> 1).ok()?;
            if header & 1 == 0 {
                let number = self.repeated()?;
                target.resize(target.len() + left.min(length), number);
            } else {
                let groups = length.min(left.div_ceil(GROUP));
                let stored = length.checked_mul(self.width as usize)?;
                // The last run may be cut off behind the group of the last number.
                let packed = self.bytes.get(..groups * self.width as usize)?;
                self.bytes = self.bytes.get(stored..).unwrap_or_default();
                UNPACKERS[self.width as usize](packed, groups, target);
                target.truncate(end);
            }
        }
        Some(())
    }

    /// Appends the first `count` numbers, which have one bit, to `target`; none if the bytes have fewer.
    pub(super) fn read_bits(mut self, count: usize, target: &mut Validity) -> Option<()> {
        let mut left = count;
        while left > 0 {
            let header = self.header()?;
            let length = usize::try_from(header >> 1).ok()?;
            if header & 1 == 0 {
                let run = left.min(length);
                target.push_run(self.repeated()? != 0, run);
                left -= run;
            } else {
                let run = left.min(length.checked_mul(GROUP)?);
                let packed = self.bytes.get(..run.div_ceil(GROUP))?;
                self.bytes = self.bytes.get(length..).unwrap_or_default();
                target.push_packed(packed, run);
                left -= run;
            }
        }
        Some(())
    }

    /// Reads the header of a run: a number in bytes of seven bits each (LEB128).
    fn header(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Reads the number that a run repeats.
    fn repeated(&mut self) -> Option<u32> {
        let (stored, rest) = self.bytes.split_at_checked(self.width.div_ceil(8) as usize)?;
        self.bytes = rest;
        let mut bytes = [0; 4];
        bytes[..stored.len()].copy_from_slice(stored);
        Some(u32::from_le_bytes(bytes))
    }
}

/// Appends groups of numbers with `BITS` bits each.
fn unpack<const BITS: usize>(packed: &[u8], groups: usize, target: &mut Vec<u32>) {
    let start = target.len();
    target.resize(start + groups * GROUP, 0);
    let mut at = 0;
    for numbers in target[start..].chunks_exact_mut(GROUP) {
        // Each number is read as a word of eight bytes.
        match packed.get(at..at + BITS + 8) {
            Some(window) => unpack_group::<BITS>(window, numbers),
            None => {
                let mut window = [0; 32 + 8];
                window[..BITS].copy_from_slice(&packed[at..at + BITS]);
                unpack_group::<BITS>(&window, numbers);
            }
        }
        at += BITS;
    }
}

#[inline(always)]
fn unpack_group<const BITS: usize>(window: &[u8], numbers: &mut [u32]) {
    let mask = (1_u64 << BITS) - 1;
    for (index, number) in numbers.iter_mut().enumerate() {
        let bit = index * BITS;
        let mut word = [0; 8];
        word.copy_from_slice(&window[bit / 8..bit / 8 + 8]);
        *number = (u64::from_le_bytes(word) >> (bit % 8) & mask) as u32;
    }
}

/// [`unpack`] for a number of bits.
type Unpack = fn(&[u8], usize, &mut Vec<u32>);

/// [`unpack`] for each number of bits.
const UNPACKERS: [Unpack; u32::BITS as usize + 1] = {
    macro_rules! unpackers {
        ($($bits:literal)*) => { [$(unpack::<$bits>),*] };
    }
    unpackers!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)
};

#[cfg(test)]
mod tests {
    use super::*;

    /// A header and packed numbers. Their count is a multiple of eight.
    fn packed(numbers: &[u32], width: u32) -> Vec<u8> {
        let mut bytes = vec![(numbers.len() / GROUP) as u8 * 2 + 1];
        let mut bits = 0_u128;
        let mut held = 0;
        for number in numbers {
            bits |= u128::from(*number) << held;
            held += width;
            while held >= 8 {
                bytes.push(bits as u8);
                bits >>= 8;
                held -= 8;
            }
        }
        bytes
    }

    fn read(bytes: &[u8], width: u32, count: usize) -> Option<Vec<u32>> {
        let mut numbers = vec![7];
        Hybrid::new(bytes, width)?.read(count, &mut numbers)?;
        assert_eq!(numbers.remove(0), 7, "numbers are appended");
        Some(numbers)
    }

    #[test]
    fn packed_numbers_of_every_width_are_read() {
        for width in 1..=32 {
            let numbers: Vec<u32> = (0..40_u32)
                .map(|number| number.wrapping_mul(0x9e37_79b9) >> (32 - width))
                .collect();
            let bytes = packed(&numbers, width);
            for count in [0, 1, 7, 8, 9, 39, 40] {
                assert_eq!(
                    read(&bytes, width, count).as_deref(),
                    Some(&numbers[..count]),
                    "{width} bits"
                );
            }
            assert_eq!(read(&bytes, width, 41), None, "{width} bits");
            assert_eq!(read(&bytes[..bytes.len() - 1], width, 40), None, "{width} bits");
        }
    }

    #[test]
    fn runs_and_packed_numbers_alternate() {
        // 300 times 5, then 8 packed numbers, then 3 times 4095.
        let mut bytes = vec![0xd8, 0x04, 5, 0];
        let numbers = [1, 2, 3, 4, 5, 6, 7, 4000];
        bytes.extend(packed(&numbers, 12));
        bytes.extend([6, 0xff, 0x0f]);
        let expected = [vec![5; 300], numbers.to_vec(), vec![4095; 3]].concat();
        assert_eq!(read(&bytes, 12, 311).as_ref(), Some(&expected));
        assert_eq!(read(&bytes, 12, 304).as_deref(), Some(&expected[..304]));
        assert_eq!(read(&bytes, 12, 312), None);
    }

    #[test]
    fn numbers_without_bits_are_zero() {
        assert_eq!(read(&[22], 0, 11), Some(vec![0; 11]));
        assert_eq!(read(&[5], 0, 11), Some(vec![0; 11]));
    }

    #[test]
    fn numbers_of_one_bit_are_read_as_bits() {
        // Ten ones, then 1101 0010 1111 1111, then four zeros.
        let levels = [20, 1, 5, 0x4b, 0xff, 8, 0];
        for count in 0..=30 {
            let mut bits = Validity::default();
            let hybrid = Hybrid::new(&levels, 1).expect("one bit");
            hybrid.read_bits(count, &mut bits).expect("30 numbers");
            let mut numbers = Vec::new();
            bits.for_each_word(|word, rows| numbers.extend((0..rows).map(|row| (word >> row & 1) as u32)));
            assert_eq!(read(&levels, 1, count).as_ref(), Some(&numbers), "{count}");
            assert_eq!(bits.valid(), numbers.iter().sum::<u32>() as usize, "{count}");
        }
        let hybrid = Hybrid::new(&levels, 1).expect("one bit");
        assert_eq!(hybrid.read_bits(31, &mut Validity::default()), None);
    }

    #[test]
    fn false_lengths_are_refused_without_memory() {
        assert!(Hybrid::new(&[], 33).is_none());
        let endless = [0xff; 10];
        assert_eq!(read(&endless, 4, 8), None);
        let long = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert_eq!(read(&long, 32, usize::MAX / 2), None);
    }
}
