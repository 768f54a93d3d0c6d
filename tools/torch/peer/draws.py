"""Random numbers as Orrery defines them: the order of rows and what dropout drops. Words of 64 bits
are int64 tensors, which wrap around."""

import torch
from torch import Tensor


def signed(x: int) -> int:
    return (x + (1 << 63)) % (1 << 64) - (1 << 63)


GOLDEN = signed(0x9E3779B97F4A7C15)
LOW = (1 << 32) - 1


def shifted(x: Tensor, n: int) -> Tensor:
    return (x >> n) & ((1 << (64 - n)) - 1)


def mix(x: Tensor) -> Tensor:
    """The finalizer of splitmix64."""
    x = (x ^ shifted(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shifted(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ shifted(x, 31)


def permutation(n: int, seed: int, epoch: int) -> Tensor:
    """Of [0, n), as permute() in src/model/dataset.c defines it."""
    key = mix(torch.tensor(signed(seed)) + GOLDEN) ^ epoch
    bits = max(2, (n - 1).bit_length())
    keys = []
    for _ in range(16):
        key = mix(key + GOLDEN)
        keys.append(key)
    x, outside = torch.arange(n), torch.ones(n, dtype=torch.bool)
    while outside.any():
        left, right = bits // 2, bits - bits // 2
        y = x
        for key in keys:
            low, high = y & ((1 << right) - 1), y >> right
            high = high ^ shifted(mix(low + key), 64 - left)
            y = low << left | high
            left, right = right, left
        x = torch.where(outside, y, x)
        outside = x >= n
    return x


def scrambled(x: Tensor) -> Tensor:
    x = ((x ^ x >> 16) * 0x7FEB352D) & LOW
    x = ((x ^ x >> 15) * 0x846CA68B) & LOW
    return x ^ x >> 16


def kept(seed: int, number: int, samples: Tensor, count: int, rate: float) -> Tensor:
    """Of count elements of each sample: those that dropout keeps, as orr_dropped() does."""
    key = mix(torch.tensor(signed(seed)) + GOLDEN)
    key = mix(key + number + GOLDEN)
    key = mix(key + samples + GOLDEN)[:, None]
    a, b = key & LOW, shifted(key, 32)
    return scrambled(scrambled((torch.arange(count) + a) & LOW) ^ b) >= int(rate * 2**32)
