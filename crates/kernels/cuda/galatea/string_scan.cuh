// Warp scope: finds the rows of a string column that contain a substring, by reading the bytes of a warp's
// rows as one stream, whatever the rows' lengths: lanes load consecutive 16 bytes, whereas lanes that read
// their own rows would be a row's length apart.
#pragma once
#include "galatea/strings.cuh"

namespace galatea {

// Leading bytes of a substring that are compared at every position; shorter substrings match at so many
// positions that each lane searches its own rows instead.
constexpr u32 SCANNED_BYTES = 4;

// The last row in [first, last) with a string that begins at or before `place`.
template <typename O> GALATEA_NOINLINE u32 row_of_byte(const O* at, u32 first, u32 last, u64 place) {
    while (last - first > 1) {
        const u32 middle = first + (last - first) / 2;
        if (u64(__ldg(at + middle)) <= place) first = middle;
        else last = middle;
    }
    return first;
}

// A bit for each of the V rows from `row` on, which follow those of the previous lane: whether the row is
// before `end` and its string contains `part`. Called by all lanes.
template <typename O, int V>
GALATEA_NOINLINE u32 rows_with_part(const u8* offsets, const u8* bytes, u32 row, u32 end, Text part) {
    constexpr u32 all = 0xffffffffu, rows = 32u * V;
    const u32 lane = threadIdx.x & 31u, first = row - lane * V;
    if (first >= end) return 0;
    const u32 last = end - first < rows ? end : first + rows;
    u32 found = 0;
    if (part.length < SCANNED_BYTES) {
        for (u32 i = 0; i < V && row + i < last; ++i) {
            if (string_contains(string_at<O>(offsets, bytes, row + i, end), part)) found |= 1u << i;
        }
        return found;
    }
    const O* const at = reinterpret_cast<const O*>(offsets);
    const u64 begin = u64(__ldg(at + first)), stop = u64(__ldg(at + last));
    const u32 head = u32(part.data[0]) | u32(part.data[1]) << 8 | u32(part.data[2]) << 16 | u32(part.data[3]) << 24;
    // Units begin at addresses that are multiples of 16; columns are padded, so the last unit is inside the
    // allocation.
    const u64 skipped = reinterpret_cast<u64>(bytes + begin) & 15u;
    const u8* const base = bytes + begin - skipped;
    const u64 length = stop - begin + skipped;
    const uint4 none = make_uint4(0, 0, 0, 0);
    const auto load = [&](u64 unit) { return unit < length ? __ldg(reinterpret_cast<const uint4*>(base + unit)) : none; };
    uint4 next = load(lane * 16u);
    for (u64 from = 0; from < length; from += 512) {
        const u64 unit = from + lane * 16u;
        const uint4 own = next;
        next = load(unit + 512);
        u32 behind = __shfl_down_sync(all, own.x, 1);
        const u32 following = __shfl_sync(all, next.x, 0);
        if (lane == 31u) behind = following;
        const u32 words[5] = {own.x, own.y, own.z, own.w, behind};
        u32 places = 0;
#pragma unroll
        for (u32 j = 0; j < 16; ++j) {
            const u32 word = j % 4 == 0 ? words[j / 4] : __funnelshift_r(words[j / 4], words[j / 4 + 1], 8 * (j % 4));
            places |= u32(word == head) << j;
        }
        // A lane may have several candidates, and their rows belong to other lanes.
        while (__any_sync(all, places != 0)) {
            u32 hit = rows;
            if (places != 0) {
                const u64 place = begin - skipped + unit + (__ffs(places) - 1);
                places &= places - 1;
                const bool inside = place >= begin && place + part.length <= stop;
                if (inside && bytes_equal(bytes + place + 4, part.data + 4, part.length - 4)) {
                    const u32 with = row_of_byte(at, first, last, place);
                    if (place + part.length <= u64(__ldg(at + with + 1))) hit = with - first;
                }
            }
            for (u32 lanes = __ballot_sync(all, hit < rows); lanes != 0; lanes &= lanes - 1) {
                const u32 of = __shfl_sync(all, hit, __ffs(lanes) - 1);
                if (of / V == lane) found |= 1u << (of % V);
            }
        }
    }
    return found;
}

}  // namespace galatea
