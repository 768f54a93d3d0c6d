"""A PyTorch model as a graph that computes: `orrery train` goes on with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn

from .attention import Mask, Scores
from ..trace.changes import check_backwards, check_changes
from .constants import ALIKE, constant, filled_alike
from ..costs.costs import Calls
from .emitter import Emitter, ranges
from .experts import AtExperts, Choices, of_experts
from .formulas import Formula, Formulas
from ..trace.inputs import check_inputs
from .layout import Axes, Unlike, atom
from .likes import ATTENTION, LIKES, spelt
from ..costs.study import quoted
from ..tensors import save_safetensors
from ..trace.trace import Inputs, Trace, function_of, trace, words
from .values import CONSTANT, Held, Loss, Matrices, Node, Rows, Unknown


def laid_out(t: Tensor, channels_second: bool) -> tuple[int, int, Axes]:
    """Rows, columns and dimensions of an input. Whole numbers are ids or classes, a row each."""
    n, sizes = atom("n", len(t)), list(t.shape[1:])
    if channels_second and t.dim() == 3:
        return sizes[1], sizes[0], (n, atom("c", sizes[0]), atom("r", sizes[1]))
    if channels_second:  # an image: a row a pixel
        channels, height, width = sizes
        axes = (n, atom("c", channels), atom("r", height, 0, 0), atom("r", width, 0, 1))
        return height * width, channels, axes
    if t.dim() > 3 or (t.dim() == 3 and not t.is_floating_point()):
        raise ValueError(f"example_inputs: {list(t.shape)} of {t.dtype}: more dimensions than Orrery reads")
    if not sizes:
        return 1, 1, (n,)
    if len(sizes) == 1:
        ids = not t.is_floating_point()
        kinds = ("r", sizes[0], 1) if ids else ("c", 1, sizes[0])
        return kinds[1], kinds[2], (n, atom(kinds[0], sizes[0]))
    return sizes[0], sizes[1], (n, atom("r", sizes[0]), atom("c", sizes[1]))


@dataclass
class Program:
    """A graph that computes, and the weights it begins with."""

    name: str
    nodes: list[Node]
    weights: dict[str, Tensor]
    losses: dict[str, float]
    inputs: dict[str, tuple[str, Tensor]] = field(default_factory=dict)  # node: name, example
    channels_second: set[str] = field(default_factory=set)  # of inputs; in the graph columns, last
    table: bool = False  # without a file of data, inputs are columns of one table, beside each other
    lacking: str = ""  # why the weights are not those of the model

    def write(self, path: Path | str, data: str | None = None) -> Path:
        """The graph, for data in a file of its folder."""
        Path(path).write_text(self.dot(data))
        return Path(path)

    def dot(self, data: str | None = None) -> str:
        lines = [f"digraph {quoted(self.name)} {{", "\tnode [shape=box];"]
        lines += [f"\tdata={quoted(data)};"] if data else []
        columns = self._columns() if self.table and not data else {}
        for node in self.nodes:
            attributes = columns.get(node.name, node.attributes)
            says = "".join(f", {key}={quoted(str(v))}" for key, v in attributes.items())
            lines.append(f"\t{quoted(node.name)} [op={node.op}{says}];")
        for node in self.nodes:
            lines += [f"\t{quoted(i)} -> {quoted(node.name)};" for i in node.inputs]
        return "\n".join([*lines, "}"]) + "\n"

    def _columns(self) -> dict[str, dict[str, Any]]:
        """What inputs say, as columns of one table: of an image a channel after the other."""
        first, begin = {}, 0
        for name, t in self.inputs.values():
            first[name] = begin
            begin += t[0].numel()
        examples = dict(self.inputs.values())
        found = {}
        for node in self.nodes:
            if node.op == "input":
                says = dict(node.attributes)
                name = says.pop("tensor")
                shape = examples[name].shape
                places = torch.arange(first[name], first[name] + examples[name][0].numel())
                if name in self.channels_second:
                    places = places.reshape(shape[1], -1).t()
                read = [range(*map(int, r.split(":"))) for r in says["columns"].split(",")]
                says["columns"] = ranges([int(places.flatten()[i]) for r in read for i in r])
                found[node.name] = says
        return found

    def save_weights(self, path: Path | str) -> Path:
        if self.lacking:
            raise ValueError(self.lacking)
        save_safetensors(Path(path), {name: t.detach().float() for name, t in self.weights.items()})
        return Path(path)

    def save_data(self, path: Path | str, samples: Mapping[str, Tensor]) -> Path:
        """Samples for the inputs of forward(), by their names, as the graph reads them. Rows 0, 5,
        10, ... are those that `orrery train` tests with."""
        read = dict(self.inputs.values())
        if missing := [name for name in read if name not in samples]:
            raise ValueError(f"samples: nothing for {', '.join(missing)}")
        if unknown := [name for name in samples if name not in read]:
            raise ValueError(f"samples: the graph reads no {', '.join(unknown)}")
        for name in read:
            if not isinstance(samples[name], Tensor) or not samples[name].dim():
                raise ValueError(f"samples: {name} is no tensor of samples")
        numbers = {name: len(samples[name]) for name in read}
        if len(set(numbers.values())) > 1 or 0 in numbers.values():
            told = ", ".join(f"{n} of {name}" for name, n in numbers.items())
            raise ValueError(f"samples: {told}: give as many of each, and one or more")
        tensors = {}
        for name, example in read.items():
            t = samples[name]
            if t.shape[1:] != example.shape[1:]:
                raise ValueError(
                    f"samples: {name} is {list(t.shape[1:])} a sample; the model was converted "
                    f"for {list(example.shape[1:])}"
                )
            t = t.movedim(1, -1) if name in self.channels_second else t
            tensors[name] = t.float() if t.is_floating_point() else t.to(torch.int32)
        save_safetensors(Path(path), tensors)
        return Path(path)


INSTEAD = dict.fromkeys(
    ["argmax", "index", "gather", "take_along_dim"],
    "rows or classes that data chooses; of rows, Orrery has the first and the last",
) | {"cumsum": "no operator of Orrery is like it; positions that count from 0 are arange"}


class Apart(ValueError):
    """A trained parameter that operators would train apart."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name}: several operators read it, with other parameters beside it or in another "
            "shape; Orrery shares all parameters of an operator or none"
        )
        self.name = name


