// Atomics, fences and cached loads. Everything runs in one address space on a strongly ordered CPU, so the
// scopes (_block, _system) are equivalent, and fences affect the compiler only, except across OS threads.
// Operations are relaxed if CUDA's are.

__GALATEA_INLINE void __threadfence_block() {
    asm volatile("" ::: "memory");
#if defined(GALATEA_EMULATOR_RACES)
    __galatea_rt->access(nullptr, 0, __GALATEA_FENCE, nullptr);
#endif
}
__GALATEA_INLINE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
__GALATEA_INLINE void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

#define __GALATEA_UNCOUNTED __attribute__((no_sanitize("thread"), no_sanitize_coverage))
#if defined(GALATEA_EMULATOR_COUNT) || defined(GALATEA_EMULATOR_STRESS)
#define __GALATEA_ATOMIC_FN static __attribute__((noinline)) __GALATEA_UNCOUNTED
#else
#define __GALATEA_ATOMIC_FN static inline __attribute__((always_inline))
#endif

// old = f(old): a compare-and-swap loop on the bits.
#define __GALATEA_CAS_LOOP(T, BITS, EXPRESSION)                                                                     \
    BITS seen = __atomic_load_n((BITS *)address, __ATOMIC_RELAXED);                                                 \
    T old;                                                                                                          \
    do {                                                                                                            \
        old = __galatea_bits<T>(seen);                                                                              \
    } while (!__atomic_compare_exchange_n((BITS *)address, &seen, __galatea_bits<BITS>((T)(EXPRESSION)), true,      \
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));                                     \
    __galatea_after_atomic(address, sizeof(T), (unsigned long long)__galatea_bits<BITS>(old), __GALATEA_HERE);                      \
    return old;

#define __GALATEA_FETCH(T, BUILTIN)                                                                                 \
    T old = BUILTIN(address, value, __ATOMIC_RELAXED);                                                              \
    __galatea_after_atomic(address, sizeof(T), (unsigned long long)old, __GALATEA_HERE);                                            \
    return old;

// One function per scope.
#define __GALATEA_SCOPES(NAME, T, BODY)                                                                             \
    __GALATEA_ATOMIC_FN T NAME(T *address, T value) { BODY }                                                        \
    __GALATEA_ATOMIC_FN T NAME##_block(T *address, T value) { BODY }                                                \
    __GALATEA_ATOMIC_FN T NAME##_system(T *address, T value) { BODY }

#define __GALATEA_INTEGER(T, BITS)                                                                                  \
    __GALATEA_SCOPES(atomicAdd, T, __GALATEA_FETCH(T, __atomic_fetch_add))                                          \
    __GALATEA_SCOPES(atomicAnd, T, __GALATEA_FETCH(T, __atomic_fetch_and))                                          \
    __GALATEA_SCOPES(atomicOr, T, __GALATEA_FETCH(T, __atomic_fetch_or))                                            \
    __GALATEA_SCOPES(atomicXor, T, __GALATEA_FETCH(T, __atomic_fetch_xor))                                          \
    __GALATEA_SCOPES(atomicExch, T, __GALATEA_FETCH(T, __atomic_exchange_n))                                        \
    __GALATEA_SCOPES(atomicMin, T, __GALATEA_CAS_LOOP(T, BITS, value < old ? value : old))                          \
    __GALATEA_SCOPES(atomicMax, T, __GALATEA_CAS_LOOP(T, BITS, value > old ? value : old))
