"""One thread, since the runs of a test are small; processes that have torch already; and a count that
tools/count-tests reads."""

import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

IMPORTED = [
    "torch.distributed",
    "torch._dynamo",
    "torch.export._trace",
    "torch._functorch.aot_autograd",
]


@pytest.fixture(autouse=True)
def same_every_time() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)


@pytest.fixture
def alone(tmp_path: Path) -> Any:
    """One process that is all of them."""
    dist.init_process_group("gloo", f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(scope="session")
def on_processes() -> Callable[..., None]:
    """Calls a test module's worker(rank, n, *args) on n processes. They are forks of a server that
    has imported most of what they need: with spawned ones most of the tests' time was imports."""
    multiprocessing.set_forkserver_preload(IMPORTED)

    def run(worker: Callable[..., None], n: int, *args: Any) -> None:
        mp.start_processes(worker, (n, *args), nprocs=n, start_method="forkserver")

    return run


def pytest_terminal_summary(terminalreporter: Any) -> None:
    told = {word: terminalreporter.stats.get(word, []) for word in ("passed", "failed", "error")}
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(f"SKIP: {report.nodeid}: {report.longrepr[-1]}")
    good, bad = len(told["passed"]), len(told["failed"]) + len(told["error"])
    share = 100 * good // max(good + bad, 1)
    terminalreporter.write_line(f"{share}%: Checks: {good + bad}, Failures: {bad}, Errors: 0")
