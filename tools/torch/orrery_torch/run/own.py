"""The parameters and buffers of a process's own stages, and where their values come from."""

import zlib
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn

from ..tensors import Safetensors
from ..trace.parts import Part


class Distributed:
    """A folder of torch.distributed.checkpoint, read tensor by tensor."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.names = dcp.FileSystemReader(path).read_metadata().state_dict_metadata
        except Exception as why:  # noqa: BLE001 it unpickles
            raise ValueError(
                f"{path}: no checkpoint of torch.distributed.checkpoint: {why}"
            ) from None

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def read(self, name: str, into: Tensor) -> None:
        there = list(getattr(self.names[name], "size", []))
        if there != list(into.shape):
            raise ValueError(
                f"{self.path}: {name} is {there} there and {list(into.shape)} in the model"
            )
        dcp.load({name: into}, checkpoint_id=self.path, no_dist=True)


def source_of(checkpoint: Path | str | None) -> Safetensors | Distributed | None:
    if checkpoint is None:
        return None
    path = Path(checkpoint)
    if not path.exists():
        raise ValueError(f"{path}: no such checkpoint")
    return Distributed(path) if path.is_dir() else Safetensors(path)


class Own:
    """Tensors of the parts that this process runs, by all of their names in the model."""

    def __init__(self, model: nn.Module, parts: list[Part], device: torch.device) -> None:
        self.device = device
        tensors = [
            *model.named_parameters(remove_duplicate=False),
            *model.named_buffers(remove_duplicate=False),
        ]
        self.partial = any(t.is_meta for _, t in tensors)
        held = {id(t) for part in parts for t in part.tensors.values()}
        self.names: dict[int, list[str]] = {}
        self.tensors: list[Tensor] = []  # in the model's order, each once
        for name, t in tensors:
            if id(t) in held and id(t) not in self.names:
                self.tensors.append(t)
            if id(t) in held:
                self.names.setdefault(id(t), []).append(name)

    def parameters(self) -> list[nn.Parameter]:
        return [t for t in self.tensors if isinstance(t, nn.Parameter)]

    def check(self) -> None:
        left = next((t for t in self.tensors if t.is_meta), None)
        if left is not None:
            raise ValueError(
                f"{self.names[id(left)][0]} is on the meta device: call materialise() before step()"
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
