//! Tests of the analyser and of layouts: the paper's numbers, closed forms, recounts by other means, and
//! the emulated device's counters.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod analyse;
mod emulated;
mod frequency;
mod model;
mod slots;

use std::collections::{HashMap, HashSet, VecDeque};

use galatea_layout::AccessPattern;

/// The results of a recount: read rounds, write rounds, words used again within the window, each summed over
/// accesses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Recount {
    accesses: u64,
    banks: u64,
    read: u64,
    write: u64,
    between_warps: u64,
}

/// Counts conflicts directly by the definitions, slowly.
fn recount(words: &[u32], pattern: &dyn AccessPattern, banks: u32, window: usize) -> Recount {
    let mut all = Recount::default();
    for block in 0..pattern.blocks(words.len()) {
        let mut recent: VecDeque<HashSet<u32>> = VecDeque::new();
        for access in 0..pattern.accesses(words.len(), block) {
            let rows = (0..pattern.lanes()).filter_map(|lane| pattern.row(words.len(), block, access, lane));
            let touched: Vec<u32> = rows.map(|row| words[row]).collect();
            if touched.is_empty() {
                continue;
            }
            let mut by_bank: HashMap<u32, Vec<u32>> = HashMap::new();
            for &word in &touched {
                by_bank.entry(word % banks).or_default().push(word);
            }
            let different = |words: &Vec<u32>| words.iter().collect::<HashSet<_>>().len() as u64;
            all.accesses += 1;
            all.banks += by_bank.len() as u64;
            all.write += by_bank.values().map(|words| words.len() as u64).max().unwrap();
            all.read += by_bank.values().map(different).max().unwrap();
            let touched: HashSet<u32> = touched.into_iter().collect();
            let again = touched
                .iter()
                .filter(|&word| recent.iter().any(|words| words.contains(word)));
            all.between_warps += again.count() as u64;
            recent.push_back(touched);
            if recent.len() > window {
                recent.pop_front();
            }
        }
    }
    all
}
