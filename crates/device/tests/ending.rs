//! A process may end while threads compile.

use galatea_device::{Architecture, Program, compile_for, testing};
use std::process::{Command, exit};
use std::time::Duration;

/// Milliseconds after which the process that this test starts is to end.
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
    if let Ok(after) = std::env::var(ENDS) {
        // The first one loads the compiler.
        compile(0, 0);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                scope.spawn(move || {
                    let mut number = 0;
                    loop {
                        number += 1;
                        compile(thread, number);
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(after.parse().expect("a number")));
            exit(0);
        });
    }
    for after in [0, 10, 20, 30, 50, 70, 100, 200] {
        let mut child = Command::new(std::env::current_exe().expect("a path"));
        let ended = child.env(ENDS, after.to_string()).output().expect("started");
        assert!(ended.status.success(), "after {after} ms: {}", ended.status);
    }
}
