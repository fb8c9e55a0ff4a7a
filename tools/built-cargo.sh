#!/bin/sh
# Cargo for maturin (tools/python.sh), which asks for a build of the Python module alone. Cargo would then choose other
# features of some crates than for `cargo test --workspace` and build everything once more; here the module is one of all
# that the tests have built.
set -eu
if [ "$1" != rustc ]; then
    exec "$REAL_CARGO" "$@"
fi
# What maturin sets for PyO3 is what PyO3 finds by itself, and would be another build too.
unset PYO3_PYTHON PYO3_ENVIRONMENT_SIGNATURE PYO3_CONFIG_FILE PYO3_BUILD_EXTENSION_MODULE
# shellcheck disable=SC2086 # words
"$REAL_CARGO" test $BUILT --no-run --locked --features weirnet-python/tested \
    --message-format json-render-diagnostics
# The command, without what only a debugger reads, is to be there when the wheel is packed.
mkdir -p python/weirnet/bin
strip -o python/weirnet/bin/weir "target/$BUILT_IN/weir"
