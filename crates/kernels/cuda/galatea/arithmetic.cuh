// Numeric functions of generated expressions: integer types, floats with the host's results, integer lookups.
// Scope: thread. No barriers, no shared memory.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

// Records the first error of a kernel; the code is not 0.
static GALATEA_NOINLINE void galatea_raise(u32* error, u32 code) { atomicCAS(error, 0u, code); }

static GALATEA_INLINE i128 make_i128(u64 low, u64 high) { return (i128)(((u128)high << 64) | low); }

// high * 2^64 + low, saturated to 128 bits; no decimal is saturated.
static GALATEA_INLINE i128 sum_of_halves(i128 high, i128 low) {
    const i128 upper = high + (low >> 64);
    if (upper == (i64)upper) return make_i128((u64)low, (u64)upper);
    return make_i128(upper < 0 ? 0ull : ~0ull, upper < 0 ? 1ull << 63 : ~0ull >> 1);
}

// The random word of TABLESAMPLE for a number: different numbers have different words. Host twin:
// galatea_engine::sample::Lots.
static GALATEA_INLINE u64 drawn_word(u64 state, u64 number) { return mix64(state + number * 0x9e3779b97f4a7c15ull); }

template <typename To, typename From> static GALATEA_INLINE To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits are only renamed");
    union {
        From from;
        To to;
    } bits{from};
    return bits.to;
}

static GALATEA_INLINE double double_of_bits(u64 bits) { return bits_as<double>(bits); }
static GALATEA_INLINE float float_of_bits(u64 bits) { return bits_as<float>((u32)bits); }

// Quotient rounded down; the divisor is positive.
template <typename T> static GALATEA_INLINE T floor_divide(T value, T divisor) {
    const T quotient = value / divisor;
    return quotient - (value - quotient * divisor < 0 ? 1 : 0);
}

// ---- floats ---- Results are those of x86-64 with SSE: correctly rounded, never contracted to a fused
// multiply-add; a NaN operand is propagated, and a NaN computed from numbers has its sign set. Arrow compares
// floats by bits, so the sign of a NaN is visible.

static GALATEA_NOINLINE double nan_of(double a, double b) {
    const u64 quiet = 0x0008000000000000ull;
    if (a != a) return double_of_bits(bits_as<u64>(a) | quiet);
    if (b != b) return double_of_bits(bits_as<u64>(b) | quiet);
    return double_of_bits(0xfff8000000000000ull);
}
static GALATEA_NOINLINE float nan_of(float a, float b) {
    const u32 quiet = 0x00400000u;
    if (a != a) return float_of_bits(bits_as<u32>(a) | quiet);
    if (b != b) return float_of_bits(bits_as<u32>(b) | quiet);
    return float_of_bits(0xffc00000u);
}

#ifdef GALATEA_EMULATED
#define GALATEA_OPERATION(sign, device_operation) a sign b
#define GALATEA_FUNCTION(host_function, device_function) host_function
#else
#define GALATEA_OPERATION(sign, device_operation) device_operation(a, b)
#define GALATEA_FUNCTION(host_function, device_function) device_function
#endif

#define GALATEA_FLOAT_OPERATION(name, type, sign, device_operation) \
    static GALATEA_INLINE type name(type a, type b) {                      \
        const type r = GALATEA_OPERATION(sign, device_operation);   \
        return r == r ? r : nan_of(a, b);                           \
    }
GALATEA_FLOAT_OPERATION(float_add, double, +, __dadd_rn)
GALATEA_FLOAT_OPERATION(float_add, float, +, __fadd_rn)
GALATEA_FLOAT_OPERATION(float_subtract, double, -, __dsub_rn)
GALATEA_FLOAT_OPERATION(float_subtract, float, -, __fsub_rn)
GALATEA_FLOAT_OPERATION(float_multiply, double, *, __dmul_rn)
GALATEA_FLOAT_OPERATION(float_multiply, float, *, __fmul_rn)
GALATEA_FLOAT_OPERATION(float_divide, double, /, __ddiv_rn)
GALATEA_FLOAT_OPERATION(float_divide, float, /, __fdiv_rn)
#undef GALATEA_FLOAT_OPERATION

