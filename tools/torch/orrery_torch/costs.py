"""What the operators of a model cost: time, FLOP and bytes, as PyTorch has them on this device."""

import math
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils.flop_counter import FlopCounterMode

from .parts import Part
from .trace import Inputs, Trace, attribute, function_of, words

Values = dict[fx.Node, Any]


def tensors_in(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors_in(v)]
    return []


def changed(how: Callable[[Tensor], Tensor], value: Any) -> Any:
    """The value with other tensors in it."""
    if isinstance(value, (tuple, list)):
        return type(value)(changed(how, v) for v in value)
    return how(value) if isinstance(value, Tensor) else value


def bytes_of(values: Iterable[Any]) -> int:
    """Of all tensors in them; views of one storage count what there is of it, once."""
    sizes: dict[int, int] = {}
    limits: dict[int, int] = {}
    for t in tensors_in(list(values)):
        storage = t.untyped_storage()
        sizes[storage.data_ptr()] = sizes.get(storage.data_ptr(), 0) + t.numel() * t.element_size()
        limits[storage.data_ptr()] = storage.nbytes()
    return sum(min(size, limits[key]) for key, size in sizes.items())


class Calls:
    """Runs the calls of a trace on values."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.constants: Values = {
            n: attribute(trace.module, str(n.target))
            for n in trace.module.graph.nodes
            if n.op == "get_attr"
        }

    def given(self, inputs: Inputs) -> Values:
        """The values of the model's inputs, by the names and the order of forward(), and of what is
        data like them."""
        args, kwargs = words(inputs)
        values, rest = dict(self.constants), iter(args)
        for n in self.trace.inputs:
            name = str(n.target)
            if name in kwargs:
                values[n] = kwargs[name]
            else:
                values[n] = next(rest, n.args[0] if n.args else None)
        self.run(self.trace.data, values)
        return values

    def run(self, nodes: Iterable[fx.Node], values: Values) -> None:
        for node in nodes:
            args = fx.node.map_arg(node.args, values.__getitem__)
            kwargs = fx.node.map_arg(node.kwargs, values.__getitem__)
            if node.op == "call_module":
                values[node] = self.trace.module.get_submodule(str(node.target))(*args, **kwargs)
            elif node.op == "call_method":
                values[node] = getattr(args[0], str(node.target))(*args[1:], **kwargs)
            else:
                values[node] = node.target(*args, **kwargs)  # type: ignore[operator]


@dataclass
class Cost:
    """Of one operator and one microbatch: seconds and FLOP of F, B and W, sizes in bytes."""

    seconds: dict[str, float] = field(default_factory=dict)
    flop: dict[str, int] = field(default_factory=dict)
    activation: int = 0
    stash: int = 0
    parameters: int = 0
    reads: list[list[int]] = field(default_factory=list)  # the shapes of its inputs
    gives: list[list[int]] = field(default_factory=list)


def changes_input(trace: Trace, part: Part) -> bool:
    """Does a call change what it reads, which autograd forbids of a leaf?"""
    return any(
        bool(getattr(trace.module.get_submodule(str(n.target)), "inplace", False))
        if n.op == "call_module"
        else function_of(n).endswith("_")
        for n in part.calls
    )


class Alone:
    """One operator by itself: F on inputs as they were, B for their gradients, W for those of its
    parameters."""

    def __init__(self, calls: Calls, part: Part, values: Values) -> None:
        self.calls, self.part = calls, part
        self.leaves: list[Tensor] = []
        self.values = dict(calls.constants)
        for n in part.reads:
            self.values[n] = changed(self._leaf, values[n])
        self.trained: list[Tensor] = [
            t for t in part.tensors.values() if isinstance(t, nn.Parameter) and t.requires_grad
        ]
        self.outputs: list[Tensor] = []
        self.changes = changes_input(calls.trace, part)

    def _leaf(self, t: Tensor) -> Tensor:
        if not t.requires_grad:
            return t
        self.leaves.append(t.detach().requires_grad_())
        return self.leaves[-1]

    def forward(self) -> None:
        values = dict(self.values)
        if self.changes:  # its input, which a leaf forbids
            values |= {n: changed(torch.clone, self.values[n]) for n in self.part.reads}
        self.calls.run(self.part.calls, values)
        given = tensors_in([values[n] for n in self.part.gives])
        self.outputs = [t for t in given if t.requires_grad]

    def gradients(self, of: list[Tensor]) -> None:
        if self.outputs and of:
            ones = [torch.ones_like(t) for t in self.outputs]
            torch.autograd.grad(self.outputs, of, ones, retain_graph=True, allow_unused=True)


def counted(run: Callable[[], None]) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def seconds(run: Callable[[], None], device: torch.device) -> float:
    start = clock(device)
    run()
    return clock(device) - start


class Meter:
    """The costs of all operators of a trace."""

    def __init__(self, trace: Trace, inputs: Inputs) -> None:
        self.calls = Calls(trace)
        self.values = self.calls.given(inputs)
        self.kept: dict[int, Tensor] = {}  # what autograd keeps, by its storage
        tensors = [*trace.model.parameters(), *trace.model.buffers()]
        self.own = {t.untyped_storage().data_ptr() for t in tensors}
        self.device = tensors[0].device if tensors else torch.device("cpu")

    def _saves(self, part: Part) -> int:
        """Runs it, as a part of the whole model: the bytes that autograd keeps for its backward
        and has not kept for one before."""
        added: list[Tensor] = []

        def pack(t: Tensor) -> Tensor:
            key = t.untyped_storage().data_ptr()
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
        cost.parameters = sum(
            t.numel() * t.element_size()
            for t in part.tensors.values()
            if isinstance(t, nn.Parameter)
        )
        cost.reads = [list(t.shape) for n in part.reads for t in tensors_in(self.values[n])]
        cost.gives = [list(t.shape) for n in part.gives for t in tensors_in(self.values[n])]
        return cost

    def passes(self, part: Part, cost: Cost, warmup: int, repeats: int) -> None:
        """The FLOP of its passes and, with repeats, the medians of their seconds."""
        alone = Alone(self.calls, part, self.values)
        self._count(alone, cost)
        if repeats == 0:
            return
        leaves, trained = alone.leaves, alone.trained
        runs: list[tuple[float, float, float]] = []
        for _ in range(warmup + repeats):
            forward = seconds(alone.forward, self.device)
            both = seconds(lambda: alone.gradients(leaves + trained), self.device)
            first = seconds(lambda: alone.gradients(leaves), self.device) if trained else both
            runs.append((forward, first, both - first))
        median = [statistics.median(times) for times in zip(*runs[warmup:])]
        reached = bool(alone.outputs)
        cost.seconds["F"] = median[0]
        cost.seconds["B"] = median[1] if reached and leaves else 0.0
        # what W adds to B, so that they are the whole backward together
        cost.seconds["W"] = max(median[2], 0.0) if reached and trained else 0.0

    @staticmethod
    def _count(alone: Alone, cost: Cost) -> None:
        """Products, convolutions and attention as PyTorch counts them; where there are none, one
        for each number that goes in or comes out, and none of a view."""
        trace, leaves, trained = alone.calls.trace, alone.leaves, alone.trained
        computes = not all(trace.only_looks(n) for n in alone.part.calls)

        def count(run: Callable[[], None], numbers: int) -> int:
            return counted(run) or (numbers if computes else 0)

        numbers = [sum(math.prod(shape) for shape in shapes) for shapes in (cost.reads, cost.gives)]
        cost.flop["F"] = count(alone.forward, max(numbers))
        cost.flop["B"] = cost.flop["W"] = 0
        if alone.outputs and leaves:
            cost.flop["B"] = count(lambda: alone.gradients(leaves), sum(t.numel() for t in leaves))
        if alone.outputs and trained:
            cost.flop["W"] = count(
                lambda: alone.gradients(trained), sum(t.numel() for t in trained)
            )


def measure(
    trace: Trace, parts: list[Part], inputs: Inputs, warmup: int, repeats: int
) -> tuple[list[Cost], Values]:
    """The costs of each part, and the values that the model's calls gave."""
    meter = Meter(trace, inputs)
    state = [(b, b.clone()) for b in trace.model.buffers()]
    with torch.random.fork_rng(), torch.enable_grad():
        costs = [meter.sizes(part) for part in parts]
        for part, cost in zip(parts, costs):
            meter.passes(part, cost, warmup, repeats)
    with torch.no_grad():
        for buffer, before in state:  # running means, which every forward moves
            buffer.copy_(before)
    return costs, meter.values
