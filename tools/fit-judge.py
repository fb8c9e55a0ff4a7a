#!/usr/bin/env python3
"""Fits the trees of the judge (bpf/judge_trees.h) to flows whose truth is known.

    cargo build --release -p weirnet-study --example law_cycles && cycles=target/release/examples/law_cycles
    $cycles 0 12000 results/fit && $cycles 12000 24000 results/paced --paced
    $cycles 0 15000 results/lone --lone && $cycles 15000 27000 results/lone-paced --lone --paced
    $cycles 0 9000 results/real --real && $cycles 1000000 1001000 results/check
    $cycles 54000 62000 results/more && $cycles 62000 70000 results/more-paced --paced
    $cycles 30000 42000 results/alone --lone --alone && $cycles 42000 54000 results/alone-paced --lone --alone --paced
    fit="results/fit results/paced results/lone results/lone-paced results/real"
    fit="$fit results/more results/more-paced results/alone results/alone-paced"
    tools/fit-judge.py $fit --check results/check --out bpf/judge_trees.h
    tools/fit-judge.py --check results/check --picture docs/images/judge-score.svg
    tools/fit-judge.py $fit --check results/check --ablate

needs numpy, lightgbm and scikit-learn, and matplotlib for the picture: the score of six flows of the check. The
features are those of bpf/judge.h, compiled here; a tree asks three of them. Each flow is used at six moments: 8, 16,
40, 100 and 250 cycles after its first signal, and at its end. Beside the flows of the mixes there are ideal ones: AIMD
with any increase and decrease, windows and rates that do not answer, dips and saw-teeth. The same input gives the same
file.
With --ablate no file is written: the fit is made again without each ingredient, and tried on the check.
"""

import argparse
import collections
import csv
import ctypes
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import lightgbm
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 7
AFTER = [8, 16, 40, 100, 250, 1 << 30]
# How much the moments count.
LATER = [0.7, 1.0, 1.0, 1.0, 1.0, 2.0]
RESPONSIVE, UNRESPONSIVE = 1, 2
VERDICTS = {"responsive": RESPONSIVE, "unresponsive": UNRESPONSIVE}
# Points of a score for each nat of the odds.
POINTS = 256
TREES, RATE, LEAST = 512, 0.16, 60
# How many flows by formula are among those that it is fitted to.
IDEAL = 12000
# How much more a flow of AIMD or scalable control counts that has its link to itself.
ALONE = 2.5
# A sender that takes less than this of an equal share harms nobody, whatever it answers.
HARMLESS = 0.5
# What --ablate leaves out: features by the question that they answer. Some answer two.
INGREDIENTS = {
    "rates beside windows": "SPREAD_RATE LATER_RATE JUMP_RATE GAVE_RATE GAVE_RATE_BY_JUMP",
    "windows beside rates": "SPREAD_WINDOW RANGE AFTER_SIGNALS AFTER_QUIET LATER_WINDOW JUMP_WINDOW GAVE_WINDOW "
    "GAVE_BY_JUMP SUM",
    "two cycles later": "LATER_WINDOW LATER_RATE",
    "the second to the fifth cycle": "GAVE_WINDOW GAVE_RATE GAVE_BY_JUMP GAVE_RATE_BY_JUMP LASTED SUM",
    "how often it answers": "ANSWERED FELL_ALONE CONTRAST",
    "blocks of eight cycles": "SPREAD_WINDOW SPREAD_RATE RANGE BLOCKS_FELL AFTER_SIGNALS AFTER_QUIET",
    "growth and jumps": "GREW JUMP_WINDOW JUMP_RATE GAVE_BY_JUMP GAVE_RATE_BY_JUMP",
    "size by signals": "SIGNALLED LOSSES SIGNAL_RATE SIZE_BY_SIGNALLED BEYOND_FRIENDLY",
    "marks": "MARKS MARK_RATE",
    "what the path is": "SIZE LENGTH",
    "how much was seen": "CYCLES SIGNALS QUIET",
}


