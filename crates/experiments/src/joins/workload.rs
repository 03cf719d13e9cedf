//! The relations of table 3.2 and of chapter 4, in host memory that kernels can read in place.
//!
//! | workload | bytes of key and payload | R | S |
//! | --- | --- | --- | --- |
//! | A | 8 and 8 | 2^27 rows | 2^31 rows |
//! | B | 8 and 8 | 2^18 rows | 2^31 rows |
//! | C | 4 and 4 | 1024 M rows | 1024 M rows |
//! | T | 8 and 8 | 128 to 2048 M rows | as R |
//!
//! Columns are separate arrays. R's keys are a random permutation of `0..domain`, or a random part of one if
//! the selectivity is less than 1. S's keys are drawn uniformly, or by a Zipf distribution, from the whole
//! domain. So the selectivity is the fraction of S that has a match, which is exactly one row.
//!
//! Rows are generated in parallel, each from the seed and its number, together with the answer: the wrapping
//! sum of the payloads of both sides of each match, and the number of matches. Before each run,
//! [`Workload::renew`] changes all payloads of R and a sixteenth of S, so that no run can find the answer of
//! another.

use std::ops::Range;
use std::sync::Arc;

use galatea_device::{Device, DeviceError, HostMemory, HostView, Result};
use galatea_kernels::JoinRows;
use galatea_kernels::flow::mix64;
use rayon::prelude::*;

use super::permutation::{Permutation, Zipf};

/// Rows of R and S, and their distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Name in rows of results.
    pub name: &'static str,
    /// Bytes of a key, and of a payload: 8 or 4.
    pub word_bytes: u32,
    /// Number of keys: the rows of R if every row of S has a match.
    pub domain: u64,
    /// Rows of S.
    pub probe_rows: u64,
    /// Exponent of the Zipf distribution of S's keys; 0: uniform.
    pub zipf: f64,
    /// Fraction of the domain that is in R.
    pub selectivity: f64,
}

impl Shape {
    /// Workload A, with `2^27 / shrink` rows in R.
    #[must_use]
    pub fn a(shrink: u64) -> Self {
        Self::uniform("A", 8, (1 << 27) / shrink, (1 << 31) / shrink)
    }

    /// Workload B. R fits the CPU's caches; it only shrinks if it would exceed a sixteenth of S.
    #[must_use]
    pub fn b(shrink: u64) -> Self {
        let probe_rows = (1 << 31) / shrink;
        Self::uniform("B", 8, (1 << 18).min(probe_rows / 16), probe_rows)
    }

    /// Workload C.
    #[must_use]
    pub fn c(shrink: u64) -> Self {
        Self::uniform("C", 4, (1024 << 20) / shrink, (1024 << 20) / shrink)
    }

    /// Workload C with tuples of 16 bytes, and `128 Mi / shrink` rows in R.
    #[must_use]
    pub fn c_wide(shrink: u64, ratio: u64) -> Self {
        let rows = (128 << 20) / shrink;
        Self::uniform("C, 16 bytes", 8, rows, rows * ratio)
    }

    /// Workload T of chapter 4, with `millions << 20` rows on both sides.
    #[must_use]
    pub fn t(millions: u64, shrink: u64) -> Self {
        let rows = (millions << 20) / shrink;
        Self::uniform("T", 8, rows, rows)
    }

    /// Workload A for experiments with many points: with a quarter of its R and an eighth of its S.
    #[must_use]
    pub fn smaller_a(shrink: u64) -> Self {
        let Self {
            domain, probe_rows, ..
        } = Self::a(shrink);
        Self::uniform("A", 8, domain / 4, probe_rows / 8)
    }

    /// Uniform foreign keys which all have a match. No side is empty.
    #[must_use]
    pub fn uniform(name: &'static str, word_bytes: u32, domain: u64, probe_rows: u64) -> Self {
        Self {
            name,
            word_bytes,
            domain: domain.max(1),
            probe_rows: probe_rows.max(1),
            zipf: 0.0,
            selectivity: 1.0,
        }
    }

    /// Rows of R.
    #[must_use]
    pub fn build_rows(&self) -> u64 {
        (self.domain as f64 * self.selectivity).round() as u64
    }

    /// Bytes of a tuple.
    #[must_use]
    pub fn tuple_bytes(&self) -> u64 {
        2 * u64::from(self.word_bytes)
    }

    /// Bytes of a table with perfect hashing.
    #[must_use]
    pub fn perfect_bytes(&self) -> u64 {
        self.domain * self.tuple_bytes()
    }

