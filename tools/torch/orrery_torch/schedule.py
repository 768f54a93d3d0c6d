"""A schedule of one's own in Python, simulated by the command at once."""

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import command
from .study import Graph


@dataclass(frozen=True)
class StageCosts:
    """One stage, in seconds of one microbatch, or in units of a study, and in bytes."""

    operators: list[str]
    forward: float
    backward: float  # of the whole, unless the schedule splits it
    weight: float
    parameter_bytes: int
    before: list[int]  # stages that it reads
    after: list[int]  # stages that read it
    depth: int  # stages on the longest way from here to the end, this one included


@dataclass(frozen=True)
class Costs:
    """What a schedule sees of its pipeline."""

    stages: list[StageCosts]
    workers: int
    microbatches: int


@dataclass
class Simulated:
    """The timeline of a schedule; in a notebook it is drawn. plan is for Runner and the command."""

    figures: dict[str, Any]  # as of `orrery simulate --json`
    plan: dict[str, Any]
    svg: str

    @property
    def makespan(self) -> float:
        return float(self.figures["makespan"])

    def _repr_svg_(self) -> str:
        return self.svg

    def write(self, path: Path | str) -> Path:
        Path(path).write_text(json.dumps(self.plan, indent=1))
        return Path(path)


Policy = Callable[[Costs, int, int, str], tuple[int, Any]]


def told(*words: Any) -> str:
    try:
        return command.run(*words)
    except SystemExit as refused:
        raise ValueError(str(refused)) from None


def costs_of(plan: dict[str, Any], model: dict[str, Any]) -> Costs:
    stages = plan["stages"]
    stage_of = {name: s for s, stage in enumerate(stages) for name in stage["operators"]}
    before: list[set[int]] = [set() for _ in stages]
    for o in model["operators"]:
        s = stage_of.get(o["name"])
        if s is not None:
            before[s] |= {stage_of[i] for i in o["inputs"] if i in stage_of} - {s}
    after = [[t for t in range(len(stages)) if s in before[t]] for s in range(len(stages))]
    depth = [1] * len(stages)
    for s in reversed(range(len(stages))):
        depth[s] += max((depth[t] for t in after[s]), default=0)
    return Costs(
        [
            StageCosts(
                x["operators"],
                x["forward"],
                x["backward"],
                x["weight"] or 0.0,
                x["parameter_bytes"],
                sorted(before[s]),
                after[s],
                depth[s],
            )
            for s, x in enumerate(stages)
        ],
        plan["workers"],
        plan["microbatches"],
    )


def ordered(policy: Policy, costs: Costs, plan: dict[str, Any]) -> None:
    """Puts the jobs of the plan where the policy says, in its order."""
    jobs = [job for worker in plan["worker"] for job in worker["order"]]
    mine: list[list[tuple[Any, str]]] = [[] for _ in range(costs.workers)]
    places: list[list[int]] = [[] for _ in costs.stages]
    for job in jobs:
        d = next(c for c in job if c in "FBW")
        s, b = (int(part) for part in job.split(d))
        w, n = policy(costs, s, b, d)
        if not 0 <= w < costs.workers:
            raise ValueError(f"{job}: worker {w}: there are 0 to {costs.workers - 1}")
        mine[w].append((n, job))
        places[s] += [] if w in places[s] else [w]
    for w, own in enumerate(mine):
        own.sort(key=lambda job: job[0])
        for (n, job), (n_next, following) in zip(own, own[1:]):
            if n == n_next:
                raise ValueError(f"worker {w}: {job} and {following} have one priority, {n}")
        plan["worker"][w] = {"order": [job for _, job in own], "n": list(range(len(own)))}
    for stage, workers in zip(plan["stages"], places):
        alone = workers[0] if len(workers) == 1 else None
        stage.update(worker=alone, workers=workers, owners=workers)


def schedule(
    policy: Policy,
    graph: Graph | Path | str,
    *,
    workers: int,
    microbatches: int,
    stages: int | None = None,
    split: bool = False,
    order: str = "strict",
    options: tuple[str, ...] = (),
) -> Simulated:
    """Simulates a policy: policy(costs, s, b, d) gives the worker of a job, d being "F", "B" or, with
    split, "W", and its place in the order of that worker, lower first, of any kind that compares.

    graph: what graph() gave, a file, or a study such as "towers:3,1/2"; stages: into which it is
    cut, one an operator unless said; order: "strict", a worker waits for the next of its jobs, or
    "greedy", it takes the first that is ready; options: more of `orrery simulate`, such as
    "--latency", "5us"."""
    with tempfile.TemporaryDirectory() as folder:
        first, last, drawing = (Path(folder, name) for name in ("first", "plan.json", "plan.svg"))
        model = str(graph.write(Path(folder, "model.dot")) if isinstance(graph, Graph) else graph)
        size = ["-w", workers, "-m", microbatches, *(["--stages", stages] if stages else [])]
        told("simulate", model, *size, *options, "-s", "zb-h1" if split else "gpipe", "-o", first)
        plan = json.loads(first.read_text())
        ordered(policy, costs_of(plan, json.loads(told("show", "--json", model))), plan)
        plan.update(schedule=getattr(policy, "__name__", "policy"), order=order)
        last.write_text(json.dumps(plan))
        figures = told(
            "simulate", model, *options, "-s", last, "--json", "--svg", drawing, "-o", first
        )
        return Simulated(json.loads(figures), json.loads(first.read_text()), drawing.read_text())
