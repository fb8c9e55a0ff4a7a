#!/bin/sh
# Coverage-guided fuzzing, one target after another: tools/fuzz.sh SECONDS [TARGET]...
#
# libFuzzer on stable Rust: the compiler's own coverage pass is asked for by flags, as `cargo fuzz` does it without a
# sanitizer. The C of bpf/ has the address and undefined-behaviour sanitizers too. An input that breaks a promise is
# left in fuzz/corpus/TARGET, where every later `cargo test` runs it; what only reached new code, in
# target/fuzz/found/TARGET.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:?the seconds for each target}
shift
[ $# -gt 0 ] || set -- frame captures live scenario sweep journal tc transport

host=$(rustc -vV | sed -n 's/^host: //p')
passes="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
for counter in inline-8bit-counters pc-table trace-compares; do
    passes="$passes -Cllvm-args=-sanitizer-coverage-$counter"
done
# Alone this crate's C has sanitizers, so the linker has to bring their runtime.
export RUSTFLAGS="--cfg fuzzing $passes -Clinker=clang -Clink-arg=-fsanitize=address,undefined"
export WEIR_LAW_CFLAGS="-g -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all"
export CXX="${CXX:-clang++}"
${CARGO:-cargo} build --locked --profile fuzz -p weir-fuzz --features libfuzzer --bin fuzz --target "$host" \
    --target-dir target/fuzz

# Leaks are looked for with ptrace, which containers often forbid.
export ASAN_OPTIONS="detect_leaks=0:detect_odr_violation=0:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
log=target/fuzz/log
for target in "$@"; do
    found=target/fuzz/found/$target
    mkdir -p "$found" "fuzz/corpus/$target"
    seeds=fuzz/corpus/$target
    length=16384
    case $target in
    frame) length=512 ;;
    live) length=4096 ;;
    transport) length=512 ;;
    scenario) seeds="$seeds examples" ;;
    sweep) seeds="$seeds examples/sweeps" ;;
    esac
    # Ten seconds and 2 GB are far beyond what any of these inputs needs.
    # shellcheck disable=SC2086 # lists of words
    if ! WEIR_FUZZ_TARGET=$target "target/fuzz/$host/fuzz/fuzz" "$found" $seeds \
        -artifact_prefix="fuzz/corpus/$target/" -max_total_time="$seconds" -max_len="$length" -timeout=10 \
        -rss_limit_mb=2048 -print_final_stats=1 >"$log" 2>&1; then
        grep -v '^#' "$log" | tail -n 60
        echo "fuzz: $target: the input above breaks it, and is kept in fuzz/corpus/$target" >&2
        exit 1
    fi
    reached='s/.* cov: \([0-9]*\) ft: \([0-9]*\) corp: \([0-9]*\).*/\1 places, \2 features, \3 inputs/p'
    coverage=$(sed -n "$reached" "$log" | tail -n 1)
    runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
    echo "fuzz: $target: $runs runs, $coverage, nothing found"
done
