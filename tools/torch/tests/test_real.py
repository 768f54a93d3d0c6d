"""The models of the command `real`, two layers deep and narrow: losses as PyTorch's, and the command."""

import argparse
import copy
import subprocess
import sys
from pathlib import Path

import orrery_torch
import pytest
import torch
import torch.nn.functional as F
from peer.beside import Beside
from peer.training import Options, batches
from runs import check_trains, script
from torch import Tensor, nn

pytest.importorskip("transformers")

import published

STEPS, ROWS = 10, 40
REAL = Path(published.__file__).parent / "real"
SDPA = [(name, "sdpa") for name in published.MODELS]
EAGER = [(name, "eager") for name in published.MODELS if name != "resnet50"]  # has no attention


@pytest.mark.filterwarnings("ignore:orrery_torch.*padding_idx")
@pytest.mark.parametrize(("name", "how"), SDPA + EAGER)
def test_losses_are_those_of_pytorch(name: str, how: str, tmp_path: Path) -> None:
    model = published.made(name, 2, True)
    if how == "eager":
        model.model.set_attn_implementation(how)
    microbatches = 1 if name == "resnet50" else 4  # a batch norm is of a microbatch
    own = Options(16, microbatches, STEPS, optimizer="adamw", lr=1e-4)
    # of LLaVA's tower forward() does not read the last layer
    check_trains(model, published.drawn(name, ROWS, True), tmp_path, own, back=name != "llava")


def spread(own: dict[str, Tensor], exact: dict[str, Tensor]) -> float:
    """The norm of their difference, relative to that of the second."""
    off = sum(float((own[name] - exact[name]).square().sum()) for name in exact)
    return (off / sum(float(t.square().sum()) for t in exact.values())) ** 0.5


class Towers(nn.Module):
    """Two towers of linear layers with norms and sums, and a trunk; nothing in it is added to float32."""

    def __init__(self, deep: int = 6, wide: int = 48) -> None:
        super().__init__()
        self.enter = nn.ModuleList(nn.Linear(24, wide) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(wide) for _ in range(2 * deep))
        self.layers = nn.ModuleList(nn.Linear(wide, wide) for _ in range(2 * deep))
        self.trunk = nn.Sequential(nn.Linear(2 * wide, wide), nn.GELU(), nn.Linear(wide, 10))
        self.deep = deep

    def forward(self, left: Tensor, right: Tensor, labels: Tensor) -> Tensor:
        ends = []
        for k, x in enumerate((left, right)):
            x = self.enter[k](x)
            for i in range(k * self.deep, (k + 1) * self.deep):
                x = x + F.gelu(self.layers[i](self.norms[i](x)))
            ends.append(x)
        return F.cross_entropy(self.trunk(torch.cat(ends, -1)), labels)


@pytest.mark.filterwarnings("ignore:orrery_torch.*padding_idx")
@pytest.mark.parametrize("name", ["gpt2", "vit_b16", "llava", "whisper", "moe", "towers"])
def test_gradients_in_bf16_are_as_near_to_float64_as_those_of_autocast(name: str, tmp_path: Path) -> None:
    if name == "towers":
        model: nn.Module = Towers()
        samples = {side: torch.randn(ROWS, 24) for side in ("left", "right")}
        samples["labels"] = torch.randint(10, (ROWS,))
    else:
        model, samples = published.made(name, 8, True), published.drawn(name, ROWS, True)
    beside = Beside(model, samples, tmp_path)
    exactly = published.exactly(copy.deepcopy(model))
    before = {n: p.detach().double() for n, p in model.named_parameters()}
    rows = beside.rows(next(batches(beside.train, 16, 1)))

    def gradient(of: nn.Module, half: bool, samples: dict[str, Tensor]) -> dict[str, Tensor]:
        with torch.autocast("cpu", torch.bfloat16, half):
            loss = of(**samples)
        loss.backward()
        return {n: p.grad.double() for n, p in of.named_parameters() if p.grad is not None}

    exact = gradient(exactly, False, {n: t.double() if t.is_floating_point() else t for n, t in rows.items()})
    theirs = gradient(model, True, rows)
    beside.orrery(Options(16, 1, 1, optimizer="sgd", lr=1.0), "--precision", "bf16")
    orrery_torch.load(model, beside.after, strict=False)
    own = {n: before[n] - p.detach().double() for n, p in model.named_parameters()}
    assert 0 < spread(own, exact) <= 1.1 * spread(theirs, exact)


def test_an_image_before_the_words_is_what_llava_does_itself() -> None:
    model, data = published.made("llava", 2, True), published.drawn("llava", 4, True)
    places = torch.zeros(4, 4, dtype=torch.int64)  # of 2 x 2 patches
    tokens = torch.cat([places, data["tokens"]], 1)
    scores = model.model(input_ids=tokens, pixel_values=data["pixels"]).logits[:, 4:]
    own = F.cross_entropy(scores.flatten(0, 1), data["following"].flatten())
    torch.testing.assert_close(model(**data), own)


def real(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, REAL, *words], capture_output=True, text=True)


@pytest.mark.parametrize("more", [[], ["--precision", "bf16"], ["--optimizer", "sgd", "--lr", "0.1"]])
def test_the_command_says_losses_times_and_memory(more: list[str]) -> None:
    done = real("gpt2", "--small", "--layers", "2", "--steps", "3", "--batch", "8", *more)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["Orrery", "PyTorch", "losses"]


def test_a_training_that_doubles_any_rounding_is_held_against_float64() -> None:
    small = ["--small", "--layers", "2", "--microbatches", "1", "--steps", "8", "--lr", "1e-3", "--precision", "bf16"]
    told = real("resnet50", *small).stdout.splitlines()[-1]
    assert "apart at most, more than" in told and "from PyTorch in float64" in told, told


class Sums(published.Around):
    """Of all words up to each, too."""

    def forward(self, tokens: Tensor, following: Tensor) -> Tensor:
        words = self.model.model.get_input_embeddings()(tokens)
        return self.model(tokens, following) + torch.cumsum(words, 1).mean()


def test_what_has_no_like_is_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Sums(published.made("moe", 2, True))
    monkeypatch.setattr(published, "made", lambda *_: model)
    asked = argparse.Namespace(model="moe", layers=2, rows=10, small=True, folder=tmp_path)
    with pytest.raises(SystemExit, match="^real: moe: .*cumsum: .*$"):
        script("real").convert(asked)
    assert not list(tmp_path.iterdir())