static GALATEA_NOINLINE double float_remainder(double a, double b) {
    const double r = GALATEA_FUNCTION(__builtin_fmod, ::fmod)(a, b);
    return r == r ? r : nan_of(a, b);
}
static GALATEA_NOINLINE float float_remainder(float a, float b) {
    const float r = GALATEA_FUNCTION(__builtin_fmodf, ::fmodf)(a, b);
    return r == r ? r : nan_of(a, b);
}

// Functions that propagate a NaN.
#define GALATEA_FLOAT_FUNCTION(name, type, host_function, device_function) \
    static GALATEA_INLINE type name(type a) { return a == a ? GALATEA_FUNCTION(host_function, device_function)(a) : nan_of(a, a); }
GALATEA_FLOAT_FUNCTION(float_ceiling, double, __builtin_ceil, ::ceil)
GALATEA_FLOAT_FUNCTION(float_ceiling, float, __builtin_ceilf, ::ceilf)
GALATEA_FLOAT_FUNCTION(float_floor, double, __builtin_floor, ::floor)
GALATEA_FLOAT_FUNCTION(float_floor, float, __builtin_floorf, ::floorf)
GALATEA_FLOAT_FUNCTION(float_truncate, double, __builtin_trunc, ::trunc)
GALATEA_FLOAT_FUNCTION(float_truncate, float, __builtin_truncf, ::truncf)
GALATEA_FLOAT_FUNCTION(float_round, double, __builtin_round, ::round)
GALATEA_FLOAT_FUNCTION(float_round, float, __builtin_roundf, ::roundf)
#undef GALATEA_FLOAT_FUNCTION

static GALATEA_INLINE double float_truncate_to_zero(double a) { return a == 0.0 ? 0.0 : float_truncate(a); }
static GALATEA_INLINE float float_truncate_to_zero(float a) { return a == 0.0f ? 0.0f : float_truncate(a); }

// Results of the C library are not correctly rounded: the error is at most 2 units in the last place (CUDA
// C++ Programming Guide, "Mathematical Functions"). A NaN operand is propagated here, too; a NaN computed
// from a number has the sign that glibc gives it: positive for arc sine, arc cosine and common logarithm.
#define GALATEA_ELEMENTARY_NAN(name, nan) \
    static GALATEA_NOINLINE double double_##name(double a) { \
        const double r = GALATEA_FUNCTION(__builtin_##name, ::name)(a); \
        return r == r ? r : (a == a ? nan : nan_of(a, a)); \
    }
#define GALATEA_ELEMENTARY(name) GALATEA_ELEMENTARY_NAN(name, nan_of(a, a))
#define GALATEA_ELEMENTARY_2(name) \
    static GALATEA_NOINLINE double double_##name(double a, double b) { \
        const double r = GALATEA_FUNCTION(__builtin_##name, ::name)(a, b); \
        return r == r ? r : nan_of(a, b); \
    }
GALATEA_ELEMENTARY_NAN(acos, double_of_bits(0x7ff8000000000000ull))
GALATEA_ELEMENTARY_NAN(asin, double_of_bits(0x7ff8000000000000ull))
GALATEA_ELEMENTARY(atan)
GALATEA_ELEMENTARY_2(atan2)
GALATEA_ELEMENTARY(cos)
GALATEA_ELEMENTARY(cosh)
GALATEA_ELEMENTARY(exp)
GALATEA_ELEMENTARY_2(hypot)
GALATEA_ELEMENTARY(log)
GALATEA_ELEMENTARY(log2)
GALATEA_ELEMENTARY(log1p)
GALATEA_ELEMENTARY_NAN(log10, double_of_bits(0x7ff8000000000000ull))
GALATEA_ELEMENTARY_2(pow)
GALATEA_ELEMENTARY(sin)
GALATEA_ELEMENTARY(sinh)
GALATEA_ELEMENTARY(tan)
GALATEA_ELEMENTARY(tanh)
#undef GALATEA_ELEMENTARY
#undef GALATEA_ELEMENTARY_NAN
#undef GALATEA_ELEMENTARY_2
static GALATEA_INLINE double double_cot(double a) { return float_divide(1.0, double_tan(a)); }
static GALATEA_INLINE double double_logbase(double a, double base) {
    return float_divide(double_log(a), double_log(base));
}

