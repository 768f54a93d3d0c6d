"""Models of transformers, timm and torchvision, small, with random weights and without dropout, and those of examples/, for
`zoo`, `steps` and the tests: forward() takes data and returns a loss."""

import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parent / "examples"))
import published
import torch
import torch.nn.functional as F
import transformers as hf
from models import EXAMPLES, Block, Example
from published import Around, Scored, Translates, Words
from torch import Tensor, nn

WORDS, LENGTH, SIDE, CLASSES = 61, 12, 64, 7
Made = tuple[nn.Module, dict[str, Tensor]]


class Pairs(Around):
    """Images and their texts: a model that returns the loss of which belongs to which."""

    def forward(self, pixels: Tensor, tokens: Tensor) -> Tensor:
        return self.model(input_ids=tokens, pixel_values=pixels, return_loss=True).loss


class Sees(Around):
    """Words that follow an image and words."""

    def forward(self, pixels: Tensor, tokens: Tensor, following: Tensor) -> Tensor:
        scores = self.model(input_ids=tokens, pixel_values=pixels).logits
        return F.cross_entropy(scores[:, -LENGTH:].flatten(0, 1), following[:, -LENGTH:].flatten())


class Fits(Around):
    """A number for each place of what the model gives first."""

    def forward(self, data: Tensor, wanted: Tensor) -> Tensor:
        given = self.model(data)
        return F.mse_loss(given[0].flatten(1)[:, : wanted.shape[1]], wanted)


class Finds(Around):
    """Boxes and classes of the queries of a detector."""

    def forward(self, pixels: Tensor, labels: Tensor, boxes: Tensor) -> Tensor:
        found = self.model(pixels)
        named = F.cross_entropy(found.logits.flatten(0, 1), labels.flatten())
        return named + F.l1_loss(found.pred_boxes, boxes)


class Towers(nn.Module):
    """CANDLE-Uno: towers of four layers, side by side, and a layer over what they give."""

    def __init__(self, width: int = 512) -> None:
        super().__init__()
        self.towers = nn.ModuleList(
            nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(width, width), nn.ReLU()))) for _ in range(7)
        )
        self.join = nn.Linear(7 * width, 1)

    def forward(self, genes: Tensor, a: Tensor, b: Tensor, c: Tensor, d: Tensor, e: Tensor, f: Tensor, wanted: Tensor) -> Tensor:
        given = [tower(x) for tower, x in zip(self.towers, (genes, a, b, c, d, e, f))]
        return F.mse_loss(self.join(torch.cat(given, 1)), wanted)


class UViT(nn.Module):
    """The later half of the blocks read what the earlier ones gave, the last of these first."""

    def __init__(self, width: int = 256, pairs: int = 4) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, 8, 8)
        self.down, self.middle = nn.ModuleList(Block(width) for _ in range(pairs)), Block(width)
        self.up = nn.ModuleList(Block(width) for _ in range(pairs))
        self.joins = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(pairs))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * 8 * 8)

    def forward(self, pixels: Tensor, wanted: Tensor) -> Tensor:
        x = self.embed(pixels).flatten(2).transpose(1, 2)
        given = []
        for block in self.down:
            x = block(x)
            given.append(x)
        x = self.middle(x)
        for block, join in zip(self.up, self.joins):
            x = block(join(torch.cat([x, given.pop()], 2)))
        return F.mse_loss(self.out(self.norm(x)), wanted)


def words(n: int, length: int = LENGTH) -> Tensor:
    return torch.randint(2, WORDS - 1, (n, length))


def reads(model: nn.Module, n: int, length: int = LENGTH) -> Made:
    return Words(model), {"tokens": words(n, length), "following": words(n, length)}


def tags(model: nn.Module, n: int, length: int = LENGTH) -> Made:
    return Scored(model), {"data": words(n, length), "labels": torch.randint(CLASSES, (n,))}


def images(model: nn.Module, n: int, side: int = SIDE) -> Made:
    return Scored(model), {"data": torch.randn(n, 3, side, side), "labels": torch.randint(CLASSES, (n,))}


def translates(model: nn.Module, n: int, length: int = LENGTH) -> Made:
    return Translates(model), {"data": words(n, length), "tokens": words(n, length), "following": words(n, length)}


def pairs(model: nn.Module, n: int, side: int = 32, length: int = LENGTH) -> Made:
    return Pairs(model), {"pixels": torch.randn(n, 3, side, side), "tokens": words(n, length)}