def library(folder: Path, trees: str | None = None) -> ctypes.CDLL:
    """Compiles the judge in a new folder, with these trees in place of its own."""
    headers = ROOT / "bpf"
    if trees is not None:
        headers = Path(shutil.copytree(headers, folder / "bpf"))
        (headers / "judge_trees.h").write_text(trees)
    made = folder / "judge.so"
    source = ROOT / "tools" / "fit-judge.c"
    subprocess.run(["cc", "-O2", "-Wall", "-shared", "-fPIC", "-I", headers, "-o", made, source], check=True)
    return ctypes.CDLL(str(made))


def names() -> list[str]:
    """The features, in order."""
    text = (ROOT / "bpf" / "judge.h").read_text()
    return re.findall(r"^\tWEIR_F_(\w+),", text, re.MULTILINE)


class Flow:
    """A flow, its cycles, and what is right of it."""

    def __init__(
        self, kind: str, group: str, right: int, cycles: np.ndarray, rtt: float, counts: bool = True, among: int = 0
    ):
        self.kind, self.group, self.right, self.cycles, self.rtt = kind, group, right, cycles, rtt
        # Whether it harms somebody, and how many flows its mix has; a flow by formula has none.
        self.counts, self.among = counts, among


def read(folder: Path) -> list[Flow]:
    """The flows that law_cycles wrote, but those that a policy has to judge and those that nobody asked."""
    table = np.loadtxt(folder / "cycles.csv", delimiter=",", skiprows=1, dtype=np.int64)
    key = table[:, 0] * 1024 + table[:, 1]
    order = np.argsort(key, kind="stable")
    table, key = table[order], key[order]
    found, begins = np.unique(key, return_index=True)
    ends = np.append(begins[1:], len(key))
    where = dict(zip(found.tolist(), zip(begins.tolist(), ends.tolist())))
    flows = []
    with open(folder / "flows.csv", newline="") as file:
        for row in csv.DictReader(file):
            place = where.get(int(row["mix"]) * 1024 + int(row["flow"]))
            asked = int(row["dropped"] or 0) + int(row["marked"] or 0) > 0 and int(row["segments"] or 0) >= 200
            by_construction = row["class"] in ("aimd", "scalable", "bbr", "unresponsive", "adversary")
            if place is None or not asked or not by_construction or row["right"] not in VERDICTS:
                continue
            right = VERDICTS[row["right"]]
            harmless = right == UNRESPONSIVE and float(row["share"] or 0) < HARMLESS
            cycles = np.ascontiguousarray(table[place[0] : place[1], 2:])
            group = row["controller"].split()[0]
            rtt, among = float(row["own_rtt_ns"]), int(row["flows"])
            flows.append(Flow(row["class"], group, right, cycles, rtt, not harmless, among))
    return flows


