"""Calls that change the shape of what they read, or go element by element."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .attention import WRITE, Mask, Scores, added, inverted, is_in_products, times
from .emitter import Emitter
from .layout import REPEATED, Atom, Axes, atom, of_kind, ordered, reshaped, sizes, whole
from .losses import Counts, EachRow, contrastive, only, per_row
from .values import (
    CONSTANT,
    Exp,
    Half,
    Held,
    Like,
    Loss,
    Pairs,
    Rows,
    moved,
    require,
    shape_of,
    tensor_of,
)

HEADS = 64  # slices of one call, at most

# ---- shapes ----


def view(c: Emitter, x: Any, *_: Any, **__: Any) -> Any:
    if isinstance(x, Scores):  # samples and heads apart, or together
        require(shape_of(c.node)[-2:] == c.shape_before()[-2:], "attention's products reshaped")
        return x
    if isinstance(x, Mask):
        require(shape_of(c.node)[-1] == x.keys, "a mask in another shape")
        return x
    return x.laid(reshaped(x.axes, shape_of(c.node)))


def same(c: Emitter, x: Any, *_: Any, **__: Any) -> Any:
    return x


def converted(c: Emitter, x: Any, *_: Any, **__: Any) -> Any:
    """To another type of numbers; all of Orrery's are floats."""
    if isinstance(x, Counts):
        return x
    before, after = c.node.args[0].meta["val"].dtype, c.node.meta["val"].dtype  # type: ignore[union-attr]
    require(isinstance(x, Mask) or after != torch.bool or before == torch.bool, WRITE)
    require(not before.is_floating_point or after.is_floating_point, "floats cut to whole numbers")
    return x


def expand(c: Emitter, x: Any, *_: Any, **__: Any) -> Any:
    if isinstance(x, Rows):
        before, after = c.shape_before(), shape_of(c.node)
        require(len(before) == len(after) == 5 or before == after, "data that is repeated")
        pairs = zip(x.axes, before, after)
        axes = tuple(a if old == new else atom(REPEATED, new) for a, old, new in pairs)
        return x.laid(axes)  # heads of keys and values, for as many of queries
    return view(c, x)


def broadcast(c: Emitter, parts: list[Any]) -> list[Any]:
    require(all(isinstance(p, Rows) and p.axes == parts[0].axes for p in parts), "other shapes")
    return parts


def transpose(c: Emitter, x: Any, a: int = 0, b: int = 1) -> Any:
    if isinstance(x, Pairs):
        return replace(x, turned=not x.turned)
    order = list(range(len(x.axes)))
    order[a], order[b] = order[b], order[a]
    return moved(x, order)


def permute(c: Emitter, x: Any, order: list[int]) -> Any:
    if isinstance(x, Pairs):
        return transpose(c, x)
    return moved(x, [i % len(x.axes) for i in order])


def cut(c: Emitter, x: Rows, dim: int, begin: int, end: int) -> Rows:
    """Indices begin to end of a dimension: rows, columns, or a factor of them, as in every head."""
    axis, size = x.axes[dim], sizes(x.axes)[dim]
    if (begin, end) == (0, size):
        return x
    require(len(axis) == 1 and axis[0].kind != "n", "a cut of samples or of several dimensions")
    every = factors_of(x, axis[0].kind)
    parts = sliced(c, x, axis[0], begin, end)
    left = [end - begin if a == axis[0] else a.size for a in every]
    return put_together(c, parts, every, left, x.axes)


def factors_of(x: Rows, kind: str) -> list[Atom]:
    """All of rows or of columns, the outermost first."""
    return sorted((a for axis in x.axes for a in axis if a.kind == kind), key=lambda a: a.key)


