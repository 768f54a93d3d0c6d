"""The calls of a model run on values; what an operator costs."""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, fx
from torch.utils._pytree import tree_leaves, tree_map_only

from ..trace.changes import written
from ..trace.parts import Part
from ..trace.trace import Inputs, Trace, attribute, words

Values = dict[fx.Node, Any]


def tensors_in(value: Any) -> list[Tensor]:
    return [t for t in tree_leaves(value) if isinstance(t, Tensor)]


def changed(how: Callable[[Tensor], Tensor], value: Any) -> Any:
    """The value with other tensors in it."""
    return how(value) if isinstance(value, Tensor) else tree_map_only(Tensor, how, value)


def storage_of(t: Tensor) -> int:
    """Which storage it is, on the meta device, too, where no address tells."""
    return int(t.untyped_storage()._cdata)


def bytes_of(values: Iterable[Any]) -> int:
    """Of all tensors in them; views of one storage count what there is of it, once."""
    sizes: dict[int, int] = {}
    limits: dict[int, int] = {}
    for t in tensors_in(list(values)):
        key = storage_of(t)
        sizes[key] = sizes.get(key, 0) + t.numel() * t.element_size()
        limits[key] = t.untyped_storage().nbytes()
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

    def given(
        self,
        inputs: Inputs,
        needed: Container[fx.Node] | None = None,
        made: Callable[[Any], Any] | None = None,
    ) -> Values:
        """The values of the model's inputs, by the names and the order of forward(), and of what is
        data like them: all of that, or what is needed. made: what stands for the constants."""
        args, kwargs = words(inputs)
        values = {n: made(value) if made else value for n, value in self.constants.items()}
        for n, key in self.keys(inputs).items():
            default = n.args[0] if n.args else None
            values[n] = default if key is None else kwargs[key] if kwargs else args[key]
        self.run((n for n in self.trace.data if needed is None or n in needed), values)
        return values

    def keys(self, inputs: Inputs) -> dict[fx.Node, Any]:
        """The place or the name of each of the model's inputs; None of one that is left out."""
        args, kwargs = words(inputs)
        if kwargs:
            named = ((n, str(n.target)) for n in self.trace.inputs)
            return {n: name if name in kwargs else None for n, name in named}
        return {n: i if i < len(args) else None for i, n in enumerate(self.trace.inputs)}

    def needed(self, parts: Iterable[Part]) -> set[fx.Node]:
        """Inputs and data that the parts read, and what those are made of."""
        left = [n for part in parts for n in part.reads]
        found: set[fx.Node] = set()
        while left:
            n = left.pop()
            if n not in found and (n.op == "placeholder" or n in self.trace.data):
                found.add(n)
                left += n.all_input_nodes
        return found

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
    return any(n.op != "get_attr" for call in part.calls for n in written(trace, call))