WIDE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TEXT = WIDE | {"vocab_size": WORDS, "max_position_embeddings": 32, "pad_token_id": 0}
BERT = TEXT | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "num_labels": CLASSES}
VISION = WIDE | {"image_size": 32, "patch_size": 8}
PICTURE = VISION | {"image_size": SIDE, "num_labels": CLASSES}
SEQ = {"vocab_size": WORDS, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
       "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "dropout": 0.0, "pad_token_id": 0,
       "bos_token_id": 1, "eos_token_id": WORDS - 1, "decoder_start_token_id": 1}  # fmt: skip
STILL = {"hidden_dropout": 0.0, "attention_dropout": 0.0}


def causal(config: Any, length: int = LENGTH) -> Callable[[int], Made]:
    return lambda n: reads(hf.AutoModelForCausalLM.from_config(config()), n, length)


def tagged(config: Any, length: int = LENGTH) -> Callable[[int], Made]:
    return lambda n: tags(hf.AutoModelForSequenceClassification.from_config(config()), n, length)


def seen(config: Any, side: int = SIDE) -> Callable[[int], Made]:
    return lambda n: images(hf.AutoModelForImageClassification.from_config(config()), n, side)


def drawn(name: str, side: int = SIDE, library: str = "timm", **sizes: Any) -> Callable[[int], Made]:
    """Of a library that is imported with the first of its models."""

    def make(n: int) -> Made:
        models = importlib.import_module(library)
        made = models.create_model if library == "timm" else models.get_model
        return images(made(name, num_classes=CLASSES, **sizes), n, side)

    return make


built = partial(drawn, library="torchvision.models")


def swin(*sizes: Any, side: int = SIDE) -> Callable[[int], Made]:
    def make(n: int) -> Made:
        models = importlib.import_module("torchvision.models")
        return images(models.SwinTransformer(*sizes, stochastic_depth_prob=0.0, num_classes=CLASSES), n, side)

    return make


def example(of: Example) -> Callable[[int], Made]:
    return lambda n: (of.make(), of.batch(n))


def whisper(n: int) -> Made:
    config = hf.WhisperConfig(**SEQ, num_mel_bins=8, max_source_positions=10, max_target_positions=LENGTH)
    model, inputs = translates(hf.WhisperForConditionalGeneration(config), n)
    return model, inputs | {"data": torch.randn(n, 8, 20)}


def llava(n: int) -> Made:
    vision = hf.CLIPVisionConfig(**VISION)
    config = hf.LlavaConfig(vision_config=vision, text_config=hf.LlamaConfig(**TEXT), image_token_index=1)
    model = hf.LlavaForConditionalGeneration(config)
    model.model.vision_tower.requires_grad_(False)
    tokens = torch.cat([torch.ones(n, 16, dtype=torch.int64), words(n)], 1)
    return Sees(model), {"pixels": torch.randn(n, 3, 32, 32), "tokens": tokens, "following": words(n)}


def blip(n: int) -> Made:
    text = {**TEXT, **STILL, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "encoder_hidden_size": 32}
    config = hf.BlipConfig(text_config=text, vision_config=VISION, projection_dim=16)
    tokens = {"pixels": torch.randn(n, 3, 32, 32), "tokens": words(n), "following": words(n)}
    return Sees(hf.BlipForConditionalGeneration(config)), tokens


def clip(n: int) -> Made:
    text = TEXT | {"eos_token_id": WORDS - 1}
    return pairs(hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config=VISION, projection_dim=16)), n)


def siglip(n: int) -> Made:
    return pairs(hf.SiglipModel(hf.SiglipConfig(text_config=TEXT, vision_config=VISION)), n)


def detr(n: int) -> Made:
    backbone = hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1],
                               out_features=["stage4"])  # fmt: skip
    sizes = {k: v for k, v in SEQ.items() if k != "vocab_size"} | {"num_queries": 5, "num_labels": CLASSES - 1}
    config = hf.DetrConfig(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None,
                           backbone_config=backbone, **sizes)  # fmt: skip
    inputs = {"pixels": torch.randn(n, 3, SIDE, SIDE), "labels": torch.randint(CLASSES, (n, 5)),
              "boxes": torch.rand(n, 5, 4)}  # fmt: skip
    return Finds(hf.DetrForObjectDetection(config)), inputs


def wav2vec(n: int) -> Made:
    config = hf.Wav2Vec2Config(**BERT, conv_dim=[16, 16], conv_kernel=[10, 3], conv_stride=[5, 2], feat_proj_dropout=0.0,
                               num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2, apply_spec_augment=False,
                               layerdrop=0.0, hidden_dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)  # fmt: skip
    return Fits(hf.Wav2Vec2Model(config)), {"data": torch.randn(n, 200), "wanted": torch.randn(n, 32)}


