# `make demo` and `make test` are all one needs; both install what is missing on Debian or Ubuntu.

# A toolchain that tools/setup.sh has just installed is not on the PATH of this shell yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
CARGO ?= cargo
WEIR := target/release/weir
PREFIX ?= /usr/local
UNITS ?= $(PREFIX)/lib/systemd/system
RULES ?= $(PREFIX)/lib/udev/rules.d

# Of each fuzz target.
SECONDS ?= 600

.PHONY: all build setup demo test test-router test-vm python-test wheel lint msrv fuzz prove package deny install uninstall clean

all: build

setup:
	@tools/setup.sh

build: setup
	$(CARGO) build --release --locked -p weirnet

demo: build
	@demo/run.sh $(WEIR)

test: setup
	$(CARGO) test --workspace --locked --no-fail-fast
	$(MAKE) python-test

# The Python package with what it takes from PyPI, in target/python; PYTEST="-k gym" chooses.
python-test: setup
	@tools/setup.sh python
	CARGO="$(CARGO)" tools/python.sh test $(PYTEST)

# The package for `pip install`, with the command inside: target/python/dist.
wheel: setup
	@tools/setup.sh python
	CARGO="$(CARGO)" tools/python.sh wheel

# The command as a router needs it, without the feature `lab` (docs/house.md).
test-router: setup
	$(CARGO) test -p weirnet --no-default-features --locked --test forms

# Tests inside other kernels; KERNELS="6.1 7.2" and TESTS="weir-kernel/kernel_signals weir/up" choose them. This downloads some
# 100 MB. The executable is the one that the tests use.
test-vm: setup
	@tools/setup.sh vm
	@CARGO="$(CARGO)" KERNELS="$(KERNELS)" TESTS="$(TESTS)" tools/test-vm.sh

lint: setup
	@tools/setup.sh lint
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(CARGO) clippy -p weirnet --no-default-features --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked
	tools/check-docs.py
	tools/check-house.py

# The oldest compiler that Cargo.toml names has all that is used. It is installed by rustup, and builds apart.
MSRV = $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
msrv: setup
	rustup toolchain install $(MSRV) --profile minimal --no-self-update
	rustup run $(MSRV) cargo check --workspace --all-targets --locked --target-dir target/msrv

# Coverage-guided fuzzing, docs/validation/fuzzing.md; TARGETS="captures live" chooses, SECONDS is for each.
fuzz: setup
	@tools/setup.sh fuzz
	@CARGO="$(CARGO)" tools/fuzz.sh $(SECONDS) $(TARGETS)

# Proofs about the C of bpf/, docs/validation/fuzzing.md; LONGEST is of frames, in bytes. Skips (77) without angr.
LONGEST ?= 24
prove: setup
	@tools/prove.sh $(LONGEST)

# The packages for the registry; they build from the files that they have.
package: setup
	@CARGO="$(CARGO)" tools/package.sh

# Licences, origins and known faults of dependencies; the list of faults comes from the network (CONTRIBUTING.md).
deny: setup
	$(CARGO) deny check

install: build
	install -D -m 755 $(WEIR) $(DESTDIR)$(PREFIX)/bin/weir
	$(WEIR) man $(DESTDIR)$(PREFIX)/share/man/man1
	mkdir -p $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(WEIR) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/weir
	mkdir -p $(DESTDIR)$(UNITS)
	sed 's|@BINDIR@|$(PREFIX)/bin|g' tools/systemd/weir@.service > $(DESTDIR)$(UNITS)/weir@.service
	install -D -m 644 tools/systemd/99-weir.rules $(DESTDIR)$(RULES)/99-weir.rules

uninstall:
	rm -f $(DESTDIR)$(UNITS)/weir@.service $(DESTDIR)$(RULES)/99-weir.rules
	rm -f $(DESTDIR)$(PREFIX)/bin/weir $(DESTDIR)$(PREFIX)/share/bash-completion/completions/weir
	rm -f $(DESTDIR)$(PREFIX)/share/man/man1/weir.1 $(DESTDIR)$(PREFIX)/share/man/man1/weir-*.1

clean:
	$(CARGO) clean
	rm -rf results
