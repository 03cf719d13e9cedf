// Builds and probes of a table in slices, and rows written into partitions: 2^30 rows of two 4-byte columns.
// nvcc -O3 -std=c++17 -arch=sm_90 partition-kernel.cu
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>
#include <vector>
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t i32;
typedef uint8_t u8;
typedef uint16_t u16;
#define CK(x)                                                                                                \
    do {                                                                                                     \
        cudaError_t e = (x);                                                                                 \
        if (e) {                                                                                             \
            printf("%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e));                                 \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
__host__ __device__ inline u32 perm(u32 i, u32 bits) {
    u32 m = (bits == 32) ? ~0u : ((1u << bits) - 1);
    i = (i * 2654435761u) & m;
    i ^= i >> (bits / 2);
    i = (i * 0x9E3779B1u) & m;
    i ^= i >> (bits / 2);
    return i;
}
// ---------------- build
__global__ void fill_sliced(u32 *keys, u32 *vals, u64 n, u32 bits) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
        u64 s = i >> bits;
        u32 k = (u32)((s << bits) | perm((u32)(i & ((1ull << bits) - 1)), bits));
        keys[i] = k;
        vals[i] = k * 7u;
    }
}
__device__ inline u32 ld(const u32 *p, int mode) {
    u32 v;
    if (mode == 0)
        v = __ldg(p);
    else if (mode == 1)
        v = __ldcs(p);
    else
        asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.u32 %0,[%1],%2;"
                     : "=r"(v)
                     : "l"(p), "l"(0x12F0000000000000ull));
    return v;
}
template <int V, int MODE, int AHEAD>
__global__ void __launch_bounds__(256)
    build(const u32 *keys, const u32 *vals, u32 *table, u64 n, u32 *counter, u32 morsel) {
    __shared__ u32 claimed;
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0)
            claimed = atomicAdd(counter, 1u);
        __syncthreads();
        u64 begin = (u64)claimed * morsel;
        if (begin >= n)
            return;
        for (u32 step = 0; step < morsel; step += 256 * V) {
            const u64 row = begin + step + threadIdx.x;
            if (AHEAD) {
                u32 k[V], v[V];
#pragma unroll
                for (int i = 0; i < V; ++i) {
                    k[i] = ld(keys + row + i * 256, MODE);
                    v[i] = ld(vals + row + i * 256, MODE);
                }
#pragma unroll
                for (int i = 0; i < V; ++i) {
                    if (AHEAD == 2)
                        asm volatile("st.global.L2::cache_hint.u32 [%0],%1,%2;" ::"l"(table + k[i]),
                                     "r"(v[i]), "l"(0x14F0000000000000ull));
                    else
                        table[k[i]] = v[i];
                }
            } else {
#pragma unroll
                for (int i = 0; i < V; ++i) {
                    u32 k = ld(keys + row + i * 256, MODE), v = ld(vals + row + i * 256, MODE);
                    table[k] = v;
                }
            }
        }
    }
}
// probe: sums values of the table
template <int V, int MODE>
__global__ void __launch_bounds__(256)
    probe(const u32 *keys, const u32 *vals, const u32 *table, u64 n, u32 *counter, u32 morsel, u64 *out) {
    __shared__ u32 claimed;
    u64 s = 0;
    while (true) {
        __syncthreads();
        if (threadIdx.x == 0)
            claimed = atomicAdd(counter, 1u);
        __syncthreads();
        u64 begin = (u64)claimed * morsel;
        if (begin >= n)
            break;
        for (u32 step = 0; step < morsel; step += 256 * V) {
            const u64 row = begin + step + threadIdx.x;
            u32 k[V], v[V];
#pragma unroll
            for (int i = 0; i < V; ++i) {
                k[i] = ld(keys + row + i * 256, MODE);
                v[i] = ld(vals + row + i * 256, MODE);
            }
#pragma unroll
            for (int i = 0; i < V; ++i)
                s += (u64)__ldg(table + k[i]) + v[i];
        }
    }
    for (int o = 16; o; o /= 2)
        s += __shfl_xor_sync(~0u, s, o);
    if ((threadIdx.x & 31) == 0)
        atomicAdd((unsigned long long *)out, (unsigned long long)s);
}
// ---------------- partition
template <u32 P> struct Step {
    u32 rows[P];
    u32 first[P];
    u64 shift[P];
    u32 warp[32];
};
template <u32 P, u32 B> __device__ u32 reserve(Step<P> &s, u64 *cur) {
    __syncthreads();
    u32 mine = threadIdx.x < P ? s.rows[threadIdx.x] : 0;
    u32 x = mine;
    u32 l = threadIdx.x & 31;
    if (threadIdx.x < P) {
        for (int o = 1; o < 32; o *= 2) {
            u32 y = __shfl_up_sync(~0u, x, o);
            if (l >= o)
                x += y;
        }
        if (l == 31)
            s.warp[threadIdx.x >> 5] = x;
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        u32 w = threadIdx.x < P / 32 ? s.warp[threadIdx.x] : 0;
        for (int o = 1; o < 32; o *= 2) {
            u32 y = __shfl_up_sync(~0u, w, o);
            if (l >= o)
                w += y;
        }
        s.warp[threadIdx.x] = w;
    }
    __syncthreads();
    if (threadIdx.x < P) {
        u32 before = x - mine + ((threadIdx.x >> 5) ? s.warp[(threadIdx.x >> 5) - 1] : 0);
        s.first[threadIdx.x] = before;
        s.rows[threadIdx.x] = 0;
        if (mine)
            s.shift[threadIdx.x] =
                atomicAdd((unsigned long long *)cur + threadIdx.x, (unsigned long long)mine) - before;
    }
    __syncthreads();
    return s.warp[31];
}
// KIND 0: as the engine (stage, order), 1: values kept in registers and staged in order
template <u32 P, int B, int V, int STRIPED, int KIND>
__global__ void __launch_bounds__(B)
    partition(const u32 *keys, const u32 *vals, u32 *ok, u32 *ov, u64 n, u64 *cur, u32 shift) {
    __shared__ Step<P> s;
    extern __shared__ u8 dyn[];
    constexpr int R = B * V;
    u32 *s0 = (u32 *)dyn;
    u32 *s1 = s0 + R;
    u32 *order = s1 + R;
    u8 *part = (u8 *)(s1 + R);
    for (u32 p = threadIdx.x; p < P; p += B)
        s.rows[p] = 0;
    __syncthreads();
    for (u64 step = (u64)blockIdx.x * R; step < n; step += (u64)gridDim.x * R) {
        u32 k[V], v[V], t[V];
        const u64 left = n - step;
        const u32 lf = left < (u64)R ? (u32)left : R;
        if (STRIPED) {
#pragma unroll
            for (int i = 0; i < V; ++i) {
                k[i] = __ldg(keys + step + i * B + threadIdx.x);
                v[i] = __ldg(vals + step + i * B + threadIdx.x);
            }
        } else {
#pragma unroll
            for (int i = 0; i < V / 4; ++i) {
                uint4 a = __ldg((const uint4 *)(keys + step + threadIdx.x * V) + i);
                k[4 * i] = a.x;
                k[4 * i + 1] = a.y;
                k[4 * i + 2] = a.z;
                k[4 * i + 3] = a.w;
                a = __ldg((const uint4 *)(vals + step + threadIdx.x * V) + i);
                v[4 * i] = a.x;
                v[4 * i + 1] = a.y;
                v[4 * i + 2] = a.z;
                v[4 * i + 3] = a.w;
            }
        }
#pragma unroll
        for (int i = 0; i < V; ++i) {
            if ((STRIPED ? i * B + threadIdx.x : threadIdx.x * V + i) >= lf)
                continue;
            u32 p = (k[i] >> shift) & (P - 1);
            t[i] = p << 16 | atomicAdd(&s.rows[p], 1u);
            if (KIND == 0) {
                u32 st = i * B + threadIdx.x;
                s0[st] = k[i];
                s1[st] = v[i];
            }
        }
        const u32 held = reserve<P, B>(s, cur);
        if (KIND == 0) {
#pragma unroll
            for (int i = 0; i < V; ++i)
                if ((STRIPED ? i * B + threadIdx.x : threadIdx.x * V + i) < lf)
                    order[s.first[t[i] >> 16] + (t[i] & 0xffff)] = (t[i] >> 16) << 16 | (i * B + threadIdx.x);
            __syncthreads();
            for (u32 pl = threadIdx.x; pl < held; pl += B) {
                u32 o = order[pl];
                u32 st = o & 0xffff;
                u64 at = s.shift[o >> 16] + pl;
                ok[at] = s0[st];
                ov[at] = s1[st];
            }
        } else {
#pragma unroll
            for (int i = 0; i < V; ++i) {
                if ((STRIPED ? i * B + threadIdx.x : threadIdx.x * V + i) >= lf)
                    continue;
                u32 pl = s.first[t[i] >> 16] + (t[i] & 0xffff);
                s0[pl] = k[i];
                s1[pl] = v[i];
                part[pl] = t[i] >> 16;
            }
            __syncthreads();
#pragma unroll 4
            for (u32 pl = threadIdx.x; pl < held; pl += B) {
                u64 at = s.shift[part[pl]] + pl;
                ok[at] = s0[pl];
                ov[at] = s1[pl];
            }
        }
        __syncthreads();
    }
}
__global__ void fill_random(u32 *keys, u32 *vals, u64 n, u32 bits) {
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
        u32 k = perm((u32)i, bits);
        keys[i] = k;
        vals[i] = k * 7u;
    }
}
__global__ void check(const u32 *k, const u32 *v, u64 n, u32 shift, u64 *bad) {
    u64 b = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x) {
        if (v[i] != k[i] * 7u)
            b++;
        if (i && (k[i] >> shift) < (k[i - 1] >> shift))
            b++;
    }
    if (b)
        atomicAdd((unsigned long long *)bad, (unsigned long long)b);
}
__global__ void check_table(const u32 *t, u64 n, u64 *bad) {
    u64 b = 0;
    for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < n; i += (u64)gridDim.x * blockDim.x)
        if (t[i] != (u32)i * 7u)
            b++;
    if (b)
        atomicAdd((unsigned long long *)bad, (unsigned long long)b);
}
template <class F> float timed(F f, int runs = 5) {
    cudaEvent_t a, b;
    cudaEventCreate(&a);
    cudaEventCreate(&b);
    std::vector<float> t;
    for (int i = 0; i < runs; ++i) {
        cudaEventRecord(a);
        f();
        cudaEventRecord(b);
        CK(cudaEventSynchronize(b));
        float x;
        cudaEventElapsedTime(&x, a, b);
        t.push_back(x);
    }
    CK(cudaGetLastError());
    std::sort(t.begin(), t.end());
    return t[runs / 2];
}
u32 *k, *v, *tb, *ok, *ov;
u32 *cnt;
u64 *cur, *bad, *out;
u64 n = 1ull << 30;
u64 bads() {
    u64 h;
    cudaMemcpy(&h, bad, 8, cudaMemcpyDeviceToHost);
    cudaMemset(bad, 0, 8);
    return h;
}
template <int V, int M, int A> void b1(const char *name, u32 morsel, int blocks) {
    cudaMemset(tb, 0xff, n * 4);
    float t = timed([&] {
        cudaMemsetAsync(cnt, 0, 4);
        build<V, M, A><<<132 * blocks, 256>>>(k, v, tb, n, cnt, morsel);
    });
    check_table<<<1056, 256>>>(tb, n, bad);
    printf("  build %-28s morsel %5u blocks %d: %6.2f ms %5.1f G/s bad %llu\n", name, morsel, blocks, t,
           n / t / 1e6, (unsigned long long)bads());
    fflush(stdout);
}
template <int V, int M> void p1(const char *name, u32 morsel, int blocks) {
    float t = timed([&] {
        cudaMemsetAsync(cnt, 0, 4);
        probe<V, M><<<132 * blocks, 256>>>(k, v, tb, n, cnt, morsel, out);
    });
    printf("  probe %-28s morsel %5u blocks %d: %6.2f ms %5.1f G/s\n", name, morsel, blocks, t, n / t / 1e6);
    fflush(stdout);
}
template <u32 P, int B, int V, int S, int K> void part(int blocks) {
    auto f = partition<P, B, V, S, K>;
    int sh = B * V * (K == 0 ? 12 : 9);
    if (cudaFuncSetAttribute(f, cudaFuncAttributeMaxDynamicSharedMemorySize, sh)) {
        cudaGetLastError();
        printf("  no fit\n");
        return;
    }
    int occ = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&occ, f, B, sh);
    cudaFuncAttributes at;
    cudaFuncGetAttributes(&at, f);
    u32 lg = 0;
    while ((1u << lg) < P)
        lg++;
    u32 shift = 30 - lg;
    std::vector<u64> h(P);
    for (u32 p = 0; p < P; ++p)
        h[p] = p * (n / P);
    u64 *init;
    cudaMalloc(&init, P * 8);
    cudaMemcpy(init, h.data(), P * 8, cudaMemcpyHostToDevice);
    cudaMemset(ok, 0xff, n * 4);
    float t = timed([&] {
        cudaMemcpyAsync(cur, init, P * 8, cudaMemcpyDeviceToDevice);
        f<<<132 * std::min(blocks, occ), B, sh>>>(k, v, ok, ov, n, cur, shift);
    });
    check<<<1056, 256>>>(ok, ov, n, shift, bad);
    printf("  partition %4u %4dx%-2d %s %s occ %d regs %d local %zu: %6.2f ms %5.1f G/s bad %llu\n", P, B, V,
           S ? "striped" : "rows   ", K ? "sorted" : "order ", occ, at.numRegs, at.localSizeBytes, t,
           n / t / 1e6, (unsigned long long)bads());
    cudaFree(init);
    fflush(stdout);
}

