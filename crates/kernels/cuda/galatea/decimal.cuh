// 128-bit integers with overflow detection, and division with a rounding direction. Scope: thread.
#pragma once

#include "galatea/arithmetic.cuh"

namespace galatea {

// A result modulo 2^128, and whether it overflowed.
struct Checked {
    i128 value;
    bool overflow;
};

static GALATEA_INLINE Checked checked_add(i128 a, i128 b) {
    const i128 value = (i128)((u128)a + (u128)b);
    return {value, ((a ^ value) & (b ^ value)) < 0};
}

static GALATEA_INLINE Checked checked_subtract(i128 a, i128 b) {
    const i128 value = (i128)((u128)a - (u128)b);
    return {value, ((a ^ b) & (a ^ value)) < 0};
}

// The product of the magnitudes in 64-bit halves: one high half has to be 0.
static GALATEA_NOINLINE Checked checked_multiply(i128 a, i128 b) {
    const bool negative = (a < 0) != (b < 0);
    const u128 x = a < 0 ? 0 - (u128)a : (u128)a;
    const u128 y = b < 0 ? 0 - (u128)b : (u128)b;
    const u64 x_high = (u64)(x >> 64), y_high = (u64)(y >> 64);
    const u128 cross = (u128)x_high * (u64)y + (u128)y_high * (u64)x;
    const u128 low = (u128)(u64)x * (u64)y;
    const u128 product = low + (cross << 64);
    const u128 limit = ((u128)1 << 127) - (negative ? 0 : 1);
    const bool overflow = (x_high != 0 && y_high != 0) || (cross >> 64) != 0 || product < low || product > limit;
    return {(i128)(negative ? 0 - product : product), overflow};
}

// Quotient rounded, halves away from zero; the divisor is positive and even.
template <typename T> static GALATEA_INLINE T divide_rounded(T value, T divisor) {
    const T quotient = value / divisor, remainder = value - quotient * divisor, half = divisor / 2;
    return quotient + (remainder >= half ? 1 : 0) - (remainder <= -half ? 1 : 0);
}

}  // namespace galatea
