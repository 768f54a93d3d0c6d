"""Losses, and the products of all pairs that a contrastive one is made of."""

from dataclasses import dataclass, replace
from typing import Any

from .emitter import Emitter
from .layout import Unlike, sizes
from .values import Half, Like, Loss, Pairs, Rows, is_range, moved, require, tensor_of


def pairs(c: Emitter, x: Rows, y: Rows) -> Pairs:
    """Every sample of the one with every sample of the other."""
    x.columns_last()
    right = moved(y, [1, 0])
    right.columns_last()
    require(x.rows == right.rows == 1, "products of more than one row a sample")
    return Pairs(x, right)


ALIKE = (
    "an ignore_index that data may have: PyTorch's mean is over the rows of all samples together, "
    "Orrery's over those of each sample, which is (cross_entropy(..., ignore_index=i, "
    "reduction='none').sum(1) / (y != i).sum(1)).mean()"
)


@dataclass(frozen=True)
class EachRow:
    """The cross-entropy of each row; then the sum, and the mean, of a sample's that count."""

    scores: Rows
    classes: Rows
    ignore: float
    smoothing: float
    over: str = "rows"  # then sum, then mean


@dataclass(frozen=True)
class Counts:
    """The rows whose class is another than `ignore`; then their number in each sample."""

    classes: Rows
    ignore: float
    summed: bool = False


def cross_entropy(
    c: Emitter, x: Any, y: Any, weight: Any = None, reduction: int = 1,
    ignore: int = -100, smoothing: float = 0.0,
) -> Any:  # fmt: skip
    require(weight is None and reduction < 2, "weighted classes, or a sum in place of the mean")
    if isinstance(x, Pairs):
        require(is_range(tensor_of(y)) and smoothing == 0, "pairs other than those of one sample")
        require(reduction == 1, "another reduction than the mean")
        return Half(x)
    require(isinstance(y, Rows), "targets that are no data")
    at = x.axis("c")
    require(at >= 0 and sizes(x.axes)[at] == x.columns, "classes that are not columns")
    rest = tuple(axis for i, axis in enumerate(x.axes) if i != at)
    require(rest == y.axes and at == min(1, len(x.axes) - 1), "targets that lie otherwise")
    each = EachRow(x, y, ignore, smoothing)
    if reduction == 0:
        return each
    require(ignore < 0, ALIKE)
    return mean_of_rows(c, each)


def mean_of_rows(c: Emitter, each: EachRow) -> Loss:
    says: dict[str, Any] = {"smoothing": each.smoothing} if each.smoothing else {}
    says |= {"ignore": each.ignore} if each.over == "mean" else {}
    require(each.over != "sum" and (each.ignore < 0 or each.over == "mean"), ALIKE)
    x, y = counted(c, each.scores, each.classes, each.ignore)
    return Loss(((c.emit("softmax_cross_entropy", [x, y], **says), 1.0),))


def differs(c: Emitter, x: Any, y: Any) -> Counts:
    require(isinstance(x, Rows) and isinstance(y, (int, float)), "a comparison of data")
    return Counts(x, y)


def summed(c: Emitter, x: Any, dims: Any = None, keep: bool = False) -> Any:
    require(isinstance(x, (EachRow, Counts)), "a sum of this kind: a mean times a factor has it")
    last = dims is not None and [d % len(x.classes.axes) for d in dims] == [1]
    require(last and len(x.classes.axes) == 2 and not keep, "a sum of other than a sample's rows")
    return replace(x, summed=True) if isinstance(x, Counts) else replace(x, over="sum")


def only(x: EachRow, counts: Counts) -> EachRow:
    """Times 0 for rows that do not count."""
    require(x.over == "rows" and not counts.summed and x.classes == counts.classes, "such a factor")
    require(x.ignore in (counts.ignore, -100), "two classes that are ignored")
    return replace(x, ignore=counts.ignore)


def per_row(x: EachRow, counts: Any) -> EachRow:
    require(isinstance(counts, Counts) and counts.summed and x.over == "sum", "such a division")
    require(counts == Counts(x.classes, x.ignore, True), "a division by the number of other rows")
    return replace(x, over="mean")


def counted(c: Emitter, x: Rows, y: Rows, ignore: float) -> tuple[Rows, Rows]:
    """Scores and classes of the rows that count, where the model has shifted its data or put rows
    to ignore beside it: classes come straight from data."""
    columns = c.columns_of(y.name)
    if columns is None:
        raise Unlike("classes that are computed: give them to forward()")
    if c.is_input(y.name):
        return x, y
    rows = [i for i, column in enumerate(columns) if column != ("", ignore)]
    tensors = {tensor for tensor, _ in columns} - {""}
    begin, end = rows[0], rows[-1] + 1
    require(len(rows) == end - begin and len(tensors) == 1, "such classes")
    require("" not in {columns[i][0] for i in rows}, "such classes")
    if len(rows) < x.rows:
        says: dict[str, Any] = {"rows": f"{begin}:{end}", "columns": f"0:{x.columns}"}
        x = replace(x, name=c.emit("slice", [x], **says), rows=len(rows))
    return x, c.more_data(tensors.pop(), [int(columns[i][1]) for i in rows], len(rows))


def contrastive(c: Emitter, x: Half, y: Half) -> Loss:
    one_way, other = x.pairs, y.pairs
    pairs = other if one_way.turned else one_way
    require(replace(one_way, turned=not one_way.turned) == other, "two losses of other products")
    require(pairs.scale is not None, "pairs without a trained temperature, exp() of a parameter")
    assert pairs.scale is not None
    held = replace(pairs.scale, tensor=pairs.scale.tensor.reshape(1))
    name = c.emit(
        "contrastive", [pairs.left, pairs.right], {"temperature": held}, gather="minibatch"
    )
    return Loss(((name, 2.0),))  # Orrery's is the mean of the two


def compared(op: str) -> Like:
    def like(c: Emitter, x: Rows, y: Any, *more: Any, **_: Any) -> Loss:
        require(all(m in (None, 1) for m in more), "weights, or another reduction than the mean")
        require(isinstance(y, Rows) and x.axes == y.axes, "targets that lie otherwise")
        return Loss(((c.emit(op, [x, y]), 1.0),))

    return like
