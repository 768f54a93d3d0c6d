#!/usr/bin/env python3
"""The examples, each imported, planned and run under several schedules beside the model in one
piece, and the time of a step simulated and measured. Exit code 1: a run is off by more than 1e-6,
or on 4 workers or more CLIP's towers are not side by side, or the frozen one has a backward.
Usage: all.py [WORKERS [NAME ...]], 4 and all of them unless said.

simulated: from the costs of the operators, each measured alone. fastest, median: of the steps after
the first. replayed: simulated with the durations that the jobs of the median step had; what it is
away from that step are messages and what Python does between jobs. work: the time that the cores gave
all processes in a step (median), over the simulated work of all jobs. Where workers are more than
cores, or other work keeps the cores busy, steps take longer, and work stays what it is."""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orrery_torch import command

HERE = Path(__file__).resolve().parent
NAMES = ("clip", "vit", "gpt2", "encoder-decoder", "resnet")
SCHEDULES = ("1f1b", "zb-h1", "v-half", "auto")
MICROBATCHES = 8
JOB = re.compile(r"(\d+)([FBW])(\d+)")


@dataclass
class Files:
    folder: Path
    name: str
    workers: int

    def of(self, what: str) -> Path:
        return self.folder / f"{self.name}-{what}"


def python(*words: Any, processes: int = 0) -> subprocess.CompletedProcess[str]:
    run = ["-m", "torch.distributed.run", "--nproc-per-node", processes] if processes else []
    told = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    line = [sys.executable, *map(str, [*run, *words])]
    return subprocess.run(line, capture_output=True, text=True, env=told, check=False)


def planned(files: Files, schedule: str) -> Path:
    """A fold cuts the graph anew, twice as fine; the others order the stages of `orrery plan`."""
    graph, cut, plan = files.of("graph.dot"), files.of("cut.json"), files.of(f"{schedule}.json")
    size = ["-w", files.workers, "-m", MICROBATCHES]
    if schedule == "v-half":
        command.run(
            "simulate", graph, *size, "--stages", 2 * files.workers, "-s", schedule, "-o", plan
        )
        return plan
    if not cut.exists():
        command.run("plan", graph, *size, "--straight", "--makespan", "-o", cut)
    command.run("simulate", cut, "-s", schedule, "-o", plan)
    return plan


def towers(plan: dict[str, Any]) -> str:
    """What is wrong with CLIP's: each has stages of its own, on other workers than the other's but
    under a fold, and those of the frozen one have no backward."""
    stages: dict[str, set[str]] = {"image": set(), "text": set()}
    workers: dict[str, set[int]] = {"image": set(), "text": set()}
    for s, stage in enumerate(plan["stages"]):
        own = {o.partition(".")[0] for o in stage["operators"]}
        for tower in own & stages.keys() if len(own) == 1 else ():
            stages[tower].add(str(s))
            workers[tower] |= set(stage["workers"])
    jobs = [JOB.fullmatch(job) for worker in plan["worker"] for job in worker["order"]]
    passes = {tower: {j[2] for j in jobs if j and j[1] in own} for tower, own in stages.items()}
    if passes["text"] != {"F"} or not passes["image"] > {"F"}:
        return f"passes of the towers' own stages: {passes}"
    if len(plan["stages"]) == plan["workers"] and workers["image"] & workers["text"]:
        return f"the towers are on workers {workers}"
    return ""


def replayed(files: Files, plan: Path, timeline: Path) -> tuple[float, float]:
    """The makespan of the step that ran, and the simulated one of jobs of the same durations."""
    durations = files.of("durations.csv")
    lines = ["stage,microbatch,pass,duration"]
    for worker in json.loads(timeline.read_text())["worker"]:
        for job, begin, end in zip(worker["order"], worker["start"], worker["end"]):
            s, d, b = JOB.fullmatch(job).groups()  # type: ignore[union-attr]
            lines.append(f"{s},{b},{d},{1e9 * (end - begin):.0f}ns")
    durations.write_text("\n".join(lines) + "\n")
    told = json.loads(
        command.run(
            "simulate", plan, "--microbatch-costs", durations, "--measured", timeline, "--json"
        )
    )
    return told["measured"]["makespan"], told["makespan"]


def line(files: Files, schedule: str) -> tuple[str, str]:
    """A row of the table; what is wrong with it."""
    plan, timeline = planned(files, schedule), files.of(f"{schedule}-timeline.json")
    told = json.loads(plan.read_text())
    run = python(HERE / "run.py", files.name, plan, timeline, processes=files.workers)
    steps = re.findall(
        r"loss \S+, (\S+) off, gradients (\S+), (\S+) ms, of all cores (\S+) ms", run.stdout
    )
    if not timeline.exists():
        return f"{files.name:16}{schedule:8}", run.stderr[-2000:]
    loss, gradients = (max(float(step[i]) for step in steps) for i in range(2))
    wrong = "" if run.returncode == 0 and len(steps) == 10 else "more than 1e-6 off"
    if files.name == "clip" and files.workers >= 4:
        wrong = wrong or towers(told)
    median, again = (1e3 * t for t in replayed(files, plan, timeline))
    simulated, fastest = 1e3 * told["makespan"], min(float(step[2]) for step in steps[1:])
    work = statistics.median(float(step[3]) for step in steps[1:])
    work /= 1e3 * sum(worker["busy"] for worker in told["worker"])
    return (
        f"{files.name:16}{schedule:7}{len(told['stages']):2}{loss:9.1e}{gradients:10.1e}"
        f"{simulated:11.2f}{fastest:9.2f}{fastest / simulated:7.2f}"
        f"{again:10.2f}{median:9.2f}{median / again:7.2f}{work:7.2f}"
    ), wrong


def main() -> int:
    workers, names = int((sys.argv[1:] or ["4"])[0]), sys.argv[2:] or NAMES
    print(f"{workers} workers, {MICROBATCHES} microbatches, {os.cpu_count()} cores; times in ms")
    print(
        "model           schedule S     loss gradients  simulated  fastest  ratio"
        "  replayed   median  ratio   work"
    )
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            files = Files(Path(folder), name, workers)
            imported = python(HERE / "graph.py", name, files.of("graph.dot"))
            if imported.returncode:
                print(f"{name}: {imported.stderr[-2000:]}")
                failed += 1
                continue
            for schedule in SCHEDULES:
                row, wrong = line(files, schedule)
                print(row + (f"  FAILED: {wrong}" if wrong else ""), flush=True)
                failed += bool(wrong)
    print(f"{failed} failed" if failed else "all within 1e-6 of the model in one piece")
    return int(failed > 0)


sys.exit(main())
