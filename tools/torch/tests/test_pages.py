"""The README's blocks of Python, run as they stand there, one section after the other."""

import ast
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from models import CLIP
from orrery_torch import command
from orrery_torch.tensors import save_safetensors
from runs import planned
from small_models import GPT, tokens
from test_schedule import built_in, check_replayed
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict

SAMPLES, M = 2, 4
PAGE = Path(__file__).parent.parent / "README.md"


class Scored(GPT):
    """With what a metric reads."""

    def forward(self, tokens: Tensor, following: Tensor) -> dict[str, Tensor]:
        scores = self.scores(tokens)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten())
        return {"loss": loss, "scores": scores}


def blocks() -> Iterator[tuple[str, str]]:
    """The heading, and lines of Python, set in by four: those that can be parsed, and do something."""
    heading, lines = "", []
    for line in [*PAGE.read_text().splitlines(), ""]:
        if line.startswith("    "):
            lines.append(line[4:])
            continue
        text, lines = "\n".join(lines), []
        try:
            parsed = list(ast.walk(ast.parse(text)))
        except SyntaxError:
            parsed = []
        if any(isinstance(node, (ast.Call, ast.Import)) for node in parsed):
            yield heading, text
        if line.startswith("#"):
            heading = line.strip("# ")


def given(heading: str) -> dict[str, Any]:
    """What a section takes as there."""
    if heading == "A model as a graph of costs":
        model = CLIP(layers=1, text_layers=1)
        return {"model": model, "images": torch.randn(2, 3, 32, 32), "texts": torch.ones(2, 16).long()}
    if heading == "A model that Orrery trains":
        names = ("tokens", "following", "all_tokens", "all_following")
        return {"model": GPT(), **dict(zip(names, tokens(4) + tokens(16)))}
    if heading == "A plan, run with the model's own modules":
        planned(Path(), Scored(), tokens(SAMPLES), M, "-w 1 -s 1f1b --stages 1", "plan")
        batch = tokens(SAMPLES * M)
        return {"model": Scored(), "microbatch": tokens(SAMPLES), "batches": [batch], "batch": batch}
    if heading == "A model larger than a process":
        save_safetensors(Path("model.safetensors"), GPT().state_dict())
    if heading == "A schedule in Python":
        return {"graph": "chain:16"}
    return {}


def run(text: str, names: dict[str, Any]) -> None:
    """With the commands that it has as comments, since what follows reads what they write."""
    lines, end = text.splitlines(), 0
    for node in ast.parse(text).body:
        for line in lines[end : node.lineno - 1]:
            if line.startswith("# orrery "):
                command.run(*line.split()[2:])
        end = node.end_lineno or 0
        exec("\n".join(lines[node.lineno - 1 : end]), names)  # noqa: S102 it is ours


def test_blocks_of_python_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")  # of which dcp.load makes use in one piece
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": 0, "WORLD_SIZE": 1}
    for name, value in meet.items():
        monkeypatch.setenv(name, str(value))
    names: dict[str, Any] = {"torch": torch, "nn": nn, "dist": dist, "GPT": Scored}
    names |= vars(state_dict)
    ran = []
    try:
        for heading, text in blocks():
            if heading not in ran:
                names |= given(heading)
                ran.append(heading)
            run(text, names)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    assert len(ran) == 9, ran
    assert Path("step-1000").is_dir()
    expected = built_in("chain:16", "1f1b", "-w", 4, "-m", 8, "--stages", 8)
    assert names["found"].figures["bubble"] == expected["bubble"]
    check_replayed(names["found"], tmp_path)
