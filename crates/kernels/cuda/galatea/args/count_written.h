// Arguments of the kernel count_written.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

struct CountWrittenArguments {
    const u8* entries;
    u64 bytes;     // of all entries
    u64 width;     // bytes of an entry: 1, 2, 4 or 8
    u64 byte;      // the byte that an unwritten entry consists of
    u64* written;  // the number of written entries is added to it
};

}  // namespace galatea
