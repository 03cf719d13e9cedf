// Strings of numbers, dates and timestamps in the format of the host. Scope: thread.
#pragma once

#include "galatea/datetime.cuh"
#include "galatea/strings.cuh"

namespace galatea {

// A short string that is written at once, such as a number or a date.
struct SmallString {
    static constexpr u32 BYTES = 48;
    u64 words[BYTES / 8];
    u32 length;
    GALATEA_INLINE SmallString() : length(0) {
#pragma unroll
        for (u32 word = 0; word < BYTES / 8; ++word) words[word] = 0;
    }
    GALATEA_INLINE void add(u32 byte) {
        reinterpret_cast<u8*>(words)[length++] = u8(byte);
    }
    // Adds the decimal digits of a number, padded with zeros to `width` digits.
    GALATEA_NOINLINE void add_number(u128 number, u32 width) {
        if (number >> 64 == 0) add_digits(u64(number), width);
        else add_digits(number, width);
    }
    // Its contents; valid while this object exists.
    GALATEA_INLINE Text text() const { return {reinterpret_cast<const u8*>(words), length}; }

private:
    template <class N> GALATEA_INLINE void add_digits(N number, u32 width) {
        u32 digits = 1;
        for (N rest = number / 10; rest != 0; rest /= 10) ++digits;
        if (digits < width) digits = width;
        for (u32 at = length + digits; at > length; number /= 10) {
            reinterpret_cast<u8*>(words)[--at] = u8('0' + u32(number % 10));
        }
        length += digits;
    }
};

static GALATEA_NOINLINE SmallString integer_string(i128 number) {
    SmallString text;
    if (number < 0) text.add('-');
    text.add_number(number < 0 ? 0 - u128(number) : u128(number), 1);
    return text;
}

// A number with its last `scale` digits after the decimal point.
static GALATEA_NOINLINE SmallString decimal_string(i128 number, u32 scale) {
    SmallString text;
    u128 point = 1;
    for (u32 digit = 0; digit < scale; ++digit) point *= 10;
    const u128 magnitude = number < 0 ? 0 - u128(number) : u128(number);
    if (number < 0) text.add('-');
    text.add_number(magnitude / point, 1);
    text.add('.');
    text.add_number(magnitude % point, scale);
    return text;
}

static GALATEA_NOINLINE SmallString hex_string(u64 number) {
    SmallString text;
    u32 digits = 1;
    while (digits < 16 && number >> 4 * digits != 0) ++digits;
    for (; digits > 0; --digits) {
        const u32 digit = u32(number >> 4 * (digits - 1)) & 15;
        text.add(digit < 10 ? '0' + digit : 'a' + digit - 10);
    }
    return text;
}

// A calendar day in ISO 8601 format.
static GALATEA_NOINLINE SmallString date_string(i32 days) {
    const CivilDate date = civil_date(days);
    SmallString text;
    if (date.year < 0) text.add('-');
    else if (date.year > 9999) text.add('+');
    text.add_number(u128(date.year < 0 ? -date.year : date.year), 4);
    text.add('-');
    text.add_number(date.month, 2);
    text.add('-');
    text.add_number(date.day, 2);
    return text;
}

// A day and the units since midnight, with 10^`digits` units per second.
static GALATEA_NOINLINE SmallString timestamp_string(i32 days, u64 units, u32 digits) {
    SmallString text = date_string(days);
    u64 per_second = 1;
    for (u32 digit = 0; digit < digits; ++digit) per_second *= 10;
    const u64 seconds = units / per_second;
    u64 fraction = units % per_second;
    text.add('T');
    text.add_number(seconds / 3600, 2);
    text.add(':');
    text.add_number(seconds / 60 % 60, 2);
    text.add(':');
    text.add_number(seconds % 60, 2);
    if (fraction == 0) return text;
    // Trailing groups of three zeros are omitted.
    for (; fraction % 1000 == 0; digits -= 3) fraction /= 1000;
    text.add('.');
    text.add_number(fraction, digits);
    return text;
}

}  // namespace galatea
