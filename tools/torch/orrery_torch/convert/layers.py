"""Calls with parameters, and those on images."""

from dataclasses import replace
from typing import Any

import torch

from .attention import Scores, products, times
from .elements import add, multiply, positions
from .emitter import Emitter
from .layout import atom, joined, of_kind, reshaped, sizes, whole
from .losses import EachRow, mean_of_rows, pairs
from ..trace.trace import say
from .values import CONSTANT, SQUARE, Held, Like, Rows, require, shape_of


def biased(weight: Held, bias: Any, **says: Any) -> tuple[dict[str, Held], dict[str, Any]]:
    """The tensors of an operator, and what it says."""
    return ({"weight": weight, "bias": bias}, says) if bias else ({"weight": weight}, says | {"bias": "false"})


def linear(c: Emitter, x: Rows, weight: Any, bias: Any = None) -> Rows:
    require(isinstance(x, Rows) and isinstance(weight, Held), "weights that are data")
    require(bias is None or isinstance(bias, Held), "a bias that is data")
    x.columns_last()
    features = weight.tensor.shape[0]
    if bias and not c.alone(weight):  # the one is shared, the other is not
        return positions(c, linear(c, x, weight), bias)
    tensors, says = biased(weight, bias, features=features)
    name = c.emit("linear", [x], tensors, **says)
    return Rows(name, (*x.axes[:-1], atom("c", features)), x.rows, features)


def product(c: Emitter, x: Any, y: Any) -> Any:
    if isinstance(y, Held) and isinstance(x, Rows):
        return linear(c, x, y.turn())
    if isinstance(x, Rows) and isinstance(y, Rows) and len(x.axes) == len(y.axes) == 2:
        return pairs(c, x, y)
    require(isinstance(x, (Rows, Scores)) and isinstance(y, Rows), "a product of this kind")
    if isinstance(x, Scores) and y.factor != 1:  # of values, after all
        y = replace(y, name=c.emit("scale", [y], factor=y.factor), factor=1.0)
    return products(c, x, y)


def added_product(c: Emitter, bias: Any, x: Any, y: Any, beta: float = 1, alpha: float = 1) -> Any:
    """beta bias + alpha x @ y."""
    if isinstance(y, Held):
        require(beta == alpha == 1, "a factor in a sum")
        return linear(c, x, y.turn(), bias)
    found = product(c, x, y)
    found = times(found, alpha) if isinstance(found, Scores) else found
    return found if beta == 0 else add(c, found, bias)


def embedding(c: Emitter, weight: Any, x: Any, padding: int = -1, *_: Any) -> Rows:
    require(isinstance(weight, Held) and isinstance(x, Rows), "a look-up of this kind")
    if padding >= 0 and weight.tensor.requires_grad:
        say(f"{weight.name}: Orrery trains the row of padding_idx={padding} like any other")
    require(x.columns == 1, "ids that are not one in a row")
    vocabulary, features = weight.tensor.shape
    says = {"vocabulary": vocabulary, "features": features}
    name = c.emit("embedding", [x], {"weight": weight}, **says)
    return Rows(name, (*x.axes, atom("c", features)), x.rows, features)


