"""Models in ONNX: what is read of them, their losses beside those of ONNX's own evaluator, and what is refused. Their files
are those of tests/onnx; a test that needs another changes one."""

import csv
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from orrery_torch.command import ORRERY, ROOT, read_graph, run

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402
from orrery_torch.onnx import convert  # noqa: E402

FILES = ROOT / "tests/onnx"
DATA = ["--data", ROOT / "graphs/data/digits.csv"]
LOSSES = dict(line.split() for line in (FILES / "losses").read_text().splitlines())


def loaded(name: str) -> Any:
    return onnx.load(FILES / f"{name}.onnx", load_external_data=False)


def node(model: Any, name: str) -> Any:
    return next(n for n in model.graph.node if n.name == name)


def attribute(of: Any, **values: Any) -> None:
    for name, value in values.items():
        for old in [a for a in of.attribute if a.name == name]:
            of.attribute.remove(old)
        of.attribute.append(helper.make_attribute(name, value))


def operators(model: Any, folder: Path) -> dict[str, dict[str, Any]]:
    """What Orrery says of a model's operators, by their names."""
    source, graph = folder / "m.onnx", folder / "m.dot"
    if isinstance(model, str):
        source = FILES / f"{model}.onnx"
    else:
        onnx.save(model, source)
    convert(source).write(graph)
    return {o["name"]: o for o in read_graph(graph)["operators"]}


# of a sample: rows, columns, operations of F, parameters
CLOSED = {
    "mlp": {
        "x": ("input", 1, 64, 64, 0),
        "fc1": ("linear", 1, 128, 2 * 64 * 128, 64 * 128 + 128),
        "act": ("relu", 1, 128, 128, 0),
        "fc2": ("linear", 1, 10, 2 * 128 * 10, 128 * 10 + 10),  # with the Add behind it
        "loss": ("softmax_cross_entropy", 1, 1, 5 * 10, 0),
    },
    "cnn": {
        "conv": ("conv2d", 64, 16, 2 * 64 * 16 * 9, 16 * 9 + 16),
        "bn": ("batchnorm", 64, 16, 8 * 64 * 16, 4 * 16),
        "conv2": ("conv2d", 64, 16, 2 * 64 * 16 * 16 * 9, 16 * 16 * 9),
        "sum": ("add", 64, 16, 64 * 16, 0),
        "pool": ("max_pool", 16, 16, 4 * 16 * 16, 0),
        "gap": ("mean", 1, 16, 16 * 16, 0),
        "fc": ("linear", 1, 10, 2 * 16 * 10, 16 * 10 + 10),
    },
    "block": {  # a table that is read twice; shapes that nodes compute of shapes
        "embed": ("embedding", 16, 32, 16 * 32, 100 * 32),
        "places": ("positions", 16, 32, 16 * 32, 16 * 32),
        "q": ("linear", 16, 32, 2 * 16 * 32 * 32, 32 * 32 + 32),
        "values": ("attention", 16, 32, 2 * 2 * 16 * 16 * 32, 0),
        "gate": ("opaque", 16, 32, 0, 0),
        "head": ("linear", 16, 100, 2 * 16 * 32 * 100, 100 * 32),
    },
    "decoder": {  # normalisation and gelu of several nodes
        "n1": ("layernorm", 8, 8, 8 * 64, 16),
        "gelu": ("gelu", 8, 16, 8 * 128, 0),
        "add_places": ("positions", 8, 8, 64, 64),  # of a table of 12
        "attention": ("attention", 8, 8, 2 * 8 * 8 * 8, 0),  # half of it, the mask's
    },
    "written": {
        "norm": ("rmsnorm", 1, 12, 4 * 12, 12),
        "gelu": ("gelu_tanh", 1, 12, 9 * 12, 0),
        "loss": ("softmax_cross_entropy", 1, 1, 5 * 10, 0),  # of which -100 is no class
    },
}