def sliced(c: Emitter, x: Rows, a: Atom, begin: int, end: int) -> list[Rows]:
    """Indices begin to end of a factor, once for each index of those outside of it."""
    every = factors_of(x, a.kind)
    outer = math.prod(b.size for b in every[: every.index(a)])
    inner = math.prod(b.size for b in every[every.index(a) + 1 :])
    require(outer <= HEADS, "a cut that takes single rows or columns from all over")
    parts = []
    for i in range(outer):
        first, last = ((i * a.size + at) * inner for at in (begin, end))
        says: dict[str, Any] = {"rows": f"0:{x.rows}", "columns": f"0:{x.columns}"}
        says["rows" if a.kind == "r" else "columns"] = f"{first}:{last}"
        rows, columns = (last - first, x.columns) if a.kind == "r" else (x.rows, last - first)
        parts.append(Rows(c.emit("slice", [x], **says), (), rows, columns))
    return parts


def put_together(c: Emitter, parts: list[Rows], every: list[Atom], left: list[int], axes: Axes) -> Rows:
    """Slices as one, in which the factors `every` of rows or columns have the sizes `left`."""
    kind, count, name = every[0].kind, math.prod(left), parts[0].name
    if len(parts) > 1:
        name = c.emit("concat", parts, axis="rows" if kind == "r" else "columns")
    fresh = dict(zip(every, reshaped((atom(kind, count),), left)))
    found = tuple(tuple(b for a in axis for b in fresh.get(a, (a,))) for axis in axes)
    rows, columns = (count, parts[0].columns) if kind == "r" else (parts[0].rows, count)
    return Rows(name, found, rows, columns)


def without(x: Rows, dim: int) -> Rows:
    return x.laid(tuple(axis for i, axis in enumerate(x.axes) if i != dim % len(x.axes)))


def slice_(c: Emitter, x: Rows, dim: int = 0, begin: Any = None, end: Any = None, step: int = 1) -> Any:
    if isinstance(x, (Scores, Mask)):
        require(shape_of(c.node) == c.shape_before(), "a part of a mask")
        return x
    require(step == 1, "a slice with a step")
    size = sizes(x.axes)[dim]
    first, last, _ = slice(begin, end).indices(size)
    return cut(c, x, dim, first, last)


def select(c: Emitter, x: Rows, dim: int, index: int) -> Rows:
    size = sizes(x.axes)[dim]
    index %= size
    if size > 1 and x.axes[dim] == of_kind(x.axes, "r") and index in (0, size - 1):
        name = c.emit("last" if index else "first", [x])
        return Rows(name, without(x, dim).axes, 1, x.columns)
    return without(cut(c, x, dim, index, index + 1), dim)


def split(c: Emitter, x: Rows, how: Any, dim: int = 0) -> list[Rows]:
    parts, at = [], 0
    for t in c.node.meta["val"]:
        parts.append(cut(c, x, dim, at, at + t.shape[dim]))
        at += t.shape[dim]
    return parts


def unbind(c: Emitter, x: Rows, dim: int = 0) -> list[Rows]:
    return [without(cut(c, x, dim, i, i + 1), dim) for i in range(sizes(x.axes)[dim])]


def getitem(c: Emitter, values: Any, index: int) -> Any:
    return values[index]


def concat(c: Emitter, parts: list[Any], dim: int = 0) -> Rows:
    # caches of keys and values begin empty
    parts = [p for p in parts if isinstance(p, Rows) or tensor_of(p).numel()]
    parts = [p if isinstance(p, Rows) else c.beside(p) for p in parts]
    first = parts[0]
    if len(parts) == 1:
        return first  # as in dense blocks, whose first layer joins one
    if len(first.axes[dim]) == 1 and len(factors_of(first, first.axes[dim][0].kind)) > 1:
        return concat_by_head(c, parts, dim)
    kind = "c" if all(whole(p.axes[dim], "c") for p in parts) else "r"
    total = sum(sizes(p.axes)[dim] for p in parts)
    dim %= len(first.axes)
    for p in parts:
        require(without(p, dim).axes == without(first, dim).axes, "parts that lie otherwise")
        require(whole(p.axes[dim], kind), "neither rows nor columns")
        require(sizes(p.axes)[dim] == (p.columns if kind == "c" else p.rows), "parts of rows")
    name = c.emit("concat", parts, axis="columns" if kind == "c" else "rows")
    axes = list(first.axes)
    axes[dim] = atom(kind, total)
    rows, columns = (first.rows, total) if kind == "c" else (total, first.columns)
    return Rows(name, tuple(axes), rows, columns)


