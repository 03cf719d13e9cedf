// Grid scope: strings that are keys, and the words of keys that do not fit one word. Device memory has each
// of them once, at a unique position, so two strings are equal if their positions are. Positions do not
// reflect the order of strings: if the order is needed, the strings are sorted and positions are replaced by
// ranks (string_sort.cu, rank_keys.cu). The memory also contains the least and the greatest strings of
// groups, with the position as the accumulator.
//
//     words  [0, INTERNED_HEAD)    the number of used words, and so on
//            [.., + slots)         a table with open addressing: part of the hash, and the position; 0: free
//            [.., + words)         from position 1 on: the number of bytes, and the bytes, as whole words
//
// If a string is not in the table, the thread first writes it and then stores its position in a free slot, by
// one compare-and-swap: no thread waits for another. If another thread was faster with the same string, the
// copy is left unused; that happens at most once for a string and thread, and only while the string is new.
// If the memory is full, a row raises an error, and the host starts again with more memory.
#pragma once

#include "galatea/hash_table.cuh"
#include "galatea/computed_string.cuh"

namespace galatea {

// Words of the head. Host twin: crates/engine/src/string/interned.rs.
constexpr u32 INTERNED_USED = 0;     // words of strings; the first is unused
constexpr u32 INTERNED_WORDS = 1;    // capacity in words of strings
constexpr u32 INTERNED_SLOTS = 2;    // a power of two
constexpr u32 INTERNED_HELD = 3;     // strings in the table
constexpr u32 INTERNED_LIMIT = 4;    // maximum number of strings; plus one per thread, fewer than slots
constexpr u32 INTERNED_COLLIDE = 5;  // 1: every hash is zero, for tests
constexpr u32 INTERNED_HEAD = 8;

constexpr u32 INTERNED_PLACE_BITS = 40;
constexpr u64 INTERNED_PLACE = (1ull << INTERNED_PLACE_BITS) - 1;

// The next bytes of a walk as a word; `left` bytes remain.
template <class W> GALATEA_INLINE u64 take_word(W& walk, u64 left) {
    const u32 bytes = left < 8 ? u32(left) : 8;
    u64 word = 0;
    for (u32 at = 0; at < bytes; ++at) word |= u64(walk.take()) << 8 * at;
    return word;
}

// Thread scope. Writes a string; returns its position, or 0 if the memory is full.
template <class T> GALATEA_NOINLINE u64 write_interned(u64* head, u64* texts, const T& text) {
    const u64 length = string_length(text), words = 1 + (length + 7) / 8;
    const u64 place = atomicAdd(head + INTERNED_USED, words);
    if (place + words > head[INTERNED_WORDS]) return 0;
    volatile u64* to = texts + place;
    *to++ = length;
    WalkOver<T> walk(text);
    for (u64 left = length; left > 0; left -= left < 8 ? left : 8) *to++ = take_word(walk, left);
    return place;
}

// Thread scope. Whether a string equals the one at a position.
template <class T> GALATEA_NOINLINE bool is_interned(const u64* texts, u64 place, const T& text) {
    const volatile u64* from = texts + place;
    const u64 length = string_length(text);
    if (*from++ != length) return false;
    WalkOver<T> walk(text);
    for (u64 left = length; left > 0; left -= left < 8 ? left : 8) {
        if (*from++ != take_word(walk, left)) return false;
    }
    return true;
}

// Thread scope. The hash of a string by its bytes.
template <class T> GALATEA_NOINLINE u64 hash_string(const u64* head, const T& text) {
    if (head[INTERNED_COLLIDE] != 0) return 0;
    const u64 length = string_length(text);
    u64 hash = hash_word(length);
    WalkOver<T> walk(text);
    for (u64 left = length; left > 0; left -= left < 8 ? left : 8) hash = hash_word(hash ^ take_word(walk, left));
    return hash;
}

// Thread scope. The position of a string; 0, with the error `full`, if it does not fit.
template <class T> GALATEA_NOINLINE u64 intern(const u8* memory, const T& text, u32* error, u32 full) {
    // After an error positions are irrelevant.
    if (*reinterpret_cast<volatile u32*>(error) != 0) return 0;
    u64* const head = reinterpret_cast<u64*>(const_cast<u8*>(memory));
    const u64 count = head[INTERNED_SLOTS], mask = count - 1;
    u64* const slots = head + INTERNED_HEAD;
    u64* const texts = slots + count;
    const u64 hash = hash_string(head, text), tag = hash & ~INTERNED_PLACE;
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

// Thread scope. The position of a string among those that an earlier kernel has stored; 0 if absent.
template <class T> GALATEA_NOINLINE u64 find_interned(const u8* memory, const T& text) {
    const u64* const head = reinterpret_cast<const u64*>(memory);
    const u64 count = head[INTERNED_SLOTS], mask = count - 1;
    const u64* const slots = head + INTERNED_HEAD;
    const u64 hash = hash_string(head, text), tag = hash & ~INTERNED_PLACE;
    for (u64 at = hash & mask;; at = (at + 1) & mask) {
        const u64 found = slots[at];
        if (found == 0) return 0;
        const u64 place = found & INTERNED_PLACE;
        if ((found & ~INTERNED_PLACE) == tag && is_interned(slots + count, place, text)) return place;
    }
}

// An integer as a string, such that strings are in the order of the integers.
struct WideBytes {
    u128 rank;
    GALATEA_INLINE explicit WideBytes(i128 value) : rank(u128(value) ^ (u128(1) << 127)) {}
    GALATEA_INLINE u64 length() const { return 16; }
    struct Walk {
        u128 rest;
        GALATEA_INLINE explicit Walk(const WideBytes& bytes) : rest(bytes.rank) {}
        GALATEA_INLINE u32 take() {
            const u32 byte = u32(rest >> 120);
            rest <<= 8;
            return byte;
        }
    };
};

// The words of a key that does not fit one word, as a string.
struct KeyWords {
    const u64* next;
    template <class K> GALATEA_INLINE explicit KeyWords(const K& key) : next(key.words) {}
};
template <u32 WORDS> struct KeyBytes {
    u64 words[WORDS];
    GALATEA_INLINE u64 length() const { return 8 * WORDS; }
    using Walk = KeyWords;
};
GALATEA_INLINE u64 take_word(KeyWords& walk, u64) { return *walk.next++; }
template <class... Words> GALATEA_INLINE KeyBytes<u32(sizeof...(Words))> key_bytes(Words... words) {
    return {{u64(words)...}};
}

// The integer that is stored as the string at a position.
GALATEA_INLINE i128 interned_integer(const u8* memory, u64 place) {
    if (place == 0) return 0;
    const u64* const head = reinterpret_cast<const u64*>(memory);
    const u64* const at = head + INTERNED_HEAD + head[INTERNED_SLOTS] + place;
    u128 rank = 0;
    for (u32 byte = 0; byte < 16; ++byte) rank = rank << 8 | u128((at[1 + byte / 8] >> 8 * (byte & 7)) & 0xff);
    return i128(rank ^ (u128(1) << 127));
}

// The bytes of a word in memory order as a big-endian number.
GALATEA_INLINE u64 turned_bytes(u64 word) {
    return u64(__byte_perm(u32(word), 0, 0x0123)) << 32 | __byte_perm(u32(word >> 32), 0, 0x0123);
}

// Thread scope. Whether a string is before (LEAST) or after the one at a position.
template <bool LEAST, class T> GALATEA_NOINLINE bool is_beyond(const u64* texts, u64 place, const T& text) {
    const volatile u64* from = texts + place;
    const u64 length = string_length(text), other = *from++;
    WalkOver<T> walk(text);
    const u64 both = length < other ? length : other;
    for (u64 at = 0; at < both; at += 8) {
        // Bytes after the end of a string are zero; if they equal those of the other string, the length
        // decides.
        const u64 own = turned_bytes(take_word(walk, length - at)), its = turned_bytes(*from++);
        if (own != its) return (own < its) == LEAST;
    }
    return length != other && (length < other) == LEAST;
}

// Thread scope. Whether the string at `place` is before the one at `other`, by their bytes.
static GALATEA_NOINLINE bool is_before(const u64* texts, u64 place, u64 other) {
    const u64 *one = texts + place, *its = texts + other;
    const u64 length = *one++, its_length = *its++;
    const u64 both = length < its_length ? length : its_length;
    for (u64 at = 0; at < both; at += 8, ++one, ++its) {
        // See is_beyond.
        if (*one != *its) return turned_bytes(*one) < turned_bytes(*its);
    }
    return length < its_length;
}

// Thread scope. If a string is before (LEAST) or after that of a group, makes it the string of the group;
// `word` holds the position of the group's string, 0: none. Raises the error `full` if it does not fit.
template <bool LEAST, class T>
GALATEA_NOINLINE void keep_extreme(u64* word, const u8* memory, const T& text, u32* error, u32 full) {
    u64* const head = reinterpret_cast<u64*>(const_cast<u8*>(memory));
    u64* const texts = head + INTERNED_HEAD + head[INTERNED_SLOTS];
    u64 own = 0;
    for (u64 held = *reinterpret_cast<volatile u64*>(word);;) {
        if (held != 0) {
            __threadfence();
            if (!is_beyond<LEAST>(texts, held, text)) return;
        }
        if (own == 0) {
            // After an error positions are irrelevant.
            if (*reinterpret_cast<volatile u32*>(error) != 0) return;
            own = write_interned(head, texts, text);
            if (own == 0) {
                galatea_raise(error, full);
                return;
            }
            __threadfence();
        }
        const u64 found = atomicCAS(word, held, own);
        if (found == held) return;
        held = found;
    }
}

// Thread scope. The same with a string that is already stored at a position; 0: none.
template <bool LEAST> GALATEA_NOINLINE void merge_extreme(u64* word, const u64* memory, u64 place) {
    const u64* const texts = memory + INTERNED_HEAD + memory[INTERNED_SLOTS];
    const Text text = {reinterpret_cast<const u8*>(texts + place + 1), u32(texts[place])};
    for (u64 held = *reinterpret_cast<volatile u64*>(word); place != 0;) {
        if (held != 0 && !is_beyond<LEAST>(texts, held, text)) return;
        const u64 found = atomicCAS(word, held, place);
        if (found == held) return;
        held = found;
    }
}

// Thread scope. The string at a position; empty for position 0.
static GALATEA_INLINE Text interned_string(const u8* memory, u64 place) {
    if (place == 0) return Text{nullptr, 0u};
    const u64* const head = reinterpret_cast<const u64*>(memory);
    const u64* const at = head + INTERNED_HEAD + head[INTERNED_SLOTS] + place;
    return Text{reinterpret_cast<const u8*>(at + 1), u32(*at)};
}

}  // namespace galatea
