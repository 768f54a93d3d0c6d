"""Calls of ATen, and the operators of Orrery that are like them."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, fx

from .attention import (
    Mask,
    Scores,
    added,
    attention,
    both,
    chosen,
    compared_with_range,
    filled,
    heads_of,
    inverted,
    products,
    softmax,
    times,
)
from .formulas import Formula
from .layout import REPEATED, Axes, atom, joined, of_kind, ordered, reshaped, sizes, whole
from .losses import compared, contrastive, cross_entropy, pairs
from .trace import function_of, say
from .values import (
    CONSTANT,
    Exp,
    Half,
    Held,
    Length,
    Like,
    Loss,
    Pairs,
    Rows,
    moved,
    range_of,
    require,
    shape_of,
    tensor_of,
)

if TYPE_CHECKING:
    from .convert import Converter

CUTS = {"chunk", "split", "split_with_sizes", "slice", "getitem"}
TURNS = {"t", "transpose", "permute", "numpy_T"}
SHAPES = {"view", "reshape", "unsqueeze", "squeeze", "contiguous", "expand", "detach", "alias"}


# ---- of parameters and constants alone ----


def pieces(held: Held, tensors: Any) -> list[Held]:
    """The parts of its first dimension, one after the other."""
    parts, at = [], 0
    for t in tensors:
        require(t.shape[1:] == held.tensor.shape[1:], "a parameter cut along its columns")
        parts.append(held.cut(at, at + len(t), t))
        at += len(t)
    return parts


def of_parameter(c: "Converter", node: fx.Node, held: Held, args: Any, value: Any) -> Any:
    """A parameter that is cut, seen in another shape, looked up, or put beside every sample; None
    is something else."""
    name, t = function_of(node), held.tensor
    if name == "exp":
        return Exp(held)
    if name in TURNS and t.dim() == 2 and torch.equal(value, t.t()):
        return held.turn()
    if name in (*SHAPES, "to", "view_as") and value.numel() == t.numel() and not held.turned:
        return replace(held, tensor=value)
    if name in ("expand", "expand_as", "repeat") and len(value) == c.samples:
        return c.constant(node, held, c.each_sample(value))
    if name in ("chunk", "split", "split_with_sizes"):
        return pieces(held, value)
    if name == "slice" and value.shape == t.shape:
        return held
    if name == "slice" and len(args) > 2 and args[1] == 0 and (args[4:] or (1,))[0] == 1:
        return held.cut(args[2] or 0, (args[2] or 0) + len(value), value)
    if name == "select" and t.dim() and args[1] == 0:
        at = args[2] % len(t)
        return held.cut(at, at + 1, value)
    if name == "embedding":
        return looked_up(c, node, held, tensor_of(args[1]), value)
    return None


def looked_up(c: "Converter", node: fx.Node, held: Held, ids: Tensor, value: Tensor) -> Any:
    """By ids that are the same for all samples."""
    once = c.each_sample(ids) if ids.dim() == 2 else ids
    found = range_of(once.reshape(-1))
    if not found:
        return embedding(c, node, held, c.constant(node, None, once))
    value = value[: len(once)] if ids.dim() == 2 else value
    everything = found == (0, len(held.tensor))
    return replace(held, tensor=value) if everything else held.cut(*found, value)


def constant(c: "Converter", node: fx.Node, args: Any, kwargs: Any) -> Any:
    """A value that no data is in."""
    if function_of(node) == "getitem":
        return args[0][args[1]]
    plain = fx.node.map_aggregate(args, tensor_of)
    value = node.target(*plain, **fx.node.map_aggregate(kwargs, tensor_of))  # type: ignore[operator]
    held = next((a for a in args if isinstance(a, Held) and a.name in c.parameters), None)
    if held is None:
        return value
    found = of_parameter(c, node, held, args, value)
    require(found is not None or not held.tensor.requires_grad, "an operation on a parameter")
    return value if found is None else found


ALIKE = {"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"}


def filled_alike(node: fx.Node, *args: Any) -> Tensor:
    """Of the data that it reads, the shape alone."""
    name = function_of(node)
    fill = args[-1] if "full" in name else float("ones" in name)
    return torch.full(shape_of(node), fill, dtype=node.meta["val"].dtype)


# ---- functions that are spelt out ----


def spelt(c: "Converter", node: fx.Node, f: Formula, x: Rows) -> Rows:
    if f.op == "rotary":
        heads = heads_of(x)
        return replace(x, name=c.emit(node, "rotary", [x], heads=heads, **f.says))
    if f.op in ("rmsnorm", "normalise"):
        x.columns_last()
    return replace(x, name=c.emit(node, f.op, [x], f.tensors, **f.says))


# ---- shapes ----


def view(c: "Converter", node: fx.Node, x: Any, *_: Any, **__: Any) -> Any:
    if isinstance(x, Scores):
        return x  # samples and heads apart, or together
    if isinstance(x, Mask):
        require(shape_of(node)[-1] == x.keys, "a mask in another shape")
        return x
    return x.laid(reshaped(x.axes, shape_of(node)))


def same(c: "Converter", node: fx.Node, x: Any, *_: Any, **__: Any) -> Any:
    return x


def expand(c: "Converter", node: fx.Node, x: Any, *_: Any, **__: Any) -> Any:
    if isinstance(x, Rows):
        before, after = c.shape_before(node), shape_of(node)
        require(len(before) == len(after) == 5 or before == after, "data that is repeated")
        pairs = zip(x.axes, before, after)
        axes = tuple(a if old == new else atom(REPEATED, new) for a, old, new in pairs)
        return x.laid(axes)  # heads of keys and values, for as many of queries
    return view(c, node, x)


def broadcast(c: "Converter", node: fx.Node, parts: list[Any]) -> list[Any]:
    require(all(isinstance(p, Rows) and p.axes == parts[0].axes for p in parts), "other shapes")
    return parts


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
) -> Any:
    if isinstance(x, (Scores, Mask)):
        require(shape_of(node) == c.shape_before(node), "a part of a mask")
        return x
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
    parts = [p if isinstance(p, Rows) else c.beside(node, p) for p in parts]
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


def padded(
    c: "Converter", node: fx.Node, x: Rows, pad: list[int], mode: Any = "constant", value: Any = 0
) -> Rows:
    """With rows before and behind it."""
    dim = len(x.axes) - (len(pad) + 1) // 2
    require(mode == "constant" and not any(pad[:-2]), "a padding of other than rows")
    require(x.axes[dim] == atom("r", x.rows) and min(pad) >= 0, "a padding of other than rows")
    parts = [
        c.constant(node, None, torch.full((1, n, x.columns), float(value or 0)))
        for n in pad[-2:]
        if n
    ]
    parts.insert(pad[-2] and 1, x)
    rows = sum(p.rows for p in parts)
    axes = tuple(atom("r", rows) if i == dim else axis for i, axis in enumerate(x.axes))
    return Rows(c.emit(node, "concat", parts, axis="rows"), axes, rows, x.columns)


def dropout(c: "Converter", node: fx.Node, x: Any, rate: float, training: bool) -> Any:
    if not training or rate == 0:
        return x
    require(isinstance(x, Rows), "dropout of attention")
    return replace(x, name=c.emit(node, "dropout", [x], rate=rate))


def add(c: "Converter", node: fx.Node, x: Any, y: Any, alpha: float = 1) -> Any:
    require(alpha == 1, "a factor in a sum")
    if isinstance(x, Half) and isinstance(y, Half):
        return contrastive(c, node, x, y)
    if isinstance(x, Loss) and isinstance(y, Loss):
        return Loss(x.terms + y.terms)
    if isinstance(y, Rows) and not isinstance(x, Rows):
        x, y = y, x
    if any(isinstance(v, (Scores, Mask)) for v in (x, y)):
        return added(c, node, x, y)
    require(isinstance(x, Rows), "a sum of this kind")
    if isinstance(y, (int, float)):
        y = torch.full((1, *sizes(x.axes)[1:]), float(y))
    if isinstance(y, (Held, Tensor)):
        return positions(c, node, x, y)
    require(isinstance(y, Rows) and x.axes == y.axes, "a sum of tensors that lie otherwise")
    return replace(x, name=c.emit(node, "add", [x, y]))


def positions(c: "Converter", node: fx.Node, x: Rows, y: Any) -> Rows:
    t = tensor_of(y)
    require(t.dim() > 0 and ordered(x.axes), "a sum with a constant")
    if not t.requires_grad and not t.any():
        return x
    if not t.requires_grad and t.numel() == x.columns and t.dim() <= len(x.axes):
        t = t.reshape(x.columns).expand(x.rows, x.columns)
    if isinstance(y, Held) and t.numel() == x.columns < x.rows * x.columns:
        shared = c.every_row(node, y, x.rows)
        return replace(x, name=c.emit(node, "add", [x, shared]))
    require(t.numel() == x.rows * x.columns, "a sum with such a parameter")
    held = y if isinstance(y, Held) and y.tensor.numel() == t.numel() else Held(CONSTANT, t)
    held = replace(held, tensor=t.reshape(x.rows, x.columns))
    return replace(x, name=c.emit(node, "positions", [x], {"weight": held}))


def multiply(c: "Converter", node: fx.Node, x: Any, y: Any) -> Any:
    if not isinstance(x, (Rows, Loss, Pairs, Half, Scores, Mask)):
        x, y = y, x
    number = tensor_of(y)
    if isinstance(number, Tensor) and number.numel() == 1 and not number.requires_grad:
        number = number.item()
    if isinstance(number, (int, float)):
        return scaled(c, node, x, float(number))
    if isinstance(x, Pairs) and isinstance(y, Exp):
        require(x.scale is None and y.of.tensor.numel() == 1, "more than one temperature")
        return replace(x, scale=y.of)
    if isinstance(x, Rows) and isinstance(y, (Held, Tensor)):
        y = factors(c, node, x, y).laid(x.axes)
    require(isinstance(x, Rows) and isinstance(y, Rows), "a product of this kind")
    require(x.axes == y.axes, "a product of tensors that lie otherwise")
    return replace(x, name=c.emit(node, "multiply", [x, y]))


def factors(c: "Converter", node: fx.Node, x: Rows, y: Any) -> Rows:
    """A parameter or a constant that every sample is multiplied by, for each column or float."""
    t = tensor_of(y)
    require(ordered(x.axes), "a factor here")
    if isinstance(y, Held) and t.numel() == x.columns and x.rows > 1:
        return c.every_row(node, y, x.rows)
    t = t.reshape(1, 1, -1).expand(1, x.rows, -1) if t.numel() == x.columns else t
    require(t.numel() == x.rows * x.columns, "factors of this shape")
    held = y if isinstance(y, Held) else None
    return c.constant(node, held, t.reshape(1, x.rows, x.columns).float())


def power(c: "Converter", node: fx.Node, x: Rows, exponent: Any = 2) -> Rows:
    require(exponent in (2, 3), "a power other than 2 and 3")
    square = multiply(c, node, x, x)
    return square if exponent == 2 else multiply(c, node, square, x)


def scaled(c: "Converter", node: fx.Node, x: Any, factor: float) -> Any:
    if isinstance(x, Loss):
        return x.times(factor)
    if isinstance(x, (Scores, Mask)):
        return times(x, factor)
    require(isinstance(x, Rows), "a factor here")
    return replace(x, name=c.emit(node, "scale", [x], factor=factor))


def divide(c: "Converter", node: fx.Node, x: Any, y: Any) -> Any:
    if isinstance(y, Length):
        require(isinstance(x, Rows) and x == y.of, "a division by another's length")
        return replace(x, name=c.emit(node, "normalise", [x], epsilon=y.epsilon))
    y = tensor_of(y)
    if isinstance(y, Tensor) and y.numel() == 1 and not y.requires_grad:
        y = y.item()
    require(isinstance(y, (int, float)), "a division by data")
    return scaled(c, node, x, 1 / y)


def subtract(c: "Converter", node: fx.Node, x: Any, y: Any, alpha: float = 1) -> Any:
    if isinstance(y, Mask) and alpha == 1 and tensor_of(x) == 1:
        return inverted(c, node, y)
    require(isinstance(x, Rows) and alpha == 1, "a difference of this kind")
    if isinstance(y, Rows):
        return add(c, node, x, scaled(c, node, y, -1.0))
    require(isinstance(y, (int, float, Tensor)), "a difference of this kind")
    return add(c, node, x, -y)


def subtracted(c: "Converter", node: fx.Node, x: Any, y: Any, alpha: float = 1) -> Any:
    return subtract(c, node, y, x, alpha)


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


def linear(c: "Converter", node: fx.Node, x: Rows, weight: Any, bias: Any = None) -> Rows:
    require(isinstance(x, Rows) and isinstance(weight, Held), "weights that are data")
    require(bias is None or isinstance(bias, Held), "a bias that is data")
    x.columns_last()
    features = weight.tensor.shape[0]
    if bias and not c.alone(weight):  # the one is shared, the other is not
        return positions(c, node, linear(c, node, x, weight), bias)
    tensors = {"weight": weight} | ({"bias": bias} if bias else {})
    says = {"features": features} | ({} if bias else {"bias": "false"})
    name = c.emit(node, "linear", [x], tensors, **says)
    return Rows(name, (*x.axes[:-1], atom("c", features)), x.rows, features)


def product(c: "Converter", node: fx.Node, x: Any, y: Any) -> Any:
    if isinstance(y, Held) and isinstance(x, Rows):
        return linear(c, node, x, y.turn())
    if isinstance(x, Rows) and isinstance(y, Rows) and len(x.axes) == len(y.axes) == 2:
        return pairs(c, x, y)
    require(isinstance(x, (Rows, Scores)) and isinstance(y, Rows), "a product of this kind")
    return products(c, node, x, y)


def added_product(
    c: "Converter", node: fx.Node, bias: Any, x: Any, y: Any, beta: float = 1, alpha: float = 1
) -> Any:
    """beta bias + alpha x @ y."""
    if isinstance(y, Held):
        require(beta == alpha == 1, "a factor in a sum")
        return linear(c, node, x, y.turn(), bias)
    found = product(c, node, x, y)
    found = times(found, alpha) if isinstance(found, Scores) else found
    return found if beta == 0 else add(c, node, found, bias)


def embedding(
    c: "Converter", node: fx.Node, weight: Any, x: Any, padding: int = -1, *_: Any
) -> Rows:
    require(isinstance(weight, Held) and isinstance(x, Rows), "a look-up of this kind")
    if padding >= 0 and weight.tensor.requires_grad:
        say(f"{weight.name}: Orrery trains the row of padding_idx={padding} like any other")
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
    require(
        isinstance(x, Rows) and weight is not None and bias is not None,
        "a layer norm without gain and bias",
    )
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


# those that masks and attention's products go through
ATTENTION = set(
    """view reshape flatten unflatten unsqueeze squeeze contiguous clone alias to _to_copy type_as
    expand expand_as slice getitem matmul bmm baddbmm add sub rsub mul div masked_fill where softmax
    dropout logical_not bitwise_not logical_and bitwise_and __and__
    scaled_dot_product_attention""".split()
)
LIKES: dict[str, Like] = {
    **dict.fromkeys(["view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze"], view),
    **dict.fromkeys(
        ["contiguous", "clone", "alias", "to", "_to_copy", "type_as", "lift_fresh_copy"], same
    ),
    **dict.fromkeys(["expand", "expand_as"], expand),
    **dict.fromkeys(["transpose", "t", "numpy_T"], transpose),
    **dict.fromkeys(
        ["mT", "adjoint", "matrix_H"], lambda c, node, x: transpose(c, node, x, -2, -1)
    ),
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
    **dict.fromkeys(["matmul", "mm", "bmm"], product),
    **dict.fromkeys(["addmm", "baddbmm"], added_product),
    "constant_pad_nd": padded,
    "pad": padded,
    "neg": lambda c, node, x: scaled(c, node, x, -1.0),
    **dict.fromkeys(["pow", "square"], power),
    "sub": subtract,
    "rsub": subtracted,
    **dict.fromkeys(["lt", "le", "gt", "ge"], compared_with_range),
    **dict.fromkeys(["logical_not", "bitwise_not"], inverted),
    **dict.fromkeys(["logical_and", "bitwise_and", "__and__"], both),
    "where": chosen,
    "masked_fill": filled,
    "cross_entropy_loss": cross_entropy,
    "mse_loss": compared("mse"),
    "binary_cross_entropy_with_logits": compared("bce"),
}
