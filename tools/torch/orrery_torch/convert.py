"""A PyTorch model as a graph that computes: `orrery train` goes on with it."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn

from .attention import Mask, Scores
from .changes import check_backwards, check_changes
from .constants import ALIKE, constant, filled_alike
from .costs import Calls
from .formulas import Formula, Formulas
from .inputs import check_inputs
from .layout import Axes, Unlike, atom
from .likes import ATTENTION, LIKES, spelt
from .study import quoted
from .tensors import save_safetensors
from .trace import Inputs, Trace, first_line, function_of, trace, words
from .values import CONSTANT, Held, Loss, Node, Rows, Unknown, shape_of, tensor_of
from .weights import BESIDE, TURNED, place


def laid_out(t: Tensor) -> tuple[int, int, Axes]:
    """Rows, columns and dimensions of an input. Whole numbers are ids or classes, a row each."""
    n, sizes = atom("n", len(t)), list(t.shape[1:])
    if t.dim() == 4:  # an image: a row a pixel, a column a channel
        channels, height, width = sizes
        axes = (n, atom("c", channels), atom("r", height, 0, 0), atom("r", width, 0, 1))
        return height * width, channels, axes
    if t.dim() > 3 or (t.dim() == 3 and not t.is_floating_point()):
        raise Unlike(f"an input of {t.dim()} dimensions")
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

    def write(self, path: Path | str, data: str | None = None) -> Path:
        """The graph, for data in a file of its folder."""
        Path(path).write_text(self.dot(data))
        return Path(path)

    def dot(self, data: str | None = None) -> str:
        lines = [f"digraph {quoted(self.name)} {{", "\tnode [shape=box];"]
        lines += [f"\tdata={quoted(data)};"] if data else []
        for node in self.nodes:
            says = "".join(f", {key}={quoted(str(v))}" for key, v in node.attributes.items())
            lines.append(f"\t{quoted(node.name)} [op={node.op}{says}];")
        for node in self.nodes:
            lines += [f"\t{quoted(i)} -> {quoted(node.name)};" for i in node.inputs]
        return "\n".join([*lines, "}"]) + "\n"

    def save_weights(self, path: Path | str) -> Path:
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
            t = t.permute(0, 2, 3, 1) if t.dim() == 4 else t
            tensors[name] = t.float() if t.is_floating_point() else t.to(torch.int32)
        save_safetensors(Path(path), tensors)
        return Path(path)


INSTEAD = dict.fromkeys(
    ["argmax", "index", "gather", "take_along_dim"],
    "rows or classes that data chooses; of rows, Orrery has the first and the last",
) | {"cumsum": "no operator of Orrery is like it; positions that count from 0 are arange"}


class Converter:
    """Goes through the calls; each gives operators, or what lies how of the output of one."""

    def __init__(self, traced: Trace, inputs: Inputs) -> None:
        self.trace = traced
        self.nodes: list[Node] = []
        self.inputs: dict[str, tuple[str, Tensor]] = {}
        self.refused: list[str] = []
        self.modules = {name for name, _ in traced.model.named_modules()}
        self.taken: set[str] = set()
        self.own: dict[str, Tensor] = dict(traced.model.named_parameters(remove_duplicate=False))
        self.parameters = set(self.own)
        self.own |= dict(traced.model.named_buffers(remove_duplicate=False))
        self.values: dict[fx.Node, Any] = {}
        self.samples = 0
        for n, value in Calls(traced).given(inputs).items():
            if n.op == "placeholder":
                self.values[n] = self._input(str(n.target), value)
            elif n.op == "get_attr":
                self.values[n] = Held(str(n.target), value) if str(n.target) in self.own else value

    def _input(self, name: str, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        rows, columns, axes = laid_out(value)
        self.samples = len(value)
        numbers = value[0].numel()
        node = name + "_" if name in self.modules or name in self.own else name
        self.taken.add(node)
        self.inputs[node] = (name, value)
        says = {"tensor": name, "columns": f"0:{numbers}", "rows": rows}
        self.nodes.append(Node(node, "input", [], says))
        return Rows(node, axes, rows, columns)

    # ---- for LIKES ----

    def emit(
        self,
        node: fx.Node,
        op: str,
        inputs: list[Rows],
        tensors: dict[str, Held] | None = None,
        **attributes: Any,
    ) -> str:
        """Adds an operator and tells its name."""
        names: list[str] = []
        for i in inputs:  # an operator reads no tensor twice, but copies of it
            names.append(self.emit(node, "scale", [i], factor=1) if i.name in names else i.name)
        held = tensors or {}
        trained = {t.tensor.requires_grad for t in held.values()} if op != "batchnorm" else set()
        if op == "batchnorm":
            trained = {held["gain"].tensor.requires_grad, held["bias"].tensor.requires_grad}
        if len(trained) > 1:
            raise Unlike("parameters of which some are frozen and some are trained")
        if trained == {False}:
            attributes["frozen"] = "true"
        name = self._name(node, held)
        self.nodes.append(Node(name, op, names, attributes, held))
        return name

    def _name(self, node: fx.Node, held: dict[str, Held]) -> str:
        """That of the parameters, so that load() finds them; else that of the module or call."""
        if held:
            names = [held_name(h) for h in held.values()]
            base, separator = names[0], "@"
            if any(not self._finds(f"{base}.{tensor}", h) for tensor, h in held.items()):
                base = BESIDE.join(names)
        else:
            stack = self.trace.stack(node)
            base, separator = (stack[-1][0] if stack else ""), "_"
            module = self.trace.model.get_submodule(base.partition("@")[0])
            if not base or any(module.children()) or base in self.taken:
                base = ".".join(filter(None, [base, function_of(node).rstrip("_")]))
                base += "_" if base in self.modules else ""
        name, again = base, 1 if held else 2
        while name in self.taken:
            name, again = f"{base}{separator}{again}", again + 1
        self.taken.add(name)
        return name

    def _finds(self, name: str, held: Held) -> bool:
        found = place(self.trace.model, name) if held.name != CONSTANT else held.tensor
        return found is not None and found.data_ptr() == held.tensor.data_ptr()

    def each_sample(self, t: Tensor) -> Tensor:
        """Of a tensor that is the same for all samples: one of them."""
        if not torch.equal(t, t[:1].expand_as(t)):
            raise Unlike("constants in which samples differ, or more than one id for a row")
        return t[:1]

    def constant(self, node: fx.Node, held: Held | None, t: Tensor) -> Rows:
        """1 x columns, 1 x rows x columns, or 1 x rows of ids, for every sample: what is added to
        zeros, which are data times 0."""
        if t.dim() not in (2, 3):
            raise Unlike("a constant of such dimensions")
        ids = t.dim() == 2 and not t.is_floating_point()
        rows = 1 if t.dim() == 2 and not ids else t.shape[1]
        columns = 1 if ids else t.shape[-1]
        tensor = t.reshape(rows, columns)
        tensors = {"weight": replace(held, tensor=tensor) if held else Held(CONSTANT, tensor)}
        zeros = self._zeros(rows, columns)
        name = self.emit(node, "positions", [zeros], tensors)
        kinds = "r" if ids else "rc" if t.dim() == 3 else "c"
        inner = tuple(atom(k, rows if k == "r" else columns) for k in kinds)
        return Rows(name, (atom("n", self.samples), *inner), rows, columns)

    def beside(self, node: fx.Node, value: Any) -> Rows:
        """What is no data, put together with data."""
        t = tensor_of(value)
        if not isinstance(t, Tensor) or not t.dim() or len(t) not in (1, self.samples):
            raise Unlike("a parameter or a constant beside data")
        held = value if isinstance(value, Held) and value.name in self.parameters else None
        return self.constant(node, held, self.each_sample(t))

    def every_row(self, node: fx.Node, held: Held, rows: int) -> Rows:
        """The same learned vector in every row: ones, times it."""
        vector = replace(held, tensor=held.tensor.reshape(-1, 1))
        says = {"features": vector.tensor.numel(), "bias": "false"}
        ones = self.constant(node, None, torch.ones(1, rows, 1))
        name = self.emit(node, "linear", [ones], {"weight": vector}, **says)
        axes = (atom("n", self.samples), atom("r", rows), atom("c", vector.tensor.numel()))
        return Rows(name, axes, rows, vector.tensor.numel())

    def alone(self, held: Held) -> bool:
        """Do all calls that read this parameter read the same others?"""
        tied = self.trace.tied
        sets = set()
        for node in self.trace.all_calls:
            read = {str(n.target) for n in node.all_input_nodes if n.op == "get_attr"}
            names = frozenset(tied[n] for n in read if n in tied)
            if tied.get(held.name, held.name) in names:
                sets.add(names)
        return len(sets) < 2

    def _zeros(self, rows: int, columns: int) -> Rows:
        tensor, example = next(iter(self.inputs.values()))
        every = itertools.islice(itertools.cycle(range(example[0].numel())), rows * columns)
        return self.more_data(tensor, list(every), rows, scale=0)

    def more_data(self, tensor: str, columns: list[int], rows: int, **says: Any) -> Rows:
        """Columns of an input of the model, as rows of their own."""
        says = {"tensor": tensor, "columns": ranges(columns), "rows": rows} | says
        for node in self.nodes:
            if node.op == "input" and node.attributes == says:
                break
        else:
            name = next(
                f"{tensor}.{i}" for i in itertools.count(1) if f"{tensor}.{i}" not in self.taken
            )
            node = Node(name, "input", [], says)
            self.nodes.append(node)
            self.taken.add(name)
        return Rows(node.name, (), rows, len(columns) // rows)

    def is_input(self, name: str) -> bool:
        return any(n.name == name and n.op == "input" for n in self.nodes)

    def columns_of(self, name: str) -> list[tuple[str, float]] | None:
        """Of rows of one column: the input and the column that each comes from, or "" and a
        constant; None if they are computed."""
        node = next(n for n in self.nodes if n.name == name)
        if name in self.inputs:
            return [(self.inputs[name][0], i) for i in range(node.attributes["rows"])]
        parts = [self.columns_of(i) for i in node.inputs if node.op in ("slice", "concat")]
        if node.op == "slice" and parts[0]:
            begin, end = map(int, node.attributes["rows"].split(":"))
            return parts[0][begin:end]
        if node.op == "concat" and all(parts):
            return [column for part in parts if part for column in part]
        held = node.tensors.get("weight")
        if node.op == "positions" and held and held.name == CONSTANT:
            return [("", float(x)) for x in held.tensor.flatten()]
        return None

    def shape_before(self, node: fx.Node) -> list[int]:
        read = node.args[0]
        assert isinstance(read, fx.Node)
        return shape_of(read)

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
                found = (
                    constant(self, node, args, kwargs) if not alike else filled_alike(node, *args)
                )
            except Unlike:
                continue
            if not isinstance(found, Rows):
                known[node] = self.values[node] = found
        return known

    def _value(self, node: fx.Node, formula: Formula | None) -> Any:
        if formula:
            x = self.values[formula.source]
            return spelt(self, node, formula, x) if isinstance(x, Rows) else Unknown()
        args, kwargs = (
            fx.node.map_arg(a, self.values.__getitem__) for a in (node.args, node.kwargs)
        )
        return self._call(node, args, kwargs)

    def _call(self, node: fx.Node, args: Any, kwargs: Any) -> Any:
        read = [self.values[n] for n in node.all_input_nodes]
        if any(isinstance(v, Unknown) for v in read):
            return Unknown()
        known = [v for v in read if not isinstance(v, (Tensor, Held, nn.Module))]
        if not known:
            return constant(self, node, args, kwargs)
        name = function_of(node).rstrip("_")
        like = LIKES.get(name)
        if like is None:
            raise Unlike(INSTEAD.get(name, "no operator of Orrery is like it"))
        if name not in ATTENTION and any(isinstance(v, (Mask, Scores)) for v in known):
            raise Unlike("of masks, or of attention's products, where Orrery has attention alone")
        return like(self, node, *args, **kwargs)

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
            weights |= {f"{node.name}.{name}": h.tensor for name, h in node.tensors.items()}
        self._agree(uses)
        for nodes in sets.values():
            if len(nodes) > 1:
                for node in nodes:
                    node.attributes["share"] = nodes[0].name
        return weights

    def _use(self, held: Held) -> str:
        turned = TURNED if held.turned else ""
        return f"{self.trace.tied.get(held.name, held.name)}{held.rows or ''}{turned}"

    def _agree(self, uses: dict[str, set[tuple[str, ...]]]) -> None:
        """A trained parameter that operators use in different ways, which would train apart."""
        for name, keys in uses.items():
            if len(keys) < 2 or not self.own[name].requires_grad:
                continue
            held = [h for n in self.nodes for h in n.tensors.values()]
            parts = {h.rows for h in held if self.trace.tied.get(h.name, h.name) == name}
            taken = [r for begin, end in filter(None, parts) for r in range(begin, end)]
            if None in parts or len(set(taken)) < len(taken):
                raise ValueError(
                    f"{name}: several operators read it, with other parameters beside it or in "
                    "another shape; Orrery shares all parameters of an operator or none"
                )


def ranges(columns: list[int]) -> str:
    """0, 1, 2, 3, 8 -> "0:4,8:9" """
    text, begin = [], 0
    for i in range(1, len(columns) + 1):
        if i == len(columns) or columns[i] != columns[i - 1] + 1:
            text.append(f"{columns[begin]}:{columns[i - 1] + 1}")
            begin = i
    return ",".join(text)


def held_name(held: Held) -> str:
    path, _, last = held.name.rpartition(".")
    base = path if last == "weight" and path else held.name.removesuffix("_weight")
    if held.turned:
        return f"{base}.{TURNED}"
    return f"{base}.{held.rows[0]}-{held.rows[1]}" if held.rows else base


def refusal(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """What torch.export says of it, asked once more: trace() has gone on without."""
    try:
        torch.export.export(model, args, kwargs)
    except Exception as why:  # noqa: BLE001 of any kind, as the model's own code runs under it
        return first_line(why)
    return "at times"


def convert(model: nn.Module, example_inputs: Inputs, *, name: str | None = None) -> Program:
    """The model as a graph that computes. forward() gets data, of two samples or more here, and
    returns a loss or several. ValueError says all of it that has nothing like it in Orrery."""
    check_inputs(model, example_inputs)
    args, kwargs = words(example_inputs)
    if any(
        isinstance(v, Tensor) and (not v.dim() or len(v) < 2) for v in [*args, *kwargs.values()]
    ):
        raise ValueError("example_inputs: two samples or more, to tell samples from the rest")
    traced = trace(model, example_inputs)
    check_changes(traced)
    check_backwards(traced)
    if not traced.exported:
        raise ValueError(
            f"torch.export refuses the model ({refusal(model, args, kwargs)}): only what it takes "
            "can be converted"
        )
    converter = Converter(traced, example_inputs)
    converter.run()
    losses = converter.result()
    for node in converter.nodes:
        if node.name in losses:
            node.attributes["weight"] = losses[node.name]
    converter.keep(set(losses))
    given = {str(n.attributes["tensor"]) for n in converter.nodes if n.op == "input"}
    inputs = {n: v for n, v in converter.inputs.items() if v[0] in given}
    return Program(name or type(model).__name__, converter.nodes, converter.share(), losses, inputs)