static GALATEA_INLINE double float_absolute(double a) {
    return double_of_bits(bits_as<u64>(a) & 0x7fffffffffffffffull);
}
static GALATEA_INLINE float float_absolute(float a) { return float_of_bits(bits_as<u32>(a) & 0x7fffffffu); }

static GALATEA_INLINE double float_negate(double a) { return double_of_bits(bits_as<u64>(a) ^ 0x8000000000000000ull); }
static GALATEA_INLINE float float_negate(float a) { return float_of_bits(bits_as<u32>(a) ^ 0x80000000u); }

static GALATEA_INLINE double float_square_root(double a) {
    return a >= 0.0 ? GALATEA_FUNCTION(__builtin_sqrt, __dsqrt_rn)(a) : (a == a ? nan_of(0.0, 0.0) : nan_of(a, a));
}
static GALATEA_INLINE float float_square_root(float a) {
    return a >= 0.0f ? GALATEA_FUNCTION(__builtin_sqrtf, __fsqrt_rn)(a) : (a == a ? nan_of(0.0f, 0.0f) : nan_of(a, a));
}

static GALATEA_INLINE double float_sign(double a) {
    return a == a ? (a > 0.0 ? 1.0 : (a < 0.0 ? -1.0 : 0.0)) : double_of_bits(0x7ff8000000000000ull);
}
static GALATEA_INLINE float float_sign(float a) {
    return a == a ? (a > 0.0f ? 1.0f : (a < 0.0f ? -1.0f : 0.0f)) : float_of_bits(0x7fc00000u);
}

static GALATEA_INLINE double galatea_cbrt(double a) { return GALATEA_FUNCTION(__builtin_cbrt, ::cbrt)(a); }
static GALATEA_INLINE double galatea_fma(double a, double b, double c) {
    return GALATEA_FUNCTION(__builtin_fma, ::fma)(a, b, c);
}
#undef GALATEA_OPERATION
#undef GALATEA_FUNCTION

// Conversions between the two widths; the payload of a NaN keeps its leading bits.
static GALATEA_INLINE float float_narrow(double a) {
    if (a == a) return (float)a;
    const u64 bits = bits_as<u64>(a);
    return float_of_bits((u32)(bits >> 32 & 0x80000000u) | 0x7fc00000u | (u32)(bits >> 29 & 0x3fffffu));
}
static GALATEA_INLINE double float_widen(float a) {
    if (a == a) return (double)a;
    const u32 bits = bits_as<u32>(a);
    return double_of_bits((u64)(bits & 0x80000000u) << 32 | 0x7ff8000000000000ull | (u64)(bits & 0x3fffffu) << 29);
}

