// Arguments of the kernel merge_marks.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct MergeMarksArguments {
    const u8* rows;     // by position, the number of the row: 64-bit integers
    const u32* matches; // a bit by position: whether the row has a match; or the start of its list, ~0: no match
    u32* seen;          // a bit by number of the row: whether an earlier slice had a match; updated
    u32* chosen;        // a bit by position
    u64 count;          // positions
    u64 bits;           // bits of `seen`; rows with greater numbers were added to the table since
    u32 lists;          // 1: `matches` has the starts of lists
    u32 matched;        // 1: rows with their first match are chosen
    u32 unmatched;      // 1: rows without any match so far are chosen
    u32 unused;
};

}  // namespace galatea
