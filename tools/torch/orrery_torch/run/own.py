"""The parameters and buffers of a process's own stages, and where their values come from."""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

from ..tensors import Safetensors, check_shape
from ..trace.parts import Part


class Reader(dcp.FileSystemReader):
    """Reads a folder's list of contents once, not for each tensor."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        if not hasattr(self, "told"):
            self.told = super().read_metadata(*args, **kwargs)
        return self.told


class Distributed:
    """A folder of torch.distributed.checkpoint, read tensor by tensor."""

    def __init__(self, path: Path) -> None:
        self.path, self.reader = path, Reader(path)
        try:
            self.names = self.reader.read_metadata().state_dict_metadata
        except Exception as why:  # noqa: BLE001 it unpickles
            raise ValueError(
                f"{path}: no checkpoint of torch.distributed.checkpoint: {why}"
            ) from None
        self.below: dict[str, list[str]] = {}  # names by all but the last of their words
        for name in self.names:
            self.below.setdefault(name.rpartition(".")[0], []).append(name)

    def __contains__(self, name: str) -> bool:
        return self._key(name) in self.names

    def _key(self, name: str) -> str:
        """Of a tensor of the model, alone or beside an optimizer."""
        return f"model.{name}" if f"model.{name}" in self.names else name

    def read(self, name: str, into: Tensor) -> None:
        there = getattr(self.names[self._key(name)], "size", [])
        check_shape(self.path, name, list(there), into)
        self.load({self._key(name): into})

    def load(self, state: dict[str, Any]) -> dict[str, Any]:
        """What is asked for, in this process alone."""
        try:
            dcp.load(state, storage_reader=self.reader, no_dist=True)
        except CheckpointException as why:  # no Exception, and a page long
            raise ValueError(f"{self.path}: {last_line(why)}") from None
        return state

    def under(self, names: list[str]) -> dict[str, Any]:
        """All values whose name is one of these and one word more, of the first that has any."""
        for name in names:
            if name in self.below:
                told = self.load({key: room_of(self.names[key]) for key in self.below[name]})
                return {key[len(name) + 1 :]: value for key, value in told.items()}
        return {}


def last_line(why: BaseException) -> str:
    return (str(why).strip() or type(why).__name__).splitlines()[-1]


def room_of(told: Any) -> Any:
    """For a value of a checkpoint: a tensor, or what takes the place of any other object."""
    if isinstance(told, TensorStorageMetadata):
        return torch.empty(told.size, dtype=told.properties.dtype)
    return 0


def source_of(checkpoint: Path | str | None) -> Safetensors | Distributed | None:
    if checkpoint is None:
        return None
    path = Path(checkpoint)
    if not path.exists():
        raise ValueError(f"{path}: no such checkpoint")
    return Distributed(path) if path.is_dir() else Safetensors(path)


OLD = "_orrery_old"  # an attribute of a model, which its copies have, too


def old_in(model: nn.Module) -> set[str]:
    """Names of the tensors that other processes have newer, whichever Runner trained them."""
    told: set[str] = model.__dict__[OLD]
    return told


def refuse_old(model: nn.Module, _: str, keep_vars: bool) -> None:
    """Of state_dict(); not where torch.export looks at the tensors themselves."""
    if old_in(model) and not keep_vars:
        raise ValueError(
            f"state_dict(): other processes train {min(old_in(model))}, which is old here: "
            "call runner.save(), or runner.collect() before it"
        )


class Own:
    """Tensors of the parts that this process runs, by all of their names in the model."""

    def __init__(
        self, model: nn.Module, parts: list[Part], all_parts: list[Part], device: torch.device
    ) -> None:
        self.device = device
        tensors = [
            *model.named_parameters(remove_duplicate=False),
            *model.named_buffers(remove_duplicate=False),
        ]
        self.partial = any(t.is_meta for _, t in tensors)
        held = {id(t) for part in parts for t in part.tensors.values()}
        elsewhere = {id(t) for part in all_parts for t in part.tensors.values()}
        self.names: dict[int, list[str]] = {}
        self.tensors: list[Tensor] = []  # in the model's order, each once
        for name, t in tensors:
            if id(t) in held and id(t) not in self.names:
                self.tensors.append(t)
            if id(t) in held:
                self.names.setdefault(id(t), []).append(name)
        self.rest = {n: t for n, t in tensors if id(t) not in elsewhere and not t.is_meta}
        self.kept = set(model.state_dict(keep_vars=True))  # not buffers that are not persistent
        self.others = {n for n, t in tensors if id(t) in elsewhere - held}
        if OLD not in model.__dict__:
            model.__dict__[OLD] = set()  # torch.export would put another dict in its place
            model.register_state_dict_pre_hook(refuse_old)
            model.register_load_state_dict_post_hook(lambda read, _: old_in(read).clear())
        self.old = old_in(model)

    def check_names(self, source: Distributed) -> None:
        for t in self.tensors:
            names = [n for n in self.names[id(t)] if n in self.kept]
            if names and not any(n in source for n in names):
                raise ValueError(f"{source.path} lacks {names[0]}")

    def parameters(self) -> list[nn.Parameter]:
        return [t for t in self.tensors if isinstance(t, nn.Parameter)]

    def check(self, call: str) -> None:
        here = next((n for names in self.names.values() for n in names if n in self.old), None)
        if here is not None:
            raise ValueError(
                f"{here} is old here: another process has trained it under another Runner: call "
                f"collect() of that one before {call}, or load() here"
            )
        left = next((t for t in self.tensors if t.is_meta), None)
        if left is not None:
            raise ValueError(
                f"{self.names[id(left)][0]} is on the meta device: call materialise() before {call}"
            )

    @torch.no_grad()
    def materialise(
        self, init: Callable[[str, Tensor], object] | None, checkpoint: Path | str | None
    ) -> None:
        source, seed = source_of(checkpoint), self._seed()
        for t in self.tensors:
            names = self.names[id(t)]
            there = next((n for n in names if source is not None and n in source), None)
            if not t.is_meta and there is None:
                continue
            value = torch.empty_like(t, device=self.device) if t.is_meta else t.data
            if source is not None and there is not None:
                source.read(there, value)
            elif init is not None:
                self._draw(init, names[0], value, seed)
            else:
                where = f"{checkpoint} lacks it, and it" if source else "it"
                raise ValueError(
                    f"{names[0]}: {where} has no value: give materialise() an init for it"
                )
            if t.is_meta:
                become(t, value)
            self.old.difference_update(names)

    def _seed(self) -> int:
        """That of process 0."""
        seed = torch.tensor(torch.initial_seed() % 2**62, device=self.device)
        dist.broadcast(seed, 0)
        return int(seed)

    def _draw(
        self, init: Callable[[str, Tensor], object], name: str, value: Tensor, seed: int
    ) -> None:
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(seed + zlib.crc32(name.encode()))
            init(name, value)


def become(t: Tensor, value: Tensor) -> None:
    """Gives a tensor on the meta device memory: the same object, which optimizers and stages hold."""
    made: Tensor = value
    if isinstance(t, nn.Parameter):
        made = nn.Parameter(value, t.requires_grad)
    made.__dict__.update(t.__dict__)
    torch.utils.swap_tensors(t, made)
