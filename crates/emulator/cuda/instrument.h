// Instrumented builds. g++ emits ThreadSanitizer's callbacks (a call before every load and store) and, under
// stress, a call per basic block. libtsan is not linked: this file defines the callbacks, which must not be
// instrumented themselves.
#if defined(GALATEA_EMULATOR_COUNT) || defined(GALATEA_EMULATOR_STRESS)
// False while the module is being loaded, and outside of device threads.
__GALATEA_INLINE bool __galatea_running() { return __galatea_rt != nullptr && __galatea_self() != nullptr; }
#if defined(GALATEA_EMULATOR_STRESS)
__GALATEA_INLINE void __galatea_step() {
    if (!__galatea_running()) return;
    if (--__galatea_self()->fuel <= 0) __galatea_rt->pause(__GALATEA_PAUSE_STRESS);
}
#else
#define __galatea_step() ((void)0)
#endif
#if defined(GALATEA_EMULATOR_COUNT)
#define __galatea_count(address, bytes, kind)                                                                       \
    (__galatea_running() ? __galatea_rt->access(address, bytes, kind, __builtin_return_address(0)) : (void)0)
#else
#define __galatea_count(address, bytes, kind) ((void)0)
#endif
extern "C" {
#define __GALATEA_CALLBACK __attribute__((visibility("hidden"), used, noinline, externally_visible)) __GALATEA_UNCOUNTED
#define __GALATEA_ACCESS(BYTES)                                                                                     \
    __GALATEA_CALLBACK void __tsan_read##BYTES(void *address) {                                                     \
        __galatea_step();                                                                                           \
        __galatea_count(address, BYTES, __GALATEA_READ);                                                            \
    }                                                                                                               \
    __GALATEA_CALLBACK void __tsan_write##BYTES(void *address) {                                                    \
        __galatea_step();                                                                                           \
        __galatea_count(address, BYTES, __GALATEA_WRITE);                                                           \
    }                                                                                                               \
    __GALATEA_CALLBACK void __tsan_unaligned_read##BYTES(void *address) {                                           \
        __galatea_step();                                                                                           \
        __galatea_count(address, BYTES, __GALATEA_READ);                                                            \
    }                                                                                                               \
    __GALATEA_CALLBACK void __tsan_unaligned_write##BYTES(void *address) {                                          \
        __galatea_step();                                                                                           \
        __galatea_count(address, BYTES, __GALATEA_WRITE);                                                           \
    }                                                                                                               \
    __GALATEA_CALLBACK void __tsan_volatile_read##BYTES(void *address) {                                            \
        __galatea_step();                                                                                           \
        __galatea_count(address, BYTES, __GALATEA_VOLATILE_READ);                                                   \
    }                                                                                                               \
    __GALATEA_CALLBACK void __tsan_volatile_write##BYTES(void *address) {                                           \
        __galatea_step();                                                                                           \
        __galatea_count(address, BYTES, __GALATEA_VOLATILE_WRITE);                                                  \
    }
__GALATEA_ACCESS(1)
__GALATEA_ACCESS(2)
__GALATEA_ACCESS(4)
__GALATEA_ACCESS(8)
__GALATEA_ACCESS(16)
__GALATEA_CALLBACK void __tsan_read_range(void *address, unsigned long bytes) {
    __galatea_step();
    __galatea_count(address, (unsigned)bytes, __GALATEA_READ);
}
__GALATEA_CALLBACK void __tsan_write_range(void *address, unsigned long bytes) {
    __galatea_step();
    __galatea_count(address, (unsigned)bytes, __GALATEA_WRITE);
}
__GALATEA_CALLBACK void __tsan_init() {}
__GALATEA_CALLBACK void __tsan_func_entry(void *) {}
__GALATEA_CALLBACK void __tsan_func_exit() {}
__GALATEA_CALLBACK void __tsan_vptr_update(void *, void *) {}
__GALATEA_CALLBACK void __sanitizer_cov_trace_pc() { __galatea_step(); }
// Fences in instrumented code.
__GALATEA_CALLBACK void __tsan_atomic_thread_fence(int) {
    asm volatile("mfence" ::: "memory");
    __galatea_count(nullptr, 0, __GALATEA_FENCE);
}
__GALATEA_CALLBACK void __tsan_atomic_signal_fence(int) { asm volatile("" ::: "memory"); }
}
#endif
