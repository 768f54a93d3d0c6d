"""50 steps beside the model in one piece: precisions, clipping, scaling, groups, rates, accumulation."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import orrery_torch
import pytest
import torch
from orrery_torch.run.runner import cut
from runs import on_processes, optimizer_of, planned, seeded
from small_models import GPT, tokens
from torch import Tensor, nn

SAMPLES, M, STEPS = 2, 4, 50


class Case(NamedTuple):
    dtype: torch.dtype | None
    scale: float  # that a GradScaler begins with; 0: none
    norm: float  # its kind
    words: str  # options of `orrery simulate`
    off: float  # how far a loss may be, relative


CASES: dict[int, list[Case]] = {
    2: [
        Case(None, 0, 2.0, "-s zb-h1 --stages 2", 1e-5),
        Case(torch.bfloat16, 0, 2.0, "-s ddp --stages 2 --shard-optimizer", 2**-8),
        Case(torch.float16, 2.0**24, 2.0, "-s 1f1b --stages 2", 2**-10),
    ],
    4: [
        Case(torch.bfloat16, 0, float("inf"), "-s v-half --stages 8", 2**-8),
        Case(torch.float16, 2.0**24, 3.0, "-s chimera --stages 4 --shard-optimizer", 2**-10),
    ],
}


def built() -> tuple[nn.Module, list[tuple[Tensor, ...]]]:
    whole = tokens(2 * SAMPLES * M)
    halves = [tuple(t.chunk(2)[i] for t in whole) for i in range(2)]
    return seeded(lambda: GPT(tied=True)), halves


def trained(
    case: Case,
    named: Iterable[tuple[str, nn.Parameter]],
    step: Callable[[Any, Any], float],
    clip: Callable[[float, float], Tensor],
    batches: list[tuple[Tensor, ...]],
) -> list[tuple[float, float, float]]:
    """As one trains a model, in one piece or not: of each step the loss, the norm and the scale."""
    optimizer = optimizer_of(named)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS)
    scaler = torch.amp.GradScaler(
        "cpu", init_scale=case.scale or 1.0, growth_interval=20, enabled=case.scale > 0
    )
    told = []
    for _ in range(STEPS):
        loss = 0.0
        for batch in batches:  # accumulated
            with torch.autocast("cpu", case.dtype, enabled=case.dtype is not None):
                loss += step(batch, scaler) / len(batches)
        scaler.unscale_(optimizer)
        norm = clip(0.5, case.norm).item()
        scaler.step(optimizer)
        scaler.update()
        rates.step()
        optimizer.zero_grad()
        told.append((loss, norm, scaler.get_scale()))
    return told


def in_one_piece(case: Case) -> list[tuple[float, float, float]]:
    model, batches = built()

    def step(batch: tuple[Tensor, ...], scaler: torch.amp.GradScaler) -> float:
        whole = 0.0
        for part in cut(batch, M):
            loss = model(*part) / M
            with torch.autocast("cpu", enabled=False):
                scaler.scale(loss).backward()
            whole += loss.item()
        return whole

    def clip(most: float, kind: float) -> Tensor:
        return nn.utils.clip_grad_norm_(model.parameters(), most, kind)

    return trained(case, model.named_parameters(), step, clip, batches)


def worker(rank: int, n: int, folder: Path) -> list[Any]:
    told = []
    for i, case in enumerate(CASES[n]):
        model, batches = built()
        runner = orrery_torch.Runner(f"{folder}/{i}.json", model, cut(batches[0], M)[0])
        named = list(runner.named_parameters())
        assert all(p is dict(model.named_parameters())[name] for name, p in named)
        assert len(named) == len(runner.parameters())
        told.append(trained(case, named, runner.step, runner.clip_grad_norm_, batches))
    next(p for p in runner.parameters() if p.requires_grad).grad = None
    if rank == 0:
        runner.parameters()[0].grad = torch.full_like(runner.parameters()[0], torch.inf)
    with pytest.raises(RuntimeError, match="the total norm of order 2.0 .* is inf"):
        runner.clip_grad_norm_(1.0, error_if_nonfinite=True)
    return told


@pytest.mark.parametrize("n", CASES)
def test_losses_norms_and_scales_are_those_of_one_piece(n: int, tmp_path: Path) -> None:
    model, batches = built()
    for i, case in enumerate(CASES[n]):
        planned(tmp_path, model, cut(batches[0], M)[0], M, f"-w {n} {case.words}", str(i))
    for case, *ran in zip(CASES[n], *on_processes(worker, n, tmp_path)):
        expected = in_one_piece(case)
        assert expected[-1][0] < 0.5 * expected[0][0], "it does not learn"
        if case.scale:
            assert 1 < expected[-1][2] < case.scale, "no scale was too large"
        for told in ran:
            for step, (found, one) in enumerate(zip(told, expected, strict=True)):
                assert found[2] == one[2], (case, step)
                assert found[0] == pytest.approx(one[0], rel=case.off), (case, step)
                if math.isfinite(one[1]):
                    assert found[1] == pytest.approx(one[1], rel=8 * case.off), (case, step)
                else:
                    assert not math.isfinite(found[1]), (case, step)
