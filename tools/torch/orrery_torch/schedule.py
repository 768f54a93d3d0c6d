"""A schedule of one's own in Python, simulated by the library at once."""

import functools
import json
import operator
import os
from collections.abc import Callable, Sequence
from ctypes import POINTER, byref, c_bool, c_double, c_int, c_int64, c_void_p, cast
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .library import (
    COMPUTE,
    IN_FLIGHT,
    MOST_UNTESTED,
    PLACE,
    RECOMPUTE,
    Library,
    Machine,
    Pipeline,
    Placed,
    ReplayOptions,
    Schedule,
    StudyCosts,
    Try,
    Untested,
    library,
)
from .study import Graph

ORDERS = ("strict", "greedy", "bounded")
PASSES = "FBW"
MOST_INT = 2**31 - 1


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


@dataclass
class Options:
    """What schedule() was asked for beside the policy, as it was written."""

    workers: int
    microbatches: int
    stages: int | None
    samples: int
    costs: dict[str, object]
    lengths: Sequence[float]
    microbatch_costs: Path | str | None
    machine: Path | str | None
    links: dict[str, object]  # latency, bandwidth and memory, where given
    flops: float
    optimizer: str
    precision: str


def read_lengths(lengths: Any) -> list[float]:
    try:
        if not isinstance(lengths, str):
            return [float(length) for length in lengths]
    except (TypeError, ValueError):
        pass
    raise ValueError(f"lengths: {lengths!r}: give a list of numbers, such as [1, 1.5]")


def read_graph(orr: Library, graph: Graph | Path | str, o: Options) -> c_void_p:
    if isinstance(graph, Graph):
        g = orr.create("orr_graph_parse", graph.name.encode(), graph.dot().encode())
    else:
        g = orr.create("orr_graph_read", os.fsencode(graph))
    if o.costs:
        costs = StudyCosts(-1, -1, -1, -1, -1, -1, False)
        for key, value in o.costs.items():
            if key == "costs":
                text = os.fsencode(str(value))
                orr.call("orr_study_costs_parse", byref(costs), text, b"costs")
            else:
                size = orr.read("size", c_int64, value, key.encode())
                setattr(costs, {"parameters": "parameter"}.get(key, key) + "_bytes", size)
        orr.call("orr_graph_set_costs", g, byref(costs))
    if numbers := read_lengths(o.lengths):
        lengths = (c_double * len(numbers))(*numbers)
        orr.call("orr_graph_set_lengths", g, lengths, len(lengths))
    return g


def read_machine(orr: Library, g: c_void_p, o: Options) -> Machine:
    """Of the file, or workers and links that are alike."""
    units = c_bool()
    if o.machine is not None:
        if o.links:
            raise ValueError(f"{next(iter(o.links))}: the machine {o.machine} says that")
        cluster = orr.create("orr_cluster_read", os.fsencode(o.machine))
        machine: Machine = orr.c.orr_machine_of(cluster, 0)
        if o.workers < machine.n_workers:
            machine = orr.c.orr_machine_of(cluster, o.workers)
    else:
        machine = orr.c.orr_machine_default(o.workers)
        if "latency" in o.links:
            text, ns = os.fsencode(str(o.links["latency"])), c_int64()
            orr.call("orr_duration_parse", byref(ns), byref(units), text, b"latency")
            machine.latency_ns = ns.value
        if "bandwidth" in o.links:
            rate = orr.read("rate", c_double, o.links["bandwidth"], b"bandwidth")
            machine.bandwidth_bytes_per_s = rate
        if "memory" in o.links:
            machine.memory_bytes = orr.read("memory", c_int64, o.links["memory"], b"memory")
    bounds = c_double(1), c_double(1e24)
    machine.flops_per_s = orr.read("real", c_double, o.flops, *bounds, b"flops")
    orr.call("orr_partition_check_latency", g, byref(machine), units)
    return machine


