"""Schedules written in Python."""

import json
from pathlib import Path
from typing import Any

import orrery_torch
import pytest
from orrery_torch import command
from orrery_torch.schedule import Costs
from small_models import GPT, tokens


def gpipe(p: Costs, s: int, b: int, d: str) -> tuple[int, Any]:
    return s % p.workers, (d == "B", s if d == "F" else -s, b)


def one_f_one_b(p: Costs, s: int, b: int, d: str) -> tuple[int, Any]:
    most, depth = max(x.depth for x in p.stages), p.stages[s].depth
    return s % p.workers, (2 * b + most - depth if d == "F" else 2 * b + most + depth - 1, s)


def built_in(study: str, name: str, *words: object) -> dict[str, Any]:
    return json.loads(command.run("simulate", study, "-s", name, "--json", *words))


@pytest.mark.parametrize(("policy", "name"), [(gpipe, "gpipe"), (one_f_one_b, "1f1b")])
def test_it_is_simulated_as_the_built_in_one(policy: Any, name: str) -> None:
    found = orrery_torch.schedule(policy, "towers:3,3/2", workers=8, microbatches=16)
    expected = built_in("towers:3,3/2", name, "-m", 16)
    assert found.makespan == expected["makespan"] and found.figures["unit"] == expected["unit"]
    peaks = [[w["peak_stash"] for w in x["worker"]] for x in (found.figures, expected)]
    assert peaks[0] == peaks[1]
    assert "<svg" in found._repr_svg_()


def test_costs_are_those_of_the_pipeline() -> None:
    seen: list[Costs] = []

    def looks(p: Costs, s: int, b: int, d: str) -> tuple[int, Any]:
        seen.append(p)
        return s % p.workers, ("FBW".index(d), b)

    words = ("--costs", "2,3,4")
    orrery_torch.schedule(
        looks, "towers:2,1/1", workers=4, microbatches=2, split=True, options=words
    )
    stages = seen[0].stages
    assert [x.depth for x in stages] == [3, 2, 2, 1]
    assert [x.before for x in stages] == [[], [0], [], [1, 2]]
    assert {(x.forward, x.backward, x.weight) for x in stages} == {(2.0, 3.0, 4.0)}


def test_a_model_in_its_own_plan(tmp_path: Path) -> None:
    graph = orrery_torch.graph(GPT(), tokens(), measured=False)
    found = orrery_torch.schedule(one_f_one_b, graph, workers=2, microbatches=4, stages=4)
    assert {w for s in found.plan["stages"] for w in s["workers"]} == {0, 1}
    dot = graph.write(tmp_path / "model.dot")
    again = command.run("simulate", dot, "-s", found.write(tmp_path / "plan.json"), "--json")
    assert json.loads(again)["makespan"] == found.makespan


def test_an_order_that_deadlocks_is_refused_with_its_cycle() -> None:
    def backwards(p: Costs, s: int, b: int, d: str) -> tuple[int, Any]:
        return s % p.workers, (d == "F", b, s)

    with pytest.raises(ValueError, match="(?i)deadlock|cycle|wait"):
        orrery_torch.schedule(backwards, "chain:2", workers=2, microbatches=2)


def test_a_worker_or_a_priority_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="0F0: worker 7: there are 0 to 1"):
        orrery_torch.schedule(lambda p, s, b, d: (7, b), "chain:2", workers=2, microbatches=2)
    with pytest.raises(ValueError, match="have one priority, 0"):
        orrery_torch.schedule(lambda p, s, b, d: (s, 0), "chain:2", workers=2, microbatches=2)
