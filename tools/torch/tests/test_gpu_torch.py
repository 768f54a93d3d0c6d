"""The models of tools/gpu/gpu-torch are those of the graphs that they race beside: the same losses and
gradients from the same parameters."""

import re
from pathlib import Path

import pytest
import torch
from orrery_torch import command
from peer.model import Model
from runs import script
from torch import Tensor, nn

WIDTH = {"towers": 16, "gpt": 48}
GRAPHS = {"towers": "large_towers.dot", "gpt": "gpt.dot"}


def name_in_graph(name: str) -> str:
    """Of the tensors' holders in gpu-torch: those of the graph."""
    for pattern, own in (
        (r"blocks\.(\d)\.(\w+)\.", r"b\1_\2."),
        (r"(digit|pixels)\.", r"embed_\1."),
        (r"places$", "places.weight"),
    ):
        name, n = re.subn("^" + pattern, own, name)
        if n:
            break
    return re.sub(r"(norm\d?)\.weight$", r"\1.gain", name)


def pairs(kind: str, model: nn.Module, graph: Model) -> list[tuple[nn.Parameter, nn.Parameter]]:
    if kind == "gpt":
        own = dict(graph.named_parameters())
        return [(p, own[name_in_graph(name)]) for name, p in model.named_parameters()]
    found = []
    for tower, prefix in (("upper", "u_"), ("lower", "l_"), ("trunk", "")):
        of_graph = [
            p
            for o in graph.operators
            if o.name[:2] == prefix or (not prefix and o.name[:2] not in ("u_", "l_"))
            for p in o.holder.parameters()
        ]
        of_model = list(getattr(model, tower).parameters())
        assert len(of_model) == len(of_graph) > 0
        found += zip(of_model, of_graph)
    return found


def columns(kind: str, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    if kind == "gpt":
        return {"digit": x[:, :1].float(), "pixels": x[:, 1:].float(), "next": y.float()}
    return {"u_pixels": x[:, :32], "l_pixels": x[:, 32:], "digit": y[:, None].float()}


@pytest.mark.parametrize("kind", ["towers", "gpt"])
def test_same_model(kind: str, tmp_path: Path) -> None:
    text = (command.ROOT / "graphs" / GRAPHS[kind]).read_text()
    (tmp_path / "graph.dot").write_text(text.replace("features=2048", f"features={WIDTH[kind]}"))
    torch.manual_seed(1)
    graph = Model(command.read_graph(tmp_path / "graph.dot"))
    gpu_torch = script("../gpu/gpu-torch")
    model, width = gpu_torch.MODELS[kind][0], gpu_torch.MODELS[kind][1]
    assert f"features={width}" in text
    model = model(WIDTH[kind])
    both = pairs(kind, model, graph)
    assert len(both) == len(list(model.parameters())) == len(list(graph.parameters()))
    with torch.no_grad():
        for p, own in both:
            assert p.shape == own.shape
            own.copy_(torch.randn(own.shape) * 0.1)
            p.copy_(own)
    x, y = model.data(6)
    theirs = model(x, y)
    theirs.backward()
    loss = graph.total(graph(columns(kind, x, y)))
    loss.backward()
    assert theirs.item() == pytest.approx(loss.item(), rel=1e-5)
    for p, own in both:
        assert torch.allclose(p.grad, own.grad, rtol=1e-3, atol=1e-6)
