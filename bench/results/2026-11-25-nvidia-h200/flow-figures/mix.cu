// What the link carries both ways when one way is a copy engine's and the other one a kernel's.
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <algorithm>
#define CK(x) do { auto e = (x); if (e != cudaSuccess) { printf("%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
__global__ void writes(uint4* out, const uint4* in, size_t n, int reps) {
    for (int r = 0; r < reps; ++r)
        for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) out[i] = in[i];
}
__global__ void reads(uint4* out, const uint4* in, size_t n, int reps) {
    uint4 s = make_uint4(0, 0, 0, 0);
    for (int r = 0; r < reps; ++r)
        for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) out[i] = __ldcv(in + i);
}
int main() {
    const size_t bytes = 256u << 20; const int reps = 4;
    char *hin, *hout, *din, *dout;
    CK(cudaHostAlloc(&hin, bytes, cudaHostAllocMapped)); CK(cudaHostAlloc(&hout, bytes, cudaHostAllocMapped));
    CK(cudaMalloc(&din, bytes)); CK(cudaMalloc(&dout, bytes));
    srand(7); for (size_t i = 0; i < bytes / 4; ++i) ((int*)hin)[i] = rand();
    CK(cudaMemcpy(dout, hin, bytes, cudaMemcpyHostToDevice));
    cudaStream_t a, b; CK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking)); CK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    cudaEvent_t a0, a1, b0, b1; cudaEventCreate(&a0); cudaEventCreate(&a1); cudaEventCreate(&b0); cudaEventCreate(&b1);
    auto both = [&](const char* name, auto one, auto other) {
        std::vector<float> t1, t2, t3;
        for (int run = 0; run < 5; ++run) {
            CK(cudaDeviceSynchronize());
            cudaEventRecord(a0, a); cudaEventRecord(b0, b);
            one(a); other(b);
            cudaEventRecord(a1, a); cudaEventRecord(b1, b);
            CK(cudaDeviceSynchronize());
            float x, y, z, w; cudaEventElapsedTime(&x, a0, a1); cudaEventElapsedTime(&y, b0, b1); cudaEventElapsedTime(&z, a0, b1); cudaEventElapsedTime(&w, b0, a1);
            t1.push_back(x); t2.push_back(y); t3.push_back(std::max(std::max(x, y), std::max(z, w)));
        }
        std::sort(t1.begin(), t1.end()); std::sort(t2.begin(), t2.end()); std::sort(t3.begin(), t3.end());
        double gb = 1e-6 * bytes * reps;
        printf("%-64s to device %.1f, to host %.1f, each way by the slower %.1f GB/s\n", name, gb / t1[2], gb / t2[2], gb / t3[2]);
    };
    auto ce_in = [&](size_t piece) { return [=](cudaStream_t s) { for (int r = 0; r < reps; ++r) for (size_t o = 0; o < bytes; o += piece) CK(cudaMemcpyAsync(din + o, hin + o, piece, cudaMemcpyHostToDevice, s)); }; };
    auto ce_out = [&](size_t piece) { return [=](cudaStream_t s) { for (int r = 0; r < reps; ++r) for (size_t o = 0; o < bytes; o += piece) CK(cudaMemcpyAsync(hout + o, dout + o, piece, cudaMemcpyDeviceToHost, s)); }; };
    auto none = [](cudaStream_t) {};
    auto k_out = [&](int blocks) { return [=](cudaStream_t s) { writes<<<blocks, 512, 0, s>>>((uint4*)hout, (uint4*)dout, bytes / 16, reps); }; };
    auto k_in = [&](int blocks) { return [=](cudaStream_t s) { reads<<<blocks, 512, 0, s>>>((uint4*)din, (uint4*)hin, bytes / 16, reps); }; };
    char name[100];
    both("copy engines both ways, 64 MiB", ce_in(64 << 20), ce_out(64 << 20));
    for (size_t piece : {64u << 10, 256u << 10, 1u << 20, 4u << 20}) { snprintf(name, 100, "copy engines both ways, %zu KiB", piece >> 10); both(name, ce_in(piece), ce_out(piece)); }
    for (int blocks : {4, 8, 16, 32}) {
        snprintf(name, 100, "kernel writes alone, %d blocks", blocks); both(name, none, k_out(blocks));
        snprintf(name, 100, "kernel reads alone, %d blocks", blocks); both(name, k_in(blocks), none);
        snprintf(name, 100, "engine in (64 MiB), kernel writes, %d blocks", blocks); both(name, ce_in(64 << 20), k_out(blocks));
        snprintf(name, 100, "kernel reads, engine out (64 MiB), %d blocks", blocks); both(name, k_in(blocks), ce_out(64 << 20));
        snprintf(name, 100, "engine in (1 MiB), kernel writes, %d blocks", blocks); both(name, ce_in(1 << 20), k_out(blocks));
        snprintf(name, 100, "engine in (64 KiB), kernel writes, %d blocks", blocks); both(name, ce_in(64 << 10), k_out(blocks));
        snprintf(name, 100, "kernel reads and writes, %d blocks", blocks); both(name, k_in(blocks), k_out(blocks));
    }
}
