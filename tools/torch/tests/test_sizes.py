"""Batches of any size in step(): losses and gradients are those of the model in one piece, the mean
over the rows that are there."""

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orrery_torch
import pytest
import torch
from runs import check_together, gradients, on_processes, planned, read_only, seeded
from small_models import GPT, tokens
from torch import Tensor, nn

SAMPLES, M, TIED = 2, 4, partial(GPT, tied=True)
SIZES = (8, 3, 6, 1, 13, 8)  # of a step's batch: 8 is the plan's
PLANS = {
    2: ("-s 1f1b --stages 2", "-s zb-h1 --stages 2", "-s ddp --stages 2", "-s chimera --stages 2"),
    4: ("-s 1f1b --stages 4", "-s zb-h1 --stages 4", "-s ddp --stages 2", "-s v-half --stages 8"),
}


def batch_of(n: int) -> tuple[Tensor, ...]:
    """The last of 13 rows, so that each size has others."""
    return tuple(t[-n:] for t in tokens(max(SIZES)))


def trained(
    model: nn.Module, parameters: list[nn.Parameter], step: Callable[[tuple[Tensor, ...]], float]
) -> list[tuple[float, dict[str, Tensor]]]:
    optimizer, told = torch.optim.SGD(parameters, lr=0.1), []
    for size in SIZES:
        loss = step(batch_of(size))
        told.append((loss, gradients(model)))
        optimizer.step()
        optimizer.zero_grad()
    return told


def worker(rank: int, n: int, folder: Path) -> list[Any]:
    told: list[Any] = []
    for i in range(len(PLANS[n])):
        model = seeded(TIED)
        runner = orrery_torch.Runner(f"{folder}/plan{i}.json", model, batch_of(SAMPLES))
        drawn, jobs = torch.get_rng_state(), [str(job) for job in runner.plan.orders[rank]]

        def step(batch: tuple[Tensor, ...]) -> float:
            loss = runner.step(read_only(runner, batch))  # noqa: B023
            assert [job for job, _, _ in runner.timeline] == jobs  # noqa: B023 of the last whole step
            return loss

        told.append(trained(model, runner.parameters(), step))
        assert torch.equal(drawn, torch.get_rng_state())  # to trace another size draws none
    return told


@pytest.mark.parametrize("n", PLANS)
def test_a_batch_of_any_size_is_that_of_one_piece(n: int, tmp_path: Path) -> None:
    for i, words in enumerate(PLANS[n]):
        planned(tmp_path, TIED(), batch_of(SAMPLES), M, f"-w {n} {words}", f"plan{i}")
    model = seeded(TIED)

    def step(batch: tuple[Tensor, ...]) -> float:
        loss = model(*batch)
        loss.backward()
        return loss.item()

    expected = trained(model, list(model.parameters()), step)
    for words, *told in zip(PLANS[n], *on_processes(worker, n, tmp_path)):
        for at, (size, (loss, whole)) in enumerate(zip(SIZES, expected)):
            assert all(each[at][0] == pytest.approx(loss, rel=1e-6) for each in told), (words, size)
            check_together((each[at][1] for each in told), whole, f"{words}, {size} rows")


def second(rank: int, n: int, folder: Path) -> None:
    """Under plan 0, then under plan 1, whose stages are elsewhere."""
    model, batch = seeded(TIED), batch_of(SAMPLES * M)
    runners = [
        orrery_torch.Runner(f"{folder}/plan{i}.json", model, batch_of(SAMPLES)) for i in range(2)
    ]
    optimizer = torch.optim.SGD(runners[0].parameters(), lr=0.1)
    runners[0].step(batch)
    optimizer.step()
    copied = orrery_torch.Runner(f"{folder}/plan1.json", copy.deepcopy(model), batch_of(SAMPLES))
    for runner in (runners[1], copied):
        for call in (runner.step, runner.evaluate):
            with pytest.raises(ValueError, match=r"\S+ is old here: another process has trained it under"):
                call(batch)
        with pytest.raises(ValueError, match="under another Runner: call collect.. of that one before collect"):
            runner.collect()
    again = orrery_torch.Runner(f"{folder}/plan0.json", model, batch_of(SAMPLES))
    there = again.evaluate(batch).loss  # the same stages, so nothing is old
    runners[0].collect()
    assert runners[1].evaluate(batch).loss == pytest.approx(there, rel=1e-6)
    runners[1].step(batch)
    model.load_state_dict(TIED().state_dict())  # all of it: nothing is old then
    assert runners[0].step(batch) > 0


def test_another_runner_takes_no_old_values(tmp_path: Path) -> None:
    for i, words in enumerate(("-w 2 -s 1f1b --stages 2", "-w 2 -s v-half --stages 4")):
        planned(tmp_path, TIED(), batch_of(SAMPLES), M, words, f"plan{i}")
    on_processes(second, 2, tmp_path)
