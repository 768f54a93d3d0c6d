"""The models of tools/gpu/gpu-torch are those of the graphs that they race beside: the same losses and
gradients from the same parameters."""

from pathlib import Path

import pytest
import torch
from orrery_torch import command
from peer.model import Model
from runs import script
from torch import Tensor

WIDTH = {"towers": 16, "gpt": 48}
GRAPHS = {"towers": "large_towers.dot", "gpt": "gpt.dot"}


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
    of_graph = [p for o in graph.operators for p in o.holder.parameters()]  # in the same order
    both = list(zip(model.parameters(), of_graph, strict=True))
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
