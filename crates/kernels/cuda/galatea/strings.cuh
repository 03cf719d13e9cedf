// Strings as bytes in memory. Scope: thread. Characters are counted as UTF-8; comparisons are of bytes.
#pragma once

#include "galatea/arithmetic.cuh"

namespace galatea {

struct Text {
    const u8* data;
    u32 length;  // bytes
};

static GALATEA_INLINE Text compute_string(const u8* data, u64 length) { return {data, (u32)length}; }

// Length in bytes.
static GALATEA_INLINE u64 string_length(Text text) { return text.length; }

// String of row `row` of a string column with offsets of type O; empty for rows from `end` on, because their
// offsets may not exist.
template <typename O> GALATEA_INLINE Text string_at(const u8* offsets, const u8* bytes, u32 row, u32 end) {
    if (row >= end) return {bytes, 0};
    const O* at = reinterpret_cast<const O*>(offsets) + row;
    const O start = __ldg(at);
    return {bytes + start, u32(__ldg(at + 1) - start)};
}

// String `index` of a table of offsets and bytes.
static GALATEA_INLINE Text table_text(const u32* offsets, const u8* bytes, u32 index) {
    const u32 start = offsets[index];
    return {bytes + start, offsets[index + 1] - start};
}

// Iterates over the bytes of a string, loading eight at once: the aligned words that hold them are inside the
// allocation.
class StringBytes {
    const u64* next_word;
    u64 word;
    u32 left;

public:
    GALATEA_INLINE explicit StringBytes(Text text) : word(0), left(0) {
        const u64 address = reinterpret_cast<u64>(text.data);
        const u32 skipped = u32(address & 7);
        next_word = reinterpret_cast<const u64*>(address - skipped);
        if (text.length == 0) return;
        word = *next_word++ >> 8 * skipped;
        left = 8 - skipped;
    }
    // The next byte, which must exist.
    GALATEA_INLINE u32 take() {
        if (left == 0) {
            word = *next_word++;
            left = 8;
        }
        const u32 byte = u32(word & 0xff);
        word >>= 8;
        --left;
        return byte;
    }
};

static GALATEA_NOINLINE bool bytes_equal(const u8* a, const u8* b, u32 length) {
    for (u32 i = 0; i < length; ++i) {
        if (a[i] != b[i]) return false;
    }
    return true;
}

static GALATEA_INLINE bool string_equal(Text a, Text b) {
    return a.length == b.length && bytes_equal(a.data, b.data, a.length);
}

// Returns a negative number, zero or a positive number.
static GALATEA_NOINLINE i32 string_compare(Text a, Text b) {
    const u32 common = a.length < b.length ? a.length : b.length;
    for (u32 i = 0; i < common; ++i) {
        if (a.data[i] != b.data[i]) return (i32)a.data[i] - (i32)b.data[i];
    }
    return a.length == b.length ? 0 : (a.length < b.length ? -1 : 1);
}

// The first eight bytes as a number in the order of strings; a shorter string is padded with zeros.
static GALATEA_INLINE u64 string_prefix(Text text) {
    StringBytes bytes(text);
    u64 prefix = 0;
#pragma unroll
    for (u32 i = 0; i < 8; ++i) prefix = prefix << 8 | (i < text.length ? bytes.take() : 0);
    return prefix;
}

// The FNV-1a hash of the bytes, reduced to 31 bits. Host twin: `hash_of` in
// crates/expression/src/emit/key_hash.rs.
static GALATEA_NOINLINE u32 string_hash(Text text) {
    StringBytes bytes(text);
    u64 hash = 0xcbf29ce484222325ull;
    for (u32 i = 0; i < text.length; ++i) hash = (hash ^ u64(bytes.take())) * 0x100000001b3ull;
    return u32(hash ^ hash >> 32) & 0x7fffffffu;
}

static GALATEA_INLINE bool string_starts_with(Text text, Text prefix) {
    return prefix.length <= text.length && bytes_equal(text.data, prefix.data, prefix.length);
}

static GALATEA_INLINE bool string_ends_with(Text text, Text suffix) {
    return suffix.length <= text.length &&
           bytes_equal(text.data + (text.length - suffix.length), suffix.data, suffix.length);
}

static GALATEA_NOINLINE bool string_contains(Text text, Text part) {
    if (part.length == 0) return true;
    const u8 first = part.data[0];
    for (u32 i = 0; i + part.length <= text.length; ++i) {
        if (text.data[i] == first && bytes_equal(text.data + i + 1, part.data + 1, part.length - 1)) return true;
    }
    return false;
}

// Bytes of the character that starts with `lead`.
static GALATEA_INLINE u32 character_bytes(u8 lead) {
    return lead < 0x80 ? 1u : (lead < 0xe0 ? 2u : (lead < 0xf0 ? 3u : 4u));
}

static GALATEA_NOINLINE i32 string_characters(Text text) {
    i32 count = 0;
    for (u32 i = 0; i < text.length; ++i) count += (text.data[i] & 0xc0) != 0x80 ? 1 : 0;
    return count;
}

// Characters from `from` to before `to`, counted from 0; empty if there are none.
static GALATEA_NOINLINE Text string_substring(Text text, u64 from, u64 to) {
    u32 at = 0, start = text.length, end = text.length;
    for (u64 character = 0; at < text.length; ++character) {
        if (character == from) start = at;
        if (character >= to) {
            end = at;
            break;
        }
        at += character_bytes(text.data[at]);
    }
    return end <= start ? Text{text.data, 0u} : Text{text.data + start, end - start};
}

// Start of the last `characters` characters.
static GALATEA_NOINLINE u32 string_last(Text text, u64 characters) {
    u32 at = text.length;
    for (; at > 0 && characters > 0; --characters) {
        do --at;
        while (at > 0 && (text.data[at] & 0xc0) == 0x80);
    }
    return at;
}

// The first `count` characters; all but the last -count if it is negative.
static GALATEA_NOINLINE Text string_left(Text text, i64 count) {
    if (count >= 0) return string_substring(text, 0, u64(count));
    return {text.data, string_last(text, magnitude(count))};
}

// The last `count` characters; all but the first -count if it is negative.
static GALATEA_NOINLINE Text string_right(Text text, i64 count) {
    if (count < 0) return string_substring(text, magnitude(count), ~0ull);
    const u32 start = string_last(text, u64(count));
    return {text.data + start, text.length - start};
}

// The string from character `start` on, counted from 1.
static GALATEA_INLINE Text string_from(Text text, i64 start) {
    return string_substring(text, start <= 1 ? 0ull : u64(start) - 1, ~0ull);
}

// Piece `number` of those between delimiters, counted from 1, or from the last one if it is negative; empty
// if there are fewer. Delimiters are not empty.
static GALATEA_NOINLINE Text string_piece(Text text, Text delimiter, i64 number) {
    u64 others = magnitude(number) - 1;
    const u32 width = delimiter.length;
    if (number > 0) {
        u32 start = 0, at = 0;
        while (at + width <= text.length) {
            if (!bytes_equal(text.data + at, delimiter.data, width)) {
                ++at;
                continue;
            }
            if (others-- == 0) return {text.data + start, at - start};
            start = at = at + width;
        }
        return others == 0 ? Text{text.data + start, text.length - start} : Text{text.data, 0u};
    }
    u32 end = text.length, at = end;
    while (at >= width) {
        if (!bytes_equal(text.data + (at - width), delimiter.data, width)) {
            --at;
            continue;
        }
        if (others-- == 0) return {text.data + at, end - at};
        end = at = at - width;
    }
    return others == 0 ? Text{text.data, end} : Text{text.data, 0u};
}

// Index of the character, from 1, at which `part` occurs first; 0 if it does not occur.
static GALATEA_NOINLINE i32 string_position(Text text, Text part) {
    i32 characters = 1;
    for (u32 i = 0; i + part.length <= text.length; ++i) {
        if (bytes_equal(text.data + i, part.data, part.length)) return characters;
        // The bytes that follow the first of a character have 10 as their top bits.
        characters += i + 1 < text.length && (text.data[i + 1] & 0xc0) == 0x80 ? 0 : 1;
    }
    return 0;
}

// Code point of the first character; 0 if there is none.
static GALATEA_NOINLINE i32 string_first_character(Text text) {
    if (text.length == 0) return 0;
    const u32 lead = text.data[0], bytes = character_bytes(u8(lead));
    u32 point = bytes == 1 ? lead : lead & (0x7fu >> bytes);
    for (u32 i = 1; i < bytes; ++i) point = point << 6 | (text.data[i] & 0x3fu);
    return i32(point);
}

// The string without leading spaces (`start`) or trailing spaces (`end`).
static GALATEA_NOINLINE Text string_trim(Text text, bool start, bool end) {
    while (start && text.length > 0 && text.data[0] == ' ') text = {text.data + 1, text.length - 1};
    while (end && text.length > 0 && text.data[text.length - 1] == ' ') --text.length;
    return text;
}

// SQL LIKE: % matches any characters, _ one character, \ escapes the next. On a mismatch only the last % has
// to be extended.
static GALATEA_NOINLINE bool string_like(Text text, Text pattern) {
    const u32 none = 0xffffffffu;
    u32 at = 0, in_pattern = 0, after_percent = none, retry = 0;
    while (at < text.length) {
        if (in_pattern < pattern.length) {
            u8 expected = pattern.data[in_pattern];
            if (expected == '%') {
                after_percent = ++in_pattern;
                retry = at;
                continue;
            }
            if (expected == '_') {
                at += character_bytes(text.data[at]);
                ++in_pattern;
                continue;
            }
            u32 width = 1;
            if (expected == '\\' && in_pattern + 1 < pattern.length) {
                expected = pattern.data[in_pattern + 1];
                width = 2;
            }
            if (text.data[at] == expected) {
                ++at;
                in_pattern += width;
                continue;
            }
        }
        if (after_percent == none) return false;
        retry += character_bytes(text.data[retry]);
        at = retry;
        in_pattern = after_percent;
    }
    while (in_pattern < pattern.length && pattern.data[in_pattern] == '%') ++in_pattern;
    return in_pattern == pattern.length;
}

// The index of the string in a sorted table of strings; `count` if it is absent.
template <class T>
GALATEA_NOINLINE u32 sorted_string_rank(const u32* offsets, const u8* bytes, u32 count, const T text) {
    u32 low = 0, high = count;
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        const i32 order = string_compare(table_text(offsets, bytes, middle), text);
        if (order == 0) return middle;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return count;
}

}  // namespace galatea
