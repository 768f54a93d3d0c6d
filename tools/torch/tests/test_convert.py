"""A model as a graph that computes: the same losses, and weights that come back."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import orrery_torch
import pytest
import torch
import torch.nn.functional as F
from models import CLIP, EXAMPLES, EncoderDecoder
from orrery_torch.tensors import save_safetensors
from peer import apart
from peer.beside import Beside
from peer.training import Options
from small_models import GPT, MLP, Batch, OfObjects, digits, tokens
from torch import Tensor, nn
from written_out import GPT2, LENGTH, VOCABULARY, ClassToken, Ignored, Llama, Padded

STEPS, ROWS = 20, 60


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(8), nn.GroupNorm(2, 8)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.relu, self.pool = nn.ReLU(inplace=True), nn.MaxPool2d(2)
        self.head = nn.Linear(8, 10)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = self.relu(self.norm1(self.first(x)))
        x = self.pool(self.relu(self.norm2(self.second(x)) + x))
        return F.cross_entropy(
            self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)), y, label_smoothing=0.1
        )


class Mixed(nn.Module):
    """Fused heads by unbind, a parameter's positions, a frozen part, and two losses."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.places = nn.Linear(6, 12), nn.Parameter(torch.randn(5, 12))
        self.qkv, self.norm = nn.Linear(12, 36), nn.RMSNorm(12)
        self.a, self.b = nn.Linear(12, 3), nn.Linear(24, 4)
        self.into.requires_grad_(False)

    def forward(self, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        x = F.silu(self.into(x)) + self.places
        n, t, c = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        x = x * 0.5 + F.scaled_dot_product_attention(q, k, v, scale=0.3).transpose(1, 2).flatten(2)
        x = self.norm(x)
        ends = torch.cat([x[:, 0], x[:, -1] * torch.sigmoid(x[:, 1])], dim=1)
        ends = torch.cat([ends], dim=1)
        first = F.mse_loss(self.a(x.mean(dim=1)), y)
        return first + 0.25 * F.binary_cross_entropy_with_logits(self.b(ends), z)


def randoms(*makers: Callable[[torch.Generator], Tensor]) -> tuple[Tensor, ...]:
    g = torch.Generator().manual_seed(5)
    return tuple(make(g) for make in makers)


def floats(*shape: int) -> Callable[[torch.Generator], Tensor]:
    return lambda g: torch.randn(ROWS, *shape, generator=g)


def whole(limit: int, *shape: int) -> Callable[[torch.Generator], Tensor]:
    return lambda g: torch.randint(limit, (ROWS, *shape), generator=g)


def padded() -> tuple[Tensor, ...]:
    return randoms(whole(VOCABULARY, 7), lambda g: 1 + whole(7)(g), whole(5))


def of_example(name: str) -> tuple[list[str], Callable[[], tuple[Tensor, ...]]]:
    """The names and the values of its data."""
    data = EXAMPLES[name].batch(ROWS)
    return list(data), lambda: tuple(data.values())


CASES: dict[str, tuple[Callable[[], nn.Module], list[str], Callable[[], tuple[Tensor, ...]]]] = {
    "mlp": (MLP, ["x", "y"], lambda: digits(ROWS)),
    "gpt": (GPT, ["tokens", "following"], lambda: tokens(ROWS)),
    "gpt-tied": (lambda: GPT(tied=True), ["tokens", "following"], lambda: tokens(ROWS)),
    "decoder": (partial(EncoderDecoder, 1), *of_example("encoder-decoder")),
    "resnet": (ResNet, ["x", "y"], lambda: randoms(floats(3, 8, 8), whole(10))),
    "clip": (partial(CLIP, 1, 1), *of_example("clip")),
    "mixed": (Mixed, ["x", "y", "z"], lambda: randoms(floats(5, 6), floats(3), lambda g: torch.rand(ROWS, 4, generator=g))),
    "class-token": (ClassToken, ["x", "y"], lambda: randoms(floats(3, 8, 8), whole(10))),
    "gpt2-by-hand": (GPT2, ["x"], lambda: randoms(whole(VOCABULARY, LENGTH))),
    "llama-by-hand": (Llama, ["x", "y"], lambda: randoms(whole(VOCABULARY, LENGTH), whole(VOCABULARY, LENGTH))),
    "ignored": (Ignored, ["x", "y"], lambda: randoms(whole(17, 7), whole(4, 7))),
    **{
        f"padded-{how}": (partial(Padded, how), ["x", "lengths", "y"], padded)
        for how in ("module", "products", "call", "sums")
    },
}  # fmt: skip
# those of examples/, too
LARGER = {"example-" + name: (e.make, *of_example(name)) for name, e in EXAMPLES.items()}


MICROBATCHES = {"clip": 2, "resnet": 1}  # a batch norm is of a microbatch
MORE = {"clip": ["--schedule", "gpipe"]}  # its loss waits for the whole minibatch


def started(case: str, folder: Path, optimizer: str) -> tuple[Beside, Options, list[float], float]:
    """Trained by Orrery; what the model is in PyTorch is as it was."""
    make, names, samples = (CASES | LARGER)[case]
    larger, case = case in LARGER, case.removeprefix("example-")
    beside = Beside(make(), dict(zip(names, samples())), folder)
    microbatches = MICROBATCHES.get(case, 4)
    rate = 0.1 if optimizer == "sgd" else 0.001 if larger else 0.01
    if larger and case == "resnet":
        rate /= 10  # at 0.001 PyTorch's own runs go apart, if they differ by a rounding
    own = Options(16, microbatches, STEPS, optimizer=optimizer, lr=rate)
    return beside, own, *beside.orrery(own, *MORE.get(case, []))


@pytest.mark.parametrize("case", CASES | LARGER)
def test_losses_are_those_of_pytorch(case: str, tmp_path: Path) -> None:
    beside, own, theirs, test = started(case, tmp_path, "adamw")
    assert apart(theirs, list(beside.pytorch(own))) < 1e-4 and len(theirs) == STEPS
    assert max(theirs) > 1.02 * min(theirs)  # training moves them
    if case in LARGER:
        assert apart([beside.evaluated()], [test]) < 1e-4


@pytest.mark.parametrize("case", CASES)
def test_trained_weights_come_back(case: str, tmp_path: Path) -> None:
    """With SGD: a gradient that is 0 but for roundings, as that of keys' biases, moves nothing."""
    beside, own, *_ = started(case, tmp_path, "sgd")
    list(beside.pytorch(own))
    unread = {n for n, p in beside.model.named_parameters() if p.requires_grad and p.grad is None}
    state = {n: p for n, p in beside.model.named_parameters() if n not in unread}
    state |= {n: t for n, t in beside.model.named_buffers() if "running" in n}
    here = {n: t.detach().clone() for n, t in state.items()}
    with torch.no_grad():
        for t in state.values():
            t.zero_()
    if unread:
        with pytest.raises(ValueError, match=f"nothing for .*{min(unread)}"):
            orrery_torch.load(beside.model, beside.after)
    orrery_torch.load(beside.model, beside.after, strict=not unread)
    for name, t in here.items():
        torch.testing.assert_close(state[name].detach(), t, rtol=1e-4, atol=1e-5)


class Small(nn.Module):
    """A linear and whatever is done with it."""

    def __init__(self, after: Callable[..., Tensor]) -> None:
        super().__init__()
        self.fc, self.embed, self.after = nn.Linear(6, 6), nn.Embedding(9, 6), after

    def forward(self, x: Tensor, ids: Tensor, y: Tensor) -> Tensor:
        return self.after(self, self.fc(x), ids, y)


def scores(m: Small, x: Tensor, ids: Tensor, y: Tensor) -> Tensor:
    e = m.embed(ids)
    return F.cross_entropy((e @ x[:, :, None]).squeeze(2), y)


REFUSED: dict[str, tuple[Callable[..., Tensor], str]] = {
    "ignored": (
        lambda m, x, ids, y: F.cross_entropy(x, y, ignore_index=0),
        "mean is over the rows",
    ),
    "mask": (
        lambda m, x, ids, y: F.cross_entropy(
            F.scaled_dot_product_attention(
                m.embed(ids), m.embed(ids), m.embed(ids), attn_mask=x[:, None, :5]
            )[:, 0],
            y,
        ),
        "give forward.. the number of keys",
    ),
    "chosen": (
        lambda m, x, ids, y: F.cross_entropy(m.embed(ids)[torch.arange(4), ids.argmax(1)], y),
        "the first and the last",
    ),
    "between": (scores, "attention.s products"),
    "power": (lambda m, x, ids, y: F.cross_entropy(x**1.5, y), "a power other than 2 and 3"),
    "samples": (  # as many keys as samples
        lambda m, x, ids, y: F.cross_entropy(
            F.scaled_dot_product_attention(
                *[m.embed(ids[:, :4])] * 3, attn_mask=(torch.arange(4) < y)[None, None]
            )[:, 0],
            y,
        ),
        "lt: a comparison of data",
    ),
    "noise": (
        lambda m, x, ids, y: F.cross_entropy(x + torch.rand(6), y),
        "random numbers of its own",
    ),
    "whole": (
        lambda m, x, ids, y: F.cross_entropy(x.long().float(), y),
        "floats cut to whole numbers",
    ),
    "apart": (
        lambda m, x, ids, y: F.cross_entropy(x @ m.fc.weight, y),
        "fc.weight: several operators read it",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_says_why(case: str) -> None:
    after, why = REFUSED[case]
    given = (torch.randn(4, 6), torch.randint(9, (4, 5)), torch.randint(6, (4,)))
    with pytest.raises(ValueError, match=why):
        orrery_torch.convert(Small(after), given)


class Pooled(nn.Module):
    def __init__(self, pool: nn.Module) -> None:
        super().__init__()
        self.conv, self.pool, self.head = nn.Conv2d(3, 4, 3), pool, nn.Linear(4, 5)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.head(self.pool(self.conv(x)).mean((2, 3))), y)


def test_windows_that_orrery_has_otherwise_are_refused() -> None:
    images, labels = torch.randn(4, 3, 8, 8), torch.randint(5, (4,))
    orrery_torch.convert(Pooled(nn.MaxPool2d(2, ceil_mode=True)), (images, labels))  # 6 pixels
    with pytest.raises(ValueError, match="ceil_mode=True"):
        orrery_torch.convert(Pooled(nn.MaxPool2d(4, ceil_mode=True)), (images, labels))
    orrery_torch.convert(Pooled(nn.AvgPool2d(3, count_include_pad=False)), (images, labels))
    with pytest.raises(ValueError, match="count_include_pad=False"):
        orrery_torch.convert(Pooled(nn.AvgPool2d(3, 2, 1, count_include_pad=False)), (images, labels))


class Marked(Pooled):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return super().forward(x, y[:, 0, 0])


def test_inputs_of_more_dimensions_are_refused() -> None:
    model, ids = Marked(nn.Identity()), torch.zeros(4, 2, 2, dtype=torch.int64)
    with pytest.raises(ValueError, match="example_inputs: .4, 2, 2. of torch.int64: more dimensions"):
        orrery_torch.convert(model, (torch.randn(4, 3, 8, 8), ids))


def test_all_that_nothing_is_like_is_said() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 3)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            scores = self.head(self.rnn(x)[0][:, -1])
            return F.cross_entropy(scores, y) + torch.cumsum(x, 1).mean()

    given = (torch.randn(4, 5, 4), torch.randint(3, (4,)))
    with pytest.raises(ValueError, match="(?s)rnn: gru.*cumsum"):
        orrery_torch.convert(Odd(), given)


def test_a_row_that_pytorch_would_not_train_is_said() -> None:
    model = GPT()
    model.wte.padding_idx = 0
    with pytest.warns(UserWarning, match="wte.weight: Orrery trains the row of padding_idx=0"):
        orrery_torch.convert(model, tokens())


def test_a_class_token_that_is_frozen_keeps_its_name(tmp_path: Path) -> None:
    model = ClassToken()
    model.token.requires_grad_(False)
    _, names, samples = CASES["class-token"]
    beside = Beside(model, dict(zip(names, samples())), tmp_path)
    token = next(n for n in beside.program.nodes if n.name == "token")
    assert token.attributes["frozen"] == "true"
    beside.orrery(Options(16, 4, 2))
    before = model.token.clone()
    beside.evaluated()
    assert torch.equal(model.token, before)


def test_a_plan_trains_what_is_written_out_to_the_same_weights(tmp_path: Path) -> None:
    make, names, samples = CASES["llama-by-hand"]
    beside = Beside(make(), dict(zip(names, samples())), tmp_path)
    own = Options(16, 4, 3)
    beside.orrery(own)
    whole = beside.after.read_bytes()
    beside.orrery(own, "--stages", 4, "--workers", 2, "--schedule", "zb-h1")
    assert beside.after.read_bytes() == whole


def test_a_model_without_a_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="has to end in one"):
        orrery_torch.convert(nn.Linear(4, 2), (torch.randn(4, 4),))


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    save_safetensors(file, {"encoder.0.weight": torch.zeros(48, 64), "other.gain": torch.zeros(3)})
    with pytest.raises(ValueError, match="other.gain: nothing in the model"):
        orrery_torch.load(MLP(), file)
    for shape in ([48, 63], [64, 48]):  # as many numbers are no excuse
        save_safetensors(file, {"encoder.0.weight": torch.zeros(shape)})
        told = f"encoder.0.weight is {shape}, in the model [48, 64]"
        with pytest.raises(ValueError, match=re.escape(told)):
            orrery_torch.load(MLP(), file, strict=False)


