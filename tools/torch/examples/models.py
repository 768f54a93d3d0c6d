"""Five models in plain PyTorch, small and with random weights: what forward() gives is the loss."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, VOCABULARY, CLASSES = 64, 4, 97, 10
SAMPLES = 4  # of a microbatch


class Block(nn.Module):
    """A transformer's block that normalises first; queries, keys and values are one product."""

    def __init__(
        self, width: int = WIDTH, heads: int = HEADS, causal: bool = False, hidden: int = 4
    ) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.qkv = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.out, self.norm2 = nn.Linear(width, width), nn.LayerNorm(width)
        layers = nn.Linear(width, hidden * width), nn.GELU(), nn.Linear(hidden * width, width)
        self.mlp = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, dim=2)
        q, k, v = (p.view(n, t, self.heads, -1).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, c))
        return x + self.mlp(self.norm2(x))


class Patches(nn.Module):
    """An image of 32 x 32 as 16 tokens with positions, through blocks."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, WIDTH, kernel_size=8, stride=8)
        self.places = nn.Parameter(0.02 * torch.randn(16, WIDTH))
        self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, image: Tensor) -> Tensor:
        x = self.embed(image).flatten(2).transpose(1, 2) + self.places
        return self.norm(self.blocks(x)).mean(dim=1)


class Words(nn.Module):
    """Tokens with positions, through causal blocks."""

    def __init__(self, layers: int, length: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(length, WIDTH)
        self.blocks = nn.Sequential(*(Block(causal=True) for _ in range(layers)))
        self.norm = nn.LayerNorm(WIDTH)
        for table in (self.embed, self.places):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        places = self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.norm(self.blocks(self.embed(tokens) + places))


class CLIP(nn.Module):
    """Two towers side by side, the text's deep and frozen, in the contrastive loss over the batch."""

    def __init__(self, layers: int = 4, text_layers: int = 12, frozen: bool = True) -> None:
        super().__init__()
        self.image, self.text = Patches(layers), Words(text_layers, 16)
        self.image_out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.text_out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.temperature = nn.Parameter(torch.tensor(2.659))
        self.text.requires_grad_(not frozen)

    def forward(self, image: Tensor, text: Tensor) -> Tensor:
        a = F.normalize(self.image_out(self.image(image)), dim=-1)
        b = F.normalize(self.text_out(self.text(text)[:, -1]), dim=-1)
        scores = a @ b.t() * self.temperature.exp()
        pairs = torch.arange(len(scores), device=scores.device)
        return (F.cross_entropy(scores, pairs) + F.cross_entropy(scores.t(), pairs)) / 2


class ViT(nn.Module):
    def __init__(self, layers: int = 6) -> None:
        super().__init__()
        self.image, self.head = Patches(layers), nn.Linear(WIDTH, CLASSES)

    def forward(self, image: Tensor, label: Tensor) -> Tensor:
        return F.cross_entropy(self.head(self.image(image)), label)


class GPT2(nn.Module):
    """Its output layer is its embedding."""

    def __init__(self, layers: int = 6) -> None:
        super().__init__()
        self.text, self.head = Words(layers, 32), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.text.embed.weight

    def forward(self, tokens: Tensor, following: Tensor) -> Tensor:
        scores = self.head(self.text(tokens))
        return F.cross_entropy(scores.flatten(0, 1), following.flatten())


class EncoderDecoder(nn.Module):
    """PyTorch's own layers: every one of the decoder reads the encoder, which is a skip over all
    stages between them."""

    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        options = {"dropout": 0.0, "batch_first": True, "norm_first": True, "activation": "gelu"}
        size = (WIDTH, HEADS, 4 * WIDTH)
        self.source, self.target = (nn.Embedding(VOCABULARY, WIDTH) for _ in range(2))
        self.places = nn.Parameter(0.02 * torch.randn(16, WIDTH))
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(*size, **options) for _ in range(layers)
        )
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(*size, **options) for _ in range(layers)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, source: Tensor, target: Tensor, following: Tensor) -> Tensor:
        x, y = self.source(source) + self.places, self.target(target) + self.places
        mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1], device=y.device)
        for encode in self.encoder:
            x = encode(x)
        for decode in self.decoder:
            y = decode(y, x, tgt_mask=mask, tgt_is_causal=True)
        return F.cross_entropy(self.head(y).transpose(1, 2), following)


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        return self.relu(x + y)


class ResNet(nn.Module):
    def __init__(self, blocks: int = 4, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.pool, self.head = nn.MaxPool2d(2), nn.Linear(width, CLASSES)
        self.blocks = nn.Sequential(*(Residual(width) for _ in range(blocks)))

    def forward(self, image: Tensor, label: Tensor) -> Tensor:
        x = self.blocks(self.pool(self.stem(image)))
        return F.cross_entropy(self.head(F.adaptive_avg_pool2d(x, 1).flatten(1)), label)


# ---- and data, drawn from one seed ----


def images(n: int, g: torch.Generator) -> Tensor:
    return torch.randn(n, 3, 32, 32, generator=g)


def labels(n: int, g: torch.Generator) -> Tensor:
    return torch.randint(CLASSES, (n,), generator=g)


def text(length: int) -> Callable[[int, torch.Generator], Tensor]:
    return lambda n, g: torch.randint(VOCABULARY, (n, length), generator=g)


@dataclass
class Example:
    make: Callable[[], nn.Module]
    data: dict[str, Callable[[int, torch.Generator], Tensor]]  # by the names of forward()

    def model(self, seed: int = 1) -> nn.Module:
        torch.manual_seed(seed)
        return self.make()

    def batch(self, n: int, seed: int = 1) -> dict[str, Tensor]:
        g = torch.Generator().manual_seed(seed)
        return {name: draw(n, g) for name, draw in self.data.items()}


EXAMPLES = {
    "clip": Example(CLIP, {"image": images, "text": text(16)}),
    "vit": Example(ViT, {"image": images, "label": labels}),
    "gpt2": Example(GPT2, {"tokens": text(32), "following": text(32)}),
    "encoder-decoder": Example(
        EncoderDecoder, {"source": text(16), "target": text(16), "following": text(16)}
    ),
    "resnet": Example(ResNet, {"image": images, "label": labels}),
}
