"""The commands as calls."""

import json
from pathlib import Path

import orrery_torch
import pytest
from orrery_torch import command, export
from small_models import GPT, tokens


def test_a_step_is_the_commands() -> None:
    found = orrery_torch.simulate("chain:8", workers=4, schedule="v-half", microbatches=8, costs=(1, 1, 1))
    words = ("-w", 4, "-s", "v-half", "-m", 8, "--costs=1,1,1", "--json")
    assert found.figures == json.loads(command.run("simulate", "chain:8", *words))
    assert found.makespan == found.figures["makespan"] and "<svg" in found.svg
    again = orrery_torch.simulate(found.plan)
    assert again.figures["makespan"] == found.makespan
    assert "<html" in again.page


def test_rows_have_all_that_the_csv_has(tmp_path: Path) -> None:
    found = orrery_torch.compare("chain:8", workers=[4, 8], schedule=["1f1b", "gpipe"], costs=("1ms", "2ms"))
    assert {(x["workers"], x["schedule"]) for x in found.rows} == {(w, s) for w in (4, 8) for s in ("1f1b", "gpipe")}
    assert all(x["makespan"] > 0 and x["microbatches"] == 8 for x in found.rows) and not found.refused
    assert "<html" in found.page


def test_a_model_is_planned_and_its_plan_is_what_others_read(tmp_path: Path) -> None:
    graph = orrery_torch.graph(GPT(), tokens(2, 8))
    found = orrery_torch.plan(graph, workers=2, microbatches=4, straight=True)
    step = orrery_torch.simulate(found.plan)
    assert step.makespan == pytest.approx(found.makespan)
    traces = export.chakra(step.plan, tmp_path / "gpt")
    assert [path.name for path in traces] == ["gpt.0.et", "gpt.1.et"]


def test_what_is_refused_names_the_object() -> None:
    with pytest.raises(ValueError, match=r"^--memory: "):
        orrery_torch.simulate("chain:4", memory="nothing")
    with pytest.raises(ValueError, match="^the plan: "):
        orrery_torch.simulate({"graph": "none"})