@pytest.mark.parametrize("name", CLOSED)
def test_operators_are_those_of_their_closed_forms(name: str, tmp_path: Path) -> None:
    found = operators(name, tmp_path)
    for called, says in CLOSED[name].items():
        o = found[called]
        assert (o["op"], *o["shape"], o["forward_flop"], o["parameters"]) == says, called


@pytest.mark.parametrize("name", ["numbers", "decoder", "written"])
def test_a_model_begins_with_the_loss_of_onnx_and_trains(name: str, tmp_path: Path) -> None:
    graph, weights, losses = (tmp_path / f for f in ("m.dot", "m.safetensors", "losses"))
    done = [sys.executable, "-W", "ignore", "-m", "orrery_torch.onnx", FILES / f"{name}.onnx", "-o", graph]
    subprocess.run(done, check=True, cwd=ROOT / "tools/torch")
    words = ["--init", weights, *DATA, "--json"]
    begins = run("train", graph, *words, "--steps", 0)
    assert loss_of(begins) == pytest.approx(float(LOSSES[name]), abs=2e-5)
    ends = run("train", graph, *words, "--steps", 60, "--loss", losses)
    assert loss_of(ends) < float(LOSSES[name]) - 0.1
    assert len(list(csv.reader(losses.open()))) == 61


def loss_of(report: str) -> float:
    return float(next(line for line in report.splitlines() if line.startswith('  "loss"')).split()[1].rstrip(","))


def test_a_loss_is_added_to_a_model_without_one(tmp_path: Path) -> None:
    program = convert(FILES / "inference.onnx")
    graph, weights = tmp_path / "m.dot", program.save_weights(tmp_path / "m.safetensors")
    program.write(graph)
    refused = subprocess.run([ORRERY, "train", graph, *DATA], capture_output=True, text=True)
    assert "scores (an output: it needs a loss) is opaque" in refused.stderr
    lines = graph.read_text().splitlines()
    lines = ['"scores" [op=softmax_cross_entropy];' if "opaque" in line else line for line in lines]
    lines.insert(-1, 'y [op=input, columns=64]; y -> "scores";')
    graph.write_text("\n".join(lines))
    report = run("train", graph, "--init", weights, *DATA, "--steps", 0, "--json")
    assert loss_of(report) == pytest.approx(float(LOSSES["inference"]), abs=2e-5)


@pytest.mark.parametrize("name", ["mlp", "cnn", "numbers"])
def test_a_batch_that_the_file_fixes_is_so_many_samples(name: str, tmp_path: Path) -> None:
    model = loaded(name)
    for batch in (1, 12):
        for value in model.graph.input:
            value.type.tensor_type.shape.dim[0].dim_value = batch
        assert operators(model, tmp_path) == operators(name, tmp_path)


def test_an_opaque_product_counts_its_gradients_operand_by_operand(tmp_path: Path) -> None:
    model = loaded("block")
    attribute(node(model, "soft"), axis=-2)  # not over the keys, and so not attention
    found = operators(model, tmp_path)
    scores = found["scores"]
    assert scores["op"] == found["soft"]["op"] == found["values"]["op"] == "opaque"
    assert found["soft"]["label"] == "Softmax: a softmax of other than keys"
    assert scores["forward_flop"] == 2 * 4 * 16 * 16 * 8
    assert scores["backward_flop"] == 2 * scores["forward_flop"]
    assert scores["weight_flop"] == 0


@pytest.mark.parametrize(
    "constant, value, found",
    [("least", -1e30, 1), ("least", -1e4, 1), ("least", -1, 0), ("least", 1, 0), ("zero", 1, 0), ("one", 0, 0)],
)
def test_only_a_mask_that_hides_what_comes_later_makes_attention(
    constant: str, value: float, found: int, tmp_path: Path
) -> None:
    model = loaded("decoder")
    tensor = next(t for t in model.graph.initializer if t.name == constant)
    tensor.raw_data = torch.tensor(float(value)).numpy().tobytes()
    ops = [o["op"] for o in operators(model, tmp_path).values()]
    assert ops.count("attention") == found