def concat_by_head(c: Emitter, parts: list[Rows], dim: int) -> Rows:
    """Along a factor, as columns of every head that are turned and others that are not."""
    first = parts[0]
    joined = first.axes[dim][0]
    every, slices = factors_of(first, joined.kind), []
    for p in parts:
        require(len(p.axes[dim]) == 1 and p.axes[dim][0].key == joined.key, "parts that lie otherwise")
        require(without(p, dim).axes == without(first, dim).axes, "parts that lie otherwise")
        a = p.axes[dim][0]
        slices.append(sliced(c, p, a, 0, a.size))
    total = sum(sizes(p.axes)[dim] for p in parts)
    left = [total if a == joined else a.size for a in every]
    return put_together(c, [p for group in zip(*slices) for p in group], every, left, first.axes)


# ---- element by element ----


def unary(op: str) -> Like:
    def like(c: Emitter, x: Rows) -> Rows:
        return c.alike(op, [x])

    return like


def gelu(c: Emitter, x: Rows, approximate: str = "none") -> Rows:
    return c.alike("gelu" if approximate == "none" else "gelu_tanh", [x])


def padded(c: Emitter, x: Rows, pad: list[int], mode: Any = "constant", value: Any = 0) -> Rows:
    """With rows before and behind it."""
    dim = len(x.axes) - (len(pad) + 1) // 2
    require(mode == "constant" and not any(pad[:-2]), "a padding of other than rows")
    require(x.axes[dim] == atom("r", x.rows) and min(pad) >= 0, "a padding of other than rows")
    parts = [
        c.constant(None, torch.full((1, n, x.columns), float(value or 0)))
        for n in pad[-2:]
        if n
    ]
    parts.insert(pad[-2] and 1, x)
    rows = sum(p.rows for p in parts)
    axes = tuple(atom("r", rows) if i == dim else axis for i, axis in enumerate(x.axes))
    return Rows(c.emit("concat", parts, axis="rows"), axes, rows, x.columns)


def dropout(c: Emitter, x: Any, rate: float, training: bool) -> Any:
    if not training or rate == 0:
        return x
    require(isinstance(x, Rows), "dropout of attention: its rate has to be 0")
    return c.alike("dropout", [x], rate=rate)


def add(c: Emitter, x: Any, y: Any, alpha: float = 1) -> Any:
    require(alpha == 1, "a factor in a sum")
    if isinstance(x, Half) and isinstance(y, Half):
        return contrastive(c, x, y)
    if isinstance(x, Loss) and isinstance(y, Loss):
        return Loss(x.terms + y.terms)
    if isinstance(y, Rows) and not isinstance(x, Rows):
        x, y = y, x
    if any(isinstance(v, (Scores, Mask)) for v in (x, y)):
        return added(c, x, y)
    require(isinstance(x, Rows), "a sum of this kind")
    if isinstance(y, (int, float)):
        y = torch.full((1, *sizes(x.axes)[1:]), float(y))
    if isinstance(y, (Held, Tensor)):
        return positions(c, x, y)
    require(isinstance(y, Rows) and x.axes == y.axes, "a sum of tensors that lie otherwise")
    return c.alike("add", [x, y])


def is_of_columns(x: Rows, t: Tensor) -> bool:
    """Has it a number for each column, wherever those lie?"""
    own = zip(reversed(t.shape), reversed(x.axes))
    return t.numel() == x.columns and all(n == 1 or whole(axis, "c") for n, axis in own)


def positions(c: Emitter, x: Rows, y: Any) -> Rows:
    t = tensor_of(y)
    if isinstance(y, Held) and is_of_columns(x, t) and x.rows > 1:
        return c.alike("add", [x, c.every_row(y, x.rows)])
    require(t.dim() > 0 and ordered(x.axes), "a sum with a constant")
    if not t.requires_grad and not t.any():
        return x
    if not t.requires_grad and t.numel() == x.columns and t.dim() <= len(x.axes):
        t = t.reshape(x.columns).expand(x.rows, x.columns)
    require(t.numel() == x.rows * x.columns, "a sum with such a parameter")
    held = y if isinstance(y, Held) and y.tensor.numel() == t.numel() else Held(CONSTANT, t)
    held = replace(held, tensor=t.reshape(x.rows, x.columns))
    return c.alike("positions", [x], {"weight": held})


