// CUDA's built-in vector types, with CUDA's alignments.
#define __GALATEA_VECTOR(T, N, A1, A2, A4)                                                                          \
    struct __attribute__((aligned(A1))) N##1 { T x; };                                                              \
    struct __attribute__((aligned(A2))) N##2 { T x, y; };                                                           \
    struct __attribute__((aligned(A4))) N##4 { T x, y, z, w; };                                                     \
    __GALATEA_INLINE N##1 make_##N##1(T x) { return N##1{x}; }                                                      \
    __GALATEA_INLINE N##2 make_##N##2(T x, T y) { return N##2{x, y}; }                                              \
    __GALATEA_INLINE N##4 make_##N##4(T x, T y, T z, T w) { return N##4{x, y, z, w}; }
#define __GALATEA_VECTOR3(T, N)                                                                                     \
    struct N##3 { T x, y, z; };                                                                                     \
    __GALATEA_INLINE N##3 make_##N##3(T x, T y, T z) { return N##3{x, y, z}; }

__GALATEA_VECTOR(signed char, char, 1, 2, 4)
__GALATEA_VECTOR(unsigned char, uchar, 1, 2, 4)
__GALATEA_VECTOR(short, short, 2, 4, 8)
__GALATEA_VECTOR(unsigned short, ushort, 2, 4, 8)
__GALATEA_VECTOR(int, int, 4, 8, 16)
__GALATEA_VECTOR(unsigned, uint, 4, 8, 16)
__GALATEA_VECTOR(long, long, 8, 16, 16)
__GALATEA_VECTOR(unsigned long, ulong, 8, 16, 16)
__GALATEA_VECTOR(long long, longlong, 8, 16, 16)
__GALATEA_VECTOR(unsigned long long, ulonglong, 8, 16, 16)
__GALATEA_VECTOR(float, float, 4, 8, 16)
__GALATEA_VECTOR(double, double, 8, 16, 16)
__GALATEA_VECTOR3(signed char, char)
__GALATEA_VECTOR3(unsigned char, uchar)
__GALATEA_VECTOR3(short, short)
__GALATEA_VECTOR3(unsigned short, ushort)
__GALATEA_VECTOR3(int, int)
__GALATEA_INLINE uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return uint3{x, y, z}; }
__GALATEA_VECTOR3(long, long)
__GALATEA_VECTOR3(unsigned long, ulong)
__GALATEA_VECTOR3(long long, longlong)
__GALATEA_VECTOR3(unsigned long long, ulonglong)
__GALATEA_VECTOR3(float, float)
__GALATEA_VECTOR3(double, double)

// Reinterprets bits as another type of the same size.
template <class To, class From> __GALATEA_INLINE To __galatea_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "same size");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}
