//! Case mapping tables for kernels.
//!
//! The mapping is that of Rust's standard library, which DataFusion uses; the table contains the bytes of the
//! replacement. Only the lower case of the Greek sigma depends on the surrounding characters. It has a
//! special entry, and its rows are left to the CPU. Device twin: `CaseMapped` in
//! `galatea/computed_string.cuh`.

use std::sync::{Arc, LazyLock};

/// Number of characters per page.
const PAGE: u32 = 256;
/// Number of pages for all characters.
const PAGES: u32 = 0x11_0000 / PAGE;
/// Entry of a character with a context-dependent lower case.
const DEPENDS: u64 = u64::MAX;

/// The target case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LetterCase {
    Upper,
    Lower,
}

impl LetterCase {
    /// The table: for each 256 characters a 16-bit page number, 0 if none of them changes; then the pages
    /// from number 1 on, with a 64-bit entry for each character.
    pub(crate) fn table(self) -> Arc<[u8]> {
        static UPPER: LazyLock<Arc<[u8]>> = LazyLock::new(|| table(&|c| entry(c, c.to_uppercase())));
        static LOWER: LazyLock<Arc<[u8]>> = LazyLock::new(|| {
            table(&|c| match c {
                'Σ' => DEPENDS,
                c => entry(c, c.to_lowercase()),
            })
        });
        Arc::clone(match self {
            Self::Upper => &UPPER,
            Self::Lower => &LOWER,
        })
    }

    /// The first ASCII letter that changes.
    pub(crate) fn first_letter(self) -> u8 {
        match self {
            Self::Upper => b'a',
            Self::Lower => b'A',
        }
    }
}

/// The UTF-8 bytes of the replacement, the first one lowest; 0 if the character does not change.
fn entry(character: char, other: impl Iterator<Item = char>) -> u64 {
    let other: String = other.collect();
    if other.chars().eq([character]) {
        return 0;
    }
    let mut word = [0; 8];
    word[..other.len()].copy_from_slice(other.as_bytes());
    u64::from_le_bytes(word)
}

fn table(entry: &dyn Fn(char) -> u64) -> Arc<[u8]> {
    let mut numbers: Vec<u8> = Vec::new();
    let mut pages: Vec<u8> = Vec::new();
    let mut count = 0u16;
    for page in 0..PAGES {
        let entries: Vec<u64> = (page * PAGE..(page + 1) * PAGE)
            .map(|point| char::from_u32(point).map_or(0, entry))
            .collect();
        let changes = entries.iter().any(|entry| *entry != 0);
        if changes {
            count += 1;
            pages.extend(entries.iter().flat_map(|entry| entry.to_le_bytes()));
        }
        numbers.extend(if changes { count } else { 0 }.to_le_bytes());
    }
    numbers.extend(pages);
    numbers.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of a kernel's lookup for a character.
    fn mapped(table: &[u8], character: char) -> String {
        let point = character as usize;
        let page = u16::from_le_bytes([table[2 * (point >> 8)], table[2 * (point >> 8) + 1]]) as usize;
        if page == 0 {
            return character.to_string();
        }
        let at = 2 * PAGES as usize + 8 * ((page - 1) * PAGE as usize + (point & 0xff));
        match &table[at..at + 8] {
            [0, ..] => character.to_string(),
            bytes => {
                let used = bytes.iter().take_while(|byte| **byte != 0).count();
                String::from_utf8(bytes[..used].to_vec()).expect("UTF-8")
            }
        }
    }

    #[test]
    fn case_mapping_matches_the_standard_library() {
        let (upper, lower) = (LetterCase::Upper.table(), LetterCase::Lower.table());
        for character in (0..0x11_0000).filter_map(char::from_u32) {
            let text = character.to_string();
            assert_eq!(mapped(&upper, character), text.to_uppercase(), "{character:?}");
            if character != 'Σ' {
                assert_eq!(mapped(&lower, character), text.to_lowercase(), "{character:?}");
            }
        }
    }
}