__GALATEA_INTEGER(int, unsigned)
__GALATEA_INTEGER(unsigned, unsigned)
__GALATEA_INTEGER(unsigned long long, unsigned long long)
// CUDA has no atomicAdd and atomicExch for long long, but has the other operations.
__GALATEA_SCOPES(atomicAnd, long long, __GALATEA_FETCH(long long, __atomic_fetch_and))
__GALATEA_SCOPES(atomicOr, long long, __GALATEA_FETCH(long long, __atomic_fetch_or))
__GALATEA_SCOPES(atomicXor, long long, __GALATEA_FETCH(long long, __atomic_fetch_xor))
__GALATEA_SCOPES(atomicMin, long long, __GALATEA_CAS_LOOP(long long, unsigned long long, value < old ? value : old))
__GALATEA_SCOPES(atomicMax, long long, __GALATEA_CAS_LOOP(long long, unsigned long long, value > old ? value : old))
__GALATEA_SCOPES(atomicSub, int, __GALATEA_FETCH(int, __atomic_fetch_sub))
__GALATEA_SCOPES(atomicSub, unsigned, __GALATEA_FETCH(unsigned, __atomic_fetch_sub))
__GALATEA_SCOPES(atomicInc, unsigned, __GALATEA_CAS_LOOP(unsigned, unsigned, old >= value ? 0 : old + 1))
__GALATEA_SCOPES(atomicDec, unsigned, __GALATEA_CAS_LOOP(unsigned, unsigned, old == 0 || old > value ? value : old - 1))
__GALATEA_SCOPES(atomicAdd, float, __GALATEA_CAS_LOOP(float, unsigned, old + value))
__GALATEA_SCOPES(atomicAdd, double, __GALATEA_CAS_LOOP(double, unsigned long long, old + value))
__GALATEA_SCOPES(atomicExch, float, __GALATEA_CAS_LOOP(float, unsigned, value))

#define __GALATEA_CAS_BODY(T)                                                                                       \
    T old = compare;                                                                                                \
    __atomic_compare_exchange_n(address, &old, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);                   \
    __galatea_after_atomic(address, sizeof(T), (unsigned long long)old, __GALATEA_HERE);                                            \
    return old;
#define __GALATEA_CAS(T)                                                                                            \
    __GALATEA_ATOMIC_FN T atomicCAS(T *address, T compare, T value) { __GALATEA_CAS_BODY(T) }                       \
    __GALATEA_ATOMIC_FN T atomicCAS_block(T *address, T compare, T value) { __GALATEA_CAS_BODY(T) }                 \
    __GALATEA_ATOMIC_FN T atomicCAS_system(T *address, T compare, T value) { __GALATEA_CAS_BODY(T) }
__GALATEA_CAS(int)
__GALATEA_CAS(unsigned)
__GALATEA_CAS(unsigned long long)
__GALATEA_CAS(unsigned short)

// Ordered loads and stores: CUDA 12.8's built-ins, which NVRTC 13 provides without any header.
enum { __NV_ATOMIC_RELAXED = __ATOMIC_RELAXED, __NV_ATOMIC_CONSUME = __ATOMIC_CONSUME,
       __NV_ATOMIC_ACQUIRE = __ATOMIC_ACQUIRE, __NV_ATOMIC_RELEASE = __ATOMIC_RELEASE,
       __NV_ATOMIC_ACQ_REL = __ATOMIC_ACQ_REL, __NV_ATOMIC_SEQ_CST = __ATOMIC_SEQ_CST };
enum { __NV_THREAD_SCOPE_THREAD = 0, __NV_THREAD_SCOPE_BLOCK = 1, __NV_THREAD_SCOPE_CLUSTER = 2,
       __NV_THREAD_SCOPE_DEVICE = 3, __NV_THREAD_SCOPE_SYSTEM = 4 };
template <class T> __GALATEA_ATOMIC_FN T __nv_atomic_load_n(const T *address, int order, int = 4) {
    T value = order == __ATOMIC_RELAXED   ? __atomic_load_n(address, __ATOMIC_RELAXED)
              : order == __ATOMIC_SEQ_CST ? __atomic_load_n(address, __ATOMIC_SEQ_CST)
                                          : __atomic_load_n(address, __ATOMIC_ACQUIRE);
    __galatea_after_atomic(address, sizeof(T), (unsigned long long)value, __GALATEA_HERE);
    return value;
}
template <class T, class V> __GALATEA_ATOMIC_FN void __nv_atomic_store_n(T *address, V value, int order, int = 4) {
#if defined(GALATEA_EMULATOR_RACES)
    __galatea_rt->access(address, sizeof(T), __GALATEA_ATOMIC, __GALATEA_HERE);
#endif
    if (order == __ATOMIC_SEQ_CST) __atomic_store_n(address, (T)value, __ATOMIC_SEQ_CST);
    else __atomic_store_n(address, (T)value, __ATOMIC_RELEASE);
}
#define __GALATEA_NV_FETCH(NAME, BUILTIN)                                                                           \
    template <class T, class V> __GALATEA_ATOMIC_FN T NAME(T *address, V value, int, int = 4) {                     \
        T old = BUILTIN(address, (T)value, __ATOMIC_SEQ_CST);                                                       \
        __galatea_after_atomic(address, sizeof(T), (unsigned long long)old, __GALATEA_HERE);                                        \
        return old;                                                                                                 \
    }
