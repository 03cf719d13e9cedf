// The proleptic Gregorian calendar over days since 1970-01-01. Scope: thread. Valid for days of the years
// -262143 to 262142. Algorithms: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms"; years start in
// March, eras are 400 years, and all dates are shifted by 670 eras so that every division is unsigned.
#pragma once

#include "galatea/arithmetic.cuh"

namespace galatea {

struct CivilDate {
    i32 year;
    u32 month;  // 1 to 12
    u32 day;    // 1 to 31
};

static constexpr i32 CALENDAR_ERAS = 670;
static constexpr i32 CALENDAR_SHIFT = 719468 + CALENDAR_ERAS * 146097;

static GALATEA_NOINLINE CivilDate civil_date(i32 days) {
    const u32 shifted = (u32)(days + CALENDAR_SHIFT);
    const u32 era = shifted / 146097u, day_of_era = shifted - era * 146097u;
    const u32 year_of_era = (day_of_era - day_of_era / 1460u + day_of_era / 36524u - day_of_era / 146096u) / 365u;
    const u32 day_of_year = day_of_era - (365u * year_of_era + year_of_era / 4u - year_of_era / 100u);
    const u32 month_index = (5u * day_of_year + 2u) / 153u;
    const u32 month = month_index < 10u ? month_index + 3u : month_index - 9u;
    const i32 year = (i32)(year_of_era + era * 400u) - CALENDAR_ERAS * 400 + (month <= 2u ? 1 : 0);
    return {year, month, day_of_year - (153u * month_index + 2u) / 5u + 1u};
}

static GALATEA_NOINLINE i32 days_of_date(i32 year, u32 month, u32 day) {
    const u32 shifted = (u32)(year - (month <= 2u ? 1 : 0) + CALENDAR_ERAS * 400);
    const u32 era = shifted / 400u, year_of_era = shifted - era * 400u;
    const u32 month_index = month > 2u ? month - 3u : month + 9u;
    const u32 day_of_year = (153u * month_index + 2u) / 5u + day - 1u;
    const u32 day_of_era = year_of_era * 365u + year_of_era / 4u - year_of_era / 100u + day_of_year;
    return (i32)(era * 146097u + day_of_era) - CALENDAR_SHIFT;
}

// The day of year, month and day, if it exists.
static GALATEA_NOINLINE Checked64 date_of(i64 year, i64 month, i64 day) {
    if (year < -262143 || year > 262142 || month < 1 || month > 12 || day < 1) return {0, true};
    const i32 first = days_of_date((i32)year, (u32)month, 1u);
    const i32 next = month == 12 ? days_of_date((i32)year + 1, 1u, 1u) : days_of_date((i32)year, (u32)month + 1u, 1u);
    if (day > next - first) return {0, true};
    return {first + day - 1, false};
}
// The second of a day at an hour, minute and second, if it exists.
static GALATEA_INLINE Checked64 time_of(i64 hour, i64 minute, i64 second) {
    const bool fails = hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59;
    return {fails ? 0 : (hour * 60 + minute) * 60 + second, fails};
}

// Monday is 0.
static GALATEA_INLINE i32 date_weekday(i32 days) { return (i32)((u32)(days + 98000003) % 7u); }

static GALATEA_INLINE i32 date_year(i32 days) { return civil_date(days).year; }
static GALATEA_INLINE i32 date_month(i32 days) { return (i32)civil_date(days).month; }
static GALATEA_INLINE i32 date_day(i32 days) { return (i32)civil_date(days).day; }
static GALATEA_INLINE i32 date_quarter(i32 days) { return (i32)((civil_date(days).month - 1u) / 3u + 1u); }
static GALATEA_INLINE i32 date_day_of_year(i32 days) { return days - days_of_date(date_year(days), 1, 1) + 1; }
static GALATEA_INLINE i32 date_day_of_week(i32 days) { return (date_weekday(days) + 1) % 7; }
static GALATEA_INLINE i32 date_iso_day_of_week(i32 days) { return date_weekday(days) + 1; }

// The year and week of ISO 8601 are those of the week's Thursday.
static GALATEA_INLINE i32 date_iso_year(i32 days) { return date_year(days - date_weekday(days) + 3); }
static GALATEA_INLINE i32 date_iso_week(i32 days) {
    return (date_day_of_year(days - date_weekday(days) + 3) - 1) / 7 + 1;
}

static GALATEA_INLINE i32 date_week_start(i32 days) { return days - date_weekday(days); }
static GALATEA_INLINE i32 date_month_start(i32 days) { return days - date_day(days) + 1; }
static GALATEA_INLINE i32 date_quarter_start(i32 days) {
    const CivilDate date = civil_date(days);
    return days_of_date(date.year, (date.month - 1u) / 3u * 3u + 1u, 1);
}
static GALATEA_INLINE i32 date_year_start(i32 days) { return days_of_date(date_year(days), 1, 1); }

// The same day `months` later (or earlier), or the last day of that month. The result is outside the calendar
// if the month is.
static GALATEA_NOINLINE i32 date_add_months(i32 days, i32 months) {
    const CivilDate date = civil_date(days);
    const i64 total = (i64)date.year * 12 + (i64)date.month - 1 + months;
    i64 year = total / 12;
    year -= total < year * 12 ? 1 : 0;
    if (year < -262143) return -96465293;
    if (year > 262142) return 95026237;
    const u32 month = (u32)(total - year * 12) + 1u;
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    const u32 length = month == 2u ? (leap ? 29u : 28u) : 30u + ((month + (month >> 3)) & 1u);
    return days_of_date((i32)year, month, date.day < length ? date.day : length);
}

// The bin boundary at or before `value`, with boundaries `stride` apart and one at `origin`; does not
// overflow if date_bin_fits.
static GALATEA_INLINE i64 date_bin(i64 value, i64 stride, i64 origin) {
    const i128 distance = i128(value) - origin, rest = distance % stride;
    return i64(distance - rest - (rest < 0 ? i128(stride) : i128(0)) + origin);
}

// Whether a host that computes the boundary stays within 64 bits throughout.
static GALATEA_NOINLINE bool date_bin_fits(i64 value, i64 stride, i64 origin) {
    const auto fits = [](i128 units) { return units == i128(i64(units)); };
    const i128 distance = i128(value) - origin, rest = distance % stride;
    const i128 bin = distance - rest - (rest < 0 ? i128(stride) : i128(0));
    return fits(distance) && fits(bin) && fits(bin + origin);
}

// The bin boundary at or before `value`, with boundaries `months` months apart and one at `origin`, and `day`
// units a day; fails if the value or a boundary is outside the calendar, or 64 bits do not hold the result.
static GALATEA_NOINLINE Checked64 date_bin_months(i64 value, i64 months, i64 origin, i64 day) {
    // The days of the years -262143 to 262142, and more months than these years have.
    const i64 first_day = -96465292, last_day = 95026236, most_months = 7000000;
    const i64 value_day = floor_divide(value, day);
    if (value_day < first_day || value_day > last_day) return {0, true};
    const i32 from = (i32)floor_divide(origin, day);
    const i64 rest = origin - from * day;
    const CivilDate of_value = civil_date((i32)value_day), of_origin = civil_date(from);
    const i64 distance = (i64(of_value.year) - of_origin.year) * 12 + (i64)of_value.month - (i64)of_origin.month;
    i64 shift = floor_divide(distance, months) * months;
    for (i32 attempt = 0; attempt < 2; ++attempt, shift -= months) {
        if (shift < -most_months || shift > most_months) return {0, true};
        const i32 start = date_add_months(from, (i32)shift);
        if (start < first_day || start > last_day) return {0, true};
        const i128 cut = i128(start) * day + rest;
        if (cut <= value) return {i64(cut), cut != i128(i64(cut))};
    }
    return {0, true};
}

}  // namespace galatea
