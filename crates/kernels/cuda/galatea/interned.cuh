// Grid scope: texts that are keys, each of which device memory has once, at a place of its own: two
// texts are equal where their places are. Places say nothing of the order of texts.
//
//     words  [0, INTERNED_HEAD)    how many words are used, and so on
//            [.., + slots)         a table with open addressing: a part of the hash, and the place; 0: free
//            [.., + words)         from place 1 on: the number of bytes, and the bytes up to the end of a word
//
// A thread whose text is not there writes it first and puts its place into a free slot afterwards, by one
// compare-and-swap: nobody waits for another. Where another thread was faster with the same text, what was
// written is left unused; that happens once for a text and thread at most, and only while the text is new.
// When the memory is full a row raises an error, and the host begins again with more of it.
#pragma once

#include "galatea/hash_table.cuh"
#include "galatea/made_text.cuh"

namespace galatea {

// Words of the head. Host twin: crates/engine/src/execution/interned.rs.
constexpr u32 INTERNED_USED = 0;     // words of texts; the first is none
constexpr u32 INTERNED_WORDS = 1;    // words there are for texts
constexpr u32 INTERNED_SLOTS = 2;    // a power of two
constexpr u32 INTERNED_HELD = 3;     // texts in the table
constexpr u32 INTERNED_LIMIT = 4;    // texts it takes; with a thread's more each, fewer than slots
constexpr u32 INTERNED_COLLIDE = 5;  // 1: every hash is zero, for tests
constexpr u32 INTERNED_HEAD = 8;

constexpr u32 INTERNED_PLACE_BITS = 40;
constexpr u64 INTERNED_PLACE = (1ull << INTERNED_PLACE_BITS) - 1;

// The next bytes of a walk as a word, of which there are `left`.
template <class W> GALATEA_INLINE u64 take_word(W& walk, u64 left) {
    const u32 bytes = left < 8 ? u32(left) : 8;
    u64 word = 0;
    for (u32 at = 0; at < bytes; ++at) word |= u64(walk.take()) << 8 * at;
    return word;
}

// Thread scope. Writes a text down; its place, or 0 where there is none.
template <class T> GALATEA_NOINLINE u64 write_interned(u64* head, u64* texts, const T& text) {
    const u64 length = text_length(text), words = 1 + (length + 7) / 8;
    const u64 place = atomicAdd(head + INTERNED_USED, words);
    if (place + words > head[INTERNED_WORDS]) return 0;
    volatile u64* to = texts + place;
    *to++ = length;
    WalkOver<T> walk(text);
    for (u64 left = length; left > 0; left -= left < 8 ? left : 8) *to++ = take_word(walk, left);
    return place;
}

// Thread scope. Whether a text is the one at a place.
template <class T> GALATEA_NOINLINE bool is_interned(const u64* texts, u64 place, const T& text) {
    const volatile u64* from = texts + place;
    const u64 length = text_length(text);
    if (*from++ != length) return false;
    WalkOver<T> walk(text);
    for (u64 left = length; left > 0; left -= left < 8 ? left : 8) {
        if (*from++ != take_word(walk, left)) return false;
    }
    return true;
}

// Thread scope. The hash of a text by its bytes.
template <class T> GALATEA_NOINLINE u64 hash_text(const u64* head, const T& text) {
    if (head[INTERNED_COLLIDE] != 0) return 0;
    const u64 length = text_length(text);
    u64 hash = hash_word(length);
    WalkOver<T> walk(text);
    for (u64 left = length; left > 0; left -= left < 8 ? left : 8) hash = hash_word(hash ^ take_word(walk, left));
    return hash;
}

// Thread scope. The place of a text; 0, with the error `full`, where there is none for it.
template <class T> GALATEA_NOINLINE u64 intern(const u8* memory, const T& text, u32* error, u32 full) {
    // After an error no place counts.
    if (*reinterpret_cast<volatile u32*>(error) != 0) return 0;
    u64* const head = reinterpret_cast<u64*>(const_cast<u8*>(memory));
    const u64 count = head[INTERNED_SLOTS], mask = count - 1;
    u64* const slots = head + INTERNED_HEAD;
    u64* const texts = slots + count;
    const u64 hash = hash_text(head, text), tag = hash & ~INTERNED_PLACE;
    u64 own = 0;
    for (u64 at = hash & mask;; at = (at + 1) & mask) {
        u64 found = *reinterpret_cast<volatile u64*>(slots + at);
        if (found == 0) {
            if (own == 0) {
                if (*reinterpret_cast<volatile u64*>(head + INTERNED_HELD) < head[INTERNED_LIMIT]) {
                    own = write_interned(head, texts, text);
                }
                if (own == 0) {
                    galatea_raise(error, full);
                    return 0;
                }
                __threadfence();
            }
            found = atomicCAS(slots + at, 0ull, tag | own);
            if (found == 0) {
                atomicAdd(head + INTERNED_HELD, 1ull);
                return own;
            }
        }
        if ((found & ~INTERNED_PLACE) != tag) continue;
        __threadfence();
        if (is_interned(texts, found & INTERNED_PLACE, text)) return found & INTERNED_PLACE;
    }
}

// Thread scope. The place of a text among those that an earlier kernel has left; 0 if it is not there.
template <class T> GALATEA_NOINLINE u64 find_interned(const u8* memory, const T& text) {
    const u64* const head = reinterpret_cast<const u64*>(memory);
    const u64 count = head[INTERNED_SLOTS], mask = count - 1;
    const u64* const slots = head + INTERNED_HEAD;
    const u64 hash = hash_text(head, text), tag = hash & ~INTERNED_PLACE;
    for (u64 at = hash & mask;; at = (at + 1) & mask) {
        const u64 found = slots[at];
        if (found == 0) return 0;
        const u64 place = found & INTERNED_PLACE;
        if ((found & ~INTERNED_PLACE) == tag && is_interned(slots + count, place, text)) return place;
    }
}

// Thread scope. The text at a place; empty at place 0.
static GALATEA_INLINE Text interned_text(const u8* memory, u64 place) {
    if (place == 0) return Text{nullptr, 0u};
    const u64* const head = reinterpret_cast<const u64*>(memory);
    const u64* const at = head + INTERNED_HEAD + head[INTERNED_SLOTS] + place;
    return Text{reinterpret_cast<const u8*>(at + 1), u32(*at)};
}

}  // namespace galatea
