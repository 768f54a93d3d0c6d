"""Schedules written in Python."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orrery_torch
import pytest
from orrery_torch import command
from orrery_torch.schedule import Costs
from small_models import GPT, tokens
from test_notebook import data_of

Key = Callable[[Costs, int, int, str], tuple[int, Any]]


def gpipe(p: Costs, s: int, b: int, d: str) -> tuple[int, Any]:
    depth = p.stages[s].depth
    return s % p.workers, (d == "B", b - depth if d == "F" else b + depth, s)


def one_f_one_b(p: Costs, s: int, b: int, d: str) -> tuple[int, Any]:
    most, depth = max(x.depth for x in p.stages), p.stages[s].depth
    return s % p.workers, (2 * b + most - depth if d == "F" else 2 * b + most + depth - 1, s)


def interleaved(p: Costs, s: int, b: int, d: str) -> tuple[int, Any]:
    """Rounds of as many microbatches as workers, through one group of stages after the other."""
    w = p.workers
    group = s // w if d == "F" else (len(p.stages) - 1 - s) // w
    warm_up = 2 * (w - s % w - 1) + (len(p.stages) // w - 1) * w
    place = b // w * len(p.stages) + group * w + b % w
    return s % w, (max(2 * (place - warm_up), place - warm_up) if d == "F" else 2 * place + 1)


def zb_h1(p: Costs, s: int, b: int, d: str) -> tuple[int, Any]:
    depth, most = p.stages[s].depth, max(x.depth for x in p.stages)
    at = {"F": 3 * (b - depth) + 2, "B": 3 * b, "W": 3 * (b + most - depth) + 1}
    return s % p.workers, (at[d] + depth, s)


def built_in(study: str, name: str, *words: object) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(command.run("simulate", study, "-s", name, "--json", *words))
    return told


def check_replayed(found: orrery_torch.Simulated, folder: Path) -> None:
    """The command finds the same for the plan that was written, digit for digit."""
    plan = found.write(folder / "plan.json")
    again = json.loads(command.run("simulate", plan, "--json"))
    assert again == found.figures | {"schedule": str(plan)}


@pytest.mark.parametrize(
    ("policy", "name", "study", "workers", "m", "words"),
    [
        (gpipe, "gpipe", "towers:3,3/2", 8, 16, {}),
        (gpipe, "gpipe", "towers:3,3/2", 4, 8, {"latency": "0.25"}),
        (one_f_one_b, "1f1b", "towers:3,3/2", 8, 16, {}),
        (one_f_one_b, "1f1b", "chain:4", 4, 12, {"costs": "1,2", "latency": "0.5"}),
        (interleaved, "interleaved", "chain:8", 4, 8, {}),
        (interleaved, "interleaved", "chain:12", 4, 12, {"costs": "2,3"}),
        (zb_h1, "zb-h1", "chain:4", 4, 8, {"split": True}),
        (zb_h1, "zb-h1", "towers:2,3/1", 6, 18, {"split": True, "costs": "2,2,1"}),
    ],
)
def test_it_is_simulated_as_the_built_in_one(
    policy: Key, name: str, study: str, workers: int, m: int, words: dict[str, Any]
) -> None:
    found = orrery_torch.schedule(policy, study, workers=workers, microbatches=m, **words)
    options = [x for key in ("costs", "latency") if key in words for x in (f"--{key}", words[key])]
    expected = built_in(study, name, "-w", workers, "-m", m, *options)
    assert found.makespan == expected["makespan"] and found.figures["unit"] == expected["unit"]
    for key in ("busy", "peak_stash", "received_activations"):
        assert [w.get(key) for w in found.figures["worker"]] == [
            w.get(key) for w in expected["worker"]
        ], key
    assert "<svg" in found._repr_svg_()
    assert data_of(found._repr_html_())["report"]["makespan"] == found.makespan


def test_its_figures_are_those_that_the_command_finds_for_its_plan(tmp_path: Path) -> None:
    found = orrery_torch.schedule(
        gpipe,
        "towers:2,1/1",
        workers=2,
        microbatches=4,
        order="greedy",
        costs="1ms,2ms",
        activation="1MB",
        stash=1000,
        parameters="2MB",
        bandwidth="10GB/s",
        latency="5us",
        memory="1GB",
        optimizer="sgd",
        in_flight=lambda p, s: 4,
        recompute=lambda p, s: s == 1,
        weights=lambda p, s, b, d: 0,
    )
    check_replayed(found, tmp_path)
    assert [s["recompute"] for s in found.plan["stages"]] == [False, True, False, False]
    assert [s["owners"] for s in found.plan["stages"]] == [[0]] * 4
    assert found.plan["order"] == "greedy" and found.figures["optimizer"] == "sgd"


@pytest.mark.parametrize("name", ["v-half", "1f1b-v", "hanayo", "dualpipe-v"])
def test_a_fold_has_the_figures_of_the_built_in_one(name: str, tmp_path: Path) -> None:
    """Their orders have no closed form: the policy looks each job up."""
    size = ["-w", 4, "-m", 8, "--latency", "0.25"]
    command.run("simulate", "chain:8", *size, "-s", name, "-o", tmp_path / "built-in.json")
    plan = json.loads((tmp_path / "built-in.json").read_text())
    where = {
        job: (w, n)
        for w, worker in enumerate(plan["worker"])
        for job, n in zip(worker["order"], worker["n"])
    }
    found = orrery_torch.schedule(
        lambda p, s, b, d: where[f"{s}{d}{b}"],
        "chain:8",
        workers=4,
        microbatches=8,
        split=any("W" in job for job in where),
        order=plan["order"],
        in_flight=lambda p, s: plan["stages"][s].get("in_flight", 0),
        latency=0.25,
    )
    assert found.makespan == plan["makespan"]
    peaks = [[w["peak_stash"] for w in x["worker"]] for x in (found.figures, plan)]
    assert peaks[0] == peaks[1]


def test_greedy_and_in_flight_change_what_a_worker_does() -> None:
    def all_forwards_last(p: Costs, s: int, b: int, d: str) -> tuple[int, Any]:
        return s, (d == "F", b)

    def run(order: str, most: int) -> orrery_torch.Simulated:
        return orrery_torch.schedule(
            all_forwards_last,
            "chain:3",
            workers=3,
            microbatches=6,
            order=order,
            in_flight=lambda p, s: most,
        )

    with pytest.raises(ValueError, match="deadlock"):
        run("strict", 0)
    peaks = [[w["peak_stash"] for w in run("greedy", n).figures["worker"]] for n in (1, 2)]
    assert max(peaks[0]) == 1 and max(peaks[1]) == 2


def test_costs_are_those_of_the_pipeline() -> None:
    seen: list[Costs] = []

    def looks(p: Costs, s: int, b: int, d: str) -> tuple[int, Any]:
        seen.append(p)
        return s % p.workers, ("FBW".index(d), b)

    orrery_torch.schedule(
        looks,
        "towers:2,1/1",
        workers=4,
        microbatches=2,
        split=True,
        costs="2,3,4",
        activation="8kB",
        stash="1kB",
    )
    p = seen[0]
    assert [x.depth for x in p.stages] == [3, 2, 2, 1]
    assert [x.before for x in p.stages] == [[], [0], [], [1, 2]]
    assert [x.after for x in p.stages] == [[1], [3], [3], []]
    assert {(x.forward, x.backward, x.weight) for x in p.stages} == {(2.0, 3.0, 4.0)}
    assert p.edges == {ends: (8000, 8000) for ends in ((0, 1), (1, 3), (2, 3))}
    assert {x.stash_bytes for x in p.stages} == {1000}
    assert (p.workers, p.microbatches) == (4, 2)


def test_only_jobs_that_there_are_are_placed() -> None:
    """Nothing before a frozen first half is trained, so it has no backward."""
    model = GPT()
    half = [*model.children()][:1]
    for module in half:
        module.requires_grad_(False)
    graph = orrery_torch.graph(model, tokens(), measured=False)
    asked: list[tuple[int, str]] = []

    def looks(p: Costs, s: int, b: int, d: str) -> tuple[int, Any]:
        asked.append((s, d))
        return one_f_one_b(p, s, b, d)

    found = orrery_torch.schedule(looks, graph, workers=2, microbatches=4)
    jobs = sum(len(w["order"]) for w in found.plan["worker"])
    assert jobs == len(asked) and {d for s, d in asked if s == 0} == {"F"}
    assert {d for _, d in asked} == {"F", "B"}
    assert found.plan["stages"][0]["frozen"]


def test_a_model_in_its_own_plan(tmp_path: Path) -> None:
    graph = orrery_torch.graph(GPT(), tokens(), measured=False)
    found = orrery_torch.schedule(one_f_one_b, graph, workers=2, microbatches=4, stages=4)
    assert {w for s in found.plan["stages"] for w in s["workers"]} == {0, 1}
    check_replayed(found, tmp_path)  # the plan has the graph's text
    dot = graph.write(tmp_path / "model.dot")
    again = command.run("simulate", dot, "-s", found.write(tmp_path / "plan.json"), "--json")
    assert json.loads(again)["makespan"] == found.makespan


def test_lengths_machines_and_tables_of_costs(tmp_path: Path) -> None:
    machine, costs = tmp_path / "machine.dot", tmp_path / "costs.csv"
    machine.write_text('graph m {\n\tlatency="0.5";\n\ta [speed=2];\n\tb;\n}\n')
    costs.write_text("stage,microbatch,pass,duration\n0,1,F,5\n")
    size: dict[str, Any] = {"workers": 2, "microbatches": 3}
    runs = [
        (orrery_torch.schedule(gpipe, "chain:2", **size, **words), options)
        for words, options in (
            ({"lengths": [1, 2, 3]}, ["--lengths", "1,2,3"]),
            ({"machine": machine}, ["--machine", machine]),
            ({"microbatch_costs": costs}, ["--microbatch-costs", costs]),
        )
    ]
    for found, options in runs:
        expected = built_in("chain:2", "gpipe", "-w", 2, "-m", 3, *options)
        assert found.makespan == expected["makespan"], options
    assert len({found.makespan for found, _ in runs}) == 3


def test_an_order_that_deadlocks_is_refused_with_its_cycle() -> None:
    def backwards(p: Costs, s: int, b: int, d: str) -> tuple[int, Any]:
        return s % p.workers, (d == "F", b, s)

    with pytest.raises(ValueError, match="deadlocks.*0F0.*change their order"):
        orrery_torch.schedule(backwards, "chain:2", workers=2, microbatches=2)


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        (lambda p, s, b, d: (7, b), "0F0 is placed on worker 7, and the workers are 0 to 1"),
        (lambda p, s, b, d: (-1, b), "0F0 is placed on worker -1"),
        (lambda p, s, b, d: (2**32, b), "0F0 is placed on worker 4294967296"),
        (lambda p, s, b, d: (s, 0), "0F0 and 0B0 on worker 0 have the same priority"),
        (lambda p, s, b, d: None, "0F0: the policy gave None: give .worker, place in its order."),
        (lambda p, s, b, d: (0.5, b), "0F0: the policy gave .0.5, 0.: give"),
        (lambda p, s, b, d: 3, "0F0: the policy gave 3: give"),
        (lambda p, s, b, d: (7, b), "to 1: correct the policy, or set workers"),
        (lambda p, s, b, d: (s, 0), "make the policy's places distinct on each worker"),
        (lambda p, s, b, d: (s, math.nan), "0F0: the policy gave .0, nan.: a place that is no num"),
        (lambda p, s, b, d: (s, (b, [math.nan])), "0F0: the policy gave .*: a place that is no"),
        (3, "^policy: 3 is no function"),
    ],
)
def test_a_worker_or_a_priority_that_cannot_be_is_refused(policy: Any, line: str) -> None:
    with pytest.raises(ValueError, match=line) as refused:
        orrery_torch.schedule(policy, "chain:2", workers=2, microbatches=2)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ({"graph": "nowhere.dot"}, "^nowhere.dot: cannot open it: No such file"),
        ({"workers": 0}, "^workers: 0 is out of range: say 1 to"),
        ({"microbatches": "x"}, "^microbatches: x is no whole number"),
        ({"microbatches": 3, "lengths": [1, 2]}, "^3 microbatches, and 2 have lengths"),
        ({"lengths": [1, -2]}, "lengths|length"),
        ({"order": "fast"}, "^order: no 'fast'"),
        ({"memory": "16"}, "^memory: 16 has no unit: say 16GB"),
        ({"memory": "1GB", "stash": "1GB"}, "^worker 0 needs .* and has 1 GB"),
        ({"latency": "5us"}, "^latency has a unit, and the durations of chain:2 have none"),
        ({"costs": "1ms,2"}, "^costs: '1ms,2' mixes plain numbers and units"),
        ({"costs": "1"}, "^costs: '1': write F,B or F,B,W"),
        ({"bandwidth": "fast"}, "^bandwidth: "),
        ({"optimizer": "lion"}, "^optimizer: no 'lion'"),
        ({"flops": 0}, "^flops: "),
        ({"machine": "nowhere.dot"}, "^nowhere.dot: cannot open it: No such file"),
        ({"machine": "nowhere.dot", "latency": "1"}, "^latency: the machine nowhere.dot says that"),
        ({"in_flight": lambda p, s: -1}, "in_flight"),
        ({"in_flight": lambda p, s: None}, "^stage 0: in_flight gave None: give a whole number"),
        ({"in_flight": 2}, "^in_flight: 2 is no function"),
        ({"weights": lambda p, s, b, d: None}, "^0F0: weights gave None: give a whole number"),
        ({"recompute": lambda p, s: "no"}, "^stage 0: recompute gave 'no': give True or False"),
        ({"recompute": lambda p, s: None}, "^stage 0: recompute gave None"),
        ({"lengths": "1,2"}, "^lengths: '1,2': give a list of numbers"),
        ({"lengths": ["x", "y"]}, "^lengths: ..x', 'y'.: give a list"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(words: dict[str, Any], line: str) -> None:
    size: dict[str, Any] = {"graph": "chain:2", "workers": 2, "microbatches": 2}
    with pytest.raises(ValueError, match=line) as refused:
        orrery_torch.schedule(gpipe, **{**size, **words})
    assert "\n" not in str(refused.value)


class Own(Exception):
    """What a user's function raises."""


