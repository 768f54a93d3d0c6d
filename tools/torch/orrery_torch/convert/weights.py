"""Weights back from Orrery."""

import re
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

from ..tensors import load_safetensors
from .values import CONSTANT, MORE, SQUARE, TURNED

BESIDE = "+"  # between the names of parameters of one operator that no module has together
ORDER = ["weight", "bias", "mean", "variance"]
PYTORCH = {"gain": "weight", "mean": "running_mean", "variance": "running_var"}


def place(model: nn.Module, name: str) -> Tensor | None:
    """What a tensor of Orrery is in the model, named as convert() names its operators: a parameter
    or a buffer, or some of its rows."""
    own: dict[str, Tensor] = dict(model.named_parameters(remove_duplicate=False))
    own |= dict(model.named_buffers(remove_duplicate=False))
    op, _, tensor = name.rpartition(".")
    if BESIDE in op:
        each = op.split(BESIDE)
        at = 0 if tensor in ("weight", "gain") else min(ORDER.index(tensor), len(each) - 1)
        return place(model, f"{each[at]}.{tensor}")
    if op.endswith("." + TURNED) and tensor == "weight":
        other = place(model, op.removesuffix("." + TURNED) + ".weight")
        return None if other is None else other.t()
    for how in (TURNED, SQUARE, MORE):
        op = op.removesuffix("." + how)
    rows = slice(None)
    if found := re.fullmatch(r"(.+)\.(\d+)-(\d+)", op):
        op, rows = found[1], slice(int(found[2]), int(found[3]))
    for candidate in (f"{op}.{PYTORCH.get(tensor, tensor)}", f"{op}_{tensor}", op):
        if candidate in own:
            return own[candidate][rows] if own[candidate].dim() else own[candidate]
    return None


def read(name: str, t: Tensor) -> Tensor:
    """As the model has it: of the square of a convolution of one dimension the middle row."""
    if name.endswith(f".{SQUARE}.weight"):
        return t[:, :, t.shape[2] // 2]
    return t - 1 if name.endswith(f".{MORE}.gain") else t


def lacking(model: nn.Module, found: Iterable[Tensor]) -> list[str]:
    """The model's parameters that are nowhere among these, by the first of their names."""
    there = {t.untyped_storage().data_ptr() for t in found}
    named = model.named_parameters()
    return [name for name, p in named if p.untyped_storage().data_ptr() not in there]


def alike(t: Tensor, target: Tensor) -> bool:
    """Of one shape, but for dimensions of size 1, which Orrery has where the model has none."""
    return [n for n in t.shape if n != 1] == [n for n in target.shape if n != 1]


@torch.no_grad()
def load(model: nn.Module, file: Path | str, *, strict: bool = True) -> None:
    """Weights that `orrery train --save-weights` has written, into the model that convert() made the
    graph of. With strict=False what the file or the model alone has is left as it is."""
    tensors = {
        name: read(name, t)
        for name, t in load_safetensors(Path(file)).items()
        if "@" not in name and not name.startswith(CONSTANT + ".")  # said before; no parameter
    }
    places = {name: p for name in tensors if (p := place(model, name)) is not None}
    unknown = [name for name in tensors if name not in places]
    if unknown and strict:
        raise ValueError(f"{file}: {', '.join(unknown)}: nothing in the model is called so")
    for name, target in places.items():
        if not alike(tensors[name], target):
            raise ValueError(
                f"{file}: {name} is {list(tensors[name].shape)}, in the model {list(target.shape)}"
            )
    missing = lacking(model, places.values())
    if missing and strict:
        raise ValueError(
            f"{file}: nothing for {', '.join(missing)}: name the file of this model, or say "
            "strict=False to leave them as they are, such as what forward() does not read"
        )
    for name, target in places.items():
        target.copy_(tensors[name].reshape(target.shape))
