#!/bin/sh
# Runs tests that need a kernel inside other kernels: fetches them, builds the tests, boots a micro-VM for each test and
# kernel, two at a time, and prints a line with what passed. Ends with 1 if any failed, with 2 if TESTS has a name that no test
# has, with 75 if no kernel could be fetched.
#
#   tools/test-vm.sh
#   KERNELS="6.1 7.2" TESTS="weir-kernel/kernel_signals weir/router" tools/test-vm.sh
#
# A guest's clock counts its instructions (weir vm run --clock counted), so that a slow or busy host changes no result.
# With UNTIL, a time in seconds since 1970, what is not begun or not done by then is skipped, by name.
set -eu

# Crates, and those of their test files that need a kernel.
tests=${TESTS:-weir-link/interfaces weir-kernel/kernel_* weir-transport/kernel_* weir-world/kernel_* weir-world/worlds weir-world/detection weir/up weir/killed weir/router weir/show}
kernels=${KERNELS:-6.1 6.12 7.2}
# What tests start by name, if this host has it.
programs="tcpdump ethtool bpftool nsenter mount umount setpriv"
# Folders of the repository that tests read; they keep their places.
folders="bpf demo examples figures"
# What tests are told: here the kernel's tracepoints can be relied on. The verifier is slow under emulation: one kill per step.
# Their clock counts instructions.
settings="WEIR_EXACT=1 WEIR_STRIDE=2 WEIR_COUNTED=1"

cargo=${CARGO:-cargo}
root=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# Guests go with the commands that started them.
trap 'trap "" TERM; kill 0; exit 130' INT TERM
cd "$root"

# A name that stands for no file would be tested unseen.
for test in $tests; do
    for file in "crates/${test%/*}/tests/"${test#*/}.rs; do
        if [ ! -e "$file" ]; then
            echo "test-vm: TESTS: '$test' is no test of Weir's: there is no $file" >&2
            exit 2
        fi
        echo "${test%/*} $(basename "$file" .rs)"
    done
done >"$scratch/files"

# All of the workspace, so that nothing is built in another way than for `make test`.
"$cargo" test --no-run --locked --workspace --message-format=json >"$scratch/built"

# The executable that cargo has built: of which kind (test, bin) and name.
executable() {
    sed -n "s/.*\"kind\":\[\"$1\"\].*\"name\":\"$2\".*\"profile\":.*\"test\":$3.*\"executable\":\"\([^\"]*\)\".*/\1/p" \
        "$scratch/built" | tail -n 1
}

weir=$(executable bin weir false)

# shellcheck disable=SC2086 # a list of words
if ! "$weir" vm fetch $kernels; then
    echo "test-vm: the kernels $kernels could not be fetched; the tests inside them did not run" >&2
    exit 75
fi

count() {
    sed -n "s/^test result:.* \([0-9]*\) $1;.*/\1/p" "$2" | tail -n 1
}

# One test in one kernel: prints its line, and its whole output if it failed.
run() {
    kernel=$1 crate=$2 name=$3
    built=$(executable test "$name" true)
    if [ -z "$built" ]; then
        echo "test-vm: $crate $name could not be built" >&2
        return 1
    fi
    set --
    for folder in $folders; do
        set -- "$@" --file "$root/$folder:$root/$folder"
    done
    for program in $programs; do
        if command -v "$program" >/dev/null 2>&1; then set -- "$@" --program "$program"; fi
    done
    # Tests of the command look for it where cargo has built it.
    if [ "$crate" = weir ]; then
        place="mkdir -p '${weir%/*}' && ln -s /usr/bin/weir '$weir' &&"
    else
        place=""
    fi
    log="$scratch/$kernel-$name.log"
    status=0
    began=$(date +%s)
    limit=${TIMEOUT:-900s}
    if [ -n "${UNTIL:-}" ]; then
        left=$((UNTIL - began))
        if [ "$left" -le 0 ]; then
            echo "SKIPPED $crate $name in $kernel: needs time: there was none left to begin"
            return 0
        fi
        if [ "$left" -lt "${limit%s}" ]; then limit=${left}s; fi
    fi
    "$weir" vm run "$kernel" "$@" --clock counted --file "$built:/weir/test" --timeout "$limit" -- \
        sh -c "$place mkdir -p '$root/crates/$crate' && cd '$root/crates/$crate' &&
            exec env $settings /weir/test --color never --test-threads 1" \
        </dev/null >"$log" 2>&1 || status=$?
    passed=$(count passed "$log")
    seconds=$(($(date +%s) - began))
    if [ -z "$passed" ] && [ "$((began + seconds))" -ge "${UNTIL:-9999999999}" ]; then
        echo "SKIPPED $crate $name in $kernel: needs time: not done after $seconds s"
        return 0
    fi
    {
        if [ -n "$passed" ]; then
            echo "$kernel  $crate $name: $passed passed, $(count failed "$log") failed, $(count ignored "$log") ignored ($seconds s)"
        else
            echo "$kernel  $crate $name: did not come to its end ($seconds s)"
        fi
        if [ "$status" -ne 0 ]; then sed 's/^/    /' "$log"; fi
    } >"$log.told"
    cat "$log.told"
    return "$status"
}

# Takes the next job until there is none. A guest in counted time has one processor, so two take them.
work() {
    failed=0
    while read -r kernel crate name; do
        taken="$scratch/$kernel-$crate-$name"
        if ! mkdir "$taken" 2>/dev/null; then
            # By the other, or else nobody runs it: a disk may be full.
            [ -d "$taken" ] || failed=1
            continue
        fi
        run "$kernel" "$crate" "$name" || failed=1
    done <"$scratch/jobs"
    return "$failed"
}

for kernel in $kernels; do
    sed "s/^/$kernel /" "$scratch/files"
done >"$scratch/jobs"
work &
other=$!
failed=0
work || failed=1
wait "$other" || failed=1
exit "$failed"
