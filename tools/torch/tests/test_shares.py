"""Replicas that divide the optimizer's state: even shares, and a process whose share is empty."""

from pathlib import Path
from typing import Any

import orrery_torch
import pytest
import torch
from orrery_torch.run.runner import cut
from orrery_torch.run.sums import divided
from run import whole_step
from runs import on_processes, planned, seeded
from torch import Tensor, nn

SAMPLES, M, STEPS = 2, 4, 3
SCALES = 0.0, 2.0  # a GradScaler begins with; 0: none


class One(nn.Module):
    """Two replicas have one parameter to share."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 6, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.a(x).square().mean()


def batch_of_one() -> Tensor:
    return torch.randn(SAMPLES * M, 6, generator=torch.Generator().manual_seed(1))


def trained(rank: int, n: int, folder: Path, scale: float, plan: Path) -> tuple[Any, ...]:
    """As every process of a training: none asks whether its share is empty."""
    model, batch = seeded(One), batch_of_one()
    runner = orrery_torch.Runner(plan, model, cut(batch, M)[0])
    names = [name for name, _ in runner.named_parameters()]
    optimizer = torch.optim.AdamW(runner.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, enabled=scale > 0)
    losses = []
    for _ in range(STEPS):
        losses.append(runner.step(batch, scaler))
        scaler.unscale_(optimizer)
        runner.clip_grad_norm_(0.5)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    saved = folder / f"{plan.stem}-{scale}"
    runner.save(saved, optimizer)
    again = torch.optim.AdamW(runner.named_parameters(), lr=0.5)
    runner.load(saved, again)
    moments = again.state.get(model.a.weight, {})
    return names, losses, scaler.get_scale(), model.a.weight.detach(), moments


def all_trained(rank: int, n: int, folder: Path, plans: list[Path]) -> list[tuple[Any, ...]]:
    return [trained(rank, n, folder, scale, plan) for plan in plans for scale in SCALES]


def in_one_piece() -> tuple[list[float], Tensor]:
    model, batch = seeded(One), batch_of_one()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    losses = []
    for _ in range(STEPS):
        losses.append(whole_step(model, batch, M))
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
    return losses, model.a.weight.detach()


def test_a_process_with_nothing_to_train_takes_part(tmp_path: Path) -> None:
    """Under ddp its replica trains all; under 1f1b its stage has no parameter."""
    example, (losses, weight) = batch_of_one()[:SAMPLES], in_one_piece()
    plans = [
        planned(tmp_path, One(), example, M, f"-w 2 {words}")
        for words in ("-s ddp --stages 1 --shard-optimizer", "-s 1f1b --stages 2")
    ]
    first, second = on_processes(all_trained, 2, tmp_path, plans)
    assert len(first) == len(second) == len(plans) * len(SCALES)
    for i, (names, found, scale, there, moments) in enumerate(first):
        assert names == ["a.weight"] and scale == (SCALES[i % 2] or 1.0)
        assert found == pytest.approx(losses, rel=1e-5)
        torch.testing.assert_close(there, weight)
        assert moments["step"] == STEPS
    for (_, *same, _, _), (names, *there, _, moments) in zip(first, second):
        assert names == ["nothing"] and there == same and not moments


def shares(sizes: list[int], held: list[tuple[int, ...]]) -> list[int]:
    """Bytes that each of two workers updates."""
    tensors = [torch.empty(n, dtype=torch.int8) for n in sizes]
    found = divided(list(zip(tensors, held)))
    return [sum(t.nbytes for t in tensors if found[id(t)] == worker) for worker in range(2)]


def test_shares_are_even_by_bytes() -> None:
    both = (0, 1)
    assert shares([8] * 6, [both] * 6) == [24, 24]
    assert shares([1, 2, 3, 4, 5, 6, 7], [both] * 7) == [14, 14]
    assert shares([9, 1, 1, 1], [both] * 4) == [9, 3]  # none is cut
    assert shares([4, 3, 2, 2], [both, (0,), both, both]) == [5, 6]  # what one has alone counts
    sizes = torch.randint(1, 1000, (50,), generator=torch.Generator().manual_seed(1)).tolist()
    one, other = shares(sizes, [both] * 50)
    assert one + other == sum(sizes) and abs(one - other) <= min(sizes)
