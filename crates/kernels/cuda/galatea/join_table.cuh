// Thread scope: entries of the hash table of a no-partitioning join (kernels join_build and join_probe).
//
// An entry is a key and a payload of the same width. It is loaded and stored by one instruction. With perfect
// hashing the slot is the key. With linear probing it is a multiply-shift hash of it, and a key of all ones
// marks an empty slot.
#pragma once

#include "galatea/thread.cuh"

namespace galatea {

template <typename Word> struct JoinHash;
template <> struct JoinHash<u64> {
    GALATEA_INLINE static u64 slot(u64 key, u32 bits) { return key * 11400714819323198485ull >> (64 - bits); }
};
template <> struct JoinHash<u32> {
    // At most 32 bits of a hash of 32 bits.
    GALATEA_INLINE static u64 slot(u32 key, u32 bits) { return u64(key * 2654435769u) >> (32 - bits); }
};

template <typename Word> struct JoinTable {
    using Entry = Vector<Word, 2>;
    static constexpr Word EMPTY = ~Word(0);

    // Stores a row in its slot of a table with perfect hashing. A slot outside the table is ignored.
    GALATEA_INLINE static void store(Word* entries, u64 slots, Word key, Word payload) {
        if (key < slots) store_vector<2>(entries, key, Entry{{key, payload}});
    }

    // Inserts a row by linear probing. The payload of 8 bytes is stored after its key, and is therefore
    // visible to later launches only.
    GALATEA_INLINE static void insert(Word* entries, u32 bits, Word key, Word payload) {
        const u64 mask = (u64(1) << bits) - 1;
        for (u64 slot = JoinHash<Word>::slot(key, bits);; slot = (slot + 1) & mask) {
            if constexpr (sizeof(Word) == 8) {
                if (atomicCAS(entries + 2 * slot, EMPTY, key) == EMPTY) {
                    entries[2 * slot + 1] = payload;
                    return;
                }
            } else {
                const u64 entry = u64(payload) << 32 | key;
                u64* const place = reinterpret_cast<u64*>(entries) + slot;
                if (atomicCAS(place, ~u64(0), entry) == ~u64(0)) return;
            }
        }
    }
};

}  // namespace galatea
