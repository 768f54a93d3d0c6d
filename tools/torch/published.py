"""Models of the package transformers as they were published, with random weights, for `real`: forward() takes data and
returns a loss. Without dropout, whose masks the two draw apart."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

try:
    import transformers as hf
except ImportError:
    raise SystemExit("real: transformers is missing: pip install 'transformers>=4.50'") from None

Sizes = dict[str, Any]


class Around(nn.Module):
    """A model, whose forward() becomes one that takes data and returns a loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model


class Words(Around):
    """A language model: the loss of the word that follows each."""

    def forward(self, tokens: Tensor, following: Tensor) -> Tensor:
        scores = self.model(input_ids=tokens, use_cache=False).logits
        return F.cross_entropy(scores.flatten(0, 1), following.flatten())


class Scored(Around):
    """The loss of the scores of images or texts, or of all words of these."""

    def forward(self, data: Tensor, labels: Tensor) -> Tensor:
        scores = self.model(data)
        scores = getattr(scores, "logits", scores)
        return F.cross_entropy(scores.flatten(0, -2), labels.flatten())


class Translates(Around):
    """An encoder and a decoder."""

    def forward(self, data: Tensor, tokens: Tensor, following: Tensor) -> Tensor:
        scores = self.model(data, decoder_input_ids=tokens, use_cache=False).logits
        return F.cross_entropy(scores.flatten(0, 1), following.flatten())


