"""A plan of Orrery over processes: the loss and the gradients of the model in one piece."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orrery_torch
import pytest
import torch
from orrery_torch import command
from orrery_torch.run.plan import read_plan
from orrery_torch.run.runner import cut
from orrery_torch.trace.parts import split
from orrery_torch.trace.trace import trace
from run import whole_step
from runs import check_together, gradients, on_processes, planned, seeded
from small_models import GPT, MLP, Towers, digits, tokens, towers
from torch import Tensor, nn

SAMPLES, STEPS = 3, 2
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], tuple[Tensor, ...]]]] = {
    "mlp": (MLP, digits),
    "gpt": (GPT, tokens),
    "tied": (lambda: GPT(tied=True), tokens),
    "towers": (Towers, towers),
}
# a model, microbatches, and the rest of the options of `orrery simulate`
PLANS: dict[int, list[tuple[str, int, str]]] = {
    1: [("mlp", 2, "-s gpipe --stages 2")],
    2: [
        ("gpt", 4, "-s zb-h1 --stages 2"),
        ("gpt", 4, "-s v-half --stages 4"),
        ("gpt", 2, "-s 1f1b --stages 2 --recompute all"),
        ("gpt", 4, "-s chimera --stages 2"),
        ("gpt", 4, "-s ddp --stages 2"),
        ("tied", 4, "-s zb-h1 --stages 2"),
        ("towers", 4, "-s zb-h1 --stages 4"),
        ("towers", 2, "-s 1f1b --stages 4 --recompute all"),
    ],
    4: [
        ("gpt", 8, "-s 1f1b --stages 4"),
        ("towers", 4, "-s auto"),
        ("tied", 4, "-s v-half --stages 8"),
    ],
}


def built(name: str, m: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    make, inputs = MODELS[name]
    return seeded(make), inputs(SAMPLES * m)


def stepped(parameters: list[nn.Parameter]) -> None:
    with torch.no_grad():
        for p in parameters:
            if p.grad is not None:
                p -= 0.1 * p.grad
                p.grad = None


def worker(rank: int, n: int, folder: Path, cases: list[tuple[str, int, str]]) -> list[Any]:
    """Of each case what the steps gave, the model after them, and the jobs."""
    ran: list[Any] = []
    for i, (name, m, _) in enumerate(cases):
        model, batch = built(name, m)
        runner = orrery_torch.Runner(f"{folder}/plan{i}.json", model, cut(batch, m)[0])
        told: list[Any] = []
        for _ in range(STEPS):
            loss = runner.step(batch)
            told.append((loss, gradients(model)))
            stepped(runner.parameters())
        runner.collect()
        ran.append((told, model.state_dict(), [job for job, _, _ in runner.timeline]))
    return ran


def reference(name: str, m: int) -> tuple[list[tuple[float, dict[str, Tensor]]], nn.Module]:
    model, batch = built(name, m)
    told = []
    for _ in range(STEPS):
        told.append((whole_step(model, batch, m), gradients(model)))
        stepped(list(model.parameters()))
    return told, model


@pytest.mark.parametrize("n", PLANS)
def test_gradients_are_those_of_the_whole_model(n: int, tmp_path: Path) -> None:
    for i, (name, m, words) in enumerate(PLANS[n]):
        model, batch = built(name, m)
        planned(tmp_path, model, cut(batch, m)[0], m, f"-w {n} {words}", f"plan{i}")
    for i, told in enumerate(zip(*on_processes(worker, n, tmp_path, PLANS[n]))):
        name, m, words = PLANS[n][i]
        plan = json.loads((tmp_path / f"plan{i}.json").read_text())
        assert [t[2] for t in told] == [w["order"] for w in plan["worker"]], (name, words)
        expected, model = reference(name, m)
        for step, (loss, whole) in enumerate(expected):
            assert all(abs(t[0][step][0] - loss) < 1e-6 for t in told), (name, words)
            check_together((t[0][step][1] for t in told), whole, (name, words))
        for _, state, _ in told:  # collect() has brought all of it everywhere
            check_together([state], model.state_dict(), (name, words))


def parts_of(model: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Any, Any]:
    traced = trace(model, inputs)
    return traced, split(traced)


def plan_of_mlp(folder: Path, words: str) -> dict[str, Any]:
    plan = planned(folder, MLP(), digits(), 2, f"-w 2 --stages 2 {words}")
    return json.loads(plan.read_text())


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("-s fsdp", "fsdp has job 1F0@1: only F, B and W on the worker that owns"),
        ("-s fslpp:R=1,G=2", "fslpp has job 1F.@1: only F, B and W on the worker that owns"),
        ("-s pipedream", "pipedream never flushes: only schedules with a flush"),
    ],
)
def test_what_a_runner_does_not_do_is_refused(tmp_path: Path, words: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_plan(plan_of_mlp(tmp_path, words), *parts_of(MLP(), digits()))


def test_split_operators_are_refused(tmp_path: Path) -> None:
    """Of a graph that computes, as convert() writes it."""
    dot = orrery_torch.convert(MLP(), digits()).write(tmp_path / "model.dot")
    command.run("plan", dot, "-w", 2, "-m", 2, "--split", 2, "-o", tmp_path / "plan.json")
    with pytest.raises(ValueError, match=r"operators are split among workers \(2\).*without --split"):
        read_plan(tmp_path / "plan.json", *parts_of(MLP(), digits()))


def test_a_plan_of_another_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not both in the plan and in the model"):
        read_plan(plan_of_mlp(tmp_path, "-s 1f1b"), *parts_of(GPT(), tokens()))


class Picked(nn.Module):
    """An expert that has the rows which data picks."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.expert, self.last = nn.Linear(64, 2), nn.Linear(64, 64), nn.Linear(64, 10)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        (rows,) = torch.where(self.gate(x).argmax(-1) == 0)
        h = x.index_add(0, rows, self.expert(x[rows]))
        return nn.functional.cross_entropy(self.last(h), y)


def test_rows_that_data_picks_stay_where_they_are(tmp_path: Path) -> None:
    plan = planned(tmp_path, Picked(), digits(), 2, "-w 2 -s 1f1b --stages 3")
    with pytest.raises(ValueError, match=r"\w+: data chooses its size, .* on one worker"):
        read_plan(plan, *parts_of(Picked(), digits()))
    alone = planned(tmp_path, Picked(), digits(), 2, "-w 1 -s gpipe --stages 3")
    assert len(read_plan(alone, *parts_of(Picked(), digits())).stages) == 3


def test_what_f_keeps_stays_where_it_is(tmp_path: Path) -> None:
    plan = plan_of_mlp(tmp_path, "-s 1f1b")
    first, second = (w["order"] for w in plan["worker"])
    first.remove("0B1")
    second.append("0B1")
    with pytest.raises(ValueError, match="0B1 is on worker 1, F of it on 0"):
        read_plan(plan, *parts_of(MLP(), digits()))


def test_a_minibatch_is_cut_into_equal_parts() -> None:
    parts = cut({"x": torch.arange(6), "scale": 2.0}, 3)
    assert [p["x"].tolist() for p in parts] == [[0, 1], [2, 3], [4, 5]]
    assert all(p["scale"] == 2.0 for p in parts)
    with pytest.raises(ValueError, match="not cut into 4 equal"):
        cut(torch.arange(6), 4)
