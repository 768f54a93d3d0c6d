"""Checkpoints: written under one plan, read under another and in one piece."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orrery_torch
import pytest
import torch
import torch.distributed.checkpoint as dcp
from orrery_torch.run.runner import cut
from run import whole_step
from runs import on_processes, optimizer_of, planned
from small_models import GPT, tokens
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

pytest.importorskip("numpy")  # which dcp.save gathers with

SAMPLES, M, BEFORE, AFTER = 2, 4, 5, 20
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


class Net(GPT):
    """Tied, with a batch norm, and without places, whose parameter is then nobody's."""

    def __init__(self) -> None:
        super().__init__(tied=True)
        self.bn = nn.BatchNorm1d(24)
        nn.init.normal_(self.wte.weight, std=0.1)  # a loss of 3, with a last bit of 2e-7

    def forward(self, tokens: Tensor, following: Tensor) -> Tensor:
        x = self.bn(self.wte(tokens))
        for block in self.h:
            x = block(x)
        scores = self.head(self.norm(x))
        return nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten())


def rates_of(optimizer: torch.optim.Optimizer) -> Any:
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=BEFORE + AFTER)


def trained(step: Callable[[], float], optimizer: Any, rates: Any, steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        losses.append(step())
        optimizer.step()
        rates.step()
        optimizer.zero_grad()
    return losses


def state_of(named: Any, optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Tensor]]:
    """Of each parameter: it, and what AdamW keeps."""
    return {
        name: {k: t.detach().clone() for k, t in {"": p, **optimizer.state[p]}.items()}
        for name, p in named
        if p in optimizer.state
    }


def together(told: list[tuple[Any, ...]], i: int) -> dict[str, dict[str, Tensor]]:
    return {name: state for each in told for name, state in each[i].items()}


def runner_of(folder: Path, n: int, meta: bool = False) -> tuple[Any, ...]:
    torch.manual_seed(7)
    batch = tokens(SAMPLES * M)
    with torch.device("meta" if meta else "cpu"):
        model = Net()
    runner = orrery_torch.Runner(f"{folder}/plan{n}.json", model, cut(batch, M)[0])
    return model, runner, lambda: runner.step(batch)


def writer(rank: int, n: int, folder: Path) -> tuple[Any, ...]:
    """Trains under plan A, writes, and trains on."""
    model, runner, step = runner_of(folder, n)
    optimizer = optimizer_of(runner.named_parameters())
    rates = rates_of(optimizer)
    trained(step, optimizer, rates, BEFORE)
    with pytest.raises(ValueError, match=r"^state_dict\(\): other processes train .*: call runner.save"):
        model.state_dict()
    runner.save(f"{folder}/saved", optimizer, rates=rates)
    saved = state_of(runner.named_parameters(), optimizer)
    with pytest.raises(ValueError, match=r"save\(\): .*saved is there: give each checkpoint a folder"):
        runner.save(f"{folder}/saved", optimizer)
    for name in ("model", "optimizer.state"):
        with pytest.raises(ValueError, match=f"^{name}=: save.. writes the Runner's own by that name"):
            runner.save(f"{folder}/other", **{name: rates})
    losses = trained(step, optimizer, rates, AFTER)
    if rank == 1:
        with pytest.raises(ValueError, match="a parameter of .2. is of no stage of this process"):
            runner.save(f"{folder}/other", torch.optim.SGD([nn.Parameter(torch.ones(2))]))
    else:
        with pytest.raises(ValueError, match="^process 1: optimizer: a parameter of "):
            runner.save(f"{folder}/other", optimizer)
    runner.collect()
    ended = state_of(runner.named_parameters(), optimizer)
    return losses, saved, ended, model.state_dict()


def reader(rank: int, n: int, folder: Path) -> tuple[Any, ...]:
    """Reads under plan B, a model on the meta device, and trains on."""
    _, runner, step = runner_of(folder, n, meta=True)
    runner.load(f"{folder}/saved")
    one = torch.optim.AdamW(runner.parameters(), lr=3e-3)
    with pytest.raises(ValueError, match="in one group here, and had weight_decay 0.1 and 0.0 in .*: make its groups"):
        runner.load(f"{folder}/saved", one)
    optimizer = optimizer_of(runner.named_parameters())
    rates = rates_of(optimizer)
    with pytest.raises(ValueError, match=r"saved has no scaler: load\(\) takes what save\(\) was given"):
        runner.load(f"{folder}/saved", optimizer, scaler=torch.amp.GradScaler("cpu"))
    runner.load(f"{folder}/saved", optimizer, rates=rates)
    read = state_of(runner.named_parameters(), optimizer)
    losses = trained(step, optimizer, rates, AFTER)
    return losses, read, state_of(runner.named_parameters(), optimizer)


def in_one_piece(folder: Path) -> tuple[list[float], Any, Any]:
    """As PyTorch reads any checkpoint."""
    model, batch = Net(), tokens(SAMPLES * M)
    named = [(name, p) for name, p in model.named_parameters() if name != "wpe.weight"]
    optimizer = optimizer_of(named)
    rates = rates_of(optimizer)
    read = {"model": model.state_dict(), "rates": rates}
    dcp.load(read, checkpoint_id=folder / "saved")
    model.load_state_dict(read["model"])
    told = {"optimizer": get_optimizer_state_dict(model, optimizer, options=FLAT)}
    dcp.load(told, checkpoint_id=folder / "saved")
    set_optimizer_state_dict(model, optimizer, told["optimizer"], options=FLAT)
    before = state_of(named, optimizer)
    losses = trained(lambda: whole_step(model, batch, M), optimizer, rates, AFTER)
    return losses, before, state_of(named, optimizer)


def test_training_goes_on_under_another_plan_and_in_one_piece(tmp_path: Path) -> None:
    for n, words in {4: "-w 4 -s chimera --stages 4 --shard-optimizer", 2: "-w 2 -s v-half --stages 4"}.items():
        planned(tmp_path, Net(), tokens(SAMPLES), M, words, f"plan{n}")
    first, second = on_processes(writer, 4, tmp_path), on_processes(reader, 2, tmp_path)
    losses, saved, ended = first[0][0], together(first, 1), together(first, 2)
    assert losses[-1] < 0.9 * losses[0] and len(losses) == AFTER, "it does not learn"
    assert saved.keys() == {k for k, _ in Net().named_parameters()} - {"wpe.weight"}
    for name, state in ended.items():
        assert torch.equal(first[0][3][name], state[""]), name  # collect() has what others trained
    one = in_one_piece(tmp_path)
    for found in (second[0][0], second[1][0], one[0]):
        assert found == pytest.approx(losses, abs=1e-6, rel=0)
    for read in (together(second, 1), one[1]):
        torch.testing.assert_close(read, saved, rtol=0, atol=0)
    for found in (together(second, 2), one[2]):
        for name, state in ended.items():
            if name.endswith(("qkv.bias", "bn.bias")):  # no gradient but rounding, which AdamW enlarges
                state.pop("", None), found[name].pop("")
        torch.testing.assert_close(found, ended, rtol=1e-4, atol=1e-6)
