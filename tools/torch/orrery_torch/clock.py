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


def offset(meet: Callable[[], None]) -> float:
    """What to add to this process's clock for that of process 0. Nobody leaves a meeting before all
    have come, so each is a bound to either side."""
    times = []
    for _ in range(ROUNDS):
        before = time.perf_counter()
        meet()
        times.append((before, time.perf_counter()))
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, times)
    return between([(a - d, b - c) for (a, b), (c, d) in zip(told[0], times)])
