// Prelude: the basic definitions of every device source. It includes nothing, since each standard header
// costs half a second of compilation; it compiles under NVRTC (--minimal, --device-int128) and under the
// emulated device's shim (GALATEA_EMULATED).
#pragma once

namespace galatea {

using i8 = signed char;
using i16 = short;
using i32 = int;
using i64 = long long;
using i128 = __int128;
using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using u128 = unsigned __int128;

static_assert(sizeof(i8) == 1 && sizeof(i16) == 2 && sizeof(i32) == 4 && sizeof(i64) == 8 && sizeof(i128) == 16,
              "signed integers have the width in their names");
static_assert(sizeof(u8) == 1 && sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8 && sizeof(u128) == 16,
              "unsigned integers have the width in their names");
static_assert(sizeof(void*) == 8, "addresses travel as 64-bit integers");

// The unsigned integer of the same width, for wrapping arithmetic. Other types are unchanged.
template <typename T> struct Unsigned { using Type = T; };
template <> struct Unsigned<i8> { using Type = u8; };
template <> struct Unsigned<i16> { using Type = u16; };
template <> struct Unsigned<i32> { using Type = u32; };
template <> struct Unsigned<i64> { using Type = u64; };
template <> struct Unsigned<i128> { using Type = u128; };

// Least and greatest value of a type.
template <typename T> struct Limits;
template <> struct Limits<i32> {
    __device__ static constexpr i32 least() { return -2147483647 - 1; }
    __device__ static constexpr i32 greatest() { return 2147483647; }
};
template <> struct Limits<u32> {
    __device__ static constexpr u32 least() { return 0; }
    __device__ static constexpr u32 greatest() { return 4294967295u; }
};
template <> struct Limits<i64> {
    __device__ static constexpr i64 least() { return -9223372036854775807ll - 1; }
    __device__ static constexpr i64 greatest() { return 9223372036854775807ll; }
};
template <> struct Limits<u64> {
    __device__ static constexpr u64 least() { return 0; }
    __device__ static constexpr u64 greatest() { return 18446744073709551615ull; }
};
template <> struct Limits<u128> {
    __device__ static constexpr u128 least() { return 0; }
    __device__ static constexpr u128 greatest() { return ~u128(0); }
};
template <> struct Limits<double> {
    __device__ static double least() { return __longlong_as_double(i64(0xfff0000000000000ull)); }  // -infinity
    __device__ static double greatest() { return __longlong_as_double(0x7ff0000000000000ll); }  // infinity
};

}  // namespace galatea

// A helper that is always inlined: short, or called once.
#define GALATEA_INLINE __device__ __forceinline__
// A helper that is never inlined: long, or called from many places. Compile time depends on code size after
// inlining.
#define GALATEA_NOINLINE __device__ __noinline__

namespace galatea {

// A bijection of 64-bit integers in which every output bit depends on every input bit (Stafford's variant 13
// of the murmur3 finaliser): pseudo-random values from counters, and a hash of integers.
GALATEA_INLINE u64 mix64(u64 x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

}  // namespace galatea

// Declares `unsigned char* name`, the block's dynamic shared memory, 16-byte aligned. One declaration per
// kernel.
#ifndef GALATEA_DYNAMIC_SHARED
#define GALATEA_DYNAMIC_SHARED(name)                                      \
    extern __shared__ __align__(16) unsigned char galatea_dynamic_shared[]; \
    unsigned char* const name = galatea_dynamic_shared
#endif

// Offset of a field in a struct, a constant expression.
#ifdef GALATEA_EMULATED
#define GALATEA_OFFSET(type, field) __builtin_offsetof(type, field)
#else
#define GALATEA_OFFSET(type, field) __INTADDR__(&((type*)0)->field)
#endif