class Pairs(torch.nn.Module):
    """Two towers and a contrastive loss. Their biases are equal, and exporters write one of them."""

    def __init__(self, trained: bool) -> None:
        super().__init__()
        self.one, self.two = torch.nn.Linear(12, 4), torch.nn.Linear(12, 4)
        for tower in (self.one, self.two):
            torch.nn.init.zeros_(tower.bias)
        self.scale = torch.nn.Parameter(torch.tensor(1.5)) if trained else 1.5

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        one, two = self.one(x), self.two(y)
        one, two = (t / t.norm(dim=-1, keepdim=True) for t in (one, two))
        scores = one @ two.t() * torch.as_tensor(self.scale).exp()
        own = torch.arange(scores.shape[0])
        entropy = torch.nn.functional.cross_entropy
        return (entropy(scores, own) + entropy(scores.t(), own)) / 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("trained", [True, False])
def test_a_contrastive_loss_is_one(trained: bool, tmp_path: Path) -> None:
    path, names = tmp_path / "m.onnx", ["x", "y"]
    example = (torch.randn(3, 12), torch.randn(3, 12))
    batch = {name: {0: "batch"} for name in names}
    torch.onnx.export(Pairs(trained), example, path, input_names=names, dynamic_axes=batch, dynamo=False)
    convert(path).write(tmp_path / "m.dot")
    found = [(o["op"], o["frozen"]) for o in read_graph(tmp_path / "m.dot")["operators"] if o["op"] != "input"]
    towers = [("linear", False)] * 2 + [("normalise", False)] * 2
    assert sorted(found) == sorted([("contrastive", not trained), *towers])


@pytest.mark.filterwarnings("ignore")
def test_a_vit_of_transformers_begins_with_its_loss(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    import published

    model, path, table = published.made("vit_b16", 2, True).eval(), tmp_path / "m.onnx", tmp_path / "data.csv"
    image, label = published.drawn("vit_b16", 40, True).values()
    batch = {name: {0: "batch"} for name in ("image", "label")}
    torch.onnx.export(
        model, (image[:3], label[:3]), path, input_names=[*batch], dynamic_axes=batch, dynamo=False
    )
    program = convert(path)
    program.write(tmp_path / "m.dot")
    rows = torch.cat([image.flatten(1), label[:, None].float()], 1).tolist()
    table.write_text("".join(",".join(map(repr, row)) + "\n" for row in rows))
    words = ["--init", program.save_weights(tmp_path / "m.safetensors"), "--data", table]
    report = run("train", tmp_path / "m.dot", *words, "--batch", 8, "--steps", 0, "--json")
    assert "opaque" not in (tmp_path / "m.dot").read_text()
    assert loss_of(report) == pytest.approx(float(model(image[::5], label[::5])), abs=2e-6)


def test_what_is_not_known_is_named_and_counts_as_nothing(tmp_path: Path) -> None:
    convert(FILES / "block.onnx").write(tmp_path / "m.dot")
    assert "not known, counted as 0 FLOP: gate (FancyGate)" in run("show", tmp_path / "m.dot")
    told = run("simulate", tmp_path / "m.dot", "-w", 2)
    assert "not tested: some operators (they are not known and count as 0 FLOP: show names them)" in told
    run("plan", tmp_path / "m.dot", "-w", 2, "-m", 4, "-o", tmp_path / "plan.json")


def test_a_loss_that_ignores_a_class_has_no_like_and_says_why(tmp_path: Path) -> None:
    model = loaded("written")
    attribute(node(model, "loss"), ignore_index=3)
    loss = operators(model, tmp_path)["loss"]
    assert loss["op"] == "opaque" and "an ignore_index that data may have" in loss["label"]


def test_outputs_beside_a_loss_are_left_out(tmp_path: Path) -> None:
    model = loaded("mlp")
    model.graph.output.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10]))
    assert operators(model, tmp_path) == operators("mlp", tmp_path)


