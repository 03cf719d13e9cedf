// Grid scope: rows in the order of a window, and the arrays from which functions are computed at any of them.
//
//   place                0   1   2   3   4   5      position in the order: partitions are contiguous
//   ids                  7   2   9   4   1   3      the stored row at the position
//   partitions       0   1   1   1   2   2   2      partitions that begin before the position
//   partition starts     0           3           6  the first position of each, and the number of rows
//   peers, peer starts                              the same for peers (rows equal in the order)
//
// Ranks are differences of these numbers. An aggregate of a frame is a difference of two prefix sums, or is
// folded from a tree with nodes that hold WINDOW_FAN of those below.
#pragma once

#include "galatea/aggregate.cuh"
#include "galatea/thread.cuh"

namespace galatea {

// Words of the directory of windows; host twin: `WindowWord` of crates/expression/src/windows.rs.
constexpr u32 WINDOW_ROWS = 0;
constexpr u32 WINDOW_IDS = 1; // null: rows are stored in order
constexpr u32 WINDOW_PARTITIONS = 2;
constexpr u32 WINDOW_PARTITION_STARTS = 3;
constexpr u32 WINDOW_PEERS = 4;
constexpr u32 WINDOW_PEER_STARTS = 5;

// Number of children of a tree node.
constexpr u32 WINDOW_FAN = 16;

// A position of the order.
struct WindowPlace {
    u32 place;
    u32 row;   // the stored row at the position
    u32 begin; // of its partition
    u32 end;
    u32 peer; // index of its peer group among all
    u32 peers_begin;
    u32 peers_end;
    u32 first_peer; // index of the first peer group of the partition
    u32 end_peer;   // index of the last one, plus one
};

// The positions of a frame: from `begin` to before `end`.
struct WindowFrame {
    u32 begin;
    u32 end;
    GALATEA_INLINE u32 rows() const { return end - begin; }
};

GALATEA_INLINE const u64* window_directory(const u8* table) { return reinterpret_cast<const u64*>(table); }
template <typename T> GALATEA_INLINE const T* window_part(const u8* table, u32 word) {
    return reinterpret_cast<const T*>(window_directory(table)[word]);
}

// The stored row at a position.
GALATEA_INLINE u32 window_row(const u8* table, u32 place) {
    const u32* const ids = window_part<u32>(table, WINDOW_IDS);
    return ids == nullptr ? place : ids[place];
}

// Unused fields are not loaded.
GALATEA_INLINE WindowPlace window_place(const u8* table, u32 place) {
    const u32* const partitions = window_part<u32>(table, WINDOW_PARTITIONS);
    const u32* const partition_starts = window_part<u32>(table, WINDOW_PARTITION_STARTS);
    const u32* const peers = window_part<u32>(table, WINDOW_PEERS);
    const u32* const peer_starts = window_part<u32>(table, WINDOW_PEER_STARTS);
    WindowPlace at;
    at.place = place;
    at.row = window_row(table, place);
    const u32 partition = partitions[place + 1] - 1;
    at.begin = partition_starts[partition];
    at.end = partition_starts[partition + 1];
    at.peer = peers[place + 1] - 1;
    at.peers_begin = peer_starts[at.peer];
    at.peers_end = peer_starts[at.peer + 1];
    at.first_peer = peers[at.begin];
    at.end_peer = peers[at.end];
    return at;
}

// The bucket of NTILE(n): if the number of rows is not divisible, the first buckets have one row more.
GALATEA_INLINE u64 window_tile(const WindowPlace& at, u64 tiles) {
    const u64 rows = at.end - at.begin;
    const u64 row = at.place - at.begin;
    const u64 least = rows / tiles;
    const u64 more = rows % tiles * (least + 1);
    return row < more ? row / (least + 1) + 1 : rows % tiles + (row - more) / least + 1;
}

GALATEA_INLINE double window_percent_rank(const WindowPlace& at) {
    const u32 others = at.end - at.begin - 1;
    return others == 0 ? 0.0 : double(at.peers_begin - at.begin) / double(others);
}

GALATEA_INLINE double window_cume_dist(const WindowPlace& at) {
    return double(at.peers_end - at.begin) / double(at.end - at.begin);
}

// The frame between two positions, which may be empty.
GALATEA_INLINE WindowFrame window_frame(u32 begin, u32 end) { return {begin, end < begin ? begin : end}; }

// ROWS: the position `rows` before or after the current one, within the partition.
GALATEA_INLINE u32 window_before(const WindowPlace& at, u64 rows) {
    return u64(at.place - at.begin) > rows ? at.place - u32(rows) : at.begin;
}
GALATEA_INLINE u32 window_behind(const WindowPlace& at, u64 rows) {
    return u64(at.end - at.place) > rows ? at.place + u32(rows) : at.end;
}
// One after that position: the end of a frame that includes it as the last row.
GALATEA_INLINE u32 window_end_before(const WindowPlace& at, u64 rows) {
    return u64(at.place - at.begin) >= rows ? at.place - u32(rows) + 1 : at.begin;
}
GALATEA_INLINE u32 window_end_behind(const WindowPlace& at, u64 rows) {
    return u64(at.end - at.place) > rows ? at.place + u32(rows) + 1 : at.end;
}

// GROUPS: the start of the peer group `groups` before or after the current one, within the partition.
GALATEA_INLINE u32 window_groups_before(const u8* table, const WindowPlace& at, u64 groups) {
    return u64(at.peer - at.first_peer) > groups ? window_part<u32>(table, WINDOW_PEER_STARTS)[at.peer - u32(groups)]
                                                 : at.begin;
}
GALATEA_INLINE u32 window_groups_behind(const u8* table, const WindowPlace& at, u64 groups) {
    return u64(at.end_peer - at.peer) > groups ? window_part<u32>(table, WINDOW_PEER_STARTS)[at.peer + u32(groups)]
                                               : at.end;
}
GALATEA_INLINE u32 window_groups_end_before(const u8* table, const WindowPlace& at, u64 groups) {
    return u64(at.peer - at.first_peer) >= groups
               ? window_part<u32>(table, WINDOW_PEER_STARTS)[at.peer - u32(groups) + 1]
               : at.begin;
}

// RANGE: the first position of the partition with a key that is not before `bound`, or with `past`, that is
// after it. Keys between `low` and `high` ascend, or descend.
template <typename Key, typename Bound>
GALATEA_INLINE u32 window_search(u32 low, u32 high, Bound bound, bool descending, bool past, Key key) {
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        const Bound value = key(middle);
        const bool before = descending ? value > bound : value < bound;
        if (before || (past && value == bound)) low = middle + 1;
        else high = middle;
    }
    return low;
}