def layer_norm(c: Emitter, x: Rows, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Rows:
    require(isinstance(x, Rows) and len(shape) == 1, "a layer norm of several dimensions")
    x.columns_last()
    if weight is None or bias is None:  # a norm that learns nothing, and what is learned of it
        plain = {"gain": of_ones(x), "bias": Held(CONSTANT, torch.zeros(x.columns))}
        y = c.alike("layernorm", [x], plain, epsilon=eps)
        return y if weight is None else multiply(c, y, weight)
    return c.alike("layernorm", [x], {"gain": weight, "bias": bias}, epsilon=eps)


def of_ones(x: Rows) -> Held:
    return Held(CONSTANT, torch.ones(x.columns))


def rms_norm(c: Emitter, x: Rows, shape: Any, weight: Any = None, eps: Any = None) -> Rows:
    require(isinstance(x, Rows) and len(shape) == 1, "an rms norm of several dimensions")
    x.columns_last()
    weight = of_ones(x) if weight is None else weight
    epsilon = torch.finfo(torch.float32).eps if eps is None else eps
    return c.alike("rmsnorm", [x], {"gain": weight}, epsilon=epsilon)


def channels_second(x: Rows) -> None:
    require(len(x.axes) > 1 and whole(x.axes[1], "c"), "channels that are not columns")
    require(sizes(x.axes)[1] == x.columns, "channels that are not columns")


def group_norm(c: Emitter, x: Rows, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any) -> Rows:
    require(weight is not None and bias is not None, "a group norm without gain and bias")
    channels_second(x)
    tensors = {"gain": weight, "bias": bias}
    return c.alike("groupnorm", [x], tensors, groups=groups, epsilon=eps)


def batch_norm(
    c: Emitter, x: Rows, weight: Any, bias: Any, mean: Any, variance: Any,
    training: bool, momentum: float, eps: float, *_: Any,
) -> Rows:  # fmt: skip
    require(all(isinstance(t, Held) for t in (weight, bias, mean, variance)), "no running means")
    require(training, "a batch norm by its running means: train() the model")
    channels_second(x)
    tensors = {"gain": weight, "bias": bias, "mean": mean, "variance": variance}
    return c.alike("batchnorm", [x], tensors, epsilon=eps, momentum=momentum)


# ---- images ----


def one(value: Any, what: str) -> int:
    numbers = set(value) if isinstance(value, (list, tuple)) else {value}
    require(len(numbers) == 1, f"a {what} that differs in height and width")
    return int(numbers.pop())


def windowed(c: Emitter, x: Rows, op: str, tensors: Any, says: Any) -> Rows:
    """Over an image: samples, channels, height, width."""
    channels_second(x)
    require(len(x.axes) == 4 and joined(x.axes[2] + x.axes[3]) == of_kind(x.axes, "r"), "no image")
    _, features, height, width = shape_of(c.node)
    if sizes(x.axes)[2] ** 2 != x.rows:
        says["image_height"] = sizes(x.axes)[2]
    name = c.emit(op, [x], tensors, **says)
    whole_image = (atom("n", shape_of(c.node)[0]), atom("c", features), atom("r", height * width))
    axes = reshaped(whole_image, shape_of(c.node))
    return Rows(name, axes, height * width, features)


def convolution(
    weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1, **more: Any
) -> tuple[dict[str, Held], dict[str, Any]]:
    """Its tensors, and what it says."""
    require(isinstance(weight, Held) and not isinstance(padding, str), "a convolution of this kind")
    require(one(dilation, "dilation") == 1, "a dilated convolution")
    says = {"features": weight.tensor.shape[0], "kernel": one(weight.tensor.shape[2:], "kernel")}
    says |= {"stride": one(stride, "stride"), "padding": one(padding, "padding"), "groups": groups}
    return biased(weight, bias, **says, **more)


def conv2d(c: Emitter, x: Rows, *how: Any, **more: Any) -> Rows:
    return windowed(c, x, "conv2d", *convolution(*how, **more))


def conv1d(c: Emitter, x: Rows, *how: Any, **more: Any) -> Rows:
    """An image one pixel high, by a square kernel: the rows beside its middle one read padding alone,
    so they begin with 0 and have no gradient."""
    tensors, says = convolution(*how, **more, image_height=1)
    half = says["kernel"] == 2 * says["padding"] + 1
    require(half, "a convolution of one dimension without half its kernel around")
    channels_second(x)
    require(len(x.axes) == 3 and whole(x.axes[2], "r"), "rows that are not the last dimension")
    _, features, length = shape_of(c.node)
    name = c.emit("conv2d", [x], tensors | {"weight": replace(tensors["weight"], how=SQUARE)}, **says)
    return Rows(name, (x.axes[0], atom("c", features), atom("r", length)), length, features)


def pool(op: str) -> Like:
    def like(c: Emitter, x: Rows, kernel: Any, stride: Any = None, padding: Any = 0, *more: Any) -> Rows:
        require(all(m in (1, [1, 1], False, True, None) for m in more), "a pool of this kind")
        given = {"kernel": kernel, "stride": stride or kernel, "padding": padding}
        says = {name: one(value, name) for name, value in given.items()}
        found = windowed(c, x, op, None, dict(says))
        sides = [(n + 2 * says["padding"] - says["kernel"]) // says["stride"] + 1 for n in sizes(x.axes)[2:]]
        require(sides == shape_of(c.node)[2:], "a window over the edge, by ceil_mode=True")
        counts = op == "max_pool" or not says["padding"] or False not in more[1:2]
        require(counts, "a mean that leaves out its padding, by count_include_pad=False")
        return found

    return like


def mean_of_all(c: Emitter, x: Rows, size: Any) -> Rows:
    require(one(size, "size") == 1, "an adaptive pool to more than one place")
    channels_second(x)
    name = c.emit("mean", [x]) if x.rows > 1 else x.name
    return Rows(name, (*x.axes[:2], (), ()), 1, x.columns)


def mean(c: Emitter, x: Any, dims: Any = None, keep: bool = False, **_: Any) -> Any:
    if isinstance(x, EachRow):
        require(dims is None, "a mean of other than all")
        return mean_of_rows(c, x)
    require(dims is not None, "a mean over samples")
    over = sorted(d % len(x.axes) for d in dims)
    read = joined(sum((x.axes[d] for d in over), ()))
    require(
        whole(read, "r") and sum(a.size for a in read) == x.rows, "a mean of other than all rows"
    )
    axes = tuple(
        () if i in over else axis for i, axis in enumerate(x.axes) if keep or i not in over
    )
    return Rows(c.emit("mean", [x]), axes, 1, x.columns)