class Seen(Around):
    """A LLaVA whose image comes before its words, which is where their places are known without data."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        model.model.vision_tower.requires_grad_(False)

    def forward(self, pixels: Tensor, tokens: Tensor, following: Tensor) -> Tensor:
        own = self.model.model
        layers = own.vision_tower(pixels, output_hidden_states=True).hidden_states
        seen = own.multi_modal_projector(layers[self.model.config.vision_feature_layer][:, 1:])
        both = torch.cat([seen, own.language_model.embed_tokens(tokens)], 1)
        read = own.language_model(inputs_embeds=both, use_cache=False).last_hidden_state
        scores = self.model.lm_head(read[:, seen.shape[1] :])
        return F.cross_entropy(scores.flatten(0, 1), following.flatten())


class Heard(Translates):
    """Speech, frames x bands, and what was said."""

    def forward(self, data: Tensor, tokens: Tensor, following: Tensor) -> Tensor:
        return super().forward(data.transpose(1, 2), tokens, following)


STILL = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def gpt2(layers: int, **sizes: Any) -> nn.Module:
    return Words(hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=layers, **STILL, **sizes)))


def resnet50(layers: int, **sizes: Any) -> nn.Module:
    """layers: those of each of the four parts, at most."""
    depths = [min(layers, d) for d in (3, 4, 6, 3)]
    return Scored(hf.ResNetForImageClassification(hf.ResNetConfig(depths=depths, **sizes)))


def vit_b16(layers: int, **sizes: Any) -> nn.Module:
    return Scored(hf.ViTForImageClassification(hf.ViTConfig(num_hidden_layers=layers, **sizes)))


def llava(layers: int, eye: Sizes, tongue: Sizes) -> nn.Module:
    config = hf.LlavaConfig(
        vision_config=hf.CLIPVisionConfig(num_hidden_layers=layers, **eye),
        text_config=hf.Qwen2Config(num_hidden_layers=layers, **tongue),
        image_token_index=0,
        tie_word_embeddings=True,
    )
    return Seen(hf.LlavaForConditionalGeneration(config))


def whisper(layers: int, wide: int, heads: int, **sizes: Any) -> nn.Module:
    for part in ("encoder", "decoder"):
        sizes |= {f"{part}_layers": layers, f"{part}_ffn_dim": 4 * wide, f"{part}_attention_heads": heads}
    return Heard(hf.WhisperForConditionalGeneration(hf.WhisperConfig(d_model=wide, **sizes)))


def moe(layers: int, **sizes: Any) -> nn.Module:
    return Words(hf.GraniteMoeForCausalLM(hf.GraniteMoeConfig(num_hidden_layers=layers, tie_word_embeddings=True, **sizes)))


def words(n: int, length: int, vocabulary: int) -> dict[str, Tensor]:
    both = torch.randint(1, vocabulary, (n, length + 1))  # 0 is padding, or the place of an image
    return {"tokens": both[:, :-1].contiguous(), "following": both[:, 1:].contiguous()}


def images(n: int, side: int, classes: int) -> dict[str, Tensor]:
    return {"data": torch.randn(n, 3, side, side), "labels": torch.randint(classes, (n,))}


def seen(n: int, side: int, length: int, vocabulary: int) -> dict[str, Tensor]:
    return {"pixels": torch.randn(n, 3, side, side)} | words(n, length, vocabulary)


def heard(n: int, frames: int, bands: int, length: int, vocabulary: int) -> dict[str, Tensor]:
    return {"data": torch.randn(n, frames, bands)} | words(n, length, vocabulary)


@dataclass
class Published:
    """Sizes of the model and of its data as published, and, to try it, small ones."""

    what: str
    layers: int
    model: Callable[..., nn.Module]
    sizes: tuple[Sizes, Sizes]
    data: Callable[..., dict[str, Tensor]]
    of_data: tuple[tuple[int, ...], tuple[int, ...]]


NARROW = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4}
EYE = {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16, "image_size": 336, "patch_size": 14}
TONGUE = {"hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14, "num_key_value_heads": 2,
          "vocab_size": 151936, "tie_word_embeddings": True}  # fmt: skip
SHORT = {"vocab_size": 61, "max_source_positions": 10, "max_target_positions": 12, "num_mel_bins": 8, "pad_token_id": 0}
GRANITE = {"vocab_size": 49155, "hidden_size": 1024, "intermediate_size": 512, "num_attention_heads": 16,
           "num_key_value_heads": 8, "num_local_experts": 32, "num_experts_per_tok": 8, "embedding_multiplier": 12.0,
           "logits_scaling": 6.0, "residual_multiplier": 0.22, "attention_multiplier": 0.015625}  # fmt: skip
MODELS = {
    "gpt2": Published(
        "GPT-2, 768 wide, 1,024 of 50,257 words, tied", 12,
        gpt2, ({}, {"n_embd": 32, "n_head": 4, "vocab_size": 61, "n_positions": 16}), words, ((1024, 50257), (12, 61)),
    ),
    "resnet50": Published(
        "ResNet-50, 224 pixels, 1,000 classes", 6,
        resnet50, ({"num_labels": 1000}, {"num_labels": 7, "embedding_size": 8, "hidden_sizes": [8, 16, 16, 32]}),
        images, ((224, 1000), (32, 7)),
    ),
    "vit_b16": Published(
        "ViT-B/16, 768 wide, 224 pixels, 1,000 classes", 12,
        vit_b16, ({"num_labels": 1000}, NARROW | {"num_labels": 7, "image_size": 32}), images, ((224, 1000), (32, 7)),
    ),
    "llava": Published(
        "LLaVA, a frozen CLIP ViT-L/14 at 336 pixels and Qwen2 0.5B", 24,
        llava, ({"eye": EYE, "tongue": TONGUE}, {"eye": EYE | NARROW | {"image_size": 28}, "tongue": TONGUE | NARROW | {"vocab_size": 61}}),
        seen, ((336, 64, 151936), (28, 12, 61)),
    ),
    "whisper": Published(
        "Whisper small, 3,000 frames, 448 words", 12,
        whisper, ({"wide": 768, "heads": 12}, {"wide": 32, "heads": 4} | SHORT), heard, ((3000, 80, 448, 51865), (20, 8, 12, 61)),
    ),
    "moe": Published(
        "Granite 3.0 1B-A400M, 8 of 32 experts, 1,024 of 49,155 words", 24,
        moe, (GRANITE, GRANITE | NARROW | {"vocab_size": 61, "intermediate_size": 16, "num_key_value_heads": 2,
              "num_local_experts": 4, "num_experts_per_tok": 2}), words, ((1024, 49155), (12, 61)),
    ),
}  # fmt: skip


def made(name: str, layers: int | None, small: bool = False) -> nn.Module:
    """The same weights each time."""
    torch.manual_seed(1)
    found = MODELS[name]
    return found.model(layers or found.layers, **found.sizes[small]).train()


def exactly(model: nn.Module) -> nn.Module:
    """In float64, in which PyTorch has no products of groups of rows: experts one after the other."""
    for part in model.modules():
        if isinstance(part, hf.PreTrainedModel) and hasattr(part, "set_experts_implementation"):
            part.set_experts_implementation("eager")
    return model.double()


def drawn(name: str, rows: int, small: bool = False) -> dict[str, Tensor]:
    torch.manual_seed(2)
    return MODELS[name].data(rows, *MODELS[name].of_data[small])