    /// Bytes of both relations in host memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tuple_bytes() * (self.domain + self.probe_rows)
    }
}

/// An unsigned integer of 8 or 4 bytes as key or payload.
pub(super) trait Word: bytemuck::Pod + Send + Sync {
    fn narrow(value: u64) -> Self;
    fn wide(self) -> u64;
}

impl Word for u64 {
    fn narrow(value: u64) -> Self {
        value
    }

    fn wide(self) -> u64 {
        self
    }
}

impl Word for u32 {
    fn narrow(value: u64) -> Self {
        value as Self
    }

    fn wide(self) -> u64 {
        u64::from(self)
    }
}

/// Two columns in pinned host memory.
#[derive(Debug)]
struct Columns {
    keys: Arc<HostMemory>,
    payloads: Arc<HostMemory>,
    addresses: [u64; 2],
}

impl Columns {
    fn new(device: &Device, rows: u64, word_bytes: u32) -> Result<Self> {
        let bytes = usize::try_from(rows.max(1) * u64::from(word_bytes)).unwrap_or(usize::MAX);
        let column = || {
            let memory = Arc::new(HostMemory::new(bytes)?);
            let address = device.pin_mapped(&memory)?;
            Ok::<_, DeviceError>((memory, address))
        };
        let (keys, key_address) = column()?;
        let (payloads, payload_address) = column()?;
        Ok(Self {
            keys,
            payloads,
            addresses: [key_address, payload_address],
        })
    }

    /// Keys and payloads, for writing. No view of the memory is kept, so it is never shared.
    fn words_mut<W: Word>(&mut self) -> Result<(&mut [W], &mut [W])> {
        let shared = |memory: &Arc<HostMemory>| DeviceError::HostMemoryShared {
            bytes: memory.len() as u64,
        };
        let (keys, payloads) = (&mut self.keys, &mut self.payloads);
        let errors = [shared(keys), shared(payloads)];
        match (Arc::get_mut(keys), Arc::get_mut(payloads), errors) {
            (Some(keys), Some(payloads), _) => Ok((
                bytemuck::cast_slice_mut(keys.as_mut_slice()),
                bytemuck::cast_slice_mut(payloads.as_mut_slice()),
            )),
            (None, _, [error, _]) | (_, None, [_, error]) => Err(error),
        }
    }
}

/// The answer of a join, or of a part of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Answer {
    /// The wrapping sum of the payloads of both sides of each match.
    pub sum: u64,
    /// Number of matches.
    pub matches: u64,
}

impl Answer {
    /// The answer of two parts together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            sum: self.sum.wrapping_add(other.sum),
            matches: self.matches + other.matches,
        }
    }
}

/// Pieces of S of which one is renewed before a run.
const RENEWED: usize = 16;
/// Maximum number of rows of a piece, the unit of generation.
const PIECE: usize = 1 << 16;
/// Seed of R's payloads.
const BUILD_SEED: u64 = 0x6275_696c_6400_0000;

/// Both relations, and the answer of their join.
#[derive(Debug)]
pub struct Workload {
    shape: Shape,
    seed: u64,
    build: Columns,
    probe: Columns,
    permutation: Permutation,
    zipf: Option<Zipf>,
    /// Generated rows of S, of which the shape may use fewer.
    generated: u64,
    /// Rows of a piece of S, and the answer of each without `shift`.
    piece: usize,
    answers: Vec<Answer>,
    /// Added to each payload of R.
    shift: u64,
}

impl Workload {
    /// Allocates, pins and generates the relations.
    ///
    /// # Errors
    /// [`DeviceError::HostMemory`] if the host has too little memory; the device's.
    pub fn new(device: &Device, shape: Shape, seed: u64) -> Result<Self> {
        let mut workload = Self {
            shape,
            seed,
            build: Columns::new(device, shape.build_rows(), shape.word_bytes)?,
            probe: Columns::new(device, shape.probe_rows, shape.word_bytes)?,
            permutation: Permutation::new(shape.domain, seed),
            zipf: None,
            generated: 0,
            piece: 1,
            answers: Vec::new(),
            shift: 0,
        };
        workload.reshape(shape)?;
        Ok(workload)
    }

