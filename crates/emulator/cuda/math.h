// Bit functions, conversions and math, with CUDA's results if CUDA defines them bit for bit (for everything
// but the transcendental functions, which are the C library's here).

__GALATEA_INLINE int __popc(unsigned v) { return __builtin_popcount(v); }
__GALATEA_INLINE int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
__GALATEA_INLINE int __clz(int v) { return v == 0 ? 32 : __builtin_clz((unsigned)v); }
__GALATEA_INLINE int __clzll(long long v) { return v == 0 ? 64 : __builtin_clzll((unsigned long long)v); }
__GALATEA_INLINE int __ffs(int v) { return __builtin_ffs(v); }
__GALATEA_INLINE int __ffsll(long long v) { return __builtin_ffsll(v); }
__GALATEA_INLINE unsigned __brev(unsigned v) {
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(v);
}
__GALATEA_INLINE unsigned long long __brevll(unsigned long long v) {
    return (unsigned long long)__brev((unsigned)v) << 32 | __brev((unsigned)(v >> 32));
}
__GALATEA_INLINE unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    unsigned long long bytes = (unsigned long long)high << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned choice = selector >> (4 * i) & 15u;
        unsigned byte = (unsigned)(bytes >> (8 * (choice & 7u))) & 255u;
        if (choice & 8u) byte = byte & 128u ? 255u : 0u; // PTX prmt: replicate the sign
        result |= byte << (8 * i);
    }
    return result;
}
// The n-th set bit from `base`; see the CUDA math API's __fns.
__GALATEA_INLINE unsigned __fns(unsigned mask, unsigned base, int offset) {
    if (offset == 0) return mask >> base & 1u ? base : 0xffffffffu;
    int left = offset > 0 ? offset : -offset;
    for (long i = base; i >= 0 && i < 32; i += offset > 0 ? 1 : -1)
        if (mask >> i & 1u && --left == 0) return (unsigned)i;
    return 0xffffffffu;
}
__GALATEA_INLINE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
__GALATEA_INLINE int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
__GALATEA_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
__GALATEA_INLINE long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
__GALATEA_INLINE int __mul24(int a, int b) { return (int)((unsigned)(a << 8 >> 8) * (unsigned)(b << 8 >> 8)); }
__GALATEA_INLINE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
__GALATEA_INLINE unsigned __sad(int a, int b, unsigned c) { return (a > b ? (unsigned)a - (unsigned)b : (unsigned)b - (unsigned)a) + c; }
__GALATEA_INLINE unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }
__GALATEA_INLINE int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
__GALATEA_INLINE unsigned __uhadd(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a + b) >> 1); }
__GALATEA_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)((((unsigned long long)high << 32 | low) << (shift & 31u)) >> 32);
}
__GALATEA_INLINE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
__GALATEA_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31u));
}
__GALATEA_INLINE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}
__GALATEA_INLINE int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += (int)(signed char)(a >> (8 * i)) * (int)(signed char)(b >> (8 * i));
    return c;
}
__GALATEA_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; i++) c += (a >> (8 * i) & 255u) * (b >> (8 * i) & 255u);
    return c;
}
// Byte- and halfword-wise SIMD comparisons used by string kernels.
__GALATEA_INLINE unsigned __vcmpeq4(unsigned a, unsigned b) {
    unsigned result = 0;
    for (int i = 0; i < 32; i += 8)
        if ((a >> i & 255u) == (b >> i & 255u)) result |= 255u << i;
    return result;
}
__GALATEA_INLINE unsigned __vcmpeq2(unsigned a, unsigned b) {
    return ((a ^ b) & 0xffffu ? 0 : 0xffffu) | ((a ^ b) >> 16 ? 0 : 0xffff0000u);
}

