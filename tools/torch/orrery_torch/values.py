"""What the calls of a model give, while they are turned into operators of Orrery."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from .layout import Axes, Unlike, of_kind, whole

CONSTANT = "constant"  # the name of what is no parameter and no buffer


@dataclass(frozen=True)
class Rows:
    """The output of an operator, as axes say how it lies."""

    name: str
    axes: Axes
    rows: int
    columns: int

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

    def cut(self, begin: int, end: int, tensor: Tensor) -> "Held":
        at = self.rows[0] if self.rows else 0
        return Held(self.name, tensor, (at + begin, at + end))


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
class Length:
    """The length of each row, no less than epsilon."""

    of: Rows
    epsilon: float = 0.0


@dataclass(frozen=True)
class Exp:
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
    if not isinstance(t, Tensor) or t.dim() != 1 or t.is_floating_point():
        return False
    return torch.equal(t, torch.arange(len(t), device=t.device))
