"""What each operator of Orrery computes, in PyTorch.

A tensor is samples x rows x columns. A function gets the operator and its inputs, and returns the
output or, of a loss, the mean over the samples.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import torch
import torch.nn.functional as F
from orrery_torch.convert.formulas import turned
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


def rows_of(o: Operator, ids: Tensor) -> Tensor:
    """Their rows of the table; of ids that it has not, zeros."""
    rows = ids.long() - int(o.attributes.get("first", 0))
    here = (rows >= 0) & (rows < int(o.attributes["vocabulary"]))
    return F.embedding(rows.where(here, 0), o.own["weight"]) * here.unsqueeze(-1)


def bag(o: Operator, p: Pass, x: Tensor) -> Tensor:
    there = (x >= 0).transpose(1, 2)  # samples x ids x 1
    total = rows_of(o, x.squeeze(1).where(there.squeeze(2), -1e9)).sum(1, keepdim=True)
    if o.attributes.get("mode", "sum") == "mean":
        total = total / there.sum(1, keepdim=True).clamp(min=1)
    return total


def heads(x: Tensor, n: int) -> Tensor:
    """Samples x rows x columns to samples x heads x rows x columns of a head."""
    return x.unflatten(2, (n, -1)).transpose(1, 2)


def rotary(o: Operator, p: Pass, x: Tensor) -> Tensor:
    n, base = int(o.attributes["heads"]), o.attributes.get("base", 10000)
    return turned(base, heads(x, n)).transpose(1, 2).flatten(2)


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


def classes_of(o: Operator, target: Tensor) -> tuple[Tensor, Tensor]:
    """Of each row, and whether it counts."""
    classes = target.squeeze(2).long()
    return classes, classes != o.attributes.get("ignore", float("nan"))


def softmax_cross_entropy(o: Operator, p: Pass, scores: Tensor, target: Tensor) -> Tensor:
    classes, there = classes_of(o, target)
    losses = F.cross_entropy(
        scores.transpose(1, 2),
        classes.where(there, -100),
        reduction="none",
        label_smoothing=o.attributes.get("smoothing", 0.0),
    )
    return (losses.sum(1) / there.sum(1).clamp(min=1)).mean()


def softmax_part(o: Operator, p: Pass, scores: Tensor, target: Tensor) -> Tensor:
    """Of each row: the largest score, its class, how many there are, the sums of their
    exponentials, the score of the row's class, and their sum."""
    first, width = int(o.attributes.get("first", 0)), scores.shape[2]
    top, at = scores.max(2, keepdim=True)
    own = target.long() - first
    here = (own >= 0) & (own < width)
    own_score = scores.gather(2, own.where(here, 0)) * here
    less = scores - top
    rest = (less.exp().sum(2, keepdim=True), own_score, less.sum(2, keepdim=True))
    return torch.cat([top, at + first, torch.full_like(top, width), *rest], 2)


def softmax_cross_entropy_parts(o: Operator, p: Pass, seen: Tensor, target: Tensor) -> Tensor:
    classes, there = classes_of(o, target)
    top, _, count, sums, own, total = seen.unflatten(2, (-1, 6)).unbind(3)
    smoothing, rest = o.attributes.get("smoothing", 0.0), int(o.attributes["classes"])
    losses = torch.logsumexp(top + sums.log(), 2) - (1 - smoothing) * own.sum(2)
    losses = losses - smoothing / rest * (total + count * top).sum(2)
    return (losses.where(there, 0.0).sum(1) / there.sum(1).clamp(min=1)).mean()


def route(o: Operator, p: Pass, x: Tensor) -> Tensor:
    """Of each of a row's choices: the expert, the place in its queue or -1, and the weight."""
    n, top = x.shape[2], int(o.attributes.get("top", 1))
    groups, capacity = int(o.attributes.get("groups", 1)), o.attributes.get("capacity", 1.25)
    rows = x.shape[1] // groups
    most = min(max(ceil(capacity * top * rows / n - 1e-9), 1), rows)
    scores, experts = x.topk(top, 2)
    weights = torch.softmax(scores, 2) if top > 1 else torch.softmax(x, 2).gather(2, experts)
    # of a group in the order of queues: first choices before second ones
    queue = F.one_hot(experts, n).unflatten(1, (groups, rows)).transpose(2, 3).flatten(2, 3)
    places = ((queue.cumsum(2) - 1) * queue).sum(3)
    places = places.unflatten(2, (top, rows)).transpose(2, 3).flatten(1, 2)
    places = places.where(places < most, -1)
    return torch.stack([experts.to(x), places.to(x), weights], 3).flatten(2)


