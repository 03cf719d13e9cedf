// Grid scope: the group hash table in global memory, open addressing with linear probing.
//
// A slot is `slot_words` 64-bit words: the key words, then the accumulator words. There are two forms:
// - one key word: the key itself claims the slot by compare-and-swap; zero marks an empty slot and is not a
//   key.
// - several key words: word 0 is the state (0 empty, 1 being written, 2 ready), the keys follow.
// Entries are never removed, and the table never has more than `limit` groups: a thread counts a group before
// it inserts it. The caller handles a row if its group has no slot: the hash sink stores it as a partial
// group in a page chain, and hash_merge.cu adds it later.
#pragma once
#include "galatea/prelude.cuh"

namespace galatea {

// Thread scope. The finaliser of MurmurHash3, a bijection on 64 bits.
GALATEA_INLINE u64 hash_word(u64 x) {
    x ^= x >> 33; x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53ull;
    x ^= x >> 33;
    return x;
}

// Thread scope. The hash of key words 0..i, given that of words 0..i-1.
GALATEA_INLINE u64 hash_next(u64 hash, u64 word, u32 i) {
    return hash_word(hash ^ (word + 0x9e3779b97f4a7c15ull * u64(i)));
}

// Thread scope. The bits of a float group key: zeros of both signs form one group, and so do NaNs of all bit
// patterns.
GALATEA_INLINE u64 float_group(double v) {
    return v == 0.0 ? 0 : v != v ? 0x7ff8000000000000ull : u64(__double_as_longlong(v));
}

// If the word counts are constants, they are propagated, and the loops over them unrolled.
struct GroupTable {
    u64* slots;
    u64 capacity;  // slots, a power of two
    u64 limit;     // number of groups at which no new one is inserted; all ones: slots suffice for all
    u64* groups;   // number of groups in the table
    u32 key_words;
    u32 slot_words;
    bool collide;  // every hash is zero, for tests of long probe sequences

    // Words before the accumulators: the keys, and the state if there are several.
    GALATEA_INLINE u32 head() const { return key_words == 1 ? 1 : 1 + key_words; }

    // Thread scope. The accumulator words of the group with key words key[0], key[stride], ..., inserted if
    // absent; nullptr if it is absent and the table is at its limit. A table with a limit counts a group
    // before its insertion; without one, groups are counted in `inserted`, because atomics on one address are
    // serialised.
    GALATEA_INLINE u64* find_or_insert(const u64* key, u32& inserted, u64 stride = 1) const {
        u64 hash = hash_word(key[0]);
#pragma unroll
        for (u32 i = 1; i < key_words; ++i) hash = hash_next(hash, key[i * stride], i);
        const u64 mask = capacity - 1;
        for (u64 at = collide ? 0 : hash & mask;; at = (at + 1) & mask) {
            u64* slot = slots + at * slot_words;
            if (key_words == 1) {
                u64 found = *reinterpret_cast<volatile u64*>(slot);
                if (found == key[0]) return slot + 1;
                if (found == 0) {
                    if (!reserve()) return nullptr;
                    found = atomicCAS(slot, 0ull, key[0]);
                    if (found == 0) { count_one(inserted); return slot + 1; }
                    cancel();
                    if (found == key[0]) return slot + 1;
                }
            } else {
                u64 state = *reinterpret_cast<volatile u64*>(slot);
                if (state == 0) {
                    if (!reserve()) return nullptr;
                    state = atomicCAS(slot, 0ull, 1ull);
                    if (state == 0) {
#pragma unroll
                        for (u32 i = 0; i < key_words; ++i) reinterpret_cast<volatile u64*>(slot)[1 + i] = key[i * stride];
                        __threadfence();
                        atomicExch(slot, 2ull);
                        count_one(inserted);
                        return slot + 1 + key_words;
                    }
                    cancel();
                }
                while (state == 1) state = atomicAdd(slot, 0ull);
                __threadfence();
                bool equal = true;
#pragma unroll
                for (u32 i = 0; i < key_words; ++i) equal = equal && reinterpret_cast<volatile u64*>(slot)[1 + i] == key[i * stride];
                if (equal) return slot + 1 + key_words;
            }
        }
    }

    // Warp scope, full warp. Adds the counts of its lanes.
    GALATEA_INLINE void count(u32 inserted) const {
        inserted = __reduce_add_sync(0xffffffffu, inserted);
        if ((threadIdx.x & 31u) == 0 && inserted != 0) atomicAdd(groups, u64(inserted));
    }

private:
    GALATEA_INLINE bool limited() const { return limit != ~0ull; }
    GALATEA_INLINE bool full() const { return limited() && *reinterpret_cast<volatile u64*>(groups) >= limit; }
    // Counts a group before its insertion; false if the table is at its limit. Most threads only read the
    // number then.
    GALATEA_INLINE bool reserve() const {
        if (!limited()) return true;
        if (full()) return false;
        if (atomicAdd(groups, 1ull) < limit) return true;
        cancel();
        return false;
    }
    // Another thread has taken the slot.
    GALATEA_INLINE void cancel() const {
        if (limited()) atomicAdd(groups, ~0ull);
    }
    GALATEA_INLINE void count_one(u32& inserted) const {
        if (!limited()) ++inserted;
    }
};

// Host twin: galatea_kernels::GroupTableView. A table in the arguments of kernels that fill one between
// launches of a pipeline.
struct GroupTableView {
    u64* slots;
    u64* groups;
    u64 capacity;  // greater than the number of groups
    u32 slot_words;
    u32 key_words;
    u32 collide;
    u32 padding;
};

// Thread scope. The table as a GroupTable without a limit.
GALATEA_INLINE GroupTable group_table(const GroupTableView& view) {
    return GroupTable{view.slots, view.capacity, ~0ull, view.groups, view.key_words, view.slot_words, view.collide != 0};
}

}  // namespace galatea
