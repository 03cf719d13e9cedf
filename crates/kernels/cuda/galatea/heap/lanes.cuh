// Warp scope: the set of lanes that act together, as a type. Collectives with a mask that the compiler cannot
// determine cost several times those of a whole warp, so the searches are written once and compiled for both.
//
// A method is called by exactly the lanes that it represents.
#pragma once

#include "galatea/warp.cuh"

namespace galatea {

// All 32 lanes.
struct WholeWarp {
    GALATEA_INLINE u32 mask() const { return 0xffffffffu; }
    GALATEA_INLINE u32 count() const { return WARP; }
    GALATEA_INLINE u32 place() const { return lane(); }
    GALATEA_INLINE u32 leader() const { return 0; }
    GALATEA_INLINE bool leads() const { return lane() == 0; }
    GALATEA_INLINE u32 lane_at(u32 place) const { return place; }
    GALATEA_INLINE u32 place_of(u32 lane) const { return lane; }
    GALATEA_INLINE u32 ballot(bool yes) const { return __ballot_sync(0xffffffffu, yes); }
    template <typename T> GALATEA_INLINE T shuffle(T value, u32 source) const {
        return __shfl_sync(0xffffffffu, value, source);
    }
    GALATEA_INLINE u32 match(u32 value) const { return __match_any_sync(0xffffffffu, value); }
    GALATEA_INLINE u32 sum(u32 value) const { return __reduce_add_sync(0xffffffffu, value); }
    GALATEA_INLINE u32 greatest(u32 value) const { return __reduce_max_sync(0xffffffffu, value); }
    GALATEA_INLINE u32 unite(u32 bits) const { return __reduce_or_sync(0xffffffffu, bits); }
    GALATEA_INLINE void sync() const { __syncwarp(0xffffffffu); }
};

// The lanes of a mask.
struct SomeLanes {
    u32 lanes;

    GALATEA_INLINE u32 mask() const { return lanes; }
    GALATEA_INLINE u32 count() const { return __popc(lanes); }
    GALATEA_INLINE u32 place() const { return place_of(lane()); }
    GALATEA_INLINE u32 leader() const { return __ffs(lanes) - 1; }
    GALATEA_INLINE bool leads() const { return lane() == leader(); }
    // The lane at an index in the mask, and the reverse.
    GALATEA_INLINE u32 lane_at(u32 place) const {
        u32 rest = lanes;
        for (; place > 0; --place) rest &= rest - 1;
        return __ffs(rest) - 1;
    }
    GALATEA_INLINE u32 place_of(u32 lane) const { return __popc(lanes & ((1u << lane) - 1)); }
    GALATEA_INLINE u32 ballot(bool yes) const { return __ballot_sync(lanes, yes); }
    template <typename T> GALATEA_INLINE T shuffle(T value, u32 source) const { return __shfl_sync(lanes, value, source); }
    GALATEA_INLINE u32 match(u32 value) const { return __match_any_sync(lanes, value); }
    GALATEA_INLINE u32 sum(u32 value) const { return __reduce_add_sync(lanes, value); }
    GALATEA_INLINE u32 greatest(u32 value) const { return __reduce_max_sync(lanes, value); }
    GALATEA_INLINE u32 unite(u32 bits) const { return __reduce_or_sync(lanes, bits); }
    GALATEA_INLINE void sync() const { __syncwarp(lanes); }
};

// The calling lane alone.
struct OneLane {
    GALATEA_INLINE u32 mask() const { return 1u << lane(); }
    GALATEA_INLINE u32 count() const { return 1; }
    GALATEA_INLINE u32 place() const { return 0; }
    GALATEA_INLINE u32 leader() const { return lane(); }
    GALATEA_INLINE bool leads() const { return true; }
    GALATEA_INLINE u32 ballot(bool yes) const { return yes ? mask() : 0; }
    template <typename T> GALATEA_INLINE T shuffle(T value, u32) const { return value; }
    GALATEA_INLINE u32 match(u32) const { return mask(); }
    GALATEA_INLINE u32 unite(u32 bits) const { return bits; }
    GALATEA_INLINE void sync() const {}
};

}  // namespace galatea
