"""The command `orrery`, run beside PyTorch."""

import csv
import html
import json
import os
import re
import shlex
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from .tensors import load_safetensors, save_safetensors

ROOT = Path(__file__).resolve().parent.parent.parent.parent  # of the source, where this runs there


def find() -> str:
    """The command as ORRERY names it; that of the tree in which this lies; that of the tree in
    which one works; that of the wheel, beside Python; else that of PATH."""
    here = Path.cwd()
    built = [folder / "build/tools/orrery" for folder in (ROOT, here, *here.parents)]
    places = [*built, Path(sysconfig.get_path("scripts"), "orrery")]
    found = (str(path) for path in places if path.is_file() and os.access(path, os.X_OK))
    return os.environ.get("ORRERY") or next(found, "orrery")


ORRERY = find()


def ask(*words: Any) -> str:
    """What it writes; ValueError has the line of a failure."""
    try:
        done = subprocess.run([ORRERY, *map(str, words)], capture_output=True, text=True)
    except OSError as why:
        raise ValueError(f"{ORRERY}: {why.strerror}: name the command in ORRERY") from None
    if done.returncode:
        raise ValueError(done.stderr.strip().removeprefix("orrery: "))
    return done.stdout


def run(*words: Any) -> str:
    """The same for a program, which ends with the line."""
    try:
        return ask(*words)
    except ValueError as why:
        raise SystemExit(f"orrery {shlex.join(map(str, words))}:\n{why}") from None


@dataclass(frozen=True)
class Page:
    """What --html writes; in a notebook, itself."""

    text: str

    def _repr_html_(self) -> str:
        style = "width: 100%; height: 40em; border: 0"
        text = html.escape(self.text)
        return f'<iframe sandbox="allow-scripts" title="orrery" style="{style}" srcdoc="{text}"></iframe>'


def page(*words: Any) -> Page:
    """That of `orrery simulate`, `plan`, `compare` or `train` with these words, such as page("plan",
    "model.dot", "--workers", 4, "-o", "plan.json"). ValueError has the line of what is refused."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "page.html")
        ask(*words, "--html", path)
        return Page(path.read_text())


def value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


def read_graph(path: Path | str) -> dict[str, Any]:
    """What `orrery show --json` says of it, attributes as numbers, truths and words."""
    graph: dict[str, Any] = json.loads(run("show", "--json", path))
    for o in graph["operators"]:
        o["attributes"] = {
            key: text if key == "tensor" else value(text) for key, text in o["attributes"].items()
        }
    return graph


@dataclass
class Trained:
    losses: list[float]  # of each step
    report: dict[str, Any]
    tensors: dict[str, Tensor]  # when it ended, the optimizer's among them


def train(path: Path | str, words: list[str], init: dict[str, Tensor] | None = None) -> Trained:
    """From the weights that the seed draws, or from these."""
    with tempfile.TemporaryDirectory() as folder:
        begin, kept, losses, end = (
            Path(folder, name) for name in ("begin", "kept", "losses", "end")
        )
        more = ["--checkpoint", kept, "--keep", 1, "--loss", losses, "--save-weights", end]
        if init is not None:
            save_safetensors(begin, init)
            more += ["--init", begin]
        report = run("train", path, *words, "--json", *more)
        # step, samples, loss, and each of several, which may be called loss, too; none of 0 steps
        rows = list(csv.reader(losses.open()))[1:] if losses.exists() else []
        tensors = load_safetensors(end)
        for shard in kept.glob("step-*/*.safetensors"):
            tensors |= load_safetensors(shard)
        return Trained([float(row[2]) for row in rows], json.loads(report), tensors)


def shipped(path: Path) -> list[str]:
    """The options of the command that the graph's own comment trains it by."""
    found = re.search(r"^//\s+orrery train \S+(.*)$", path.read_text(), re.MULTILINE)
    return shlex.split(found[1]) if found else []
