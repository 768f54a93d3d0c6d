"""What is lost where the calls of a model run apart is refused, and never computed otherwise."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import orrery_torch
import pytest
import torch
import torch.nn.functional as F
from orrery_torch.costs.costs import Calls
from orrery_torch.run.plan import plan_of, read_plan
from orrery_torch.run.stage import Ready
from orrery_torch.trace.changes import check_backwards, check_changes, parted
from orrery_torch.trace.parts import split
from orrery_torch.trace.trace import trace
from runs import planned
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint


class First(nn.Module):
    """A product, and a function of it."""

    def __init__(self, then: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.a, self.then = nn.Linear(8, 8), then

    def forward(self, x: Tensor) -> Tensor:
        return self.then(self.a(x))


class Between(nn.Module):
    """Two products, and a function between them."""

    def __init__(self, between: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.b = First(between), nn.Linear(8, 8)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(self.b(self.first(x)), y)


def zeroed(h: Tensor) -> Tensor:
    h[:, 0] = 0
    return h.tanh()


def doubled(h: Tensor) -> Tensor:
    h[:, :4] *= 2
    return h


def flattened(h: Tensor) -> Tensor:
    kept = h.tanh()
    kept.view(-1).mul_(2)
    return kept


def half_filled(h: Tensor) -> Tensor:
    out = torch.zeros(len(h), 8)
    out[:, :4] = h[:, :4]
    return out


class Backwards(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 1

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:  # type: ignore[override]
        return -g


def batch() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(4, 8, generator=generator), torch.randn(4, 8, generator=generator)


@pytest.mark.parametrize("between", [zeroed, doubled, flattened])
def test_changes_that_others_see_are_refused(between: Callable[[Tensor], Tensor]) -> None:
    traced = trace(Between(between), batch())
    with pytest.raises(ValueError, match="changes a tensor that .* whole="):
        check_changes(traced, split(traced))
    check_changes(traced, split(traced, whole=(First,)))
    with pytest.raises(ValueError, match="changes a tensor that"):
        orrery_torch.convert(Between(between), batch())


def test_data_that_is_changed_is_refused() -> None:
    traced = trace(Between(half_filled), batch())
    for whole in ((), (First,)):
        with pytest.raises(ValueError, match="reads as zeros: write a new tensor"):
            check_changes(traced, split(traced, whole=whole))


@pytest.mark.parametrize("between", [zeroed, doubled, half_filled])
def test_changes_that_others_see_become_new_tensors(between: Callable[[Tensor], Tensor]) -> None:
    """Operators on tensors of their own, which no other sees changed."""
    model = Between(between)
    traced, parts = parted(model, batch(), split)
    calls = Calls(traced)
    values = calls.given(batch())
    for ready in (Ready(calls, [part]) for part in parts):
        own = [values[n].clone() for n in ready.reads]
        values |= zip(ready.gives, ready.run(*own, *ready.constants))
    loss, expected = values[traced.results[0]], model(*batch())
    assert loss.item() == expected.item()
    mine = torch.autograd.grad(loss, list(model.parameters()))
    theirs = torch.autograd.grad(expected, list(model.parameters()))
    assert all(torch.equal(g, h) for g, h in zip(mine, theirs))


def chained(h: Tensor) -> Tensor:
    return h.add_(1).mul_(2).clamp_(-1, 1)


def divided(h: Tensor) -> Tensor:
    best, places = h.topk(2)
    best /= best.sum(-1, keepdim=True)
    return h * best.sum(-1, keepdim=True) + places.sum(-1, keepdim=True)


@pytest.mark.parametrize("between", [chained, divided])
def test_changes_that_nobody_misses_are_none(between: Callable[[Tensor], Tensor]) -> None:
    traced = trace(Between(between), batch())
    check_changes(traced, split(traced))
    check_changes(traced)


def test_backwards_of_ones_own_are_refused() -> None:
    model = Between(Backwards.apply)
    assert trace(model, batch()).own_backwards == ["Backwards"]
    with pytest.raises(ValueError, match="Backwards: the backward of a torch.autograd.Function"):
        orrery_torch.convert(model, batch())
    with pytest.warns(UserWarning, match="a Runner refuses it"):
        orrery_torch.graph(model, batch(), measured=False)


def still(h: Tensor) -> Tensor:
    with torch.no_grad():
        factor = h * 2
    return half_filled(h) * factor


class Counting(Between):
    def __init__(self) -> None:
        super().__init__(half_filled)
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return super().forward(self.norm(x), y)


@pytest.mark.parametrize("model", [Between(still), Counting()], ids=["no_grad", "batch norm"])
def test_new_tensors_lose_no_region_and_no_buffer(model: nn.Module) -> None:
    with pytest.raises(ValueError, match="changes a tensor that"):
        check_changes(*parted(model, batch(), split))


@torch.library.custom_op("orrery_tests::tripled", mutates_args=())
def tripled(h: Tensor) -> Tensor:
    return h * 3


tripled.register_fake(torch.empty_like)
tripled.register_autograd(lambda _, slope: slope * 3)


def test_an_operator_of_ones_own_keeps_its_backward() -> None:
    check_backwards(trace(Between(tripled), batch()))


def hooked(h: Tensor) -> Tensor:
    h.register_hook(lambda g: -g)
    return h * 1


def hooked_behind(h: Tensor) -> Tensor:
    if h.grad_fn:
        h.grad_fn.next_functions[0][0].register_prehook(lambda g: (-g[0],))
    return h * 1


class Kept(torch.autograd.graph.saved_tensors_hooks):
    pass


def kept_otherwise(h: Tensor) -> Tensor:
    with Kept(torch.neg, lambda t: t):
        return torch.sin(h)


def kept_on_cpu(h: Tensor) -> Tensor:
    """Looks at a node, which is what it is, and keeps values by torch's own hooks."""
    assert h.grad_fn is None or isinstance(h.grad_fn, torch.autograd.graph.Node)
    with torch.autograd.graph.save_on_cpu():
        return cast(Tensor, checkpoint(torch.sin, h, use_reentrant=False))


