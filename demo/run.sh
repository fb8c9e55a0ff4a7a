#!/bin/sh
# The demonstration: real TCP, QUIC and UDP through one bottleneck, without and with CRQ.
# Without root it judges a shipped capture instead. $1 is the weir command.
set -eu
weir=$1
cd "$(dirname "$0")/.."

if [ "$(id -u)" -ne 0 ]; then
    echo "The demonstration sends real packets through network namespaces, which needs root:"
    echo "  sudo make demo"
    echo "Without it, this is how a network would judge the flows of a capture (weir assess):"
    echo
    exec "$weir" assess demo/capture.pcapng
fi

status=0
"$weir" run demo/without-crq.toml demo/with-crq.toml --out results/demo || status=$?
# 3: it ran, but this machine was too busy for exact timing, which the lines above say.
[ "$status" -eq 3 ] || exit "$status"
