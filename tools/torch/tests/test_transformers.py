"""Models of the package transformers, where it is: those of the zoo. GPT-2, GraniteMoe, ViT and another Whisper are those of
`published`, in test_real.py."""

from pathlib import Path
from typing import Any

import orrery_torch
import pytest
import torch
from peer.training import Options
from runs import check_trains
from torch import Tensor, nn

hf = pytest.importorskip("transformers")
import zoo_models  # noqa: E402 which ends where there is none
from published import Around, Scored, Words  # noqa: E402

STEPS, ROWS = 10, 60


class Own(Around):
    """The loss is the model's own."""

    def forward(self, tokens: Tensor, following: Tensor) -> Tensor:
        return self.model(tokens, labels=following).loss


def made(name: str, rows: int = ROWS) -> tuple[nn.Module, dict[str, Tensor]]:
    """A model of the zoo; a language model has its own loss, BERT one of every word."""
    if name == "hf bert":
        data = zoo_models.words(rows)
        return Scored(hf.BertForMaskedLM(hf.BertConfig(**zoo_models.BERT))), {"data": data, "labels": data.roll(1, 1)}
    model, data = zoo_models.made(name, rows)
    return Own(model.model) if isinstance(model, Words) else model, data


def experts(kind: str, **more: Any) -> nn.Module:
    sizes = zoo_models.TEXT | {"num_key_value_heads": 2, "num_experts_per_tok": 2, "use_cache": False}
    return Own(hf.AutoModelForCausalLM.from_config(getattr(hf, f"{kind}Config")(**sizes | more)))


@pytest.mark.filterwarnings("ignore:orrery_torch.*padding_idx")
@pytest.mark.parametrize("how", ["sdpa", "eager"])
@pytest.mark.parametrize("case", [f"hf {name}" for name in ("llama", "gemma", "phi", "mixtral", "whisper", "bert", "bart")])
def test_losses_are_those_of_pytorch(case: str, how: str, tmp_path: Path) -> None:
    model, data = made(case)
    model.model.set_attn_implementation(how)
    check_trains(model.train(), data, tmp_path, Options(16, 4, STEPS, optimizer="adamw", lr=0.001))


def test_what_has_no_like_is_named() -> None:
    with pytest.raises(ValueError, match="encoder.*relative_attention_bias"):
        orrery_torch.convert(*made("hf t5", 4))


@pytest.mark.parametrize(
    ("kind", "more", "why"),
    [
        ("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 1}, "one choice, which is 1"),
        ("Mixtral", {"num_local_experts": 4, "output_router_logits": True}, "Orrery's balance has otherwise"),
        ("Olmoe", {"num_experts": 4}, "do not sum to 1"),
    ],
)
def test_what_no_route_says_is_refused(kind: str, more: dict[str, Any], why: str) -> None:
    given = {name: zoo_models.words(2) for name in ("tokens", "following")}
    with pytest.raises(ValueError, match=f"(?s)experts.*{why}|gate.*{why}|loss.*{why}"):
        orrery_torch.convert(experts(kind, **more), given)


def test_the_angles_of_far_rows_are_rotary() -> None:
    given = {name: zoo_models.words(2, 1500) for name in ("tokens", "following")}
    program = orrery_torch.convert(made("hf llama", 2)[0], given)
    assert [n.op for n in program.nodes].count("rotary") == 4


@pytest.mark.filterwarnings("ignore:orrery_torch.*padding_idx")
def test_what_a_norm_has_less_one_comes_back(tmp_path: Path) -> None:
    (model, given), (other, _) = made("hf gemma", 2), made("hf gemma", 2)
    for p in model.parameters():
        nn.init.normal_(p)
    program = orrery_torch.convert(model, given)
    gains = [name for name in program.weights if name.endswith(".gain")]
    assert len(gains) == 5 and all("plus-one" in name for name in gains)
    orrery_torch.load(other, program.save_weights(tmp_path / "gemma.safetensors"))
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q)
