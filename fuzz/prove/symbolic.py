"""Claims of claims.c, for all inputs: every way through the compiled C is followed with unknown bytes (angr), and none
may be refuted or read a byte behind those that were handed in.

    symbolic.py LIBRARY [--bytes LONGEST]

Ends with 1 where a claim is refuted; the input is shown. Ends with 77 where angr is not there.
"""

import argparse
import logging
import sys
import time

try:
    logging.disable(logging.ERROR)
    import angr
    import claripy
except ImportError as missing:
    print(f"skipped: angr is not to be had here ({missing}); the claims of fuzz/prove were not tried")
    sys.exit(77)

DECLINED, TAKEN, OUTSIDE, REFUTED = 1, 2, 3, 0xBAD
# Handed in: each block ends where its pages end, and nothing lies behind.
PAGE = 0x1000
BLOCKS = 0x10000000


class Broken(Exception):
    """A claim that does not hold."""


class Claim:
    """One call with unknown bytes."""

    def __init__(self, project, name):
        self.project = project
        self.at = project.loader.find_symbol(name).rebased_addr
        self.name = name
        self.blocks = []

    def block(self, name, count):
        """So many unknown bytes; tells where they will be."""
        pages = -(-max(count, 1) // PAGE)
        # An empty page before and behind.
        base = BLOCKS + sum(pages + 2 for _, _, _, pages in self.blocks) * PAGE
        self.blocks.append((name, count, base, pages))
        return base + pages * PAGE - count

    def alike(self, state, unknown, one, other, count):
        """Two variables that have to have the same bytes."""
        places = [self.project.loader.find_symbol(name).rebased_addr for name in (one, other)]
        bits = [state.memory.load(place, count) for place in places]
        if state.solver.satisfiable(extra_constraints=[bits[0] != bits[1]]):
            state.add_constraints(bits[0] != bits[1])
            self.broken(state, unknown, f"{one} is not {other}")

    def follow(self, *arguments, same):
        """Goes every way and counts how they end; `same` says what has to be alike where the call returns what."""
        began = time.monotonic()
        state = self.project.factory.call_state(
            self.at,
            *arguments,
            add_options={angr.options.STRICT_PAGE_ACCESS, angr.options.ZERO_FILL_UNCONSTRAINED_MEMORY},
        )
        # Blocks, and numbers among the arguments.
        unknown = {bits.args[0]: bits for bits in arguments if getattr(bits, "op", "") == "BVS"}
        for name, count, base, pages in self.blocks:
            state.memory.map_region(base, pages * PAGE, 3)
            if count:
                unknown[name] = claripy.BVS(name, 8 * count)
                state.memory.store(base + pages * PAGE - count, unknown[name])
        ways = self.project.factory.simulation_manager(state)
        counts = {}
        while ways.active:
            ways.step()
            for found in ways.errored:
                self.broken(found.state, unknown, str(found.error))
            for end in ways.deadended:
                result = end.solver.eval_one(end.regs.eax)
                counts[result] = counts.get(result, 0) + 1
                if result == REFUTED:
                    self.broken(end, unknown, "refuted")
                for one, other, size in same.get(result, ()):
                    self.alike(end, unknown, one, other, size)
            ways.drop(stash="deadended")
        words = {DECLINED: "declined", TAKEN: "taken", OUTSIDE: "not asked"}
        ends = ", ".join(f"{count} {words.get(what, what)}" for what, count in sorted(counts.items()))
        return sum(counts.values()), ends, time.monotonic() - began

    def broken(self, state, unknown, why):
        # One after the other, each with those before it as they are: together they are one input.
        shown = []
        for name, bits in unknown.items():
            value = state.solver.eval(bits)
            state.add_constraints(bits == value)
            shown.append(f"  {name}: {value.to_bytes(len(bits) // 8, 'big').hex()}")
        raise Broken("\n".join([f"{self.name}: {why}", *shown]))


def frames(project, longest):
    """Bare IP and Ethernet frames of each length, whatever the wire's length."""
    packets = ("quick_packet", "whole_packet", size(project, "packet"))
    for start, name in ((1, "IP"), (0, "Ethernet")):
        ways, took = 0, 0.0
        for length in range(longest + 1):
            claim = Claim(project, "claim_frame")
            frame = claim.block("frame", length)
            wire = claripy.BVS("wire", 32)
            count, _, spent = claim.follow(frame, length, wire.zero_extend(32), start, same={TAKEN: [packets]})
            ways, took = ways + count, took + spent
        what = f"{name} frames of 0 to {longest} bytes are read both ways alike"
        print(f"proved: {what}: {ways} ways, {took:.0f} s", flush=True)


def entries(project):
    """Any entry, any packet of its flow, any times."""
    bucket = size(project, "bucket")
    same = {
        DECLINED: [("quick", "before", bucket)],
        TAKEN: [("quick", "whole", bucket), ("counters", "none", size(project, "counters"))],
    }
    for reverse, name in ((0, "forward"), (1, "reverse")):
        claim = Claim(project, "claim_entry")
        entry, packet = claim.block("entry", size(project, "entry")), claim.block("packet", size(project, "packet"))
        numbers = claim.block("numbers", 9 * 4)
        now = claripy.BVS("now", 64)
        ways, ends, took = claim.follow(entry, packet, numbers, reverse, now, same=same)
        what = f"{name} packets do to any entry the same both ways"
        print(f"proved: {what}: {ways} ways ({ends}), {took:.0f} s", flush=True)


def size(project, what):
    at = project.loader.find_symbol(f"size_of_{what}").rebased_addr
    return int.from_bytes(project.loader.memory.load(at, 4), "little")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("library")
    arguments.add_argument("--bytes", type=int, default=24, help="the longest frame")
    given = arguments.parse_args()
    project = angr.Project(given.library, auto_load_libs=False)
    try:
        entries(project)
        frames(project, given.bytes)
    except Broken as broken:
        print(f"BROKEN: {broken}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