    /// Generates relations of another shape in the same memory.
    ///
    /// # Errors
    /// [`DeviceError::Range`] if they do not fit, or keys have another width; those of [`Workload::new`].
    pub fn reshape(&mut self, shape: Shape) -> Result<()> {
        let word_bytes = u64::from(self.shape.word_bytes);
        for (rows, columns) in [(shape.build_rows(), &self.build), (shape.probe_rows, &self.probe)] {
            let (end, len) = (rows * u64::from(shape.word_bytes), columns.keys.len() as u64);
            if end > len || u64::from(shape.word_bytes) != word_bytes {
                return Err(DeviceError::Range {
                    what: "bytes of a column in its memory",
                    start: 0,
                    end,
                    len,
                });
            }
        }
        let rows = shape.probe_rows as usize;
        self.shape = shape;
        self.generated = shape.probe_rows;
        self.permutation = Permutation::new(shape.domain, self.seed);
        self.zipf = (shape.zipf > 0.0).then(|| Zipf::new(shape.domain, shape.zipf));
        self.piece = rows.div_ceil(RENEWED).clamp(1, PIECE);
        self.answers = vec![Answer::default(); rows.div_ceil(self.piece)];
        match shape.word_bytes {
            8 => self.generate::<u64>(),
            _ => self.generate::<u32>(),
        }
    }

    /// Uses only the first rows of S: at most all of them, in whole pieces unless all are used.
    pub fn use_probe_rows(&mut self, rows: u64) {
        self.shape.probe_rows = match rows >= self.generated {
            true => self.generated,
            false => (rows / self.piece as u64).max(1) * self.piece as u64,
        };
    }

    fn generate<W: Word>(&mut self) -> Result<()> {
        let (permutation, rows) = (self.permutation, self.shape.build_rows() as usize);
        let (keys, _) = self.build.words_mut::<W>()?;
        let pieces = keys[..rows].par_chunks_mut(PIECE).enumerate();
        pieces.for_each(|(piece, keys)| {
            for (row, key) in keys.iter_mut().enumerate() {
                *key = W::narrow(permutation.at((piece * PIECE + row) as u64));
            }
        });
        self.shift_payloads::<W>(0)?;
        self.generate_probe::<W>(|_| true, 0)
    }

    /// Writes R's payloads.
    fn shift_payloads<W: Word>(&mut self, shift: u64) -> Result<()> {
        self.shift = shift;
        let rows = self.shape.build_rows() as usize;
        let (keys, payloads) = self.build.words_mut::<W>()?;
        let pieces = payloads[..rows]
            .par_chunks_mut(PIECE)
            .zip(keys[..rows].par_chunks(PIECE));
        pieces.for_each(|(payloads, keys)| {
            for (payload, key) in payloads.iter_mut().zip(keys) {
                *payload = W::narrow(build_payload::<W>(key.wide()).wrapping_add(shift));
            }
        });
        Ok(())
    }

    /// Writes pieces of S, and their answers.
    fn generate_probe<W: Word>(&mut self, chosen: impl Fn(usize) -> bool + Sync, run: u64) -> Result<()> {
        let (permutation, zipf, piece) = (self.permutation, self.zipf, self.piece);
        let (domain, build_rows) = (self.shape.domain, self.shape.build_rows());
        let seed = mix64(self.seed ^ run << 32);
        let mut answers = std::mem::take(&mut self.answers);
        let (rows, words) = (self.generated as usize, self.probe.words_mut::<W>());
        let outcome = words.map(|(keys, payloads)| {
            let (keys, payloads) = (&mut keys[..rows], &mut payloads[..rows]);
            let pieces = keys.par_chunks_mut(piece).zip(payloads.par_chunks_mut(piece));
            let pieces = pieces
                .zip(&mut answers)
                .enumerate()
                .filter(|(index, _)| chosen(*index));
            pieces.for_each(|(index, ((keys, payloads), answer))| {
                *answer = Answer::default();
                for (row, (key, payload)) in keys.iter_mut().zip(payloads).enumerate() {
                    let random = mix64(seed.wrapping_add((index * piece + row) as u64));
                    let drawn = match &zipf {
                        None => ((u128::from(random) * u128::from(domain)) >> 64) as u64,
                        Some(zipf) => zipf.draw(random),
                    };
                    let found = permutation.at(drawn);
                    *key = W::narrow(found);
                    *payload = W::narrow(random.rotate_left(32));
                    if drawn < build_rows {
                        let both = build_payload::<W>(found).wrapping_add(payload.wide());
                        *answer = answer.and(Answer {
                            sum: both,
                            matches: 1,
                        });
                    }
                }
            });
        });
        self.answers = answers;
        outcome
    }

