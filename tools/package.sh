#!/bin/sh
# Makes the packages for the registry in target/package, and checks that they build from the files that they have:
#
#   tools/package.sh
#   tools/package.sh --allow-dirty     # with what is not committed; options are cargo package's
#
# `cargo package` would build each package apart, and what it needs of Weir anew each time, which takes ten minutes of a
# processor. Here they are unpacked into one workspace and checked once, with what `make lint` has left of other crates.
# `cargo publish --workspace --dry-run` goes the long way.
set -eu
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
root=$PWD
unpacked=target/package/unpacked

rm -rf target/package
# The excluded say `publish = false`. Quietly, as it warns of each test that a package is without.
"$cargo" package --workspace --exclude weirnet-testkit --exclude weir-fuzz --exclude stranger --exclude weirnet-python --no-verify --locked \
    --quiet "$@"

# Packages give all files the same time; with it cargo would take changed files for those of the last time.
mkdir "$unpacked"
for package in target/package/*.crate; do
    tar -xmzf "$package" -C "$unpacked"
done
# The versions that Weir is tested with, and its profile, without which every crate would be compiled for this alone.
cp Cargo.lock "$unpacked"
cd "$unpacked"
{
    echo '[workspace]'
    echo 'resolver = "3"'
    echo 'members = ["weirnet*"]'
    sed -n '/^\[profile\.dev\]$/,/^$/p' "$root/Cargo.toml"
    # They need each other from the registry.
    echo '[patch.crates-io]'
    for folder in weirnet*; do
        echo "${folder%-[0-9]*} = { path = \"$folder\" }"
    done
} >Cargo.toml
"$cargo" check --workspace --target-dir "$root/target"
