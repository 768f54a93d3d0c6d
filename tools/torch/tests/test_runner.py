"""What a Runner has to keep right beside the sums: random numbers, buffers, gradients that are there,
several losses, values that several stages read, the order of messages, and clocks."""

import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orrery_torch
import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from orrery_torch import command
from orrery_torch.run import post
from orrery_torch.run.clock import between
from orrery_torch.run.plan import Message
from orrery_torch.run.runner import cut
from orrery_torch.trace.parts import split as split_into_parts
from orrery_torch.trace.trace import trace
from run import whole_step
from runs import check_together, gradients, on_processes, planned, seeded
from small_models import MLP, Does, digits
from torch import Tensor, nn

SAMPLES, M = 2, 4


class Odd(nn.Module):
    """Two losses; a value that three operators read, turned over so that it is not contiguous; ids
    that are computed in one stage and read in another; a parameter that two of them have."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.table, self.head = nn.Embedding(6, 6), nn.Linear(6, 6, bias=False)
        self.head.weight = self.table.weight
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        turned = self.first(x).transpose(1, 2)
        ids = turned.argmax(dim=1)
        z = self.norm(self.second(turned) + self.table(ids))
        scores = self.head(z + turned)
        return F.cross_entropy(scores.flatten(0, 1), y.flatten()), 0.1 * (turned * z).mean()


def with_masks() -> Does:
    return Does(lambda m, x: F.dropout(m.b(F.dropout(m.a(x)).relu())).square().mean())


def odd(n: int) -> tuple[Tensor, ...]:
    g = torch.Generator().manual_seed(5)
    return torch.randn(n, 6, 6, generator=g), torch.randint(6, (n, 6), generator=g)


def rows(n: int) -> tuple[Tensor, ...]:
    return (torch.randn(n, 8, generator=torch.Generator().manual_seed(6)),)


def two_steps(rank: int, n: int, folder: Path, plans: list[Path]) -> list[Any]:
    """Gradients of two steps, added up; the timeline; what other batches give, in all and in one."""
    most, ran = 0, list[Any]()
    for i, plan in enumerate(plans):
        model, batch = seeded(Odd), odd(SAMPLES * M)
        runner = orrery_torch.Runner(plan, model, cut(batch, M)[0])
        most = max(most, *map(len, sum(runner.training.post.letters.values(), [()])))
        losses = [runner.step(batch), runner.step(batch)]
        ran.append((losses, gradients(model)))
        runner.write_timeline(f"{folder}/ran{i}.json")
        with pytest.raises(ValueError, match=r"\[2, 6, 5\].*the example was .*\[2, 6, 6\]"):
            runner.step((batch[0][..., :5], batch[1]))
    with pytest.raises(ValueError, match="batch: processes have 7 to 8 parts: give all the same"):
        runner.step(odd(7 + rank))
    with pytest.raises(ValueError, match="^(process 0: )?batch: rows of 0 8, 1 7, and of the example"):
        runner.step((odd(8)[0], odd(8 if rank else 7)[1]))  # refused by one, and by all
    assert runner.step(batch) > 0
    assert most > 1  # ids and numbers of a job go as one
    return ran


def test_two_steps_add_up_and_their_timeline_is_read(tmp_path: Path) -> None:
    schedules = ("-s 1f1b", "-s zb-h1", "-s ddp", "-s v-half --stages 4", "-s chimera --stages 2")
    plans = [planned(tmp_path, Odd(), odd(SAMPLES), M, f"-w 2 {words}") for words in schedules]
    model, batch = seeded(Odd), odd(SAMPLES * M)
    whole = sum(whole_step(model, batch, M) for _ in range(2))
    for i, (plan, *told) in enumerate(zip(plans, *on_processes(two_steps, 2, tmp_path, plans))):
        check_together((each for _, each in told), {k: p.grad for k, p in model.named_parameters()}, plan)
        for losses, _ in told:
            assert abs(sum(losses) - whole) < 1e-5, plan
        ran = tmp_path / f"ran{i}.json"
        told_by = json.loads(command.run("simulate", plan, "--measured", ran, "--json"))
        last = max(e for w in json.loads(ran.read_text())["worker"] for e in w["end"])
        assert abs(told_by["measured"]["makespan"] - last) < 2e-9, plan


def gradients_of(plan: Path, model: nn.Module, batch: tuple[Tensor, ...]) -> list[Tensor]:
    runner = orrery_torch.Runner(plan, model, cut(batch, M)[0])
    torch.manual_seed(9)
    runner.step(batch)
    return [p.grad for p in model.parameters() if p.grad is not None]


@pytest.mark.usefixtures("alone")
def test_recomputation_has_the_masks_of_its_forward(tmp_path: Path) -> None:
    found = []
    for recompute in ("none", "all"):
        words = f"-w 1 -s gpipe --stages 2 --recompute {recompute}"
        plan = planned(tmp_path, with_masks(), rows(SAMPLES), M, words)
        assert any(s.get("recompute") for s in json.loads(plan.read_text())["stages"]) == (
            recompute == "all"
        )
        found.append(gradients_of(plan, seeded(with_masks), rows(SAMPLES * M)))
    for kept, again in zip(*found):
        assert torch.equal(kept, again)
    other = seeded(with_masks)
    torch.manual_seed(10)
    other(*rows(SAMPLES * M)).backward()
    assert not torch.allclose(found[0][0], other.a.weight.grad)


@pytest.mark.usefixtures("alone")
def test_recomputation_moves_running_means_once(tmp_path: Path) -> None:
    plan = planned(tmp_path, Odd(), odd(SAMPLES), M, "-w 1 -s gpipe --stages 2 --recompute all")
    model, whole, batch = seeded(Odd), seeded(Odd), odd(SAMPLES * M)
    orrery_torch.Runner(plan, model, cut(batch, M)[0]).step(batch)
    for part in cut(batch, M):
        whole(*part)
    assert model.norm.num_batches_tracked == M
    torch.testing.assert_close(model.norm.running_mean, whole.norm.running_mean)
    torch.testing.assert_close(model.norm.running_var, whole.norm.running_var)


class Moving(nn.Module):
    """Its buffer follows what it reads, and its result the buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        self.mean.mul_(0.9)
        self.mean.add_(x.detach().mean(0) * 0.1)
        return x * (1 + self.mean)