__GALATEA_INLINE int __float_as_int(float v) { return __galatea_bits<int>(v); }
__GALATEA_INLINE unsigned __float_as_uint(float v) { return __galatea_bits<unsigned>(v); }
__GALATEA_INLINE float __int_as_float(int v) { return __galatea_bits<float>(v); }
__GALATEA_INLINE float __uint_as_float(unsigned v) { return __galatea_bits<float>(v); }
__GALATEA_INLINE long long __double_as_longlong(double v) { return __galatea_bits<long long>(v); }
__GALATEA_INLINE double __longlong_as_double(long long v) { return __galatea_bits<double>(v); }
__GALATEA_INLINE int __double2hiint(double v) { return (int)(__galatea_bits<long long>(v) >> 32); }
__GALATEA_INLINE int __double2loint(double v) { return (int)__galatea_bits<long long>(v); }
__GALATEA_INLINE double __hiloint2double(int high, int low) {
    return __galatea_bits<double>((long long)high << 32 | (unsigned)low);
}

// min, max: CUDA's overload set. Mixed signs return unsigned.
#define __GALATEA_MINMAX(A, B, T)                                                                                   \
    __GALATEA_INLINE constexpr T min(A a, B b) { return (T)a < (T)b ? (T)a : (T)b; }                                \
    __GALATEA_INLINE constexpr T max(A a, B b) { return (T)a > (T)b ? (T)a : (T)b; }
__GALATEA_MINMAX(int, int, int)
__GALATEA_MINMAX(unsigned, unsigned, unsigned)
__GALATEA_MINMAX(int, unsigned, unsigned)
__GALATEA_MINMAX(unsigned, int, unsigned)
__GALATEA_MINMAX(long, long, long)
__GALATEA_MINMAX(unsigned long, unsigned long, unsigned long)
__GALATEA_MINMAX(long, unsigned long, unsigned long)
__GALATEA_MINMAX(unsigned long, long, unsigned long)
__GALATEA_MINMAX(long long, long long, long long)
__GALATEA_MINMAX(unsigned long long, unsigned long long, unsigned long long)
__GALATEA_MINMAX(long long, unsigned long long, unsigned long long)
__GALATEA_MINMAX(unsigned long long, long long, unsigned long long)
__GALATEA_INLINE float fminf(float a, float b) { return __builtin_fminf(a, b); }
__GALATEA_INLINE float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
__GALATEA_INLINE double fmin(double a, double b) { return __builtin_fmin(a, b); }
__GALATEA_INLINE double fmax(double a, double b) { return __builtin_fmax(a, b); }
__GALATEA_INLINE float min(float a, float b) { return __builtin_fminf(a, b); }
__GALATEA_INLINE float max(float a, float b) { return __builtin_fmaxf(a, b); }
__GALATEA_INLINE double min(double a, double b) { return __builtin_fmin(a, b); }
__GALATEA_INLINE double max(double a, double b) { return __builtin_fmax(a, b); }
__GALATEA_INLINE double min(float a, double b) { return __builtin_fmin(a, b); }
__GALATEA_INLINE double max(float a, double b) { return __builtin_fmax(a, b); }
__GALATEA_INLINE double min(double a, float b) { return __builtin_fmin(a, b); }
__GALATEA_INLINE double max(double a, float b) { return __builtin_fmax(a, b); }
__GALATEA_INLINE int abs(int v) { return v < 0 ? (int)(0u - (unsigned)v) : v; }
__GALATEA_INLINE long abs(long v) { return v < 0 ? (long)(0ul - (unsigned long)v) : v; }
__GALATEA_INLINE long long abs(long long v) { return v < 0 ? (long long)(0ull - (unsigned long long)v) : v; }
__GALATEA_INLINE long labs(long v) { return abs(v); }
__GALATEA_INLINE long long llabs(long long v) { return abs(v); }
__GALATEA_INLINE float abs(float v) { return __builtin_fabsf(v); }
__GALATEA_INLINE double abs(double v) { return __builtin_fabs(v); }

