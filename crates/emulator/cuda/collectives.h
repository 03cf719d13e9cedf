// Warp collectives and barriers: all of them are rendezvous in the run time.

// Operations of `collective`; see src/abi.rs.
enum {
    __GALATEA_SYNCWARP = 0, __GALATEA_SHFL, __GALATEA_SHFL_UP, __GALATEA_SHFL_DOWN, __GALATEA_SHFL_XOR,
    __GALATEA_BALLOT, __GALATEA_ANY, __GALATEA_ALL, __GALATEA_MATCH_ANY, __GALATEA_MATCH_ALL,
    __GALATEA_REDUCE_ADD, __GALATEA_REDUCE_MIN, __GALATEA_REDUCE_MAX, __GALATEA_REDUCE_MIN_SIGNED,
    __GALATEA_REDUCE_MAX_SIGNED, __GALATEA_REDUCE_AND, __GALATEA_REDUCE_OR, __GALATEA_REDUCE_XOR,
};
enum { __GALATEA_BARRIER_SYNC = 0, __GALATEA_BARRIER_COUNT, __GALATEA_BARRIER_AND, __GALATEA_BARRIER_OR,
       __GALATEA_BARRIER_NAMED, __GALATEA_BARRIER_ARRIVE };

__GALATEA_INLINE void __syncwarp(unsigned mask = 0xffffffffu, __GALATEA_SITE) {
    __galatea_rt->collective(__GALATEA_SYNCWARP, mask, 0, 0, file, line);
}
// Convergence is not guaranteed: a mask of the caller alone is always correct.
__GALATEA_INLINE unsigned __activemask() { return 1u << __galatea_self()->lane; }

// The source lane, delta or lane mask in the low half, the width in the high half.
#define __GALATEA_SHFL4(T, BITS)                                                                                    \
    __GALATEA_INLINE T __shfl_sync(unsigned mask, T v, int source, int width = 32, __GALATEA_SITE) {                \
        return __galatea_bits<T>((BITS)__galatea_rt->collective(__GALATEA_SHFL, mask, __galatea_bits<BITS>(v),      \
                                 ((unsigned)source & 0xffffu) | (unsigned)width << 16, file, line));                \
    }                                                                                                               \
    __GALATEA_INLINE T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32, __GALATEA_SITE) {         \
        return __galatea_bits<T>((BITS)__galatea_rt->collective(__GALATEA_SHFL_UP, mask, __galatea_bits<BITS>(v),   \
                                 (delta & 0xffffu) | (unsigned)width << 16, file, line));                           \
    }                                                                                                               \
    __GALATEA_INLINE T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32, __GALATEA_SITE) {       \
        return __galatea_bits<T>((BITS)__galatea_rt->collective(__GALATEA_SHFL_DOWN, mask, __galatea_bits<BITS>(v), \
                                 (delta & 0xffffu) | (unsigned)width << 16, file, line));                           \
    }                                                                                                               \
    __GALATEA_INLINE T __shfl_xor_sync(unsigned mask, T v, int lanes, int width = 32, __GALATEA_SITE) {             \
        return __galatea_bits<T>((BITS)__galatea_rt->collective(__GALATEA_SHFL_XOR, mask, __galatea_bits<BITS>(v),  \
                                 ((unsigned)lanes & 0xffffu) | (unsigned)width << 16, file, line));                 \
    }
__GALATEA_SHFL4(int, unsigned)
__GALATEA_SHFL4(unsigned, unsigned)
__GALATEA_SHFL4(float, unsigned)
__GALATEA_SHFL4(long, unsigned long long)
__GALATEA_SHFL4(unsigned long, unsigned long long)
__GALATEA_SHFL4(long long, unsigned long long)
__GALATEA_SHFL4(unsigned long long, unsigned long long)
__GALATEA_SHFL4(double, unsigned long long)

__GALATEA_INLINE unsigned __ballot_sync(unsigned mask, int predicate, __GALATEA_SITE) {
    return (unsigned)__galatea_rt->collective(__GALATEA_BALLOT, mask, predicate != 0, 0, file, line);
}
__GALATEA_INLINE int __any_sync(unsigned mask, int predicate, __GALATEA_SITE) {
    return (int)__galatea_rt->collective(__GALATEA_ANY, mask, predicate != 0, 0, file, line);
}
__GALATEA_INLINE int __all_sync(unsigned mask, int predicate, __GALATEA_SITE) {
    return (int)__galatea_rt->collective(__GALATEA_ALL, mask, predicate != 0, 0, file, line);
}

