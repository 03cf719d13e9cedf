// Arguments of the kernel kmeans_update, and the state of a fit.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

// The state of a fit that the host reads. Host twin FitState.
struct KmeansState {
    u64 iterations;  // updates done
    u64 done;        // 1: converged within the tolerance; passes and updates then do nothing
    double shift;    // sum of the squared distances that centroids moved in the last update
    double inertia;  // sum of the partials' inertias at the last update
    u64 empty;       // clusters without points at the last update: they keep their centroids
    u64 ticket;      // blocks that have finished; 0 between launches
    u64 arrived;     // arrivals at barriers of kmeans_fit: a multiple of its blocks between launches
};

struct KmeansUpdateArguments {
    double* partials;    // [slot]{feature sums [k][d], masses [k], inertia}; cleared
    float* centroids;    // in the layout of kmeans/nearest.cuh; the origin is unchanged
    double* shifts;      // [k]: squared distance that each centroid moved; -1: it has no points
    u64* masses;         // [k]: points of each cluster
    KmeansState* state;  // of the fit
    double tolerance;    // on the shift; negative: iterate to the limit
    u32 clusters;        // k
    u32 features;        // d
    u32 slots;           // of the partials
    u32 fixed;           // 1: centroids are unchanged, only masses and inertia are computed
};

}  // namespace galatea
