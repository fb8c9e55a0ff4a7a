//! Compiles the law, the parser and the flow table of `bpf/` natively. The same headers are compiled for eBPF elsewhere.

fn main() {
    println!("cargo::rerun-if-changed=src/native.c");
    println!("cargo::rerun-if-changed=../../bpf/law.h");
    println!("cargo::rerun-if-changed=../../bpf/law_state.h");
    println!("cargo::rerun-if-changed=../../bpf/packet.h");
    println!("cargo::rerun-if-changed=../../bpf/table.h");
    println!("cargo::rerun-if-changed=../../bpf/fast_path.h");
    cc::Build::new()
        .file("src/native.c")
        .include("../../bpf")
        .std("gnu11")
        .flag("-Wall")
        .flag("-Wextra")
        .flag("-Werror")
        .compile("weir_law_native");
}
