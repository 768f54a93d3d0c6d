#!/usr/bin/env python3
"""Examples trained by `orrery train` beside PyTorch, from the same weights, on the same rows: the
largest relative difference of a loss over 50 steps, and that of the test loss which PyTorch finds
for the weights that Orrery has trained. Exit code 1: by more than 1e-4.
Usage: train.py [NAME...]"""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import orrery_torch
import torch
from models import EXAMPLES
from orrery_torch import command
from peer import apart
from peer.training import Options, batches
from orrery_torch.convert.values import CONSTANT
from torch import Tensor, nn

STEPS, ROWS, BATCH, BOUND = 50, 80, 16, 1e-4
RATES = {"adamw": 0.001, "sgd": 0.01}
MICROBATCHES = {"clip": 2, "resnet": 1}  # a batch norm is of a microbatch
MORE = {"clip": ["--schedule", "gpipe"]}  # its loss waits for the whole minibatch
SLOWER = {"resnet": 0.1}  # where PyTorch's own runs go apart, if they differ by a rounding


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
        trained = [p for p in self.model.parameters() if p.requires_grad]
        decay = own.weight_decay or 0.0
        optimizer: torch.optim.Optimizer = torch.optim.SGD(trained, own.rate())
        if own.optimizer == "adamw":
            optimizer = torch.optim.AdamW(trained, own.rate(), weight_decay=decay)
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


def check(name: str, optimizer: str) -> bool:
    """A row of the table; is it within the bound?"""
    example = EXAMPLES[name]
    rate = RATES[optimizer] * SLOWER.get(name, 1)
    decay = 0.01 if optimizer == "adamw" else None
    own = Options(
        BATCH, MICROBATCHES.get(name, 4), STEPS, optimizer=optimizer, lr=rate, weight_decay=decay
    )
    with tempfile.TemporaryDirectory() as folder:
        beside = Beside(example.model(), example.batch(ROWS), Path(folder))
        theirs, test = beside.orrery(own, *MORE.get(name, []))
        worst = apart(theirs, list(beside.pytorch(own)))
        back = apart([beside.evaluated()], [test])
    good = len(theirs) == STEPS and worst <= BOUND and back <= BOUND
    print(
        f"{name:<16} {optimizer:<9} {rate:<7g} {theirs[0]:8.4f} {theirs[-1]:8.4f} {worst:8.1e} "
        f"{back:8.1e}  {'good' if good else 'BROKEN'}",
        flush=True,
    )
    return good


def main() -> int:
    torch.set_num_threads(1)
    print(
        f"{'example':<16} {'optimizer':<9} {'rate':<7} {'first':>8} {'last':>8} {'apart':>8} "
        f"{'back':>8}"
    )
    names = sys.argv[1:] or EXAMPLES
    return 0 if all([check(name, kind) for name in names for kind in RATES]) else 1


if __name__ == "__main__":
    sys.exit(main())
