// What the body of an operator sees: one frame to read, one to write, and its threads.
#pragma once

#include "galatea/flow/catalogue.h"
#include "galatea/thread.cuh"

namespace galatea {

// A frame's work for the warps that a round gave an operator; in shared memory, the same for all of them.
//
// A body computes on virtual threads: `thread()` counts them from 0 to `threads()`, whichever warps of the
// block they are. Items are taken in strides: thread, thread + threads, ... below the number of items.
struct Work {
    const u8* frame_in;
    u8* frame_out;       // null for an operator without a next topic
    const u64* origin;   // of the input: its source offset, where it was published or in shared memory
    u64 own_parameters;
    u32 bytes_in;
    u32 capacity;        // bytes of the output frame
    u32 first_warp;
    u32 warps;
    // Written by bodies, and so apart from what they read: loads of neighbouring words become one.
    u32 bytes_out;       // what the body wrote: `bytes_in` unless it says otherwise
    u32 failure;

    // The input's items, aligned to a page; of an inline frame, to 16 bytes.
    template <typename T> GALATEA_INLINE const T* input() const { return reinterpret_cast<const T*>(frame_in); }
    template <typename T> GALATEA_INLINE u32 items() const { return bytes_in / u32(sizeof(T)); }
    // The output's room, aligned likewise. Item i of the input belongs at item i of the output, as a rule.
    template <typename T> GALATEA_INLINE T* output() const { return reinterpret_cast<T*>(frame_out); }
    // What the operator was given when the topology was made.
    template <typename T> GALATEA_INLINE const T* parameters() const {
        return reinterpret_cast<const T*>(own_parameters);
    }
    // Place of the frame among those that the source published: the same all along the pipeline.
    // Read where it was published, by one request a warp.
    GALATEA_INLINE u64 source() const { return origin[0]; }
    GALATEA_INLINE u32 thread() const { return threadIdx.x - first_warp * 32; }
    GALATEA_INLINE u32 threads() const { return warps * 32; }
    // Says how long the output is; every thread that calls it says the same.
    GALATEA_INLINE void set_output_bytes(u32 bytes) { *static_cast<volatile u32*>(&bytes_out) = bytes; }
    // Ends the topology with a code of the operator's, from 1 to 0xfffeffff.
    GALATEA_INLINE void fail(u32 code) { *static_cast<volatile u32*>(&failure) = code; }
};

// Computes each item of the input to the item of the output at its place: out[i] = f(in[i], i).
//
// Loads are of 16 bytes where items are smaller, and four are under way for a thread, since the frame may be
// on the other side of the link.
template <typename In, typename Out, typename F> GALATEA_INLINE void map(Work& work, F f) {
    constexpr u32 WIDE = sizeof(In) > sizeof(Out) ? sizeof(In) : sizeof(Out);
    constexpr u32 N = 16 / WIDE;
    constexpr u32 UNROLLED = 4;
    const In* in = work.input<In>();
    Out* out = work.output<Out>();
    const u32 items = work.items<In>();
    if (items > work.capacity / u32(sizeof(Out))) {
        // Longer than the output: an error, and nothing is written past it.
        work.set_output_bytes(work.capacity + 1);
        return;
    }
    const u32 groups = items / N;
    const u32 stride = work.threads();
    u32 group = work.thread();
    for (; group + (UNROLLED - 1) * stride < groups; group += UNROLLED * stride) {
        Vector<In, N> values[UNROLLED];
#pragma unroll
        for (u32 u = 0; u < UNROLLED; ++u) values[u] = load_vector<N>(in, group + u * stride);
#pragma unroll
        for (u32 u = 0; u < UNROLLED; ++u) {
            Vector<Out, N> results;
#pragma unroll
            for (u32 n = 0; n < N; ++n) results.item[n] = f(values[u].item[n], (group + u * stride) * N + n);
            store_vector<N>(out, group + u * stride, results);
        }
    }
    for (; group < groups; group += stride) {
        const Vector<In, N> values = load_vector<N>(in, group);
        Vector<Out, N> results;
#pragma unroll
        for (u32 n = 0; n < N; ++n) results.item[n] = f(values.item[n], group * N + n);
        store_vector<N>(out, group, results);
    }
    for (u32 item = groups * N + work.thread(); item < items; item += stride) out[item] = f(in[item], item);
    work.set_output_bytes(items * u32(sizeof(Out)));
}

}  // namespace galatea
