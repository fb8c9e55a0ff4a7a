//! Compiles the XDP program and generates its typed loader.

fn main() {
    weir_bpf_build::skeleton("xsk");
}