def test_a_file_that_lacks_parameters_is_refused_unless_that_is_allowed(tmp_path: Path) -> None:
    file, model = tmp_path / "weights.safetensors", MLP()
    save_safetensors(file, {"encoder.0.weight": torch.zeros(48, 64)})
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with pytest.raises(ValueError, match="nothing for encoder.0.bias, encoder.2.weight, .*strict"):
        orrery_torch.load(model, file)
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    orrery_torch.load(model, file, strict=False)
    changed = [n for n, p in model.named_parameters() if not torch.equal(p, before[n])]
    assert changed == ["encoder.0.weight"]


@pytest.mark.parametrize("kept", ["nothing", "garbage", "the header", "less than all"])
def test_a_file_that_is_no_safetensors_is_refused(kept: str, tmp_path: Path) -> None:
    file, model = tmp_path / "weights.safetensors", MLP()
    save_safetensors(file, dict(model.named_parameters()))
    whole = file.read_bytes()
    cut = {"nothing": 0, "the header": 400, "less than all": len(whole) - 1}
    file.write_bytes(whole[: cut[kept]] if kept in cut else b"neither header nor tensors")
    with pytest.raises(ValueError, match="^.*weights.safetensors: no file of safetensors") as why:
        orrery_torch.load(model, file)
    assert "\n" not in str(why.value)


