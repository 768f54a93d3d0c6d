"""Small models in plain PyTorch, as people write them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.LayerNorm(48))
        self.trunk = nn.Sequential(nn.Linear(48, 32), nn.GELU(), nn.Linear(32, 10))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.trunk(self.encoder(x)), y)


class Block(nn.Module):
    """Pre-norm, with queries, keys and values of one linear."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def attend(self, x: Tensor) -> Tensor:
        n, t, c = x.shape
        q, k, v = (
            y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, t, c))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(17, 32), nn.Embedding(24, 32)
        self.h = nn.ModuleList(Block(32, 4) for _ in range(2))
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 17, bias=False)
        if tied:
            self.head.weight = self.wte.weight

    def forward(self, tokens: Tensor, following: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        scores = self.head(self.norm(x))
        return F.cross_entropy(scores.flatten(0, 1), following.flatten())


class Towers(nn.Module):
    """Two towers of one encoder's parameters, the third frozen, and a changed-in-place activation."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 24), nn.ReLU(inplace=True), nn.Linear(24, 8))
        self.fixed = nn.Sequential(nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 8))
        self.fixed.requires_grad_(False)
        self.norm = nn.BatchNorm1d(24)
        self.head = nn.Linear(24, 4)

    def forward(self, a: Tensor, b: Tensor, c: Tensor, y: Tensor) -> Tensor:
        x = torch.cat([self.encoder(a), self.encoder(b), self.fixed(c)], dim=1)
        return F.mse_loss(self.head(self.norm(x)), y)


class Batch:
    def __init__(self, x: Tensor) -> None:
        self.x = x


class OfObjects(nn.Module):
    """What torch.export refuses: it reads an object of the user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, batch: Batch) -> Tensor:
        return self.fc(batch.x).relu().sum()


def tokens(n: int = 6, t: int = 24) -> tuple[Tensor, Tensor]:
    both = torch.randint(17, (n, t + 1), generator=torch.Generator().manual_seed(1))
    return both[:, :-1].contiguous(), both[:, 1:].contiguous()


def digits(n: int = 6) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(2)
    return torch.randn(n, 64, generator=g), torch.randint(10, (n,), generator=g)


def towers(n: int = 6) -> tuple[Tensor, ...]:
    g = torch.Generator().manual_seed(3)
    return (*(torch.randn(n, 16, generator=g) for _ in range(3)), torch.randn(n, 4, generator=g))
