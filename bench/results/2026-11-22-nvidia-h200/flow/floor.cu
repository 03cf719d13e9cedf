#include <cstdio>
#include <cstdlib>
#include <cstdint>
#include <ctime>
#include <vector>
#include <algorithm>
#include <sys/mman.h>
#include <cuda_runtime.h>
typedef unsigned long long u64;
#define CK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { printf("%s: %s\n", #x, cudaGetErrorString(e)); exit(1);} } while (0)
template <int P> __device__ u64 ld(const u64* p) {
    u64 v;
    if (P == 0) asm volatile("ld.volatile.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
    else if (P == 1) asm volatile("ld.relaxed.sys.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
    else asm volatile("ld.acquire.sys.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
template <int F> __device__ void out(u64* p, u64 v) {
    if (F == 0) __threadfence_system();
    if (F == 1) asm volatile("fence.acq_rel.sys;" ::: "memory");
    if (F == 3) asm volatile("st.release.sys.global.u64 [%0],%1;" :: "l"(p), "l"(v) : "memory");
    else asm volatile("st.relaxed.sys.global.u64 [%0],%1;" :: "l"(p), "l"(v) : "memory");
}
template <int P, int F> __global__ void pong(u64* in, u64* outp, uint4* din, uint4* dout, int n16, int depth, int total, u64* clocks) {
    u64 c0 = 0, c1 = 0, c2 = 0, polls = 0;
    for (int o = blockIdx.x; o < total; o += gridDim.x) {
        int s = o % depth;
        u64 t0 = clock64();
        if (threadIdx.x == 0) { while (ld<P>(in + s * 8) != (u64)o + 1) polls++; polls++; }
        __syncthreads();
        u64 t1 = clock64();
        for (int i = threadIdx.x; i < n16; i += blockDim.x) { uint4 v = din[s * 256 + i]; v.x *= 2; dout[s * 256 + i] = v; }
        __syncthreads();
        u64 t2 = clock64();
        if (threadIdx.x == 0) out<F>(outp + s * 8, o + 1);
        u64 t3 = clock64();
        c0 += t1 - t0; c1 += t2 - t1; c2 += t3 - t2;
    }
    if (threadIdx.x == 0) { clocks[blockIdx.x * 4] = c0; clocks[blockIdx.x * 4 + 1] = c1; clocks[blockIdx.x * 4 + 2] = c2; clocks[blockIdx.x * 4 + 3] = polls; }
}
static double now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e6 + t.tv_nsec / 1e3; }
static void* mem(int kind, size_t n) {
    void* p;
    if (kind == 0) { CK(cudaHostAlloc(&p, n, cudaHostAllocMapped)); return p; }
    p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < n; i += 4096) ((char*)p)[i] = 0;
    CK(cudaHostRegister(p, n, cudaHostRegisterMapped | cudaHostRegisterPortable));
    return p;
}
template <int P, int F> void go(int kind, int blocks, int bytes) {
    const int depth = 512, total = 6000;
    volatile u64* in = (u64*)mem(kind, depth * 64); volatile u64* o = (u64*)mem(kind, depth * 64);
    uint4* din = (uint4*)mem(kind, depth * 4096); uint4* dout = (uint4*)mem(kind, depth * 4096);
    u64* clocks; CK(cudaMalloc(&clocks, 132 * 32));
    for (int i = 0; i < depth * 1024; i++) ((unsigned*)din)[i] = i * 2654435761u;
    pong<P, F><<<blocks, 256>>>((u64*)in, (u64*)o, din, dout, bytes / 16, depth, total, clocks);
    std::vector<double> t;
    for (int k = 0; k < total; k++) {
        int s = k % depth;
        double a = now();
        ((volatile unsigned*)din)[s * 1024] = k;
        __atomic_store_n((u64*)in + s * 8, (u64)k + 1, __ATOMIC_RELEASE);
        while (__atomic_load_n((u64*)o + s * 8, __ATOMIC_ACQUIRE) != (u64)k + 1) { if (now() - a > 2e6) { printf("lost %d\n", k); exit(1); } }
        t.push_back(now() - a);
    }
    CK(cudaDeviceSynchronize());
    std::sort(t.begin(), t.end());
    u64 c[4]; CK(cudaMemcpy(c, clocks, 32, cudaMemcpyDeviceToHost));
    double per = total / blocks;
    printf("mem %d poll %d fence %d blocks %3d bytes %4d: p50 %.2f p99 %.2f us; clocks per frame: wait %.0f (%.0f a poll) compute %.0f publish %.0f\n", kind, P, F, blocks, bytes, t[total / 2], t[total * 99 / 100], c[0] / per, (double)c[0] / c[3], c[1] / per, c[2] / per);
    fflush(stdout);
}
template <int P> void fences(int kind, int blocks, int bytes) { go<P, 0>(kind, blocks, bytes); go<P, 1>(kind, blocks, bytes); go<P, 2>(kind, blocks, bytes); go<P, 3>(kind, blocks, bytes); }
int main() {
    double a = now(); for (int i = 0; i < 1000000; i++) now(); printf("clock_gettime %.1f ns\n", (now() - a) / 1e3);
    for (int kind = 0; kind < 2; kind++) for (int blocks : {1, 16, 132}) { fences<0>(kind, blocks, 4096); go<1, 1>(kind, blocks, 4096); go<2, 1>(kind, blocks, 4096); go<2, 3>(kind, blocks, 4096); go<2, 3>(kind, blocks, 64); }
}