#define __GALATEA_MATCH(T, BITS)                                                                                    \
    __GALATEA_INLINE unsigned __match_any_sync(unsigned mask, T v, __GALATEA_SITE) {                                \
        return (unsigned)__galatea_rt->collective(__GALATEA_MATCH_ANY, mask, __galatea_bits<BITS>(v), 0, file, line); \
    }                                                                                                               \
    __GALATEA_INLINE unsigned __match_all_sync(unsigned mask, T v, int *all, __GALATEA_SITE) {                      \
        unsigned equal = (unsigned)__galatea_rt->collective(__GALATEA_MATCH_ALL, mask, __galatea_bits<BITS>(v), 0,  \
                                                            file, line);                                            \
        *all = equal != 0;                                                                                          \
        return equal;                                                                                               \
    }
__GALATEA_MATCH(int, unsigned)
__GALATEA_MATCH(unsigned, unsigned)
__GALATEA_MATCH(float, unsigned)
__GALATEA_MATCH(long, unsigned long long)
__GALATEA_MATCH(unsigned long, unsigned long long)
__GALATEA_MATCH(long long, unsigned long long)
__GALATEA_MATCH(unsigned long long, unsigned long long)
__GALATEA_MATCH(double, unsigned long long)

#define __GALATEA_REDUCE(NAME, T, OPERATION)                                                                        \
    __GALATEA_INLINE T NAME(unsigned mask, T v, __GALATEA_SITE) {                                                   \
        return (T)__galatea_rt->collective(OPERATION, mask, (unsigned)v, 0, file, line);                            \
    }
__GALATEA_REDUCE(__reduce_add_sync, unsigned, __GALATEA_REDUCE_ADD)
__GALATEA_REDUCE(__reduce_add_sync, int, __GALATEA_REDUCE_ADD)
__GALATEA_REDUCE(__reduce_min_sync, unsigned, __GALATEA_REDUCE_MIN)
__GALATEA_REDUCE(__reduce_min_sync, int, __GALATEA_REDUCE_MIN_SIGNED)
__GALATEA_REDUCE(__reduce_max_sync, unsigned, __GALATEA_REDUCE_MAX)
__GALATEA_REDUCE(__reduce_max_sync, int, __GALATEA_REDUCE_MAX_SIGNED)
__GALATEA_REDUCE(__reduce_and_sync, unsigned, __GALATEA_REDUCE_AND)
__GALATEA_REDUCE(__reduce_or_sync, unsigned, __GALATEA_REDUCE_OR)
__GALATEA_REDUCE(__reduce_xor_sync, unsigned, __GALATEA_REDUCE_XOR)

__GALATEA_INLINE void __syncthreads(__GALATEA_SITE) {
    __galatea_rt->barrier(__GALATEA_BARRIER_SYNC, 0, 0, 0, file, line);
}
__GALATEA_INLINE int __syncthreads_count(int predicate, __GALATEA_SITE) {
    return (int)__galatea_rt->barrier(__GALATEA_BARRIER_COUNT, 0, 0, predicate != 0, file, line);
}
__GALATEA_INLINE int __syncthreads_and(int predicate, __GALATEA_SITE) {
    return (int)__galatea_rt->barrier(__GALATEA_BARRIER_AND, 0, 0, predicate != 0, file, line);
}
__GALATEA_INLINE int __syncthreads_or(int predicate, __GALATEA_SITE) {
    return (int)__galatea_rt->barrier(__GALATEA_BARRIER_OR, 0, 0, predicate != 0, file, line);
}
// `bar.sync id, count` and `bar.arrive id, count`: id 1..15, count in threads.
__GALATEA_INLINE void __galatea_named_barrier(unsigned id, unsigned count, __GALATEA_SITE) {
    __galatea_rt->barrier(__GALATEA_BARRIER_NAMED, id, count, 0, file, line);
}
__GALATEA_INLINE void __galatea_named_barrier_arrive(unsigned id, unsigned count, __GALATEA_SITE) {
    __galatea_rt->barrier(__GALATEA_BARRIER_ARRIVE, id, count, 0, file, line);
}
