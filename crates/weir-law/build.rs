//! Compiles the law, the parser and the flow table of `bpf/` natively. The same headers are compiled for eBPF elsewhere.

fn main() {
    println!("cargo::rerun-if-changed=src/native.c");
    // Whichever of them the law is spread over.
    for file in std::fs::read_dir("../../bpf").expect("a checkout has bpf/").flatten().map(|file| file.path())
    {
        if file.extension().is_some_and(|kind| kind == "h") {
            println!("cargo::rerun-if-changed={}", file.display());
        }
    }
    cc::Build::new()
        .file("src/native.c")
        .include("../../bpf")
        .std("gnu11")
        .flag("-Wall")
        .flag("-Wextra")
        .flag("-Werror")
        .compile("weir_law_native");
}
