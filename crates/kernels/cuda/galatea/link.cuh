// Ordered loads and stores of words that a running kernel shares with the host, or with other blocks.
//
// Over PCIe the processors cannot atomically update a shared word: each word has one writer at a time, which
// stores it whole. A reader that acquires the stored value sees all writes that precede the writer's release.
// System scope is used if the other side is the host, device scope if it is another block.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

// Loads a word that the host or any block stores. No later access of this thread is reordered before it.
GALATEA_INLINE u64 load_acquire_system(const u64* word) {
#ifdef GALATEA_EMULATED
    return __nv_atomic_load_n(word, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_SYSTEM);
#else
    u64 value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
#endif
}

GALATEA_INLINE u32 load_acquire_system(const u32* word) {
#ifdef GALATEA_EMULATED
    return __nv_atomic_load_n(word, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_SYSTEM);
#else
    u32 value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
#endif
}

// Loads such a word without any order, so that several loads can be in flight at once.
GALATEA_INLINE u64 load_relaxed_system(const u64* word) {
#ifdef GALATEA_EMULATED
    return __nv_atomic_load_n(word, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_SYSTEM);
#else
    u64 value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
#endif
}

// Stores a word that the host or any block loads, without any order: a fence before it makes it a release.
GALATEA_INLINE void store_relaxed_system(u64* word, u64 value) {
#ifdef GALATEA_EMULATED
    __nv_atomic_store_n(word, value, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_SYSTEM);
#else
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" : : "l"(word), "l"(value) : "memory");
#endif
}

// Orders all earlier accesses of this thread, and those that it has observed, before its later ones, for the
// host (`system`) or only for this device. It is not sequentially consistent, unlike __threadfence_system(),
// which is more expensive: nothing here depends on a total order of all stores.
GALATEA_INLINE void fence(bool system) {
#ifdef GALATEA_EMULATED
    __threadfence_system();
    (void)system;
#else
    if (system) {
        asm volatile("fence.acq_rel.sys;" : : : "memory");
    } else {
        asm volatile("fence.acq_rel.gpu;" : : : "memory");
    }
#endif
}

// Loads a word that another block stores. No later access of this thread is reordered before it.
GALATEA_INLINE u64 load_acquire_device(const u64* word) {
#ifdef GALATEA_EMULATED
    return __nv_atomic_load_n(word, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE);
#else
    u64 value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
#endif
}

// Starts copying 16 bytes to shared memory, both aligned; the thread continues at once.
GALATEA_INLINE void start_copy16(void* shared, const void* from) {
#ifdef GALATEA_EMULATED
    const volatile u64* source = static_cast<const volatile u64*>(from);
    static_cast<u64*>(shared)[0] = source[0];
    static_cast<u64*>(shared)[1] = source[1];
#else
    const u32 to = u32(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(to), "l"(from) : "memory");
#endif
}

// Waits for the copies that this thread has started.
GALATEA_INLINE void finish_copies() {
#ifndef GALATEA_EMULATED
    asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}

// Nanoseconds of a clock that all blocks share.
GALATEA_INLINE u64 nanoseconds() {
#ifdef GALATEA_EMULATED
    return __globaltimer();
#else
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
#endif
}

// Warp scope: called by every lane. Waits until a word indicates that a chunk is resident: its store was
// queued before the launch, after the copies of the chunk, so it will arrive. The chunk may then be read by
// any load, including one that assumes constant memory (`__ldg`): no line of it was in a cache during this
// launch before. Barriers: only the warp's, since warps may stop separately.
GALATEA_INLINE void await_arrival(const u32* arrived) {
    if ((threadIdx.x & 31u) == 0)
        while (load_acquire_system(arrived) == 0) __nanosleep(200);
    __syncwarp();
}

}  // namespace galatea
