"""Forward passes between steps: what they give, and that training does not notice them."""

from pathlib import Path
from typing import Any

import orrery_torch
import pytest
import torch
import torch.nn.functional as F
from orrery_torch.run.runner import cut
from runs import on_processes, planned, read_only, seeded
from small_models import Does
from torch import Tensor, nn

SAMPLES, M, STEPS = 2, 4, 3
SIZES = (SAMPLES * M, 3 * SAMPLES, 2 * SAMPLES * M + 3, 1)  # of batches: a last one has any


class Counts(nn.Module):
    """A buffer that moves in both modes, and random numbers that are drawn in both."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(8))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        return x + 0 * self.calls * torch.rand(8)


class Net(nn.Module):
    """Much that differs between the modes: dropout, a batch norm, a layer of PyTorch that has one
    call for itself in eval mode, an operator for training alone, and one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.drop, self.counts = nn.Embedding(8, 8), nn.Dropout(0.4), Counts()
        self.layer = nn.TransformerEncoderLayer(8, 2, 64, 0.1, batch_first=True)
        self.norm, self.branch = nn.BatchNorm1d(5), nn.Linear(8, 8)
        self.head = nn.Linear(8, 8, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        h = self.norm(self.layer(self.counts(self.drop(self.table(x)))))
        h = h + self.branch(h) if self.training else 1.5 * h
        scores = self.head(h)
        return {"loss": F.cross_entropy(scores.flatten(0, 1), y.flatten()), "scores": scores}


def twice(m: Does, x: Tensor) -> tuple[Tensor, Tensor]:
    """Results of two stages."""
    h = m.a(x)
    return m.b(h.tanh()).mean(), h


def words_of(n: int) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(n)
    return torch.randint(8, (n, 5), generator=g), torch.randint(8, (n, 5), generator=g)


def right(outputs: dict[str, Tensor], inputs: Any) -> Tensor:
    return (outputs["scores"].argmax(-1) == inputs[1]).sum()


def trained(plan: Path, evaluates: bool) -> tuple[list[Any], Any]:
    """Steps of AdamW: losses, weights and gradients that are there; and what evaluate() gives."""
    model, batch, told, weights = seeded(Net), words_of(SAMPLES * M), [], {}
    model.branch.eval()  # stays so
    runner = orrery_torch.Runner(plan, model, cut(batch, M)[0])
    optimizer = torch.optim.AdamW(runner.parameters(), lr=1e-2)
    losses = []
    for step in range(STEPS):
        losses.append(runner.step(batch))
        if evaluates and step == 1:
            for size in SIZES:
                other = words_of(size)
                some = read_only(runner, other)
                found = runner.evaluate(some)
                score = runner.evaluate(some, right)
                assert score.loss == found.loss and not score.outputs
                told.append((found.loss, score.metric, found.outputs))
            own = ((k, t) for t in runner.own.tensors for k in runner.own.names[id(t)])
            weights = {k: t.detach().clone() for k, t in own}
            assert runner.timeline and len(runner.timeline) % 2 == 0  # F and B: of the step
        if step != 1:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(runner.step(batch))  # gradients of two
    here = {k: (p.detach(), p.grad) for k, p in model.named_parameters() if p.grad is not None}
    kept = [model.norm.running_mean, model.norm.running_var, model.counts.calls, torch.get_rng_state()]
    assert model.training and model.norm.training and not model.branch.training
    return [losses, here, kept], (told, weights)


def worker(rank: int, n: int, folder: Path, plans: list[Path]) -> list[Any]:
    ran = []
    for plan in plans:
        alone, _ = trained(plan, False)
        both, told = trained(plan, True)
        torch.testing.assert_close(both, alone, rtol=0, atol=0)
        ran.append(told)
    runner = orrery_torch.Runner(plan, Net(), cut(words_of(SAMPLES * M), M)[0])
    with pytest.raises(ValueError, match=r"batch: processes have 3 to 4 parts: give"):
        runner.evaluate(words_of(3 + rank))
    with pytest.raises(ValueError, match=r"^(process 1: )?batch: rows of 0 3, 1 4, and of the example "):
        runner.evaluate((words_of(3)[0], words_of(3 + rank)[1]))
    with pytest.raises(ValueError, match=r"^(process 0: )?batch: microbatches of .*float32.* example was "):
        runner.evaluate((words_of(4)[0], words_of(4)[1].to(torch.int64 if rank else torch.float32)))
    assert runner.evaluate(words_of(4)).loss > 0
    with pytest.raises(orrery_torch.Fault, match=r"process \d, .*: ZeroDivisionError"):
        runner.evaluate(words_of(4), lambda outputs, inputs: 1 / 0)
    return ran


def test_evaluation_is_that_of_one_piece_and_training_goes_on(tmp_path: Path) -> None:
    words = ("-w 2 -s v-half --stages 4", "-w 2 -s ddp")
    plans = [planned(tmp_path, seeded(Net), words_of(SAMPLES), M, w) for w in words]
    for plan, *told in zip(plans, *on_processes(worker, 2, tmp_path, plans)):
        for size, *found in zip(SIZES, *(t for t, _ in told), strict=True):
            made = []  # by the weights that each rank has: replicas have their own running means
            for rank in range(2):
                whole = Net().eval()
                whole.load_state_dict(told[0][1] | told[1][1] | told[rank][1])
                made.append(whole(*words_of(size))["scores"].split(SAMPLES))
            scores = [outputs[0]["scores"] for outputs in zip(*(f[2] for f in found))]
            ranks = [int(s is None) for s in scores]
            here = [found[rank][2][b]["scores"] for b, rank in enumerate(ranks)]
            expected = torch.cat([made[rank][b] for b, rank in enumerate(ranks)])
            torch.testing.assert_close(torch.cat(here), expected)
            x, y = words_of(size)
            for loss, metric, _ in found:
                one = F.cross_entropy(expected.flatten(0, 1), y.flatten()).item()
                assert loss == pytest.approx(one, rel=1e-6), plan
                assert metric == right({"scores": expected}, (x, y)).item() > 0, plan


@pytest.mark.usefixtures("alone")
def test_what_eval_mode_has_alone_is_refused_where_no_stage_has_it(tmp_path: Path) -> None:
    def late(m: Does, x: Tensor) -> Tensor:
        """In eval mode its first parameters are read last."""
        h = m.b(m.a(x)) if m.training else m.a(m.b(x))
        return h.square().mean()

    x = torch.randn(SAMPLES, 8)
    plan = planned(tmp_path, Does(late), (x,), M, "-w 1 -s gpipe --stages 2")
    runner = orrery_torch.Runner(plan, Does(late), (x,))
    with pytest.raises(ValueError, match="^a: in eval mode no stage of the plan has its parameters"):
        runner.evaluate((x,))
    assert runner.step((torch.cat([x] * M),)) > 0


def two_results(rank: int, n: int, folder: Path, plan: Path) -> None:
    model, x = seeded(lambda: Does(twice)), torch.randn(3, 8)
    runner = orrery_torch.Runner(plan, model, x[:2])
    with pytest.raises(ValueError, match="metric: forward.. returns mean and linear, which two processes"):
        runner.evaluate(x, lambda outputs, inputs: 0)
    loss, h = zip(*runner.evaluate(x).outputs)
    assert [v is None for v in loss] == [not rank] * 2
    assert [v is None for v in h] == [bool(rank)] * 2
    if rank == 0:
        torch.testing.assert_close(torch.cat(h), model(x)[1])


def test_each_process_has_the_results_of_its_stages(tmp_path: Path) -> None:
    plan = planned(tmp_path, Does(twice), (torch.randn(2, 8),), M, "-w 2 -s 1f1b --stages 2")
    on_processes(two_results, 2, tmp_path, plan)
