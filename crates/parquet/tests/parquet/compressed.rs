//! Random compressed pages.

use parquet::basic::Compression;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::bytes::{PLAIN, data, decode, integers, varint};
use crate::support::Bench;

/// A page that is written sequence by sequence.
#[derive(Default)]
struct Page {
    stored: Vec<u8>,
    plain: Vec<u8>,
}

impl Page {
    fn copy(&mut self, distance: usize, length: usize) {
        for _ in 0..length {
            self.plain.push(self.plain[self.plain.len() - distance]);
        }
    }

    fn snappy_literals(&mut self, literals: &[u8]) {
        let last = literals.len() - 1;
        match last {
            0..60 => self.stored.push((last as u8) << 2),
            60..256 => self.stored.extend([60 << 2, last as u8]),
            _ => self.stored.extend([61 << 2, last as u8, (last >> 8) as u8]),
        }
        self.stored.extend(literals);
        self.plain.extend(literals);
    }

    fn snappy_copy(&mut self, distance: usize, length: usize) {
        let number = distance as u32;
        if (4..12).contains(&length) && distance < 2048 {
            let tag = 1 | (length as u8 - 4) << 2 | ((distance >> 8) as u8) << 5;
            self.stored.extend([tag, distance as u8]);
        } else if distance < 1 << 16 {
            self.stored.push(2 | (length as u8 - 1) << 2);
            self.stored.extend(&number.to_le_bytes()[..2]);
        } else {
            self.stored.push(3 | (length as u8 - 1) << 2);
            self.stored.extend(number.to_le_bytes());
        }
        self.copy(distance, length);
    }

    /// Literals and a copy of at least 4 bytes; or the last literals.
    fn lz4(&mut self, literals: &[u8], copy: Option<(usize, usize)>) {
        let short = |length: usize| length.min(15) as u8;
        let copied = copy.map_or(0, |(_, length)| length - 4);
        self.stored.push(short(literals.len()) << 4 | short(copied));
        let extend = |stored: &mut Vec<u8>, length: usize| {
            if let Some(mut rest) = length.checked_sub(15) {
                while rest >= 255 {
                    stored.push(255);
                    rest -= 255;
                }
                stored.push(rest as u8);
            }
        };
        extend(&mut self.stored, literals.len());
        self.stored.extend(literals);
        self.plain.extend(literals);
        if let Some((distance, length)) = copy {
            self.stored.extend((distance as u16).to_le_bytes());
            extend(&mut self.stored, copied);
            self.copy(distance, length);
        }
    }
}

/// A length, mostly short.
fn length(random: &mut SmallRng, most: usize) -> usize {
    let limit = *[4, 12, 40, 300, most]
        .get(random.random_range(0..5))
        .unwrap_or(&most);
    random.random_range(1..=limit.min(most))
}

fn literals(random: &mut SmallRng) -> Vec<u8> {
    (0..length(random, 2000)).map(|_| random.random()).collect()
}

fn page(codec: Compression, random: &mut SmallRng) -> Page {
    let mut page = Page::default();
    for sequence in 0..random.random_range(1..400) {
        let literals = literals(random);
        let written = page.plain.len();
        match codec {
            Compression::SNAPPY => {
                if sequence == 0 || random.random_bool(0.4) {
                    page.snappy_literals(&literals);
                } else {
                    page.snappy_copy(length(random, written), length(random, 64));
                }
            }
            _ => {
                let literals = if sequence > 0 && random.random_bool(0.5) {
                    &[]
                } else {
                    &literals[..]
                };
                let distance = length(random, (written + literals.len()).min(65_535));
                page.lz4(literals, Some((distance, 3 + length(random, 1200))));
            }
        }
    }
    // Whole integers.
    let rest: Vec<u8> = (0..8 + 8 - page.plain.len() % 8)
        .map(|_| random.random())
        .collect();
    match codec {
        Compression::SNAPPY => page.snappy_literals(&rest),
        _ => page.lz4(&rest, None),
    }
    page
}

#[test]
fn random_sequences_of_literals_and_copies() {
    for bench in Bench::all() {
        for codec in [Compression::SNAPPY, Compression::LZ4_RAW] {
            for seed in 0..60 {
                let mut random = SmallRng::seed_from_u64(seed);
                let Page { stored, plain } = page(codec, &mut random);
                let stored = match codec {
                    Compression::SNAPPY => [varint(plain.len() as u64), stored].concat(),
                    _ => stored,
                };
                let rows = plain.len() / 8;
                let chunk = data(rows as i32, PLAIN, plain.len(), &stored);
                let column = decode(&bench, "required int64 v", codec, rows, &chunk)
                    .unwrap_or_else(|error| panic!("{codec:?}, seed {seed}: {error}"));
                let expected = plain
                    .as_chunks()
                    .0
                    .iter()
                    .map(|word| i128::from(i64::from_le_bytes(*word)));
                assert!(
                    integers(&bench, &column).into_iter().eq(expected),
                    "{codec:?}, seed {seed}"
                );
            }
        }
    }
}