class Converter(Emitter):
    """Goes through the calls; each gives operators, or what lies how of the output of one."""

    def __init__(self, traced: Trace, inputs: Inputs) -> None:
        super().__init__(traced)
        self.refused: list[str] = []
        self.values: dict[fx.Node, Any] = {}
        self.channels_second: set[str] = set()
        for n, value in Calls(traced).given(inputs).items():
            if n.op == "placeholder":
                self.values[n] = self._input(n, str(n.target), value)
            elif n.op == "get_attr":
                self.values[n] = Held(str(n.target), value) if str(n.target) in self.own else value

    def _input(self, n: fx.Node, name: str, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if value.dim() == 4 or (value.dim() == 3 and "conv1d" in map(function_of, n.users)):
            self.channels_second.add(name)
        rows, columns, axes = laid_out(value, name in self.channels_second)
        self.samples = len(value)
        numbers = value[0].numel()
        node = name + "_" if name in self.modules or name in self.own else name
        self.taken.add(node)
        self.inputs[node] = (name, value)
        says = {"tensor": name, "columns": f"0:{numbers}", "rows": rows}
        self.nodes.append(Node(node, "input", [], says))
        return Rows(node, axes, rows, columns)

    # ---- all calls ----

    def run(self) -> None:
        with torch.no_grad():
            constants = self._constants()
        formulas = Formulas(self.trace.all_calls, constants)
        for node in self.trace.all_calls:
            if node in self.values or node in formulas.inside:
                continue
            try:
                self.values[node] = self._value(node, formulas.found.get(node))
            except Unlike as why:
                self.values[node] = Unknown()
                if not node.users:
                    continue
                stack = self.trace.stack(node)
                at = f"{stack[-1][0]}: " if stack else ""
                self.refused.append(f"{at}{function_of(node)}: {why}")

    def _constants(self) -> dict[fx.Node, Any]:
        """What is known without data; parameters among them, but none that is computed with."""
        known = {n: v for n, v in self.values.items() if n.op == "get_attr"}
        for node in self.trace.all_calls:
            alike, read = function_of(node) in ALIKE, node.all_input_nodes
            if node in self.values or (not alike and any(n not in known for n in read)):
                continue
            held = [v for v in map(known.get, read) if isinstance(v, Held)]
            if any(h.name in self.parameters for h in held):
                continue
            args, kwargs = (fx.node.map_arg(a, known.get) for a in (node.args, node.kwargs))
            try:
                self.node = node
                found = filled_alike(node, *args) if alike else constant(self, args, kwargs)
            except Unlike:
                continue
            if not isinstance(found, Rows):
                known[node] = self.values[node] = found
        return known

    def _value(self, node: fx.Node, formula: Formula | None) -> Any:
        self.node = node
        if formula:
            x = self.values[formula.source]
            if isinstance(x, AtExperts):
                return x.each(lambda _, part: spelt(self, formula, part))
            return spelt(self, formula, x) if isinstance(x, Rows) else Unknown()
        args, kwargs = (fx.node.map_arg(a, self.values.__getitem__) for a in (node.args, node.kwargs))
        read = [self.values[n] for n in node.all_input_nodes]
        if any(isinstance(v, Unknown) for v in read):
            return Unknown()
        known = [v for v in read if not isinstance(v, (Tensor, Held, nn.Module))]
        if not known:
            return constant(self, args, kwargs)
        name = function_of(node).rstrip("_")
        like = LIKES.get(name)
        if any(isinstance(v, (Choices, AtExperts, Matrices)) for v in known):
            return of_experts(name, like, known)(self, *args, **kwargs)
        if like is None:
            raise Unlike(INSTEAD.get(name, "no operator of Orrery is like it"))
        if name not in ATTENTION and any(isinstance(v, (Mask, Scores)) for v in known):
            raise Unlike("of masks, or of attention's products, where Orrery has attention alone")
        return like(self, *args, **kwargs)

    def result(self) -> dict[str, float]:
        """The losses that the model gives, with their weights."""
        for n in self.trace.results:
            value = self.values[n]
            if not isinstance(value, (Loss, Unknown)):
                self.refused.append(f"the result {n.name}: no loss; forward() has to end in one")
        if self.refused:
            raise ValueError(
                "nothing in Orrery is like this of the model:\n  " + "\n  ".join(self.refused)
            )
        losses: dict[str, float] = {}
        for n in self.trace.results:
            for name, weight in self.values[n].terms:
                losses[name] = losses.get(name, 0.0) + weight
        return losses

    def keep(self, read: set[str]) -> None:
        """Only those nodes, and what they read."""
        kept = []
        for node in reversed(self.nodes):
            if node.name in read:
                read.update(node.inputs)
                kept.append(node)
        self.nodes = kept[::-1]

    def share(self) -> dict[str, Tensor]:
        """Says share= on operators with the same parameters, and returns all tensors by name."""
        sets: dict[tuple[str, ...], list[Node]] = {}
        weights: dict[str, Tensor] = {}
        uses: dict[str, set[tuple[str, ...]]] = {}
        for node in self.nodes:
            held = [h for h in node.tensors.values() if h.name != CONSTANT]
            key = tuple(self._use(h) for h in held)
            if key:
                sets.setdefault(key, []).append(node)
            for h in held:
                uses.setdefault(self.trace.tied.get(h.name, h.name), set()).add(key)
            weights |= {f"{node.name}.{name}": h.written() for name, h in node.tensors.items()}
        self._agree(uses)
        for nodes in sets.values():
            if len(nodes) > 1:
                for node in nodes:
                    node.attributes["share"] = nodes[0].name
        return weights

    def _use(self, held: Held) -> str:
        return f"{self.trace.tied.get(held.name, held.name)}{held.rows or ''}{held.how}"

    def _agree(self, uses: dict[str, set[tuple[str, ...]]]) -> None:
        """A trained parameter that operators use in different ways, which would train apart."""
        for name, keys in uses.items():
            if len(keys) < 2 or not self.own[name].requires_grad:
                continue
            held = [h for n in self.nodes for h in n.tensors.values()]
            parts = {h.rows for h in held if self.trace.tied.get(h.name, h.name) == name}
            taken = [r for begin, end in filter(None, parts) for r in range(begin, end)]
            if None in parts or len(set(taken)) < len(taken):
                raise Apart(name)


def convert(model: nn.Module, example_inputs: Inputs, *, name: str | None = None) -> Program:
    """The model as a graph that computes. forward() gets data, of two samples or more here, and
    returns a loss or several. ValueError says all of it that has nothing like it in Orrery."""
    check_inputs(model, example_inputs)
    args, kwargs = words(example_inputs)
    if any(
        isinstance(v, Tensor) and (not v.dim() or len(v) < 2) for v in [*args, *kwargs.values()]
    ):
        raise ValueError("example_inputs: two samples or more, to tell samples from the rest")
    for key, p in model.named_parameters():
        if p._backward_hooks or p._post_accumulate_grad_hooks:  # type: ignore[attr-defined]
            raise ValueError(f"{key}: a hook on its gradient does not run in Orrery: remove it")
    traced = trace(model, example_inputs)
    check_changes(traced)
    check_backwards(traced)
    if traced.refused:
        raise ValueError(
            f"torch.export refuses the model ({traced.refused}): only what it takes can be converted"
        )
    converter = Converter(traced, example_inputs)
    converter.run()
    return finished(converter, name or type(model).__name__)


def finished(converter: Converter, name: str) -> Program:
    losses = converter.result()
    for node in converter.nodes:
        if node.name in losses:
            node.attributes["weight"] = losses[node.name]
    converter.keep(set(losses))
    given = {str(n.attributes["tensor"]) for n in converter.nodes if n.op == "input"}
    inputs = {n: v for n, v in converter.inputs.items() if v[0] in given}
    channels = converter.channels_second & given
    return Program(name, converter.nodes, converter.share(), losses, inputs, channels)
