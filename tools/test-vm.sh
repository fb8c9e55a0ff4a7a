#!/bin/sh
# Runs the tests that need a kernel inside other kernels: fetches them, builds the tests, boots a micro-VM for each test
# and kernel, and prints a line with what passed. Ends with 1 if any failed.
#
#   tools/test-vm.sh WEIR                     with the weir executable WEIR
#   KERNELS="6.1 6.12 7.2" tools/test-vm.sh WEIR
set -eu

# Crates, and those of their test files that need a kernel.
tests="weir-link/interfaces weir-link/kernel_* weir-lab/kernel_*"
kernels=${KERNELS:-6.1 7.2}
# What tests start by name, if this host has it.
programs="tcpdump ethtool bpftool nsenter mount umount"
# Folders of the repository that tests read; they keep their places.
folders="bpf demo examples figures"

weir=${1:?"usage: tools/test-vm.sh WEIR; make test-vm does all that is needed"}
cargo=${CARGO:-cargo}
root=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
cd "$root"

# shellcheck disable=SC2086 # a list of words
"$weir" vm fetch $kernels

set --
for folder in $folders; do
    set -- "$@" --file "$root/$folder:$root/$folder"
done
for program in $programs; do
    if command -v "$program" >/dev/null 2>&1; then set -- "$@" --program "$program"; fi
done

# The executable that cargo has built for a crate's test.
executable() {
    # shellcheck disable=SC2086 # an option may be missing
    "$cargo" test --no-run --locked --message-format=json -p "$1" --test "$2" |
        sed -n "s/.*\"name\":\"$2\".*\"executable\":\"\([^\"]*\)\".*/\1/p"
}

count() {
    sed -n "s/^test result:.* \([0-9]*\) $1;.*/\1/p" "$2" | tail -n 1
}

failed=0
for file in $(for test in $tests; do ls crates/${test%/*}/tests/${test#*/}.rs 2>/dev/null; done); do
    name=$(basename "$file" .rs)
    crate=${file#crates/}
    crate=${crate%%/*}
    built=$(executable "$crate" "$name")
    if [ -z "$built" ]; then
        echo "test-vm: $crate $name could not be built" >&2
        exit 1
    fi
    for kernel in $kernels; do
        log="$scratch/$kernel-$name"
        status=0
        "$weir" vm run "$kernel" "$@" --file "$built:/weir/test" --timeout "${TIMEOUT:-900s}" -- \
            sh -c "mkdir -p '$root/crates/$crate' && cd '$root/crates/$crate' && exec /weir/test --color never --test-threads 1" \
            </dev/null >"$log" 2>&1 || status=$?
        passed=$(count passed "$log")
        if [ -n "$passed" ]; then
            echo "$kernel  $crate $name: $passed passed, $(count failed "$log") failed, $(count ignored "$log") ignored"
        else
            echo "$kernel  $crate $name: did not come to its end"
        fi
        if [ "$status" -ne 0 ]; then
            failed=1
            sed 's/^/    /' "$log"
        fi
    done
done
exit "$failed"
