//! A thread that spins lets the thread run that it waits for, whichever it is.

mod support;

use galatea_emulator::EmulatorOptions;
use support::Gpu;

/// Thread `chosen` pauses a few times before it sets the word on which all others of its block spin.
const SOURCE: &str = r#"
struct Arguments { unsigned *words; unsigned long long chosen; };
extern "C" __global__ void wait_for_one(Arguments a) {
    unsigned *word = a.words + blockIdx.x;
    if (threadIdx.x == a.chosen) {
        for (int i = 0; i < 3; ++i) __nanosleep(1);
        atomicExch(word, 1u);
    } else {
        while (atomicAdd(word, 0u) == 0) {}
    }
}
"#;

#[repr(C)]
#[derive(Clone, Copy)]
struct Arguments {
    words: u64,
    chosen: u64,
}

#[test]
fn spinning_threads_let_every_thread_run() {
    const BLOCKS: usize = 2;
    let gpu = Gpu::new(EmulatorOptions::default());
    let program = gpu.compile(SOURCE);
    for chosen in 0..256 {
        let words = gpu.zeroed::<u32>(BLOCKS);
        let arguments = Arguments {
            words: words.address,
            chosen,
        };
        gpu.go(&program, "wait_for_one", BLOCKS as u32, 256, 0, arguments);
        assert_eq!(gpu.read(&words), [1; BLOCKS], "thread {chosen}");
    }
}
