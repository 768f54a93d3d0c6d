"""A minibatch as microbatches: which sizes and types they have, and how many samples."""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from ..trace.trace import Inputs, words


def each(inputs: Inputs, how: Callable[[str, Tensor], Tensor]) -> Inputs:
    """The same with other tensors: how(place or name, tensor)."""
    args, kwargs = words(inputs)

    def changed(key: str, value: Any) -> Any:
        return how(key, value) if isinstance(value, Tensor) else value

    if kwargs:
        return {name: changed(name, v) for name, v in kwargs.items()}
    return tuple(changed(str(i), v) for i, v in enumerate(args))


def tensors_of(inputs: Inputs) -> dict[str, Tensor]:
    """By their places or names."""
    args, kwargs = words(inputs)
    named = {**{str(i): t for i, t in enumerate(args)}, **kwargs}
    return {name: t for name, t in named.items() if isinstance(t, Tensor)}


def kinds_of(inputs: Inputs) -> dict[str, str]:
    """Shape and type of each tensor, by its place or its name."""
    return {name: f"{list(t.shape)} {t.dtype}" for name, t in tensors_of(inputs).items()}


def cut(inputs: Inputs, m: int) -> list[Inputs]:
    """The microbatches of a minibatch: its tensors, cut along their first dimension."""
    for t in tensors_of(inputs).values():
        if not t.dim() or len(t) % m:
            raise ValueError(f"batch: {list(t.shape)} is not cut into {m} equal microbatches")
    return [each(inputs, lambda _, t: t.chunk(m)[b]) for b in range(m)]  # noqa: B023 at once


class Sizes:
    """How much of the example's microbatch a batch is, in parts of which every tensor of the
    example has a whole number: 3 images and 6 texts are 6 parts."""

    def __init__(self, example: Inputs) -> None:
        self.rows = {name: len(t) if t.dim() else 0 for name, t in tensors_of(example).items()}
        self.parts = math.lcm(*self.rows.values()) or 1

    def count(self, batch: Inputs) -> int:
        """The parts of a batch; -1 if it has no tensor, as where a process reads none."""
        told = {}
        for name, t in tensors_of(batch).items():
            if not t.dim() or not self.rows.get(name):
                raise ValueError(f"batch: {name} of {list(t.shape)}: the example has no such rows")
            told[name] = len(t) * self.parts / self.rows[name]
        if len(set(told.values())) > 1 or any(n % 1 or not n for n in told.values()):
            sizes = ", ".join(f"{name} {len(t)}" for name, t in tensors_of(batch).items())
            raise ValueError(f"batch: rows of {sizes}, and of the example {self.rows}")
        return int(next(iter(told.values()), -1))

    def piece(self, batch: Inputs, begin: int, end: int) -> Inputs:
        """From one part to another."""
        for name, rows in self.rows.items():
            if begin * rows % self.parts or end * rows % self.parts:
                raise ValueError(f"batch: its last microbatch would have part of a row of {name}")

        def rows_of(name: str, t: Tensor) -> Tensor:
            rows = self.rows[name]
            return t[begin * rows // self.parts : end * rows // self.parts]

        return each(batch, rows_of)
