#!/usr/bin/env python3
"""An example under a plan, a process a worker, beside the same model in one piece: the loss of each
step, and how far it and the gradients are from those. Exit code 1: by more than 1e-6.
Usage: torchrun --nproc-per-node N run.py NAME PLAN.json [TIMELINE.json], which is that of the step
of median makespan, for `orrery simulate --measured`."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import orrery_torch
import torch
import torch.distributed as dist
from models import EXAMPLES, SAMPLES
from orrery_torch.run.runner import cut
from orrery_torch.trace.trace import Inputs, words
from torch import nn

STEPS, RATE, BOUND = 10, 0.1, 1e-6


def whole_step(model: nn.Module, batch: Inputs, m: int) -> float:
    """The mean loss of the microbatches, and its gradients, without a pipeline."""
    total = 0.0
    for part in cut(batch, m):
        args, kwargs = words(part)
        made = model(*args, **kwargs)
        loss = (sum(made) if isinstance(made, tuple) else made) / m
        loss.backward()
        total += loss.item()
    return total


def gradients_apart(mine: list[nn.Parameter], model: nn.Module, whole: nn.Module) -> float:
    """The largest difference of a gradient of this process, over the largest of all gradients."""
    own, worst = {id(p) for p in mine}, 0.0
    sizes = (q.grad.abs().max().item() for q in whole.parameters() if q.grad is not None)
    size = max(sizes, default=0.0) or 1.0
    for p, q in zip(model.parameters(), whole.parameters(), strict=True):
        if id(p) in own and q.grad is not None:
            given = torch.zeros_like(q) if p.grad is None else p.grad
            worst = max(worst, (given - q.grad).abs().max().item() / size)
    return worst


def makespan(timeline: dict[str, Any]) -> float:
    return max(end for worker in timeline["worker"] for end in worker["end"])


def main() -> int:
    name, plan, *more = sys.argv[1:]
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    m = json.loads(Path(plan).read_text())["microbatches"]
    example = EXAMPLES[name]
    model, whole = example.model(), example.model()
    runner = orrery_torch.Runner(plan, model, example.batch(SAMPLES))
    worst, timelines = 0.0, []
    for step in range(STEPS):
        batch = example.batch(SAMPLES * m, seed=step)
        busy = time.process_time()
        loss = runner.step(batch)
        work = torch.tensor(time.process_time() - busy)
        expected = whole_step(whole, batch, m)
        timelines.append(runner.measured())
        dist.all_reduce(work)
        slope = gradients_apart(runner.parameters(), model, whole)
        difference = torch.tensor([slope, abs(loss - expected)])
        dist.all_reduce(difference, dist.ReduceOp.MAX)
        worst = max(worst, difference.max().item())
        if dist.get_rank() == 0:
            print(
                f"step {step}: loss {loss:.6f}, {difference[1]:.1e} off, "
                f"gradients {difference[0]:.1e}, {1e3 * makespan(timelines[-1]):.2f} ms, "
                f"of all cores {1e3 * work:.2f} ms"
            )
        for p in [*model.parameters(), *whole.parameters()]:
            if p.grad is not None:
                p.data -= RATE * p.grad
                p.grad = None
    if more and dist.get_rank() == 0:
        ordinary = sorted(timelines[1:], key=makespan)[(STEPS - 1) // 2]  # the first one warms up
        Path(more[0]).write_text(json.dumps(ordinary))
    dist.destroy_process_group()
    return int(worst > BOUND)


if __name__ == "__main__":
    sys.exit(main())
