"""Models as people write them without PyTorch's modules: masks, softmax and norms by hand."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, LENGTH, VOCABULARY = 16, 4, 12, 17


def by_heads(x: Tensor, heads: int = HEADS) -> Tensor:
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


def together(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().view(x.shape[0], x.shape[2], -1)


class ClassToken(nn.Module):
    """A parameter before the patches of an image, and a factor for each column."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.places = nn.Parameter(torch.randn(1, 5, WIDTH))
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.0, batch_first=True)
        self.gamma, self.head = nn.Parameter(torch.ones(WIDTH)), nn.Linear(WIDTH, 10)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.places
        return F.cross_entropy(self.head((x + self.gamma * self.layer(x))[:, 0]), y)


class GPT2(nn.Module):
    """Weights as inputs x outputs, a triangle in a buffer, the tanh form of gelu spelt out, labels
    that the loss shifts, and the table of words as the last product."""

    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.qkv, self.offset = (
            nn.Parameter(0.2 * torch.randn(16, 48)),
            nn.Parameter(torch.zeros(48)),
        )
        self.out, self.wide = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.last, self.drop = nn.Parameter(torch.zeros(VOCABULARY)), nn.Dropout(0.0)
        self.register_buffer("triangle", torch.tril(torch.ones(LENGTH, LENGTH))[None, None])
        self.register_buffer("position_ids", torch.arange(LENGTH)[None])

    def forward(self, x: Tensor) -> Tensor:
        n, t = x.shape
        labels = F.pad(x, (0, 1), value=-100)[:, 1:].contiguous()
        x = self.wte(x) + self.wpe(self.position_ids[:, :t])
        q, k, v = torch.addmm(self.offset, x.view(-1, 16), self.qkv).view(n, t, 48).split(16, dim=2)
        scores = (by_heads(q) @ by_heads(k).transpose(-2, -1)) * (1.0 / math.sqrt(4))
        scores = scores.masked_fill(self.triangle[:, :, :t, :t] == 0, float("-inf"))
        x = x + self.out(together(self.drop(F.softmax(scores, dim=-1)) @ by_heads(v)))
        g = self.wide(x)
        root = math.sqrt(2.0 / math.pi)
        x = x + 0.5 * g * (1.0 + torch.tanh(root * (g + 0.044715 * torch.pow(g, 3.0))))
        scores = x @ self.wte.weight.t() + self.last
        return F.cross_entropy(scores.view(-1, VOCABULARY), labels.view(-1))


class Llama(nn.Module):
    """Rotary positions, an rms norm, silu, and keys and values for two heads each, all by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.gain = nn.Embedding(VOCABULARY, WIDTH), nn.Parameter(torch.ones(WIDTH))
        self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.norm = nn.LayerNorm(WIDTH, bias=False)

    @staticmethod
    def turned(x: Tensor) -> Tensor:
        rates = 1.0 / 100.0 ** (torch.arange(0, x.shape[3], 2).float() / x.shape[3])
        angles = torch.arange(x.shape[2]).float()[:, None] * rates
        angles = torch.cat([angles, angles], dim=-1)
        half = x.shape[3] // 2
        other = torch.cat([-x[..., half:], x[..., :half]], dim=-1)
        return x * angles.cos() + other * angles.sin()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x = self.embed(x)
        n, t, _ = x.shape
        normed = self.gain * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-4))
        q, k = self.turned(by_heads(self.q(normed))), self.kv(normed)
        k, v = by_heads(k[..., :8], 2), by_heads(k[..., 8:], 2)
        k, v = (
            p[:, :, None].expand(n, 2, 2, t, 4).reshape(n, 4, t, 4) for p in (self.turned(k), v)
        )
        lower = torch.full((t, t), float("-inf")).triu(1)
        x = x + together(torch.softmax(q @ k.mT / 2 + lower, dim=-1) @ v)
        gate = self.gate(x)
        x = x + gate * torch.sigmoid(gate)
        x = F.rms_norm(F.layer_norm(self.norm(x), (WIDTH,)), (WIDTH,))
        return F.cross_entropy(self.head(x).transpose(1, 2), y)


class Padded(nn.Module):
    """Of each sample the first so many keys count."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.embed, self.kinds = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(2, WIDTH)
        self.mix, self.head = nn.MultiheadAttention(WIDTH, 2, batch_first=True), nn.Linear(16, 5)

    def forward(self, x: Tensor, lengths: Tensor, y: Tensor) -> Tensor:
        x, t = self.embed(x) + self.kinds(torch.zeros_like(x)), x.shape[1]
        there = torch.arange(t) < lengths[:, None]
        if self.how == "module":
            z, _ = self.mix(x, x, x, key_padding_mask=~there, need_weights=False)
        elif self.how == "products":
            z, _ = self.mix(x, x, x, key_padding_mask=~there)
        else:
            q, k = by_heads(x, 2), by_heads(self.mix.out_proj(x), 2)
            mask = there[:, None, None, :]
            if self.how == "call":
                z = together(F.scaled_dot_product_attention(q, k, q, attn_mask=mask))
            else:
                scores = q @ k.mT / 8**0.5 + (1.0 - mask.float()) * torch.finfo(x.dtype).min
                earlier = torch.ones(t, t, dtype=torch.bool).tril()
                scores = torch.where(earlier, scores, -1e9)
                z = together(scores.softmax(-1) @ q)
        return F.cross_entropy(self.head((x + z)[:, 0]), y)


class Ignored(nn.Module):
    """Of each sample the mean over the rows whose class counts, by two ways to say so."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        scores = self.head(self.embed(x)).transpose(1, 2)
        each = F.cross_entropy(scores, y, ignore_index=0, reduction="none")
        first = (each.sum(1) / (y != 0).sum(1).clamp(min=1)).mean()
        there = (y != 2).float()
        each = F.cross_entropy(scores, y, reduction="none", label_smoothing=0.1) * there
        return first + 0.5 * (each.sum(1) / there.sum(1).clamp(min=1)).mean()