__GALATEA_NV_FETCH(__nv_atomic_fetch_add, __atomic_fetch_add)
__GALATEA_NV_FETCH(__nv_atomic_fetch_sub, __atomic_fetch_sub)
__GALATEA_NV_FETCH(__nv_atomic_fetch_and, __atomic_fetch_and)
__GALATEA_NV_FETCH(__nv_atomic_fetch_or, __atomic_fetch_or)
__GALATEA_NV_FETCH(__nv_atomic_fetch_xor, __atomic_fetch_xor)
__GALATEA_NV_FETCH(__nv_atomic_exchange_n, __atomic_exchange_n)
template <class T> __GALATEA_ATOMIC_FN bool __nv_atomic_compare_exchange_n(T *address, T *expected, T value, bool,
                                                                           int, int, int = 4) {
    bool done = __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    __galatea_after_atomic(address, sizeof(T), (unsigned long long)*expected, __GALATEA_HERE);
    return done;
}
__GALATEA_INLINE void __nv_atomic_thread_fence(int, int = 4) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// Cache-hinted loads and stores are plain ones.
#define __GALATEA_HINTED(NAME)                                                                                      \
    template <class T> __GALATEA_INLINE T NAME(const T *address) { return *address; }
__GALATEA_HINTED(__ldg)
__GALATEA_HINTED(__ldcs)
__GALATEA_HINTED(__ldlu)
__GALATEA_HINTED(__ldca)
#define __GALATEA_HINTED_STORE(NAME)                                                                                \
    template <class T, class V> __GALATEA_INLINE void NAME(T *address, V value) { *address = value; }
__GALATEA_HINTED_STORE(__stwb)
__GALATEA_HINTED_STORE(__stcs)
__GALATEA_HINTED_STORE(__stcg)
__GALATEA_HINTED_STORE(__stwt)
// Threads wait in loops of loads that bypass L1: such a load is never kept in a register, and takes part in
// spin detection if its size is that of an atomic.
#if defined(GALATEA_EMULATOR_RACES)
// These loads may race with the stores of other threads, like those through pointers to volatile.
template <class T> __GALATEA_ATOMIC_FN T __galatea_load_fresh(const T *address) {
    __galatea_rt->access(address, sizeof(T), __GALATEA_VOLATILE_READ, __GALATEA_HERE);
    return *address;
}
#else
template <class T> __GALATEA_INLINE T __galatea_load_fresh(const T *address) { return *address; }
#endif
template <class T> __GALATEA_INLINE T __galatea_fresh(const T *address) {
    asm volatile("" ::: "memory");
    T value = __galatea_load_fresh(address);
    asm volatile("" ::: "memory");
    if constexpr (sizeof(T) <= 8) {
        unsigned long long bits = 0;
        __builtin_memcpy(&bits, &value, sizeof value);
        __galatea_thread *self = __galatea_self();
        if (self->spin_address == address && self->spin_value == bits) {
            if (++self->spin_count >= 16) {
                self->spin_count = 0;
                __galatea_rt->pause(__GALATEA_PAUSE_SPIN);
            }
        } else {
            self->spin_address = address;
            self->spin_value = bits;
            self->spin_count = 0;
        }
    }
    return value;
}
template <class T> __GALATEA_INLINE T __ldcg(const T *address) { return __galatea_fresh(address); }
template <class T> __GALATEA_INLINE T __ldcv(const T *address) { return __galatea_fresh(address); }
