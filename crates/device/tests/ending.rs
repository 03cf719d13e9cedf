//! A process may end while threads compile.

use galatea_device::{Architecture, Program, compile_for, testing, wait_before_exit};
use std::process::{Command, exit};
use std::time::Duration;

/// Milliseconds after which the process that this test starts is to end, and the number of its threads.
const ENDS: &str = "GALATEA_TEST_ENDS_AFTER";

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the test is its own child process, which ends at once"
)]
fn process_exits_cleanly_while_threads_compile() {
    let Some(nvrtc) = testing::nvrtc() else { return };
    let architecture = Architecture::SM_90;
    let compile = |thread: i32, number: i32| {
        let statements = format!("values[{thread}] += {number} * values[threadIdx.x];").repeat(400);
        let source = format!("extern \"C\" __global__ void sums(int* values) {{ {statements} }}");
        let program = Program::new("sums", source).entry("sums");
        compile_for(architecture, &program, &nvrtc).expect("valid")
    };
    if let Ok(ends) = std::env::var(ENDS) {
        let numbers = ends.split(',').map(|number| number.parse().expect("a number"));
        let [after, threads] = numbers.collect::<Vec<u64>>()[..] else {
            panic!("two numbers: {ends}");
        };
        // The first one loads the compiler.
        compile(0, 0);
        std::thread::scope(|scope| {
            for thread in 0..threads as i32 {
                scope.spawn(move || {
                    let mut number = 0;
                    loop {
                        number += 1;
                        compile(thread, number);
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(after));
            // Six threads load copies of the compiler.
            if threads > 2 {
                wait_before_exit();
            }
            exit(0);
        });
    }
    let times = [0, 10, 30, 70, 200, 600];
    for (after, threads) in times.into_iter().flat_map(|after| [(after, 2), (after, 6)]) {
        let mut child = Command::new(std::env::current_exe().expect("a path"));
        let ended = child.env(ENDS, format!("{after},{threads}")).output();
        let status = ended.expect("started").status;
        assert!(status.success(), "{threads} threads, after {after} ms: {status}");
    }
}