def taken(o: Operator, route: Tensor, expert: int, rows: int) -> Tensor:
    """Samples x choices x rows x the expert's rows: 1 where a choice became one of these."""
    groups = int(o.attributes.get("groups", 1))
    experts, places, _ = route.unflatten(2, (-1, 3)).unbind(3)
    group = torch.arange(route.shape[1], device=route.device) // (route.shape[1] // groups)
    at = places.long() + group[:, None] * (rows // groups)
    here = (experts == expert) & (places >= 0) & (places < rows // groups)
    one = F.one_hot(at.where(here, 0), rows) * here.unsqueeze(3)
    return one.transpose(1, 2).to(route)


def dispatch(o: Operator, p: Pass, x: Tensor, route: Tensor) -> Tensor:
    rows = taken(o, route.detach(), int(o.attributes.get("expert", 0)), o.shape[0]).sum(1)
    return rows.transpose(1, 2) @ x


def combine(o: Operator, p: Pass, route: Tensor, *xs: Tensor) -> Tensor:
    weights = route.unflatten(2, (-1, 3))[..., 2].transpose(1, 2).unsqueeze(3)
    return sum((taken(o, route, e, x.shape[1]) * weights).sum(1) @ x for e, x in enumerate(xs))


def balance(o: Operator, p: Pass, x: Tensor, route: Tensor) -> Tensor:
    shares = F.one_hot(route[..., 0].long(), x.shape[2]).to(x).mean(1)
    return x.shape[2] * (shares * torch.softmax(x, 2).mean(1)).sum(1).mean()


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
        classes, there = classes_of(o, y)
        return (x.argmax(2) == classes)[there]
    if o.op == "softmax_cross_entropy_parts":
        classes, there = classes_of(o, y)
        parts = x.unflatten(2, (-1, 6))
        best = parts[..., 1].gather(2, parts[..., 0].argmax(2, keepdim=True))
        return (best.squeeze(2).long() == classes)[there]
    if o.op == "bce":
        return ((x > 0) == (y > 0.5)).flatten()
    if o.op == "contrastive":
        return (x.squeeze(1) @ y.squeeze(1).T).argmax(1) == torch.arange(len(x), device=x.device)
    return torch.empty(0, dtype=torch.bool)


LOSSES = {
    f.__name__: f for f in (softmax_cross_entropy, mse, bce, contrastive, softmax_cross_entropy_parts, balance)
}
COMPUTE: dict[str, Callable[..., Tensor]] = {
    "relu": lambda o, p, x: F.relu(x),
    "gelu": lambda o, p, x: F.gelu(x),
    "gelu_tanh": lambda o, p, x: F.gelu(x, approximate="tanh"),
    "silu": lambda o, p, x: F.silu(x),
    "sigmoid": lambda o, p, x: torch.sigmoid(x),
    "tanh": lambda o, p, x: torch.tanh(x),
    "positions": lambda o, p, x: x + o.own["weight"],
    "linear": lambda o, p, x: F.linear(x, o.own["weight"], o.own.get("bias")),
    "embedding": lambda o, p, x: rows_of(o, x.squeeze(2)),
    "add": lambda o, p, *xs: sum(xs[1:], xs[0]),
    "multiply": lambda o, p, *xs: prod(xs[1:], start=xs[0]),
    "scale": lambda o, p, x: x * o.attributes["factor"],
    "softmax": lambda o, p, x: torch.softmax(x, 2),
    "slice": cut,
    "concat": lambda o, p, *xs: torch.cat(xs, 1 if o.attributes.get("axis") == "rows" else 2),
    "mean": lambda o, p, x: x.mean(1, keepdim=True),
    "first": lambda o, p, x: x[:, :1],
    "last": lambda o, p, x: x[:, -1:],
    "normalise": lambda o, p, x: F.normalize(x, dim=2, eps=o.attributes.get("epsilon", 1e-12)),
    **{f.__name__: f for f in (layernorm, rmsnorm, groupnorm, batchnorm, bag, rotary, attention, dropout, interaction)},
    **{f.__name__: f for f in (conv2d, max_pool, mean_pool, patches, route, dispatch, combine, softmax_part)},
    **LOSSES,
}