// The nearest double: the library's root, which may be off by one unit, corrected by the error of its cube in
// twice the precision.
static GALATEA_NOINLINE double double_cbrt(double a) {
    if (a == 0.0 || a - a != 0.0) return a == a ? a : nan_of(a, a);
    const double size = float_absolute(a);
    const double up = size < 1e-200 ? 0x1p300 : size > 1e200 ? 0x1p-300 : 1.0;
    const double down = size < 1e-200 ? 0x1p-100 : size > 1e200 ? 0x1p100 : 1.0;
    const double scaled = float_multiply(a, up);
    const double root = galatea_cbrt(scaled);
    const double square = float_multiply(root, root);
    const double square_rest = galatea_fma(root, root, -square);
    const double cube = float_multiply(square, root);
    const double cube_rest = float_add(galatea_fma(square, root, -cube), float_multiply(square_rest, root));
    const double rest = float_subtract(float_subtract(scaled, cube), cube_rest);
    return float_multiply(float_add(root, float_divide(rest, float_multiply(3.0, square))), down);
}
// The host's standard library computes these from other functions in the same way.
static GALATEA_NOINLINE double double_acosh(double a) {
    if (a < 1.0) return double_of_bits(0x7ff8000000000000ull);
    const double roots = float_multiply(float_square_root(float_subtract(a, 1.0)), float_square_root(float_add(a, 1.0)));
    return double_log(float_add(a, roots));
}
static GALATEA_NOINLINE double double_asinh(double a) {
    const double size = float_absolute(a);
    const double inverse = float_divide(1.0, size);
    const double part = float_divide(size, float_add(double_hypot(1.0, inverse), inverse));
    const double result = float_absolute(double_log1p(float_add(size, part)));
    return double_of_bits(bits_as<u64>(result) | (bits_as<u64>(a) & 0x8000000000000000ull));
}
static GALATEA_NOINLINE double double_atanh(double a) {
    return float_multiply(0.5, double_log1p(float_divide(float_multiply(2.0, a), float_subtract(1.0, a))));
}

// A 64-bit result, and whether it is invalid; an invalid value may be read but has no meaning.
struct Checked64 {
    i64 value;
    bool fails;
};

static GALATEA_INLINE u64 magnitude(i64 a) { return a < 0 ? 0ull - u64(a) : u64(a); }

// The common divisors of both are those of the smaller one and the remainder.
static GALATEA_NOINLINE u64 common_divisor_u64(u64 a, u64 b) {
    while (b != 0) {
        const u64 rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}
static GALATEA_INLINE Checked64 common_divisor(i64 a, i64 b) {
    const u64 divisor = common_divisor_u64(magnitude(a), magnitude(b));
    const bool fails = divisor >> 63 != 0;
    return {fails ? 0 : i64(divisor), fails};
}
static GALATEA_NOINLINE Checked64 common_multiple(i64 a, i64 b) {
    if (a == 0 || b == 0) return {0, false};
    const u64 parts = magnitude(a) / common_divisor_u64(magnitude(a), magnitude(b));
    const u128 multiple = u128(parts) * magnitude(b);
    const bool fails = multiple >> 63 != 0;
    return {fails ? 0 : i64(multiple), fails};
}

// 20! is the greatest factorial that fits 64 bits.
static GALATEA_NOINLINE Checked64 factorial(i64 a) {
    if (a < 0 || a > 20) return {0, true};
    i64 product = 1;
    for (i64 factor = 2; factor <= a; ++factor) product *= factor;
    return {product, false};
}

// Integers in the order of IEEE 754 totalOrder; float_key maps both zeros to one key, and all NaNs to one key
// above infinity.
static GALATEA_INLINE i64 float_total_key(double a) {
    const i64 bits = bits_as<i64>(a);
    return bits ^ (i64)((u64)(bits >> 63) >> 1);
}
static GALATEA_INLINE i32 float_total_key(float a) {
    const i32 bits = bits_as<i32>(a);
    return bits ^ (i32)((u32)(bits >> 31) >> 1);
}
static GALATEA_INLINE i64 float_key(double a) {
    return a == 0.0 ? 0 : a != a ? 0x7ff8000000000000ll : float_total_key(a);
}
static GALATEA_INLINE i32 float_key(float a) { return a == 0.0f ? 0 : a != a ? 0x7fc00000 : float_total_key(a); }

// ---- lookups ----

// Bit `index` of a bitmap of little-endian words.
static GALATEA_INLINE bool table_bit(const u8* table, u32 index) {
    return (((const u32*)table)[index >> 5] >> (index & 31) & 1u) != 0;
}

// Whether a sorted table contains the value.
template <typename T> static GALATEA_NOINLINE bool sorted_contains(const T* table, u32 count, T value) {
    u32 low = 0, high = count;
    while (low < high) {
        const u32 middle = low + (high - low) / 2;
        if (table[middle] < value) low = middle + 1;
        else high = middle;
    }
    return low < count && table[low] == value;
}

}  // namespace galatea