def cut(orr: Library, graph: Graph | Path | str, o: Options) -> c_void_p:
    """From the graph to a pipeline whose step is set."""
    o.workers = orr.count(o.workers, 1 << 20, "workers")
    o.microbatches = orr.count(o.microbatches, 1 << 30, "microbatches")
    o.samples = orr.count(o.samples, MOST_INT // o.microbatches, "samples")
    stages = orr.count(o.stages, 1 << 20, "stages") if o.stages is not None else 0
    g = read_graph(orr, graph, o)
    machine = read_machine(orr, g, o)
    precision = orr.read("precision", c_int, o.precision, b"precision")
    orr.c.orr_graph_set_precision(g, c_int(precision))
    p = orr.create("orr_partition", g, byref(machine), stages, c_int64(o.samples))
    numerics = cast(p, POINTER(Pipeline)).contents.numerics
    numerics.optimizer = orr.read("optimizer", c_int, o.optimizer, b"optimizer")
    numerics.precision = precision
    orr.call("orr_pipeline_set_step", p, o.workers, o.microbatches)
    if o.microbatch_costs is not None:
        orr.call("orr_microbatches_read", p, os.fsencode(o.microbatch_costs))
    return p


def costs_of(orr: Library, p: c_void_p, split: bool) -> Costs:
    pipeline = cast(p, POINTER(Pipeline)).contents
    edges = [pipeline.edges[e] for e in range(pipeline.n_edges)]
    ends = [(getattr(e, "from"), e.to) for e in edges]

    def seconds(s: int, d: int) -> float:
        return float(orr.c.orr_pipeline_duration_ns(p, s, d, c_bool(split))) / 1e9

    stages = []
    for s, words in enumerate(orr.text(orr.json("orr_stages_cut_json", p))):
        stage = pipeline.stages[s]
        stages.append(
            StageCosts(
                words["operators"],
                seconds(s, 0),
                seconds(s, 1),
                seconds(s, 2) if split else 0.0,
                stage.update_ns / 1e9,
                stage.parameter_bytes,
                stage.stash_bytes,
                stage.frozen,
                [start for start, end in ends if end == s],
                [end for start, end in ends if start == s],
                stage.depth,
            )
        )
    sizes = {ends[i]: (e.bytes, e.gradient_bytes) for i, e in enumerate(edges)}
    return Costs(stages, pipeline.n_workers, pipeline.n_microbatches, sizes)


@dataclass
class Python:
    """The functions of a schedule as the library calls them. It asks for the worker of every job
    that there is, one after the other, and then for the order of all."""

    costs: Costs
    split: bool
    policy: Policy
    keys: dict[tuple[int, int, int], Any]

    def compute(self, s: int, b: int, d: int, _data: int) -> int:
        found = self.policy(self.costs, s, b, PASSES[d])
        try:
            w, self.keys[s, b, d] = found
            number = worker(w)
        except (TypeError, ValueError):
            what = "give (worker, place in its order)"
            raise ValueError(f"{s}{PASSES[d]}{b}: the policy gave {found!r}: {what}") from None
        if not_a_number(self.keys[s, b, d]):
            what = "a place that is no number has no order"
            raise ValueError(f"{s}{PASSES[d]}{b}: the policy gave {found!r}: {what}")
        return number

    def place(self, _data: int, out: Any, _err: int) -> int:
        """Numbers in the order of the keys, equal ones for equal keys, which the library refuses
        on one worker."""
        placed: Placed = out.contents
        n, last = -1, None
        passes = 3 if self.split else 2
        for (s, b, d), key in in_order(self.keys):
            n += 1 if n < 0 or key != last else 0
            last = key
            placed.n[(b * len(self.costs.stages) + s) * passes + d] = n
        return 0


def not_a_number(key: Any) -> bool:
    if isinstance(key, (tuple, list)):
        return any(map(not_a_number, key))
    return bool(key != key)  # noqa: PLR0124


def in_order(keys: dict[tuple[int, int, int], Any]) -> list[tuple[tuple[int, int, int], Any]]:
    """By their places; the first two that do not compare are refused by name."""

    def before(x: tuple[Any, Any], y: tuple[Any, Any]) -> int:
        try:
            return -1 if x[1] < y[1] else 1
        except TypeError as why:
            jobs = [f"{s}{PASSES[d]}{b}" for (s, b, d), _ in (x, y)]
            raise TypeError(
                f"{jobs[0]} and {jobs[1]}: the policy gave the places {x[1]!r} and {y[1]!r}: {why}"
            ) from None

    try:
        return sorted(keys.items(), key=lambda job: job[1])
    except TypeError:
        return sorted(keys.items(), key=functools.cmp_to_key(before))


def answer(what: str, job: str, given: Any) -> int:
    """What weights() or in_flight() gave."""
    try:
        return worker(given)
    except TypeError:
        raise ValueError(f"{job}: {what} gave {given!r}: give a whole number") from None


def truth(s: int, given: Any) -> bool:
    if given not in (True, False):
        raise ValueError(f"stage {s}: recompute gave {given!r}: give True or False")
    return bool(given)


def worker(w: Any) -> int:
    """The library refuses one that there is not; no other number may become one that there is."""
    return max(-MOST_INT, min(operator.index(w), MOST_INT))


def outcome(orr: Library, x: Try, p: c_void_p, o: Options, embed: bool) -> Simulated:
    orr.call("orr_try_run", byref(x))
    jobs, t, f = c_void_p(x.jobs), c_void_p(x.timeline), c_void_p(x.figures)
    orr.call("orr_figures_check_memory", f, byref(cast(p, POINTER(Pipeline)).contents.machine))
    report, untested = orr.json("orr_report_json", t, f), (Untested * MOST_UNTESTED)()
    n = orr.c.orr_untested_find(untested, jobs)
    orr.call("orr_untested_report", report, untested, n)
    replay = ReplayOptions(o.samples * o.microbatches, o.samples, embed)
    plan = orr.json("orr_replay_json", t, f, byref(replay))
    return Simulated(orr.text(report), orr.text(plan), orr.written("orr_diagram_svg", t))


def schedule(
    policy: Policy,
    graph: Graph | Path | str,
    *,
    workers: int,
    microbatches: int,
    stages: int | None = None,
    split: bool = False,
    order: str = "strict",
    weights: Callable[[Costs, int, int, str], int] | None = None,
    in_flight: Callable[[Costs, int], int] | None = None,
    recompute: Callable[[Costs, int], bool] | None = None,
    samples: int = 12,
    costs: str | None = None,
    activation: str | int | None = None,
    stash: str | int | None = None,
    parameters: str | int | None = None,
    lengths: Sequence[float] = (),
    microbatch_costs: Path | str | None = None,
    machine: Path | str | None = None,
    latency: str | float | None = None,
    bandwidth: str | None = None,
    memory: str | None = None,
    flops: float = 1e10,
    optimizer: str = "adamw",
    precision: str = "fp32",
) -> Simulated:
    """Simulates a policy: policy(costs, s, b, d) gives the worker of a job, d being "F", "B" or, with
    split, "W", and its place in the order of that worker, lower first, of any kind that compares.

    graph: what graph() gave, a file, or a study such as "towers:3,1/2"; stages: into which it is
    cut, one an operator unless said; order: "strict", a worker waits for the next of its jobs,
    "greedy", it takes the first that is ready, or "bounded", the same in the memory of the strict
    order; weights(costs, s, b, d): the worker that has the parameters; in_flight(costs, s): the most
    microbatches of a stage; recompute(costs, s): is F run again before B?

    samples: of a microbatch; the rest is as the options of `orrery simulate`. What is refused is a
    ValueError with the library's line; what a function raises comes out as it is."""
    if order not in ORDERS:
        raise ValueError(f"order: no {order!r}: there are {', '.join(ORDERS)}")

    def given(**words: object) -> dict[str, object]:
        return {name: value for name, value in words.items() if value is not None}

    of_study = given(costs=costs, activation=activation, stash=stash, parameters=parameters)
    links = given(latency=latency, bandwidth=bandwidth, memory=memory)
    o = Options(
        *(workers, microbatches, stages, samples, of_study, lengths, microbatch_costs),
        *(machine, links, flops, optimizer, precision),
    )
    with library() as orr:
        functions = given(policy=policy, weights=weights, in_flight=in_flight, recompute=recompute)
        for word, function in functions.items():
            if not callable(function):
                raise ValueError(f"{word}: {function!r} is no function")
        p = cut(orr, graph, o)
        seen = costs_of(orr, p, split)
        mine = Python(seen, split, policy, {})
        c = Schedule(
            name=getattr(policy, "__name__", "policy").encode(),
            order=ORDERS.index(order),
            split_backward=split,
            compute=orr.guard(COMPUTE, 0, mine.compute),
            place=orr.guard(PLACE, -1, mine.place),
        )
        if weights:
            c.weights = orr.guard(
                COMPUTE,
                0,
                lambda s, b, d, _: answer(
                    "weights", f"{s}{PASSES[d]}{b}", weights(seen, s, b, PASSES[d])
                ),
            )
        if in_flight:
            c.in_flight = orr.guard(
                IN_FLIGHT, 0, lambda s, _: answer("in_flight", f"stage {s}", in_flight(seen, s))
            )
        if recompute:
            c.recompute = orr.guard(RECOMPUTE, 0, lambda s, _: truth(s, recompute(seen, s)))
        x = Try()
        orr.made.callback(orr.c.orr_try_fini, byref(x))
        orr.call("orr_try_init", byref(x), p, byref(c), None)
        return outcome(orr, x, p, o, bool(of_study) or isinstance(graph, Graph))
