//! Compiling: origin, errors, the cache on disk, parallel and background compilation.

use super::{emulated, folder, function, program};
use crate::{
    Device, DeviceError, DeviceOptions, EmulatorOptions, Geometry, Headers, Origin, Program, Tier, testing,
};

fn device_with_cache(cache: &std::path::Path) -> Device {
    let options = DeviceOptions {
        cache_directory: Some(cache.to_owned()),
        ..DeviceOptions::default()
    };
    Device::emulated(EmulatorOptions::default(), options).unwrap()
}

fn small(name: &str, body: &str) -> Program {
    let source = format!("extern \"C\" __global__ void k(unsigned long long* out) {{ {body} }}");
    Program::new(name, source).entry("k")
}

#[test]
fn compiled_once_per_machine_and_loaded_once_per_process() {
    let cache = folder();
    let device = device_with_cache(cache.path());
    let first = device.compile(&program()).unwrap();
    assert_eq!(first.origin, Origin::Compiler);
    let again = device.compile(&program()).unwrap();
    assert_eq!(again.origin, Origin::Memory);
    assert!(again.time < first.time);
    // The name is for messages only and does not identify the program.
    let mut renamed = program();
    renamed.name = "another".to_owned();
    assert_eq!(device.compile(&renamed).unwrap().origin, Origin::Memory);

    let next = device_with_cache(cache.path());
    assert_eq!(next.compile(&program()).unwrap().origin, Origin::Disk);
    assert_eq!(
        next.compile(&program().option("-DOTHER")).unwrap().origin,
        Origin::Compiler
    );
}

#[test]
fn corrupt_cache_files_are_rewritten() {
    let cache = folder();
    let device = device_with_cache(cache.path());
    device.compile(&program()).unwrap();
    let path = device.cubin_path(&program());
    let whole = std::fs::read(&path).unwrap();
    let flipped = |index: usize| {
        let mut bytes = whole.clone();
        bytes[index] ^= 1;
        bytes
    };
    let damaged: [Vec<u8>; 8] = [
        Vec::new(),
        whole[..10].to_vec(),
        whole[..whole.len() - 1].to_vec(),
        [&whole[..], b"x"].concat(),
        flipped(0),
        flipped(20),
        flipped(60),
        flipped(whole.len() - 1),
    ];
    for (case, bytes) in damaged.into_iter().enumerate() {
        std::fs::write(&path, bytes).unwrap();
        let device = device_with_cache(cache.path());
        assert_eq!(
            device.compile(&program()).unwrap().origin,
            Origin::Compiler,
            "case {case}"
        );
        assert_eq!(std::fs::read(&path).unwrap(), whole, "case {case}");
        assert_eq!(
            device_with_cache(cache.path())
                .compile(&program())
                .unwrap()
                .origin,
            Origin::Disk,
            "case {case}"
        );
    }
}

#[test]
fn image_refused_by_the_driver_is_recompiled() {
    let cache = folder();
    let device = device_with_cache(cache.path());
    let key = device.cubin_key(&program());
    crate::cache::DiskCache::new(device.cache()).store(key, b"not an image of anything");
    assert_eq!(device.compile(&program()).unwrap().origin, Origin::Compiler);
    assert_eq!(
        device_with_cache(cache.path())
            .compile(&program())
            .unwrap()
            .origin,
        Origin::Disk
    );
}

#[test]
fn cache_writes_leave_no_temporary_files() {
    let cache = folder();
    device_with_cache(cache.path()).compile(&program()).unwrap();
    let files: Vec<_> = std::fs::read_dir(cache.path().join("cubin/v1"))
        .unwrap()
        .flatten()
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
}

#[test]
fn unusable_cache_folder_disables_only_the_cache() {
    let cache = folder();
    let file = cache.path().join("a file");
    std::fs::write(&file, "in the way").unwrap();
    let device = device_with_cache(&file);
    assert_eq!(device.compile(&program()).unwrap().origin, Origin::Compiler);
    assert_eq!(device.compile(&program()).unwrap().origin, Origin::Memory);
}

