// Numbers of generated expressions: integer types, floats with the host's results, lookups of integers.
// Scope: thread. No barriers, no shared memory.
#pragma once

namespace galatea {

using u8 = unsigned char;
using i16 = short;
using i32 = int;
using u16 = unsigned short;
using u32 = unsigned int;
using i8 = signed char;
using i64 = long long;
using u64 = unsigned long long;
using i128 = __int128;
using u128 = unsigned __int128;

// Keeps the first error of a kernel; code is not 0.
static __device__ __noinline__ void galatea_raise(u32* error, u32 code) { atomicCAS(error, 0u, code); }

static __device__ __forceinline__ i128 make_i128(u64 low, u64 high) { return (i128)(((u128)high << 64) | low); }

template <typename To, typename From>
static __device__ __forceinline__ To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits are only renamed");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

static __device__ __forceinline__ double double_of_bits(u64 bits) { return bits_as<double>(bits); }
static __device__ __forceinline__ float float_of_bits(u64 bits) { return bits_as<float>((u32)bits); }

// ---- floats ----
// Results are those of x86-64 with SSE: correctly rounded, never contracted to a fused multiply-add; a NaN operand is passed on, and
// a NaN out of numbers has its sign set. Arrow compares floats by bits, so the sign of a NaN is visible.

static __device__ __noinline__ double nan_of(double a, double b) {
    const u64 quiet = 0x0008000000000000ull;
    if (a != a) return double_of_bits(bits_as<u64>(a) | quiet);
    if (b != b) return double_of_bits(bits_as<u64>(b) | quiet);
    return double_of_bits(0xfff8000000000000ull);
}
static __device__ __noinline__ float nan_of(float a, float b) {
    const u32 quiet = 0x00400000u;
    if (a != a) return float_of_bits(bits_as<u32>(a) | quiet);
    if (b != b) return float_of_bits(bits_as<u32>(b) | quiet);
    return float_of_bits(0xffc00000u);
}

#ifdef GALATEA_EMULATED
#define GALATEA_FLOAT_OPERATION(name, double_operation, float_operation, sign)                                   \
    static __device__ __forceinline__ double name(double a, double b) {                                          \
        const double r = a sign b;                                                                               \
        return r == r ? r : nan_of(a, b);                                                                        \
    }                                                                                                            \
    static __device__ __forceinline__ float name(float a, float b) {                                             \
        const float r = a sign b;                                                                                \
        return r == r ? r : nan_of(a, b);                                                                        \
    }
#else
#define GALATEA_FLOAT_OPERATION(name, double_operation, float_operation, sign)                                   \
    static __device__ __forceinline__ double name(double a, double b) {                                          \
        const double r = double_operation(a, b);                                                                 \
        return r == r ? r : nan_of(a, b);                                                                        \
    }                                                                                                            \
    static __device__ __forceinline__ float name(float a, float b) {                                             \
        const float r = float_operation(a, b);                                                                   \
        return r == r ? r : nan_of(a, b);                                                                        \
    }
#endif
GALATEA_FLOAT_OPERATION(float_add, __dadd_rn, __fadd_rn, +)
GALATEA_FLOAT_OPERATION(float_subtract, __dsub_rn, __fsub_rn, -)
GALATEA_FLOAT_OPERATION(float_multiply, __dmul_rn, __fmul_rn, *)
GALATEA_FLOAT_OPERATION(float_divide, __ddiv_rn, __fdiv_rn, /)
#undef GALATEA_FLOAT_OPERATION

static __device__ __noinline__ double float_remainder(double a, double b) {
    const double r = __builtin_fmod(a, b);
    return r == r ? r : nan_of(a, b);
}
static __device__ __noinline__ float float_remainder(float a, float b) {
    const float r = __builtin_fmodf(a, b);
    return r == r ? r : nan_of(a, b);
}

// Functions that pass a NaN on as it is.
#define GALATEA_FLOAT_FUNCTION(name, double_function, float_function)                                            \
    static __device__ __forceinline__ double name(double a) { return a == a ? double_function(a) : nan_of(a, a); } \
    static __device__ __forceinline__ float name(float a) { return a == a ? float_function(a) : nan_of(a, a); }
GALATEA_FLOAT_FUNCTION(float_ceiling, __builtin_ceil, __builtin_ceilf)
GALATEA_FLOAT_FUNCTION(float_floor, __builtin_floor, __builtin_floorf)
GALATEA_FLOAT_FUNCTION(float_truncate, __builtin_trunc, __builtin_truncf)
GALATEA_FLOAT_FUNCTION(float_round, __builtin_round, __builtin_roundf)
#undef GALATEA_FLOAT_FUNCTION

static __device__ __forceinline__ double float_absolute(double a) {
    return double_of_bits(bits_as<u64>(a) & 0x7fffffffffffffffull);
}
static __device__ __forceinline__ float float_absolute(float a) { return float_of_bits(bits_as<u32>(a) & 0x7fffffffu); }

static __device__ __forceinline__ double float_square_root(double a) {
    return a >= 0.0 ? __builtin_sqrt(a) : (a == a ? nan_of(0.0, 0.0) : nan_of(a, a));
}
static __device__ __forceinline__ float float_square_root(float a) {
    return a >= 0.0f ? __builtin_sqrtf(a) : (a == a ? nan_of(0.0f, 0.0f) : nan_of(a, a));
}

static __device__ __forceinline__ double float_sign(double a) {
    return a == a ? (a > 0.0 ? 1.0 : (a < 0.0 ? -1.0 : 0.0)) : nan_of(a, a);
}
static __device__ __forceinline__ float float_sign(float a) {
    return a == a ? (a > 0.0f ? 1.0f : (a < 0.0f ? -1.0f : 0.0f)) : nan_of(a, a);
}

// Between the two widths; the payload of a NaN keeps its leading bits.
static __device__ __forceinline__ float float_narrow(double a) {
    if (a == a) return (float)a;
    const u64 bits = bits_as<u64>(a);
    return float_of_bits((u32)(bits >> 32 & 0x80000000u) | 0x7fc00000u | (u32)(bits >> 29 & 0x3fffffu));
}
static __device__ __forceinline__ double float_widen(float a) {
    if (a == a) return (double)a;
    const u32 bits = bits_as<u32>(a);
    return double_of_bits((u64)(bits & 0x80000000u) << 32 | 0x7ff8000000000000ull | (u64)(bits & 0x3fffffu) << 29);
}

// Integers in the order of IEEE 754 totalOrder; float_key has one zero.
static __device__ __forceinline__ i64 float_total_key(double a) {
    const i64 bits = bits_as<i64>(a);
    return bits ^ (i64)((u64)(bits >> 63) >> 1);
}
static __device__ __forceinline__ i32 float_total_key(float a) {
    const i32 bits = bits_as<i32>(a);
    return bits ^ (i32)((u32)(bits >> 31) >> 1);
}
static __device__ __forceinline__ i64 float_key(double a) { return a == 0.0 ? 0 : float_total_key(a); }
static __device__ __forceinline__ i32 float_key(float a) { return a == 0.0f ? 0 : float_total_key(a); }

// ---- lookups ----

// Bit `index` of a bitmap of little-endian words.
static __device__ __forceinline__ bool table_bit(const u8* table, u32 index) {
    return (((const u32*)table)[index >> 5] >> (index & 31) & 1u) != 0;
}

// Whether a sorted table has the value.
template <typename T>
static __device__ __noinline__ bool sorted_contains(const T* table, u32 count, T value) {
    u32 low = 0, high = count;
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        if (table[middle] < value) low = middle + 1;
        else high = middle;
    }
    return low < count && table[low] == value;
}

}  // namespace galatea
