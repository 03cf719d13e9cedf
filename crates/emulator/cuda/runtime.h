// The part of the emulator's run time that device code uses. `src/abi.rs` mirrors the layout of these
// structures and asserts it. Neither this file nor any other of this folder includes a standard header: a
// compile then takes tens of milliseconds only, and NVRTC offers no standard headers either.
#define GALATEA_EMULATED 1

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;

// `__global__` and `__launch_bounds__` survive preprocessing as markers: the emulated compiler finds the
// kernels' names by them, blanks them out and appends a thunk per kernel (cuda/export.h).
#define __global__ __galatea_global_marker__
#define __launch_bounds__(...) __galatea_bounds_marker__(__VA_ARGS__)
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __inline_hint__
#if defined(GALATEA_EMULATOR_ASAN)
// The whole process runs one block at a time (the host serialises launches), so that static shared arrays are
// plain globals. AddressSanitizer surrounds those with red zones, but not thread-local ones.
#define __shared__ static
#else
// Each OS thread runs one block at a time, and the block's static shared memory is the thread's copy. At
// block scope, thread_local implies static.
#define __shared__ thread_local
#endif
#define warpSize 32

#define __GALATEA_INLINE static inline __attribute__((always_inline))
#if defined(GALATEA_EMULATOR_COUNT) || defined(GALATEA_EMULATOR_STRESS)
// Instrumented builds: the run time's own helpers must not be instrumented, so they stay out of line.
#define __GALATEA_HOOK static __attribute__((noinline, no_sanitize("thread"), no_sanitize_coverage))
#else
#define __GALATEA_HOOK static inline __attribute__((always_inline))
#endif
// The caller's position, for reports.
#define __GALATEA_SITE const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()

struct __attribute__((aligned(4))) uint3 { unsigned x, y, z; };
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
};

struct __galatea_block {
    unsigned char *dynamic_shared;
    unsigned dynamic_bytes;
    uint3 block_index;
    uint3 block_dim;
    uint3 grid_dim;
};

struct __galatea_thread {
    __galatea_block *block;
    uint3 thread_index;
    unsigned lane;
    // Spin detection: address and old value of the last atomic, and its number of repetitions.
    const volatile void *spin_address;
    unsigned long long spin_value;
    unsigned spin_count;
    // Atomics left until the fiber has to let others run.
    int fuel;
};

struct __galatea_runtime {
    unsigned long long (*collective)(unsigned operation, unsigned mask, unsigned long long value, unsigned argument,
                                     const char *file, unsigned line);
    unsigned (*barrier)(unsigned kind, unsigned id, unsigned count, unsigned predicate, const char *file,
                        unsigned line);
    void (*pause)(unsigned kind);
    void (*stop)(unsigned kind, const char *text, const char *file, unsigned line);
    unsigned long long (*clock)(unsigned kind);
    void (*access)(const volatile void *address, unsigned bytes, unsigned kind, const void *site);
};

extern "C" {
// Set by the host after loading: the offset of the current thread's pointer in the OS thread's control block.
__attribute__((visibility("default"), externally_visible)) long __galatea_self_offset;
__attribute__((visibility("default"), externally_visible)) const __galatea_runtime *__galatea_rt;
}

// One call of a device function runs in one fiber, so the compiler may keep the pointer across calls: the asm
// is not volatile and does not clobber memory.
__GALATEA_INLINE __galatea_thread *__galatea_self() {
    __galatea_thread *self;
#if defined(__x86_64__)
    asm("movq %%fs:(%1), %0" : "=r"(self) : "r"(__galatea_self_offset));
#else
#error "the emulated device runs on x86-64 only"
#endif
    return self;
}

// Read-only, as in CUDA.
#define threadIdx ((const uint3 &)__galatea_self()->thread_index)
#define blockIdx ((const uint3 &)__galatea_self()->block->block_index)
#define blockDim ((const uint3 &)__galatea_self()->block->block_dim)
#define gridDim ((const uint3 &)__galatea_self()->block->grid_dim)

