//! Compiles the eBPF programs that listen to the kernel's queues and generates their typed loader.

fn main() {
    weir_bpf_build::skeleton("measure");
}