def multiply(c: Emitter, x: Any, y: Any) -> Any:
    if isinstance(x, EachRow) and isinstance(y, Counts):
        return only(x, y)
    if not isinstance(x, (Rows, Loss, Pairs, Half, Scores, Mask)):
        x, y = y, x
    number = tensor_of(y)
    if isinstance(number, Tensor) and number.numel() == 1 and not number.requires_grad:
        number = number.item()
    if isinstance(number, (int, float)):
        return scaled(c, x, float(number))
    if isinstance(x, Pairs) and isinstance(y, Exp):
        require(x.scale is None and y.of.tensor.numel() == 1, "more than one temperature")
        return replace(x, scale=y.of)
    if isinstance(x, Rows) and isinstance(y, (Held, Tensor)):
        y = factors(c, x, y).laid(x.axes)
    require(isinstance(x, Rows) and isinstance(y, Rows), "a product of this kind")
    require(x.axes == y.axes, "a product of tensors that lie otherwise")
    return c.alike("multiply", [x, y])


def factors(c: Emitter, x: Rows, y: Any) -> Rows:
    """A parameter or a constant that every sample is multiplied by, for each column or float."""
    t = tensor_of(y)
    if isinstance(y, Held) and is_of_columns(x, t) and x.rows > 1:
        return c.every_row(y, x.rows)
    require(ordered(x.axes), "a factor here")
    t = t.reshape(1, 1, -1).expand(1, x.rows, -1) if t.numel() == x.columns else t
    require(t.numel() == x.rows * x.columns, "factors of this shape")
    held = y if isinstance(y, Held) else None
    return c.constant(held, t.reshape(1, x.rows, x.columns).float())


def power(c: Emitter, x: Rows, exponent: Any = 2) -> Rows:
    require(exponent in (2, 3), "a power other than 2 and 3")
    square = multiply(c, x, x)
    return square if exponent == 2 else multiply(c, square, x)


def scaled(c: Emitter, x: Any, factor: float) -> Any:
    if isinstance(x, Loss):
        return x.times(factor)
    if isinstance(x, (Scores, Mask)):
        return times(x, factor)
    if isinstance(x, Pairs) and x.scale is None and factor > 0:  # a temperature that is not trained
        return replace(x, scale=Held(CONSTANT, torch.tensor(math.log(factor))))
    require(isinstance(x, Rows), "a factor here")
    if is_in_products(c.node):
        return replace(x, factor=x.factor * factor)
    return c.alike("scale", [x], factor=factor)


def divide(c: Emitter, x: Any, y: Any) -> Any:
    if isinstance(x, EachRow):
        return per_row(x, y)
    y = tensor_of(y)
    if isinstance(y, Tensor) and y.numel() == 1 and not y.requires_grad:
        y = y.item()
    require(isinstance(y, (int, float)), "a division by data")
    return scaled(c, x, 1 / y)


def subtract(c: Emitter, x: Any, y: Any, alpha: float = 1) -> Any:
    if isinstance(y, Mask) and alpha == 1 and tensor_of(x) == 1:
        return inverted(c, y)
    require(isinstance(x, Rows) and alpha == 1, "a difference of this kind")
    if isinstance(y, Rows):
        return add(c, x, scaled(c, y, -1.0))
    require(isinstance(y, (int, float, Tensor)), "a difference of this kind")
    return add(c, x, -y)


def subtracted(c: Emitter, x: Any, y: Any, alpha: float = 1) -> Any:
    return subtract(c, y, x, alpha)


def at_least(c: Emitter, x: Any, least: Any = None, most: Any = None) -> Counts:
    require(isinstance(x, Counts) and x.summed and least == 1 and most is None, "a bound of data")
    return x
