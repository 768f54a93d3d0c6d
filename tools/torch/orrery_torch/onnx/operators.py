"""What ONNX's operators compute, in PyTorch. One that has no row here is opaque."""

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Value = Any  # a tensor, a number in place of a constant that is one, or None: not given


class Beyond(Exception):
    """A way of the operator that PyTorch has no function for: opaque, like an operator without a row."""


class Node:
    """A node with its attributes, and its inputs that are whole numbers known without data."""

    def __init__(self, op: str, attributes: dict[str, Any], opset: int) -> None:
        self.op, self.attributes, self.opset = op, attributes, opset
        self.given: set[int] = set()  # inputs that there are
        self.known: dict[int, list[Any]] = {}

    def __call__(self, name: str, otherwise: Any = None) -> Any:
        return self.attributes.get(name, otherwise)

    def numbers(self, name: str, i: int) -> list[int] | None:
        """What newer operators take as input i and older ones as an attribute; None: not given."""
        if name in self.attributes:
            return list(self.attributes[name])
        if i in self.given and i not in self.known:
            raise Beyond(f"{name}: data")
        return self.known.get(i)


Function = Callable[..., Any]


# ---- shapes ----


def reshape(n: Node, x: Tensor, *_: Value) -> Tensor:
    sizes = n.numbers("shape", 1) or []
    if not n("allowzero", 0):
        sizes = [x.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    return x.reshape(sizes)


def flatten(n: Node, x: Tensor) -> Tensor:
    axis = n("axis", 1)
    if not -x.dim() <= axis <= x.dim():
        raise ValueError(f"axis {axis} of {x.dim()} dimensions")
    axis += x.dim() if axis < 0 else 0
    return x.reshape(math.prod(x.shape[:axis]), -1)


def squeeze(n: Node, x: Tensor, *_: Value) -> Tensor:
    axes = n.numbers("axes", 1)
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


def unsqueeze(n: Node, x: Tensor, *_: Value) -> Tensor:
    axes = n.numbers("axes", 1) or []
    total = torch.as_tensor(x).dim() + len(axes)
    if any(not -total <= axis < total for axis in axes):
        raise ValueError(f"axes {axes} of {total} dimensions")
    for axis in sorted(axis % total for axis in axes):
        x = torch.as_tensor(x).unsqueeze(axis)
    return x


def transpose(n: Node, x: Tensor) -> Tensor:
    order = n("perm", list(range(x.dim()))[::-1])
    return x.t() if order == [1, 0] else x.permute(order)


def expand(n: Node, x: Value, *_: Value) -> Tensor:
    x = torch.as_tensor(x)
    return x.expand(torch.broadcast_shapes(x.shape, n.numbers("shape", 1) or []))


def slice_(n: Node, x: Tensor, *_: Value) -> Tensor:
    starts, ends = n.numbers("starts", 1), n.numbers("ends", 2)
    axes, steps = n.numbers("axes", 3), n.numbers("steps", 4)
    for i, (begin, end) in enumerate(zip(starts or [], ends or [])):
        axis, step = axes[i] if axes else i, steps[i] if steps else 1
        if step < 0:
            begin, end, _ = slice(begin, end, step).indices(x.shape[axis])
            places = torch.arange(begin, end, step)
            x = x.index_select(axis, places)
        else:
            x = x[(slice(None),) * (axis % x.dim()) + (slice(begin, end, step),)]
    return x


def split(n: Node, x: Tensor, *_: Value) -> tuple[Tensor, ...]:
    axis, sizes = n("axis", 0), n.numbers("split", 1)
    if sizes is None:
        parts = n("num_outputs", n("outputs"))
        return x.split(-(-x.shape[axis] // parts), axis)
    return x.split(sizes, axis)


def gather(n: Node, x: Tensor, ids: Value) -> Tensor:
    axis = n("axis", 0)
    if isinstance(ids, int) or (1 in n.known and not torch.as_tensor(ids).dim()):
        return x.select(axis, int(ids) if isinstance(ids, int) else n.known[1][0])
    if axis == 0 and x.dim() == 2 and x.is_floating_point():
        return F.embedding(ids, x)
    before, after = x.shape[: axis % x.dim()], x.shape[axis % x.dim() + 1 :]
    return x.index_select(axis, ids.flatten()).reshape(*before, *ids.shape, *after)


def padded(n: Node, x: Tensor, *more: Value) -> Tensor:
    pads, axes = n.numbers("pads", 1) or [], n.known.get(3, list(range(x.dim())))
    both = [0] * (2 * x.dim())
    for i, axis in enumerate(axes):
        at = 2 * (x.dim() - 1 - axis % x.dim())
        both[at], both[at + 1] = pads[i], pads[i + len(axes)]
    value = n("value", more[1] if len(more) > 1 and more[1] is not None else 0.0)
    mode = n("mode", "constant")
    if mode != "constant":
        while len(both) > 2 and both[-2:] == [0, 0]:
            both = both[:-2]
    return F.pad(x, both, mode={"edge": "replicate", "wrap": "circular"}.get(mode, mode), value=value)


def one_hot(n: Node, ids: Tensor, depth: Value, values: Value) -> Tensor:
    return torch.where(F.one_hot(ids, int(n.known[1][0])).bool(), values[1], values[0])


# ---- products, and what has parameters ----


def gemm(n: Node, a: Tensor, b: Tensor, c: Value = None) -> Tensor:
    a = a.t() if n("transA", 0) else a
    alpha, beta = n("alpha", 1.0), n("beta", 1.0)
    turned = b if n("transB", 0) else b.t()
    if alpha == beta == 1 and (c is None or (isinstance(c, Tensor) and c.dim() == 1)):
        return F.linear(a, turned, c)
    y = torch.matmul(a, turned.t())
    y = y if alpha == 1 else y * alpha
    return y if c is None else y + (c if beta == 1 else c * beta)


def matmul(n: Node, a: Tensor, b: Tensor, bias: Value = None) -> Tensor:
    return torch.matmul(a, b) if bias is None else F.linear(a, b.t(), bias)


def window(n: Node, x: Tensor, kernel: list[int]) -> tuple[Tensor, dict[str, Any], list[int]]:
    """Strides, dilations, and the padding that both sides have; what one side has alone is put
    around x before."""
    d = len(kernel)
    strides, dilations = n("strides", [1] * d), n("dilations", [1] * d)
    pads, auto = n("pads", [0] * 2 * d), n("auto_pad", "NOTSET")
    if min(strides) < 1 or min(dilations) < 1:
        raise ValueError("strides and dilations are 1 or more")
    if auto.startswith("SAME"):
        most = [
            max((-(-size // s) - 1) * s + (k - 1) * g + 1 - size, 0)
            for size, s, k, g in zip(x.shape[2:], strides, kernel, dilations)
        ]
        less, more = [m // 2 for m in most], [m - m // 2 for m in most]
        pads = less + more if auto == "SAME_UPPER" else more + less
    if pads[:d] != pads[d:]:
        around = [p for i in reversed(range(d)) for p in (pads[i], pads[i + d])]
        lowest = 0.0 if n.op != "MaxPool" else -math.inf
        x, pads = F.pad(x, around, value=lowest), [0] * 2 * d
    return x, {"stride": strides, "padding": pads[:d]}, dilations


def conv(n: Node, x: Tensor, weight: Tensor, bias: Value = None) -> Tensor:
    d = weight.dim() - 2
    x, says, dilation = window(n, x, list(weight.shape[2:]))
    function = (F.conv1d, F.conv2d, F.conv3d)[d - 1]
    return function(x, weight, bias, dilation=dilation, groups=n("group", 1), **says)


def conv_transpose(n: Node, x: Tensor, weight: Tensor, bias: Value = None) -> Tensor:
    d = weight.dim() - 2
    pads = n("pads", [0] * 2 * d)
    if pads[:d] != pads[d:] or n("auto_pad", "NOTSET") != "NOTSET" or n("output_shape"):
        raise Beyond("a transposed convolution with such padding")
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[d - 1]
    return function(
        x, weight, bias, n("strides", [1] * d), pads[:d], n("output_padding", [0] * d),
        n("group", 1), n("dilations", [1] * d),
    )  # fmt: skip


def pool(n: Node, x: Tensor) -> Tensor:
    kernel = n("kernel_shape")
    average = n.op == "AveragePool"
    d, pads = len(kernel), n("pads")
    if average and pads and pads[: len(kernel)] != pads[len(kernel) :] and not n("count_include_pad"):
        raise Beyond("an average that leaves out the padding of one side")
    x, says, dilation = window(n, x, kernel)
    says["ceil_mode"] = bool(n("ceil_mode", 0))
    if average:
        function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[d - 1]
        if any(says["padding"]):
            says["count_include_pad"] = bool(n("count_include_pad", 0))
        return function(x, kernel, **says)
    if dilation != [1] * d:
        says["dilation"] = dilation
    return (F.max_pool1d, F.max_pool2d, F.max_pool3d)[d - 1](x, kernel, **says)


def global_pool(n: Node, x: Tensor) -> Tensor:
    if n.op == "GlobalMaxPool":
        return x.amax(tuple(range(2, x.dim())), keepdim=True)
    if x.dim() == 4:
        return F.adaptive_avg_pool2d(x, 1)
    return x.mean(tuple(range(2, x.dim())), keepdim=True)


def batch_norm(n: Node, x: Tensor, gain: Any, bias: Any, mean: Any, variance: Any) -> Tensor:
    """Exported or not to be used: here it is to be trained."""
    return F.batch_norm(
        x, mean, variance, gain, bias, True, 1 - n("momentum", 0.9), n("epsilon", 1e-5)
    )


def layer_norm(n: Node, x: Tensor, gain: Value, bias: Value = None) -> Tensor:
    axis = n("axis", -1) % x.dim()
    return F.layer_norm(x, x.shape[axis:], gain, bias, n("epsilon", 1e-5))


def group_norm(n: Node, x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    groups = n("num_groups")
    if len(gain) != x.shape[1]:
        raise Beyond("gains of groups")
    return F.group_norm(x, groups, gain, bias, n("epsilon", 1e-5))


def dropout(n: Node, x: Tensor, rate: Value = 0.5, training: Value = False) -> Tensor:
    """As it says: what is exported to be used drops nothing."""
    return F.dropout(x, n("ratio", rate), True) if training else x


def attention(n: Node, q: Tensor, k: Tensor, v: Tensor, mask: Value = None, *more: Value) -> Tensor:
    if q.dim() != 4 or n("softcap", 0) or any(m is not None for m in more):
        raise Beyond("attention of this kind")
    causal = bool(n("is_causal", 0))
    return F.scaled_dot_product_attention(
        q, k, v, mask, 0.0, causal, scale=n("scale"), enable_gqa=q.shape[1] != k.shape[1]
    )


def normalise(n: Node, x: Tensor) -> Tensor:
    return F.normalize(x, n("p", 2), n("axis", -1))


# ---- element by element, and over rows ----


def reduced(function: Function) -> Function:
    def run(n: Node, x: Tensor, *_: Value) -> Tensor:
        axes = n.numbers("axes", 1)
        if not axes and n("noop_with_empty_axes", 0):
            return x
        return function(x, axes or list(range(x.dim())), bool(n("keepdims", 1)))

    return run


def product_of(x: Tensor, axes: list[int], keep: bool) -> Tensor:
    for axis in sorted((axis % x.dim() for axis in axes), reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


def best(function: Function) -> Function:
    def run(n: Node, x: Tensor) -> Tensor:
        return function(x, n("axis", 0), bool(n("keepdims", 1)))

    return run


def along(function: Function) -> Function:
    """Over the last dimensions of older operators, over one of newer ones."""

    def run(n: Node, x: Tensor) -> Tensor:
        if n.opset >= 13:
            return function(x, n("axis", -1))
        axis = n("axis", 1) % x.dim()
        if axis == x.dim() - 1:
            return function(x, -1)
        return function(x.flatten(axis), -1).reshape(x.shape)

    return run


def each(function: Function) -> Function:
    """Of tensors, and of numbers in their place."""
    return lambda n, *x: function(*x)


def tensors(function: Function) -> Function:
    return lambda n, *x: function(*map(torch.as_tensor, x))


def folded(function: Function) -> Function:
    return lambda n, *x: reduce(lambda a, b: function(torch.as_tensor(a), torch.as_tensor(b)), x)


def divide(n: Node, a: Value, b: Value) -> Value:
    whole = all(isinstance(x, int) or (isinstance(x, Tensor) and not x.is_floating_point()) for x in (a, b))
    return torch.div(torch.as_tensor(a), b, rounding_mode="trunc") if whole else a / b


def clip(n: Node, x: Tensor, least: Value = None, most: Value = None) -> Tensor:
    return torch.clamp(x, n("min", least), n("max", most))


def cast(n: Node, x: Value) -> Tensor:
    x, kind = torch.as_tensor(x), n("to")
    if x.is_floating_point() and kind.is_floating_point:
        return x  # floats are floats here
    return x.to(torch.float32 if kind.is_floating_point else kind)


def trilu(n: Node, x: Tensor, *_: Value) -> Tensor:
    k = (n.known.get(1) or [0])[0]
    return torch.triu(x, k) if n("upper", 1) else torch.tril(x, k)


def cross_entropy(n: Node, x: Tensor, y: Tensor, weight: Value = None) -> Tensor:
    function = F.cross_entropy if n.op == "SoftmaxCrossEntropyLoss" else F.nll_loss
    return function(
        x, y, weight, ignore_index=n("ignore_index", -100), reduction=n("reduction", "mean")
    )


def constant_of_shape(n: Node, _: Value) -> Tensor:
    value = n("value", torch.zeros(1))
    return torch.full(tuple(n.known[0]), value.item(), dtype=value.dtype)


FUNCTIONS: dict[str, Function] = {
    "Add": each(operator.add),
    "And": tensors(torch.logical_and),
    "ArgMax": best(torch.argmax),
    "ArgMin": best(torch.argmin),
    "Attention": attention,
    "AveragePool": pool,
    "BatchNormalization": batch_norm,
    "Cast": cast,
    "Clip": clip,
    "Concat": lambda n, *x: torch.cat([torch.as_tensor(t) for t in x], n("axis", 1)),
    "ConstantOfShape": constant_of_shape,
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "CumSum": lambda n, x, axis: torch.cumsum(x, n.known[1][0]),
    "Div": divide,
    "Dropout": dropout,
    "Elu": lambda n, x: F.elu(x, n("alpha", 1.0)),
    "Equal": tensors(torch.eq),
    "Expand": expand,
    "Flatten": flatten,
    "Gather": gather,
    "GatherElements": lambda n, x, ids: torch.gather(x, n("axis", 0), ids),
    "Gelu": lambda n, x: F.gelu(x, approximate=n("approximate", "none")),
    "Gemm": gemm,
    "GlobalAveragePool": global_pool,
    "GlobalMaxPool": global_pool,
    "Greater": each(operator.gt),
    "GreaterOrEqual": each(operator.ge),
    "GroupNormalization": group_norm,
    "Identity": lambda n, x: x,
    "InstanceNormalization": lambda n, x, g, b: F.instance_norm(x, None, None, g, b, eps=n("epsilon", 1e-5)),
    "IsInf": tensors(torch.isinf),
    "IsNaN": tensors(torch.isnan),
    "LayerNormalization": layer_norm,
    "LeakyRelu": lambda n, x: F.leaky_relu(x, n("alpha", 0.01)),
    "Less": each(operator.lt),
    "LessOrEqual": each(operator.le),
    "LogSoftmax": along(torch.log_softmax),
    "LpNormalization": normalise,
    "MatMul": matmul,
    "Max": folded(torch.maximum),
    "MaxPool": pool,
    "Mean": lambda n, *x: reduce(operator.add, x) / len(x),
    "Min": folded(torch.minimum),
    "Mod": tensors(torch.remainder),
    "Mul": each(operator.mul),
    "Neg": each(operator.neg),
    "NegativeLogLikelihoodLoss": cross_entropy,
    "NonZero": lambda n, x: torch.nonzero(torch.as_tensor(x)).t(),
    "Not": tensors(torch.logical_not),
    "OneHot": one_hot,
    "Or": tensors(torch.logical_or),
    "PRelu": lambda n, x, slope: torch.where(x > 0, x, x * slope),
    "Pad": padded,
    "Pow": each(operator.pow),
    "RMSNormalization": lambda n, x, gain: F.rms_norm(x, x.shape[n("axis", -1) % x.dim() :], gain, n("epsilon", 1e-5)),
    "Range": lambda n, a, b, step: torch.arange(*(float(t) if isinstance(t, float) else int(t) for t in (a, b, step))),
    "ReduceL1": reduced(lambda x, axes, keep: x.abs().sum(axes, keepdim=keep)),
    "ReduceL2": reduced(lambda x, axes, keep: torch.linalg.vector_norm(x, 2, axes, keep)),
    "ReduceMax": reduced(lambda x, axes, keep: x.amax(axes, keepdim=keep)),
    "ReduceMean": reduced(lambda x, axes, keep: x.mean(axes, keepdim=keep)),
    "ReduceMin": reduced(lambda x, axes, keep: x.amin(axes, keepdim=keep)),
    "ReduceProd": reduced(product_of),
    "ReduceSum": reduced(lambda x, axes, keep: x.sum(axes, keepdim=keep)),
    "ReduceSumSquare": reduced(lambda x, axes, keep: x.square().sum(axes, keepdim=keep)),
    "Reshape": reshape,
    "ScatterElements": lambda n, x, ids, value: x.scatter(n("axis", 0), ids, value),
    "ScatterND": lambda n, x, ids, value: x.index_put(tuple(ids.unbind(-1)), value),
    "Slice": slice_,
    "Softmax": along(torch.softmax),
    "SoftmaxCrossEntropyLoss": cross_entropy,
    "Split": split,
    "Squeeze": squeeze,
    "Sub": each(operator.sub),
    "Sum": lambda n, *x: reduce(operator.add, x),
    "Tile": lambda n, x, _: x.repeat(n.known[1]),
    "TopK": lambda n, x, _: tuple(torch.topk(x, n.known[1][0], n("axis", -1))),
    "Transpose": transpose,
    "Trilu": trilu,
    "Unsqueeze": unsqueeze,
    "Where": lambda n, mask, yes, no: torch.where(torch.as_tensor(mask), yes, no),
    "Xor": tensors(torch.logical_xor),
    **{
        name: tensors(function)
        for name, function in {
            "Abs": torch.abs, "Ceil": torch.ceil, "Cos": torch.cos, "Erf": torch.erf, "Exp": torch.exp,
            "Floor": torch.floor, "HardSigmoid": F.hardsigmoid, "HardSwish": F.hardswish, "Log": torch.log,
            "Mish": F.mish, "Reciprocal": torch.reciprocal, "Relu": torch.relu, "Round": torch.round,
            "Selu": F.selu, "Sigmoid": torch.sigmoid, "Sign": torch.sign, "Silu": F.silu, "Sin": torch.sin,
            "Softplus": F.softplus, "Softsign": F.softsign, "Sqrt": torch.sqrt, "Swish": F.silu,
            "Tanh": torch.tanh,
        }.items()
    },
}  # fmt: skip
