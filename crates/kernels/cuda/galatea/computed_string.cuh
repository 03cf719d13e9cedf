// Computed strings that are not stored in memory: the type describes how a string is composed, and a walk (a
// byte iterator) returns its bytes in order, as often as they are needed. Nothing is materialised, so strings
// may have any length. Scope: thread.
//
//     const auto name = string_joined(first, string_joined(comma, second));    // Joined<Text, Joined<Text, Text>>
//     string_like(name, pattern)                                             // walks the bytes of both columns
//
// A type has `length()` in bytes and a `Walk`, which is constructed from the string and must not outlive it;
// a copy of a walk continues from the same byte. The functions have the meaning of those of strings.cuh and
// automaton.cuh.
#pragma once

#include "galatea/automaton.cuh"
#include "galatea/small_string.cuh"

namespace galatea {

template <class T> struct WalkOf { using Type = typename T::Walk; };
template <> struct WalkOf<Text> { using Type = StringBytes; };
template <class T> using WalkOver = typename WalkOf<T>::Type;

template <class T> GALATEA_INLINE u64 string_length(const T& text) { return text.length(); }

// The same as the prefix of a string in memory.
template <class T> GALATEA_INLINE u64 string_prefix(const T& text) {
    const u64 length = string_length(text);
    WalkOver<T> walk(text);
    u64 prefix = 0;
    for (u32 i = 0; i < 8; ++i) prefix = prefix << 8 | (i < length ? u64(walk.take()) : 0ull);
    return prefix;
}

// The same as the hash of a string in memory.
template <class T> GALATEA_NOINLINE u32 string_hash(const T& text) {
    WalkOver<T> walk(text);
    u64 hash = 0xcbf29ce484222325ull;
    for (u64 left = string_length(text); left > 0; --left) hash = (hash ^ u64(walk.take())) * 0x100000001b3ull;
    return u32(hash ^ hash >> 32) & 0x7fffffffu;
}

// Concatenation of two strings.
template <class A, class B> struct Joined {
    A first;
    B second;
    GALATEA_INLINE u64 length() const { return string_length(first) + string_length(second); }
    struct Walk {
        WalkOver<A> first;
        WalkOver<B> second;
        u64 of_first;
        GALATEA_INLINE explicit Walk(const Joined& text)
            : first(text.first), second(text.second), of_first(string_length(text.first)) {}
        GALATEA_INLINE u32 take() {
            if (of_first == 0) return second.take();
            --of_first;
            return first.take();
        }
    };
};

template <class A, class B> GALATEA_INLINE Joined<A, B> string_joined(const A& first, const B& second) {
    return {first, second};
}

// One of two strings.
template <class A, class B> struct Chosen {
    bool is_first;
    A first;
    B second;
    GALATEA_INLINE u64 length() const { return is_first ? string_length(first) : string_length(second); }
    struct Walk {
        bool is_first;
        WalkOver<A> first;
        WalkOver<B> second;
        GALATEA_INLINE explicit Walk(const Chosen& text)
            : is_first(text.is_first), first(text.first), second(text.second) {}
        GALATEA_INLINE u32 take() { return is_first ? first.take() : second.take(); }
    };
};

template <class A, class B> GALATEA_INLINE Chosen<A, B> string_chosen(bool is_first, const A& first, const B& second) {
    return {is_first, first, second};
}
static GALATEA_INLINE Text string_chosen(bool is_first, Text first, Text second) { return is_first ? first : second; }

// The string, or an empty one.
template <class T> GALATEA_INLINE auto string_kept(bool kept, const T& text) {
    return string_chosen(kept, text, Text{nullptr, 0u});
}

// Bytes `start` to before `start + bytes` of a string.
template <class T> struct Slice {
    T text;
    u64 start, bytes;
    GALATEA_INLINE u64 length() const { return bytes; }
    struct Walk {
        WalkOver<T> walk;
        GALATEA_INLINE explicit Walk(const Slice& slice) : walk(slice.text) {
            for (u64 at = 0; at < slice.start; ++at) walk.take();
        }
        GALATEA_INLINE u32 take() { return walk.take(); }
    };
};

// A string repeated `times` times.
template <class T> struct Repeated {
    T text;
    u64 times;
    GALATEA_INLINE u64 length() const { return string_length(text) * times; }
    struct Walk {
        const T* text;
        WalkOver<T> walk;
        u64 left;
        GALATEA_INLINE explicit Walk(const Repeated& repeated)
            : text(&repeated.text), walk(repeated.text), left(string_length(repeated.text)) {}
        GALATEA_INLINE u32 take() {
            if (left == 0) {
                walk = WalkOver<T>(*text);
                left = string_length(*text);
            }
            --left;
            return walk.take();
        }
    };
};

template <class T> GALATEA_INLINE Repeated<T> string_repeated(const T& text, i64 times) {
    // A string that is too long is still detected as such.
    const u64 most = 1ull << 32;
    return {text, times <= 0 || string_length(text) == 0 ? 0 : (u64(times) < most ? u64(times) : most)};
}

// The first bytes of an infinitely repeated string; the string is not empty, unless `bytes` is 0.
struct Cycle {
    Text text;
    u64 bytes;
    GALATEA_INLINE u64 length() const { return bytes; }
    struct Walk {
        Text text;
        u32 at;
        GALATEA_INLINE explicit Walk(const Cycle& cycle) : text(cycle.text), at(0) {}
        GALATEA_INLINE u32 take() {
            const u32 byte = text.data[at];
            at = at + 1 == text.length ? 0 : at + 1;
            return byte;
        }
    };
};

// The first `characters` characters of an infinitely repeated string.
static GALATEA_NOINLINE Cycle string_cycle(Text text, u64 characters) {
    if (text.length == 0 || characters == 0) return {text, 0};
    const u64 of_string = u64(string_characters(text)), rest = characters % of_string;
    return {text, characters / of_string * text.length + string_substring(text, 0, rest).length};
}

// A string with all occurrences of `from`, from left to right, replaced by `to`.
template <class T> struct Replaced {
    T text;
    Text from, to;
    u64 bytes;
    GALATEA_INLINE u64 length() const { return bytes; }
    struct Walk {
        WalkOver<T> walk;
        Text from, to;
        u64 left;       // remaining bytes of the string
        u32 in_to;      // remaining bytes of `to`
        GALATEA_INLINE explicit Walk(const Replaced& replaced)
            : walk(replaced.text), from(replaced.from), to(replaced.to), left(string_length(replaced.text)), in_to(0) {}
        // Skips `from` if it is next, and returns whether it was.
        GALATEA_INLINE bool skip() {
            if (from.length == 0 || left < from.length) return false;
            WalkOver<T> ahead = walk;
            for (u32 at = 0; at < from.length; ++at) {
                if (ahead.take() != from.data[at]) return false;
            }
            walk = ahead;
            left -= from.length;
            return true;
        }
        GALATEA_INLINE u32 take() {
            while (in_to == 0) {
                if (!skip()) {
                    --left;
                    return walk.take();
                }
                in_to = to.length;
            }
            return to.data[to.length - in_to--];
        }
    };
};

template <class T> GALATEA_NOINLINE Replaced<T> string_replaced(const T& text, Text from, Text to) {
    Replaced<T> replaced{text, from, to, string_length(text)};
    typename Replaced<T>::Walk walk(replaced);
    while (walk.left > 0) {
        if (walk.skip()) {
            replaced.bytes = replaced.bytes - from.length + to.length;
        } else {
            --walk.left;
            walk.walk.take();
        }
    }
    return replaced;
}

// The characters of a string from the last to the first.
struct Reversed {
    Text text;
    GALATEA_INLINE u64 length() const { return text.length; }
    struct Walk {
        const u8* data;
        u32 start, at, end;  // of the character, and the position of the next byte
        GALATEA_INLINE explicit Walk(const Reversed& reversed)
            : data(reversed.text.data), start(reversed.text.length), at(start), end(start) {}
        GALATEA_INLINE u32 take() {
            if (at == end) {
                end = start;
                do --start;
                while (start > 0 && (data[start] & 0xc0) == 0x80);
                at = start;
            }
            return data[at++];
        }
    };
};

static GALATEA_INLINE Reversed string_reversed(Text text) { return {text}; }

// Maps the letters of a string to the other case by a table: pages of 256 characters, selected by the upper
// bits of the character; page 0 has no mappings. An entry is the bytes of the replacement, first byte lowest;
// 0: the character itself; all ones: the mapping depends on the characters around it. Host twin:
// crates/expression/src/letters.rs.
constexpr u32 CASE_PAGES = 0x1100;
constexpr u64 CASE_DEPENDS = ~0ull;

template <class T> struct CaseMapped {
    T text;
    const u8* table;
    u32 first_letter;  // of the 26 ASCII letters that are mapped
    u64 bytes;
    bool depends;  // the string has a character that depends on those around it, so the result is wrong
    GALATEA_INLINE u64 length() const { return bytes; }
    struct Walk {
        WalkOver<T> walk;
        const u8* table;
        u32 first_letter;
        bool depends;
        u64 pending;  // remaining bytes of the character
        GALATEA_INLINE explicit Walk(const CaseMapped& mapped)
            : walk(mapped.text), table(mapped.table), first_letter(mapped.first_letter), depends(false), pending(0),
              byte(0) {}
        GALATEA_INLINE u32 take() {
            u32 from = 0;
            next(from);
            return byte;
        }
        // Takes the next byte; adds the number of bytes of the string that it consumed to `from`.
        GALATEA_INLINE void next(u32& from) {
            if (pending != 0) return advance();
            const u32 lead = walk.take();
            ++from;
            if (lead < 0x80) {
                byte = lead - first_letter < 26 ? lead ^ 0x20 : lead;
                return;
            }
            const u32 width = character_bytes(u8(lead));
            u32 point = lead & (0x7fu >> width);
            u64 itself = lead;
            for (u32 at = 1; at < width; ++at) {
                const u32 more = walk.take();
                point = point << 6 | (more & 0x3f);
                itself |= u64(more) << 8 * at;
            }
            from += width - 1;
            const u32 page = __ldg(reinterpret_cast<const u16*>(table) + (point >> 8));
            const u64 other = page == 0 ? 0
                : __ldg(reinterpret_cast<const u64*>(table + 2 * CASE_PAGES) + (u64(page - 1) << 8 | (point & 0xff)));
            depends = depends || other == CASE_DEPENDS;
            pending = other == 0 || other == CASE_DEPENDS ? itself : other;
            advance();
        }
        GALATEA_INLINE bool between_characters() const { return pending == 0; }

    private:
        u32 byte;
        GALATEA_INLINE void advance() {
            byte = u32(pending & 0xff);
            pending >>= 8;
        }
    };
};

template <class T> GALATEA_INLINE CaseMapped<T> string_mapped(const T& text, const u8* table, u32 first_letter) {
    CaseMapped<T> mapped{text, table, first_letter, 0, false};
    const u64 all = string_length(text);
    typename CaseMapped<T>::Walk walk(mapped);
    u32 from = 0;
    for (u64 done = 0; done < all || !walk.between_characters(); done += from, ++mapped.bytes) {
        from = 0;
        walk.next(from);
    }
    mapped.depends = walk.depends;
    return mapped;
}


// --- Functions of strings, at least one of them computed. ---

template <class A, class B> GALATEA_NOINLINE bool string_equal(const A& a, const B& b) {
    const u64 length = string_length(a);
    if (length != string_length(b)) return false;
    WalkOver<A> left(a);
    WalkOver<B> right(b);
    for (u64 at = 0; at < length; ++at) {
        if (left.take() != right.take()) return false;
    }
    return true;
}

template <class A, class B> GALATEA_NOINLINE i32 string_compare(const A& a, const B& b) {
    const u64 of_a = string_length(a), of_b = string_length(b), common = of_a < of_b ? of_a : of_b;
    WalkOver<A> left(a);
    WalkOver<B> right(b);
    for (u64 at = 0; at < common; ++at) {
        const i32 difference = i32(left.take()) - i32(right.take());
        if (difference != 0) return difference;
    }
    return of_a == of_b ? 0 : (of_a < of_b ? -1 : 1);
}

// Whether the bytes of `part` are next in a walk, which has at least that many bytes left.
template <class W, class B> GALATEA_INLINE bool walk_begins_with(W walk, const B& part) {
    WalkOver<B> expected(part);
    for (u64 left = string_length(part); left > 0; --left) {
        if (walk.take() != expected.take()) return false;
    }
    return true;
}

template <class A, class B> GALATEA_NOINLINE bool string_starts_with(const A& text, const B& prefix) {
    return string_length(prefix) <= string_length(text) && walk_begins_with(WalkOver<A>(text), prefix);
}

template <class A, class B> GALATEA_NOINLINE bool string_ends_with(const A& text, const B& suffix) {
    const u64 all = string_length(text), of_suffix = string_length(suffix);
    if (of_suffix > all) return false;
    WalkOver<A> walk(text);
    for (u64 at = of_suffix; at < all; ++at) walk.take();
    return walk_begins_with(walk, suffix);
}

template <class A, class B> GALATEA_NOINLINE i32 string_position(const A& text, const B& part) {
    const u64 all = string_length(text), of_part = string_length(part);
    WalkOver<A> walk(text);
    i32 characters = 0;
    for (u64 at = 0; at + of_part <= all; ++at) {
        const WalkOver<A> here = walk;
        // After the last byte no byte can be read.
        const u32 byte = at < all ? walk.take() : 0;
        characters += (byte & 0xc0) == 0x80 ? 0 : 1;
        if (walk_begins_with(here, part)) return characters;
    }
    return 0;
}

template <class A, class B> GALATEA_INLINE bool string_contains(const A& text, const B& part) {
    return string_position(text, part) != 0;
}

template <class T> GALATEA_NOINLINE i32 string_characters(const T& text) {
    WalkOver<T> walk(text);
    i32 count = 0;
    for (u64 left = string_length(text); left > 0; --left) count += (walk.take() & 0xc0) != 0x80 ? 1 : 0;
    return count;
}

template <class T> GALATEA_INLINE i32 string_first_character(const T& text) {
    const u64 all = string_length(text);
    u8 bytes[4] = {};
    WalkOver<T> walk(text);
    for (u32 at = 0; at < 4 && at < all; ++at) bytes[at] = u8(walk.take());
    return string_first_character(Text{bytes, all < 4 ? u32(all) : 4u});
}

template <class T> GALATEA_NOINLINE Slice<T> string_substring(const T& text, u64 from, u64 to) {
    const u64 all = string_length(text);
    WalkOver<T> walk(text);
    u64 at = 0, start = all, end = all;
    for (u64 character = 0; at < all; ++character) {
        if (character == from) start = at;
        if (character >= to) {
            end = at;
            break;
        }
        const u32 width = character_bytes(u8(walk.take()));
        for (u32 byte = 1; byte < width; ++byte) walk.take();
        at += width;
    }
    return end <= start ? Slice<T>{text, 0, 0} : Slice<T>{text, start, end - start};
}

// The first `count` characters of a string of any type.
template <class T> GALATEA_INLINE Slice<T> cut_to(const T& text, u64 count) { return string_substring(text, 0, count); }
static GALATEA_INLINE Slice<Text> cut_to(Text text, u64 count) { return {text, 0, string_substring(text, 0, count).length}; }

template <class T> GALATEA_NOINLINE Slice<T> string_trim(const T& text, bool start, bool end) {
    const u64 all = string_length(text);
    WalkOver<T> walk(text);
    u64 first = all, behind = 0;
    for (u64 at = 0; at < all; ++at) {
        if (walk.take() == ' ') continue;
        if (first == all) first = at;
        behind = at + 1;
    }
    if (!end) behind = all;
    if (!start) first = 0;
    return behind <= first ? Slice<T>{text, 0, 0} : Slice<T>{text, first, behind - first};
}

// Padded on the left, or right, to `count` characters; truncated if it has more. An empty `fill` adds
// nothing.
template <class T> GALATEA_INLINE auto string_padded_left(const T& text, i64 count, Text fill) {
    const u64 wanted = count < 0 ? 0 : u64(count), all = u64(string_characters(text));
    return string_joined(string_cycle(fill, wanted > all ? wanted - all : 0), Slice<T>(cut_to(text, wanted)));
}
template <class T> GALATEA_INLINE auto string_padded_right(const T& text, i64 count, Text fill) {
    const u64 wanted = count < 0 ? 0 : u64(count), all = u64(string_characters(text));
    return string_joined(Slice<T>(cut_to(text, wanted)), string_cycle(fill, wanted > all ? wanted - all : 0));
}

template <class T> GALATEA_INLINE Slice<T> string_left(const T& text, i64 count) {
    if (count >= 0) return string_substring(text, 0, u64(count));
    const u64 all = u64(string_characters(text)), dropped = magnitude(count);
    return string_substring(text, 0, dropped < all ? all - dropped : 0);
}

template <class T> GALATEA_INLINE Slice<T> string_right(const T& text, i64 count) {
    if (count < 0) return string_substring(text, magnitude(count), ~0ull);
    const u64 all = u64(string_characters(text));
    return string_substring(text, u64(count) < all ? all - u64(count) : 0, ~0ull);
}

template <class T> GALATEA_INLINE Slice<T> string_from(const T& text, i64 start) {
    return string_substring(text, start <= 1 ? 0ull : u64(start) - 1, ~0ull);
}

template <class T> GALATEA_NOINLINE bool string_like(const T& text, Text pattern) {
    const u32 none = 0xffffffffu;
    WalkOver<T> walk(text), retry = walk;
    u64 left = string_length(text), retry_left = left;
    u32 in_pattern = 0, after_percent = none;
    const auto skip_character = [](WalkOver<T>& walk, u64& left) {
        const u32 width = character_bytes(u8(walk.take()));
        for (u32 byte = 1; byte < width; ++byte) walk.take();
        left -= width;
    };
    while (left > 0) {
        if (in_pattern < pattern.length) {
            u8 expected = pattern.data[in_pattern];
            if (expected == '%') {
                after_percent = ++in_pattern;
                retry = walk;
                retry_left = left;
                continue;
            }
            if (expected == '_') {
                skip_character(walk, left);
                ++in_pattern;
                continue;
            }
            u32 width = 1;
            if (expected == '\\' && in_pattern + 1 < pattern.length) {
                expected = pattern.data[in_pattern + 1];
                width = 2;
            }
            WalkOver<T> next = walk;
            if (next.take() == expected) {
                walk = next;
                --left;
                in_pattern += width;
                continue;
            }
        }
        if (after_percent == none) return false;
        skip_character(retry, retry_left);
        walk = retry;
        left = retry_left;
        in_pattern = after_percent;
    }
    while (in_pattern < pattern.length && pattern.data[in_pattern] == '%') ++in_pattern;
    return in_pattern == pattern.length;
}

template <class T> GALATEA_NOINLINE bool string_matches(const T& text, const u8* table) {
    const Automaton automaton(table);
    u32 state = automaton.start(AUTOMATON_STRING_START);
    WalkOver<T> bytes(text);
    for (u64 left = string_length(text); left > 0; --left) {
        if (state == AUTOMATON_DEAD) return false;
        state = automaton.next(state, bytes.take());
        if (automaton.matched(state)) return true;
    }
    return state != AUTOMATON_DEAD && automaton.ends(state);
}

}  // namespace galatea
