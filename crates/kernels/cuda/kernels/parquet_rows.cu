// Grid scope. Distributes the decoded values of pages to rows, a thread per row, gathers from dictionaries,
// and finds the bounds of the values.
#include "galatea/args/parquet_rows.h"
#include "galatea/block.cuh"

using namespace galatea;

namespace {

constexpr u128 SIGN = u128(1) << 127;

struct Bounds {
    u128 least = ~u128(0);
    u128 greatest = 0;
    u64 nans = 0;
    u64 values = 0;

    GALATEA_INLINE void add(i128 number) {
        const u128 key = u128(number) ^ SIGN;
        least = key < least ? key : least;
        greatest = key > greatest ? key : greatest;
    }
};

// The place of a row in the page that holds it.
struct Place {
    u32 page;
    u32 row;
};

// Finds the page of a row: the last one that begins at or before it. Empty pages precede the page of the same
// first row.
GALATEA_INLINE Place place_of(const ParquetRowsArguments& args, u64 row) {
    u32 page = 0;
    for (u32 after = args.page_count; after - page > 1;) {
        const u32 middle = page + (after - page) / 2;
        if (args.pages[middle].slot <= row) page = middle; else after = middle;
    }
    return Place{page, u32(row - args.pages[page].slot)};
}

GALATEA_INLINE void add_value(Bounds& bounds, u32 order, const u8* value) {
    switch (order) {
        case PARQUET_BYTE: bounds.add(*value); break;
        case PARQUET_SIGNED: bounds.add(*reinterpret_cast<const i64*>(value)); break;
        case PARQUET_UNSIGNED: bounds.add(*reinterpret_cast<const u64*>(value)); break;
        case PARQUET_SIGNED_128: bounds.add(*reinterpret_cast<const i128*>(value)); break;
        case PARQUET_FLOAT_32: {
            const i32 bits = *reinterpret_cast<const i32*>(value);
            if ((bits & 0x7fffffff) > 0x7f800000) ++bounds.nans; else bounds.add(bits < 0 ? bits ^ 0x7fffffff : bits);
            break;
        }
        case PARQUET_FLOAT_64: {
            constexpr i64 MAGNITUDE = 0x7fffffffffffffffll;
            const i64 bits = *reinterpret_cast<const i64*>(value);
            if ((bits & MAGNITUDE) > 0x7ff0000000000000ll) {
                ++bounds.nans;
            } else {
                bounds.add(bits < 0 ? bits ^ MAGNITUDE : bits);
            }
            break;
        }
        default: break;
    }
}

template <typename T> GALATEA_INLINE void store_row(const ParquetRowsArguments& args, u64 row, bool valid, u64 slot) {
    reinterpret_cast<T*>(args.row_values)[row] = valid ? reinterpret_cast<const T*>(args.values)[slot] : T(0);
}

}  // namespace

extern "C" __global__ void parquet_rows(const __grid_constant__ ParquetRowsArguments args) {
    __shared__ Scratch<u128> keys;
    __shared__ Scratch<u64> counts;
    Bounds bounds;
    const u64 padded = (args.rows + WARP - 1) / WARP * WARP;
    for (u64 row = grid_thread(); row < padded; row += grid_threads()) {
        bool valid = false;
        u64 slot = 0;
        u32 index = 0;
        if (row < args.rows) {
            const Place place = place_of(args, args.first_row + row);
            const ParquetPage& page = args.pages[place.page];
            u32 value = place.row;
            valid = true;
            if (page.levels != PARQUET_NO_LEVELS) {
                const u32 word = page.words + place.row / WARP;
                const u32 bits = args.validity[word];
                valid = bits >> (place.row % WARP) & 1;
                value = args.before[word] + __popc(bits & ((1u << (place.row % WARP)) - 1));
            }
            slot = page.slot + value;
            if (valid && page.encoding == PARQUET_DICTIONARY) {
                index = args.indices[slot];
                slot = page.dictionary + index;
                index += u32(page.dictionary - args.dictionary);
            }
        }
        if (args.row_validity != nullptr) {
            const u32 bits = __ballot_sync(0xffffffffu, valid);
            if (lane() == 0) args.row_validity[row / WARP] = bits;
        }
        if (row >= args.rows) continue;
        if (valid) ++bounds.values;
        if (args.kind == PARQUET_ROW_INDICES) {
            reinterpret_cast<u32*>(args.row_values)[row] = index;
        } else if (args.kind == PARQUET_ROW_STRINGS) {
            args.row_starts[row] = valid ? args.starts[slot] : nullptr;
            args.row_lengths[row] = valid ? args.lengths[slot] : 0;
        } else {
            switch (args.width) {
                case 1: store_row<u8>(args, row, valid, slot); break;
                case 4: store_row<u32>(args, row, valid, slot); break;
                case 8: store_row<u64>(args, row, valid, slot); break;
                default: store_row<u128>(args, row, valid, slot); break;
            }
            if (valid) add_value(bounds, args.order, args.values + slot * args.width);
        }
    }
    __syncthreads();
    const u128 least = block_reduce(bounds.least, Min{}, keys);
    const u128 greatest = block_reduce(bounds.greatest, Max{}, keys);
    const u64 nans = block_reduce(bounds.nans, Sum{}, counts);
    const u64 values = block_reduce(bounds.values, Sum{}, counts);
    if (threadIdx.x == 0) {
        args.bounds[blockIdx.x] = ParquetBounds{
            {u64(least), u64(least >> 64)}, {u64(greatest), u64(greatest >> 64)}, nans, values};
    }
}
