//! Sorts by strings without a dictionary. While rows are scanned, the words of their order contain the places
//! of strings, which distinguish strings. Before rows are sorted, each distinct string is ranked, and ranks
//! replace the places:
//!
//! ```text
//! slots of the table ── places of the strings ── merge sort by their bytes ── rank by place ── words of the order
//! ```
//!
//! A string that many rows have is compared once for all of them, and rows are sorted by integers as usual.

use crate::device::RunError;
use crate::rows::columns::Allocator;
use crate::string::interned::InternedStrings;
use galatea_device::{In, InOut, Out};
use galatea_expression::OrderedString;
use galatea_kernels::{CollectGroups, GroupEntries, KeyWidth, PlaceField, RankKeys, StringRanks, StringSort};
use galatea_memory::KeyWord;

/// Replaces the places of `texts` in the words of an order by ranks, in the keys of `rows` rows; `fields`
/// have the numbers of their words.
pub(crate) fn rank_strings(
    allocator: &Allocator<'_>,
    texts: &InternedStrings,
    words: &mut [KeyWord<'_>],
    fields: &[(usize, OrderedString)],
    rows: usize,
) -> Result<(), RunError> {
    let Allocator { runtime, stream, .. } = *allocator;
    if fields.is_empty() || rows == 0 {
        return Ok(());
    }
    let size = texts.size(stream)?;
    // All strings are NULL.
    if size.texts == 0 {
        return Ok(());
    }
    let device = runtime.device();
    let count = size.texts as usize;
    let mut places = allocator.zeroed::<u64>(size.texts)?;
    let mut used = allocator.zeroed::<u64>(1)?;
    // A slot is an entry of one word, which is 0 if the slot is free.
    let slot = GroupEntries {
        words: 1,
        marker: 0,
        numbered: false,
    };
    let slots = In(texts.slots()?);
    CollectGroups::new(device)?.launch(stream, slots, Out(&mut *places), InOut(&mut *used), slot)?;

    let sort = StringSort::new(device)?;
    let mut spare = allocator.zeroed::<u64>(size.texts)?;
    let mut width = 0;
    while width == 0 || width < size.texts {
        let (from, to) = (places.slice(..count)?, spare.slice_mut(..count)?);
        sort.launch(stream, In(&**texts.region()), In(from), Out(to), width)?;
        std::mem::swap(&mut places, &mut spare);
        width = (2 * width).max(StringSort::RUN);
    }
    drop(spare);
    let mut ranks = allocator.zeroed::<u32>(size.words)?;
    StringRanks::new(device)?.launch(stream, In(places.slice(..count)?), InOut(&mut *ranks))?;

    let kernel = RankKeys::new(device)?;
    for (word, text) in fields {
        let (above, from_word) = words.split_at_mut(*word);
        let high = above.last_mut().filter(|_| PlaceField::begins_before(text.bit));
        let field = PlaceField {
            low: keys(&mut from_word[0], rows)?,
            high: high.map(|word| keys(word, rows)).transpose()?,
            bit: text.bit,
            descending: text.descending,
        };
        kernel.launch(stream, field, In(&*ranks), size.texts, rows)?;
    }
    Ok(())
}

/// The keys of the rows in a word.
fn keys<'a>(word: &'a mut KeyWord<'_>, rows: usize) -> Result<(KeyWidth, InOut<'a, u8>), RunError> {
    let bytes = ..word.width.bytes() * rows;
    Ok((word.width, InOut(word.values.slice_mut(bytes)?)))
}