def segformer(n: int) -> Made:
    config = hf.SegformerConfig(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], num_attention_heads=[1, 2, 2, 4],
                                num_labels=CLASSES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                                classifier_dropout_prob=0.0, drop_path_rate=0.0)  # fmt: skip
    return images(hf.SegformerForImageClassification(config), n)


GPT2 = {"n_embd": 32, "n_head": 4, "n_layer": 2, "vocab_size": WORDS, "n_positions": 32, "resid_pdrop": 0.0,
        "embd_pdrop": 0.0, "attn_pdrop": 0.0}  # fmt: skip
MODELS: dict[str, Callable[[int], Made]] = {
    "hf gpt2": causal(lambda: hf.GPT2Config(**GPT2)),
    "hf llama": causal(lambda: hf.LlamaConfig(**TEXT, num_key_value_heads=2)),
    "hf mistral": causal(lambda: hf.MistralConfig(**TEXT, num_key_value_heads=2)),
    "hf qwen2": causal(lambda: hf.Qwen2Config(**TEXT, num_key_value_heads=2)),
    "hf qwen3": causal(lambda: hf.Qwen3Config(**TEXT, num_key_value_heads=2, head_dim=8)),
    "hf gemma": causal(lambda: hf.GemmaConfig(**TEXT, num_key_value_heads=1, head_dim=8)),
    "hf phi": causal(lambda: hf.PhiConfig(**TEXT)),
    "hf opt": causal(lambda: hf.OPTConfig(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, ffn_dim=64,
        num_attention_heads=4, max_position_embeddings=32, word_embed_proj_dim=32, dropout=0.0, pad_token_id=0)),
    "hf gpt-neox": causal(lambda: hf.GPTNeoXConfig(**TEXT | {"hidden_size": 64})),
    "hf bloom": causal(lambda: hf.BloomConfig(vocab_size=WORDS, hidden_size=32, n_layer=2, n_head=4, pad_token_id=0)),
    "hf mixtral": causal(lambda: hf.MixtralConfig(**TEXT, num_key_value_heads=2, num_local_experts=4)),
    "hf mamba": causal(lambda: hf.MambaConfig(vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, state_size=4)),
    "hf bert": tagged(lambda: hf.BertConfig(**BERT)),
    "hf roberta": tagged(lambda: hf.RobertaConfig(**BERT)),
    "hf distilbert": tagged(lambda: hf.DistilBertConfig(vocab_size=WORDS, dim=32, n_layers=2, n_heads=4, hidden_dim=64,
        max_position_embeddings=32, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0, num_labels=CLASSES)),
    "hf albert": tagged(lambda: hf.AlbertConfig(**BERT, embedding_size=16, classifier_dropout_prob=0.0)),
    "hf electra": tagged(lambda: hf.ElectraConfig(**BERT, embedding_size=16)),
    "hf deberta-v2": tagged(lambda: hf.DebertaV2Config(**BERT, relative_attention=True, pos_att_type=["p2c", "c2p"],
        pooler_dropout=0.0, pooler_hidden_size=32)),
    "hf t5": lambda n: translates(hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=WORDS, d_model=32, d_kv=8,
        d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0, decoder_start_token_id=0)), n),
    "hf bart": lambda n: translates(hf.BartForConditionalGeneration(hf.BartConfig(**SEQ,
        max_position_embeddings=32)), n),
    "hf whisper": whisper,
    "hf wav2vec2": wav2vec,
    "hf vit": seen(lambda: hf.ViTConfig(**PICTURE)),
    "hf deit": lambda n: images(hf.DeiTForImageClassification(hf.DeiTConfig(**PICTURE)), n),
    "hf beit": seen(lambda: hf.BeitConfig(**PICTURE, drop_path_rate=0.0)),
    "hf dinov2": seen(lambda: hf.Dinov2Config(**PICTURE)),
    "hf convnext": seen(lambda: hf.ConvNextConfig(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 32], num_labels=CLASSES)),
    "hf resnet": seen(lambda: hf.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1],
        num_labels=CLASSES)),
    "hf segformer": segformer,
    "hf clip": clip,
    "hf siglip": siglip,
    "hf llava": llava,
    "hf blip": blip,
    "hf detr": detr,
    "timm vit": drawn("vit_tiny_patch16_224", img_size=SIDE, embed_dim=32, depth=2, num_heads=4),
    "timm mixer": drawn("mixer_s32_224", img_size=SIDE),
    "timm convnext": drawn("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 16, 16, 32)),
    "timm swin": drawn("swin_tiny_patch4_window7_224", img_size=56, embed_dim=16, depths=(2, 2), num_heads=(2, 4), drop_path_rate=0.0,
        side=56),
    "timm efficientnet": drawn("efficientnet_lite0", drop_rate=0.0),
    "timm regnet": drawn("regnetx_002"),
    "timm mobilenetv3": drawn("mobilenetv3_small_050", drop_rate=0.0),
    "timm resnet18d": drawn("resnet18d"),
    "timm deit3": drawn("deit3_small_patch16_224", img_size=SIDE, embed_dim=32, depth=2, num_heads=4),
    "timm coat": drawn("coat_lite_tiny", img_size=SIDE),
    "torchvision resnet18": built("resnet18"),
    "torchvision mnasnet": built("mnasnet0_5", dropout=0.0),
    "torchvision densenet121": built("densenet121"),
    "torchvision mobilenet_v2": built("mobilenet_v2", dropout=0.0),
    "torchvision squeezenet": built("squeezenet1_1", dropout=0.0),
    "torchvision shufflenet": built("shufflenet_v2_x0_5"),
    "torchvision swin_t": swin([4, 4], 16, [2, 2], [2, 2], [4, 4]),
    "torchvision efficientnet_b0": built("efficientnet_b0", dropout=0.0, stochastic_depth_prob=0.0),
    **{f"example {name}": example(of) for name, of in EXAMPLES.items()},
}  # fmt: skip

