"""What tests of a Runner share: plans, processes, gradients and an optimizer."""

import multiprocessing
import re
from collections.abc import Callable, Iterable
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import orrery_torch
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from orrery_torch import command
from peer import apart
from peer.beside import Beside
from peer.training import Options
from torch import Tensor, nn

# processes are forks of a server that has imported most of what they need: with spawned ones most of
# the tests' time was imports
multiprocessing.set_forkserver_preload(
    ["torch.distributed", "torch._dynamo", "torch.export._trace", "torch._functorch.aot_autograd"]
)


def script(name: str) -> Any:
    """A program of the tree's tools/torch, or beside it, as a module."""
    path = Path(__file__).resolve().parents[1] / name
    loader = SourceFileLoader(path.name, str(path))
    spec = spec_from_loader(path.name, loader)
    assert spec
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def planned(
    folder: Path, model: nn.Module, inputs: Any, m: int, words: str, name: str = ""
) -> Path:
    """The plan of `orrery simulate` with these options, for microbatches like inputs."""
    name = name or re.sub(r"\W+", "-", f"{type(model).__name__} {words}")
    dot = orrery_torch.graph(model, inputs, measured=False).write(folder / f"{name}.dot")
    plan = folder / f"{name}.json"
    command.run("simulate", dot, "-m", m, *words.split(), "-o", plan)
    return plan


def start(run: Callable[..., None], n: int, *args: Any) -> None:
    """Calls run(rank, *args) in n processes."""
    mp.start_processes(run, args, nprocs=n, start_method="forkserver")


def joined(rank: int, n: int, worker: Callable[..., Any], folder: Path, args: Any) -> None:
    torch.set_num_threads(1)
    meet = f"file://{folder}/meet-{worker.__name__}"
    dist.init_process_group("gloo", meet, rank=rank, world_size=n)
    torch.save(worker(rank, n, folder, *args), f"{folder}/{worker.__name__}-{rank}.pt")
    dist.destroy_process_group()


def on_processes(worker: Callable[..., Any], n: int, folder: Path, *args: Any) -> list[Any]:
    """What a test module's worker(rank, n, folder, *args) gives in each of n processes of one group."""
    start(joined, n, n, worker, folder, args)
    return [torch.load(folder / f"{worker.__name__}-{rank}.pt") for rank in range(n)]


def seeded(make: Callable[[], nn.Module]) -> Any:
    """With the same weights in every process, and in one piece."""
    torch.manual_seed(7)
    return make()


def check_trains(model: nn.Module, samples: dict[str, Tensor], folder: Path, own: Options, back: bool = True) -> None:
    """Losses of `orrery train` are PyTorch's, and so is the test loss of its weights in the model."""
    beside = Beside(model, samples, folder)
    losses, test = beside.orrery(own)
    assert apart(losses, list(beside.pytorch(own))) < 1e-4 and len(losses) == own.steps
    if back:
        assert apart([beside.evaluated()], [test]) < 1e-4


def read_only(runner: orrery_torch.Runner, batch: tuple[Tensor, ...]) -> Any:
    """None in place of what this process does not read."""
    return tuple(t if i in runner.inputs else None for i, t in enumerate(batch))


def gradients(model: nn.Module) -> dict[str, Tensor]:
    return {k: p.grad.clone() for k, p in model.named_parameters() if p.grad is not None}


def check_together(told: Iterable[dict[str, Tensor]], whole: dict[str, Tensor], what: Any) -> None:
    """What processes have together is what the model in one piece has."""
    found = {name: t for each in told for name, t in each.items()}
    torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-6, msg=lambda why: f"{what}: {why}")


def optimizer_of(named: Iterable[tuple[str, nn.Parameter]]) -> torch.optim.Optimizer:
    """AdamW with two groups: weight decay spares norms and biases."""
    groups: tuple[list[nn.Parameter], list[nn.Parameter]] = ([], [])
    for name, p in named:
        groups["norm" in name or name.endswith("bias")].append(p)
    return torch.optim.AdamW(
        [{"params": groups[0], "weight_decay": 0.1}, {"params": groups[1], "weight_decay": 0.0}],
        lr=3e-3,
    )