#[test]
fn compile_errors_show_log_options_and_numbered_source() {
    let device = emulated();
    let source = "extern \"C\" __global__ void k(int* out) {\n    *out = unknown_name;\n}\n";
    let error = device
        .compile(&Program::new("broken", source).entry("k").option("-DSOME=1"))
        .unwrap_err();
    let DeviceError::Compile {
        program,
        log,
        listing,
        options,
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(program, "broken");
    assert!(
        log.contains("unknown_name") && log.contains("broken.cu") && log.contains('2'),
        "{log}"
    );
    assert!(listing.contains("2 |     *out = unknown_name;"), "{listing}");
    assert!(
        options.ends_with("-DSOME=1") || options.contains("-DSOME=1 "),
        "{options}"
    );
    let text = error.to_string();
    assert!(
        text.contains(log) && text.contains(listing) && text.contains(options.as_str()),
        "{text}"
    );
    // The failure is not cached: the same program can be requested again.
    assert!(
        device
            .compile(&Program::new("broken", source).entry("k"))
            .is_err()
    );
}

#[test]
fn programs_include_in_memory_headers() {
    let device = emulated();
    let headers = Headers::new([(
        "mine/number.h",
        "#pragma once\nstatic const unsigned NUMBER = 42;\n",
    )]);
    let source = "#include \"mine/number.h\"\n#include \"mine/number.h\"\n\
                  struct A { unsigned* out; }; extern \"C\" __global__ void k(A a) { *a.out = NUMBER; }";
    let program = Program::new("with_header", source).headers(&headers).entry("k");
    let function = device.compile(&program).unwrap().module.function("k").unwrap();
    let stream = device.stream().unwrap();
    let out = device.zeroed::<u32>(&stream, 1).unwrap();
    let mut arguments = crate::ArgumentBytes::new();
    arguments.push(out.address());
    function
        .launch(&stream, Geometry::new(1u32, 1u32), &arguments)
        .unwrap();
    assert_eq!(stream.read(&out, ..).unwrap(), [42]);
}

#[test]
fn programs_compile_in_parallel_and_keep_order() {
    let device = device_with_cache(folder().path());
    let programs: Vec<Program> = (0..6)
        .map(|index| small("one_of_many", &format!("out[0] = {index};")))
        .collect();
    let compiled = device.compile_all(&programs).unwrap();
    let stream = device.stream().unwrap();
    for (index, compiled) in compiled.iter().enumerate() {
        assert_eq!(compiled.origin, Origin::Compiler);
        let out = device.zeroed::<u64>(&stream, 1).unwrap();
        let mut arguments = crate::ArgumentBytes::new();
        arguments.push(out.address());
        let function = compiled.module.function("k").unwrap();
        function
            .launch(&stream, Geometry::new(1u32, 1u32), &arguments)
            .unwrap();
        assert_eq!(stream.read(&out, ..).unwrap(), [index as u64]);
    }
    assert!(device.compile_all(&[]).unwrap().is_empty());
    let broken = [programs[0].clone(), small("broken", "out[0] = nonsense;")];
    assert!(matches!(
        device.compile_all(&broken),
        Err(DeviceError::Compile { .. })
    ));
}

#[test]
fn concurrent_compilations_of_one_program_compile_once() {
    let device = device_with_cache(folder().path());
    let program = small("popular", "out[0] = 1;");
    let origins: Vec<Origin> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| device.compile(&program).unwrap().origin))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(
        origins
            .iter()
            .filter(|origin| **origin == Origin::Compiler)
            .count(),
        1,
        "{origins:?}"
    );
}

#[test]
fn quick_tier_has_its_own_cache_entry() {
    let device = device_with_cache(folder().path());
    let architecture = device.info().architecture();
    assert!(
        !program()
            .all_options(architecture)
            .contains(&"--Ofast-compile=mid".to_owned())
    );
    let quick = program().tier(Tier::Quick);
    assert!(
        quick
            .all_options(architecture)
            .contains(&"--Ofast-compile=mid".to_owned())
    );
    device.compile(&quick).unwrap();
    assert_eq!(device.compile(&program()).unwrap().origin, Origin::Compiler);
}

#[test]
fn optimised_tier_is_compiled_in_background() {
    let folder = folder();
    let device = device_with_cache(folder.path());
    assert!(device.compiled(&program()).is_none());
    let (soon, pending) = device.compile_soon(&program()).unwrap();
    assert_eq!((soon.origin, soon.tier), (Origin::Compiler, Tier::Quick));
    let pending = pending.expect("it is compiled in the background");
    Device::finish_compiling();
    assert!(
        device.compiled(&program()).is_none(),
        "a program that is used once stays quick"
    );
    assert!(pending.get().is_none());
    Device::finish_compiling();
    let made = pending.get().expect("it was compiled");
    assert_eq!((made.origin, made.tier), (Origin::Compiler, Tier::Optimised));
    let (again, pending) = device.compile_soon(&program()).unwrap();
    assert_eq!((again.origin, again.tier), (Origin::Memory, Tier::Optimised));
    assert!(pending.is_none());
    // Another process finds it on disk.
    drop(device);
    let (later, _) = device_with_cache(folder.path()).compile_soon(&program()).unwrap();
    assert_eq!((later.origin, later.tier), (Origin::Disk, Tier::Optimised));
}

#[test]
fn default_compiler_options_are_in_order() {
    let device = emulated();
    let options = program()
        .option("-DA")
        .option("-DB")
        .all_options(device.info().architecture());
    let architecture = format!("-arch={}", device.info().architecture());
    let expected = [
        &architecture,
        "--minimal",
        "-std=c++17",
        "--device-int128",
        "-default-device",
        "-DA",
        "-DB",
    ];
    assert_eq!(options, expected);
}

#[test]
fn a_function_keeps_its_program_loaded() {
    let device = emulated();
    let stream = device.stream().unwrap();
    let values = device.zeroed::<u32>(&stream, 8).unwrap();
    let function = function(&device, "add");
    drop(device);
    let mut arguments = crate::ArgumentBytes::new();
    for number in [values.address(), 8, 4] {
        arguments.push(number);
    }
    function
        .launch(&stream, Geometry::new(1u32, 32u32), &arguments)
        .unwrap();
    assert_eq!(stream.read(&values, ..).unwrap(), [4; 8]);
}

#[test]
fn nvrtc_compiles_without_a_gpu() {
    let Some(nvrtc) = testing::nvrtc() else { return };
    for architecture in [crate::Architecture::SM_80, crate::Architecture::SM_90] {
        for tier in [Tier::Optimised, Tier::Quick] {
            let image = crate::compile_for(architecture, &program().tier(tier), &nvrtc).unwrap();
            assert_eq!(image[..4], *b"\x7fELF", "a cubin is an ELF file");
        }
    }
    let error = crate::compile_for(
        crate::Architecture::SM_90,
        &small("broken", "out[0] = nonsense;"),
        &nvrtc,
    );
    let DeviceError::Compile { log, listing, .. } = error.unwrap_err() else {
        panic!()
    };
    assert!(
        log.contains("broken.cu(1)") && log.contains("nonsense") && listing.contains("nonsense"),
        "{log}"
    );
}