def ideal(random: np.random.Generator, number: int) -> Flow:
    """A flow by formula: AIMD, or one of four that do not answer."""
    kind = ["aimd", "aimd", "constant", "window", "dip", "saw"][number % 6]
    base = np.exp(random.uniform(np.log(3e6), np.log(2e8)))
    count = int(random.integers(40, 320))
    top = np.exp(random.uniform(np.log(4), np.log(600)))
    ratio = random.uniform(0.45, 0.85)
    period = max(2.0, min(random.uniform(2, 100), top * (1 - ratio) / random.uniform(0.5, 3)))
    # One in three has the queue elsewhere, one in four no noise.
    queue, noise = max(0.0, random.uniform(-0.5, 1)), max(0.0, random.uniform(-0.02, 0.06))
    chance = np.exp(random.uniform(np.log(0.02), np.log(1)))
    # Where somebody makes cycles shorter than round trips, an answer comes several of them late.
    lag = int(random.choice([1, 1, 1, 2, 2, 2, 3, 4, 5, 6]))
    window, phase, due, rows, now, others = top * ratio, 0.0, -1, [], 0.0, 0.0
    for at in range(count):
        others = 0.9 * others + random.normal(0, 0.1)
        lost = 0
        if kind == "aimd":
            if at == due:
                window *= ratio
            elif due < at:
                window += top * (1 - ratio) / period
            if due < at and window >= top * random.uniform(0.9, 1.1):
                lost, due = int(random.integers(1, 4)), at + lag
            elif due < at and random.random() < 0.01:
                lost, due = 1, at + lag
        else:
            lost = int(random.integers(1, 4)) if random.random() < chance else 0
            phase = (phase + 1 / period) % 1
            window = top
            if kind == "saw":
                window = top * (ratio - 0.2 + (1.2 - ratio) * phase)
            if kind == "dip" and at == due:
                window = top * random.uniform(0.6, 0.9)
            if lost and due < at:
                due = at + 2
        full = min(1.0, max(0.0, window / top + others)) if kind == "aimd" else min(1.5, max(0.0, 0.5 + 2 * others))
        took = base * (1 + queue * full)
        size = window * took / base if kind == "constant" else window
        size = max(1.0, size * (1 + random.normal(0, noise)))
        rows.append((int(now), int(took), int(size * 1448), max(1, int(size)), lost, 0, int(at == 0)))
        now += took
    right = RESPONSIVE if kind == "aimd" else UNRESPONSIVE
    return Flow("ideal", f"ideal {kind}", right, np.array(rows, np.int64), base)


def features(judge: ctypes.CDLL, flows: list[Flow], wide: int) -> np.ndarray:
    """Flows by moments by features."""
    after = np.array(AFTER, np.int32)
    out = np.zeros((len(flows), len(AFTER), wide), np.int16)
    for number, flow in enumerate(flows):
        judge.features_of(
            flow.cycles.ctypes.data_as(ctypes.c_void_p),
            len(flow.cycles),
            after.ctypes.data_as(ctypes.c_void_p),
            len(AFTER),
            out[number].ctypes.data_as(ctypes.c_void_p),
        )
    return out


def weights(flows: list[Flow]) -> np.ndarray:
    """
    Each controller counts as much as any other, an attack more than the flow that it imitates, and who answers and is
    alone more than in company, as there are few such flows.
    """
    count = collections.Counter(flow.group for flow in flows)
    more = {"evader": 11.0, "saw-tooth": 8.5, "adversary": 5.5, "bbr": 2.6, "scalable": 2.4, "ideal": 2.2, "aimd": 1.4}
    return np.array([
        1000 / count[flow.group] * more.get(flow.group, more.get(flow.kind, 1.0))
        * (ALONE if flow.among == 1 and flow.kind in ("aimd", "scalable") else 1.0)
        for flow in flows
    ])


def fit(flows: list[Flow], given: np.ndarray, weight: np.ndarray) -> "lightgbm.Booster":
    """The trees that tell these flows apart best by their features, each flow with its weight."""
    wanted = np.array([flow.right == RESPONSIVE for flow in flows])
    model = lightgbm.LGBMClassifier(
        n_estimators=TREES, num_leaves=8, max_depth=3, learning_rate=RATE, min_child_samples=LEAST,
        random_state=1, deterministic=True, force_row_wise=True, num_threads=2, verbose=-1,
    )
    model.fit(
        np.concatenate([given[:, moment] for moment in range(len(AFTER))]),
        np.tile(wanted, len(AFTER)),
        sample_weight=np.concatenate([weight * share for share in LATER]),
    )
    return model.booster_


def complete(tree: dict, level: int, at: int, asked: list[int], limits: list[int], points: list[int]) -> None:
    """Lays a tree out with three questions on each way; a leaf that comes sooner is at the end of all of its ways."""
    if "split_feature" not in tree:
        if level == 3:
            points[at - 7] = round(tree["leaf_value"] * POINTS)
            return
        limits[at] = 32767
        for side in (1, 2):
            complete(tree, level + 1, 2 * at + side, asked, limits, points)
        return
    asked[at], limits[at] = tree["split_feature"], int(np.floor(tree["threshold"]))
    complete(tree["left_child"], level + 1, 2 * at + 1, asked, limits, points)
    complete(tree["right_child"], level + 1, 2 * at + 2, asked, limits, points)


