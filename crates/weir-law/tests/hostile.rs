//! Hostile input under the sanitizers, and the compile for eBPF.
//!
//! `fuzz/driver.c` is built with AddressSanitizer and UndefinedBehaviorSanitizer and run over mutated frames in heap
//! blocks of exactly their length. `WEIR_FUZZ_PACKETS` sets how many (ten million by default, which take half a
//! minute), `WEIR_FUZZ_SEED` which.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a compiler and what it builds are run"
)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn bpf_headers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf")
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

#[test]
fn sanitizers_find_nothing() {
    let packets = setting("WEIR_FUZZ_PACKETS", 10_000_000);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let driver = folder.path().join("driver");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let built = Command::new(&compiler)
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
        .arg("-I")
        .arg(bpf_headers())
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/driver.c"))
        .arg("-o")
        .arg(&driver)
        .output()
        .expect("the C compiler that built this crate");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(
        built.status.success(),
        "cannot build with sanitizers (install libasan and libubsan of your compiler?):\n{said}"
    );

    let run = Command::new(&driver)
        .arg(packets.to_string())
        .arg(setting("WEIR_FUZZ_SEED", 1).to_string())
        // Leaks are looked for with ptrace, which containers often forbid; the driver frees in one place.
        .env("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=0")
        .env("UBSAN_OPTIONS", "print_stacktrace=1")
        .output()
        .expect("the driver that was just built");
    let (out, said) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{out}\n{said}");

    let words: Vec<&str> = out.split_whitespace().collect();
    let counts: HashMap<&str, u64> =
        words.chunks(2).map(|pair| (pair[0], pair[1].parse().expect("a count"))).collect();
    assert_eq!(counts["packets"], packets);
    assert_eq!((0..8).map(|kind| counts[format!("kind{kind}").as_str()]).sum::<u64>(), packets);
    if packets >= 10_000 {
        // Every kind of frame and every part of the law was reached.
        for (name, count) in &counts {
            assert!(*count > packets / 1000, "{name} only {count} times: {out}");
        }
    }
}

#[test]
fn compiles_for_ebpf_without_library_calls() {
    let compiler = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        weir_testkit::skip::skip("clang", "the law compiled for eBPF; CLANG may give its path");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (source, object) = (folder.path().join("law.bpf.c"), folder.path().join("law.bpf.o"));
    let program = r#"
        #include "packet.h"
        #include "table.h"
        struct weir_law_params params;
        struct weir_table_params table;
        struct weir_bucket bucket;
        struct weir_waiting waiting;
        struct weir_filter filter;
        struct weir_counters counters;
        struct weir_flow flow;
        struct weir_outcome outcome;
        struct weir_packet packet;
        struct weir_key key;
        int parse(const u8 *data, const u8 *end, u32 bytes) { weir_parse(data, end, bytes, 0, &packet); return packet.kind; }
        int judge(u64 now) {
            weir_law_comsys(&params);
            weir_law_paper(&params);
            weir_flow_init(&flow);
            weir_key_of(&packet, params.key_has_protocol, &key);
            if (!weir_law_opens(&params, &packet, 0))
                return 0;
            weir_law_forward(&params, &flow, &packet, now, &outcome);
            weir_law_reverse(&params, &flow, &packet);
            weir_law_signal(&params, &flow, WEIR_MARK, outcome.cycle, 1);
            return outcome.choice;
        }
        int live(u64 now) {
            u32 ascending = weir_key_of(&packet, params.key_has_protocol, &key), way;
            u32 hash = weir_hash(&table, &key);
            way = weir_table_forward(&params, &table, &bucket, &waiting, &filter, &packet, &key, hash, ascending, now, &counters,
                                     &outcome);
            weir_table_reverse(&params, &table, &bucket, &waiting, &filter, &packet, &key, hash, ascending, now, &counters);
            weir_book(&params, &bucket.way[way & 7], WEIR_LOSS, outcome.cycle, 1, &counters);
            return way;
        }
    "#;
    std::fs::write(&source, program).expect("writing to the temporary folder");
    let built = Command::new(&compiler)
        .args([
            "-target",
            "bpf",
            "-mcpu=v3",
            "-std=gnu11",
            "-O2",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-c",
            "-I",
        ])
        .arg(bpf_headers())
        .arg(&source)
        .arg("-o")
        .arg(&object)
        .output()
        .expect("clang, which answered before");
    let said = String::from_utf8_lossy(&built.stderr);
    if said.contains("unable to create target") || said.contains("No available targets") {
        weir_testkit::skip::skip("clang", "this one has no bpf target");
        return;
    }
    assert!(built.status.success(), "{said}");
    let bytes = std::fs::read(&object).expect("the object that was just built");
    for name in ["memset", "memcpy", "memmove", "memcmp"] {
        // As a symbol: the debug information has lines of source too, and those may name a compiler's builtin.
        let symbol = format!("\0{name}\0");
        assert!(!bytes.windows(symbol.len()).any(|window| window == symbol.as_bytes()), "calls {name}");
    }
}
