// Thread scope: operations of a single thread. No barriers, no shared memory; any thread may call any
// function here at any time.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

// N values loaded or stored by one instruction: 1, 2, 4, 8 or 16 bytes together.
template <typename T, u32 N> struct alignas(N * sizeof(T)) Vector {
    static_assert(N * sizeof(T) <= 16 && (N & (N - 1)) == 0, "one instruction moves a power of two of at most 16 bytes");
    T item[N];
};

// Values per 16-byte load.
template <typename T> struct Widest {
    static constexpr u32 COUNT = 16 / sizeof(T);
};

// Loads values [index * N, index * N + N) of an array aligned to N * sizeof(T) bytes.
template <u32 N, typename T> GALATEA_INLINE Vector<T, N> load_vector(const T* array, u64 index) {
    return reinterpret_cast<const Vector<T, N>*>(array)[index];
}

// Stores values [index * N, index * N + N) of an array aligned to N * sizeof(T) bytes.
template <u32 N, typename T> GALATEA_INLINE void store_vector(T* array, u64 index, const Vector<T, N>& values) {
    reinterpret_cast<Vector<T, N>*>(array)[index] = values;
}

// Words in shared memory, by an address that stays in a register: for a pointer into the block's dynamic
// memory, the compiler recomputes the base address for each access.
struct SharedFloats {
#ifdef GALATEA_EMULATED
    float* words;
    GALATEA_INLINE explicit SharedFloats(float* words) : words(words) {}
    // The words from an index on.
    GALATEA_INLINE SharedFloats from(u32 index) const { return SharedFloats(words + index); }
    GALATEA_INLINE float load(u32 index) const { return words[index]; }
    GALATEA_INLINE void store(u32 index, float value) const { words[index] = value; }
    GALATEA_INLINE void increment(u32 index) const { atomicAdd(reinterpret_cast<u32*>(words) + index, 1u); }
#else
    u32 address;
    GALATEA_INLINE explicit SharedFloats(float* words) {
        asm volatile("{.reg .u64 shared; cvta.to.shared.u64 shared, %1; cvt.u32.u64 %0, shared;}"
                     : "=r"(address)
                     : "l"(words));
    }
    GALATEA_INLINE SharedFloats from(u32 index) const {
        SharedFloats other = *this;
        other.address += 4 * index;
        return other;
    }
    GALATEA_INLINE float load(u32 index) const {
        float value;
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address + 4 * index) : "memory");
        return value;
    }
    GALATEA_INLINE void store(u32 index, float value) const {
        asm volatile("st.shared.f32 [%0], %1;" : : "r"(address + 4 * index), "f"(value) : "memory");
    }
    // Atomically adds 1 to the word as an integer.
    GALATEA_INLINE void increment(u32 index) const {
        asm volatile("red.shared.add.u32 [%0], 1;" : : "r"(address + 4 * index) : "memory");
    }
#endif
};

// Index of this thread in a one-dimensional grid, and the number of threads of that grid: the start and the
// step of a grid-stride loop
//     for (u64 i = grid_thread(); i < count; i += grid_threads()) ...
GALATEA_INLINE u64 grid_thread() { return u64(blockIdx.x) * blockDim.x + threadIdx.x; }
GALATEA_INLINE u64 grid_threads() { return u64(gridDim.x) * blockDim.x; }

// Associative, commutative operators with identity, for the reductions and scans of warp.cuh and block.cuh.
// Integer sums wrap; sums of double depend on the order, which is the same for the same block size.
struct Sum {
    template <typename T> GALATEA_INLINE T operator()(T a, T b) const {
        using U = typename Unsigned<T>::Type;
        return T(U(a) + U(b));
    }
    template <typename T> GALATEA_INLINE static constexpr T identity() { return T(0); }
};
struct Min {
    template <typename T> GALATEA_INLINE T operator()(T a, T b) const { return b < a ? b : a; }
    template <typename T> GALATEA_INLINE static T identity() { return Limits<T>::greatest(); }
};
struct Max {
    template <typename T> GALATEA_INLINE T operator()(T a, T b) const { return a < b ? b : a; }
    template <typename T> GALATEA_INLINE static T identity() { return Limits<T>::least(); }
};

}  // namespace galatea
