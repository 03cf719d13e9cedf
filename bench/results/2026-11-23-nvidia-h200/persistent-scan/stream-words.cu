// nvcc -O3 -arch=sm_90 probe.cu -lcuda
#include <cuda.h>
#include <cstdio>
#include <cstdint>
#include <cstdlib>
#include <vector>
#include <chrono>
#define CK(x) do { CUresult r = (x); if (r) { const char* n; cuGetErrorName(r, &n); printf("%s line %d: %s\n", #x, __LINE__, n); } } while (0)
__global__ void poll(const unsigned* words, const unsigned* data, unsigned chunk_words, unsigned chunks, unsigned seed, unsigned long long* bad) {
    for (unsigned c = blockIdx.x; c < chunks; c += gridDim.x) {
        if (threadIdx.x == 0) {
            unsigned w;
            do { asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(w) : "l"(words + c) : "memory"); if (!w) __nanosleep(100); } while (w == 0);
        }
        __syncthreads();
        const unsigned* d = data + size_t(c) * chunk_words;
        unsigned wrong = 0;
        for (unsigned i = threadIdx.x; i < chunk_words; i += blockDim.x) wrong += d[i] != seed + c * 7919u + i;
        if (wrong) atomicAdd(bad, (unsigned long long)wrong);
        __syncthreads();
    }
}
int main() {
    CK(cuInit(0)); CUdevice dev; CK(cuDeviceGet(&dev, 0)); CUcontext ctx; CK(cuDevicePrimaryCtxRetain(&ctx, dev)); CK(cuCtxSetCurrent(ctx));
    int v;
    CK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, dev)); printf("wait nor %d\n", v);
    CK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, dev)); printf("64 bit mem ops %d\n", v);
    CUstream s, k; CK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)); CK(cuStreamCreate(&k, CU_STREAM_NON_BLOCKING));
    CUdeviceptr plain, pooled, registered; void* host;
    CK(cuMemAlloc(&plain, 1 << 20)); CK(cuMemAllocAsync(&pooled, 1 << 20, s)); CK(cuStreamSynchronize(s));
    CK(cuMemAllocHost(&host, 1 << 20)); CK(cuMemHostGetDevicePointer(&registered, host, 0));
    struct { const char* n; CUdeviceptr p; } kinds[] = {{"cuMemAlloc", plain}, {"cuMemAllocAsync", pooled}, {"host", registered}};
    for (auto& m : kinds) for (unsigned flags : {0u, 1u}) {
        CUresult r = cuStreamWriteValue32(s, m.p, 1, flags); const char* n; cuGetErrorName(r, &n); printf("write value %s flags %u: %s\n", m.n, flags, n);
        CUstreamBatchMemOpParams op = {}; op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32; op.writeValue.address = m.p; op.writeValue.value = 1; op.writeValue.flags = flags;
        r = cuStreamBatchMemOp(s, 1, &op, 0); cuGetErrorName(r, &n); printf("   batch: %s\n", n);
    }
    CK(cuStreamSynchronize(s));
    for (unsigned chunk : {4096u, 16384u, 65536u, 1u << 20}) {
        unsigned chunks = chunk >= 1u << 20 ? 256 : 1024, words = chunk / 4;
        unsigned* source; CK(cuMemAllocHost((void**)&source, size_t(chunk) * chunks)); unsigned* one; CK(cuMemAllocHost((void**)&one, 64)); *one = 1;
        CUdeviceptr data, bad, flags; CK(cuMemAlloc(&data, size_t(chunk) * chunks)); CK(cuMemAlloc(&bad, 8)); CK(cuMemAlloc(&flags, 4 * chunks));
        for (int way = 0; way < 4; ++way) {  // 0 nothing, 1 write value, 2 copy, 3 memset
            for (int rep = 0; rep < 3; ++rep) {
                unsigned seed = rand();
                for (unsigned c = 0; c < chunks; ++c) for (unsigned i = 0; i < words; ++i) source[size_t(c) * words + i] = seed + c * 7919u + i;
                CK(cuMemsetD8(data, 0xff, size_t(chunk) * chunks)); CK(cuMemsetD8(bad, 0, 8)); CK(cuMemsetD8(flags, way == 0 ? 1 : 0, 4 * chunks)); CK(cuCtxSynchronize());
                if (way != 0 && way != 3) poll<<<132, 256, 0, (cudaStream_t)k>>>((unsigned*)flags, (unsigned*)data, words, chunks, seed, (unsigned long long*)bad);
                auto t0 = std::chrono::steady_clock::now();
                for (unsigned c = 0; c < chunks; ++c) {
                    CK(cuMemcpyHtoDAsync(data + size_t(c) * chunk, source + size_t(c) * words, chunk, s));
                    if (way == 1) { CUresult r = cuStreamWriteValue32(s, flags + 4 * c, 1, 0); if (r) { CK(cuMemcpyHtoDAsync(flags + 4 * c, one, 4, s)); } }
                    if (way == 2) CK(cuMemcpyHtoDAsync(flags + 4 * c, one, 4, s));
                    if (way == 3) CK(cuMemsetD32Async(flags + 4 * c, 1, 1, s));
                }
                auto t1 = std::chrono::steady_clock::now();
                CK(cuCtxSynchronize());
                auto t2 = std::chrono::steady_clock::now();
                if (way == 3) { poll<<<132, 256, 0, (cudaStream_t)k>>>((unsigned*)flags, (unsigned*)data, words, chunks, seed, (unsigned long long*)bad); CK(cuCtxSynchronize()); }
                unsigned long long wrong; CK(cuMemcpyDtoH(&wrong, bad, 8));
                const char* names[] = {"copies alone", "write value", "copy of a word", "memset of a word"};
                if (rep) printf("%7u bytes %-18s queued %6.2f us a chunk, done %6.2f us, wrong words %llu\n", chunk, names[way], std::chrono::duration<double>(t1 - t0).count() * 1e6 / chunks, std::chrono::duration<double>(t2 - t0).count() * 1e6 / chunks, wrong);
            }
        }
    }
}