def header(fitted: "lightgbm.Booster") -> str:
    """The trees in C."""
    trees = fitted.dump_model()["tree_info"]
    lines = [
        "/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */",
        "/*",
        " * The trees of the judge, written by tools/fit-judge.py; do not edit. A tree asks three questions: whether a feature",
        " * is above a limit. Those for the answers no and yes to question n are 2n + 1 and 2n + 2; then come the points.",
        " */",
        "#ifndef WEIR_JUDGE_TREES_H",
        "#define WEIR_JUDGE_TREES_H",
        "",
        f"#define WEIR_TREES {len(trees)}",
        "",
        "struct weir_tree {",
        "\ts16 limit[7];",
        "\ts16 points[8];",
        "\tu8 feature[8]; /* enum weir_feature; the last is unused */",
        "};",
        "",
        "static const struct weir_tree weir_trees[WEIR_TREES] = {",
    ]
    for tree in trees:
        asked, limits, points = [0] * 7, [0] * 7, [0] * 8
        complete(tree["tree_structure"], 0, 0, asked, limits, points)
        parts = (", ".join(map(str, part)) for part in (limits, points, asked))
        lines.append("\t{ { %s }, { %s }, { %s } }," % tuple(parts))
    return "\n".join([*lines, "};", "", "#endif /* WEIR_JUDGE_TREES_H */", ""])


def judged(judge: ctypes.CDLL, flow: Flow) -> np.ndarray:
    """The last verdict on a flow, and the other numbers of verdicts_of()."""
    out = np.zeros(5, np.int64)
    judge.verdicts_of(
        flow.cycles.ctypes.data_as(ctypes.c_void_p), len(flow.cycles), flow.right, out.ctypes.data_as(ctypes.c_void_p)
    )
    return out


def report(judge: ctypes.CDLL, flows: list[Flow]) -> None:
    """What the judge that stands in bpf/ makes of these flows."""
    tally = collections.defaultdict(lambda: np.zeros(5))
    times = []
    for flow in flows:
        out = judged(judge, flow)
        kind = flow.kind if flow.counts else flow.kind + ", harmless"
        for name in {kind, f"  {flow.group}" if flow.counts else kind}:
            tally[name] += [1, out[0] == flow.right, out[0] == 0, out[2], out[3]]
        if flow.counts and kind != "ideal":
            times.append(out[1] / flow.rtt if out[1] >= 0 else np.inf)
    print(f"{'':28}{'flows':>8}{'right %':>10}{'unjudged %':>12}{'time right %':>14}")
    for name, (count, right, none, good, all_of_it) in sorted(tally.items(), key=lambda item: item[0].strip()):
        share = 100 * good / max(1, all_of_it)
        print(f"{name:28}{int(count):8}{100 * right / count:10.1f}{100 * none / count:12.1f}{share:14.1f}")
    if times:
        print(f"first right verdict after {np.median(times):.1f} round trips of the first signal (median)")


