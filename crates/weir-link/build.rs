//! Compiles the XDP program with clang and generates its typed loader.

use std::path::PathBuf;

use libbpf_cargo::SkeletonBuilder;

fn main() {
    let source = PathBuf::from("../../bpf/xsk.bpf.c");
    println!("cargo:rerun-if-changed={}", source.display());
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("xsk.skel.rs");
    // Debian and Ubuntu keep asm/types.h under the machine's name, where clang's bpf target does not look.
    let machine = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    SkeletonBuilder::new()
        .source(&source)
        .clang_args(["-I".to_owned(), format!("/usr/include/{machine}-linux-gnu"), "-Wall".into()])
        .build_and_generate(&out)
        .unwrap_or_else(|error| {
            panic!("{} does not compile; is clang installed? {error:#}", source.display())
        });
}
