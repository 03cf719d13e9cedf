//! Writing whole cache lines without reading them first.
//!
//! An ordinary store of a line that no cache has loads it from memory before it is changed. A partitioner
//! that writes whole lines to many places does not need the old contents: non-temporal stores (x86-64) write
//! lines directly to memory. They are ordered before later accesses by a fence when the writer is done, so
//! the memory is borrowed exclusively until then.

/// Words of a cache line.
pub const LINE_WORDS: usize = 8;

/// Writes lines and words of exclusively borrowed memory: see [`write_lines`].
#[derive(Debug)]
pub struct LineWriter<'a> {
    words: &'a mut [u64],
    /// Whether the memory is aligned for non-temporal stores.
    aligned: bool,
}

/// Calls `work` with a writer of the words. All written lines are visible when it returns.
pub fn write_lines<R>(words: &mut [u64], work: impl FnOnce(&mut LineWriter<'_>) -> R) -> R {
    /// Orders the stores, even if the work panics.
    struct Fence;
    impl Drop for Fence {
        fn drop(&mut self) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86-64 processor has the instruction, which has no preconditions.
            unsafe {
                std::arch::x86_64::_mm_sfence();
            }
        }
    }
    let _fence = Fence;
    let aligned = (words.as_ptr() as usize).is_multiple_of(8 * LINE_WORDS);
    work(&mut LineWriter { words, aligned })
}

impl LineWriter<'_> {
    /// Writes a line: words `8 * line..8 * line + 8`.
    ///
    /// # Panics
    /// If it is outside of the memory.
    #[inline]
    pub fn line(&mut self, line: usize, values: &[u64; LINE_WORDS]) {
        let target = &mut self.words[line * LINE_WORDS..][..LINE_WORDS];
        if !self.aligned {
            target.copy_from_slice(values);
            return;
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: both arrays have 64 bytes; the target is aligned to 64 bytes. Memory written by
        // non-temporal stores must not be accessed by others before a fence of this thread: the borrow of the
        // memory is exclusive and ends after the fence in `write_lines`. This writer only stores to it.
        unsafe {
            use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
            let (from, to) = (
                values.as_ptr().cast::<__m128i>(),
                target.as_mut_ptr().cast::<__m128i>(),
            );
            for part in 0..4 {
                _mm_stream_si128(to.add(part), _mm_loadu_si128(from.add(part)));
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        target.copy_from_slice(values);
    }

    /// Writes the first `count` words of a line, by ordinary stores.
    ///
    /// # Panics
    /// If they are outside of the memory or of the line.
    pub fn part(&mut self, line: usize, values: &[u64; LINE_WORDS], count: usize) {
        self.words[line * LINE_WORDS..][..count].copy_from_slice(&values[..count]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_parts_are_written_at_any_alignment() {
        let mut words = vec![7_u64; 20 * LINE_WORDS + 1];
        for shift in [0, 1] {
            let words = &mut words[shift..][..20 * LINE_WORDS];
            words.fill(7);
            write_lines(words, |lines| {
                for line in (0..19).rev() {
                    lines.line(line, &std::array::from_fn(|word| (100 * line + word) as u64));
                }
                lines.part(19, &[1; LINE_WORDS], 3);
            });
            for (index, word) in words.iter().enumerate() {
                let expected = match (index / LINE_WORDS, index % LINE_WORDS) {
                    (19, 0..3) => 1,
                    (19, _) => 7,
                    (line, word) => (100 * line + word) as u64,
                };
                assert_eq!(*word, expected);
            }
        }
    }
}
