"""Small models in plain PyTorch, as people write them."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from models import Block
from torch import Tensor, nn


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.LayerNorm(48))
        self.trunk = nn.Sequential(nn.Linear(48, 32), nn.GELU(), nn.Linear(32, 10))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.trunk(self.encoder(x)), y)


class GPT(nn.Module):
    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(17, 32), nn.Embedding(24, 32)
        self.h = nn.ModuleList(Block(32, 4, True, 2) for _ in range(2))
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 17, bias=False)
        if tied:
            self.head.weight = self.wte.weight

    def scores(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        return self.head(self.norm(x))

    def forward(self, tokens: Tensor, following: Tensor) -> Tensor:
        return F.cross_entropy(self.scores(tokens).flatten(0, 1), following.flatten())


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


class Does(nn.Module):
    """Three linear layers, and what is done with them."""

    def __init__(self, what: Callable[..., Any]) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(8, 8) for _ in range(3))
        self.what = what

    def forward(self, x: Tensor) -> Any:
        return self.what(self, x)


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
