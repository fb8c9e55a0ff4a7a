//! Compiles the law, the parser and the flow table of `bpf/` natively. The same headers are compiled for eBPF
//! elsewhere.
//!
//! `WEIR_LAW_CFLAGS`, flags apart by spaces, are for clang, which then compiles them: `tools/fuzz.sh` asks with these
//! for coverage counters and sanitizers, of this code alone and not of the C in other crates.

#![allow(clippy::disallowed_methods, reason = "a build script reads files and the environment")]

fn main() {
    println!("cargo::rerun-if-changed=src/native.c");
    // Whichever of them the law is spread over.
    for file in std::fs::read_dir("bpf").expect("a checkout has bpf/").flatten().map(|file| file.path()) {
        if file.extension().is_some_and(|kind| kind == "h") {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    println!("cargo::rerun-if-env-changed=WEIR_LAW_CFLAGS");
    let mut build = cc::Build::new();
    if let Ok(flags) = std::env::var("WEIR_LAW_CFLAGS") {
        build.compiler("clang").flags(flags.split_whitespace());
    }
    build
        .file("src/native.c")
        .include("bpf")
        .std("gnu11")
        .flag("-Wall")
        .flag("-Wextra")
        .flag("-Werror")
        .compile("weir_law_native");
}
