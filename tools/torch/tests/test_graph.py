"""A model as a graph of costs: names, sizes and FLOP, and that the command takes it."""

import json
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import orrery_torch
import pytest
import torch
from orrery_torch import command
from orrery_torch.costs import study
from orrery_torch.costs.costs import Calls
from orrery_torch.costs.measure import Clock, shared_out
from orrery_torch.costs.price import price
from orrery_torch.trace.trace import trace
from runs import planned
from small_models import GPT, MLP, Batch, Block, Does, OfObjects, Towers, digits, tokens, towers
from torch import Tensor, nn

CASES = {"mlp": (MLP, digits), "gpt": (lambda: GPT(tied=True), tokens), "towers": (Towers, towers)}


X = torch.ones(2, 8)


def still(model: nn.Module, inputs: Any, **options: Any) -> orrery_torch.Graph:
    return orrery_torch.graph(model, inputs, measured=False, **options)


def shown(graph: orrery_torch.Graph, folder: Path) -> dict:
    return json.loads(command.run("show", "--json", graph.write(folder / "model.dot")))


def saved(model: nn.Module, inputs: tuple[Tensor, ...]) -> int:
    """Bytes that autograd keeps for the backward of the whole model."""
    own = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers()]}
    kept: dict[int, Tensor] = {}

    def pack(t: Tensor) -> Tensor:
        kept.setdefault(t.untyped_storage().data_ptr(), t)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loss = model(*inputs)
    assert loss.requires_grad
    return sum(t.untyped_storage().nbytes() for key, t in kept.items() if key not in own)


