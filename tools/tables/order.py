"""What `auto` finds in little memory, beside its bound.

The memory is a share of the peak that 1f1b has on the same workers, in stage stashes, rounded down; or that many stage
stashes.
"""
import argparse
import os
from typing import Any, NamedTuple

import common
from common import GRAPHS, ask

COSTS = ["--costs", "12.96ms,13.22ms,9.76ms", "--latency", "0.05ms"]
ENCODERS = str(GRAPHS / "studies/three_encoders.dot")


class Row(NamedTuple):
    name: str
    graph: str
    workers: int
    shares: list[float]
    options: list[str]
    microbatches: int = 64


ROWS = [
    Row("chain of 16", "chain:16", 16, [0.5, 0.75], COSTS),
    Row("chain of 8", "chain:8", 8, [0.5, 0.75], COSTS),
    Row("towers 4,4/4", "towers:4,4/4", 12, [0.34, 0.5, 0.75], COSTS),
    Row("towers 6,2/4", "towers:6,2/4", 12, [0.34, 0.5, 0.75], COSTS),
    Row("three encoders", ENCODERS, 18, [0.34, 0.5, 0.75], COSTS[2:]),
    Row("towers 4,4/4, folded", "towers:4,4/4", 6, [0.34, 0.5], COSTS),
    Row("towers 6,2/4, folded", "towers:6,2/4", 6, [0.34, 0.5], COSTS),
    Row("three encoders, folded", ENCODERS, 9, [0.34, 0.5], COSTS[2:]),
    Row("chain of 16, 96", "chain:16", 16, [12], COSTS, 96),
    Row("chain of 12", "chain:12", 12, [9], COSTS),
    Row("towers 3,3,3/3", "towers:3,3,3/3", 12, [5], COSTS, 80),
    Row("towers 5,3/4, folded", "towers:5,3/4", 6, [3, 4], COSTS, 80),
    Row("chain of 32, folded", "chain:32", 16, [10, 11], COSTS),
    Row("chain of 24, three a worker", "chain:24", 8, [8, 12, 18], COSTS, 48),
]


def simulate(orrery: str, row: Row, schedule: str) -> Any:
    size = ["--workers", row.workers, "-m", row.microbatches]
    return ask(orrery, "simulate", row.graph, *size, *row.options, "--schedule", schedule)


def peak_of(answer: Any) -> int:
    return max(worker["peak_stash"] for worker in answer["worker"])


def measure(orrery: str, row: Row) -> None:
    whole = peak_of(simulate(orrery, row, "1f1b"))
    for share in row.shares:
        memory = int(share * whole) if share < 1 else int(share)
        start = sum(os.times()[2:4])
        answer = simulate(orrery, row, f"auto:memory={memory}")
        seconds = sum(os.times()[2:4]) - start
        found, bound = answer["makespan"], answer["lower_bound"]
        figures = [f"{memory / whole:.2g}", memory, f"{bound:.4f}", f"{found:.4f}", f"{100 * found / bound - 100:.1f}%"]
        print(common.row(row.name, *figures, f"{seconds:.1f}"), flush=True)


def main(options: argparse.Namespace) -> None:
    print("| order | memory / 1f1b | stashes | bound, s | auto, s | gap | CPU, s |\n|---|---|---|---|---|---|---|")
    for row in ROWS:
        measure(options.orrery, row)
