//! Compiles the yardstick and the packet generator of `weir bench law` and generates their typed loaders.

fn main() {
    for name in ["lookups", "generate"] {
        weir_bpf_build::skeleton(name);
    }
}
