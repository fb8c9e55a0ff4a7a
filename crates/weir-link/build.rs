//! Compiles the eBPF programs with clang and generates the typed loader of the XDP program.

use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

const SOURCES: &str = "../../bpf";

fn builder(name: &str) -> SkeletonBuilder {
    // Debian and Ubuntu keep asm/types.h under the machine's name, where clang's bpf target does not look.
    let machine = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let mut builder = SkeletonBuilder::new();
    builder.source(Path::new(SOURCES).join(format!("{name}.bpf.c"))).clang_args([
        "-I".to_owned(),
        format!("/usr/include/{machine}-linux-gnu"),
        "-Wall".into(),
        // Atomic operations that return something, and 32-bit arithmetic: Linux 5.12.
        "-mcpu=v3".into(),
    ]);
    builder
}

fn must<T, E: std::fmt::Display>(name: &str, result: Result<T, E>) {
    if let Err(error) = result {
        panic!("{name}.bpf.c does not compile; is clang installed? {error:#}");
    }
}

fn main() {
    for name in ["xsk", "crq", "crq_signals", "witness"] {
        println!("cargo::rerun-if-changed={SOURCES}/{name}.bpf.c");
    }
    for file in std::fs::read_dir(SOURCES).expect("a checkout has bpf/").flatten().map(|file| file.path()) {
        if file.extension().is_some_and(|kind| kind == "h") {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    must("xsk", builder("xsk").build_and_generate(out.join("xsk.skel.rs")));
    // The first two share maps and settings, which skeletons cannot: they are loaded as plain objects. The third is for tests.
    for name in ["crq", "crq_signals", "witness"] {
        must(name, builder(name).obj(out.join(format!("{name}.o"))).build());
    }
}
