"""Models on the meta device: a process has memory for its own stages alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orrery_torch
import pytest
import torch
import torch.distributed.checkpoint as dcp
from orrery_torch.run.runner import cut
from orrery_torch.tensors import save_safetensors
from orrery_torch.trace.trace import on_fakes
from run import whole_step
from runs import check_together, gradients, on_processes, planned, read_only, seeded
from small_models import GPT, Does, Towers, tokens, towers
from test_run import MODELS
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor

SAMPLES, M = 3, 2
SCHEDULES = ("-w 2 -s 1f1b", "-w 2 -s ddp", "-w 2 -s zb-h1")


def on_meta(make: Callable[[], nn.Module]) -> nn.Module:
    with torch.device("meta"):
        return make()


def init(_: str, t: Tensor) -> None:
    t.normal_(std=0.1) if t.is_floating_point() else t.zero_()


def a_step(rank: int, n: int, folder: Path, plans: list[tuple[str, Path]]) -> list[Any]:
    """From a file, a folder and init: the gradients; which tensors have memory."""
    ran: list[Any] = []
    for name, plan in plans:
        make, data = MODELS[name]
        batch = data(SAMPLES * M)
        told = []
        for source in ("safetensors", "dcp", "init"):
            torch.manual_seed(3 + rank)
            model = on_meta(make)
            runner = orrery_torch.Runner(plan, model, cut(batch, M)[0])
            with pytest.raises(ValueError, match=r"on the meta device: call materialise\(\)"):
                runner.step(batch)
            if source == "init":
                runner.materialise(init)
            else:
                runner.materialise(checkpoint=f"{folder}/{name}.{source}")
            held = {id(p) for p in runner.parameters()}
            assert all(p.is_meta == (id(p) not in held) for p in model.parameters())
            with pytest.raises(ValueError, match="meta device"):
                runner.collect()
            drawn = {k: t.detach().clone() for k, t in model.state_dict().items() if not t.is_meta}
            loss = runner.step(read_only(runner, batch))
            told.append((loss, gradients(model), drawn))
        ran.append(told)
    return ran


def test_stages_are_materialised_where_they_run(tmp_path: Path) -> None:
    plans: list[tuple[str, Path]] = []
    wholes: dict[str, tuple[float, dict[str, Any]]] = {}
    for name in ("tied", "towers"):
        make, data = MODELS[name]
        model = seeded(make)
        save_safetensors(tmp_path / f"{name}.safetensors", model.state_dict())
        dcp.save(model.state_dict(), checkpoint_id=tmp_path / f"{name}.dcp", no_dist=True)
        for words in SCHEDULES:
            plans.append((name, planned(tmp_path, model, data(SAMPLES), M, words)))
        wholes[name] = (whole_step(model, data(SAMPLES * M), M), gradients(model))
    drawn: dict[str, dict[str, Tensor]] = {}
    for (name, plan), *told in zip(plans, *on_processes(a_step, 2, tmp_path, plans)):
        loss, whole = wholes[name]
        for source in (0, 1):
            assert abs(told[0][source][0] - loss) < 1e-5, plan
            check_together((each[source][1] for each in told), whole, plan)
        for rank in range(2):  # the same numbers under every plan and on every process
            for k, t in told[rank][2][2].items():
                assert torch.equal(drawn.setdefault(name, {}).setdefault(k, t), t), f"{plan} {k}"


@pytest.mark.usefixtures("alone")
def test_a_runner_is_made_without_a_forward(tmp_path: Path) -> None:
    seen: list[bool] = []  # whether it is on memory

    def looks(m: Does, x: Tensor) -> Tensor:
        seen.append(not isinstance(x, FakeTensor))
        return m.b(m.a(x)).square().mean()

    plan = planned(tmp_path, Does(looks), torch.ones(2, 8), M, "-w 1 --stages 2")
    seen.clear()
    runner = orrery_torch.Runner(plan, Does(looks), torch.ones(2, 8))
    assert seen and not any(seen)
    assert all(t.is_meta for t in runner.training.post.shapes.values())


def test_a_run_of_all_stages_is_told() -> None:
    with pytest.warns(UserWarning, match=r"fake tensors do not run .*: all of it runs once"):
        found = on_fakes(nn.Identity(), torch.ones(3), None, lambda x, _: x[x > 0].sum())
    assert found == 3


def test_a_model_on_meta_has_its_stash() -> None:
    own, meta = (
        {p.name: c.stash for p, c in zip(g.parts, g.costs)}
        for g in (
            orrery_torch.graph(m, tokens(SAMPLES), measured=False)
            for m in (GPT(tied=True), on_meta(lambda: GPT(tied=True)))
        )
    )
    assert own.keys() == meta.keys() and sum(own.values()) > 0
    # without a fused kernel attention keeps its scores, too, and `out` reads a copy of the heads
    assert {n for n in own if own[n] < meta[n]} == {
        f"h.{i}.{name}" for i in range(2) for name in ("out", "scaled_dot_product_attention")
    }
    assert all(own[n] <= meta[n] for n in own)
    with pytest.raises(ValueError, match="^on the meta device nothing takes time: measured=False"):
        orrery_torch.graph(on_meta(GPT), tokens(SAMPLES))


@pytest.mark.usefixtures("alone")
def test_what_no_source_gives_is_named(tmp_path: Path) -> None:
    plan = planned(tmp_path, Towers(), towers(SAMPLES), M, "-w 1 -s gpipe --stages 2")
    weights = dict(Towers().state_dict())
    del weights["norm.running_mean"]
    weights["head.bias"] = torch.ones(5)
    save_safetensors(tmp_path / "w.safetensors", weights)
    runner = orrery_torch.Runner(plan, on_meta(Towers), towers(SAMPLES))
    with pytest.raises(ValueError, match=r"^encoder.0.weight: it has no value: give .* an init for it"):
        runner.materialise()
    with pytest.raises(ValueError, match=r"head.bias is \[5\] there and \[4\] in the model"):
        runner.materialise(checkpoint=tmp_path / "w.safetensors")
    weights["head.bias"] = torch.ones(4)
    save_safetensors(tmp_path / "w.safetensors", weights)
    with pytest.raises(ValueError, match="^norm.running_mean: .*w.safetensors lacks it, and it has no value"):
        runner.materialise(checkpoint=tmp_path / "w.safetensors")
    runner.materialise(init, checkpoint=tmp_path / "w.safetensors")
    assert runner.step(towers(SAMPLES * M)) > 0
    with pytest.raises(ValueError, match="nowhere: no such checkpoint"):
        runner.materialise(checkpoint="nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="empty: no checkpoint of torch.distributed.checkpoint"):
        runner.materialise(checkpoint=tmp_path / "empty")
