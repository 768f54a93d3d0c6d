"""A schedule of one's own in Python, as a plan that the command simulates."""

import functools
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .calls import Simulated, simulate
from .costs.study import Graph

ORDERS = ("strict", "greedy", "bounded")
PASSES = "FBW"


@dataclass(frozen=True)
class StageCosts:
    """One stage, in seconds of one microbatch, or in units of a study, and in bytes."""

    operators: list[str]
    forward: float
    backward: float  # of the whole, unless the schedule splits it
    weight: float
    update: float  # once a step
    parameter_bytes: int
    stash_bytes: int  # of a microbatch
    frozen: bool
    before: list[int]  # stages that it reads
    after: list[int]  # stages that read it
    depth: int  # stages on the longest way from here to the end, this one included


@dataclass(frozen=True)
class Costs:
    """What a schedule sees of its pipeline."""

    stages: list[StageCosts]
    workers: int
    microbatches: int
    edges: dict[tuple[int, int], tuple[int, int]]  # bytes of an activation, and of its gradient


Policy = Callable[[Costs, int, int, str], tuple[int, Any]]


def read_lengths(lengths: Any) -> list[float]:
    try:
        if not isinstance(lengths, str):
            return [float(length) for length in lengths]
    except (TypeError, ValueError):
        pass
    raise ValueError(f"lengths: {lengths!r}: give a list of numbers, such as [1, 1.5]")


@contextmanager
def in_words() -> Iterator[None]:
    """A command's refusal names options as the words of schedule(), and the plan of a policy as the policy."""
    try:
        yield
    except ValueError as why:
        line = re.sub(r"(?<![\w-])-m\b", "microbatches", str(why)).replace("--batch:", "samples:")
        line = line.replace("the plan: ", "").replace("schedule the plan ", "the policy ").replace("the plan", "the policy")
        line = line.replace('change "order" of its workers', "change their order")
        raise ValueError(re.sub(r"--([a-z-]+)", lambda m: m[1].replace("-", "_"), line)) from None


def costs_of(plan: dict[str, Any], split: bool) -> Costs:
    """Of a plan; 0 for a pass that a stage has not."""
    pipeline = plan["pipeline"]
    edges = {(start, end): (size, gradient) for start, end, size, gradient in pipeline["edges"]}
    stages = [
        StageCosts(
            x["operators"],
            x["forward"],
            y["backward" if split else "whole"] or 0.0,
            (y["weight"] if split else None) or 0.0,
            x["update"],
            x["parameter_bytes"],
            y["stash_bytes"],
            x["frozen"],
            [start for start, end in edges if end == s],
            [end for start, end in edges if start == s],
            y["depth"],
        )
        for s, (x, y) in enumerate(zip(plan["stages"], pipeline["stages"]))
    ]
    return Costs(stages, plan["workers"], plan["microbatches"], edges)


@dataclass(frozen=True)
class Job:
    s: int
    b: int
    d: str
    worker: int
    key: Any  # its place in the order of the worker

    def __str__(self) -> str:
        return f"{self.s}{self.d}{self.b}"


def ask(p: Costs, policy: Policy, s: int, b: int, d: str) -> Job:
    found = policy(p, s, b, d)
    try:
        w, key = found
        job = Job(s, b, d, operator.index(w), key)
    except (TypeError, ValueError):
        what = "give (worker, place in its order)"
        raise ValueError(f"{s}{d}{b}: the policy gave {found!r}: {what}") from None
    if not_a_number(key):
        what = "a place that is no number has no order"
        raise ValueError(f"{job}: the policy gave {found!r}: {what}")
    check_worker(p, f"{job} is placed", job.worker)
    return job


def check_worker(p: Costs, what: str, w: int) -> None:
    if not 0 <= w < p.workers:
        there = f"the workers are 0 to {p.workers - 1}"
        raise ValueError(f"{what} on worker {w}, and {there}: correct the policy, or set workers")


def placed(plan: dict[str, Any], p: Costs, policy: Policy, split: bool) -> list[tuple[int, Job]]:
    """The jobs that there are, in order, numbered from 0, equal ones alike."""
    passes = {"B": "backward", "W": "weight"} if split else {"B": "whole"}
    jobs = [
        ask(p, policy, s, b, d)
        for b in range(p.microbatches)
        for s, stage in enumerate(plan["pipeline"]["stages"])
        for d in PASSES
        if d == "F" or d in passes and stage[passes[d]] is not None
    ]
    numbered: list[tuple[int, Job]] = []
    last: dict[int, Job] = {}  # of each worker
    for job in in_order(jobs):
        n, before = numbered[-1] if numbered else (-1, None)
        n += 1 if before is None or job.key != before.key else 0
        other = last.get(job.worker)
        if other and other.key == job.key:
            cure = "make the policy's places distinct on each worker"
            raise ValueError(f"{other} and {job} on worker {job.worker} have the same priority: {cure}")
        last[job.worker] = job
        numbered.append((n, job))
    return numbered


