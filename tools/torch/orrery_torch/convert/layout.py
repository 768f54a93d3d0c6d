"""Which of Orrery's samples, rows and columns lies along which dimension of a PyTorch tensor.

A dimension is a tuple of atoms. An atom is samples, rows or columns, or a factor of them that a
view has split off; its key orders the factors, so that (r, (0, 1)) follows (r, (0, 0)). A dimension
of size 1 has no atoms."""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

REPEATED = "x"  # a kind of atom: the same again


class Atom(NamedTuple):
    kind: str  # n, r, c or x
    key: tuple[int, ...]
    size: int


Axis = tuple[Atom, ...]
Axes = tuple[Axis, ...]


class Unlike(Exception):
    """Orrery has nothing like it; the text says what."""


def atom(kind: str, size: int, *key: int) -> Axis:
    return (Atom(kind, key or (0,), size),) if size > 1 else ()


def sizes(axes: Axes) -> list[int]:
    return [prod(a.size for a in axis) for axis in axes]


def halves(a: Atom, size: int) -> tuple[Atom, Atom]:
    return (Atom(a.kind, (*a.key, 0), size), Atom(a.kind, (*a.key, 1), a.size // size))


def joined(axis: Axis) -> Axis:
    """With factors that follow one another as one again."""
    done: list[Atom] = []
    for a in axis:
        done.append(a)
        while len(done) > 1:
            x, y = done[-2:]
            if x.kind != y.kind or x.key[:-1] != y.key[:-1] or (x.key[-1], y.key[-1]) != (0, 1):
                break
            if len(x.key) == 1:
                break
            done[-2:] = [Atom(x.kind, x.key[:-1], x.size * y.size)]
    return tuple(done)


def reshaped(axes: Axes, shape: Sequence[int]) -> Axes:
    """After view(shape), every size given."""
    rest = [a for axis in axes for a in axis]
    result: list[Axis] = []
    for size in shape:
        axis: list[Atom] = []
        while size > 1:
            a = rest.pop(0)
            if size % a.size == 0:
                axis.append(a)
                size //= a.size
            elif a.size % size == 0 and a.kind in "rc":
                first, second = halves(a, size)
                axis.append(first)
                rest.insert(0, second)
                size = 1
            else:
                raise Unlike(f"a view that takes {a.size} apart by {size}")
        result.append(joined(tuple(axis)))
    return tuple(result)


def of_kind(axes: Axes, kind: str) -> Axis:
    """All atoms of a kind, in the order in which they lie."""
    return joined(tuple(a for axis in axes for a in axis if a.kind == kind))


def whole(axis: Axis, kind: str) -> bool:
    """Is it all there is of a kind, in its order?"""
    return all(a.kind == kind and a.key == (0,) for a in axis) and len(axis) < 2


def ordered(axes: Axes) -> bool:
    """Samples, then rows, then columns, each in its order?"""
    kinds = [a.kind for axis in axes for a in axis]
    return kinds == sorted(kinds, key="nrc".index) and all(
        whole(of_kind(axes, k), k) for k in "nrc"
    )
