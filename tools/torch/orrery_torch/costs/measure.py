"""What the operators of a model cost: time, FLOP and bytes, as PyTorch has them on this device."""

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from .costs import Calls, Cost, Values, bytes_of, changed, storage_of, tensors_in
from ..trace.parts import Part
from ..run.plan import Stage
from ..run.stage import Pass, Ready, keyed
from ..trace.trace import Inputs, Trace, say, unchanged

STOLEN = 1.25  # wall over processor time from which other work is said to be in the way
LEAST = 0.1  # of what an operator took by itself: its part of a stage


class Clock:
    """Of one thread on a CPU the processor's time, of which other processes take nothing; else the
    wall's."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.alone = device.type == "cpu" and torch.get_num_threads() == 1
        self.wall = self.busy = 0.0

    def now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.thread_time() if self.alone else time.perf_counter()

    def seconds(self, run: Callable[[], object]) -> float:
        wall, busy, start = time.perf_counter(), time.process_time(), self.now()
        run()
        took = self.now() - start
        self.wall += time.perf_counter() - wall
        self.busy += time.process_time() - busy
        return took

    def tell(self) -> None:
        """Several threads have used less than one processor: others were there."""
        if self.device.type == "cpu" and not self.alone and self.wall > STOLEN * self.busy:
            say(
                f"other work had {100 * (1 - self.busy / self.wall):.0f}% of the time in which the "
                "model was measured: torch.set_num_threads(1) counts the time of the processor alone"
            )


def counted(run: Callable[[], object]) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


class AsRun:
    """Operators as a Runner runs them: a stage of their own, with what Python does around it. F on inputs as they were, B
    for their gradients, W for those of its parameters."""

    def __init__(self, calls: Calls, parts: list[Part], values: Values) -> None:
        ready = Ready(calls, parts)
        stage = Stage(0, parts, False, ready.reads, ready.gives)
        self.trained = ready.trained
        self.run = Pass(stage, [ready], {}, {n: changed(self._leaf, values[n]) for n in ready.reads})

    @staticmethod
    def _leaf(t: Tensor) -> Tensor:
        return t.detach().requires_grad_(t.requires_grad)

    def forward(self) -> None:
        made = self.run.forward()
        self.outputs = [each for n, value in made.items() for each in keyed(n, value)]
        self.leaves = list(self.run.links[0].leaves.values())

    def ones(self) -> dict[Any, Tensor]:
        """Gradients of what it gives."""
        return {key: torch.ones_like(t) for key, t in self.outputs}

    def backward(self, ones: dict[Any, Tensor], split: bool) -> None:
        self.run.backward(ones, split)
        if not split:
            self.run.links = []


Turn = tuple[list[float], list[float], list[float]]


def turn(clock: Clock, runs: list[AsRun]) -> Turn:
    """Seconds of F, of B and of both backward passes at once: each over all operators in their order, as in a step, so
    that a cache has of an operator what the others have left there."""
    forward = [clock.seconds(run.forward) for run in runs]
    backward: list[list[float]] = [[], []]
    for split, taken in zip((True, False), backward):
        for run in reversed(runs):
            ones = run.ones()
            taken.append(clock.seconds(lambda: run.backward(ones, split)))
        taken.reverse()
    return forward, backward[0], backward[1]


def medians(turns: list[Turn]) -> list[list[float]]:
    """Of each pass, of each operator."""
    return [[statistics.median(taken) for taken in zip(*each)] for each in zip(*turns)]


def shared_out(total: float, taken: list[float]) -> list[float]:
    """What each operator has of the time of all in one stage: what it took by itself, less what Python did around it
    there, which is the same for all; but a part of it at least."""

    def less(around: float) -> list[float]:
        return [max(t - around, LEAST * t) for t in taken]

    low, high = 0.0, max(taken)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(less(middle)) > total else (low, middle)
    own = less(low)
    return [t * total / sum(own) if t else 0.0 for t in own]


class Meter:
    """The costs of all operators of a trace."""

    def __init__(self, trace: Trace, inputs: Inputs) -> None:
        self.calls = Calls(trace)
        self.values = self.calls.given(inputs)
        self.kept: dict[int, Tensor] = {}  # what autograd keeps, by its storage
        tensors = [*trace.model.parameters(), *trace.model.buffers()]
        self.own = {storage_of(t) for t in tensors}
        self.clock = Clock(tensors[0].device if tensors else torch.device("cpu"))

    def _saves(self, part: Part) -> int:
        """Runs it, as a part of the whole model: the bytes that autograd keeps for its backward
        and has not kept for one before."""
        added: list[Tensor] = []

        def pack(t: Tensor) -> Tensor:
            key = storage_of(t)
            if key not in self.own and key not in self.kept:
                self.kept[key] = t
                added.append(t)
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            self.calls.run(part.calls, self.values)
        return sum(t.untyped_storage().nbytes() for t in added)

    def sizes(self, part: Part) -> Cost:
        cost = Cost(stash=self._saves(part))
        cost.activation = bytes_of(self.values[n] for n in part.gives)
        cost.parameters = sum(p.nbytes for p in part.parameters.values())
        cost.reads = [list(t.shape) for n in part.reads for t in tensors_in(self.values[n])]
        cost.gives = [list(t.shape) for n in part.gives for t in tensors_in(self.values[n])]
        return cost

    def seconds(self, parts: list[Part], runs: list[AsRun], costs: list[Cost], warmup: int, repeats: int) -> None:
        """Of their passes, the medians of turns of each by itself and of all in one stage."""
        whole = [AsRun(self.calls, parts, self.values)]
        for p in whole[0].trained:
            p.grad = torch.zeros_like(p)  # as after the first microbatch
        turns = [(turn(self.clock, runs), turn(self.clock, whole)) for _ in range(warmup + repeats)]
        each, [[f], _, [b]] = (medians(list(own)) for own in zip(*turns[warmup:]))
        reached = [bool(run.outputs and (run.leaves or run.trained)) for run in runs]
        back = shared_out(b, [t if r else 0.0 for t, r in zip(each[2], reached)])
        for run, cost, forward, first, both, own in zip(runs, costs, shared_out(f, each[0]), *each[1:], back):
            cost.seconds["F"] = forward
            # B and W are the whole backward together
            part = 0.0 if not run.leaves else min(first / both, 1.0) if run.trained and both else 1.0
            cost.seconds["B"], cost.seconds["W"] = part * own, own - part * own

    def count(self, part: Part, run: AsRun, cost: Cost) -> None:
        """Products, convolutions and attention as PyTorch counts them; where there are none, one
        for each number that goes in or comes out, and none of a view."""
        computes = not all(self.calls.trace.only_looks(n) for n in part.calls)
        shapes = (sum(math.prod(shape) for shape in shapes) for shapes in (cost.reads, cost.gives))
        flop = {"F": counted(run.forward), "B": counted(lambda: run.backward(run.ones(), True)), "W": counted(run.run.weights)}
        run.run.links = []
        numbers = {"F": max(shapes), "B": sum(t.numel() for t in run.leaves), "W": sum(t.numel() for t in run.trained)}
        for d, n in numbers.items():
            goes_there = d == "F" or bool(run.outputs)
            cost.flop[d] = flop[d] or (n if computes and goes_there else 0)


def measure(
    trace: Trace, parts: list[Part], inputs: Inputs, warmup: int, repeats: int
) -> tuple[list[Cost], Values]:
    """The costs of each part, and the values that the model's calls gave."""
    meter = Meter(trace, inputs)
    with unchanged(trace.model):
        costs = [meter.sizes(part) for part in parts]
        meter.kept.clear()
        kept = [(p, p.grad) for part in parts for p in part.trained]
        runs = [AsRun(meter.calls, [part], meter.values) for part in parts]
        for part, run, cost in zip(parts, runs, costs):
            meter.count(part, run, cost)
        if repeats:
            meter.seconds(parts, runs, costs, warmup, repeats)
        for p, grad in kept:
            p.grad = grad
    if repeats:
        meter.clock.tell()
    return costs, meter.values