// The position of the non-NULL value that has `before` non-NULL values before it, by the counts at each
// position: between `low` and `high`, if it exists.
GALATEA_INLINE u32 window_value(const u8* table, u32 word, u32 low, u32 high, u32 before) {
    const u32* const counts = window_part<u32>(table, word);
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        if (counts[middle + 1] <= before) low = middle + 1;
        else high = middle;
    }
    return low;
}

// The fold of the values at positions from `begin` to before `end`, by a tree over `rows` values: complete
// nodes are used if possible.
template <typename T, typename Op> GALATEA_NOINLINE T window_fold(const u8* table, u32 word, WindowFrame frame, Op op) {
    const T* level = window_part<T>(table, word);
    u64 size = window_directory(table)[WINDOW_ROWS];
    u64 begin = frame.begin;
    u64 end = frame.end;
    T left = op.template identity<T>();
    T right = op.template identity<T>();
    while (begin < end) {
        for (; begin < end && begin % WINDOW_FAN != 0; ++begin) left = op(left, level[begin]);
        for (; begin < end && end % WINDOW_FAN != 0; --end) right = op(level[end - 1], right);
        begin /= WINDOW_FAN;
        end /= WINDOW_FAN;
        level += size;
        size = (size + WINDOW_FAN - 1) / WINDOW_FAN;
    }
    return op(left, right);
}

// Converts a rank of aggregate.cuh or window_values.cu back to its value.
GALATEA_INLINE i64 window_ranked_i64(u64 rank) { return i64(rank ^ (1ull << 63)); }
GALATEA_INLINE double window_ranked_f64(u64 rank) {
    return __longlong_as_double(i64((rank >> 63) != 0 ? rank ^ (1ull << 63) : ~rank));
}
GALATEA_INLINE i128 window_ranked_i128(u128 rank) { return i128(rank ^ (u128(1) << 127)); }

}  // namespace galatea
