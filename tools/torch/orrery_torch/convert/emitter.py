"""The operators that the calls of a model become."""

import itertools
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx

from .layout import Unlike, atom
from ..trace.trace import Trace, function_of
from .values import CONSTANT, Held, Node, Rows, shape_of, tensor_of
from .weights import BESIDE, place


class Emitter:
    """Takes operators, gives them their names, and knows the inputs of the model."""

    def __init__(self, traced: Trace) -> None:
        self.trace = traced
        self.nodes: list[Node] = []
        self.inputs: dict[str, tuple[str, Tensor]] = {}
        self.modules = {name for name, _ in traced.model.named_modules()}
        self.taken: set[str] = set()
        self.own: dict[str, Tensor] = dict(traced.model.named_parameters(remove_duplicate=False))
        self.parameters = set(self.own)
        self.own |= dict(traced.model.named_buffers(remove_duplicate=False))
        self.samples = 0
        self.node: fx.Node  # the call that is turned into operators

    def emit(self, op: str, inputs: list[Rows], tensors: dict[str, Held] | None = None, **attributes: Any) -> str:
        """Adds an operator and tells its name."""
        names: list[str] = []
        for i in inputs:  # an operator reads no tensor twice, but copies of it
            names.append(self.emit("scale", [i], factor=1) if i.name in names else i.name)
        held = tensors or {}
        trained = {t.tensor.requires_grad for t in held.values()} if op != "batchnorm" else set()
        if op == "batchnorm":
            trained = {held["gain"].tensor.requires_grad, held["bias"].tensor.requires_grad}
        if len(trained) > 1:
            raise Unlike("parameters of which some are frozen and some are trained")
        if trained == {False}:
            attributes["frozen"] = "true"
        name = self._name(self.node, held, op)
        self.nodes.append(Node(name, op, names, attributes, held))
        return name

    def alike(self, op: str, inputs: list[Rows], tensors: dict[str, Held] | None = None, **says: Any) -> Rows:
        """Adds an operator whose output lies as its first input does."""
        return replace(inputs[0], name=self.emit(op, inputs, tensors, **says))

    def _name(self, node: fx.Node, held: dict[str, Held], op: str) -> str:
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
        return self.fresh(base, separator, 1 if held else 2)

    def fresh(self, base: str, separator: str = "_", again: int = 2) -> str:
        """The name, with the first number that is free where it is taken."""
        name = base
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

    def constant(self, held: Held | None, t: Tensor) -> Rows:
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
        name = self.emit("positions", [zeros], tensors)
        kinds = "r" if ids else "rc" if t.dim() == 3 else "c"
        inner = tuple(atom(k, rows if k == "r" else columns) for k in kinds)
        return Rows(name, (atom("n", self.samples), *inner), rows, columns)

    def beside(self, value: Any) -> Rows:
        """What is no data, put together with data."""
        t = tensor_of(value)
        if not isinstance(t, Tensor) or not t.dim() or len(t) not in (1, self.samples):
            raise Unlike("a parameter or a constant beside data")
        held = value if isinstance(value, Held) and value.name in self.parameters else None
        return self.constant(held, self.each_sample(t))

    def every_row(self, held: Held, rows: int) -> Rows:
        """The same learned vector in every row: ones, times it."""
        vector = replace(held, tensor=held.tensor.reshape(-1, 1))
        says = {"features": vector.tensor.numel(), "bias": "false"}
        ones = self.constant(None, torch.ones(1, rows, 1))
        name = self.emit("linear", [ones], {"weight": vector}, **says)
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

    def shape_before(self) -> list[int]:
        read = self.node.args[0]
        assert isinstance(read, fx.Node)
        return shape_of(read)


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
    if held.how:
        return f"{base}.{held.how}"
    return f"{base}.{held.rows[0]}-{held.rows[1]}" if held.rows else base
