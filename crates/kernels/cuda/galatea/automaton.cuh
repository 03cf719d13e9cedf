// Regular expression search with a table-driven automaton; the layout of the table is in
// crates/expression/src/automaton.rs. Scope: thread.
#pragma once

#include "galatea/strings.cuh"

namespace galatea {

// Index of the start state at the beginning of a string, which no byte precedes.
constexpr u32 AUTOMATON_STRING_START = 256;
constexpr u32 AUTOMATON_STARTS = 258;

// State that ends the search of a string.
constexpr u32 AUTOMATON_DEAD = 0;

struct Automaton {
    const u16* starts;
    const u8* class_of;
    const u8* at_end;
    const u16* transitions;
    u32 classes;
    u32 first_match;
    GALATEA_INLINE explicit Automaton(const u8* table) {
        const u32* const header = reinterpret_cast<const u32*>(table);
        classes = __ldg(header);
        first_match = __ldg(header + 1);
        transitions = reinterpret_cast<const u16*>(table + __ldg(header + 2));
        starts = reinterpret_cast<const u16*>(table + 16);
        class_of = table + 16 + 2 * AUTOMATON_STARTS;
        at_end = class_of + 256;
    }
    GALATEA_INLINE u32 start(u32 byte_before) const { return __ldg(starts + byte_before); }
    GALATEA_INLINE u32 next(u32 state, u32 byte) const {
        return __ldg(transitions + state * classes + __ldg(class_of + byte));
    }
    // Whether a match ended before the byte that led to the state.
    GALATEA_INLINE bool matched(u32 state) const { return state >= first_match; }
    // Whether a match ends with the string.
    GALATEA_INLINE bool ends(u32 state) const { return __ldg(at_end + state) != 0; }
};

// Whether the expression matches a part of the string.
static GALATEA_NOINLINE bool string_matches(Text text, const u8* table) {
    const Automaton automaton(table);
    u32 state = automaton.start(AUTOMATON_STRING_START);
    StringBytes bytes(text);
    for (u32 at = 0; at < text.length; ++at) {
        if (state == AUTOMATON_DEAD) return false;
        state = automaton.next(state, bytes.take());
        if (automaton.matched(state)) return true;
    }
    return state != AUTOMATON_DEAD && automaton.ends(state);
}

// Number of matches that do not overlap, each the leftmost after the one before; none of them is empty.
static GALATEA_NOINLINE i64 string_count_matches(Text text, const u8* table) {
    const Automaton automaton(table);
    constexpr u32 none = 0xffffffffu;
    i64 count = 0;
    for (u32 from = 0;; ++count) {
        u32 state = automaton.start(from == 0 ? AUTOMATON_STRING_START : u32(text.data[from - 1]));
        u32 end = none, at = from;
        for (; state != AUTOMATON_DEAD && at < text.length; ++at) {
            state = automaton.next(state, text.data[at]);
            if (automaton.matched(state)) end = at;
        }
        if (state != AUTOMATON_DEAD && automaton.ends(state)) end = text.length;
        if (end == none) return count;
        from = end;
    }
}

}  // namespace galatea
