"""Attention: as one call, or by products and a softmax of the model's own; and its masks."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx

from .emitter import Emitter
from .layout import REPEATED, atom, joined, of_kind
from ..trace.trace import VIEWS, function_of
from .values import Rows, require, tensor_of

NOTHING = -1e4  # a mask's number from here on down leaves nothing of a key


@dataclass(frozen=True)
class Mask:
    """Of each sample the first keys, as many as it says, and no others. `hides`: true is a key that
    does not count; `adds`: 0 and minus infinity."""

    lengths: Rows
    keys: int
    causal: bool = False
    hides: bool = False
    adds: bool = False


@dataclass(frozen=True)
class Scores:
    """The products of queries with keys; after the softmax, the weights of values."""

    queries: Rows
    keys: Rows
    factor: float = 1.0
    causal: bool = False
    mask: Mask | None = None
    weights: bool = False


# ---- heads ----


def of_heads(x: Rows, keys: bool = False) -> Rows:
    """With samples and heads apart, and rows before columns."""
    axes = x.axes
    if keys:
        axes = (*axes[:-2], axes[-1], axes[-2])
    require(len(axes) in (3, 4), "attention on other than samples, heads, rows, columns")
    if len(axes) == 3:  # samples and heads in one dimension, or no heads
        first, rest = axes[0][:1], axes[0][1:]
        axes = (first, rest, *axes[1:])
    return x.laid(axes)


def heads_of(x: Rows) -> int:
    require(len(x.axes) == 4, "attention on other than samples, heads, rows, columns")
    _, head, rows, columns = x.axes
    head = head[:-1] if repeats(x) > 1 else head
    require(joined(head + columns) == of_kind(x.axes, "c") == atom("c", x.columns), "such heads")
    require(rows == atom("r", x.rows), "attention over other than rows")
    return head[0].size if head else 1


def repeats(x: Rows) -> int:
    """Heads of queries for each of these heads."""
    last = x.axes[1][-1:]
    return last[0].size if last and last[0].kind == REPEATED else 1


# ---- masks ----


def plain(mask: Any) -> Tensor | None:
    """Queries x keys, where it is the same for all samples and heads: true or 0 is a key that
    counts."""
    mask = tensor_of(mask)
    if not isinstance(mask, Tensor) or mask.dim() < 2:
        return None
    rows = mask.reshape(-1, *mask.shape[-2:])
    return rows[0] if torch.equal(rows, rows[:1].expand_as(rows)) else None


def shows(mask: Tensor) -> Tensor:
    return mask if mask.dtype == torch.bool else mask > NOTHING


def hidden_is_nothing(mask: Tensor) -> bool:
    return mask.dtype == torch.bool or bool(((mask == 0) | (mask <= NOTHING)).all())


def masked(s: Scores, mask: Any) -> Scores:
    """With a mask that is added, or true where a key counts."""
    if isinstance(mask, Mask):
        require(s.mask is None or s.mask.lengths == mask.lengths, "two numbers of keys")
        require(not mask.hides, "a mask that is true where a key does not count")
        return replace(s, mask=mask, causal=s.causal or mask.causal)
    require(not isinstance(mask, Rows), WRITE)
    shown = plain(mask)
    require(
        shown is not None and hidden_is_nothing(shown), "a mask that samples or heads differ in"
    )
    assert shown is not None
    shown = shows(shown)
    if shown.all():
        return s
    require(torch.equal(shown, torch.ones_like(shown).tril()), "a mask other than the causal one")
    return replace(s, causal=True)


WRITE = (
    "a mask that is data: give forward() the number of keys that count, and compare "
    "torch.arange(keys) < numbers[:, None]"
)


def compared_with_range(c: Emitter, x: Any, y: Any) -> Mask:
    """arange < lengths, or one of its other spellings."""
    name = function_of(c.node)
    turned = isinstance(x, Rows)
    lengths, keys = (x, tensor_of(y)) if turned else (y, tensor_of(x))
    require(isinstance(keys, Tensor) and isinstance(lengths, Rows), "a comparison of data")
    single = lengths.rows * lengths.columns == 1 and lengths.axes[-1] == ()
    require(single, "a comparison of data")
    count = keys.shape[-1] if keys.dim() else 0
    require(
        torch.equal(keys.flatten(), torch.arange(count, device=keys.device)), "such a comparison"
    )
    require(name in (("gt", "le") if turned else ("lt", "ge")), "such a comparison")
    return Mask(lengths, count, hides=name in ("le", "ge"))


def is_nothing(x: Any) -> bool:
    x = tensor_of(x)
    if isinstance(x, Tensor):
        return x.numel() > 0 and bool((x <= NOTHING).all())
    return isinstance(x, (int, float)) and x <= NOTHING


def is_zero(x: Any) -> bool:
    x = tensor_of(x)
    return not bool(x.any()) if isinstance(x, Tensor) else isinstance(x, (int, float)) and x == 0


def inverted(c: Emitter, x: Any) -> Mask:
    require(isinstance(x, Mask) and not x.adds and not x.causal, "a negation of data")
    return replace(x, hides=not x.hides)


def both(c: Emitter, x: Any, y: Any) -> Mask:
    x, y = (x, y) if isinstance(x, Mask) else (y, x)
    require(isinstance(x, Mask) and not x.hides and not x.adds, "masks of this kind")
    if isinstance(y, Mask):
        require(y.lengths == x.lengths and not y.hides and not y.adds, "two numbers of keys")
        return replace(x, causal=x.causal or y.causal)
    found = masked(Scores(x.lengths, x.lengths), y)
    return replace(x, causal=x.causal or found.causal)


def chosen(c: Emitter, mask: Any, yes: Any, no: Any) -> Any:
    """where()."""
    if isinstance(mask, Mask):
        require(not mask.adds, "a mask of this kind")
        yes, no = (no, yes) if mask.hides else (yes, no)
        mask = replace(mask, hides=False)
        require(is_nothing(no), "a choice between data")
        if isinstance(yes, Scores):
            return masked(yes, mask)
        require(is_zero(yes), "a choice between data")
        return replace(mask, adds=True)
    mask = tensor_of(mask)
    require(isinstance(mask, Tensor) and mask.dtype == torch.bool, "a choice by data")
    if is_nothing(yes):
        mask, yes, no = ~mask, no, yes
    require(isinstance(yes, Scores) and is_nothing(no), "a choice between data")
    return masked(yes, mask)


def filled(c: Emitter, x: Any, mask: Any, value: Any) -> Any:
    if isinstance(mask, Mask) or isinstance(x, Scores):
        return chosen(c, mask, value, x)
    require(False, "places that are filled")


def added(c: Emitter, x: Any, y: Any) -> Any:
    """A mask and scores, or two masks."""
    if isinstance(y, Scores) or (isinstance(y, Mask) and not isinstance(x, Scores)):
        x, y = y, x
    if isinstance(x, Scores):
        require(not isinstance(y, Mask) or y.adds, "a mask that is added, but is no sum")
        return masked(x, y)
    if isinstance(x, Mask) and x.adds:
        as_truth = replace(x, adds=False)
        other = replace(y, adds=False) if isinstance(y, Mask) and y.adds else y
        return replace(both(c, as_truth, other), adds=True)
    require(False, "a sum with a mask")


def times(x: Scores | Mask, factor: float) -> Scores | Mask:
    if isinstance(x, Scores):
        require(not x.weights and x.mask is None and not x.causal, "a factor here")
        return replace(x, factor=x.factor * factor)
    require(x.hides and not x.causal and factor <= NOTHING, "a factor of a mask")
    return replace(x, hides=False, adds=True)


# ---- attention ----


def products(c: Emitter, x: Any, y: Any) -> Any:
    """Of queries with keys, or of weights with values."""
    if isinstance(x, Scores):
        require(x.weights and isinstance(y, Rows), "a product of this kind")
        return weighted(c, x, y)
    factor = x.factor * y.factor
    x, y = replace(x, factor=1.0), replace(y, factor=1.0)
    return Scores(of_heads(x), of_heads(y, keys=True), factor)


def is_in_products(node: fx.Node) -> bool:
    """Do products of data with data alone read it, and views of it?"""
    for user in node.users:
        if function_of(user) == "scaled_dot_product_attention":
            if node in (*user.args[2:], *user.kwargs.values()):
                return False
            continue
        if function_of(user) in VIEWS - {"size", "getitem"}:
            if not is_in_products(user):
                return False
        elif function_of(user) not in ("matmul", "bmm") or len(user.meta["val"].shape) < 3:
            return False
        elif any(n.op == "get_attr" for n in user.all_input_nodes):
            return False
    return bool(node.users)


def weighted(c: Emitter, s: Scores, values: Rows) -> Rows:
    found = attend(c, s, of_heads(values), s.factor)
    if len(values.axes) == 3:
        n, head, rows, columns = found.axes
        return found.laid((n + head, rows, columns))
    return found


def attend(c: Emitter, s: Scores, v: Rows, factor: float | None, grouped: bool = False) -> Rows:
    q, k = s.queries, s.keys
    heads, kv_heads = heads_of(q), heads_of(k)
    grouped = grouped or heads == kv_heads * repeats(k)
    require(heads_of(v) == kv_heads and repeats(q) == 1, "heads of this kind")
    require(repeats(k) == repeats(v) and (heads == kv_heads or grouped), "heads of this kind")
    width = q.columns // heads
    if factor is not None and not math.isclose(factor, width**-0.5, rel_tol=1e-6):
        q = c.alike("scale", [q], factor=factor * width**0.5)
    says: dict[str, Any] = {"heads": heads} | ({"kv_heads": kv_heads} if kv_heads != heads else {})
    says |= {"causal": "true"} if s.causal else {}
    require(s.mask is None or s.mask.keys == k.rows, "numbers of other keys")
    lengths = [s.mask.lengths] if s.mask else []
    return c.alike("attention", [q, k, v, *lengths], **says)


def attention(
    c: Emitter, q: Rows, k: Rows, v: Rows, mask: Any = None, rate: float = 0.0,
    causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Rows:  # fmt: skip
    require(rate == 0, "dropout of attention: its rate has to be 0")
    if q.factor * k.factor != 1:
        scale = (scale or (q.columns // heads_of(q)) ** -0.5) * q.factor * k.factor
        q, k = replace(q, factor=1.0), replace(k, factor=1.0)
    scores = Scores(q, k, causal=causal)
    scores = scores if mask is None else masked(scores, mask)
    return attend(c, scores, v, scale, enable_gqa)


def softmax(c: Emitter, x: Any, dim: int, *_: Any) -> Any:
    if isinstance(x, Scores):
        require(dim in (-1, len(c.node.meta["val"].shape) - 1), "a softmax of other than keys")
        return replace(x, weights=True)
    require(dim % len(x.axes) == len(x.axes) - 1, "a softmax of other than rows")
    x.columns_last()
    return c.alike("softmax", [x])
