"""Training as `orrery train` does it: its options, its order of rows, its optimizers."""

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from .draws import permutation
from .model import Model
from orrery_torch.calls import words_of
from orrery_torch.tensors import load_data


@dataclass
class Options:
    """Those of `orrery train` that decide what is computed."""

    batch: int = 96
    microbatches: int = 8
    steps: int | None = None
    epochs: int | None = None
    optimizer: str = "adamw"
    lr: float | None = None
    momentum: float = 0.9
    weight_decay: float | None = None
    warmup: int | None = None
    decay: str | None = None
    final_rate: float | None = None
    clip: float | None = None
    spare: bool = False
    seed: int = 1
    data: str | None = None

    def rate(self) -> float:
        plain = self.optimizer in ("momentum", "sgd")
        return self.lr if self.lr is not None else 0.1 if plain else 0.002

    def rate_of(self, step: int) -> float:
        """As orr_run_rate() in src/runtime/run/options.c has it; steps is that of all."""
        rate, warmup, final = self.rate(), self.warmup or 0, self.final_rate or 0.0
        if step < warmup:
            return rate * (step + 1) / warmup
        if self.decay in (None, "none"):
            return rate
        done = (step - warmup) / ((self.steps or 0) - warmup)
        left = 1 - done if self.decay == "linear" else (1 + math.cos(math.pi * done)) / 2
        return final + (rate - final) * left

    def still(self, steps: int) -> "Options":
        """Leaves the weights as they are; with a step, the momentum is their gradient."""
        same = Options(self.batch, self.microbatches, steps, seed=self.seed, data=self.data)
        return replace(same, optimizer="momentum", lr=0.0)

    def words(self) -> list[str]:
        return words_of({k: v for k, v in vars(self).items() if k != "momentum" or self.optimizer == "momentum"})


def parse(words: list[str]) -> tuple[Options, list[str]]:
    """Options, and the words that are none of them."""
    p = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    for field in fields(Options):
        names = ["--" + field.name.replace("_", "-")] + ["-m"] * (field.name == "microbatches")
        if field.default is False:
            p.add_argument(*names, action="store_true")
        else:
            kind, *_ = get_args(field.type) or [field.type]  # without "| None"
            p.add_argument(*names, type=kind, default=field.default)
    return p.parse_known_args(words, Options())


# ---- rows ----


class Data:
    """The columns of each input, and the rows to train and to test."""

    def __init__(self, graph: dict[str, Any], path: str) -> None:
        if not Path(path).exists():
            raise SystemExit(f"{path}: no such file: `graphs/data/make graphs/data/made`?")
        tables = load_data(Path(path))
        self.columns = {
            o["name"]: self._read(tables, o["attributes"])
            for o in graph["operators"]
            if o["op"] == "input"
        }
        rows = torch.arange(len(next(iter(self.columns.values()))))
        self.test, self.train = rows[rows % 5 == 0], rows[rows % 5 != 0]

    @staticmethod
    def _read(tables: dict[str, Tensor], attributes: dict[str, Any]) -> Tensor:
        only = next(iter(tables))
        x = tables[str(attributes.get("tensor", only))].float()
        x = x.reshape(len(x), -1)
        if "columns" in attributes:
            x = x[:, ranges(str(attributes["columns"]))]
        return x * attributes.get("scale", 1.0)

    def batch(self, rows: Tensor) -> dict[str, Tensor]:
        return {name: x[rows] for name, x in self.columns.items()}

    def batches(self, size: int, seed: int) -> Iterator[dict[str, Tensor]]:
        return map(self.batch, batches(self.train, size, seed))


def batches(among: Tensor, size: int, seed: int) -> Iterator[Tensor]:
    """The rows of each step, among those to train with."""
    epoch, rows = 0, torch.empty(0, dtype=torch.int64)
    while True:
        while len(rows) < size:
            order = permutation(len(among), seed, epoch)
            rows, epoch = torch.cat([rows, among[order]]), epoch + 1
        yield rows[:size]
        rows = rows[size:]


def ranges(text: str) -> list[int]:
    """ "0:4,8" -> 0, 1, 2, 3, 8"""
    columns: list[int] = []
    for part in text.split(","):
        begin, _, end = part.partition(":")
        columns += range(int(begin), int(end) if end else int(begin) + 1)
    return columns


# ---- PyTorch ----


def optimizer_of(model: nn.Module, o: Options, fused: bool | None = None) -> torch.optim.Optimizer:
    """fused: Adam in one kernel, the fastest that PyTorch has for cores."""
    trained = {True: [p for p in model.parameters() if p.requires_grad]}
    if isinstance(model, Model):
        trained = model.trained()
    groups: list[dict[str, Any]] = [
        {"params": params, "weight_decay": 0.0 if o.spare and not decays else o.weight_decay or 0.0}
        for decays, params in trained.items()
        if params
    ]
    if o.optimizer in ("adam", "adamw"):
        kind = torch.optim.Adam if o.optimizer == "adam" else torch.optim.AdamW
        return kind(groups, lr=o.rate(), betas=(0.9, 0.999), eps=1e-8, fused=fused)
    return torch.optim.SGD(
        groups, lr=o.rate(), momentum=o.momentum if o.optimizer == "momentum" else 0
    )


def train(model: Model, data: Data, o: Options) -> list[float]:
    """The loss of every step; gradients of the last stay."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = optimizer_of(model, o)
    losses = []
    batches = data.batches(o.batch, o.seed)
    for step in range(o.steps or 0):
        model.begin(training=True, step=step, microbatches=o.microbatches, seed=o.seed)
        optimizer.zero_grad()
        loss = model.total(model(next(batches)))
        loss.backward()
        if o.clip:
            torch.nn.utils.clip_grad_norm_(parameters, o.clip)
        for group in optimizer.param_groups:
            group["lr"] = o.rate_of(step)
        optimizer.step()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def evaluate(model: Model, data: Data) -> tuple[float, float | None]:
    """The loss on the test rows, and the accuracy, None where nothing is classified."""
    model.begin(training=False)
    losses = model(data.batch(data.test))
    right = model.right()
    return model.total(losses).item(), right.float().mean().item() if len(right) else None
