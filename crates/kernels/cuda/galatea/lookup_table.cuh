// Thread scope: how generated code reads a lookup table.
#pragma once
#include "galatea/prelude.cuh"

namespace galatea {

// Thread scope. Entry of a lookup table, which no kernel writes while this one runs. The compiler may
// therefore load the entries of several rows before it stores values of the first one.
template <typename T> GALATEA_INLINE T table_entry(const u8* table, u64 index) {
    const T* entry = reinterpret_cast<const T*>(table) + index;
    if constexpr (sizeof(T) <= 8) {
        return __ldg(entry);
    } else {
        return *entry;
    }
}

} // namespace galatea
