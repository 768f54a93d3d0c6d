"""What a model is called with, looked at before it is traced."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from .trace import Inputs, words


def check_inputs(model: nn.Module, inputs: Inputs) -> None:
    """Refuses what forward() does not take, and tensors inside of its arguments: a value that one
    worker sends another is a tensor with an argument of its own."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"model: a torch.nn.Module, and not {kind(model)}")
    if isinstance(inputs, str) or not isinstance(inputs, (Tensor, Sequence, Mapping)):
        raise ValueError(
            "inputs: a tensor, several in a tuple, or a dict of them by name, and not "
            f"{kind(inputs)}"
        )
    args, kwargs = words(inputs)
    name = type(model).__name__
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):  # of a module that Python has not written
        return
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as why:
        raise ValueError(f"inputs: {why}: it is {name}.forward{signature}") from None
    for argument, value in bound.arguments.items():
        if signature.parameters[argument].kind is inspect.Parameter.VAR_KEYWORD:
            given = {f"{argument}[{key!r}]": v for key, v in value.items()}
        elif signature.parameters[argument].kind is inspect.Parameter.VAR_POSITIONAL:
            given = {f"{argument}[{i}]": v for i, v in enumerate(value)}
        else:
            given = {argument: value}
        for where, v in given.items():
            if holds_tensors(v):
                raise ValueError(
                    f"inputs: {where} of {name}.forward() is {kind(v)} of tensors: give each tensor "
                    "an argument of its own, in a module that puts them together and calls this one"
                )


def on_meta(inputs: Inputs) -> Inputs:
    """Their shapes and types alone."""
    args, kwargs = tree_map_only(Tensor, lambda t: t.to("meta"), words(inputs))
    return kwargs or args


def kind(value: Any) -> str:
    if value is None:
        return "None"
    word = type(value).__name__
    return f"{'an' if word[0].lower() in 'aeiou' else 'a'} {word}"


def holds_tensors(value: Any) -> bool:
    """A list, a tuple or a dict with tensors in it, at any depth."""
    if isinstance(value, Mapping):
        value = list(value.values())
    return isinstance(value, (list, tuple)) and any(
        isinstance(v, Tensor) or holds_tensors(v) for v in value
    )
