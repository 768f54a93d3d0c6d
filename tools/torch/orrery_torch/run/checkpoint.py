"""Checkpoints by torch.distributed.checkpoint: each process writes and reads what its own stages
have, by names of the model, so that another plan, and the model in one piece, find it."""

import importlib.util
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.optim import Optimizer

from .own import Distributed, Own, last_line

STATE, GROUPS = "optimizer.state.", "optimizer.param_groups."


def named(own: Own, optimizer: Optimizer) -> list[list[tuple[nn.Parameter, list[str]]]]:
    """The parameters of each group, with their names."""
    found = []
    for group in optimizer.param_groups:
        other = next((p for p in group["params"] if id(p) not in own.names), None)
        if other is not None:
            raise ValueError(
                f"optimizer: a parameter of {list(other.shape)} is of no stage of this process: "
                "make it with runner.parameters()"
            )
        found.append([(p, own.names[id(p)]) for p in group["params"]])
    return found


def contents(own: Own, rest: Mapping[str, Tensor], optimizer: Optimizer | None) -> dict[str, Any]:
    """What this process writes: its own tensors by all of their names, and the optimizer's state as
    get_optimizer_state_dict gives it, flattened."""
    state: dict[str, Any] = {f"model.{name}": t.detach() for name, t in rest.items()}
    state |= {f"model.{name}": t.detach() for t in own.tensors for name in own.names[id(t)]}
    if optimizer is None:
        return state
    for group, parameters in zip(optimizer.param_groups, named(own, optimizer)):
        options = {key: value for key, value in group.items() if key != "params"}
        for p, names in parameters:
            for name in names:
                moments = optimizer.state.get(p, {})
                state |= {f"{STATE}{name}.{key}": value for key, value in moments.items()}
                state |= {f"{GROUPS}{name}.{key}": value for key, value in options.items()}
    return state


def check_names(more: Mapping[str, Any]) -> None:
    taken = next((name for name in more if name.split(".")[0] in ("model", "optimizer")), None)
    if taken is not None:
        raise ValueError(f"{taken}=: save() writes the Runner's own by that name: take another")


def place(path: Path, me: int) -> Path:
    """Where a checkpoint is written until all of it is there."""
    if importlib.util.find_spec("numpy") is None:
        raise ValueError("save(): torch.distributed.checkpoint wants NumPy: pip install numpy")
    if path.exists():
        raise ValueError(f"save(): {path} is there: give each checkpoint a folder of its own")
    part = path.with_name(path.name + ".part")
    if me == 0:
        shutil.rmtree(part, ignore_errors=True)  # of a run that has ended
    return part


def write(state: dict[str, Any], part: Path) -> None:
    """With all processes."""
    try:
        dcp.save(state, storage_writer=dcp.FileSystemWriter(part))
    except CheckpointException as why:
        raise ValueError(f"save(): {part}: {last_line(why)}") from None


def load_optimizer(source: Distributed, own: Own, optimizer: Optimizer) -> None:
    """State and options of the parameters of this process; one that is frozen has no state."""
    state: dict[int, dict[str, Any]] = {}
    groups: list[dict[str, Any]] = []
    for group, parameters in zip(optimizer.param_groups, named(own, optimizer)):
        first = len(state)
        told: list[dict[str, Any]] = []
        for i, (_, names) in enumerate(parameters, first):
            state[i] = source.under([STATE + name for name in names])
            if not names:
                continue  # the 0 of a Runner that has nothing to train, which no file has
            told.append(source.under([GROUPS + name for name in names]))
            if not told[-1]:
                raise ValueError(f"{source.path} was saved without an optimizer of {names[0]}")
            differ = [k for k in told[0] if told[-1].get(k) != told[0][k]]
            if differ:
                one = next(first[0] for _, first in parameters if first)
                other, key = names[0], differ[0]
                raise ValueError(
                    f"optimizer: {one} and {other} are in one group here, and had {key} "
                    f"{told[0][key]} and {told[-1].get(key)} in {source.path}: make its groups"
                )
        options = told[0] if told else {}
        groups.append({**group, **options, "params": list(range(first, len(state)))})
    kept = {i: moments for i, moments in state.items() if moments}
    optimizer.load_state_dict({"state": kept, "param_groups": groups})


def load_more(source: Distributed, more: Mapping[str, Any]) -> None:
    """Whatever has state_dict() and load_state_dict(), the same in every process."""
    for name, each in more.items():
        if not any(key.startswith(f"{name}.") for key in source.names):
            raise ValueError(f"{source.path} has no {name}: load() takes what save() was given")
        each.load_state_dict(source.load({name: each.state_dict()})[name])
