"""One thread, since the runs of a test are small; and a count that tools/count-tests reads."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist


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


def pytest_terminal_summary(terminalreporter: Any) -> None:
    told = {word: terminalreporter.stats.get(word, []) for word in ("passed", "failed", "error")}
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(f"SKIP: {report.nodeid}: {report.longrepr[-1]}")
    good, bad = len(told["passed"]), len(told["failed"]) + len(told["error"])
    share = 100 * good // max(good + bad, 1)
    terminalreporter.write_line(f"{share}%: Checks: {good + bad}, Failures: {bad}, Errors: 0")
