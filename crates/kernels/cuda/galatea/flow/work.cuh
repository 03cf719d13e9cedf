// The interface of an operator's body: one frame to read, one to write, and its threads.
#pragma once

#include "galatea/flow/catalogue.h"
#include "galatea/thread.cuh"

namespace galatea {

// A frame's work for the warps that a round assigned to an operator; in shared memory, the same for all of
// them.
//
// A body computes on virtual threads: `thread()` counts them from 0 to `threads()`, whichever warps of the
// block they are. Items are processed in strides: thread, thread + threads, ... below the number of items.
struct Work {
    const u8* frame_in;
    u8* frame_out;       // null for an operator without a next topic
    const u64* origin;   // of the input: its source offset, in the published slot or in shared memory
    u64 own_parameters;
    u32 bytes_in;
    u32 capacity;        // bytes of the output frame
    u32 first_warp;
    u32 warps;
    // Written by bodies, and therefore apart from the fields that they read, so that loads of neighbouring
    // words can be combined.
    u32 bytes_out;       // bytes that the body wrote: `bytes_in` unless it sets another length
    u32 failure;

    // The input's items, aligned to a page; those of an inline frame, to 16 bytes.
    template <typename T> GALATEA_INLINE const T* input() const { return reinterpret_cast<const T*>(frame_in); }
    template <typename T> GALATEA_INLINE u32 items() const { return bytes_in / u32(sizeof(T)); }
    // The output buffer, with the same alignment. Item i of the input usually corresponds to item i of the
    // output.
    template <typename T> GALATEA_INLINE T* output() const { return reinterpret_cast<T*>(frame_out); }
    // The parameters that the operator received when the topology was built.
    template <typename T> GALATEA_INLINE const T* parameters() const {
        return reinterpret_cast<const T*>(own_parameters);
    }
    // Index of the frame among those that the source published: the same along the whole pipeline. It is read
    // from the published slot, by one request per warp.
    GALATEA_INLINE u64 source() const { return origin[0]; }
    GALATEA_INLINE u32 thread() const { return threadIdx.x - first_warp * 32; }
    GALATEA_INLINE u32 threads() const { return warps * 32; }
    // Sets the length of the output; every thread that calls it passes the same value.
    GALATEA_INLINE void set_output_bytes(u32 bytes) { *static_cast<volatile u32*>(&bytes_out) = bytes; }
    // Ends the topology with an error code of the operator, from 1 to 0xfffeffff.
    GALATEA_INLINE void fail(u32 code) { *static_cast<volatile u32*>(&failure) = code; }
};

// Computes each item of the input to the item of the output at the same index: out[i] = f(in[i], i).
//
// Loads are of 16 bytes if items are smaller, and each thread has four in flight, since the frame may be on
// the other side of the link.
template <typename In, typename Out, typename F> GALATEA_INLINE void map(Work& work, F f) {
    constexpr u32 WIDE = sizeof(In) > sizeof(Out) ? sizeof(In) : sizeof(Out);
    constexpr u32 N = 16 / WIDE;
    constexpr u32 UNROLLED = 4;
    const In* in = work.input<In>();
    Out* out = work.output<Out>();
    const u32 items = work.items<In>();
    if (items > work.capacity / u32(sizeof(Out))) {
        // Longer than the output: this is an error, and nothing is written past its end.
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
