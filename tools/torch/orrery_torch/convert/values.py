"""What the calls of a model give, while they are turned into operators of Orrery."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, fx

from .layout import Axes, Unlike, of_kind, whole

Like = Callable[..., Any]
CONSTANT = "constant"  # the name of what is no parameter and no buffer
# how an operator has a parameter that it does not have as it is; behind its name
TURNED = "transposed"  # of a linear: PyTorch has the weights the other way round
SQUARE = "square"  # of a convolution of one dimension, which reads the middle row alone
MORE = "plus-one"  # of a norm whose factor is a parameter and 1


@dataclass(frozen=True)
class Rows:
    """The output of an operator, as axes say how it lies."""

    name: str
    axes: Axes
    rows: int
    columns: int
    factor: float = 1.0  # that attention's products of it are multiplied by

    def laid(self, axes: Axes) -> "Rows":
        return replace(self, axes=axes)

    def axis(self, kind: str) -> int:
        """The only dimension of this kind, all of it; -1 is for one without any."""
        found = [i for i, axis in enumerate(self.axes) if any(a.kind == kind for a in axis)]
        if len(found) > 1 or (found and not whole(self.axes[found[0]], kind)):
            raise Unlike("rows or columns that are spread over several dimensions")
        return found[0] if found else -1

    def columns_last(self) -> None:
        if not whole(self.axes[-1], "c") or not whole(of_kind(self.axes, "c"), "c"):
            raise Unlike("a last dimension that is not the columns of an operator")
        if self.columns > 1 and not self.axes[-1]:
            raise Unlike("a last dimension that is not the columns of an operator")


@dataclass(frozen=True)
class Held:
    """A parameter or buffer, or some of its rows."""

    name: str
    tensor: Tensor
    rows: tuple[int, int] | None = None  # of the first dimension; all
    how: str = ""  # TURNED, SQUARE or MORE

    def written(self) -> Tensor:
        """As the operator has it."""
        if self.how != SQUARE:
            return self.tensor + 1 if self.how == MORE else self.tensor
        side = self.tensor.shape[2]
        return torch.zeros(*self.tensor.shape[:2], side, side).index_copy(
            2, torch.tensor([side // 2]), self.tensor.detach().float().unsqueeze(2)
        )

    def cut(self, begin: int, end: int, tensor: Tensor) -> "Held":
        if self.how == TURNED:
            raise Unlike("a part of a parameter that is transposed")
        at = self.rows[0] if self.rows else 0
        return Held(self.name, tensor, (at + begin, at + end))

    def turn(self) -> "Held":
        if self.tensor.dim() != 2:
            raise Unlike("a parameter whose dimensions change places")
        return replace(self, tensor=self.tensor.t(), how="" if self.how else TURNED)


@dataclass(frozen=True)
class Loss:
    """A sum of losses, each with its weight."""

    terms: tuple[tuple[str, float], ...]

    def times(self, factor: float) -> "Loss":
        return Loss(tuple((name, weight * factor) for name, weight in self.terms))


@dataclass(frozen=True)
class Pairs:
    """The products of every row of one operator with every row of another."""

    left: Rows
    right: Rows
    scale: Held | None = None  # whose exp() they are multiplied by
    turned: bool = False


@dataclass(frozen=True)
class Half:
    """The cross-entropy of such products: of rows, or of columns where they are turned."""

    pairs: Pairs


@dataclass(frozen=True)
class Exp:
    of: Held


@dataclass(frozen=True)
class Matrices:
    """Those of a parameter of three dimensions, each with its rows as columns."""

    of: Held


class Unknown:
    """Of a call that nothing is like, or of one that reads such."""


@dataclass
class Node:
    """An operator of the graph that computes."""

    name: str
    op: str
    inputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Held] = field(default_factory=dict)


def is_range(t: Any) -> bool:
    return range_of(t) is not None and bool(t[0] == 0)


def range_of(t: Any) -> tuple[int, int] | None:
    """The first and the one behind the last, where it is whole numbers one after the other."""
    if not isinstance(t, Tensor) or t.dim() != 1 or t.is_floating_point() or not len(t):
        return None
    first = int(t[0])
    same = torch.equal(t, torch.arange(first, first + len(t), device=t.device, dtype=t.dtype))
    return (first, first + len(t)) if same else None


def shape_of(node: fx.Node) -> list[int]:
    return [int(size) for size in node.meta["val"].shape]


def require(truth: bool, what: str) -> None:
    if not truth:
        raise Unlike(what)


def moved(x: Rows, order: list[int]) -> Rows:
    return x.laid(tuple(x.axes[i] for i in order))


def tensor_of(value: Any) -> Any:
    return value.tensor if isinstance(value, Held) else value