def ablate(flows: list[Flow], given: np.ndarray, check: list[Flow], folder: Path) -> None:
    """Right verdicts on flows of the check by class, with all that there is and without each ingredient."""
    known = names()
    everything = np.ones(len(flows), bool)
    among = np.array([flow.among for flow in flows])
    by_formula = np.array([flow.kind == "ideal" for flow in flows])
    ways = [("nothing", everything, [], weights)]
    ways += [(name, everything, [known.index(one) for one in without.split()], weights)
             for name, without in INGREDIENTS.items()]
    ways += [
        ("mixes of two and three flows", (among < 2) | (among > 3), [], weights),
        ("flows alone", among != 1, [], weights),
        ("flows by formula", ~by_formula, [], weights),
        ("weights by controller", everything, [], lambda kept: np.ones(len(kept))),
    ]
    kinds = ["aimd", "scalable", "bbr", "unresponsive", "adversary"]
    check = [flow for flow in check if flow.counts]
    count = collections.Counter(flow.kind for flow in check)
    print(f"{'without':32}" + "".join(f"{kind:>14}" for kind in kinds) + f"{'mean':>8}{'time right':>12}")
    print(f"{'(flows)':32}" + "".join(f"{count[kind]:14}" for kind in kinds))
    for number, (name, which, without, weigh) in enumerate(ways):
        asked = given.copy()
        asked[:, :, without] = 0
        kept = [flow for flow, yes in zip(flows, which) if yes]
        trees = header(fit(kept, asked[which], weigh(kept)))
        place = folder / str(number)
        place.mkdir()
        judge = library(place, trees)
        right, times = collections.Counter(), []
        for flow in check:
            out = judged(judge, flow)
            right[flow.kind] += int(out[0] == flow.right)
            if out[3]:
                times.append(out[2] / out[3])
        shares = [100 * right[kind] / max(1, count[kind]) for kind in kinds]
        cells = "".join(f"{share:14.1f}" for share in shares)
        print(f"{name:32}{cells}{np.mean(shares):8.1f}{100 * np.mean(times):12.1f}", flush=True)


def picture(judge: ctypes.CDLL, flows: list[Flow], out: Path) -> None:
    """Draws the score of the first long flow of each of six controllers over its cycles."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "weir"
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.2, 3.4))
    for name in ("cubic", "prague", "bbr3", "constant-rate", "dip", "saw-tooth"):
        flow = next(flow for flow in flows if flow.group == name and flow.counts and len(flow.cycles) >= 200)
        scores = np.zeros(len(flow.cycles), np.int32)
        judge.scores_of(
            flow.cycles.ctypes.data_as(ctypes.c_void_p), len(scores), scores.ctypes.data_as(ctypes.c_void_p)
        )
        line = "-" if flow.right == RESPONSIVE else "--"
        axes.plot(range(1, 201), scores[:200] / POINTS, line, label=name, linewidth=1.4)
    axes.axhline(0, color="#5b6470", linewidth=0.8)
    axes.set(xlabel="cycles", ylabel=f"score / {POINTS}", xlim=(0, 200))
    axes.legend(ncols=6, fontsize=8, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fit", type=Path, nargs="*", help="folders of law_cycles to fit to; without any, only check")
    parser.add_argument("--check", type=Path, action="append", default=[], help="folders to try the judge on")
    parser.add_argument("--out", type=Path, default=ROOT / "bpf" / "judge_trees.h", help="the file to write")
    parser.add_argument("--ablate", action="store_true", help="only tell what each ingredient is worth on the check")
    parser.add_argument("--picture", type=Path, help="an SVG of scores, from the first folder of --check")
    args = parser.parse_args()
    if args.ablate and not (args.fit and args.check):
        parser.error("--ablate needs folders to fit to, and --check with one to try the fits on")
    random = np.random.default_rng(1)
    known = names()
    with tempfile.TemporaryDirectory() as folder:
        if args.fit:
            judge = library(Path(folder))
            flows = [flow for one in args.fit for flow in read(one) if flow.counts]
            flows += [ideal(random, number) for number in range(IDEAL)]
            given = features(judge, flows, len(known))
            if args.ablate:
                ablate(flows, given, [flow for one in args.check for flow in read(one)], Path(folder))
                return
            fitted = fit(flows, given, weights(flows))
            args.out.write_text(header(fitted))
            gain = fitted.feature_importance("gain")
            print("what the trees ask for, by gain: ", end="")
            print(", ".join(f"{known[at].lower()} {100 * gain[at] / gain.sum():.0f} %" for at in np.argsort(-gain)[:16]))
        (Path(folder) / "judge.so").unlink(missing_ok=True)
        folder = Path(folder) / "check"
        folder.mkdir()
        judge = library(folder)
        for one in args.check:
            report(judge, read(one))
        if args.picture:
            picture(judge, read(args.check[0]), args.picture)
        if args.check:
            report(judge, [ideal(np.random.default_rng(7), number) for number in range(600)])


if __name__ == "__main__":
    main()