    /// Changes the inputs for the run with this number.
    ///
    /// # Errors
    /// [`DeviceError::HostMemoryShared`] if a view of the columns is still held.
    pub fn renew(&mut self, run: usize) -> Result<()> {
        // Payloads of 4 bytes stay below 2^32.
        let shift = mix64(self.seed.wrapping_add(run as u64)) >> 34;
        let chosen = |piece: usize| piece % RENEWED == run % RENEWED;
        match self.shape.word_bytes {
            8 => {
                self.shift_payloads::<u64>(shift)?;
                self.generate_probe::<u64>(chosen, run as u64)
            }
            _ => {
                self.shift_payloads::<u32>(shift)?;
                self.generate_probe::<u32>(chosen, run as u64)
            }
        }
    }

    /// The answer of the join.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let used = (self.shape.probe_rows as usize).div_ceil(self.piece);
        let answers = self.answers.iter().take(used);
        let all = answers.fold(Answer::default(), |all, part| all.and(*part));
        Answer {
            sum: all.sum.wrapping_add(all.matches.wrapping_mul(self.shift)),
            matches: all.matches,
        }
    }

    /// The shape, with the used rows of S.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Tuples of both relations.
    #[must_use]
    pub fn tuples(&self) -> u64 {
        self.shape.build_rows() + self.shape.probe_rows
    }

    /// R, for kernels that read it in place.
    #[must_use]
    pub fn build_in_place(&self) -> JoinRows {
        let [keys, payloads] = self.build.addresses;
        JoinRows {
            keys,
            payloads,
            rows: self.shape.build_rows(),
        }
    }

    /// S, for kernels that read it in place.
    #[must_use]
    pub fn probe_in_place(&self) -> JoinRows {
        let [keys, payloads] = self.probe.addresses;
        JoinRows {
            keys,
            payloads,
            rows: self.shape.probe_rows,
        }
    }

    /// The bytes of the keys and payloads of R, then of S.
    pub(super) fn columns(&self) -> [&[u8]; 4] {
        let bytes = |rows: u64| rows as usize * self.shape.word_bytes as usize;
        let (build, probe) = (..bytes(self.shape.build_rows()), ..bytes(self.shape.probe_rows));
        [
            &self.build.keys.as_slice()[build],
            &self.build.payloads.as_slice()[build],
            &self.probe.keys.as_slice()[probe],
            &self.probe.payloads.as_slice()[probe],
        ]
    }

    /// A part of a column: the keys (0) or payloads (1) of R (0) or S (1).
    ///
    /// # Errors
    /// [`DeviceError::Range`] if the column is shorter.
    pub(super) fn view(&self, relation: usize, column: usize, bytes: Range<usize>) -> Result<HostView> {
        let relation = if relation == 0 { &self.build } else { &self.probe };
        let memory = if column == 0 {
            &relation.keys
        } else {
            &relation.payloads
        };
        HostView::new(Arc::clone(memory), bytes.start, bytes.len())
    }

    /// Keys and payloads of R, then of S, as 64-bit words.
    #[must_use]
    pub fn values(&self) -> [(Vec<u64>, Vec<u64>); 2] {
        fn wide<W: Word>((keys, payloads): (&[W], &[W])) -> (Vec<u64>, Vec<u64>) {
            let wide = |words: &[W]| words.iter().map(|word| word.wide()).collect();
            (wide(keys), wide(payloads))
        }
        match self.shape.word_bytes {
            8 => [wide(self.build_words::<u64>()), wide(self.probe_words::<u64>())],
            _ => [wide(self.build_words::<u32>()), wide(self.probe_words::<u32>())],
        }
    }

    /// Keys and payloads of R.
    pub(super) fn build_words<W: Word>(&self) -> (&[W], &[W]) {
        words(&self.build, self.shape.build_rows())
    }

    /// Keys and payloads of S.
    pub(super) fn probe_words<W: Word>(&self) -> (&[W], &[W]) {
        words(&self.probe, self.shape.probe_rows)
    }
}

fn words<W: Word>(columns: &Columns, rows: u64) -> (&[W], &[W]) {
    let rows = rows as usize;
    (
        &bytemuck::cast_slice(columns.keys.as_slice())[..rows],
        &bytemuck::cast_slice(columns.payloads.as_slice())[..rows],
    )
}

/// The payload of a row of R without `shift`: below 2^30 if it has 4 bytes.
fn build_payload<W: Word>(key: u64) -> u64 {
    let random = mix64(BUILD_SEED ^ key);
    if size_of::<W>() == 8 { random } else { random >> 34 }
}
