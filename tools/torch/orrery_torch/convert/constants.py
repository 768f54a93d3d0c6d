"""Values that no data is in: parameters, and what is computed of constants."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx

from .emitter import Emitter
from .layers import embedding
from ..trace.trace import function_of
from .values import TURNED, Exp, Held, Matrices, range_of, require, shape_of, tensor_of

TURNS = {"t", "transpose", "permute", "numpy_T"}
SHAPES = {"view", "reshape", "unsqueeze", "squeeze", "contiguous", "expand", "detach", "alias"}


def pieces(held: Held, tensors: Any) -> list[Held]:
    """The parts of its first dimension, one after the other."""
    parts, at = [], 0
    for t in tensors:
        require(t.shape[1:] == held.tensor.shape[1:], "a parameter cut along its columns")
        parts.append(held.cut(at, at + len(t), t))
        at += len(t)
    return parts


def of_parameter(c: Emitter, held: Held, args: Any, value: Any) -> Any:
    """A parameter that is cut, seen in another shape, looked up, or put beside every sample; None
    is something else."""
    name, t = function_of(c.node), held.tensor
    if name == "exp":
        return Exp(held)
    if name in TURNS and t.dim() == 2 and torch.equal(value, t.t()):
        return held.turn()
    if name in TURNS and t.dim() == 3 and not held.rows and torch.equal(value, t.mT):
        return Matrices(held)
    if name in (*SHAPES, "to", "view_as") and value.numel() == t.numel() and held.how != TURNED:
        return replace(held, tensor=value)
    if name in ("expand", "expand_as", "repeat") and len(value) == c.samples:
        return c.constant(held, c.each_sample(value))
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
        return looked_up(c, held, tensor_of(args[1]), value)
    if name == "index" and len(args[1]) == 1 and t.dim() == 2:
        return looked_up(c, held, tensor_of(args[1][0]), value)
    return None


def looked_up(c: Emitter, held: Held, ids: Tensor, value: Tensor) -> Any:
    """By ids that are the same for all samples."""
    once = c.each_sample(ids) if ids.dim() == 2 else ids
    found = range_of(once.reshape(-1))
    if not found:
        return embedding(c, held, c.constant(None, once))
    value = value[: len(once)] if ids.dim() == 2 else value
    everything = found == (0, len(held.tensor))
    return replace(held, tensor=value) if everything else held.cut(*found, value)


def constant(c: Emitter, args: Any, kwargs: Any) -> Any:
    """A value that no data is in."""
    if function_of(c.node) == "getitem":
        return args[0][args[1]]
    require("rand" not in function_of(c.node), "random numbers of its own")
    plain = fx.node.map_aggregate(args, tensor_of)
    value = c.node.target(*plain, **fx.node.map_aggregate(kwargs, tensor_of))  # type: ignore[operator]
    held = next((a for a in args if isinstance(a, Held) and a.name in c.parameters), None)
    if held is None:
        return value
    found = of_parameter(c, held, args, value)
    require(found is not None or not held.tensor.requires_grad, "an operation on a parameter")
    return value if found is None else found


ALIKE = {"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"}


def filled_alike(node: fx.Node, *args: Any) -> Tensor:
    """Of the data that it reads, the shape alone."""
    name = function_of(node)
    fill = args[-1] if "full" in name else float("ones" in name)
    return torch.full(shape_of(node), fill, dtype=node.meta["val"].dtype)
