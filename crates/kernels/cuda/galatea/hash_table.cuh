// Grid scope: the group hash table in global memory, open addressing with linear probing.
//
// A slot is `SlotWords` 64-bit words: the key words, then the accumulator words. Two forms:
// - one key word: the key itself claims the slot by compare-and-swap; zero, an empty slot, is not a key.
// - several key words: word 0 is the state (0 empty, 1 being written, 2 ready), the keys follow.
// Nothing is ever removed. The table never fills while a launch runs: blocks stop taking units once the groups
// reach `limit`, and limit + (rows of all units in flight) <= capacity. The host then grows it and resumes.
#pragma once
#include "galatea/prelude.cuh"

namespace galatea {

// Thread scope. The finaliser of MurmurHash3, a bijection on 64 bits.
GALATEA_INLINE u64 hash_word(u64 x) {
#ifdef GALATEA_COLLIDE
    return 0;
#else
    x ^= x >> 33; x *= 0xff51afd7ed558ccdull;
    x ^= x >> 33; x *= 0xc4ceb9fe1a85ec53ull;
    x ^= x >> 33;
    return x;
#endif
}

// Thread scope. The hash of key words 0..i, given that of words 0..i-1.
GALATEA_INLINE u64 hash_next(u64 hash, u64 word, u32 i) {
    return hash_word(hash ^ (word + 0x9e3779b97f4a7c15ull * u64(i)));
}

// Thread scope. The bits of a float that is a group key: zeros of both signs are one group.
GALATEA_INLINE u64 float_group(double v) { return v == 0.0 ? 0 : u64(__double_as_longlong(v)); }

template <int KeyWords, int SlotWords> struct GroupTable {
    u64* slots;
    u64 mask;
    u64* groups;

    // Thread scope. The accumulator words of the group `key`, inserted when absent.
    GALATEA_INLINE u64* find_or_insert(const u64 (&key)[KeyWords]) const {
        u64 hash = hash_word(key[0]);
#pragma unroll
        for (int i = 1; i < KeyWords; ++i) hash = hash_next(hash, key[i], i);
        for (u64 at = hash & mask;; at = (at + 1) & mask) {
            u64* slot = slots + at * SlotWords;
            if (KeyWords == 1) {
                u64 found = *reinterpret_cast<volatile u64*>(slot);
                if (found == key[0]) return slot + 1;
                if (found == 0ull) {
                    found = atomicCAS(slot, 0ull,
                                      key[0]);
                    if (found == 0ull) { atomicAdd(groups, 1ull); return slot + 1; }
                    if (found == key[0]) return slot + 1;
                }
            } else {
                u64 state = *reinterpret_cast<volatile u64*>(slot);
                if (state == 0) {
                    state = atomicCAS(slot, 0ull, 1ull);
                    if (state == 0) {
#pragma unroll
                        for (int i = 0; i < KeyWords; ++i) reinterpret_cast<volatile u64*>(slot)[1 + i] = key[i];
                        __threadfence();
                        atomicExch(slot, 2ull);
                        atomicAdd(groups, 1ull);
                        return slot + 1 + KeyWords;
                    }
                }
                while (state == 1) state = atomicAdd(slot, 0ull);
                __threadfence();
                bool equal = true;
#pragma unroll
                for (int i = 0; i < KeyWords; ++i) equal = equal && reinterpret_cast<volatile u64*>(slot)[1 + i] == key[i];
                if (equal) return slot + 1 + KeyWords;
            }
        }
    }
};

}  // namespace galatea
