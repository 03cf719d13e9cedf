// Grid scope. Converts the values of a column, in the order of a window, to the inputs of frame aggregates.
#include "galatea/aggregate.cuh"
#include "galatea/args/window_values.h"
#include "galatea/thread.cuh"

using namespace galatea;

namespace {

GALATEA_INLINE i128 integer(const WindowValuesArguments& args, u64 row) {
    switch (args.entry) {
        case WindowEntry::U8: return args.entries[row];
        case WindowEntry::I16: return reinterpret_cast<const i16*>(args.entries)[row];
        case WindowEntry::I32: return reinterpret_cast<const i32*>(args.entries)[row];
        case WindowEntry::I64: return reinterpret_cast<const i64*>(args.entries)[row];
        default: return reinterpret_cast<const i128*>(args.entries)[row];
    }
}

GALATEA_INLINE bool is_float(const WindowValuesArguments& args) {
    return args.entry == WindowEntry::F32 || args.entry == WindowEntry::F64;
}

GALATEA_INLINE double number(const WindowValuesArguments& args, u64 row) {
    if (args.entry == WindowEntry::F32) return double(reinterpret_cast<const float*>(args.entries)[row]);
    return reinterpret_cast<const double*>(args.entries)[row];
}

GALATEA_INLINE u64 rank(const WindowValuesArguments& args, u64 row) {
    return is_float(args) ? rank_f64(number(args, row)) : rank_i64(i64(integer(args, row)));
}

GALATEA_INLINE u128 wide_rank(const WindowValuesArguments& args, u64 row) {
    return u128(integer(args, row)) ^ (u128(1) << 127);
}

}  // namespace

extern "C" __global__ void window_values(const __grid_constant__ WindowValuesArguments args) {
    for (u64 place = grid_thread(); place < args.rows; place += grid_threads()) {
        const u64 row = args.ids == nullptr ? place : args.ids[place];
        const bool null = args.nulls != nullptr && (args.nulls[row >> 5] >> (row & 31u) & 1u) != 0;
        u64* const narrow = reinterpret_cast<u64*>(args.values) + place;
        u128* const wide = reinterpret_cast<u128*>(args.values) + place;
        switch (args.value) {
            case WindowValue::Valid: reinterpret_cast<u32*>(args.values)[place] = null ? 0 : 1; break;
            case WindowValue::Integer: *narrow = null ? 0 : u64(integer(args, row)); break;
            case WindowValue::WideInteger: *wide = null ? u128(0) : u128(integer(args, row)); break;
            case WindowValue::Float: *narrow = null ? 0 : u64(__double_as_longlong(number(args, row))); break;
            case WindowValue::Rank: *narrow = null ? 0 : rank(args, row); break;
            case WindowValue::ComplementedRank: *narrow = null ? 0 : ~rank(args, row); break;
            case WindowValue::WideRank: *wide = null ? u128(0) : wide_rank(args, row); break;
            case WindowValue::ComplementedWideRank: *wide = null ? u128(0) : ~wide_rank(args, row); break;
        }
    }
}
