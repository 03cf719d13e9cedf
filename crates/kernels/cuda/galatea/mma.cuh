// Warp scope: the matrix units, and the number format that they use.
//
// A 32-bit float is represented by two halves of 11 bits each, the nearest half and the nearest half of the
// remainder: 22 bits, if the float's magnitude is from 2^-3 to 65504; below, the error is at most 2^-25. The
// sum of all four products of two such pairs in 32-bit floats is the product of the floats, with a relative
// error of 2^-22 of its factors.
#pragma once

#include "galatea/warp.cuh"

namespace galatea {

#ifdef GALATEA_EMULATED
// The nearest half, ties to even, as bits; infinity beyond the greatest half.
GALATEA_INLINE u32 half_bits(float value) {
    const u32 bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
    if (magnitude < 0x38800000u) {
        // Below 2^-14 halves are multiples of 2^-24: adding 2^-1 leaves such a multiple in the low bits of a
        // float.
        return sign | (__float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u);
    }
    const u32 rebiased = magnitude - (112u << 23);
    return sign | (rebiased + 0xfffu + (rebiased >> 13 & 1u)) >> 13;
}
GALATEA_INLINE float half_value(u32 bits) {
    const u32 magnitude = bits & 0x7fffu;
    const float value = magnitude < 0x400u ? float(magnitude) * 0x1p-24f
                                           : __uint_as_float((magnitude << 13) + (112u << 23));
    return bits & 0x8000u ? -value : value;
}
#endif

// Thread scope. Two halves in a word, the first in its low bits, each the nearest to the float.
GALATEA_INLINE u32 pack_halves(float low, float high) {
#ifdef GALATEA_EMULATED
    return half_bits(low) | half_bits(high) << 16;
#else
    u32 packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
#endif
}

// Thread scope. The half in the low bits of a word.
GALATEA_INLINE float low_half(u32 packed) {
#ifdef GALATEA_EMULATED
    return half_value(packed & 0xffffu);
#else
    float value;
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low;}" : "=f"(value) : "r"(packed));
    return value;
#endif
}

// Thread scope. The half in the high bits of a word.
GALATEA_INLINE float high_half(u32 packed) {
#ifdef GALATEA_EMULATED
    return half_value(packed >> 16);
#else
    float value;
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high;}" : "=f"(value) : "r"(packed));
    return value;
#endif
}

// Warp scope. sum = before + A B for 16 x 16 halves A and 16 x 8 halves B; lane 4 g + t holds
//     A  (row g, columns 2t, 2t + 1), (row g + 8, the same), (row g, columns 2t + 8, 2t + 9), (row g + 8, the same)
//     B  (rows 2t, 2t + 1, column g), (rows 2t + 8, 2t + 9, column g)
//     sum, before  (row g, columns 2t, 2t + 1), (row g + 8, the same)
GALATEA_INLINE void multiply_halves(float (&sum)[4], const u32 (&a)[4], const u32 (&b)[2], const float (&before)[4]) {
#ifdef GALATEA_EMULATED
    const u32 g = lane() / 4, t = lane() % 4;
    float total[4] = {before[0], before[1], before[2], before[3]};
    for (u32 other = 0; other < 4; ++other) {
        u32 rows[4], columns[2][2];
        for (u32 i = 0; i < 4; ++i) rows[i] = __shfl_sync(0xffffffffu, a[i], 4 * g + other);
        for (u32 c = 0; c < 2; ++c)
            for (u32 i = 0; i < 2; ++i) columns[c][i] = __shfl_sync(0xffffffffu, b[i], 4 * (2 * t + c) + other);
        for (u32 row = 0; row < 2; ++row)
            for (u32 c = 0; c < 2; ++c)
                for (u32 i = 0; i < 2; ++i)
                    for (u32 shift = 0; shift < 32; shift += 16)
                        total[2 * row + c] += half_value(rows[2 * i + row] >> shift & 0xffffu) *
                                              half_value(columns[c][i] >> shift & 0xffffu);
    }
    for (u32 i = 0; i < 4; ++i) sum[i] = total[i];
#else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=f"(sum[0]), "=f"(sum[1]), "=f"(sum[2]), "=f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(before[0]), "f"(before[1]),
          "f"(before[2]), "f"(before[3]));
#endif
}

}  // namespace galatea