def not_a_number(key: Any) -> bool:
    if isinstance(key, (tuple, list)):
        return any(map(not_a_number, key))
    return bool(key != key)  # noqa: PLR0124


def in_order(jobs: list[Job]) -> list[Job]:
    """By their places; the first two that do not compare are refused by name."""

    def before(x: Job, y: Job) -> int:
        try:
            return -1 if x.key < y.key else 1
        except TypeError as why:
            raise TypeError(
                f"{x} and {y}: the policy gave the places {x.key!r} and {y.key!r}: {why}"
            ) from None

    try:
        return sorted(jobs, key=operator.attrgetter("key"))
    except TypeError:
        return sorted(jobs, key=functools.cmp_to_key(before))


def answer(what: str, job: object, given: Any) -> int:
    """What weights() or in_flight() gave."""
    try:
        return operator.index(given)
    except TypeError:
        raise ValueError(f"{job}: {what} gave {given!r}: give a whole number") from None


def truth(s: int, given: Any) -> bool:
    if given not in (True, False):
        raise ValueError(f"stage {s}: recompute gave {given!r}: give True or False")
    return bool(given)


def fill(
    plan: dict[str, Any],
    p: Costs,
    jobs: list[tuple[int, Job]],
    weights: Callable[[Costs, int, int, str], int] | None,
    in_flight: Callable[[Costs, int], int] | None,
    recompute: Callable[[Costs, int], bool] | None,
) -> None:
    """Puts them into the plan in place of its own."""
    plan["worker"] = [{"order": [], "n": []} for _ in range(p.workers)]
    for stage in plan["stages"]:
        stage |= {"worker": None, "workers": [], "owners": []}
    for n, job in jobs:
        owner = job.worker
        if weights:
            owner = answer("weights", job, weights(p, job.s, job.b, job.d))
            check_worker(p, f"weights: the parameters of {job} are", owner)
        for key, w in (("workers", job.worker), ("owners", owner)):
            if w not in plan["stages"][job.s][key]:
                plan["stages"][job.s][key].append(w)
        own = "" if owner == job.worker else f"@{owner}"
        plan["worker"][job.worker]["order"].append(f"{job}{own}")
        plan["worker"][job.worker]["n"].append(n)
    for s, stage in enumerate(plan["stages"]):
        stage.pop("in_flight", None)
        if in_flight and (most := answer("in_flight", f"stage {s}", in_flight(p, s))):
            stage["in_flight"] = most
        stage["recompute"] = truth(s, recompute(p, s)) if recompute else False


def schedule(
    policy: Policy,
    graph: Graph | Path | str,
    *,
    workers: int,
    microbatches: int,
    split: bool = False,
    order: str = "strict",
    weights: Callable[[Costs, int, int, str], int] | None = None,
    in_flight: Callable[[Costs, int], int] | None = None,
    recompute: Callable[[Costs, int], bool] | None = None,
    samples: int = 12,
    lengths: Sequence[float] = (),
    memory: str | None = None,
    **options: Any,
) -> Simulated:
    """Simulates a policy: policy(costs, s, b, d) gives the worker of a job, d being "F", "B" or, with
    split, "W", and its place in the order of that worker, lower first, of any kind that compares.

    graph: what graph() gave, a file, or a study such as "towers:3,1/2"; stages: into which it is
    cut, one an operator unless said; order: "strict", a worker waits for the next of its jobs,
    "greedy", it takes the first that is ready, or "bounded", the same in the memory of the strict
    order; weights(costs, s, b, d): the worker that has the parameters; in_flight(costs, s): the most
    microbatches of a stage; recompute(costs, s): is F run again before B?

    samples: of a microbatch; the rest is as the options of `orrery simulate`, as simulate() takes them. What is refused
    is a ValueError with the command's line; what a function raises comes out as it is."""
    if order not in ORDERS:
        raise ValueError(f"order: no {order!r}: there are {', '.join(ORDERS)}")
    asked = {"policy": policy, "weights": weights, "in_flight": in_flight, "recompute": recompute}
    for word, function in asked.items():
        if not callable(function) and (function is not None or word == "policy"):
            raise ValueError(f"{word}: {function!r} is no function")
    whole = isinstance(microbatches, int) and isinstance(samples, int)
    options |= {
        "workers": workers,
        "microbatches": microbatches,
        "batch": samples * microbatches if whole else samples,
        "lengths": tuple(read_lengths(lengths)) or None,
    }
    with in_words():  # the plan of any schedule, for the pipeline in it: in all the memory that it may need
        plan = simulate(graph, schedule="gpipe", **options).plan
    seen = costs_of(plan, split)
    fill(plan, seen, placed(plan, seen, policy, split), weights, in_flight, recompute)
    name = {"schedule": getattr(policy, "__name__", "policy")}
    with in_words():
        found = simulate(plan | name | {"order": order}, memory=memory)
    found.figures |= name
    found.plan |= name
    return found
