// Columnar frames: pages of 1024 values of one column each, preceded by an index of all pages. The layout is
// described in crates/flow/src/paging.
//
// A warp processes a group of 1024 rows, 32 lines of one row per lane. The candidate rows of a lane are the
// bits of a word, one for each line. Nothing is loaded before it is needed, and all loads are counted.
#pragma once

#include "galatea/flow/work.cuh"
#include "galatea/warp.cuh"

namespace galatea {

constexpr u32 GROUP_ROWS = 1024;
constexpr u32 PAGE_HEADER_WORDS = 16;
constexpr u32 PAGE_ROWS_WORD = 2;
constexpr u32 FILTER_WORDS = 256;
constexpr u32 LINE_BYTES = 128;
constexpr u32 SECTOR_BYTES = 32;

struct PageCondition {
    u32 column;
    u32 negated;
    u32 ranges;
    u32 unused;
    u32 least[6];
    u32 greatest[6];

    GALATEA_INLINE bool holds(u32 value) const {
        bool within = false;
        for (u32 i = 0; i < ranges; ++i) within = within || (least[i] <= value && value <= greatest[i]);
        return within != (negated != 0);
    }
};

enum PageWanted { WANTED_COUNT, WANTED_SUM, WANTED_ROWS };

struct PageQuery {
    u32 condition_count;
    u32 wanted;
    u32 columns[2];
    u32 columnar;
    u32 index;
    u32 unused[2];
    PageCondition conditions[1];  // `condition_count` of them
};

// Counts of the loads of a warp.
struct PageTally {
    u64 bytes;
    u64 pages;
};

// A group of a frame, for one warp.
template <typename Shape> struct PageGroup {
    const u32* frame;
    const PageQuery* query;
    u32 group;
    u32 rows;
    u32 lines_read;  // of row-wise frames: lines of 32 rows that have been read
    PageTally tally;

    GALATEA_INLINE u32 page(u32 column) const { return group * Shape::COLUMNS + column; }

    // Whether, by the index of the condition's page, rows of the group may satisfy the condition; `always`:
    // whether all do.
    GALATEA_INLINE bool may_hold(const PageCondition& condition, bool& always) {
        const u32* bounds = frame + PAGE_HEADER_WORDS + 2 * page(condition.column);
        const u32 least = bounds[0], greatest = bounds[1];
        tally.bytes += SECTOR_BYTES;
        bool overlaps = false, covered = false;
        for (u32 i = 0; i < condition.ranges; ++i) {
            const u32 from = condition.least[i], to = condition.greatest[i];
            if (from > greatest || to < least) continue;
            covered = covered || (from <= least && greatest <= to);
            overlaps = overlaps || from != to || covered || in_filter(condition.column, from);
        }
        always = condition.negated ? !overlaps : covered;
        return condition.negated ? !covered : overlaps;
    }

    // Whether a page may contain a value, by its Bloom filter.
    GALATEA_INLINE bool in_filter(u32 column, u32 value) {
        const u64 hash = mix64(value);
        const u32 block = u32((hash >> 32) * (FILTER_WORDS / 8) >> 32);
        const u32* words = frame + Shape::FILTERS + page(column) * FILTER_WORDS + block * 8;
        tally.bytes += SECTOR_BYTES;
        bool all = true;
        for (u32 word = 0; word < 8; ++word) all = all && (words[word] >> (u32(hash) * Shape::salt(word) >> 27) & 1) != 0;
        return all;
    }

    // This lane's value of a column in a line; only lanes with a candidate load it. `first`: this is the
    // first load of the page.
    GALATEA_INLINE u32 value(u32 column, u32 line, bool candidate, bool& first) {
        const u32 row = line * WARP + lane();
        if (__ballot_sync(0xffffffffu, candidate) == 0) return 0;
        if (query->columnar != 0) {
            tally.pages += first ? 1 : 0;
            tally.bytes += LINE_BYTES;
            first = false;
            const u32* values = frame + Shape::PAGES + page(column) * GROUP_ROWS;
            return candidate ? values[row] : 0;
        }
        if ((lines_read >> line & 1) == 0) tally.bytes += WARP * Shape::COLUMNS * 4;
        tally.pages += lines_read == 0 ? Shape::COLUMNS : 0;
        lines_read |= 1u << line;
        const u32* values = frame + Shape::PAGES + (u64(group) * GROUP_ROWS + row) * Shape::COLUMNS;
        return candidate ? values[column] : 0;
    }
};

// Evaluates a query on the frame: writes, for each group, its count, sum, bytes and pages, and then the rows.
template <typename Shape> GALATEA_INLINE void scan_pages(Work& work, u32 group_bytes) {
    constexpr u32 ALL = 0xffffffffu;
    const u32* frame = work.input<u32>();
    const PageQuery* query = work.parameters<PageQuery>();
    const u32 rows = work.bytes_in == 0 ? 0 : frame[PAGE_ROWS_WORD];
    const u32 groups = (rows + GROUP_ROWS - 1) / GROUP_ROWS;
    if (u64(groups) * group_bytes > work.capacity) {
        work.set_output_bytes(work.capacity + 1);
        return;
    }
    for (u32 number = work.thread() / WARP; number < groups; number += work.warps) {
        PageGroup<Shape> group = {frame, query, number, rows, 0, {0, 0}};
        u32 candidates = 0;  // bit k: this lane's row of line k
        for (u32 line = 0; line < WARP; ++line) {
            candidates |= u32(number * GROUP_ROWS + line * WARP + lane() < rows) << line;
        }
        // The same on all lanes: whether a row may satisfy all conditions, and which conditions all rows
        // satisfy.
        bool possible = true;
        u32 needless = 0;
        for (u32 i = 0; query->index != 0 && i < query->condition_count && possible; ++i) {
            bool always = false;
            possible = group.may_hold(query->conditions[i], always);
            needless |= u32(always) << i;
        }
        if (!possible) candidates = 0;
        for (u32 i = 0; i < query->condition_count; ++i) {
            if (needless >> i & 1) continue;
            const PageCondition& condition = query->conditions[i];
            bool first = true;
#pragma unroll 8
            for (u32 line = 0; line < WARP; ++line) {
                const bool candidate = candidates >> line & 1;
                const u32 value = group.value(condition.column, line, candidate, first);
                if (candidate && !condition.holds(value)) candidates &= ~(1u << line);
            }
        }
        u64* answer = reinterpret_cast<u64*>(work.frame_out + u64(number) * group_bytes);
        u32* out = reinterpret_cast<u32*>(answer + 4);
        u64 count = 0, sum = 0;
        bool first_of[2] = {true, true};
        for (u32 line = 0; line < WARP; ++line) {
            const bool candidate = candidates >> line & 1;
            const u32 among = __ballot_sync(ALL, candidate);
            if (query->wanted == WANTED_SUM) sum += group.value(query->columns[0], line, candidate, first_of[0]);
            if (query->wanted == WANTED_ROWS) {
                const u32 left = group.value(query->columns[0], line, candidate, first_of[0]);
                const u32 right = group.value(query->columns[1], line, candidate, first_of[1]);
                const u64 place = count + __popc(among & lanes_before());
                if (candidate) {
                    out[2 * place] = left;
                    out[2 * place + 1] = right;
                }
            }
            count += __popc(among);
        }
        for (u32 distance = WARP / 2; distance > 0; distance /= 2) sum += __shfl_down_sync(ALL, sum, distance);
        if (lane() == 0) {
            answer[0] = count;
            answer[1] = sum;
            answer[2] = group.tally.bytes;
            answer[3] = group.tally.pages;
        }
    }
    work.set_output_bytes(groups * group_bytes);
}

}  // namespace galatea
