// Arguments of the kernel flow: a topology's operators on the device.
#pragma once

#include "galatea/flow/catalogue.h"

namespace galatea {

struct FlowArguments {
    const FlowTopic* topics;
    const FlowOperator* operators;
    const FlowHeap* heaps;
    u64* control;       // host memory: see catalogue.h
    FlowOutbox* outbox;
    FlowNote* notes;
    u64* times;         // per block: FLOW_STEPS clocks, then clocks and items of each operator; or null
    u64 patience;       // nanoseconds without a heartbeat of the host after which a block gives up
    u32 topic_count;
    u32 operator_count;
    u32 heap_count;
    u32 ready_only;     // 1: warps serve operators that have a frame; 0: all unfinished operators
    u32 notes_in_flight;  // notes that a station leaves before it waits for the first; 1 to MOST_NOTES
    u32 unused;
};

}  // namespace galatea