class Sighted(nn.Module):
    """A frozen encoder, as it is called without gradients, before what is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.eye = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)).requires_grad_(False)
        self.head = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            seen = self.eye(x.tanh())
        return self.head(seen).mean()


def test_what_runs_without_gradients_gives_tensors() -> None:
    for part in still(Sighted(), (X,)).parts:
        assert all(isinstance(n.meta["val"], Tensor) for n in part.gives), part.name


@pytest.mark.parametrize("level", ["module", "aten"])
@pytest.mark.parametrize("case", CASES)
def test_the_command_shows_plans_and_simulates_it(case: str, level: str, tmp_path: Path) -> None:
    make, inputs = CASES[case]
    path = still(make(), inputs(), level=level).write(tmp_path / "model.dot")
    plan = tmp_path / "plan.json"
    assert json.loads(command.run("show", "--json", path))["operators"]
    command.run("plan", path, "-w", 2, "-m", 4, "-o", plan)
    told = json.loads(command.run("simulate", path, "-s", plan, "--json"))
    assert told["makespan"] > 0 and told["stages"]
    split = json.loads(command.run("simulate", path, "-w", 2, "-m", 4, "-s", "zb-h1", "--json"))
    assert split["makespan"] > 0


def test_operators_are_named_as_the_modules(tmp_path: Path) -> None:
    graph = still(GPT(), tokens())
    names = {p.name for p in graph.parts}
    assert not names & {"arange", "flatten", "flatten_1"}  # data, which each stage takes itself
    assert {"wte", "wpe", "h.0.norm1", "h.1.qkv", "h.0.mlp.0", "h.0.mlp.1", "norm", "head"} <= names
    told = shown(graph, tmp_path)
    assert [e["name"] for e in told["encoders"]] == ["h"]
    readers = {o["name"]: o["inputs"] for o in told["operators"]}
    assert readers["h.0.mlp.1"] == ["h.0.mlp.0"]
    assert readers["h.0.qkv"] == ["h.0.norm1"]


def test_whole_modules_are_one_operator() -> None:
    graph = still(GPT(), tokens(), whole=(Block,))
    assert [p.name for p in graph.parts if p.owner.startswith("h.")] == ["h.0", "h.1"]


def test_a_call_is_an_operator_at_the_level_of_calls() -> None:
    names = [p.name for p in still(MLP(), digits(), level="aten").parts]
    assert names == [
        "encoder.0.linear",
        "encoder.1.relu",
        "encoder.2.layer_norm",
        "trunk.0.linear",
        "trunk.1.gelu",
        "trunk.2.linear",
        "cross_entropy_loss",
    ]


@pytest.mark.parametrize("level", ["module", "aten"])
@pytest.mark.parametrize("case", CASES)
def test_stashes_add_up_to_what_autograd_keeps(case: str, level: str) -> None:
    make, inputs = CASES[case]
    model = make()
    graph = still(model, inputs(), level=level)
    assert sum(c.stash for c in graph.costs) == saved(model, inputs()) > 0


@pytest.mark.parametrize("case", CASES)
def test_parameters_count_once(case: str, tmp_path: Path) -> None:
    make, inputs = CASES[case]
    model = make()
    told = shown(still(model, inputs()), tmp_path)
    assert told["parameter_bytes"] == sum(4 * p.numel() for p in model.parameters())


@pytest.mark.parametrize("case", CASES)
def test_the_operators_in_turn_are_the_model(case: str) -> None:
    make, inputs = CASES[case]
    model, given = make(), inputs()
    graph = still(model, given)
    calls = Calls(graph.trace)
    values = calls.given(given)
    for part in graph.parts:
        calls.run(part.calls, values)
    (result,) = graph.trace.results
    assert torch.equal(values[result], model(*given))


def test_flop_are_counted() -> None:
    graph = still(MLP(), digits(6))
    flop = {p.name: c.flop for p, c in zip(graph.parts, graph.costs)}
    assert flop["encoder.0"] == {"F": 2 * 6 * 64 * 48, "B": 0, "W": 2 * 6 * 64 * 48}
    assert flop["trunk.0"] == dict.fromkeys("FBW", 2 * 6 * 48 * 32)
    assert flop["encoder.1"] == {"F": 6 * 48, "B": 6 * 48, "W": 0}


def test_what_is_frozen_and_shared_says_so(tmp_path: Path) -> None:
    told = {o["name"]: o for o in shown(still(Towers(), towers()), tmp_path)["operators"]}
    assert told["fixed.0"]["frozen"] and not told["head"]["frozen"]
    assert told["encoder.0"]["share"] == told["encoder.0@1"]["share"]
    assert "share" not in told["head"]
    tied = {o["name"]: o for o in shown(still(GPT(tied=True), tokens()), tmp_path)["operators"]}
    assert tied["wte"]["share"] == tied["head"]["share"] == "wte.weight"


def test_a_detached_edge_has_no_gradient(tmp_path: Path) -> None:
    def watched(m: Does, x: Tensor) -> Tensor:
        y = m.a(x)
        return (m.b(y) + m.c(y.detach())).square().mean()

    graph = still(Does(watched), X)
    back = {(e.source.name, e.target.name): e.gradient_bytes for e in graph.edges}
    assert back["a", "b"] == 64 and back["a", "c"] == 0
    assert shown(graph, tmp_path)["operators"]


def test_what_no_gradient_reaches_is_frozen_with_a_message() -> None:
    with pytest.warns(UserWarning, match="a: no gradient comes back"):
        graph = still(Does(lambda m, x: m.b(m.a(x).detach()).sum()), X)
    assert graph.frozen == {"a"}


def test_checks_of_export_are_no_operators() -> None:
    graph = still(Does(lambda m, x: m.a(x).to(torch.float32).sum()), X)
    assert [p.name for p in graph.parts] == ["a", "to", "sum"]


def test_what_nobody_reads_is_no_operator(tmp_path: Path) -> None:
    def loss(m: Any, x: Tensor) -> Tensor:
        (torch.arange(8) + 0)[None, :] * 2  # as T5's positions
        return m.b(m.a(x)).sum()

    graph = still(Does(loss), X)
    assert [p.name for p in graph.parts] == ["a", "b", "sum"]
    command.run("simulate", graph.write(tmp_path / "model.dot"), "--stages", 2, "-w", 2)


def test_what_draws_numbers_or_owns_parameters_stays() -> None:
    def loss(m: Any, x: Tensor) -> Tensor:
        y = m.a(x)
        torch.rand(8), m.c(y)
        return m.b(y).sum()

    calls = [node.name for node in trace(Does(loss), X).calls]
    assert calls == ["linear", "rand", "linear_1", "linear_2", "sum_1"]


def test_a_model_that_nothing_traces_is_refused_with_the_reason() -> None:
    class Choosing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x if x.sum() > 0 else -x

    with pytest.raises(ValueError, match="torch.export refuses .*, and torch.fx: "):
        orrery_torch.convert(Choosing(), (torch.randn(2, 8),))


def test_the_same_model_gives_the_same_bytes() -> None:
    assert still(GPT(), tokens()).dot() == still(GPT(), tokens()).dot()


def test_measured_durations_are_of_what_computes() -> None:
    graph = orrery_torch.graph(Towers(), towers(), warmup=1, repeats=3)
    took = {p.name: c.seconds for p, c in zip(graph.parts, graph.costs)}
    assert took["head"]["F"] > 0 and took["head"]["B"] > 0
    assert took["fixed.0"]["F"] > 0 and took["fixed.0"]["B"] == took["fixed.0"]["W"] == 0
    assert took["encoder.0"]["B"] == 0 < took["encoder.0"]["W"]  # its input is data


class Counted(nn.Module):
    """As timm's batch norms, which count their batches and have modules of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.act = nn.Linear(8, 8), nn.ReLU()
        self.register_buffer("batches", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        x = self.linear(x)
        self.batches.add_(1)
        return self.act(x * 2)


class Summed(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).mean()


def test_a_count_is_no_operator_by_itself(tmp_path: Path, alone: Any) -> None:
    model = nn.Sequential(*[Counted() for _ in range(3)])
    graph = orrery_torch.graph(Summed(model), torch.randn(2, 8), measured=False)
    joined = {p.number for e in graph.edges for p in (e.source, e.target)}
    assert joined == {p.number for p in graph.parts}
    plan = planned(tmp_path, Summed(model), torch.randn(2, 8), 4, "-w 1 -s v-half --stages 2")
    loss = orrery_torch.run(plan, Summed(model), torch.ones(8, 8))
    assert [int(each.batches) for each in model] == [4, 4, 4]
    assert loss == pytest.approx(model(torch.ones(2, 8)).mean().item())


def test_operators_take_together_what_they_take_in_one_stage() -> None:
    own = shared_out(10.0, [9.0, 0.0, 5.0, 0.5])
    assert sum(own) == pytest.approx(10.0) and 9.0 - own[0] == pytest.approx(5.0 - own[2])
    assert own[1] == 0.0 < own[3] < own[2]  # around each is more than the last took
    assert shared_out(14.0, [4.0, 3.0]) == pytest.approx([8.0, 6.0])
    assert shared_out(0.0, [4.0, 0.0]) == [0.0, 0.0]


def test_what_a_job_takes_beside_decides_the_cut(tmp_path: Path) -> None:
    stages = []
    for overhead in (0.0, 0.1):
        path = still(GPT(), tokens(), overhead=overhead).write(tmp_path / "model.dot")
        words = ("plan", path, "-w", 2, "-m", 4, "--straight", "--makespan", "--json")
        stages.append(len(json.loads(command.run(*words))["stages"]))
    assert 'overhead="100000us";' in path.read_text()
    assert stages == [2, 1]  # of 4 ms a microbatch in all


def test_a_measured_graph_has_what_a_job_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "price", lambda: 125e-6)
    graph = orrery_torch.graph(MLP(), digits(), warmup=0, repeats=1)
    assert '\toverhead="125us";\n' in graph.dot()
    assert "overhead" not in still(MLP(), digits()).dot()


