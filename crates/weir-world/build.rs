//! Compiles the eBPF programs that listen to the kernel's queues and delay their wake-ups, and those that are its TCP's DCTCP, and generates their
//! typed loaders.

fn main() {
    for name in ["measure", "late", "dctcp"] {
        weir_bpf_build::skeleton(name);
    }
}