def again(h: Tensor) -> Tensor:
    return cast(Tensor, checkpoint(torch.tanh, h, use_reentrant=True))


class Hooked(Between):
    def __init__(self) -> None:
        super().__init__(torch.tanh)
        self.first.a.register_full_backward_hook(lambda module, into, out: (-into[0],))


BACKWARDS = {
    "Tensor.register_hook": Between(hooked),
    "Node.register_hook": Between(hooked_behind),
    "saved_tensors_hooks": Between(kept_otherwise),
    "CheckpointFunction": Between(again),
    "BackwardHookFunction": Hooked(),
}


@pytest.mark.parametrize("word, model", BACKWARDS.items())
def test_backwards_that_no_call_shows_are_refused(word: str, model: nn.Module) -> None:
    with pytest.raises(ValueError, match=f"{word}: .*(into forward|use_reentrant=False)"):
        check_backwards(trace(model, batch()))


def test_what_torch_keeps_by_hooks_of_its_own_is_right() -> None:
    check_backwards(trace(Between(kept_on_cpu), batch()))


def test_hooks_on_parameters_stay_in_pytorch() -> None:
    model = Between(torch.tanh)
    model.b.weight.register_hook(lambda g: -g)
    check_backwards(trace(model, batch()))
    with pytest.raises(ValueError, match="b.weight: a hook on its gradient"):
        orrery_torch.convert(model, batch())


class Penalty(Between):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        h = self.first(x)
        return torch.autograd.grad(self.b(h).tanh().sum(), h, create_graph=True)[0].pow(2).mean()


def test_gradients_of_calls_that_run_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="torch.autograd.grad in forward"):
        orrery_torch.graph(Penalty(torch.tanh), batch(), measured=False)


@pytest.fixture
def plan(tmp_path: Path) -> dict[str, Any]:
    path = planned(tmp_path, Between(torch.tanh), batch(), 2, "-w 2 --stages 2")
    return dict(json.loads(path.read_text()))


def refused(plan: dict[str, Any], message: str) -> None:
    traced = trace(Between(torch.tanh), batch())
    with pytest.raises(ValueError, match=message):
        read_plan(plan, traced, split(traced))


def test_plans_that_lost_something_are_refused(plan: dict[str, Any]) -> None:
    orders = [list(w["order"]) for w in plan["worker"]]
    plan["worker"][1]["order"] = orders[1][:-1]
    refused(plan, "no worker has job 1B1")
    plan["worker"][1]["order"] = [*orders[1], orders[1][0]]
    refused(plan, "a job is there twice")
    plan["worker"][1]["order"] = [*orders[1], "9F9"]
    refused(plan, "job 9F9, of 2 stages and 2 microbatches")
    plan["worker"][1]["order"] = orders[1]
    plan["microbatches"] = 3
    refused(plan, "no worker has job 0F2")
    plan["microbatches"] = 2
    plan["stages"][1]["operators"].append(plan["stages"][0]["operators"][0])
    refused(plan, "an operator is in two stages")


def test_files_that_are_no_plans_are_named(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    with pytest.raises(ValueError, match="plan.json: No such file.*orrery plan -o"):
        plan_of(path)
    for text, message in (("", "no plan"), ("[]", "without stages"), ("{}", "without stages")):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"plan.json: no plan.*{message}|{message}"):
            plan_of(path)