#define __GALATEA_MATH1(NAME)                                                                                       \
    __GALATEA_INLINE double NAME(double v) { return __builtin_##NAME(v); }                                          \
    __GALATEA_INLINE float NAME(float v) { return __builtin_##NAME##f(v); }                                         \
    __GALATEA_INLINE float NAME##f(float v) { return __builtin_##NAME##f(v); }
__GALATEA_MATH1(sqrt)
__GALATEA_MATH1(fabs)
__GALATEA_MATH1(floor)
__GALATEA_MATH1(ceil)
__GALATEA_MATH1(trunc)
__GALATEA_MATH1(round)
__GALATEA_MATH1(rint)
__GALATEA_MATH1(nearbyint)
__GALATEA_MATH1(exp)
__GALATEA_MATH1(exp2)
__GALATEA_MATH1(exp10)
__GALATEA_MATH1(expm1)
__GALATEA_MATH1(log)
__GALATEA_MATH1(log2)
__GALATEA_MATH1(log10)
__GALATEA_MATH1(log1p)
__GALATEA_MATH1(cbrt)
__GALATEA_MATH1(sin)
__GALATEA_MATH1(cos)
__GALATEA_MATH1(tan)
__GALATEA_MATH1(asin)
__GALATEA_MATH1(acos)
__GALATEA_MATH1(atan)
__GALATEA_MATH1(sinh)
__GALATEA_MATH1(cosh)
__GALATEA_MATH1(tanh)
__GALATEA_MATH1(asinh)
__GALATEA_MATH1(acosh)
__GALATEA_MATH1(atanh)
__GALATEA_MATH1(erf)
__GALATEA_MATH1(erfc)
__GALATEA_MATH1(tgamma)
__GALATEA_MATH1(lgamma)
#define __GALATEA_MATH2(NAME)                                                                                       \
    __GALATEA_INLINE double NAME(double a, double b) { return __builtin_##NAME(a, b); }                             \
    __GALATEA_INLINE float NAME(float a, float b) { return __builtin_##NAME##f(a, b); }                             \
    __GALATEA_INLINE float NAME##f(float a, float b) { return __builtin_##NAME##f(a, b); }
__GALATEA_MATH2(fmod)
__GALATEA_MATH2(remainder)
__GALATEA_MATH2(pow)
__GALATEA_MATH2(atan2)
__GALATEA_MATH2(hypot)
__GALATEA_MATH2(copysign)
__GALATEA_MATH2(fdim)
__GALATEA_MATH2(nextafter)
__GALATEA_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
__GALATEA_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__GALATEA_INLINE float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__GALATEA_INLINE double ldexp(double v, int e) { return __builtin_ldexp(v, e); }
__GALATEA_INLINE float ldexpf(float v, int e) { return __builtin_ldexpf(v, e); }
__GALATEA_INLINE double scalbn(double v, int e) { return __builtin_ldexp(v, e); }
__GALATEA_INLINE double rsqrt(double v) { return 1.0 / __builtin_sqrt(v); }
__GALATEA_INLINE float rsqrtf(float v) { return 1.0f / __builtin_sqrtf(v); }
__GALATEA_INLINE float __frsqrt_rn(float v) { return (float)(1.0 / __builtin_sqrt((double)v)); }
#define __GALATEA_CLASSIFY(T)                                                                                       \
    __GALATEA_INLINE constexpr bool isnan(T v) { return v != v; }                                                   \
    __GALATEA_INLINE bool isinf(T v) { return __builtin_isinf(v); }                                                 \
    __GALATEA_INLINE bool isfinite(T v) { return __builtin_isfinite(v); }                                           \
    __GALATEA_INLINE bool signbit(T v) { return __builtin_signbit(v); }
__GALATEA_CLASSIFY(float)
__GALATEA_CLASSIFY(double)
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")

// Arithmetic without contraction.
#define __GALATEA_ROUND_NEAREST(PREFIX, T)                                                                          \
    __GALATEA_INLINE T PREFIX##add_rn(T a, T b) { return a + b; }                                                   \
    __GALATEA_INLINE T PREFIX##sub_rn(T a, T b) { return a - b; }                                                   \
    __GALATEA_INLINE T PREFIX##mul_rn(T a, T b) { return a * b; }                                                   \
    __GALATEA_INLINE T PREFIX##div_rn(T a, T b) { return a / b; }
__GALATEA_ROUND_NEAREST(__f, float)
__GALATEA_ROUND_NEAREST(__d, double)
__GALATEA_INLINE float __fsqrt_rn(float v) { return __builtin_sqrtf(v); }
__GALATEA_INLINE double __dsqrt_rn(double v) { return __builtin_sqrt(v); }
__GALATEA_INLINE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__GALATEA_INLINE double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
__GALATEA_INLINE float __fdividef(float a, float b) { return a / b; }
__GALATEA_INLINE float __saturatef(float v) { return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f; }

// Float to integer: PTX cvt saturates. NaN returns 0 for 32-bit results, and the smallest (unsigned: largest)
// representable pattern for 64-bit results. A plain C++ cast of such a value is undefined and differs here.
template <class I, class F> __GALATEA_INLINE I __galatea_convert(F v, F low, F high, I smallest, I largest, I nan) {
    if (v != v) return nan;
    if (v < low) return smallest;
    if (v >= high) return largest;
    return (I)v;
}
#define __GALATEA_CONVERT(FROM, F, TO, I, LOW, HIGH, MIN, MAX, NANV)                                                \
    __GALATEA_INLINE I __##FROM##2##TO##_rz(F v) { return __galatea_convert<I, F>(v, LOW, HIGH, MIN, MAX, NANV); }  \
    __GALATEA_INLINE I __##FROM##2##TO##_rn(F v) {                                                                  \
        return __galatea_convert<I, F>((F)__builtin_rint(v), LOW, HIGH, MIN, MAX, NANV);                            \
    }                                                                                                               \
    __GALATEA_INLINE I __##FROM##2##TO##_rd(F v) {                                                                  \
        return __galatea_convert<I, F>((F)__builtin_floor(v), LOW, HIGH, MIN, MAX, NANV);                           \
    }                                                                                                               \
    __GALATEA_INLINE I __##FROM##2##TO##_ru(F v) {                                                                  \
        return __galatea_convert<I, F>((F)__builtin_ceil(v), LOW, HIGH, MIN, MAX, NANV);                            \
    }
#define __GALATEA_CONVERTS(FROM, F)                                                                                 \
    __GALATEA_CONVERT(FROM, F, int, int, (F)-2147483648.0, (F)2147483648.0, -__INT_MAX__ - 1, __INT_MAX__, 0)       \
    __GALATEA_CONVERT(FROM, F, uint, unsigned, (F)0, (F)4294967296.0, 0u, ~0u, 0u)                                  \
    __GALATEA_CONVERT(FROM, F, ll, long long, (F)-9223372036854775808.0, (F)9223372036854775808.0,                  \
                      -__LONG_LONG_MAX__ - 1, __LONG_LONG_MAX__, -__LONG_LONG_MAX__ - 1)                            \
    __GALATEA_CONVERT(FROM, F, ull, unsigned long long, (F)0, (F)18446744073709551616.0, 0ull, ~0ull,               \
                      0x8000000000000000ull)
__GALATEA_CONVERTS(float, float)
__GALATEA_CONVERTS(double, double)
__GALATEA_INLINE float __int2float_rn(int v) { return (float)v; }
__GALATEA_INLINE float __uint2float_rn(unsigned v) { return (float)v; }
__GALATEA_INLINE float __ll2float_rn(long long v) { return (float)v; }
__GALATEA_INLINE float __ull2float_rn(unsigned long long v) { return (float)v; }
__GALATEA_INLINE double __int2double_rn(int v) { return (double)v; }
__GALATEA_INLINE double __uint2double_rn(unsigned v) { return (double)v; }
__GALATEA_INLINE double __ll2double_rn(long long v) { return (double)v; }
__GALATEA_INLINE double __ull2double_rn(unsigned long long v) { return (double)v; }
__GALATEA_INLINE float __double2float_rn(double v) { return (float)v; }
__GALATEA_INLINE long long llrint(double v) { return __builtin_llrint(v); }
__GALATEA_INLINE int float2int(float v) { return __float2int_rz(v); }
