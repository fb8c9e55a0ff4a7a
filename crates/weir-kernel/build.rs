//! Compiles the eBPF programs of CRQ, and the one by which tests see packets' marks.

fn main() {
    for name in ["crq", "crq_signals", "witness"] {
        weir_bpf_build::object(name);
    }
}
