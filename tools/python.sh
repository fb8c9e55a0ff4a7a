#!/bin/sh
# Builds the Python package, and tests it:
#
#   tools/python.sh wheel    # a release build, in target/python/dist, for any Linux with that libc or a newer one
#   tools/python.sh test     # with the code that `cargo test --workspace` has built, in target/python/wheels
#
# With PROFILE=NAME both build by Cargo's profile of that name, and `test` no more than it needs. What they take from PyPI
# goes into virtual environments under target/python. Words behind `test` are pytest's.
set -eu
cd "$(dirname "$0")/.."
mode=${1:?"say wheel or test"}
shift
cargo=${CARGO:-cargo}
python=${PYTHON:-python3}
here=target/python
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "python: $python is older than 3.11; name another with PYTHON=" >&2
    exit 1
fi

# An environment with what a list names, made anew when the list or the interpreter has changed.
environment() {
    made_of="$("$python" -c 'import sys; print(sys.version, sys.executable)') $(cat "$2")"
    if [ "$(cat "$1/made-of" 2>/dev/null)" != "$made_of" ]; then
        rm -rf "$1"
        "$python" -m venv "$1"
        "$1/bin/pip" install --quiet --disable-pip-version-check --requirement "$2"
        printf '%s\n' "$made_of" >"$1/made-of"
    fi
}

case $mode in
wheel)
    environment $here/build python/build-requirements.txt
    profile=${PROFILE:-release}
    "$cargo" build --profile "$profile" --locked -p weirnet
    mkdir -p python/weirnet/bin
    strip -o python/weirnet/bin/weir "target/$profile/weir"
    rm -rf $here/dist $here/raw
    PATH="$PWD/$here/build/bin:$PATH" maturin build --profile "$profile" --strip --locked --auditwheel skip \
        --manifest-path python/Cargo.toml --out $here/raw
    # libelf comes along, for the module and the command: not every Linux has it.
    PATH="$PWD/$here/build/bin:$PATH" auditwheel repair --wheel-dir $here/dist $here/raw/weirnet-*.whl
    ls -l $here/dist
    ;;
test)
    environment $here/test python/tests/requirements.txt
    PATH="$PWD/$here/test/bin:$PATH"
    rm -rf $here/wheels
    # The module is built together with the tests, which it shares all code with (tools/built-cargo.sh).
    export BUILT="--workspace" BUILT_IN=debug
    if [ -n "${PROFILE:-}" ]; then
        BUILT="--profile $PROFILE --package weirnet-python --package weirnet" BUILT_IN=$PROFILE
    fi
    REAL_CARGO=$(command -v "$cargo") CARGO="$PWD/tools/built-cargo.sh" maturin build --profile dev --auditwheel skip \
        --manifest-path python/Cargo.toml --out $here/wheels
    pip install --quiet --disable-pip-version-check --no-deps --force-reinstall $here/wheels/weirnet-*.whl
    # Elsewhere than beside the package's sources, which have no module.
    cd python/tests
    exec python -m pytest "$@"
    ;;
*)
    echo "python: there is no '$mode'; say wheel or test" >&2
    exit 2
    ;;
esac
