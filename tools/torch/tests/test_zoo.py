"""The verdict of `zoo` on a training, and the replay of `steps`."""

from typing import Any

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


def test_a_step_is_replayed_in_order() -> None:
    replayed = script("steps").replayed
    first = {"0F0": (1.0, []), "0F1": (1.0, []), "0B0": (2.0, ["1B0"]), "0B1": (2.0, ["1B1"])}
    last = {"1F0": (1.5, ["0F0"]), "1B0": (3.0, []), "1F1": (1.5, ["0F1"]), "1B1": (3.0, [])}
    assert replayed([first, last]) == 1 + 1.5 + 3 + 1.5 + 3 + 2