@pytest.mark.parametrize(
    ("samples", "line"),
    [
        ({"x": torch.zeros(5, 64)}, "nothing for y"),
        ({"x": torch.zeros(5, 64), "y": torch.zeros(4)}, "5 of x, 4 of y: give as many of each"),
        ({"x": torch.zeros(0, 64), "y": torch.zeros(0)}, "0 of x, 0 of y: .* one or more"),
        ({"x": torch.zeros(1, 64), "y": torch.zeros(1), "z": torch.zeros(1)}, "reads no z"),
        ({"x": torch.zeros(1, 64), "y": [1]}, "y is no tensor of samples"),
        ({"x": torch.zeros(1, 63), "y": torch.zeros(1)}, r"x is \[63\] a sample"),
    ],
)
def test_data_that_the_graph_cannot_read_is_refused(
    samples: dict, line: str, tmp_path: Path
) -> None:
    program = orrery_torch.convert(MLP(), digits())
    with pytest.raises(ValueError, match=f"^samples: .*{line}"):
        program.save_data(tmp_path / "data.safetensors", samples)
    assert not list(tmp_path.iterdir())


def test_what_export_refuses_is_not_converted_for_its_reason() -> None:
    with (
        pytest.warns(UserWarning, match="torch.fx instead"),
        pytest.raises(ValueError, match=r"torch.export refuses the model \(.*Batch.*\): only"),
    ):
        orrery_torch.convert(OfObjects(), (Batch(torch.randn(2, 8)),))