@pytest.mark.parametrize("where", ["policy", "weights", "in_flight", "recompute"])
def test_what_a_function_raises_comes_out_as_it_is(
    where: str, capfd: pytest.CaptureFixture[str]
) -> None:
    cause, calls = KeyError("cause"), []

    def fails(*words: Any) -> Any:
        calls.append(words)
        raise Own("mine") from cause

    words: dict[str, Any] = {} if where == "policy" else {where: fails}
    with pytest.raises(Own, match="mine") as raised:
        orrery_torch.schedule(
            fails if where == "policy" else gpipe, "chain:2", workers=2, microbatches=2, **words
        )
    assert raised.value.__cause__ is cause and raised.traceback[-1].name == "fails"
    assert len(calls) == 1 and not any(capfd.readouterr())


def test_keys_that_do_not_compare_say_so() -> None:
    with pytest.raises(
        TypeError, match="^0B0 and 0F0: .* places 1 and 'x': .* not supported between"
    ):
        orrery_torch.schedule(
            lambda p, s, b, d: (s, b"FB".index(d.encode()) or "x"),
            "chain:2",
            workers=2,
            microbatches=2,
        )


def test_a_command_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "ORRERY", "/nowhere/orrery")
    with pytest.raises(ValueError, match="^/nowhere/orrery: No such file.*: name the command in ORRERY"):
        orrery_torch.schedule(gpipe, "chain:2", workers=2, microbatches=2)
