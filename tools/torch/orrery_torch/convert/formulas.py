"""Functions that a model spells out in several calls, known by what they compute: on random numbers
they give what one operator of Orrery gives."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from ..trace.trace import function_of
from .values import MORE, Held, tensor_of

CALLS = set(
    """add sub rsub mul div neg pow square sqrt rsqrt reciprocal exp tanh erf sigmoid relu clamp
    clamp_min mean sum to _to_copy type_as slice cat chunk split getitem unsqueeze expand expand_as
    linalg_vector_norm""".split()
)
ENDS = {"add", "mul", "div"}
MOST = 16  # calls of one function

GIVEN: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu": F.gelu,
    "silu": F.silu,
}


@dataclass
class Formula:
    """An operator in place of calls that read `source`."""

    op: str
    source: fx.Node
    calls: list[fx.Node]
    tensors: dict[str, Held] = field(default_factory=dict)
    says: dict[str, Any] = field(default_factory=dict)


class Formulas:
    """Of the calls, in their order; constants are what is known without data."""

    def __init__(self, calls: list[fx.Node], constants: dict[fx.Node, Any]) -> None:
        self.constants = constants
        self.order = {n: i for i, n in enumerate(calls)}
        self.found: dict[fx.Node, Formula] = {}
        self.inside: set[fx.Node] = set()
        for end in reversed(calls):
            if function_of(end) in ENDS and end not in self.inside and end not in constants:
                self._look(end)

    def _look(self, end: fx.Node) -> None:
        for source, calls in self._cuts(end):
            formula = self._known(end, source, calls)
            if formula:
                self.found[end] = formula
                for n in reversed(calls[:-1]):
                    if all(u is end or u in self.inside for u in n.users):
                        self.inside.add(n)
                return

    def _cuts(self, end: fx.Node) -> Iterator[tuple[fx.Node, list[fx.Node]]]:
        """Calls up to `end` that read only one other value, the fewest first."""
        calls, border = [end], self._reads(end)
        while len(calls) < MOST and border:
            if len(border) == 1 and len(calls) > 1:
                yield next(iter(border)), sorted(calls, key=self.order.__getitem__)
            last = max(border, key=lambda n: self.order.get(n, -1))
            if last not in self.order or function_of(last) not in CALLS:
                return
            border = (border - {last}) | self._reads(last)
            calls.append(last)

    def _reads(self, node: fx.Node) -> set[fx.Node]:
        return {n for n in node.all_input_nodes if n not in self.constants}

    def _known(self, end: fx.Node, source: fx.Node, calls: list[fx.Node]) -> Formula | None:
        like = source.meta.get("val")
        if not isinstance(like, Tensor) or not like.is_floating_point() or like.dim() < 2:
            return None
        read = {n for call in calls for n in call.all_input_nodes if n in self.constants}
        g = torch.Generator().manual_seed(1)
        x = torch.randn([2, *like.shape[1:]], generator=g)
        # what is learned may be all 0, or alike: other numbers in its place
        drawn = {
            n: torch.randn(v.tensor.shape, generator=g)
            for n in sorted(read, key=lambda n: n.name)
            if isinstance(v := self.constants[n], Held)
        }
        held = [(self.constants[n], t) for n, t in drawn.items()]

        def gives(x: Tensor) -> Tensor:
            return self._computed(end, {source: x, **drawn}, calls)

        try:
            y = gives(x)
        except (RuntimeError, TypeError, AttributeError):  # of two samples, this is no function
            return None
        if not isinstance(y, Tensor) or y.shape != x.shape or y.dtype != x.dtype:
            return None
        numbers = {a for c in calls for a in c.args if isinstance(a, float) and 0 < a < 0.1}
        for op, tensors, says, function in self._candidates(x, gives, held, numbers):
            # a model's own angles are float32: the further a row, the less exact they are
            near = max(1e-5, x.shape[2] * 2**-21) if op == "rotary" else 1e-5
            if torch.allclose(function(x), y, rtol=1e-4, atol=near):
                return Formula(op, source, calls, tensors, says)
        return None

    def _computed(self, end: fx.Node, given: dict[fx.Node, Any], calls: list[fx.Node]) -> Tensor:
        values = dict(given)

        def value(n: fx.Node) -> Any:
            return values[n] if n in values else tensor_of(self.constants[n])

        with torch.no_grad():
            for call in calls:
                args, kwargs = (fx.node.map_arg(a, value) for a in (call.args, call.kwargs))
                values[call] = call.target(*args, **kwargs)  # type: ignore[operator, arg-type]
        return values[end]

    @staticmethod
    def _candidates(
        x: Tensor,
        gives: Callable[[Tensor], Tensor],
        held: list[tuple[Held, Tensor]],
        numbers: set[float],
    ) -> "Iterator[Candidate]":
        width = x.shape[-1]
        if held:
            if all(t.shape == (width,) for _, t in held):
                for e in sorted(numbers):
                    yield from norms(held, width, e)
            return
        for op, function in GIVEN.items():
            yield op, {}, {}, function
        for e in [*sorted(numbers), 1e-12]:
            yield "normalise", {}, {"epsilon": e}, partial(F.normalize, dim=-1, eps=e)
        if x.dim() == 4 and x.shape[2] > 1 and width % 2 == 0 and width > 2:
            base = turning(x, gives)
            if base:
                yield "rotary", {}, {"base": base}, partial(turned, base)


Candidate = tuple[str, dict[str, Held], dict[str, Any], Callable[[Tensor], Tensor]]


def norms(held: list[tuple[Held, Tensor]], width: int, epsilon: float) -> Iterator[Candidate]:
    """Of rows, with what is learned of them."""
    says = {"epsilon": epsilon}
    if len(held) == 1:
        [(gain, g)] = held
        yield "rmsnorm", {"gain": gain}, says, lambda x: F.rms_norm(x, (width,), g, epsilon)
        more = replace(gain, how=MORE)
        yield "rmsnorm", {"gain": more}, says, lambda x: F.rms_norm(x, (width,), g + 1, epsilon)
    if len(held) == 2:
        for (gain, g), (bias, b) in (held, held[::-1]):
            yield (
                "layernorm",
                {"gain": gain, "bias": bias},
                says,
                lambda x, g=g, b=b: F.layer_norm(x, (width,), g, b, epsilon),
            )


def turning(x: Tensor, gives: Callable[[Tensor], Tensor]) -> float:
    """The base, if it turns pairs of columns by the number of their row."""
    half, one = x.shape[3] // 2, torch.zeros_like(x)
    one[:, :, 1, 1] = 1.0
    y = gives(one)[0, 0, 1]
    angle = math.atan2(float(y[1 + half]), float(y[1]))
    return float(f"{angle**-half:.5g}") if 0 < angle < 1 else 0.0


def turned(base: float, x: Tensor) -> Tensor:
    """Samples x heads x rows x columns of a head, under rotary positions."""
    half = x.shape[3] // 2
    rates = base ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
    angles = torch.arange(x.shape[2], dtype=torch.float64, device=x.device)[:, None] * rates
    cos, sin = angles.cos().to(x), angles.sin().to(x)
    low, high = x[..., :half], x[..., half:]
    return torch.cat([low * cos - high * sin, high * cos + low * sin], 3)
