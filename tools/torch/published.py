"""Models of the package transformers as they were published, with random weights, for `real`: forward() takes data and
returns a loss. Without dropout, whose masks the two draw apart."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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


def gpt2(layers: int, small: bool) -> nn.Module:
    sizes: Sizes = {"n_embd": 32, "n_head": 4, "vocab_size": 61, "n_positions": 16} if small else {}
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    return Words(hf.GPT2LMHeadModel(hf.GPT2Config(n_layer=layers, **sizes, **still)))


def resnet50(layers: int, small: bool) -> nn.Module:
    """layers: those of each of the four parts, at most."""
    sizes: Sizes = {"embedding_size": 8, "hidden_sizes": [8, 16, 16, 32]} if small else {}
    depths = [min(layers, d) for d in (3, 4, 6, 3)]
    config = hf.ResNetConfig(depths=depths, num_labels=7 if small else 1000, **sizes)
    return Scored(hf.ResNetForImageClassification(config))


def vit_b16(layers: int, small: bool) -> nn.Module:
    sizes: Sizes = (
        {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "image_size": 32}
        if small
        else {}
    )
    config = hf.ViTConfig(num_hidden_layers=layers, num_labels=7 if small else 1000, **sizes)
    return Scored(hf.ViTForImageClassification(config))


def llava(layers: int, small: bool) -> nn.Module:
    """CLIP's ViT-L/14 at 336 pixels, and Qwen2 0.5B."""
    eye: Sizes = {"hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16,
                  "image_size": 336, "patch_size": 14}  # fmt: skip
    tongue: Sizes = {"hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14,
                     "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True}  # fmt: skip
    if small:
        eye |= {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "image_size": 28}
        tongue |= {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "vocab_size": 61}
    config = hf.LlavaConfig(
        vision_config=hf.CLIPVisionConfig(num_hidden_layers=layers, **eye),
        text_config=hf.Qwen2Config(num_hidden_layers=layers, **tongue),
        image_token_index=0,
        tie_word_embeddings=True,
    )
    return Seen(hf.LlavaForConditionalGeneration(config))


def whisper(layers: int, small: bool) -> nn.Module:
    """Whisper small."""
    wide, heads = (32, 4) if small else (768, 12)
    sizes: Sizes = {"d_model": wide}
    for part in ("encoder", "decoder"):
        sizes |= {f"{part}_layers": layers, f"{part}_ffn_dim": 4 * wide, f"{part}_attention_heads": heads}
    if small:
        sizes |= {"vocab_size": 61, "max_source_positions": 10, "max_target_positions": 12,
                  "num_mel_bins": 8, "pad_token_id": 0}  # fmt: skip
    return Heard(hf.WhisperForConditionalGeneration(hf.WhisperConfig(**sizes)))


def words(n: int, small: bool, vocabulary: int = 50257) -> dict[str, Tensor]:
    return drawn_words(n, *((12, 61) if small else (1024, vocabulary)))


def images(n: int, small: bool) -> dict[str, Tensor]:
    side, classes = (32, 7) if small else (224, 1000)
    return {"data": torch.randn(n, 3, side, side), "labels": torch.randint(classes, (n,))}


def moe(layers: int, small: bool) -> nn.Module:
    """Granite 3.0 1B-A400M: 8 of 32 experts."""
    sizes: Sizes = {"vocab_size": 49155, "hidden_size": 1024, "intermediate_size": 512, "num_attention_heads": 16,
                    "num_key_value_heads": 8, "num_local_experts": 32, "num_experts_per_tok": 8,
                    "tie_word_embeddings": True, "embedding_multiplier": 12.0, "logits_scaling": 6.0,
                    "residual_multiplier": 0.22, "attention_multiplier": 0.015625}  # fmt: skip
    if small:
        sizes |= {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 16, "num_attention_heads": 4,
                  "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2}  # fmt: skip
    return Words(hf.GraniteMoeForCausalLM(hf.GraniteMoeConfig(num_hidden_layers=layers, **sizes)))


def drawn_words(n: int, length: int, vocabulary: int) -> dict[str, Tensor]:
    both = torch.randint(1, vocabulary, (n, length + 1))  # 0 is padding, or the place of an image
    return {"tokens": both[:, :-1].contiguous(), "following": both[:, 1:].contiguous()}


def seen(n: int, small: bool) -> dict[str, Tensor]:
    side, length, vocabulary = (28, 12, 61) if small else (336, 64, 151936)
    return {"pixels": torch.randn(n, 3, side, side)} | drawn_words(n, length, vocabulary)


def heard(n: int, small: bool) -> dict[str, Tensor]:
    frames, bands, length, vocabulary = (20, 8, 12, 61) if small else (3000, 80, 448, 51865)
    return {"data": torch.randn(n, frames, bands)} | drawn_words(n, length, vocabulary)


@dataclass
class Published:
    what: str
    layers: int
    model: Callable[[int, bool], nn.Module]
    data: Callable[[int, bool], dict[str, Tensor]]


MODELS = {
    "gpt2": Published("GPT-2, 768 wide, 1,024 of 50,257 words, tied", 12, gpt2, words),
    "resnet50": Published("ResNet-50, 224 pixels, 1,000 classes", 6, resnet50, images),
    "vit_b16": Published("ViT-B/16, 768 wide, 224 pixels, 1,000 classes", 12, vit_b16, images),
    "llava": Published("LLaVA, a frozen CLIP ViT-L/14 at 336 pixels and Qwen2 0.5B", 24, llava, seen),
    "whisper": Published("Whisper small, 3,000 frames, 448 words", 12, whisper, heard),
    "moe": Published("Granite 3.0 1B-A400M, 8 of 32 experts, 1,024 of 49,155 words", 24, moe, partial(words, vocabulary=49155)),
}


def made(name: str, layers: int | None, small: bool = False) -> nn.Module:
    """The same weights each time."""
    torch.manual_seed(1)
    found = MODELS[name]
    return found.model(layers or found.layers, small).train()


def exactly(model: nn.Module) -> nn.Module:
    """In float64, in which PyTorch has no products of groups of rows: experts one after the other."""
    for part in model.modules():
        if isinstance(part, hf.PreTrainedModel) and hasattr(part, "set_experts_implementation"):
            part.set_experts_implementation("eager")
    return model.double()


def drawn(name: str, rows: int, small: bool = False) -> dict[str, Tensor]:
    torch.manual_seed(2)
    return MODELS[name].data(rows, small)
