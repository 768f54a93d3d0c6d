"""Mixtures of experts, as transformers writes them: choices are sorted by their expert, rows go
there in that order, and what comes back is summed over the choices of a row."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from .emitter import Emitter
from .layers import linear
from .layout import Unlike, sizes
from .values import Like, Matrices, Rows, range_of, require, shape_of


@dataclass(frozen=True)
class Choices:
    """Of each row the `top` experts whose scores are best. what: their scores, probabilities among
    all, experts or weights; in the order of experts, the places in that order, the rows there, how
    many each expert has and where they end; the way back."""

    scores: Rows
    top: int
    what: str
    sorted: bool = False

    @property
    def rows(self) -> int:
        return prod(sizes(self.scores.axes[:-1]))


@dataclass(frozen=True)
class AtExperts:
    """The rows that each expert has; among them those that did not choose it, which are 0 and do
    not come back."""

    choices: Choices
    route: str
    parts: tuple[Rows, ...]
    sorted: bool = True
    weighted: bool = False

    def each(self, how: Callable[[int, Rows], Any]) -> Any:
        require(not self.weighted, ALONE)
        made = [how(e, part) for e, part in enumerate(self.parts)]
        if isinstance(made[0], list):
            return [replace(self, parts=tuple(parts)) for parts in zip(*made)]
        return replace(self, parts=tuple(made))


def is_choice(x: Any, what: str) -> bool:
    return isinstance(x, Choices) and x.what == what


ALONE = "of the choices of experts, where Orrery has mixtures of experts alone"


def topk(c: Emitter, x: Any, top: int, dim: int = -1, largest: bool = True, *_: Any, **__: Any) -> list[Choices]:
    require(isinstance(x, Rows) and largest, "choices of this kind")
    require(dim in (-1, len(x.axes) - 1), "choices of other than columns")
    x.columns_last()
    made = next(n for n in c.nodes if n.name == x.name)
    if made.op != "softmax":
        return [Choices(x, top, "scores"), Choices(x, top, "experts")]
    x = replace(x, name=made.inputs[0])
    return [Choices(x, top, "probabilities"), Choices(x, top, "experts")]


# ---- choices ----


def seen(c: Emitter, x: Any, *_: Any, **__: Any) -> Any:
    """As other numbers, or in another shape, in which a row's choices lie beside each other."""
    require(not isinstance(x, Matrices), "an operation on a parameter")
    by, width = (x, []) if isinstance(x, Choices) else (x.choices, [x.parts[0].columns])
    single = [n for n in shape_of(c.node) if n != 1]
    shapes = ([by.rows, by.top, *width], [by.rows * by.top, *width])
    require(any(single == [n for n in shape if n != 1] for shape in shapes), ALONE)
    return x


def weights(c: Emitter, x: Any, dim: int, *_: Any, **__: Any) -> Choices:
    require(is_choice(x, "scores") and dim in (-1, len(shape_of(c.node)) - 1), ALONE)
    require(x.top > 1, "the weight of one choice, which is 1 whatever its score")
    return replace(x, what="weights")


def total(c: Emitter, x: Any, dims: Any = None, keep: bool = False, **_: Any) -> Any:
    if isinstance(x, AtExperts):
        return combine(c, x, dims, keep)
    require(is_choice(x, "probabilities") and dims == [-1] and keep, ALONE)
    return replace(x, what="total")


def divide(c: Emitter, x: Any, y: Any, **how: Any) -> Any:
    if is_choice(x, "order"):
        require(y == x.top and how.get("rounding_mode", "floor") == "floor", ALONE)
        return replace(x, what="rows")
    if is_choice(y, "total"):
        require(x == replace(y, what="probabilities"), ALONE)
        require(y.top > 1, "the weight of one choice, which is 1 whatever its score")
        return replace(y, what="weights")
    raise Unlike(ALONE)


def in_order(c: Emitter, x: Any, dim: int = -1, descending: bool = False, **_: Any) -> Any:
    require(is_choice(x, "experts") and not x.sorted and not descending, ALONE)
    require(list(c.node.meta["val"][0].shape) == [x.rows * x.top], ALONE)
    return [replace(x, what=what, sorted=True) for what in ("experts", "order")]


def numbers(c: Emitter, x: Any, *bins: Any, **_: Any) -> Choices:
    require(is_choice(x, "experts"), ALONE)
    alike = x.sorted and bins == (x.scores.columns, 0, x.scores.columns - 1)
    require(alike, "how evenly experts are chosen, which Orrery's balance has otherwise")
    return replace(x, what="numbers")


def ends(c: Emitter, x: Any, *_: Any, **__: Any) -> Choices:
    require(is_choice(x, "numbers"), ALONE)
    return replace(x, what="ends")


def space(c: Emitter, x: Any, *_: Any, **__: Any) -> Choices:
    require(is_choice(x, "order"), ALONE)
    return replace(x, what="space")


