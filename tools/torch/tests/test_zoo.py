"""The verdict of `zoo` on a training, what it writes, and the replay of `steps`."""

import re
from pathlib import Path
from typing import Any

import orrery_torch
import pytest
from runs import script

pytest.importorskip("transformers")


@pytest.mark.parametrize(
    "training, wrong",
    [
        ({"apart": 9e-5}, False),
        ({"apart": 3e-4, "exact": 7e-3, "peer": 7e-3}, False),  # as PyTorch's own
        ({"apart": 3e-4, "exact": 3e-4, "peer": 1e-4}, True),
        ({"lacks": ["topk"]}, False),
    ],
)
def test_a_training_that_amplifies_roundings_is_held_against_float64(training: dict[str, Any], wrong: bool) -> None:
    assert script("zoo").is_wrong(training) == wrong


def test_reasons_are_told_once() -> None:
    ran = {"1f1b": [1e-8, 2e-9], "zb-h1": "no cut", "v-half": [0.0, 3e-9], "auto": "no cut"}
    assert script("zoo").cell(ran) == "1e-08 3e-09; zb-h1, auto: no cut"


def test_what_a_process_raises_is_told_and_one_that_ends_is_missed(tmp_path: Path) -> None:
    zoo = script("zoo")

    def fails(name: str, folder: Path) -> dict[str, Any]:
        if name == "raises" and zoo.os.environ["RANK"] == "1":
            raise ValueError("first\nlast")
        if name == "ends":
            zoo.os._exit(1)
        return {"of": int(zoo.os.environ["WORLD_SIZE"])}

    assert zoo.forked(fails, "works", tmp_path, 2) == {"of": 2}
    assert zoo.forked(fails, "raises", tmp_path, 2) == "ValueError: last"
    assert zoo.forked(fails, "ends", tmp_path).startswith("killed")


def test_the_page_is_what_the_zoo_writes() -> None:
    zoo = script("zoo")
    page = Path(__file__).parents[1].joinpath("ZOO.md").read_text()
    rows = re.findall(r"^\| ((?:hf|timm|torchvision|example) [^|]+) \|", page, re.M)
    assert rows == list(zoo.zoo_models.MODELS) and f"\n\n{len(rows)} models, " in page
    assert zoo.__doc__ in page


def test_the_models_of_the_study_are_converted() -> None:
    zoo_models = script("zoo").zoo_models
    for name in zoo_models.STUDIED:
        assert orrery_torch.convert(*zoo_models.made(name, 2)).nodes, name


def test_a_step_is_replayed_in_order() -> None:
    replayed = script("steps").replayed
    first = {"0F0": (1.0, []), "0F1": (1.0, []), "0B0": (2.0, ["1B0"]), "0B1": (2.0, ["1B1"])}
    last = {"1F0": (1.5, ["0F0"]), "1B0": (3.0, []), "1F1": (1.5, ["0F1"]), "1B1": (3.0, [])}
    assert replayed([first, last]) == 1 + 1.5 + 3 + 1.5 + 3 + 2
