"""Calls of ATen, and the operators of Orrery that are like them."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx

from .layout import Axes, Unlike, atom, joined, of_kind, ordered, reshaped, sizes, whole
from .trace import function_of
from .values import CONSTANT, Exp, Half, Held, Length, Loss, Pairs, Rows, is_range

if TYPE_CHECKING:
    from .convert import Converter

Like = Callable[..., Any]
CUTS = {"chunk", "split", "split_with_sizes", "slice", "getitem"}
SHAPES = {"view", "reshape", "unsqueeze", "squeeze", "contiguous", "expand", "detach", "alias"}


def shape_of(node: fx.Node) -> list[int]:
    return [int(size) for size in node.meta["val"].shape]


def require(truth: bool, what: str) -> None:
    if not truth:
        raise Unlike(what)


def tensor_of(value: Any) -> Any:
    return value.tensor if isinstance(value, Held) else value


# ---- of parameters and constants alone ----


def pieces(held: Held, tensors: Any) -> list[Held]:
    """The parts of its first dimension, one after the other."""
    parts, at = [], 0
    for t in tensors:
        require(t.shape[1:] == held.tensor.shape[1:], "a parameter cut along its columns")
        parts.append(held.cut(at, at + len(t), t))
        at += len(t)
    return parts


def constant(node: fx.Node, args: Any, kwargs: Any) -> Any:
    """A value that no data is in; parameters may be cut, seen in another shape, or looked up."""
    name = function_of(node)
    if name == "getitem":
        return args[0][args[1]]
    plain = fx.node.map_aggregate(args, tensor_of)
    held = next((a for a in args if isinstance(a, Held) and a.tensor.requires_grad), None)
    value = node.target(*plain, **fx.node.map_aggregate(kwargs, tensor_of))  # type: ignore[operator]
    if held is None:
        return value
    if name == "exp":
        return Exp(held)
    if name in SHAPES and value.numel() == held.tensor.numel():
        return Held(held.name, value, held.rows)
    if name in ("chunk", "split", "split_with_sizes"):
        return pieces(held, value)
    if name == "slice" and len(args) > 2 and args[1] == 0 and (args[4:] or (1,))[0] == 1:
        return held.cut(args[2] or 0, (args[2] or 0) + len(value), value)
    if name == "embedding" and is_range(plain[1]):
        whole_table = len(plain[1]) == len(held.tensor)
        return Held(held.name, value) if whole_table else held.cut(0, len(value), value)
    raise Unlike("an operation on a parameter")


# ---- shapes ----


def view(c: "Converter", node: fx.Node, x: Rows, *_: Any, **__: Any) -> Rows:
    return x.laid(reshaped(x.axes, shape_of(node)))


def same(c: "Converter", node: fx.Node, x: Any, *_: Any, **__: Any) -> Any:
    return x


def broadcast(c: "Converter", node: fx.Node, parts: list[Any]) -> list[Any]:
    require(all(isinstance(p, Rows) and p.axes == parts[0].axes for p in parts), "other shapes")
    return parts


def moved(x: Rows, order: list[int]) -> Rows:
    return x.laid(tuple(x.axes[i] for i in order))


def transpose(c: "Converter", node: fx.Node, x: Any, a: int = 0, b: int = 1) -> Any:
    if isinstance(x, Pairs):
        return replace(x, turned=not x.turned)
    order = list(range(len(x.axes)))
    order[a], order[b] = order[b], order[a]
    return moved(x, order)


def permute(c: "Converter", node: fx.Node, x: Any, order: list[int]) -> Any:
    if isinstance(x, Pairs):
        return transpose(c, node, x)
    return moved(x, [i % len(x.axes) for i in order])


def cut(c: "Converter", node: fx.Node, x: Rows, dim: int, begin: int, end: int) -> Rows:
    """Indices begin to end of a dimension: rows, columns, or the first factor of columns."""
    axis, size = x.axes[dim], sizes(x.axes)[dim]
    if (begin, end) == (0, size):
        return x
    require(len(axis) == 1 and axis[0].kind != "n", "a cut of samples or of several dimensions")
    kind, every = axis[0].kind, [a for a in sum(x.axes, ()) if a.kind == axis[0].kind]
    every.sort(key=lambda a: a.key)
    require(every[0] == axis[0], "a cut that takes single rows or columns from all over")
    inner = math.prod(a.size for a in every[1:])
    where = {"r": "rows", "c": "columns"}[kind]
    says: dict[str, Any] = {"rows": f"0:{x.rows}", "columns": f"0:{x.columns}"}
    says[where] = f"{begin * inner}:{end * inner}"
    name = c.emit(node, "slice", [x], **says)
    count = (end - begin) * inner
    rows, columns = (count, x.columns) if kind == "r" else (x.rows, count)
    left = [end - begin, *(a.size for a in every[1:])]
    fresh = dict(zip(every, reshaped(atom_axes(kind, count), left)))
    axes = tuple(tuple(b for a in ax for b in fresh.get(a, (a,))) for ax in x.axes)
    return Rows(name, axes, rows, columns)


def atom_axes(kind: str, size: int) -> Axes:
    return (atom(kind, size),)


def without(x: Rows, dim: int) -> Rows:
    return x.laid(tuple(axis for i, axis in enumerate(x.axes) if i != dim % len(x.axes)))


def slice_(
    c: "Converter",
    node: fx.Node,
    x: Rows,
    dim: int = 0,
    begin: Any = None,
    end: Any = None,
    step: int = 1,
) -> Rows:
    require(step == 1, "a slice with a step")
    size = sizes(x.axes)[dim]
    first, last, _ = slice(begin, end).indices(size)
    return cut(c, node, x, dim, first, last)


def select(c: "Converter", node: fx.Node, x: Rows, dim: int, index: int) -> Rows:
    size = sizes(x.axes)[dim]
    index %= size
    if size > 1 and x.axes[dim] == of_kind(x.axes, "r") and index in (0, size - 1):
        name = c.emit(node, "last" if index else "first", [x])
        return Rows(name, without(x, dim).axes, 1, x.columns)
    return without(cut(c, node, x, dim, index, index + 1), dim)


def split(c: "Converter", node: fx.Node, x: Rows, how: Any, dim: int = 0) -> list[Rows]:
    parts, at = [], 0
    for t in node.meta["val"]:
        parts.append(cut(c, node, x, dim, at, at + t.shape[dim]))
        at += t.shape[dim]
    return parts


def unbind(c: "Converter", node: fx.Node, x: Rows, dim: int = 0) -> list[Rows]:
    return [without(cut(c, node, x, dim, i, i + 1), dim) for i in range(sizes(x.axes)[dim])]


def getitem(c: "Converter", node: fx.Node, values: Any, index: int) -> Any:
    return values[index]


def concat(c: "Converter", node: fx.Node, parts: list[Any], dim: int = 0) -> Rows:
    require(all(isinstance(p, Rows) for p in parts), "a parameter or a constant beside data")
    first = parts[0]
    kind = "c" if all(whole(p.axes[dim], "c") for p in parts) else "r"
    total = sum(sizes(p.axes)[dim] for p in parts)
    for p in parts:
        require(whole(p.axes[dim], kind), "neither rows nor columns")
        require(sizes(p.axes)[dim] == (p.columns if kind == "c" else p.rows), "parts of rows")
    name = c.emit(node, "concat", parts, axis="columns" if kind == "c" else "rows")
    axes = list(first.axes)
    axes[dim] = atom(kind, total)
    rows, columns = (first.rows, total) if kind == "c" else (total, first.columns)
    return Rows(name, tuple(axes), rows, columns)


# ---- element by element ----


def unary(op: str) -> Like:
    def like(c: "Converter", node: fx.Node, x: Rows) -> Rows:
        return replace(x, name=c.emit(node, op, [x]))

    return like


def gelu(c: "Converter", node: fx.Node, x: Rows, approximate: str = "none") -> Rows:
    return replace(x, name=c.emit(node, "gelu" if approximate == "none" else "gelu_tanh", [x]))


def dropout(c: "Converter", node: fx.Node, x: Rows, rate: float, training: bool) -> Rows:
    if not training or rate == 0:
        return x
    return replace(x, name=c.emit(node, "dropout", [x], rate=rate))


def add(c: "Converter", node: fx.Node, x: Any, y: Any, alpha: float = 1) -> Any:
    require(alpha == 1, "a factor in a sum")
    if isinstance(x, Half) and isinstance(y, Half):
        return contrastive(c, node, x, y)
    if isinstance(x, Loss) and isinstance(y, Loss):
        return Loss(x.terms + y.terms)
    if isinstance(y, Rows) and not isinstance(x, Rows):
        x, y = y, x
    require(isinstance(x, Rows), "a sum of this kind")
    if isinstance(y, (Held, Tensor)):
        return positions(c, node, x, y)
    require(isinstance(y, Rows) and x.axes == y.axes, "a sum of tensors that lie otherwise")
    return replace(x, name=c.emit(node, "add", [x, y]))


def positions(c: "Converter", node: fx.Node, x: Rows, y: Any) -> Rows:
    t = tensor_of(y)
    require(t.dim() > 0 and ordered(x.axes), "a sum with a constant")
    require(t.numel() == x.rows * x.columns, "a sum with a parameter that all rows share")
    held = y if isinstance(y, Held) else Held(CONSTANT, t)
    held = replace(held, tensor=t.reshape(x.rows, x.columns))
    return replace(x, name=c.emit(node, "positions", [x], {"weight": held}))


def multiply(c: "Converter", node: fx.Node, x: Any, y: Any) -> Any:
    if not isinstance(x, (Rows, Loss, Pairs, Half)):
        x, y = y, x
    number = tensor_of(y)
    if isinstance(number, Tensor) and number.numel() == 1 and not number.requires_grad:
        number = number.item()
    if isinstance(number, (int, float)):
        return scaled(c, node, x, float(number))
    if isinstance(x, Pairs) and isinstance(y, Exp):
        require(x.scale is None and y.of.tensor.numel() == 1, "more than one temperature")
        return replace(x, scale=y.of)
    require(isinstance(x, Rows) and isinstance(y, Rows), "a product of this kind")
    require(x.axes == y.axes, "a product of tensors that lie otherwise")
    return replace(x, name=c.emit(node, "multiply", [x, y]))


def scaled(c: "Converter", node: fx.Node, x: Any, factor: float) -> Any:
    if isinstance(x, Loss):
        return x.times(factor)
    require(isinstance(x, Rows), "a factor here")
    return replace(x, name=c.emit(node, "scale", [x], factor=factor))


def divide(c: "Converter", node: fx.Node, x: Any, y: Any) -> Any:
    if isinstance(y, Length):
        require(isinstance(x, Rows) and x == y.of, "a division by another's length")
        return replace(x, name=c.emit(node, "normalise", [x], epsilon=y.epsilon))
    require(isinstance(y, (int, float)), "a division by data")
    return scaled(c, node, x, 1 / y)


def length(
    c: "Converter",
    node: fx.Node,
    x: Rows,
    order: float = 2,
    dim: Any = None,
    keep: bool = False,
    **_: Any,
) -> Length:
    last = [d % len(x.axes) for d in (dim or [])] == [len(x.axes) - 1]
    require(order == 2 and last and keep, "a norm other than a row's length")
    x.columns_last()
    return Length(x)


def at_least(c: "Converter", node: fx.Node, x: Length, epsilon: float) -> Length:
    return replace(x, epsilon=epsilon)


# ---- with parameters ----


def linear(c: "Converter", node: fx.Node, x: Rows, weight: Held, bias: Held | None = None) -> Rows:
    require(isinstance(weight, Held), "weights that are data")
    x.columns_last()
    features = weight.tensor.shape[0]
    tensors = {"weight": weight} | ({"bias": bias} if bias else {})
    says = {"features": features} | ({} if bias else {"bias": "false"})
    name = c.emit(node, "linear", [x], tensors, **says)
    return Rows(name, (*x.axes[:-1], atom("c", features)), x.rows, features)


def embedding(
    c: "Converter", node: fx.Node, weight: Any, x: Any, padding: int = -1, *_: Any
) -> Rows:
    require(isinstance(weight, Held) and isinstance(x, Rows), "a look-up of this kind")
    require(padding < 0, "an embedding with a padding_idx")
    require(x.columns == 1, "ids that are not one in a row")
    vocabulary, features = weight.tensor.shape
    says = {"vocabulary": vocabulary, "features": features}
    name = c.emit(node, "embedding", [x], {"weight": weight}, **says)
    return Rows(name, (*x.axes, atom("c", features)), x.rows, features)


def layer_norm(
    c: "Converter",
    node: fx.Node,
    x: Rows,
    shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *_: Any,
) -> Rows:
    require(weight is not None and bias is not None, "a layer norm without gain and bias")
    require(len(shape) == 1, "a layer norm of several dimensions")
    x.columns_last()
    return replace(
        x, name=c.emit(node, "layernorm", [x], {"gain": weight, "bias": bias}, epsilon=eps)
    )


def rms_norm(
    c: "Converter", node: fx.Node, x: Rows, shape: Any, weight: Any = None, eps: Any = None
) -> Rows:
    require(weight is not None and len(shape) == 1, "an rms norm without gain")
    x.columns_last()
    epsilon = torch.finfo(torch.float32).eps if eps is None else eps
    return replace(x, name=c.emit(node, "rmsnorm", [x], {"gain": weight}, epsilon=epsilon))


def channels_second(x: Rows) -> None:
    require(len(x.axes) > 1 and whole(x.axes[1], "c"), "channels that are not columns")
    require(sizes(x.axes)[1] == x.columns, "channels that are not columns")


def group_norm(
    c: "Converter",
    node: fx.Node,
    x: Rows,
    groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *_: Any,
) -> Rows:
    require(weight is not None and bias is not None, "a group norm without gain and bias")
    channels_second(x)
    tensors = {"gain": weight, "bias": bias}
    return replace(x, name=c.emit(node, "groupnorm", [x], tensors, groups=groups, epsilon=eps))


def batch_norm(
    c: "Converter", node: fx.Node, x: Rows, weight: Any, bias: Any, mean: Any, variance: Any,
    training: bool, momentum: float, eps: float, *_: Any,
) -> Rows:  # fmt: skip
    require(all(isinstance(t, Held) for t in (weight, bias, mean, variance)), "no running means")
    require(training, "a batch norm by its running means: train() the model")
    channels_second(x)
    tensors = {"gain": weight, "bias": bias, "mean": mean, "variance": variance}
    return replace(x, name=c.emit(node, "batchnorm", [x], tensors, epsilon=eps, momentum=momentum))


# ---- images ----


def one(value: Any, what: str) -> int:
    numbers = set(value) if isinstance(value, (list, tuple)) else {value}
    require(len(numbers) == 1, f"a {what} that differs in height and width")
    return int(numbers.pop())


def windowed(c: "Converter", node: fx.Node, x: Rows, op: str, tensors: Any, says: Any) -> Rows:
    """Over an image: samples, channels, height, width."""
    channels_second(x)
    require(len(x.axes) == 4 and joined(x.axes[2] + x.axes[3]) == of_kind(x.axes, "r"), "no image")
    _, features, height, width = shape_of(node)
    if sizes(x.axes)[2] ** 2 != x.rows:
        says["image_height"] = sizes(x.axes)[2]
    name = c.emit(node, op, [x], tensors, **says)
    whole_image = (atom("n", shape_of(node)[0]), atom("c", features), atom("r", height * width))
    axes = reshaped(whole_image, shape_of(node))
    return Rows(name, axes, height * width, features)


def conv2d(
    c: "Converter", node: fx.Node, x: Rows, weight: Any, bias: Any = None, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Rows:  # fmt: skip
    require(isinstance(weight, Held) and not isinstance(padding, str), "a convolution of this kind")
    require(one(dilation, "dilation") == 1, "a dilated convolution")
    says: dict[str, Any] = {
        "features": weight.tensor.shape[0],
        "kernel": one(weight.tensor.shape[2:], "kernel"),
        "stride": one(stride, "stride"),
        "padding": one(padding, "padding"),
        "groups": groups,
    }
    says |= {} if bias else {"bias": "false"}
    tensors = {"weight": weight} | ({"bias": bias} if bias else {})
    return windowed(c, node, x, "conv2d", tensors, says)


def pool(op: str) -> Like:
    def like(
        c: "Converter",
        node: fx.Node,
        x: Rows,
        kernel: Any,
        stride: Any = None,
        padding: Any = 0,
        *more: Any,
    ) -> Rows:
        require(all(m in (1, [1, 1], False, True, None) for m in more), "a pool of this kind")
        says = {
            "kernel": one(kernel, "kernel"),
            "stride": one(stride or kernel, "stride"),
            "padding": one(padding, "padding"),
        }
        return windowed(c, node, x, op, None, says)

    return like


def mean_of_all(c: "Converter", node: fx.Node, x: Rows, size: Any) -> Rows:
    require(one(size, "size") == 1, "an adaptive pool to more than one place")
    channels_second(x)
    name = c.emit(node, "mean", [x]) if x.rows > 1 else x.name
    return Rows(name, (*x.axes[:2], (), ()), 1, x.columns)


def mean(
    c: "Converter", node: fx.Node, x: Rows, dims: Any = None, keep: bool = False, **_: Any
) -> Rows:
    require(dims is not None, "a mean over samples")
    over = sorted(d % len(x.axes) for d in dims)
    read = joined(sum((x.axes[d] for d in over), ()))
    require(
        whole(read, "r") and sum(a.size for a in read) == x.rows, "a mean of other than all rows"
    )
    axes = tuple(
        () if i in over else axis for i, axis in enumerate(x.axes) if keep or i not in over
    )
    return Rows(c.emit(node, "mean", [x]), axes, 1, x.columns)


# ---- attention ----


def heads_of(x: Rows) -> int:
    require(len(x.axes) == 4, "attention on other than samples, heads, rows, columns")
    _, head, rows, columns = x.axes
    require(joined(head + columns) == of_kind(x.axes, "c") == atom("c", x.columns), "such heads")
    require(rows == atom("r", x.rows), "attention over other than rows")
    return head[0].size if head else 1


def is_causal(mask: Any) -> bool:
    """Does it show row i the keys 0 to i, and no others?"""
    if not isinstance(mask, Tensor):
        return False
    mask = mask.reshape(mask.shape[-2:]) if mask.numel() == math.prod(mask.shape[-2:]) else mask
    lower = torch.ones(mask.shape, dtype=torch.bool).tril()
    if mask.dtype == torch.bool:
        return torch.equal(mask, lower)
    return bool((mask[lower] == 0).all()) and bool(mask[~lower].isneginf().all())


def attention(
    c: "Converter", node: fx.Node, q: Rows, k: Rows, v: Rows, mask: Any = None, rate: float = 0.0,
    causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Rows:  # fmt: skip
    require(rate == 0, "dropout of attention")
    require(mask is None or is_causal(tensor_of(mask)), "a mask other than the causal one")
    heads, kv_heads = heads_of(q), heads_of(k)
    require(heads_of(v) == kv_heads and (heads == kv_heads or enable_gqa), "heads of this kind")
    width = q.columns // heads
    if scale is not None and not math.isclose(scale, width**-0.5):
        q = replace(q, name=c.emit(node, "scale", [q], factor=scale * width**0.5))
    says: dict[str, Any] = {"heads": heads} | ({"kv_heads": kv_heads} if kv_heads != heads else {})
    says |= {"causal": "true"} if causal or mask is not None else {}
    name = c.emit(node, "attention", [q, k, v], **says)
    return replace(q, name=name)


def softmax(c: "Converter", node: fx.Node, x: Rows, dim: int, *_: Any) -> Rows:
    require(dim % len(x.axes) == len(x.axes) - 1, "a softmax of other than rows")
    x.columns_last()
    return replace(x, name=c.emit(node, "softmax", [x]))


def matmul(c: "Converter", node: fx.Node, x: Any, y: Any) -> Any:
    require(isinstance(x, Rows) and isinstance(y, Rows), "a product of this kind")
    require(len(x.axes) == 2 and len(y.axes) == 2, "a product of data with data")
    x.columns_last()
    right = moved(y, [1, 0])
    right.columns_last()
    require(x.rows == right.rows == 1, "products of more than one row a sample")
    return Pairs(x, right)


# ---- losses ----


def cross_entropy(
    c: "Converter", node: fx.Node, x: Any, y: Any, weight: Any = None, reduction: int = 1,
    ignore: int = -100, smoothing: float = 0.0,
) -> Any:  # fmt: skip
    require(
        weight is None and reduction == 1, "weighted classes, or another reduction than the mean"
    )
    if isinstance(x, Pairs):
        require(is_range(tensor_of(y)) and smoothing == 0, "pairs other than those of one sample")
        return Half(x)
    require(ignore < 0, "ignore_index, whose mean is over all samples together")
    require(isinstance(y, Rows), "targets that are no data")
    at = x.axis("c")
    require(at >= 0 and sizes(x.axes)[at] == x.columns, "classes that are not columns")
    rest = tuple(axis for i, axis in enumerate(x.axes) if i != at)
    require(rest == y.axes and at == min(1, len(x.axes) - 1), "targets that lie otherwise")
    says: dict[str, Any] = {"smoothing": smoothing} if smoothing else {}
    return Loss(((c.emit(node, "softmax_cross_entropy", [x, y], **says), 1.0),))


def contrastive(c: "Converter", node: fx.Node, x: Half, y: Half) -> Loss:
    one_way, other = x.pairs, y.pairs
    pairs = other if one_way.turned else one_way
    require(replace(one_way, turned=not one_way.turned) == other, "two losses of other products")
    require(pairs.scale is not None, "pairs without a trained temperature, exp() of a parameter")
    assert pairs.scale is not None
    held = replace(pairs.scale, tensor=pairs.scale.tensor.reshape(1))
    name = c.emit(
        node, "contrastive", [pairs.left, pairs.right], {"temperature": held}, gather="minibatch"
    )
    return Loss(((name, 2.0),))  # Orrery's is the mean of the two


def compared(op: str) -> Like:
    def like(c: "Converter", node: fx.Node, x: Rows, y: Any, *more: Any, **_: Any) -> Loss:
        require(all(m in (None, 1) for m in more), "weights, or another reduction than the mean")
        require(isinstance(y, Rows) and x.axes == y.axes, "targets that lie otherwise")
        return Loss(((c.emit(node, op, [x, y]), 1.0),))

    return like


LIKES: dict[str, Like] = {
    **dict.fromkeys(["view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze"], view),
    **dict.fromkeys(["contiguous", "clone", "alias", "to", "expand_as"], same),
    **dict.fromkeys(["transpose", "t", "numpy_T"], transpose),
    **dict.fromkeys(["chunk", "split", "split_with_sizes"], split),
    **{op: unary(op) for op in ("relu", "silu", "sigmoid", "tanh")},
    "broadcast_tensors": broadcast,
    "permute": permute,
    "slice": slice_,
    "select": select,
    "unbind": unbind,
    "getitem": getitem,
    "cat": concat,
    "gelu": gelu,
    "dropout": dropout,
    "add": add,
    "mul": multiply,
    "div": divide,
    "linalg_vector_norm": length,
    "clamp_min": at_least,
    "linear": linear,
    "embedding": embedding,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "group_norm": group_norm,
    "batch_norm": batch_norm,
    "conv2d": conv2d,
    "max_pool2d": pool("max_pool"),
    "avg_pool2d": pool("mean_pool"),
    "adaptive_avg_pool2d": mean_of_all,
    "mean": mean,
    "scaled_dot_product_attention": attention,
    "softmax": softmax,
    "matmul": matmul,
    "mm": matmul,
    "cross_entropy_loss": cross_entropy,
    "mse_loss": compared("mse"),
    "binary_cross_entropy_with_logits": compared("bce"),
}
