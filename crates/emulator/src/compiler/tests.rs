use super::options::{OptionError, Options};
use super::program::{Kernel, scan};

fn kernel(name: &str, bounds: Option<&str>) -> Kernel {
    Kernel {
        name: name.to_owned(),
        bounds: bounds.map(str::to_owned),
    }
}

#[test]
fn kernels_are_found_by_their_markers() {
    let text = "extern \"C\" __galatea_global_marker__ void __galatea_bounds_marker__(256, 2) first(Args a) { f(a); }\n\
                extern \"C\" __galatea_bounds_marker__(max<int>(1, 2)) __galatea_global_marker__ void\n# 7 \"x.cu\"\nsecond(int *p);\n\
                static __galatea_global_marker__ void __attribute__((used)) third() {}\n\
                extern \"C\" __galatea_global_marker__ void second(int *p) { *p = 1; }\n";
    let program = scan(text);
    assert_eq!(
        program.kernels,
        [
            kernel("first", Some("256")),
            kernel("second", Some("max<int>(1, 2)")),
            kernel("third", None)
        ]
    );
    assert!(!program.text.contains("__galatea_"), "{}", program.text);
    assert_eq!(program.text.len(), text.len());
    assert_eq!(program.text.lines().count(), text.lines().count());
}

#[test]
fn launch_bounds_belong_to_their_kernel() {
    let program = scan(
        "__galatea_global_marker__ void a() {}\n__galatea_global_marker__ void __galatea_bounds_marker__(64) b() {}\n__galatea_global_marker__ void c() {}",
    );
    assert_eq!(
        program.kernels,
        [kernel("a", None), kernel("b", Some("64")), kernel("c", None)]
    );
}

#[test]
fn nvrtc_options_are_parsed() {
    let given = [
        "-arch=sm_80",
        "--minimal",
        "-DROWS=4",
        "-D",
        "X",
        "--define-macro=Y=1",
        "--std=c++20",
        "--emulator-stress",
    ];
    let options = Options::parse(given, Options::default()).expect("valid options");
    assert_eq!(options.standard, "c++20");
    assert!(options.mode.stress && !options.mode.count);
    let flags = options.definitions();
    for flag in [
        "-D__CUDA_ARCH__=800",
        "-DROWS=4",
        "-DX",
        "-DY=1",
        "-DGALATEA_EMULATOR_STRESS",
    ] {
        assert!(flags.iter().any(|given| given == flag), "{flag} in {flags:?}");
    }
}

#[test]
fn unknown_options_are_errors() {
    for option in ["--no-such-option", "program.cu", "--define-macro"] {
        assert_eq!(
            Options::parse([option], Options::default()),
            Err(OptionError(option.to_owned()))
        );
    }
}
