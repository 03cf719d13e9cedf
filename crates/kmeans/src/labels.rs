//! Labels in the narrowest width for the number of clusters.

use galatea_kernels::kmeans::LabelWidth;
use rayon::prelude::*;

/// A label for each point, in the order of points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    width: LabelWidth,
    bytes: Vec<u8>,
}

impl Labels {
    /// Empty labels, in the width for this number of clusters.
    pub(crate) fn new(clusters: u32) -> Self {
        Self {
            width: LabelWidth::of(clusters),
            bytes: Vec::new(),
        }
    }

    /// Labels from their bytes, in the machine's byte order.
    #[must_use]
    pub fn of_bytes(width: LabelWidth, bytes: Vec<u8>) -> Self {
        Self { width, bytes }
    }

    /// The label of a point.
    ///
    /// # Panics
    /// If the point's number is not below [`Self::len`].
    #[must_use]
    pub fn get(&self, point: usize) -> u32 {
        let width = self.width.bytes();
        let mut word = [0; 4];
        word[..width].copy_from_slice(&self.bytes[point * width..][..width]);
        u32::from_ne_bytes(word)
    }

    /// Bytes of a label.
    #[must_use]
    pub fn width(&self) -> LabelWidth {
        self.width
    }

    /// The labels' bytes, in the machine's byte order.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a label.
    pub(crate) fn push(&mut self, label: u32) {
        self.bytes
            .extend_from_slice(&label.to_ne_bytes()[..self.width.bytes()]);
    }

    /// Number of labels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / self.width.bytes()
    }

    /// Whether it has no labels.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The labels as words, converted by all threads.
    pub(crate) fn widen(&self) -> Vec<u32> {
        const TASK: usize = 1 << 15;
        let mut words = vec![0u32; self.len()];
        let tasks = words.par_chunks_mut(TASK);
        tasks
            .zip(self.bytes.par_chunks(TASK * self.width.bytes()))
            .for_each(|(words, bytes)| match self.width {
                LabelWidth::One => {
                    for (word, byte) in words.iter_mut().zip(bytes) {
                        *word = u32::from(*byte);
                    }
                }
                LabelWidth::Two => {
                    for (word, two) in words.iter_mut().zip(bytes.as_chunks::<2>().0) {
                        *word = u32::from(u16::from_ne_bytes(*two));
                    }
                }
                LabelWidth::Four => {
                    for (word, four) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
                        *word = u32::from_ne_bytes(*four);
                    }
                }
            });
        words
    }

    /// Iterates over the labels.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        let width = self.width.bytes();
        self.bytes.chunks_exact(width).map(move |bytes| {
            let mut word = [0; 4];
            word[..width].copy_from_slice(bytes);
            u32::from_ne_bytes(word)
        })
    }
}
