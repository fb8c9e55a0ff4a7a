//! Compiles the lab's own eBPF programs and generates their typed loaders: the one that listens to the kernel's queues, and
//! the yardstick and the packet generator of `weir bench law`.

use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    println!("cargo:rerun-if-changed=../../bpf/measure.h");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // Debian and Ubuntu keep asm/types.h under the machine's name, where clang's bpf target does not look.
    let machine = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    for name in ["measure", "lookups", "generate"] {
        let source = PathBuf::from(format!("../../bpf/{name}.bpf.c"));
        println!("cargo:rerun-if-changed={}", source.display());
        SkeletonBuilder::new()
            .source(&source)
            .clang_args(["-I".to_owned(), format!("/usr/include/{machine}-linux-gnu"), "-Wall".into()])
            .build_and_generate(out.join(format!("{name}.skel.rs")))
            .unwrap_or_else(|error| {
                panic!("{} does not compile; is clang installed? {error:#}", source.display())
            });
    }
}