class Follows(nn.Module):
    """Returns one loss twice, of one number in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.moving, self.b = nn.Linear(6, 6), Moving(), nn.Linear(6, 6)

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        loss = F.mse_loss(self.b(self.moving(self.a(x)).tanh()), y).reshape(1)
        return loss, loss


class Variance(nn.Module):
    """Reads at its end what its batch norm has moved."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.a = nn.BatchNorm1d(6), nn.Linear(6, 6)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(self.a(self.norm(x)).tanh() * self.norm.running_var, y)


def pairs(n: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    return torch.randn(n, 6, generator=generator), torch.randn(n, 6, generator=generator)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("recompute", ["none", "all"])
def test_buffers_are_those_of_the_forward(tmp_path: Path, recompute: str) -> None:
    words = f"-w 1 -s gpipe --stages 2 --recompute {recompute}"
    plan = planned(tmp_path, Follows(), pairs(SAMPLES), M, words)
    with torch.no_grad():  # gradients are what a step is for
        found = gradients_of(plan, seeded(Follows), pairs(SAMPLES * M))
    whole = seeded(Follows)
    whole_step(whole, pairs(SAMPLES * M), M)
    for g, p in zip(found, whole.parameters(), strict=True):
        torch.testing.assert_close(g, p.grad)


@pytest.mark.usefixtures("alone")
def test_a_buffer_of_two_stages_is_refused(tmp_path: Path) -> None:
    plan = planned(tmp_path, Variance(), pairs(SAMPLES), M, "-w 1 -s gpipe --stages 3")
    with pytest.raises(ValueError, match="norm.running_var is changed here and read in another"):
        orrery_torch.Runner(plan, Variance(), pairs(SAMPLES))


@pytest.mark.usefixtures("alone")
def test_a_model_that_evaluates_now_is_refused(tmp_path: Path) -> None:
    plan = planned(tmp_path, Follows(), pairs(SAMPLES), M, "-w 1 -s gpipe --stages 2")
    model = Follows()
    runner = orrery_torch.Runner(plan, model, pairs(SAMPLES))
    model.eval()
    with pytest.raises(ValueError, match="make a new Runner"):
        runner.step(pairs(SAMPLES * M))


@pytest.mark.usefixtures("alone")
def test_messages_have_the_types_of_the_step(tmp_path: Path) -> None:
    """They were read as what they are not: a loss of NaN without a word."""
    batch = digits(SAMPLES * M)
    plan = planned(tmp_path, MLP(), cut(batch, M)[0], M, "-w 1 -s gpipe --stages 2")
    model = MLP()
    runner = orrery_torch.Runner(plan, model, cut(batch, M)[0])
    for dtype in (None, torch.bfloat16, torch.float16, None):
        with torch.autocast("cpu", dtype, enabled=dtype is not None):
            loss = sum(model(*part).item() for part in cut(batch, M)) / M
            assert runner.step(batch) == pytest.approx(loss, abs=1e-7), dtype
    node, value = next(iter(runner.training.post.shapes.items()))
    for wrong in (value.bfloat16(), value[:1]):
        with pytest.raises(ValueError, match=f"^{node.name}: a message of .* was made for "):
            runner.training.post.checked(Message(node, 0, -1, 0, 1), wrong.detach())


# ---- channels that block, as NCCL's do ----


@dataclass
class Queued:
    future: Future[Any]

    def wait(self) -> None:
        self.future.result()

    def is_completed(self) -> bool:
        return self.future.done()


class Blocking:
    """torch.distributed with the queues of NCCL: in a group one message after the other, and none
    leaves before the other side has come for it; a message has no tag."""

    def __init__(self) -> None:
        self.queues: dict[Any, ThreadPoolExecutor] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(dist, name)

    def _queued(self, group: Any, first: Callable[[], Any], then: Callable[[], Any]) -> Queued:
        queue = self.queues.setdefault(group, ThreadPoolExecutor(1))
        return Queued(queue.submit(lambda: (first(), then())))

    def isend(self, value: Tensor, to: int, group: Any) -> Queued:
        met = torch.zeros(1)
        return self._queued(
            group,
            lambda: dist.recv(met, to, group=group),
            lambda: dist.send(value, to, group=group),
        )

    def irecv(self, room: Tensor, source: int, group: Any) -> Queued:
        return self._queued(
            group,
            lambda: dist.send(torch.zeros(1), source, group=group),
            lambda: dist.recv(room, source, group=group),
        )


def through_queues(rank: int, n: int, folder: Path, plans: list[Path]) -> list[dict[str, Tensor]]:
    post.dist, ran = Blocking(), []  # type: ignore[assignment]
    for plan in plans:
        model, batch = seeded(Odd), odd(SAMPLES * M)
        orrery_torch.Runner(plan, model, cut(batch, M)[0]).step(batch)
        ran.append(gradients(model))
    return ran


def test_queues_in_which_messages_wait_for_each_other_do_not_block(tmp_path: Path) -> None:
    schedules = ("-s 1f1b --stages 3", "-s v-half --stages 6", "-s zb-h1 --stages 3")
    plans = [planned(tmp_path, Odd(), odd(SAMPLES), M, f"-w 3 {words}") for words in schedules]
    model = seeded(Odd)
    whole_step(model, odd(SAMPLES * M), M)
    for plan, *told in zip(plans, *on_processes(through_queues, 3, tmp_path, plans)):
        check_together(told, {k: p.grad for k, p in model.named_parameters()}, plan)


# ---- clocks ----


def test_clocks_of_one_machine_are_left_alone() -> None:
    assert between([(-2.0, 1.0), (-1.0, 3.0)]) == 0.0


def test_a_clock_is_moved_into_what_all_meetings_allow() -> None:
    assert between([(3.0, 7.0), (4.0, 9.0)]) == 5.5


# ---- one graph of autograd ----


def in_place(m: Does, x: Tensor) -> Tensor:
    """Changes a tensor that was read before."""
    h = m.a(x)
    before = h + 1
    return (m.b(h.relu_()) * before).square().mean()


def read_twice(m: Does, x: Tensor) -> Tensor:
    """A module's output, and a view of it."""
    h = m.a(x)
    return (m.b(h.flatten(0, 1)).view_as(h) + h).square().mean()


def written_plan(stages: list[list[str]], split: bool) -> dict[str, Any]:
    """On one worker, all forward passes first."""
    numbers, back = range(len(stages)), "BW" if split else "B"
    order = [f"{i}F{b}" for b in range(M) for i in numbers]
    order += [f"{i}{d}{b}" for b in range(M) for i in reversed(numbers) for d in back]
    told = [{"operators": names} for names in stages]
    return {"stages": told, "worker": [{"order": order}], "microbatches": M}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize(
    "what, stages",
    [
        (in_place, [["a", "relu_"], ["add", "b", "mul", "square", "mean"]]),
        (read_twice, [["a"], ["b", "view_as", "add", "square", "mean"]]),
        (read_twice, [["a", "b"], ["view_as", "add", "square", "mean"]]),
    ],
)
def test_what_others_read_of_an_operator(what: Callable[..., Any], stages: list[list[str]], split: bool) -> None:
    """What was there before a change in place, though it runs later; a tensor and a view of it."""
    model = seeded(lambda: Does(what))
    plan = written_plan(stages, split)
    batch = (torch.randn(SAMPLES * M, 3, 8, generator=torch.Generator().manual_seed(6)),)
    orrery_torch.Runner(plan, model, cut(batch, M)[0]).step(batch)
    found = [p.grad for p in model.parameters()]
    model.zero_grad()
    model(*batch).backward()
    torch.testing.assert_close(found, [p.grad for p in model.parameters()])


SPLIT_CALLS = 4  # W of both stages; B of a and of b, each with what follows it


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("split", [False, True])
def test_a_stage_is_one_graph_where_b_and_w_are_one_job(
    split: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call of the engine a job, and not one an operator. Where they are two, W is one, and B one
    for each operator with parameters, with those that follow it."""
    calls = []
    engine = torch.autograd.graph._engine_run_backward
    for module in (torch.autograd, torch.autograd.graph):
        count = lambda *args, **kwargs: calls.append(0) or engine(*args, **kwargs)  # noqa: E731
        monkeypatch.setattr(module, "_engine_run_backward", count)
    names = [part.name for part in split_into_parts(trace(Follows(), pairs(SAMPLES)))]
    half = len(names) // 2
    runner = orrery_torch.Runner(
        written_plan([names[:half], names[half:]], split), Follows(), pairs(SAMPLES)
    )
    calls.clear()
    runner.step(pairs(SAMPLES * M))
    assert len(calls) == (SPLIT_CALLS if split else 2) * M


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("recompute", ["none", "all"])
def test_a_compiled_stage_gives_the_same(tmp_path: Path, recompute: str) -> None:
    """Losses, gradients and running means; another size runs as it is."""
    batch, found = odd(SAMPLES * M), []
    words = f"-w 1 -s gpipe --stages 2 --recompute {recompute}"
    plan = planned(tmp_path, Odd(), odd(SAMPLES), M, words)
    for backend in (False, "aot_eager"):
        model = seeded(Odd)
        runner = orrery_torch.Runner(plan, model, cut(batch, M)[0], compile=backend)
        losses = [runner.step(batch), runner.step(odd(3))]
        gradients = {k: p.grad for k, p in model.named_parameters()}
        found.append((losses, gradients, dict(model.named_buffers())))
    torch.testing.assert_close(*found)


@pytest.mark.usefixtures("alone")
def test_what_torch_compile_does_not_have_is_refused(tmp_path: Path) -> None:
    plan = planned(tmp_path, Odd(), odd(SAMPLES), M, "-w 1 -s zb-h1 --stages 1")
    with pytest.raises(ValueError, match="compile=True: the plan has B and W of stage 0 apart"):
        orrery_torch.Runner(plan, Odd(), odd(SAMPLES), compile=True)
    model = Odd()
    model.first = torch.compile(model.first)
    with pytest.raises(ValueError, match="^first is made by torch.compile, which would be lost here"):
        orrery_torch.Runner(plan, model, odd(SAMPLES))
