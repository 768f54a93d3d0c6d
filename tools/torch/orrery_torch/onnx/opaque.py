"""The calls of a model from ONNX: those with nothing like them are operators that have costs alone."""

import math
from functools import cached_property
from typing import Any

from torch import Tensor, fx

from ..convert.convert import Converter
from ..costs.costs import Cost
from ..convert.layout import Axes, Unlike, atom, reshaped, whole
from ..costs.measure import measure
from ..trace.parts import split
from ..convert.formulas import Formula
from ..trace.trace import Trace, function_of
from ..convert.values import CONSTANT, Held, Loss, Node, Rows, Unknown
from .reader import Read, Step

BESIDE = {"scale", "slice"}  # operators that a node may take before its own
OUTPUT = "an output: it needs a loss"
ODD = (Unlike, AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError)


class Opaque(Converter):
    """apart: the model's own tensors that operators would read in different ways, and train apart."""

    def __init__(self, traced: Trace, read: Read, apart: set[str]) -> None:
        self.read, self.apart = read, apart
        self.called = dict(zip((str(n.target) for n in traced.inputs), read.model.inputs))
        self.settled: dict[fx.Node, list[str]] = {}
        super().__init__(traced, read.example)

    # ---- names and layouts ----

    def _input(self, n: fx.Node, name: str, value: Any) -> Any:
        name = self.called[name]
        try:
            return super()._input(n, name, value)
        except Unlike:
            rows = self._lay(name, list(value.shape), None)
            self.inputs[name] = (name, value)
            says = {"tensor": name, "columns": f"0:{rows.rows * rows.columns}", "rows": rows.rows}
            self.nodes.append(Node(name, "input", [], says))
            self.taken.add(name)
            return rows

    def _step(self, node: fx.Node) -> Step:
        step = self.trace.model.get_submodule(self.trace.stack(node)[-1][0].partition("@")[0])
        assert isinstance(step, Step)
        return step

    def _name(self, node: fx.Node, held: dict[str, Held], op: str) -> str:
        base = self._step(node).called
        constant = any(h.name == CONSTANT for h in held.values())
        base += f".{op}" if op in BESIDE or constant else ""
        return self.fresh(base)

    def _lay(self, name: str, shape: list[int], like: Rows | None) -> Rows:
        """An output of this shape: samples, rows, columns, in this order, but for images."""
        n, total = self.samples or shape[0], math.prod(shape)
        if total % n or not shape or shape[0] % n:
            return Rows(name, tuple(atom("x", size) for size in shape), 1, max(total // n, 1))
        image = len(shape) == 4 and like is not None and len(like.axes) > 1 and like.axes[1] != ()
        if image and like is not None and whole(like.axes[1], "c"):
            rows, columns = shape[2] * shape[3], shape[1]
            axes: Axes = (atom("n", n), atom("c", columns), atom("r", rows))
        else:
            columns = shape[-1] if len(shape) > 1 else 1
            rows = total // n // columns
            axes = (atom("n", n), atom("r", rows), atom("c", columns))
        return Rows(name, reshaped(axes, shape), rows, columns)

    # ---- what has nothing like it ----

    def _value(self, node: fx.Node, formula: Formula | None) -> Any:
        try:
            value = super()._value(node, formula)
        except ODD as why:
            return self._opaque(node, str(why) if isinstance(why, Unlike) else "")
        return self._opaque(node, "") if isinstance(value, Unknown) else value

    def emit(self, op: str, inputs: list[Rows], tensors: Any = None, **says: Any) -> str:
        if op != "opaque" and any(h.name in self.apart for h in (tensors or {}).values()):
            raise Unlike("parameters that other operators read otherwise")
        return super().emit(op, inputs, tensors, **says)

    @cached_property
    def _costs(self) -> dict[fx.Node, Cost]:
        parts = split(self.trace, "aten")
        costs, _ = measure(self.trace, parts, self.read.example, 0, 0)
        return {part.calls[0]: cost for part, cost in zip(parts, costs)}

    def _read_by(self, node: fx.Node) -> list[str]:
        names = [name for n in node.all_input_nodes for name in self._settle(n)]
        return list(dict.fromkeys(names))

    def _settle(self, node: fx.Node) -> list[str]:
        """The operators that make a value, with one for a value that is none by itself, such as the
        products of attention."""
        value = self.values.get(node)
        if isinstance(value, Rows):
            return [value.name]
        if isinstance(value, Loss):
            return [name for name, _ in value.terms]
        if isinstance(value, (Tensor, Held, int, float)) or node.op in ("get_attr", "placeholder"):
            return []
        if isinstance(value, list) and all(isinstance(v, Rows) for v in value):
            return [v.name for v in value]
        if node not in self.settled:
            made = self._opaque(node, "")
            made = made if isinstance(made, list) else [made]
            self.settled[node] = [v.name for v in made if isinstance(v, Rows)]
        return self.settled[node]

    def _opaque(self, node: fx.Node, why: str) -> Any:
        inputs = self._read_by(node)
        if not inputs:
            return Unknown()  # made of parameters alone
        value = node.meta["val"]
        shapes = [list(v.shape) for v in (value if isinstance(value, (list, tuple)) else [value])]
        like = next((v for n in node.all_input_nodes if isinstance(v := self.values.get(n), Rows)), None)
        says = self._says(node, why)
        made = []
        for shape in shapes:
            rows = self._lay("", shape, like)
            own = {"rows": rows.rows, "columns": rows.columns} | (says if not made else {"label": says["label"]})
            name = self._name(node, {}, "opaque")
            self.nodes.append(Node(name, "opaque", inputs, own))
            made.append(Rows(name, rows.axes, rows.rows, rows.columns))
        return made if isinstance(value, (list, tuple)) else made[0]

    def _says(self, node: fx.Node, why: str) -> dict[str, Any]:
        op = self._step(node).node.op
        cost = self._costs.get(node, Cost(flop={"F": 0, "B": 0, "W": 0}))
        flop = dict(cost.flop)
        if function_of(node) == "unknown":
            each = int(node.args[3])  # type: ignore[call-overload]
            flop = {"F": max(each, 0), "B": max(each, 0), "W": 0}
            if each < 0:
                return {"counted": "false", "label": op}
        n = self.samples
        says: dict[str, Any] = {"flop": flop["F"] // n, "backward_flop": flop["B"] // n}
        says |= {"weight_flop": flop["W"] // n, "kept": cost.stash // 4 // n}
        says["weights"] = cost.parameters // 4
        return {k: v for k, v in says.items() if v} | {"label": f"{op}: {why}" if why else op}

    def result(self) -> dict[str, float]:
        """Its losses; without one, its outputs, each of which needs one."""
        [results] = self.trace.module.graph.output_node().args
        values = {name: n for name, n in zip(self.read.model.outputs, results)}  # type: ignore[arg-type]
        losses: dict[str, float] = {}
        for n in values.values():
            if isinstance(loss := self.values[n], Loss):  # type: ignore[index]
                for name, weight in loss.terms:
                    losses[name] = losses.get(name, 0.0) + weight
        if losses:
            return losses
        for name, n in values.items():
            read = self._settle(n)  # type: ignore[arg-type]
            while name in self.taken:
                name += "_"
            self.taken.add(name)
            self.nodes.append(Node(name, "opaque", read, {"label": OUTPUT}))
            losses[name] = 1.0
        return losses
