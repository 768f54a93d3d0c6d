"""What a job of a Runner takes beside its operators, with the messages that it reads and sends:
measured by two processes that run a model of next to nothing over gloo."""

import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..run.runner import Runner
from ..trace.trace import say

FEW, MANY = 4, 24  # microbatches
STEPS = 40
PATIENCE = 300  # seconds


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x)).sum()


def planned(stages: list[list[str]], orders: list[list[str]], m: int) -> dict[str, Any]:
    return {
        "stages": [{"operators": names} for names in stages],
        "worker": [{"order": order} for order in orders],
        "microbatches": m,
    }


def whole(m: int) -> dict[str, Any]:
    """All on one of two workers."""
    order = [f"0{d}{b}" for b in range(m) for d in "FB"]
    return planned([["a", "b", "sum"]], [order, []], m)


def twice(m: int) -> dict[str, Any]:
    """The same, in two stages."""
    order = [job + str(b) for b in range(m) for job in ("0F", "1F", "1B", "0B")]
    return planned([["a"], ["b", "sum"]], [order, []], m)


def halves(m: int) -> dict[str, Any]:
    """A stage each, under 1F1B."""
    steady = [job for b in range(1, m) for job in (f"0F{b}", f"0B{b - 1}")]
    last = [f"1{d}{b}" for b in range(m) for d in "FB"]
    return planned([["a"], ["b", "sum"]], [["0F0", *steady, f"0B{m - 1}"], last], m)


def taken(plan: dict[str, Any]) -> float:
    """By a step, of the processor. A busy machine makes some dearer, none cheaper."""
    m = plan["microbatches"]
    runner, batch = Runner(plan, Two(), (torch.ones(1, 8),)), (torch.ones(m, 8),)
    busy = []
    for _ in range(STEPS):
        start = time.process_time()
        runner.step(batch)
        busy.append(time.process_time() - start)
    both = torch.tensor(statistics.quantiles(busy, n=4)[0])
    dist.all_reduce(both)
    return both.item()


def measured() -> float:
    """A microbatch is two jobs, or four, or four with a message for each: a job without and one with its message."""
    two, four, sent = (
        (taken(plan(MANY)) - taken(plan(FEW))) / (MANY - FEW) for plan in (whole, twice, halves)
    )
    jobs = four - two  # two of them
    return max((sent - two + jobs) / 4, 0.0)


@functools.cache
def price() -> float:
    """Seconds of the processor; measured once, by processes of their own, since this one may be a
    program without a main()."""
    package = str(Path(__file__).parent.parent.parent)
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-W", "ignore", "-m", "orrery_torch.costs.price", folder]
        both = [
            subprocess.Popen(
                [*words, str(rank)],
                env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        try:
            (told, said), _ = [each.communicate(timeout=PATIENCE) for each in both]
            why = "" if told else (said.strip() or "it ended without a word").splitlines()[-1]
        except subprocess.TimeoutExpired:
            why = f"it took more than {PATIENCE} s"
        finally:
            for each in both:
                each.kill()
                each.wait()
    if why:
        say(f"what a job takes could not be measured: {why}: it counts as nothing, or give overhead=")
    return 0.0 if why else float(told)


def main() -> None:
    folder, rank = sys.argv[1:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/meet", rank=int(rank), world_size=2)
    found = measured()
    if dist.get_rank() == 0:
        print(found)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
