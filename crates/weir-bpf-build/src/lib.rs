//! Compiles eBPF programs of a crate's folder `bpf` with clang, for build scripts. Each crate that needs programs has
//! that folder as a link to the repository's, so that its package contains it.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use libbpf_cargo::SkeletonBuilder;

/// The sources, beside the crate's `Cargo.toml`.
const SOURCES: &str = "bpf";

/// Compiles `bpf/NAME.bpf.c` and generates its typed loader, `NAME.skel.rs` in `OUT_DIR`.
///
/// # Panics
/// If it does not compile: a build script has no other way to say so.
pub fn skeleton(name: &str) {
    must(name, builder(name).build_and_generate(out().join(format!("{name}.skel.rs"))));
}

/// Compiles `bpf/NAME.bpf.c` to `NAME.o` in `OUT_DIR`, for programs that share maps and settings, which skeletons
/// cannot.
///
/// # Panics
/// If it does not compile: a build script has no other way to say so.
pub fn object(name: &str) {
    must(name, builder(name).obj(out().join(format!("{name}.o"))).build());
}

fn out() -> PathBuf {
    PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"))
}

fn builder(name: &str) -> SkeletonBuilder {
    let source = Path::new(SOURCES).join(format!("{name}.bpf.c"));
    println!("cargo::rerun-if-changed={}", source.display());
    for header in headers() {
        println!("cargo::rerun-if-changed={}", header.display());
    }
    // Debian and Ubuntu keep asm/types.h under the machine's name, where clang's bpf target does not look.
    let machine = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let mut builder = SkeletonBuilder::new();
    builder.source(source).clang_args([
        "-I".to_owned(),
        format!("/usr/include/{machine}-linux-gnu"),
        "-Wall".into(),
        // Atomic operations that return something, and 32-bit arithmetic: Linux 5.12.
        "-mcpu=v3".into(),
    ]);
    builder
}

/// Any of them may be included.
fn headers() -> impl Iterator<Item = PathBuf> {
    let files = std::fs::read_dir(SOURCES).expect("the crate has bpf/").flatten().map(|file| file.path());
    files.filter(|file| file.extension().is_some_and(|kind| kind == "h"))
}

fn must<T, E: Display>(name: &str, result: Result<T, E>) {
    if let Err(error) = result {
        panic!("{name}.bpf.c does not compile; is clang installed? {error:#}");
    }
}
