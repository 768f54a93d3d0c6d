#!/usr/bin/env python3
"""Models of torchvision, timm and transformers, small and with random weights, measured and planned
for 2 workers: into how many stages `orrery plan --straight --makespan` cuts them where a job takes
what its operators do and no more, and with what it takes beside; each as simulated, and as run by
two processes in turn. Usage: cuts.py [NAME...]"""

import statistics
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from json import loads
from pathlib import Path
from typing import Any

import orrery_torch
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from orrery_torch import command
from orrery_torch.runner import cut
from torch import Tensor, nn

WORKERS, M, SAMPLES, STEPS = 2, 8, 2, 7


class UNet(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        sizes = [(3, width), (width, 2 * width), (2 * width, 4 * width)]
        self.down = nn.ModuleList(self.block(a, b) for a, b in sizes)
        self.up = nn.ModuleList(self.block(a + b, a) for a, b in sizes[1:])
        self.head = nn.Conv2d(width, 1, 1)

    @staticmethod
    def block(a: int, b: int) -> nn.Module:
        first, second = nn.Conv2d(a, b, 3, padding=1), nn.Conv2d(b, b, 3, padding=1)
        return nn.Sequential(first, nn.GroupNorm(4, b), nn.ReLU(), second, nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for i in (1, 0):
            x = self.up[i](torch.cat([kept[i], F.interpolate(x, scale_factor=2)], dim=1))
        return self.head(x)


def torchvision(name: str) -> nn.Module:
    import torchvision.models

    return getattr(torchvision.models, name)(num_classes=10)


def timm(name: str, **options: Any) -> nn.Module:
    import timm

    return timm.create_model(name, num_classes=10, **options)


def transformers(kind: str, **options: Any) -> nn.Module:
    import transformers

    options |= {"vocab_size": 97, "hidden_size": 64, "intermediate_size": 256}
    options |= {"num_hidden_layers": 4, "num_attention_heads": 4, "return_dict": False}
    config = getattr(transformers, kind + "Config")(**options)
    return getattr(transformers, kind + "Model")(config)


def image(n: int) -> Tensor:
    return torch.randn(n, 3, 64, 64, generator=torch.Generator().manual_seed(1))


def tokens(n: int) -> Tensor:
    return torch.randint(97, (n, 32), generator=torch.Generator().manual_seed(1))


SWIN = {
    "img_size": 64,
    "window_size": 4,
    "embed_dim": 24,
    "depths": (2, 2, 2),
    "num_heads": (2, 4, 8),
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], Tensor]]] = {
    "unet": (UNet, image),
    "resnet18": (lambda: torchvision("resnet18"), image),
    "mobilenet_v3": (lambda: torchvision("mobilenet_v3_small"), image),
    "squeezenet": (lambda: torchvision("squeezenet1_1"), image),
    "swin": (lambda: timm("swin_tiny_patch4_window7_224", **SWIN), image),
    "mixer": (lambda: timm("mixer_s32_224", img_size=64), image),
    "efficientnet": (lambda: timm("efficientnet_lite0"), image),
    "bert": (lambda: transformers("Bert", **NO_DROPOUT), tokens),
    "qwen2": (lambda: transformers("Qwen2", num_key_value_heads=2, use_cache=False), tokens),
}


class Trained(nn.Module):
    """A model that gives a loss."""

    def __init__(self, name: str) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.net = MODELS[name][0]()

    def forward(self, x: Tensor) -> Tensor:
        y = self.net(x)
        return (y[0] if isinstance(y, tuple) else y).square().mean()


def worker(rank: int, folder: str, name: str, plans: list[str]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=WORKERS)
    model, batch = Trained(name), (MODELS[name][1](SAMPLES * M),)
    runners = [orrery_torch.Runner(plan, model, cut(batch, M)[0]) for plan in plans]
    took: list[list[float]] = [[] for _ in runners]
    for _ in range(STEPS):  # in turn, since a machine may be busy for a while
        for times, runner in zip(took, runners):
            runner.step(batch)
            times.append(max(end for w in runner.measured()["worker"] for end in w["end"]))
    if rank == 0:
        told = (f"{min(times[1:])} {statistics.median(times[1:])}" for times in took)
        Path(folder, "took").write_text("\n".join(told))
    dist.destroy_process_group()


def row(name: str, folder: Path) -> None:
    graph = orrery_torch.graph(Trained(name), (MODELS[name][1](SAMPLES),))
    dot = graph.write(folder / "model.dot")
    free = replace(graph, overhead=0.0).write(folder / "free.dot")
    words = ["-w", WORKERS, "-m", M, "--straight", "--makespan", "--json"]
    said, plans, steps = f"{name:<14} {len(graph.parts):>9} {1e6 * graph.overhead:6.0f} us", [], []
    for i, path in enumerate((free, dot)):
        plan = folder / f"plan{i}.json"
        told = loads(command.run("plan", path, *words, "-o", plan))
        plans.append(str(plan))
        steps.append((len(told["stages"]), told["makespan"]))
    mp.spawn(worker, (str(folder), name, plans), nprocs=WORKERS)
    ran = [tuple(map(float, line.split())) for line in (folder / "took").read_text().splitlines()]
    for (stages, makespan), (least, median) in zip(steps, ran):
        said += f"  {stages:>6} {1e3 * makespan:8.1f} {1e3 * least:8.1f} {1e3 * median:8.1f}"
    print(said, flush=True)


def main() -> None:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    print(f"{'':<34}  {'a job is free':^33}  {'a job has a price':^33}")
    both = 2 * f"  {'stages':>6} {'ms':>8} {'fastest':>8} {'median':>8}"
    print(f"{'model':<14} {'operators':>9} {'a job':>9}{both}")
    for name in sys.argv[1:] or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            row(name, Path(folder))


if __name__ == "__main__":
    main()
