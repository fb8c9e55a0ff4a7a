#!/bin/sh
# Follows every way through the C of bpf/ with unknown bytes, and proves the claims of fuzz/prove/claims.c: tools/prove.sh
# [LONGEST FRAME]. Needs Python and angr, which it installs under target/prove; where it cannot, it says so and ends with 77.
set -eu
cd "$(dirname "$0")/.."
folder=target/prove
mkdir -p "$folder"
# -O1: fewer ways than the source has, all of them those of the machine.
${CC:-cc} -O1 -g -std=gnu11 -Wall -Wextra -Ibpf -fPIC -shared -fcf-protection=none -fno-stack-protector \
    -fno-tree-vectorize -fno-builtin-memcpy fuzz/prove/claims.c -o "$folder/claims.so"
if ! "$folder/python/bin/python" -c 'import angr' 2>/dev/null; then
    # Of these releases it is known that they fit together.
    if ! { python3 -m venv "$folder/python" &&
        "$folder/python/bin/pip" install -q angr==9.2.213 bitstring==4.1.4 pycparser==3.0; } >"$folder/pip" 2>&1; then
        tail -n 3 "$folder/pip" >&2
        echo "skipped: angr cannot be installed; the claims of fuzz/prove/claims.c were not tried" >&2
        exit 77
    fi
fi
exec "$folder/python/bin/python" fuzz/prove/symbolic.py "$folder/claims.so" --bytes "${1:-24}"
