"""When jobs ran: on the device of the model, and by one clock for all processes."""

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

ROUNDS = 10  # meetings by which clocks are compared


class Stopwatch:
    """Marks within a step, as seconds of this process's clock. On a CUDA device a mark is an event
    of its stream, so that nobody waits for the device before the step is over."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def begin(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
            self.first = self.mark()
        self.start = time.perf_counter()

    def mark(self) -> Any:
        if self.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event

    def seconds(self, marks: list[Any]) -> list[float]:
        if self.device.type != "cuda":
            return marks
        torch.cuda.synchronize(self.device)
        return [self.start + self.first.elapsed_time(mark) / 1e3 for mark in marks]


def between(bounds: list[tuple[float, float]]) -> float:
    """A number within all of these: 0 where it is, as on one machine; else the middle."""
    low, high = max(b for b, _ in bounds), min(b for _, b in bounds)
    return 0.0 if low <= 0 <= high else (low + high) / 2


def gathered(mine: list[float], most: int, device: torch.device) -> list[list[float]]:
    """The numbers of every process, up to `most` and filled up with 0; pickled objects, which
    torch.distributed would gather, ask for NumPy."""
    padded = torch.zeros(most, dtype=torch.float64, device=device)
    padded[: len(mine)] = torch.tensor(mine, dtype=torch.float64)
    told = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
    dist.all_gather(told, padded)
    return [t.tolist() for t in told]


def offset(meet: Callable[[], None], device: torch.device) -> float:
    """What to add to this process's clock for that of process 0. Nobody leaves a meeting before all
    have come, so each is a bound to either side."""
    came, left = [], []
    for _ in range(ROUNDS):
        came.append(time.perf_counter())
        meet()
        left.append(time.perf_counter())
    first = gathered([*came, *left], 2 * ROUNDS, device)[0]
    bounds = zip(first[:ROUNDS], first[ROUNDS:], came, left)
    return between([(a - d, b - c) for a, b, c, d in bounds])