def test_a_job_has_a_price() -> None:
    with warnings.catch_warnings():  # that it could not be measured
        warnings.simplefilter("error")
        assert price() > 0


def test_one_thread_counts_what_it_had_of_the_processor() -> None:
    clock = Clock(torch.device("cpu"))
    assert clock.seconds(lambda: time.sleep(0.5)) < 0.4
    clock.tell()
    torch.set_num_threads(2)
    clock = Clock(torch.device("cpu"))
    assert clock.seconds(lambda: time.sleep(0.1)) >= 0.1
    with pytest.warns(UserWarning, match="other work had .*% of the time .*set_num_threads"):
        clock.tell()


@pytest.mark.usefixtures("alone")
def test_several_tensors_at_once_are_measured_and_run() -> None:
    class Parts(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            return x.sin().chunk(2, -1)

    class Product(nn.Module):
        def forward(self, parts: tuple[Tensor, ...]) -> Tensor:
            return parts[0] * parts[1]

    class Halved(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.parts, self.product = nn.Linear(8, 8), Parts(), Product()

        def forward(self, x: Tensor) -> Tensor:
            return self.product(self.parts(self.linear(x))).sum()

    model, x = Halved(), torch.randn(2, 8)
    whole = (Parts, Product)
    graph = orrery_torch.graph(model, x, warmup=0, repeats=1, overhead=0.0, whole=whole)
    assert all(cost.seconds.keys() == set("FBW") for cost in graph.costs)
    stages, order = [{"operators": [part.name for part in graph.parts]}], ["0F0", "0B0", "0W0"]
    plan = {"stages": stages, "worker": [{"order": order}], "microbatches": 1}
    orrery_torch.Runner(plan, model, x, whole=whole).step(x)
    found = [p.grad for p in model.parameters()]
    model.zero_grad()
    model(x).backward()
    torch.testing.assert_close(found, [p.grad for p in model.parameters()])


def test_the_model_stays_as_it_was() -> None:
    model = Towers()
    before = {name: t.clone() for name, t in model.state_dict().items()}
    orrery_torch.graph(model, towers(), warmup=1, repeats=1)
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_what_export_refuses_goes_through_fx(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="torch.fx instead"):
        graph = still(OfObjects(), (Batch(torch.randn(2, 8)),))
    assert [p.name for p in graph.parts] == ["fc", "relu", "sum"]
    assert shown(graph, tmp_path)["parameter_bytes"] == 4 * (64 + 8)


def test_a_level_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="one of module, aten"):
        still(MLP(), digits(), level="layers")


def test_what_no_gradient_reaches_is_frozen_without_parameters_too(tmp_path: Path) -> None:
    def straight(m: Does, x: Tensor) -> Tensor:
        """Signs whose gradient is that of what they are of."""
        z = m.a(x)
        return m.b(z + (z.sign() - z).detach()).square().mean()

    graph = still(Does(straight), X)
    assert graph.frozen == {"sign", "sub"}
    told = {o["name"]: o["frozen"] for o in shown(graph, tmp_path)["operators"]}
    assert [name for name, frozen in told.items() if frozen] == ["sign", "sub"]


def test_a_frozen_tower_takes_costs_of_its_own(tmp_path: Path) -> None:
    graph = still(Towers(), towers())
    assert graph.frozen == {"fixed.0", "fixed.1", "fixed.2"}
    path = graph.write(tmp_path / "model.dot")
    words = ("-w", 2, "-m", 4, "--costs", "1,1", "--json")
    assert json.loads(command.run("simulate", path, *words))["makespan"] > 0


def test_parameters_that_are_trained_in_one_place_alone_are_apart(tmp_path: Path) -> None:
    def compared(m: Does, x: Tensor, times: int = 1) -> Tensor:
        y = m.b(m.a(x))
        for _ in range(times):
            y = y * (m.a(y) > 0)
        return y.sum()

    with pytest.warns(UserWarning, match="a@1: .* that a trains: the graph counts them apart"):
        graph = still(Does(compared), X)
    assert graph.frozen >= {"a@1"} and not graph.shared
    assert shown(graph, tmp_path)["parameter_bytes"] == 3 * 4 * (64 + 8)
    with pytest.warns(UserWarning, match="a@2: .* that a trains"):
        graph = still(Does(partial(compared, times=2)), X)
    assert "a" not in graph.shared and graph.shared["a@1"] == graph.shared["a@2"]
    assert shown(graph, tmp_path)["parameter_bytes"] == 3 * 4 * (64 + 8)


class Nested(nn.Module):
    def forward(self, batch: object, *more: object, **named: object) -> Tensor:
        raise NotImplementedError


@pytest.mark.parametrize("take", [orrery_torch.graph, orrery_torch.convert])
@pytest.mark.parametrize(
    ("inputs", "line"),
    [
        (({"x": X},), "batch of Nested.forward.. is a dict of tensors: give each"),
        ({"batch": [1, (X,)]}, "batch of Nested.forward.. is a list of tensors"),
        ((X, X, [X]), r"more\[1\] of Nested.forward.. is a list"),
        ({"batch": X, "other": (X,)}, r"named\['other'\] of Nested.forward.. is a tuple"),
        ((), "missing a required argument: 'batch': it is Nested.forward.batch"),
        (None, "a tensor, several in a tuple, or a dict of them by name, and not None"),
        ("x", "not a str"),
    ],
)
def test_inputs_that_cannot_be_are_refused_in_a_line(take, inputs, line: str) -> None:
    with pytest.raises(ValueError, match=f"^inputs: .*{line}") as why:
        take(Nested(), inputs)
    assert "\n" not in str(why.value)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ({"repeats": -1}, "^repeats=-1: a whole number from 1 on"),
        ({"warmup": -1}, "^warmup=-1: a whole number from 0 on"),
        ({"samples": 0}, "^samples=0: a whole number from 1 on"),
        ({"samples": 2.5}, "^samples=2.5: a whole number from 1 on"),
        ({"encoders": ["trunk", "nope"]}, "^encoders: no submodule is called nope"),
        ({"overhead": -1e-6}, "^overhead=-1e-06: seconds, from 0 on"),
        ({"encoders": "trunk"}, "^encoders='trunk': a list of names"),
    ],
)
def test_options_that_cannot_be_are_refused(words: dict, line: str) -> None:
    with pytest.raises(ValueError, match=line):
        still(MLP(), digits(), **words)


def test_a_model_that_computes_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="^Identity: no operators"):
        still(nn.Identity(), torch.randn(2, 8))


def test_the_command_is_that_of_the_tree_where_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ORRERY", raising=False)
    monkeypatch.setattr(command, "ROOT", tmp_path / "site-packages")
    built, inner = tmp_path / "tree/build/tools/orrery", tmp_path / "tree/graphs/data"
    built.parent.mkdir(parents=True)
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    assert command.find() == "orrery"
    built.write_text("#!/bin/sh")
    assert command.find() == "orrery"  # nothing that runs
    built.chmod(0o755)
    assert command.find() == str(built)
    monkeypatch.setattr(command, "ROOT", tmp_path / "tree")
    monkeypatch.chdir("/")
    assert command.find() == str(built)
    monkeypatch.setenv("ORRERY", "mine")
    assert command.find() == "mine"
