"""What each operator of Orrery computes, in PyTorch.

A tensor is samples x rows x columns. A function gets the operator and its inputs, and returns the
output or, of a loss, the mean over the samples.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .draws import kept


@dataclass
class Operator:
    name: str
    op: str
    inputs: list[str]
    attributes: dict[str, Any]
    shape: tuple[int, int]  # rows and columns of its output
    input_shapes: list[tuple[int, int]]
    detached: list[bool]  # of each input: no gradient goes back
    number: int  # among the operators of the graph
    holder: nn.Module  # of its parameters and running means
    frozen: bool

    @property
    def own(self) -> dict[str, Any]:
        return {**self.holder._parameters, **self.holder._buffers}


@dataclass
class Pass:
    """What operators need to know of the pass that they are in."""

    training: bool = False
    microbatches: int = 1
    seed: int = 1
    step: int = 0


def to_image(x: Tensor, o: Operator) -> Tensor:
    """Pixels x channels to channels x height x width."""
    pixels, channels = o.input_shapes[0]
    height = o.attributes.get("image_height") or round(pixels**0.5)
    return x.transpose(1, 2).reshape(-1, channels, int(height), pixels // int(height))


def from_image(x: Tensor) -> Tensor:
    return x.flatten(2).transpose(1, 2)


def linear(o: Operator, p: Pass, x: Tensor) -> Tensor:
    return F.linear(x, o.own["weight"], o.own.get("bias"))


def layernorm(o: Operator, p: Pass, x: Tensor) -> Tensor:
    epsilon = o.attributes.get("epsilon", 1e-5)
    return F.layer_norm(x, x.shape[2:], o.own["gain"], o.own["bias"], epsilon)


def rmsnorm(o: Operator, p: Pass, x: Tensor) -> Tensor:
    return F.rms_norm(x, x.shape[2:], o.own["gain"], o.attributes.get("epsilon", 1e-5))


def groupnorm(o: Operator, p: Pass, x: Tensor) -> Tensor:
    groups, epsilon = int(o.attributes["groups"]), o.attributes.get("epsilon", 1e-5)
    y = F.group_norm(x.transpose(1, 2), groups, o.own["gain"], o.own["bias"], epsilon)
    return y.transpose(1, 2)


def batchnorm(o: Operator, p: Pass, x: Tensor) -> Tensor:
    """Statistics of each microbatch, and running ones, which a step moves by the mean of those."""
    epsilon, momentum = o.attributes.get("epsilon", 1e-5), o.attributes.get("momentum", 0.1)
    gain, bias, running = o.own["gain"], o.own["bias"], (o.own["mean"], o.own["variance"])
    if not p.training:
        return (x - running[0]) * torch.rsqrt(running[1] + epsilon) * gain + bias
    parts = x.tensor_split(p.microbatches)
    outputs, sums = [], [torch.zeros_like(r) for r in running]
    for part in parts:
        variance, mean = torch.var_mean(part, dim=(0, 1), correction=0)
        outputs.append((part - mean) * torch.rsqrt(variance + epsilon) * gain + bias)
        rows = part.shape[0] * part.shape[1]
        unbiased = variance.detach() * (rows / max(rows - 1, 1))
        for total, value in zip(sums, (mean.detach(), unbiased)):
            total += value * (part.shape[0] / x.shape[0])
    for average, total in zip(running, sums):
        if not o.frozen:
            average.lerp_(total, momentum)
    return torch.cat(outputs)


def embedding(o: Operator, p: Pass, x: Tensor) -> Tensor:
    return F.embedding(x.squeeze(2).long(), o.own["weight"])


def bag(o: Operator, p: Pass, x: Tensor) -> Tensor:
    there = (x >= 0).transpose(1, 2)  # samples x ids x 1
    rows = F.embedding(x.squeeze(1).long().clamp(min=0), o.own["weight"]) * there
    total = rows.sum(1, keepdim=True)
    if o.attributes.get("mode", "sum") == "mean":
        total = total / there.sum(1, keepdim=True).clamp(min=1)
    return total


def positions(o: Operator, p: Pass, x: Tensor) -> Tensor:
    return x + o.own["weight"]


def heads(x: Tensor, n: int) -> Tensor:
    """Samples x rows x columns to samples x heads x rows x columns of a head."""
    return x.unflatten(2, (n, -1)).transpose(1, 2)


def rotary(o: Operator, p: Pass, x: Tensor) -> Tensor:
    n, base = int(o.attributes["heads"]), o.attributes.get("base", 10000)
    y = heads(x, n)
    half = y.shape[3] // 2
    rates = base ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
    angles = torch.arange(y.shape[2], dtype=torch.float64, device=x.device)[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    low, high = y[..., :half], y[..., half:]
    y = torch.cat([low * cos - high * sin, high * cos + low * sin], 3)
    return y.transpose(1, 2).flatten(2)


def attention(o: Operator, p: Pass, q: Tensor, k: Tensor, v: Tensor, *lengths: Tensor) -> Tensor:
    n = int(o.attributes["heads"])
    n_kv = int(o.attributes.get("kv_heads") or n)
    mask = None
    if lengths:
        keys = torch.arange(k.shape[1], device=k.device)
        mask = (keys < lengths[0])[:, None]  # samples x 1 x 1 x keys
        if o.attributes.get("causal"):
            rows = torch.arange(q.shape[1], device=q.device)
            mask = mask & (keys <= rows[:, None])
    y = F.scaled_dot_product_attention(
        heads(q, n),
        heads(k, n_kv),
        heads(v, n_kv),
        attn_mask=mask,
        is_causal=bool(o.attributes.get("causal")) and mask is None,
        enable_gqa=n_kv != n,
    )
    return y.transpose(1, 2).flatten(2)


def add(o: Operator, p: Pass, *xs: Tensor) -> Tensor:
    return sum(xs[1:], xs[0])


def multiply(o: Operator, p: Pass, *xs: Tensor) -> Tensor:
    return prod(xs[1:], start=xs[0])


def scale(o: Operator, p: Pass, x: Tensor) -> Tensor:
    return x * o.attributes["factor"]


def dropout(o: Operator, p: Pass, x: Tensor) -> Tensor:
    rate = o.attributes["rate"]
    if not p.training or rate == 0:
        return x
    samples = torch.arange(len(x)) + p.step * len(x)  # since training began
    mask = kept(p.seed, o.number, samples, x[0].numel(), rate).view_as(x)
    return x * mask * (1 / (1 - rate))


def cut(o: Operator, p: Pass, x: Tensor) -> Tensor:
    row, column = (int(str(o.attributes[key]).split(":")[0] or 0) for key in ("rows", "columns"))
    return x[:, row : row + o.shape[0], column : column + o.shape[1]]


def concat(o: Operator, p: Pass, *xs: Tensor) -> Tensor:
    return torch.cat(xs, 1 if o.attributes.get("axis") == "rows" else 2)


def normalise(o: Operator, p: Pass, x: Tensor) -> Tensor:
    return F.normalize(x, dim=2, eps=o.attributes.get("epsilon", 1e-12))


def interaction(o: Operator, p: Pass, *xs: Tensor) -> Tensor:
    x = torch.cat(xs, 1)
    i, j = torch.tril_indices(x.shape[1], x.shape[1], -1, device=x.device)
    return (x @ x.transpose(1, 2))[:, i, j].unsqueeze(1)


def conv2d(o: Operator, p: Pass, x: Tensor) -> Tensor:
    stride, padding, groups = (
        int(o.attributes.get(key, value))
        for key, value in (("stride", 1), ("padding", 0), ("groups", 1))
    )
    weight, bias = o.own["weight"], o.own.get("bias")
    return from_image(F.conv2d(to_image(x, o), weight, bias, stride, padding, groups=groups))


def window(o: Operator) -> tuple[int, int, int]:
    kernel = int(o.attributes["kernel"])
    return kernel, int(o.attributes["stride"]) or kernel, int(o.attributes["padding"])


def max_pool(o: Operator, p: Pass, x: Tensor) -> Tensor:
    return from_image(F.max_pool2d(to_image(x, o), *window(o)))


def mean_pool(o: Operator, p: Pass, x: Tensor) -> Tensor:
    return from_image(F.avg_pool2d(to_image(x, o), *window(o)))


def patches(o: Operator, p: Pass, x: Tensor) -> Tensor:
    size, image = int(o.attributes["size"]), to_image(x, o)
    y = image.unflatten(3, (-1, size)).unflatten(2, (-1, size))  # n, c, down, row, across, column
    return y.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)


def classes_of(target: Tensor) -> Tensor:
    return target.squeeze(2).long()


def softmax_cross_entropy(o: Operator, p: Pass, scores: Tensor, target: Tensor) -> Tensor:
    classes = classes_of(target)
    ignore = o.attributes.get("ignore")
    there = torch.ones_like(classes, dtype=torch.bool) if ignore is None else classes != ignore
    losses = F.cross_entropy(
        scores.transpose(1, 2),
        classes.where(there, -100),
        reduction="none",
        label_smoothing=o.attributes.get("smoothing", 0.0),
    )
    return (losses.sum(1) / there.sum(1).clamp(min=1)).mean()


def mse(o: Operator, p: Pass, x: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(x, target)


def bce(o: Operator, p: Pass, x: Tensor, target: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(x, target)


def contrastive(o: Operator, p: Pass, x: Tensor, y: Tensor) -> Tensor:
    scores = x.squeeze(1) @ y.squeeze(1).T * o.own["temperature"].exp()
    pairs = torch.arange(len(scores), device=scores.device)
    return (F.cross_entropy(scores, pairs) + F.cross_entropy(scores.T, pairs)) / 2


def right(o: Operator, x: Tensor, y: Tensor) -> Tensor:
    """What a loss has classified: of each, whether it is right; mse classifies nothing."""
    if o.op == "softmax_cross_entropy":
        classes, ignore = classes_of(y), o.attributes.get("ignore")
        there = torch.ones_like(classes, dtype=torch.bool) if ignore is None else classes != ignore
        return (x.argmax(2) == classes)[there]
    if o.op == "bce":
        return ((x > 0) == (y > 0.5)).flatten()
    if o.op == "contrastive":
        return (x.squeeze(1) @ y.squeeze(1).T).argmax(1) == torch.arange(len(x), device=x.device)
    return torch.empty(0, dtype=torch.bool)


LOSSES = {
    "softmax_cross_entropy": softmax_cross_entropy,
    "mse": mse,
    "bce": bce,
    "contrastive": contrastive,
}
COMPUTE: dict[str, Callable[..., Tensor]] = {
    "linear": linear,
    "relu": lambda o, p, x: F.relu(x),
    "gelu": lambda o, p, x: F.gelu(x),
    "gelu_tanh": lambda o, p, x: F.gelu(x, approximate="tanh"),
    "silu": lambda o, p, x: F.silu(x),
    "sigmoid": lambda o, p, x: torch.sigmoid(x),
    "tanh": lambda o, p, x: torch.tanh(x),
    "layernorm": layernorm,
    "rmsnorm": rmsnorm,
    "groupnorm": groupnorm,
    "batchnorm": batchnorm,
    "embedding": embedding,
    "bag": bag,
    "positions": positions,
    "rotary": rotary,
    "attention": attention,
    "add": add,
    "multiply": multiply,
    "scale": scale,
    "dropout": dropout,
    "softmax": lambda o, p, x: torch.softmax(x, 2),
    "slice": cut,
    "concat": concat,
    "mean": lambda o, p, x: x.mean(1, keepdim=True),
    "first": lambda o, p, x: x[:, :1],
    "last": lambda o, p, x: x[:, -1:],
    "normalise": normalise,
    "interaction": interaction,
    "conv2d": conv2d,
    "max_pool": max_pool,
    "mean_pool": mean_pool,
    "patches": patches,
    **LOSSES,
}
