// Thread scope: the plain device form of values of Parquet's physical types.
#pragma once

#include "galatea/parquet/page.cuh"

namespace galatea {

// Source and target of a conversion. Host twin: crates/kernels/src/kernels/parquet/page.rs.
enum ParquetForm : u32 {
    PARQUET_SIGNED_32 = 0,    // INT32 -> i64
    PARQUET_UNSIGNED_32 = 1,  // INT32 -> u64
    PARQUET_INTEGER_64 = 2,   // INT64 -> i64 or u64
    PARQUET_FLOAT = 3,        // FLOAT -> float
    PARQUET_DOUBLE = 4,       // DOUBLE -> double
    PARQUET_HALF = 5,         // FIXED_LEN_BYTE_ARRAY(2) -> float
    PARQUET_BIG_ENDIAN_64 = 6,   // up to 8 bytes, big-endian -> i64
    PARQUET_BIG_ENDIAN_128 = 7,  // up to 16 bytes, big-endian -> i128
    PARQUET_INT96 = 8,        // nanoseconds of a day, Julian day -> i64 since 1970 in units of `unit` ns
    PARQUET_BOOLEAN = 9,      // bit -> byte
};

// The float with the value of a half.
GALATEA_INLINE u32 float_of_half(u32 half) {
    const u32 sign = (half & 0x8000) << 16;
    u32 exponent = half >> 10 & 31;
    u32 fraction = half & 0x3ff;
    if (exponent == 31) return sign | 0x7f800000 | fraction << 13;
    if (exponent == 0) {
        if (fraction == 0) return sign;
        exponent = 1;
        while ((fraction & 0x400) == 0) {
            fraction <<= 1;
            --exponent;
        }
        fraction &= 0x3ff;
    }
    return sign | (exponent + 112) << 23 | fraction << 13;
}

// The time of an INT96: wraps as 64-bit arithmetic does.
GALATEA_INLINE u64 time_of_int96(u64 nanoseconds, u32 day, u64 unit) {
    const u64 units_of_a_day = 86400000000000ull / unit;
    const u64 days = u64(i64(i32(day))) - 2440588ull;
    return days * units_of_a_day + u64(i64(nanoseconds) / i64(unit));
}

// Stores a value from its bytes, byte i at `bytes[i * stride]`, `length` of them.
GALATEA_INLINE void store_form(u32 form, u64 unit, const u8* bytes, u64 stride, u32 length, void* values, u64 slot) {
    if (form == PARQUET_BIG_ENDIAN_64 || form == PARQUET_BIG_ENDIAN_128) {
        i128 number = length > 0 && bytes[0] >= 128 ? -1 : 0;
        for (u32 byte = 0; byte < length; ++byte) number = i128(u128(number) << 8 | bytes[byte * stride]);
        if (form == PARQUET_BIG_ENDIAN_64) {
            static_cast<i64*>(values)[slot] = i64(number);
        } else {
            static_cast<i128*>(values)[slot] = number;
        }
        return;
    }
    // The other forms have at most 12 bytes, little-endian.
    u64 low = 0;
    u32 high = 0;
    if (stride == 1) {
        low = load_word(bytes);
        if (length >= 8) low |= u64(load_word(bytes + 4)) << 32;
        if (length >= 12) high = load_word(bytes + 8);
    } else {
        for (u32 byte = 0; byte < length && byte < 8; ++byte) low |= u64(bytes[byte * stride]) << (8 * byte);
        for (u32 byte = 8; byte < length; ++byte) high |= u32(bytes[byte * stride]) << (8 * (byte - 8));
    }
    switch (form) {
        case PARQUET_SIGNED_32: static_cast<i64*>(values)[slot] = i32(u32(low)); break;
        case PARQUET_UNSIGNED_32: static_cast<u64*>(values)[slot] = u32(low); break;
        case PARQUET_FLOAT: static_cast<u32*>(values)[slot] = u32(low); break;
        case PARQUET_HALF: static_cast<u32*>(values)[slot] = float_of_half(u32(low) & 0xffff); break;
        case PARQUET_INT96: static_cast<u64*>(values)[slot] = time_of_int96(low, high, unit); break;
        default: static_cast<u64*>(values)[slot] = low; break;
    }
}

}  // namespace galatea