template <int B>
__global__ void __launch_bounds__(B) build_shared(const u32 *keys, const u32 *vals, u32 *table, u64 n) {
    extern __shared__ u8 dyn[];
    u32 *t = (u32 *)dyn;
    for (u64 s = blockIdx.x; s < (n >> 14); s += gridDim.x) {
        const u64 base = s << 14;
#pragma unroll 4
        for (u32 i = threadIdx.x * 4; i < 16384; i += B * 4) {
            uint4 k = __ldg((const uint4 *)(keys + base + i)), v = __ldg((const uint4 *)(vals + base + i));
            t[k.x & 16383] = v.x;
            t[k.y & 16383] = v.y;
            t[k.z & 16383] = v.z;
            t[k.w & 16383] = v.w;
        }
        __syncthreads();
        for (u32 i = threadIdx.x * 4; i < 16384; i += B * 4)
            *(uint4 *)(table + base + i) = *(uint4 *)(t + i);
        __syncthreads();
    }
}
template <int B>
__global__ void __launch_bounds__(B)
    probe_shared(const u32 *keys, const u32 *vals, const u32 *table, u64 n, u64 *out) {
    extern __shared__ u8 dyn[];
    u32 *t = (u32 *)dyn;
    u64 sum = 0;
    for (u64 s = blockIdx.x; s < (n >> 14); s += gridDim.x) {
        const u64 base = s << 14;
        for (u32 i = threadIdx.x * 4; i < 16384; i += B * 4)
            *(uint4 *)(t + i) = __ldg((const uint4 *)(table + base + i));
        __syncthreads();
#pragma unroll 4
        for (u32 i = threadIdx.x * 4; i < 16384; i += B * 4) {
            uint4 k = __ldg((const uint4 *)(keys + base + i)), v = __ldg((const uint4 *)(vals + base + i));
            sum += (u64)t[k.x & 16383] + t[k.y & 16383] + t[k.z & 16383] + t[k.w & 16383] + v.x + v.y + v.z +
                   v.w;
        }
        __syncthreads();
    }
    for (int o = 16; o; o /= 2)
        sum += __shfl_xor_sync(~0u, sum, o);
    if ((threadIdx.x & 31) == 0)
        atomicAdd((unsigned long long *)out, (unsigned long long)sum);
}
int main(int c, char **a) {
    CK(cudaMalloc(&k, n * 4 + (1 << 20)));
    CK(cudaMalloc(&v, n * 4 + (1 << 20)));
    CK(cudaMalloc(&tb, n * 4));
    CK(cudaMalloc(&ok, n * 4));
    CK(cudaMalloc(&ov, n * 4));
    CK(cudaMalloc(&cnt, 4));
    CK(cudaMalloc(&cur, 8 * 4096));
    CK(cudaMalloc(&bad, 8));
    CK(cudaMalloc(&out, 8));
    cudaMemset(bad, 0, 8);
    for (u32 bits : {19u, 20u, 21u, 22u, 23u, 25u}) {
        fill_sliced<<<1056, 256>>>(k, v, n, bits);
        printf("slices of %u MB (%u partitions)\n", (4u << bits) >> 20, 1u << (30 - bits));
        b1<8, 0, 0>("ldg, in turn", 2048, 8);
        {
            b1<8, 0, 1>("ldg, ahead", 2048, 8);
            b1<8, 2, 1>("evict first, ahead", 2048, 8);
            b1<8, 2, 2>("evict first, evict last", 2048, 8);
            b1<8, 2, 1>("evict first, ahead", 2048, 4);
            b1<8, 2, 1>("evict first, ahead", 2048, 2);
            b1<8, 2, 1>("evict first, ahead", 8192, 8);
            b1<4, 2, 1>("4 rows, evict first", 1024, 8);
        }
        p1<8, 0>("ldg", 2048, 8);
        p1<8, 2>("evict first", 2048, 8);
        p1<8, 2>("evict first", 2048, 4);
    }
    fill_random<<<1056, 256>>>(k, v, n, 30);
    part<32, 1024, 8, 0, 0>(2);
    part<32, 512, 16, 0, 0>(4);
    part<32, 512, 8, 0, 0>(4);
    part<32, 512, 8, 0, 1>(4);
    part<32, 512, 16, 0, 1>(4);
    part<32, 256, 16, 0, 1>(8);
    part<32, 256, 32, 0, 1>(8);
    part<32, 768, 16, 0, 1>(2);
    part<32, 1024, 16, 0, 1>(2);
    part<32, 384, 16, 0, 1>(8);
    part<32, 512, 12, 0, 1>(4);
    part<64, 512, 16, 0, 1>(4);
    part<64, 1024, 16, 0, 1>(2);
    part<64, 1024, 8, 0, 0>(2);
    part<128, 1024, 8, 0, 0>(2);
    part<128, 512, 16, 0, 1>(4);
    part<128, 1024, 16, 0, 1>(2);
    part<256, 1024, 8, 0, 0>(2);
    part<256, 1024, 8, 0, 1>(2);
    part<256, 1024, 16, 0, 1>(2);
    part<256, 768, 16, 0, 1>(2);
    part<256, 512, 16, 0, 1>(4);
    part<256, 512, 32, 0, 1>(2);
    part<256, 1024, 12, 0, 1>(2);
    part<256, 512, 24, 0, 1>(2);
    part<256, 768, 16, 0, 0>(2);
    part<256, 1024, 16, 0, 0>(2);
    fill_sliced<<<1056, 256>>>(k, v, n, 14);
    {
        float t = timed([&] {
            cudaFuncSetAttribute(build_shared<512>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
            cudaFuncSetAttribute(probe_shared<512>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
            build_shared<512><<<132 * 3, 512, 65536>>>(k, v, tb, n);
        });
        check_table<<<1056, 256>>>(tb, n, bad);
        printf("build in shared memory %.2f ms bad %llu\n", t, (unsigned long long)bads());
        t = timed([&] { probe_shared<512><<<132 * 3, 512, 65536>>>(k, v, tb, n, out); });
        printf("probe in shared memory %.2f ms\n", t);
    }
    b1<8, 0, 1>("ldg, ahead, slices of 64 KB", 2048, 8);
    b1<8, 0, 1>("ldg, ahead, slices of 64 KB", 16384, 4);
    p1<8, 0>("ldg, slices of 64 KB", 2048, 8);
}