def test_a_vector_that_is_read_twice_is_a_parameter_of_each_reader(tmp_path: Path) -> None:
    model = loaded("cnn")
    node(model, "bn").input[2] = "g"
    found = operators(model, tmp_path)
    assert found["bn"]["op"] == "batchnorm"
    assert sum(o["parameters"] for o in found.values()) == 160 + 4 * 16 + 2304 + 170


def test_what_a_body_reads_from_outside_is_an_input_of_its_node(tmp_path: Path) -> None:
    model = loaded("mlp")
    act = node(model, "act")
    body = helper.make_graph([onnx.NodeProto.FromString(act.SerializeToString())], "body", [], [])
    act.op_type, act.input[0] = "If", "yes"
    model.graph.initializer.append(helper.make_tensor("yes", TensorProto.BOOL, [], [True]))
    attribute(act, then_branch=body)
    model.graph.value_info.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, ["batch", 128]))
    found = operators(model, tmp_path)["act"]
    assert (found["op"], found["label"], found["inputs"]) == ("opaque", "If", ["fc1"])


# ---- what is refused ----


def rename_output(model: Any, name: str) -> None:
    model.graph.output[0].name = name


def dimension(model: Any, i: int, k: int) -> Any:
    return model.graph.input[i].type.tensor_type.shape.dim[k]


def of(called: str, field: str, value: Any) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        at = node(model, called)
        if field in ("input", "output"):
            getattr(at, field)[0] = value
        else:
            setattr(at, field, value)

    return change


def size(i: int, k: int, value: int) -> Callable[[Any], None]:
    return lambda model: setattr(dimension(model, i, k), "dim_value", value)


def weight(value: int) -> Callable[[Any], None]:
    return lambda model: model.graph.initializer[0].dims.__setitem__(1, value)


def two_batches(model: Any) -> None:
    dimension(model, 0, 0).dim_value, dimension(model, 1, 0).dim_value = 4, 8


DAMAGED = "a damaged model, export it again"
REFUSED = [
    (lambda m: setattr(dimension(m, 0, 1), "dim_param", "tokens"), "input x: dimension 1 (tokens) has no number, as the batch alone may: export the model with it fixed"),
    (two_batches, "input y: its first dimension must be the batch, the same for every input: export the model so"),
    (of("act", "op_type", "Activate"), "node act: operator Activate is not known here, and the file has no shape for r: run onnx.shape_inference on it, or export it with its shapes"),
    (of("act", "input", "nowhere"), f"node act reads nowhere, which nothing before it makes: {DAMAGED}"),
    (of("fc1", "input", "r"), "node fc1 reads r, which node 1 makes: they are in no order, export the model again"),
    (of("act", "output", "h"), f"tensor h is made twice: {DAMAGED}"),
    (weight(63), "node fc1: no such Gemm: "),
    (weight(2**62), f"constant w1: no such shape: {DAMAGED}"),
    (lambda m: rename_output(m, "nothing"), f"output nothing is made by no node: {DAMAGED}"),
    (size(0, 1, 2**62), "input x: dimension 1 is 4611686018427387904: it must be 0 to 10000000: export the model with another"),
    (size(0, 1, -5), "input x: dimension 1 is -5: it must be 0 to 10000000: export the model with another"),
    (lambda m: rename_output(m, "w1"), "no input changes its outputs: nothing to do"),
]  # fmt: skip


@pytest.mark.parametrize("change, message", REFUSED)
def test_what_is_wrong_is_refused_in_a_line(change: Any, message: str, tmp_path: Path) -> None:
    model, path = loaded("mlp"), tmp_path / "m.onnx"
    change(model)
    onnx.save(model, path)
    with pytest.raises(ValueError) as why:
        convert(path)
    assert str(why.value).startswith(f"{path}: {message}") and "\n" not in str(why.value)


