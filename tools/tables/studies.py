"""Plans beside the best known ones: graphs/STUDIES.md is what this writes.

graphs/studies/best.csv says what was found of every instance, and by whom. FOLDER has
the layer graphs of msr-fiddle/dnn-partitioning; without it the second table is left out. A bound
above what was found, a plan below a proven optimum and a plan far above it are said on standard
error, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from common import GRAPHS, ask, row, rows_of

MOST_GAP = 0.05
A_LITTLE = 1e-6
DEVICES = "6"

# of a layer graph: what counts, the options for that, and the best known milliseconds
WAYS = (
    ("computing alone, contiguous", ["--contiguous"]),
    ("transfers added, contiguous", ["--contiguous", "--bandwidth", "1GB/s", "--transfers", "added"]),
    ("transfers added, anywhere", ["--bandwidth", "1GB/s", "--transfers", "added"]),
    ("transfers overlapped, contiguous", ["--contiguous", "--bandwidth", "1GB/s"]),
    ("transfers overlapped, anywhere", ["--bandwidth", "1GB/s"]),
)
KNOWN: dict[str, tuple[tuple[str, str] | None, ...]] = {
    "gnmt": (("106.974", "exact"), ("107.004", "exact"), ("90.948", "local search"), None, None),
    "resnet50": (("79.443", "exact"), ("80.455", "exact"), ("81.605", "local search"), None, None),
}

ABOVE = """\
# Plans beside the best known

Written by `tools/table studies`.

## Small graphs on any workers

Operators with random costs on 2 to 4 workers, a byte of stash each, one worker per operator, free
links. The command for each file of [studies/small](studies/small) is
`orrery plan FILE OPTIONS --straight --search`. The makespan is in units; the bound holds on every
placement. The optimum was found and proven by a constraint solver (CP-SAT of OR-Tools), which has
no part in the search.
"""
LAYERS = """
## Published layer graphs

Training graphs of msr-fiddle/dnn-partitioning (Tarnawski et al., NeurIPS 2020) on 6 devices:
milliseconds per microbatch on the busiest device. As in that paper, `--transfers added` adds a
device's transfers, each tensor sent once, to its computing. The bound is an even share of the
computing, or the largest operator.

| graph | what counts | bound | ours | best known | found by |
|---|---|---|---|---|---|"""


def plan(orrery: str, graph: Path, options: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = ask(orrery, "plan", graph, "--straight", *options)
    return found


def small_table(orrery: str) -> list[str]:
    """Lines of the table of small instances; the faults that it has go to standard error."""
    studies = GRAPHS / "studies"
    lines, gaps = [], []
    for of in rows_of(studies, "best.csv"):
        found = plan(orrery, studies / of["instance"], [*of["options"].split(), "--search"])
        best, ours, bound = float(of["best"]), found["makespan"], found["lower_bound_anywhere"]
        gaps.append(ours / best - 1)
        for wrong, what in (
            (bound > best + A_LITTLE, f"the bound {bound:g} is above the optimum"),
            (ours < best - A_LITTLE, f"{ours:g} is below the optimum"),
            (gaps[-1] > MOST_GAP, f"{ours:g} is more than {MOST_GAP:.0%} above the optimum"),
        ):
            if wrong:
                faults.append(f"{of['instance']}: {what} {best:g}")
        lines.append(row(f"`{of['instance']}`", f"`{of['options']}`", *(f"{x:g}" for x in (bound, ours, best)), of["who"]))
    optimal, mean = sum(gap < A_LITTLE for gap in gaps), sum(gaps) / len(gaps)
    summary = f"{optimal} of {len(gaps)} at the optimum, {mean:.2%} above it on average"
    return [
        f"{summary}, {max(gaps):.1%} at worst.",
        "",
        "| instance | options | bound | ours | best known | found by |",
        "|---|---|---|---|---|---|",
        *lines,
    ]


def layer_graph(path: Path) -> str:
    """An operator for each forward node, with the backward nodes of its colour; 1 MB for a
    millisecond of sending."""
    data = json.loads(path.read_text(encoding="utf-8"))
    forward = [node for node in data["nodes"] if not node["isBackwardNode"]]
    backward: dict[int, float] = {}
    for node in data["nodes"]:
        if node["isBackwardNode"]:
            colour = node["colorClass"]
            backward[colour] = backward.get(colour, 0) + node["fpgaLatency"]
    sent = {edge["sourceId"]: edge["cost"] for edge in data["edges"]}
    lines = [
        f'n{node["id"]} [forward="{node["fpgaLatency"] * 1e6:.0f}ns", '
        f'backward="{backward[node["colorClass"]] * 1e6:.0f}ns", '
        f'activation="{sent.get(node["id"], 0) * 1e6:.0f}B"]'
        for node in forward
    ]
    names = {node["id"] for node in forward}
    lines += [
        f"n{edge['sourceId']} -> n{edge['destId']}"
        for edge in data["edges"]
        if edge["sourceId"] in names and edge["destId"] in names
    ]
    return "digraph layers {\n" + "\n".join(lines) + "\n}\n"


def layer_table(orrery: str, folder: Path) -> list[str]:
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        for name, known in KNOWN.items():
            dot = Path(temporary) / f"{name}.dot"
            dot.write_text(layer_graph(folder / f"{name}_training.json"), encoding="utf-8")
            bound = plan(orrery, dot, ["-w", DEVICES])["pieces_bound"] * 1e3
            for (what, options), best in zip(WAYS, known):
                ours = plan(orrery, dot, ["-w", DEVICES, *options])["slowest_stage"] * 1e3
                if ours < bound - A_LITTLE:
                    faults.append(f"{name}: {what}: {ours} is below the bound {bound}")
                if best and best[1] == "exact" and abs(ours - float(best[0])) > 0.001:
                    faults.append(f"{name}: {what}: {ours}, and the exact figure is {best[0]}")
                value, who = best or ("", "")
                lines.append(row(name, what, f"{bound:.3f}", f"{ours:.3f}", value, who))
    return lines


faults: list[str] = []


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, nargs="?", help="of the layer graphs")


def main(options: argparse.Namespace) -> bool:
    print("\n".join([ABOVE, *small_table(options.orrery)]))
    if options.folder:
        print("\n".join([LAYERS, *layer_table(options.orrery, options.folder)]))
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return bool(faults)
