"""Models of the package transformers, where it is: small configurations, with random weights. GPT-2,
GraniteMoe, ViT and another Whisper are those of `published`, in test_real.py."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orrery_torch
import pytest
import torch
from peer.training import Options
from torch import Tensor, nn
from train import Beside, apart

hf = pytest.importorskip("transformers")
from published import Around, Scored, Translates  # noqa: E402 which ends where there is none

STEPS, ROWS = 10, 60
SIZE = {"vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
WIDE = {"intermediate_size": 64, "max_position_embeddings": 16}
EXPERTS: dict[str, Any] = SIZE | WIDE | {"num_local_experts": 4, "num_experts_per_tok": 2, "use_cache": False}
EXPERTS |= {"num_key_value_heads": 2}
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


class Own(Around):
    """The loss is the model's own."""

    def forward(self, input_ids: Tensor, labels: Tensor) -> Tensor:
        return self.model(input_ids, labels=labels).loss


def llama(how: str) -> nn.Module:
    more = {"num_key_value_heads": 2, "use_cache": False, "attn_implementation": how}
    return Own(hf.LlamaForCausalLM(hf.LlamaConfig(**SIZE, **WIDE, **more)))


def gemma(how: str) -> nn.Module:
    """Its norms multiply by 1 and a parameter; caches of keys and values begin empty."""
    more = {"num_key_value_heads": 1, "head_dim": 8, "attn_implementation": how}
    return Own(hf.GemmaForCausalLM(hf.GemmaConfig(**SIZE, **WIDE, **more, pad_token_id=0)))


def phi(how: str) -> nn.Module:
    """Half of each head's columns turn."""
    config = hf.PhiConfig(**SIZE, **WIDE, attn_implementation=how)
    return Own(hf.PhiForCausalLM(config))


def mixtral(how: str, **more: Any) -> nn.Module:
    """The best two of four experts, by probabilities among all that are divided by their sum."""
    return Own(hf.MixtralForCausalLM(hf.MixtralConfig(**EXPERTS | more, attn_implementation=how)))


def whisper(how: str) -> nn.Module:
    sizes: dict[str, Any] = {"vocab_size": 61, "d_model": 32, "num_mel_bins": 8, "dropout": 0.0}
    for part in ("encoder", "decoder"):
        sizes |= {f"{part}_layers": 1, f"{part}_ffn_dim": 64, f"{part}_attention_heads": 4}
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    sizes |= ends | {"max_source_positions": 10, "max_target_positions": 12}
    config = hf.WhisperConfig(**sizes, attn_implementation=how)
    return Translates(hf.WhisperForConditionalGeneration(config))


def bert(how: str) -> nn.Module:
    config = hf.BertConfig(**SIZE, **WIDE, **STILL, attn_implementation=how)
    return Scored(hf.BertForMaskedLM(config))


def bart(how: str) -> nn.Module:
    parts = {f"{p}_{k}": v for p in ("encoder", "decoder") for k, v in
             (("ffn_dim", 64), ("layers", 2), ("attention_heads", 4))}  # fmt: skip
    more = {"d_model": 32, "vocab_size": 61, "dropout": 0.0, "max_position_embeddings": 16}
    config = hf.BartConfig(**parts, **more, use_cache=False, attn_implementation=how)
    return Translates(hf.BartForConditionalGeneration(config))


def words(*names: str) -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(1)
    return {name: torch.randint(3, 61, (ROWS, 12), generator=g) for name in names}


def sound() -> dict[str, Tensor]:
    g = torch.Generator().manual_seed(1)
    return {"data": torch.randn(ROWS, 8, 20, generator=g)} | words("tokens", "following")


CASES: dict[str, tuple[Callable[[str], nn.Module], Callable[[], dict[str, Tensor]]]] = {
    "llama": (llama, lambda: words("input_ids", "labels")),
    "gemma": (gemma, lambda: words("input_ids", "labels")),
    "phi": (phi, lambda: words("input_ids", "labels")),
    "mixtral": (mixtral, lambda: words("input_ids", "labels")),
    "whisper": (whisper, sound),
    "bert": (bert, lambda: words("data", "labels")),
    "bart": (bart, lambda: words("data", "tokens", "following")),
}


@pytest.mark.filterwarnings("ignore:orrery_torch.*padding_idx")
@pytest.mark.parametrize("how", ["sdpa", "eager"])
@pytest.mark.parametrize("case", CASES)
def test_losses_are_those_of_pytorch(case: str, how: str, tmp_path: Path) -> None:
    make, data = CASES[case]
    beside = Beside(make(how).train(), data(), tmp_path)
    own = Options(16, 4, STEPS, optimizer="adamw", lr=0.001)
    losses, test = beside.orrery(own)
    assert max(map(apart, losses, beside.pytorch(own))) < 1e-4 and len(losses) == STEPS
    assert apart(beside.evaluated(), test) < 1e-4


def test_what_has_no_like_is_named() -> None:
    size: dict[str, Any] = {"vocab_size": 61, "d_model": 32, "d_kv": 8, "d_ff": 64}
    config = hf.T5Config(**size, num_layers=2, num_heads=4, dropout_rate=0.0, use_cache=False)
    given = {name: t[:4] for name, t in words("data", "tokens", "following").items()}
    with pytest.raises(ValueError, match="encoder.*relative_attention_bias"):
        orrery_torch.convert(Translates(hf.T5ForConditionalGeneration(config)), given)


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (lambda: mixtral("sdpa", num_experts_per_tok=1), "one choice, which is 1"),
        (lambda: mixtral("sdpa", output_router_logits=True), "Orrery's balance has otherwise"),
        (lambda: Own(hf.OlmoeForCausalLM(hf.OlmoeConfig(**EXPERTS, num_experts=4))), "do not sum to 1"),
    ],
)
def test_what_no_route_says_is_refused(model: Callable[[], nn.Module], why: str) -> None:
    given = {name: t[:2] for name, t in words("input_ids", "labels").items()}
    with pytest.raises(ValueError, match=f"(?s)experts.*{why}|gate.*{why}|loss.*{why}"):
        orrery_torch.convert(model(), given)


def test_the_angles_of_far_rows_are_rotary() -> None:
    given = {name: torch.randint(61, (2, 1500)) for name in ("input_ids", "labels")}
    program = orrery_torch.convert(llama("sdpa"), given)
    assert [n.op for n in program.nodes].count("rotary") == 4


@pytest.mark.filterwarnings("ignore:orrery_torch.*padding_idx")
def test_what_a_norm_has_less_one_comes_back(tmp_path: Path) -> None:
    model, other = gemma("sdpa"), gemma("sdpa")
    for p in model.parameters():
        nn.init.normal_(p)
    given = {name: t[:2] for name, t in words("input_ids", "labels").items()}
    program = orrery_torch.convert(model, given)
    gains = [name for name in program.weights if name.endswith(".gain")]
    assert len(gains) == 5 and all("plus-one" in name for name in gains)
    orrery_torch.load(other, program.save_weights(tmp_path / "gemma.safetensors"))
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q)
