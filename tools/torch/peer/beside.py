"""A model in PyTorch converted, and trained by `orrery train` beside PyTorch: from the same weights, on the same rows."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import orrery_torch
import torch
from orrery_torch import command
from orrery_torch.convert.values import CONSTANT
from torch import Tensor, nn

from .training import Options, batches, optimizer_of


class Beside:
    """A model converted, with data for it in a folder."""

    def __init__(self, model: nn.Module, samples: Mapping[str, Tensor], folder: Path) -> None:
        self.model, self.samples = model, samples
        rows = torch.arange(len(next(iter(samples.values()))))
        self.test, self.train = rows[rows % 5 == 0], rows[rows % 5 != 0]
        self.program = orrery_torch.convert(model, self.rows(rows[:4]))
        self.path = self.program.write(folder / "model.dot", "data.safetensors")
        self.program.save_data(folder / "data.safetensors", samples)
        self.init = self.program.save_weights(folder / "init.safetensors")
        self.after = folder / "after.safetensors"

    def rows(self, which: Tensor) -> dict[str, Tensor]:
        return {name: t[which] for name, t in self.samples.items()}

    def orrery(self, own: Options, *more: object) -> tuple[list[float], float]:
        """The losses of all steps, and the test loss when they are done."""
        losses = self.path.parent / "losses.csv"
        report = command.run(
            "train", self.path, *own.words(), *more, "--init", self.init, "--loss", losses,
            "--save-weights", self.after, "--device", "cpu", "--json",
        )  # fmt: skip
        told = [float(line.split(",")[2]) for line in losses.read_text().splitlines()[1:]]
        return told, json.loads(report)["loss"]

    def pytorch(self, own: Options) -> Iterator[float]:
        """The losses of the same steps."""
        optimizer = optimizer_of(self.model, own)
        order = batches(self.train, own.batch, own.seed)
        for _ in range(own.steps or 0):
            optimizer.zero_grad()
            loss = self.model(**self.rows(next(order)))
            loss.backward()
            optimizer.step()
            yield loss.item()

    @torch.no_grad()
    def evaluated(self) -> float:
        """The test loss of Orrery's weights, in PyTorch."""
        named = self.program.weights.items()
        own = [t for name, t in named if not name.startswith(CONSTANT)]  # running means, too
        for t in [*self.model.parameters(), *own]:
            t.zero_()
        orrery_torch.load(self.model, self.after)
        loss = self.model.eval()(**self.rows(self.test)).item()
        self.model.train()
        return loss