@pytest.mark.parametrize(
    "name, called, op, says",
    [
        ("mlp", "act", "Transpose", {"perm": [0, 0]}),
        ("mlp", "act", "Transpose", {"perm": [0, 5000, 1]}),
        ("mlp", "act", "Concat", {"axis": 9}),
        ("mlp", "act", "Flatten", {"axis": 9}),
        ("mlp", "act", "Squeeze", {"axes": [7]}),
        ("mlp", "act", "Unsqueeze", {"axes": [7]}),
        ("mlp", "act", "Reshape", {"shape": [-1, -1]}),
        ("cnn", "conv", "Conv", {"group": 0}),
        ("cnn", "conv", "Conv", {"group": 2}),
        ("cnn", "conv", "Conv", {"strides": [0, 0]}),
        ("cnn", "conv", "Conv", {"dilations": [9, 9]}),
    ],
)
def test_a_node_that_no_model_can_have_is_refused(
    name: str, called: str, op: str, says: dict[str, Any], tmp_path: Path
) -> None:
    model, path = loaded(name), tmp_path / "m.onnx"
    at = node(model, called)
    at.op_type = op
    attribute(at, **says)
    rename_output(model, at.output[0])
    onnx.save(model, path)
    with pytest.raises(ValueError, match=f"node {called}: no such {op}: "):
        convert(path)


def test_weights_that_are_missing_or_elsewhere_leave_the_graph(tmp_path: Path) -> None:
    path, beside = tmp_path / "m.onnx", tmp_path / "numbers.bin"
    path.write_bytes((FILES / "numbers.onnx").read_bytes())
    numbers = (FILES / "numbers.bin").read_bytes()

    def lacks() -> bool:
        program = convert(path)
        assert program.nodes
        if not program.lacking:
            return False
        with pytest.raises(ValueError, match="weights w2 lie in a file beside it: "):
            program.save_weights(tmp_path / "w.safetensors")
        return True

    assert lacks()
    beside.write_bytes(numbers[:900])
    assert lacks()
    beside.unlink()
    beside.symlink_to(FILES / "numbers.bin")
    assert lacks()
    beside.unlink()
    beside.write_bytes(numbers)
    assert not lacks()


def damaged(data: bytes, draw: random.Random) -> bytes:
    """A bit or a byte changed, the end or a piece cut off, or eight bytes changed."""
    bits = bytearray(data)
    kind = draw.choice(["flip", "byte", "cut", "drop", "many"])
    at = draw.randrange(len(bits))
    if kind == "flip":
        bits[at] ^= 1 << draw.randrange(8)
    elif kind == "byte":
        bits[at] = draw.randrange(256)
    elif kind == "many":
        for _ in range(8):
            bits[draw.randrange(len(bits))] = draw.randrange(256)
    else:
        del bits[at : at + draw.randrange(1, 20) if kind == "drop" else None]
    return bytes(bits)


@pytest.mark.parametrize("seed, name", [*enumerate(["mlp", "block", "cnn", "decoder", "numbers"], 1)])
def test_no_damage_is_more_than_a_refusal(seed: int, name: str, tmp_path: Path) -> None:
    path, data, draw = tmp_path / "m.onnx", (FILES / f"{name}.onnx").read_bytes(), random.Random(seed)
    refused = 0
    for _ in range(50):
        path.write_bytes(damaged(data, draw))
        try:
            convert(path).write(tmp_path / "m.dot")
        except ValueError as why:
            assert "\n" not in str(why)
            refused += 1
    assert refused >= 25


def test_no_model_is_refused_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "cut.onnx").write_bytes((FILES / "cnn.onnx").read_bytes()[:300])
    for name, message in (("cut", "no ONNX model, or a damaged one: export it again"), ("absent", "cannot open it: No such file")):
        words = [sys.executable, "-W", "ignore", "-m", "orrery_torch.onnx", tmp_path / f"{name}.onnx", "-o", tmp_path / "m.dot"]
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT / "tools/torch")
        assert done.returncode == 2 and f"{name}.onnx: {message}" in done.stderr
        assert len(done.stderr.splitlines()) == 1 and not (tmp_path / "m.dot").exists()