def back(c: Emitter, x: Any, at: Any, values: Any, more: bool = False) -> Choices:
    """Of the order: where it has each number."""
    order = at[0]
    alike = is_choice(order, "order") and x == replace(order, what="space")
    require(alike and range_of(values) == (0, order.rows * order.top) and not more, ALONE)
    return replace(order, what="back")


def index(c: Emitter, x: Any, at: Any) -> Any:
    by = at[0]
    require(isinstance(by, Choices) and len(at) == 1, ALONE)
    if isinstance(x, Rows) and by.what == "rows":
        return dispatch(c, x, by)
    if isinstance(x, AtExperts) and x.sorted and by == replace(x.choices, what="back"):
        return replace(x, sorted=False)
    alike = isinstance(x, Choices) and by == replace(x, what="order", sorted=True)
    require(alike and len(shape_of(c.node)) == 1, ALONE)
    return replace(x, sorted=True)


# ---- rows ----


def dispatch(c: Emitter, x: Rows, by: Choices) -> AtExperts:
    """Each expert has room for all rows: none is dropped."""
    x.columns_last()
    alike = x.axes[0] == sum(by.scores.axes[:-1], ())
    require(len(x.axes) == 2 and alike, ALONE)
    n = by.scores.columns
    says = {"experts": n, "capacity": n}
    name = c.emit("route", [by.scores], top=by.top, **says)
    route = replace(by.scores, name=name)
    names = [c.emit("dispatch", [x, route], expert=e, **says) for e in range(n)]
    return AtExperts(by, name, tuple(replace(x, name=name) for name in names))


def product(c: Emitter, x: Any, y: Any, offs: Any = None, bias: Any = None, *_: Any) -> AtExperts:
    require(isinstance(x, AtExperts) and x.sorted, ALONE)
    require(isinstance(y, Matrices), "weights of experts as inputs x outputs")
    t = y.of.tensor
    require(offs == replace(x.choices, what="ends") and len(t) == len(x.parts), ALONE)
    require(bias is None, "a bias of experts")
    return x.each(lambda e, part: linear(c, part, y.of.cut(e, e + 1, t[e])))


def multiply(c: Emitter, x: Any, y: Any) -> AtExperts:
    x, y = (x, y) if isinstance(x, AtExperts) else (y, x)
    require(isinstance(x, AtExperts) and isinstance(y, Choices) and not x.weighted, ALONE)
    require(y.what in ("weights", "probabilities"), ALONE)
    require(y.what == "weights" or y.top == 1, "weights of several choices that do not sum to 1")
    require(replace(y, what="rows") == replace(x.choices, sorted=x.sorted), ALONE)
    a_row = any(shape_of(n)[-1] == 1 for n in c.node.all_input_nodes)
    require(a_row and shape_of(c.node)[-1] == x.parts[0].columns, ALONE)
    return replace(x, weighted=True)


def combine(c: Emitter, x: AtExperts, dims: Any, keep: bool) -> Rows:
    before = c.shape_before()
    each = before == [x.choices.rows, x.choices.top, x.parts[0].columns]
    require(x.weighted and not x.sorted and each and dims == [1] and not keep, ALONE)
    route = replace(x.choices.scores, name=x.route)
    first = x.parts[0]
    return replace(first, name=c.emit("combine", [route, *x.parts]))


LIKE: dict[str, Like] = {
    **dict.fromkeys(["view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze"], seen),
    **dict.fromkeys(["contiguous", "clone", "alias", "to", "_to_copy", "type_as"], seen),
    "softmax": weights,
    "sum": total,
    **dict.fromkeys(["div", "floor_divide"], divide),
    "sort": in_order,
    "histc": numbers,
    "cumsum": ends,
    "empty_like": space,
    "index_put": back,
    "index": index,
    **dict.fromkeys(["grouped_mm", "_grouped_mm", "grouped_mm_fallback"], product),
    "mul": multiply,
}
# those that rows at an expert go through as others do
ROWS = set(
    "mul add sub neg relu gelu silu sigmoid tanh dropout chunk split split_with_sizes".split()
)


def of_experts(name: str, like: Like | None, known: list[Any]) -> Like:
    """What a call does with values of this kind among those that it reads; like: with others."""
    rows = [v for v in known if isinstance(v, AtExperts)]
    if like and name in ROWS and len(rows) == len(known):
        return at_each(like)
    if name not in LIKE:
        raise Unlike(ALONE)
    return LIKE[name]


def at_each(like: Like) -> Like:
    def at_experts(c: Emitter, *args: Any, **kwargs: Any) -> Any:
        rows = [a for a in args if isinstance(a, AtExperts)]
        same = [replace(a, parts=()) == replace(rows[0], parts=()) for a in rows]
        require(all(same), ALONE)

        def of(e: int, _: Rows) -> Any:
            own = [a.parts[e] if isinstance(a, AtExperts) else a for a in args]
            return like(c, *own, **kwargs)

        return rows[0].each(of)

    return at_experts
