#!/bin/sh
# Installs what building Weir needs on Debian or Ubuntu, if it is missing. Does nothing, and asks for nothing, where all
# is there. With the word `vm`, what micro-VMs need as well; with `lint`, what looks at the code; with `fuzz`, what the fuzzer
# is built with; with `python`, what virtual environments need.
set -eu

need_rust=1.91
missing=""
have() { command -v "$1" >/dev/null 2>&1; }
package() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'; }

have cc || missing="$missing gcc libc6-dev"
have clang || missing="$missing clang"
have pkg-config || missing="$missing pkg-config"
have ip || missing="$missing iproute2"
# For a test; it lies where only root's PATH leads.
have ethtool || [ -x /usr/sbin/ethtool ] || missing="$missing ethtool"
for library in libelf-dev zlib1g-dev; do
    package "$library" || missing="$missing $library"
done
if [ "${1:-}" = vm ]; then
    have qemu-system-x86_64 || missing="$missing qemu-system-x86"
    have busybox || missing="$missing busybox-static"
    have curl || missing="$missing curl ca-certificates"
    have xz || missing="$missing xz-utils"
    have gpgv || missing="$missing gpgv"
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing="$missing debian-archive-keyring"
fi
if [ "${1:-}" = lint ] && ! { have cargo-fmt && have cargo-clippy; }; then
    if package cargo-web; then missing="$missing rustfmt-web rust-web-clippy"; else rustup component add rustfmt clippy; fi
fi
if [ "${1:-}" = lint ]; then
    # For tools/check-docs.py.
    have python3 || missing="$missing python3"
fi
if [ "${1:-}" = python ]; then
    # Debian has what makes virtual environments in a package of its own.
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3 python3-venv"
    have strip || missing="$missing binutils"
fi
if [ "${1:-}" = fuzz ]; then
    # libFuzzer is C++, and the sanitizers' runtime is a package of its own from Debian 12 on.
    have g++ || missing="$missing g++"
    if have clang && ! echo 'int main(void) { return 0; }' | clang -fsanitize=address -x c - -o /dev/null 2>/dev/null; then
        missing="$missing libclang-rt-$(clang -dumpversion | cut -d . -f 1)-dev"
    fi
fi
rust_is_new_enough() {
    have cargo || return 1
    version=$(cargo --version | cut -d ' ' -f 2)
    [ "$(printf '%s\n%s\n' "$need_rust" "${version%%-*}" | sort -V | head -n 1)" = "$need_rust" ]
}
# Debian 12 keeps a recent Rust for its browsers, as rustc-web and cargo-web.
packaged_rust_is_new_enough() {
    packaged=$(apt-cache show cargo-web 2>/dev/null | sed -n 's/^Version: //p' | sort -V | tail -n 1)
    [ -n "$packaged" ] &&
        [ "$(printf '%s\n%s\n' "$need_rust" "$packaged" | sort -V | head -n 1)" = "$need_rust" ]
}
if ! rust_is_new_enough && ! have rustup; then
    if [ "$(id -u)" -eq 0 ] && have apt-get; then apt-get update -qq; fi
    if packaged_rust_is_new_enough; then
        missing="$missing cargo-web rustc-web"
    else
        have curl || missing="$missing curl ca-certificates"
    fi
fi

if [ -n "$missing" ]; then
    if ! have apt-get; then
        echo "setup: please install:$missing" >&2
        exit 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        echo "setup: missing packages; run this first:" >&2
        echo "  sudo apt-get update && sudo apt-get install -y$missing" >&2
        exit 1
    fi
    echo "setup: installing$missing" >&2
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
fi

if ! rust_is_new_enough; then
    PATH="$PATH:$HOME/.cargo/bin"
    echo "setup: installing Rust $need_rust or newer for this user" >&2
    if have rustup; then
        rustup toolchain install stable --profile minimal --component clippy --component rustfmt
        rustup default stable
    else
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
            sh -s -- -y --profile minimal --component clippy --component rustfmt
    fi
fi
if ! rust_is_new_enough; then
    echo "setup: no Rust $need_rust or newer could be installed; install it from https://rustup.rs and try again" >&2
    exit 1
fi