// Dynamic shared memory is rounded up to 16 bytes and ends at a guard page.
#define GALATEA_DYNAMIC_SHARED(name) unsigned char *name = __galatea_self()->block->dynamic_shared

// Kinds of `pause`, `stop`, `clock` and `access`; see src/abi.rs.
enum { __GALATEA_PAUSE_SPIN = 0, __GALATEA_PAUSE_SLEEP = 1, __GALATEA_PAUSE_STRESS = 2 };
enum { __GALATEA_STOP_TRAP = 0, __GALATEA_STOP_ASSERT = 1 };
enum { __GALATEA_READ = 0, __GALATEA_WRITE = 1, __GALATEA_ATOMIC = 2, __GALATEA_VOLATILE_READ = 3,
       __GALATEA_VOLATILE_WRITE = 4, __GALATEA_FENCE = 5 };

// Called after every atomic on which a thread may spin: lets other fibers run if the same location repeatedly
// returns the same value. The site is the caller's return address if atomics are not inlined.
#define __GALATEA_HERE __builtin_return_address(0)
__GALATEA_HOOK void __galatea_after_atomic(const volatile void *address, unsigned bytes, unsigned long long old,
                                           const void *site) {
    __galatea_thread *self = __galatea_self();
#if defined(GALATEA_EMULATOR_COUNT)
    __galatea_rt->access(address, bytes, __GALATEA_ATOMIC, site);
#endif
    (void)bytes, (void)site;
    if (self->spin_address == address && self->spin_value == old) {
        if (++self->spin_count >= 16) {
            self->spin_count = 0;
            __galatea_rt->pause(__GALATEA_PAUSE_SPIN);
        }
    } else {
        self->spin_address = address;
        self->spin_value = old;
        self->spin_count = 0;
        if (--self->fuel <= 0) {
            self->fuel = 1024;
            __galatea_rt->pause(__GALATEA_PAUSE_SPIN);
        }
    }
}

__GALATEA_INLINE void __trap() { __galatea_rt->stop(__GALATEA_STOP_TRAP, "__trap()", "", 0); __builtin_unreachable(); }
__GALATEA_INLINE void __brkpt() { __galatea_rt->stop(__GALATEA_STOP_TRAP, "__brkpt()", "", 0); }
__GALATEA_INLINE void __galatea_assert_failed(const char *text, const char *file, unsigned line) {
    __galatea_rt->stop(__GALATEA_STOP_ASSERT, text, file, line);
    __builtin_unreachable();
}
#ifndef NDEBUG
#define assert(condition) \
    ((condition) ? (void)0 : __galatea_assert_failed(#condition, __FILE__, __LINE__))
#else
#define assert(condition) ((void)0)
#endif
#define __assume(condition) do { if (!(condition)) __builtin_unreachable(); } while (0)
#define __builtin_assume(condition) __assume(condition)

extern "C" int printf(const char *format, ...);
extern "C" void *memcpy(void *to, const void *from, size_t bytes) noexcept;
extern "C" void *memmove(void *to, const void *from, size_t bytes) noexcept;
extern "C" void *memset(void *to, int value, size_t bytes) noexcept;
extern "C" int memcmp(const void *left, const void *right, size_t bytes) noexcept;

__GALATEA_INLINE long long clock64() { return (long long)__galatea_rt->clock(0); }
typedef long clock_t;
__GALATEA_INLINE clock_t clock() { return (clock_t)(int)__galatea_rt->clock(0); }
__GALATEA_INLINE unsigned long long __globaltimer() { return __galatea_rt->clock(1); }
__GALATEA_INLINE unsigned long long globaltimer() { return __galatea_rt->clock(1); }
__GALATEA_INLINE void __nanosleep(unsigned) { __galatea_rt->pause(__GALATEA_PAUSE_SLEEP); }
