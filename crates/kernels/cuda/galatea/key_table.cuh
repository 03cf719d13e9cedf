// Grid scope: the keys of a build side, each in the slot given by its row index: open addressing with linear
// probing. A slot holds the key plus one, or 0 if it is free. A table is searched only if it has a free slot,
// so every search ends. An insertion into a table without one ends after all slots.
#pragma once

#include "galatea/arithmetic.cuh"
#include "galatea/hash_table.cuh"
#include "galatea/prelude.cuh"

namespace galatea {

constexpr u32 NO_SLOT = ~0u;

// Thread scope. The first slot probed for a key: the high bits of its hash, so that keys with hashes of equal
// high bits are next to each other in tables of any size. `mask` is not 0.
GALATEA_INLINE u64 key_table_home(u64 mask, u64 key) { return hash_word(key) >> __clzll(i64(mask)); }

// Thread scope. The slot of a key, which is inserted if absent; `inserted` counts the keys that were new.
// NO_SLOT, with the error `full`, if all slots have other keys.
GALATEA_INLINE u32 key_table_insert(u64* slots, u64 mask, u64 key, u32& inserted, u32* error, u32 full) {
    const u64 home = key_table_home(mask, key);
    for (u64 probes = 0; probes <= mask; ++probes) {
        const u64 at = (home + probes) & mask;
        u64 found = *reinterpret_cast<volatile u64*>(slots + at);
        if (found == 0) {
            found = atomicCAS(reinterpret_cast<unsigned long long*>(slots + at), 0ull, key + 1);
            if (found == 0) {
                ++inserted;
                return u32(at);
            }
        }
        if (found == key + 1) return u32(at);
    }
    galatea_raise(error, full);
    return NO_SLOT;
}

// Thread scope. The slot of a key; NO_SLOT if it is absent.
GALATEA_INLINE u32 key_table_find(const u64* slots, u64 mask, u64 key) {
    for (u64 at = key_table_home(mask, key);; at = (at + 1) & mask) {
        const u64 found = __ldg(reinterpret_cast<const unsigned long long*>(slots + at));
        if (found == key + 1) return u32(at);
        if (found == 0) return NO_SLOT;
    }
}

}  // namespace galatea
