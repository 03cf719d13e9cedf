// Appended after the preprocessed program (so it has no directives). The code that src/compiler/program.rs
// generates follows: one thunk per kernel and the module's table.
template <class T> struct __galatea_plain { using type = T; };
template <class T> struct __galatea_plain<T &> { using type = T; };
template <class T> struct __galatea_plain<const T> { using type = T; };

struct __galatea_kernel {
    const char *name;
    void (*run)(void **parameters);
    const unsigned *sizes;
    unsigned count;
    unsigned max_threads;
};
template <unsigned... I> struct __galatea_indices {};
template <unsigned N, unsigned... I> struct __galatea_count_to : __galatea_count_to<N - 1, N - 1, I...> {};
template <unsigned... I> struct __galatea_count_to<0, I...> { using type = __galatea_indices<I...>; };
template <class F> struct __galatea_call;
template <class... A> struct __galatea_call<void (*)(A...)> {
    static constexpr unsigned sizes[sizeof...(A) + 1] = {sizeof(A)..., 0};
    static constexpr unsigned count = sizeof...(A);
    template <void (*KERNEL)(A...), unsigned... I> static inline __attribute__((always_inline)) void
    run(void **parameters, __galatea_indices<I...>) {
        (void)parameters;
        KERNEL(*(typename __galatea_plain<A>::type *)parameters[I]...);
    }
};
template <class... A> __galatea_call<void (*)(A...)> __galatea_call_of(void (*)(A...));
struct __galatea_module_table {
    unsigned revision;
    unsigned count;
    const __galatea_kernel *kernels;
};
