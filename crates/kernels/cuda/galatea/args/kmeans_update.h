// Arguments of the kernel kmeans_update, and the state of a fit.
#pragma once

#include "galatea/prelude.cuh"

namespace galatea {

// What the host reads of a fit. Host twin FitState.
struct KmeansState {
    u64 iterations;  // updates done
    u64 done;        // 1: the centroids moved no further than the tolerance, passes and updates do nothing from now on
    double shift;    // sum of the squared distances that centroids moved in the last update
    double inertia;  // sum of the partials' inertias at the last update
    u64 empty;       // clusters without points at the last update: they keep their centroids
    u64 ticket;      // blocks that have finished; 0 between launches
    u64 arrived;     // at barriers of the kernel kmeans_fit: a multiple of its blocks between launches
};

struct KmeansUpdateArguments {
    double* partials;    // [slot]{feature sums [k][d], masses [k], inertia}; cleared
    float* centroids;    // as kmeans/nearest.cuh lays them out; the origin stays
    double* shifts;      // [k]: how far each centroid moved, squared; -1: it has no points
    u64* masses;         // [k]: points of each cluster
    KmeansState* state;  // of the fit
    double tolerance;    // on the shift; negative: never done
    u32 clusters;        // k
    u32 features;        // d
    u32 slots;           // of the partials
    u32 fixed;           // 1: centroids stay, masses and inertia are what is wanted
};

}  // namespace galatea
