"""A PyTorch model as a graph of costs: what `orrery show`, `plan`, `simulate` and `compare` read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, fx, nn

from ..trace.changes import check_backwards, check_changes, parted
from .costs import Cost, Values, bytes_of, tensors_in
from ..trace.inputs import check_inputs, on_meta
from .measure import measure
from ..trace.parts import Part, split
from .price import price
from ..trace.trace import Inputs, Trace, say, words

FLOPS = 1e10  # a second, where nothing is measured: as --flops of the command


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def amount(x: float, unit: str) -> str:
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= factor:
            return f"{x / factor:.3g} {prefix}{unit}"
    return f"{x:.3g} {unit}"


@dataclass
class Edge:
    source: Part
    target: Part
    bytes: int
    gradient_bytes: int


@dataclass
class Graph:
    """Operators with what they cost. write() makes the file; parts says what each one computes."""

    name: str
    trace: Trace
    parts: list[Part]
    costs: list[Cost]
    edges: list[Edge]
    samples: int
    encoders: set[str]
    frozen: set[str] = field(default_factory=set)
    shared: dict[str, str] = field(default_factory=dict)
    overhead: float = 0.0  # seconds a job takes beside its operators

    def write(self, path: Path | str) -> Path:
        Path(path).write_text(self.dot())
        return Path(path)

    def dot(self) -> str:
        lines = [
            f"digraph {quoted(self.name)} {{",
            f"\tsamples={self.samples};",
            *([f'\toverhead="{1e6 * self.overhead:.6g}us";'] if self.overhead else []),
            "\tnode [shape=box];",
        ]
        for encoder in dict.fromkeys(self._encoder(p) for p in self.parts):
            own = [
                self._node(p, c)
                for p, c in zip(self.parts, self.costs)
                if self._encoder(p) == encoder
            ]
            if encoder:
                lines += [
                    f"\tsubgraph {quoted('cluster_' + encoder)} {{",
                    f"\t\tlabel={quoted(encoder)};",
                ]
                lines += ["\t" + line for line in own] + ["\t}"]
            else:
                lines += own
        return "\n".join([*lines, *map(self._edge, self.edges), "}"]) + "\n"

    def _encoder(self, part: Part) -> str:
        """The innermost of the encoders that its module is or belongs to."""
        around = [e for e in self.encoders if (part.module + ".").startswith(e + ".")]
        return max(around, key=len, default="")

    def _node(self, part: Part, cost: Cost) -> str:
        says: dict[str, Any] = {
            name: f'"{cost.seconds[d] * 1e3:.6g}ms"'
            for name, d in (("forward", "F"), ("backward", "B"), ("weight", "W"))
        }
        says |= {"activation": cost.activation, "stash": cost.stash, "parameters": cost.parameters}
        if part.name in self.frozen:
            says["frozen"] = "true"
        if part.name in self.shared:
            says["share"] = quoted(self.shared[part.name])
        shapes = " ".join(map(str, cost.reads)), " ".join(map(str, cost.gives))
        flop = f", {amount(cost.flop['F'], 'FLOP')}" if cost.flop["F"] else ""
        says["label"] = quoted(f"{part.kind} {shapes[0]} -> {shapes[1]}{flop}")
        return f"\t{quoted(part.name)} [" + ", ".join(f"{k}={v}" for k, v in says.items()) + "];"

    def _edge(self, e: Edge) -> str:
        says: dict[str, Any] = {}
        if e.bytes != self.costs[e.source.number].activation:
            says["bytes"] = e.bytes
        if not e.gradient_bytes:
            says["gradient"] = "false"
        elif e.gradient_bytes != e.bytes:
            says["gradient_bytes"] = e.gradient_bytes
        text = ", ".join(f"{k}={v}" for k, v in says.items())
        return f"\t{quoted(e.source.name)} -> {quoted(e.target.name)}" + (
            f" [{text}];" if text else ";"
        )


def edges_of(parts: list[Part], values: Values) -> list[Edge]:
    makers = {n: part for part in parts for n in part.calls}
    edges = []
    for part in parts:
        between: dict[int, list[fx.Node]] = {}
        for n in part.reads:
            if n in makers:
                between.setdefault(makers[n].number, []).append(n)
        for number, nodes in between.items():
            tensors = [t for n in nodes for t in tensors_in(values[n])]
            back = bytes_of(t for t in tensors if t.requires_grad)
            edges.append(Edge(parts[number], part, bytes_of(tensors), back))
    return edges


def frozen_in(parts: list[Part], edges: list[Edge]) -> set[str]:
    """Operators none of whose parameters is trained, and those that no gradient comes back to. A
    message where some are trained, or where they should be and no gradient comes back to them."""
    sources = {e.source.number for e in edges}
    reached = {p.number for p in parts if p.number not in sources or any_result(p)}
    for e in sorted(edges, key=lambda e: -e.target.number):
        if e.gradient_bytes and e.target.number in reached:
            reached.add(e.source.number)
    frozen = set()
    trains = any(part.trained for part in parts)  # else the model just computes
    for part in parts:
        held, trained = part.parameters, part.trained
        if part.number not in reached and (held or trains):
            if trained:
                say(f"{part.name}: no gradient comes back to its parameters: frozen in the graph")
            frozen.add(part.name)
        elif held and not trained:
            frozen.add(part.name)
        elif len(trained) < len(held):
            say(
                f"{part.name}: some of its parameters are frozen, some trained: trained in the graph"
            )
    return frozen


def any_result(part: Part) -> bool:
    return any(user.op == "output" for n in part.calls for user in n.users)


def shared_in(parts: list[Part], frozen: set[str]) -> dict[str, str]:
    """The name of the set of parameters of each operator that has it in common with another. Those
    that train it and those that do not are apart, since Orrery has one or the other of a set."""
    sets: dict[str, frozenset[str]] = {}
    for part in parts:
        if part.parameters:
            sets[part.name] = frozenset(part.parameters)
    shared: dict[str, str] = {}
    for name, names in sets.items():
        others = {o for o, held in sets.items() if o != name and held & names}
        same = {o for o in others if sets[o] == names}
        alike = {o for o in same if (o in frozen) == (name in frozen)}
        if alike:
            shared[name] = min(names) if len(names) == 1 else min(names).rpartition(".")[0]
            shared[name] += "@frozen" * (name in frozen and alike != same)
        if alike != same and name in frozen:
            say(
                f"{name}: no gradient comes back to parameters that {min(same - alike)} trains: the "
                "graph counts them apart"
            )
        for o in sorted(o for o in others if sets[o] != names and o > name):
            both = ", ".join(sorted(sets[o] & names))
            say(f"{name} and {o} share {both}, but not all parameters: the graph counts them apart")
    return shared


def samples_of(inputs: Inputs) -> int:
    args, kwargs = words(inputs)
    first = next((t for t in [*args, *kwargs.values()] if isinstance(t, Tensor) and t.dim()), None)
    return len(first) if first is not None else 1


def check_numbers(**words: tuple[int | None, int]) -> None:
    for word, (number, least) in words.items():
        if number is not None and (not isinstance(number, int) or number < least):
            raise ValueError(f"{word}={number!r}: a whole number from {least} on")


def check_encoders(model: nn.Module, encoders: Sequence[str] | None) -> None:
    if isinstance(encoders, str):
        raise ValueError(f"encoders={encoders!r}: a list of names of submodules")
    there = {name for name, _ in model.named_modules() if name}
    unknown = [str(name) for name in encoders or () if name not in there]
    if unknown:
        raise ValueError(f"encoders: no submodule is called {', '.join(unknown)}")


def graph(
    model: nn.Module,
    example_inputs: Inputs,
    *,
    level: str = "module",
    whole: tuple[type[nn.Module], ...] = (),
    encoders: Sequence[str] | None = None,
    name: str | None = None,
    samples: int | None = None,
    warmup: int = 2,
    repeats: int = 7,
    measured: bool = True,
    overhead: float | None = None,
) -> Graph:
    """The model's operators, with their costs for a microbatch like example_inputs: what forward()
    is called with, a tensor, several or a dict of them by name.

    level: "module", an operator is what an innermost module does, or a call outside of those;
    "aten", it is a call. Modules of the types in `whole` are one operator each.
    encoders: submodules whose operators are drawn and listed together; all of the model's own.
    samples: in the microbatch; the first dimension of the first input.
    warmup, repeats: runs of each operator before those whose median counts. With measured=False
    durations are those of 10 GFLOP a second, and the same every time.
    overhead: seconds that a job takes beside its operators. Not given, it is what a job of a Runner
    takes on this machine where durations are measured on a CPU, and else nothing."""
    check_inputs(model, example_inputs)
    check_numbers(samples=(samples, 1), warmup=(warmup, 0), repeats=(repeats, 1))
    check_encoders(model, encoders)
    if overhead is not None and not 0 <= overhead < math.inf:
        raise ValueError(f"overhead={overhead!r}: seconds, from 0 on")
    if any(t.is_meta for t in [*model.parameters(), *model.buffers()]):
        if measured:
            raise ValueError("on the meta device nothing takes time: measured=False")
        example_inputs = on_meta(example_inputs)
    traced, parts = parted(model, example_inputs, partial(split, level=level, whole=whole))
    if not parts:
        raise ValueError(f"{type(model).__name__}: no operators: it gives its inputs as they are")
    for check in (lambda: check_changes(traced, parts), lambda: check_backwards(traced)):
        try:  # its costs are those of the model all the same
            check()
        except ValueError as why:
            say(f"{why}; a Runner refuses it")
    costs, values = measure(traced, parts, example_inputs, warmup, repeats if measured else 0)
    for cost in costs:
        cost.seconds = cost.seconds or {d: flop / FLOPS for d, flop in cost.flop.items()}
    on_cpu = all(t.device.type == "cpu" for t in [*model.parameters(), *model.buffers()])
    if overhead is None:
        overhead = price() if measured and on_cpu else 0.0
    edges = edges_of(parts, values)
    frozen = frozen_in(parts, edges)
    return Graph(
        name or type(model).__name__,
        traced,
        parts,
        costs,
        edges,
        samples_of(example_inputs) if samples is None else samples,
        {p.module.partition(".")[0] for p in parts if "." in p.module}
        if encoders is None
        else set(encoders),
        frozen,
        shared_in(parts, frozen),
        overhead,
    )
