#!/bin/sh
# The demonstration: TCP, QUIC and UDP at one bottleneck, without and with CRQ. First in virtual time, which takes less
# than a second and needs nothing; then with real packets, where this machine can. What it leaves out it names, and that
# is no failure. $1 is the weir command.
set -eu
weir=$1
cd "$(dirname "$0")/.."

echo "== In virtual time: one drop-tail queue for all flows, then CRQ =="
echo
"$weir" run demo/without-crq.toml demo/with-crq.toml --on sim --out results/demo/sim
echo

skip() {
    echo "== Skipped: the same with real packets =="
    echo
    echo "$1"
    exit 0
}
if [ "$(id -u)" -ne 0 ]; then
    skip "It makes network namespaces and sends the kernel's TCP through them, which needs root: sudo make demo"
fi
# Root in a container may still lack what it takes; the lines say what, and what mends it.
missing=$("$weir" doctor | awk '/^World/ { emu = /^World emu/; fix = 0 } emu && /MISSING/ { fix = 1; print; next }
    emu && fix && /fix:/ { print } { fix = fix && !/fix:/ }') || true
if [ -n "$missing" ]; then
    skip "World emu cannot run here (weir doctor):
$missing"
fi

echo "== With real packets: the kernel's TCP, QUIC and UDP, in real time; this takes about 50 seconds =="
echo
status=0
"$weir" run demo/without-crq.toml demo/with-crq.toml --out results/demo/real || status=$?
# 3: it ran, but this machine was too busy for exact timing, which the lines above say.
[ "$status" -eq 3 ] || exit "$status"