# most of whose time is in operators of more than 1 ms on a core
LONG = 64
BROAD = {"hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 2048}
TEXTS = BROAD | {"vocab_size": 4096, "max_position_embeddings": LONG, "pad_token_id": 0}
SLIM = {"hidden_size": 256, "num_attention_heads": 8, "intermediate_size": 1024}
SEEN = BROAD | {"image_size": 160, "patch_size": 16}
LARGE: dict[str, Callable[[int], Made]] = {
    "hf gpt2, 512 wide": causal(lambda: hf.GPT2Config(**GPT2 | {"n_embd": 512, "n_head": 8, "n_layer": 4,
        "n_positions": LONG, "vocab_size": 4096, "bos_token_id": 1, "eos_token_id": 1}), LONG),
    "hf llama, 512 wide": causal(lambda: hf.LlamaConfig(**TEXTS, num_key_value_heads=4), LONG),
    "hf bert, 512 wide": tagged(lambda: hf.BertConfig(**BERT | TEXTS), LONG),
    "hf t5, 512 wide": lambda n: translates(hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=4096, d_model=512,
        d_kv=64, d_ff=2048, num_layers=3, num_heads=8, dropout_rate=0.0, decoder_start_token_id=0)), n, LONG),
    "hf vit, 512 wide": seen(lambda: hf.ViTConfig(**SEEN, num_labels=CLASSES), 160),
    "hf clip, 512 wide": lambda n: pairs(hf.CLIPModel(hf.CLIPConfig(text_config=TEXTS | {"eos_token_id": WORDS - 1},
        vision_config=SEEN, projection_dim=128)), n, 160, LONG),
    "timm mixer s16": drawn("mixer_s16_224", 224),
    "timm convnext nano": drawn("convnext_nano", 128),
    "torchvision resnet18, 128": built("resnet18", 128),
    "torchvision swin_t, 96 wide": swin([4, 4], 96, [2, 2, 4], [3, 6, 12], [7, 7], side=112),
}  # fmt: skip


# of graphs/studies/, narrow
STUDIED: dict[str, Callable[[int], Made]] = {
    "llava, 256 wide": lambda n: (published.llava(4, published.EYE | SLIM | {"image_size": 112}, published.TONGUE | SLIM |
        {"num_key_value_heads": 8, "vocab_size": 1024}), published.seen(n, 112, LONG, 1024)),
    "u_vit, 256 wide": lambda n: (UViT(), {"pixels": torch.randn(n, 3, 64, 64), "wanted": torch.randn(n, 64, 192)}),
    "candle_uno, 512 wide": lambda n: (Towers(), {name: torch.randn(16 * n, 512) for name in ("genes", *"abcdef")} |
        {"wanted": torch.randn(16 * n, 1)}),
}  # fmt: skip


def made(name: str, samples: int) -> Made:
    """The same weights and data each time."""
    torch.manual_seed(1)
    model, inputs = (MODELS | LARGE | STUDIED)[name](samples)
    return model.train(), inputs


def known(names: list[str]) -> list[str]:
    """These; the first that there is not is refused."""
    for name in names:
        if name not in MODELS | LARGE | STUDIED:
            raise SystemExit(f"{name}: no model of that name: {', '.join(MODELS | LARGE | STUDIED)}")
    return names
