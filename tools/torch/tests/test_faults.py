"""Faults at every kind of job: all processes end, and say where it happened and what they waited for."""

import os
import re
import signal
import socket
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orrery_torch
import pytest
import torch
import torch.distributed as dist
from orrery_torch.run import runner as running
from orrery_torch.run.alarm import limit_of
from orrery_torch.run.plan import Job
from orrery_torch.run.runner import cut
from orrery_torch.trace.parts import split
from orrery_torch.trace.trace import trace
from runs import planned, start
from torch import Tensor, nn

N, M, SAMPLES = 4, 4, 2
TIMEOUT, SOON, AT_ONCE = 3.0, 5.0, 8  # seconds of the watchdog and of an end; faults that run together


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Linear(6, 6) for _ in range(N)))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).square().mean()


STATE = re.compile(
    r"  *process \d: (does not answer: ended, or stopped|at the begin of a step|"
    r"after its jobs, (waits until its messages have left|adds up gradients and losses)|"
    r"in \d[FBW]\d( \([a-z ]+ of stage \d, microbatch \d\)|, waits for the (value|gradient) of \S+, of \d[FB]\d of process \d))"
)


class Case(NamedTuple):
    fault: str
    job: Job

    def __str__(self) -> str:
        return f"{self.fault}-{self.job}"


def table() -> list[Case]:
    """40 faults: in the first, a middle and the last stage, in forward, backward and W."""
    jobs = [Job(s, d, b) for b, (s, d) in enumerate((s, d) for d in "FBW" for s in range(N))]
    jobs = [Job(j.stage, j.d, j.b % M) for j in jobs]
    sends = [j for j in jobs if (j.d == "F" and j.stage < N - 1) or (j.d == "B" and j.stage > 0)]
    cases = [Case("exception", j) for j in jobs]
    cases += [Case("kill", j) for j in jobs if j.stage != 2]
    cases += [Case(fault, j) for fault in ("dtype", "shape") for j in sends[::2]]
    cases += [Case("device", j) for j in sends[1::2]]
    return cases + [Case("stop", j) for j in jobs if j.stage != 1 or j.d == "F"]


CASES = table()


def spoil(case: Case, made: dict[Any, Tensor]) -> dict[Any, Tensor]:
    """What goes wrong in the job."""
    if case.fault == "exception":
        raise ArithmeticError("injected")
    if case.fault in ("kill", "stop"):
        os.kill(os.getpid(), signal.SIGKILL if case.fault == "kill" else signal.SIGSTOP)
    how: dict[str, Callable[[Tensor], Tensor]] = {
        "dtype": lambda t: t.double(),
        "shape": lambda t: t[:1],
        "device": lambda t: t.to("meta"),
    }
    return {n: how.get(case.fault, lambda t: t)(t.detach()) for n, t in made.items()}


def is_silent(case: Case) -> bool:
    return case.fault in ("kill", "stop")


def store_of(rank: int, folder: Path, case: Case, meet: socket.socket) -> dist.Store:
    """In process 0, which then has to be the last; in a file if that is killed or stopped."""
    if is_silent(case) and case.job.stage == 0:
        return dist.FileStore(f"{folder}/meet", N)
    host, port = meet.getsockname()
    fd = os.dup(meet.fileno()) if rank == 0 else None
    meet.close()
    return dist.TCPStore(host, port, N, rank == 0, wait_for_workers=False, master_listen_fd=fd)


def process(rank: int, folder: Path, case: Case, model: nn.Module, meet: socket.socket) -> None:
    """A step that runs, and one that fails."""
    torch.set_num_threads(1)  # makes the fork a pool of threads, for which autograd's own would race
    store = store_of(rank, folder, case, meet)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=N)
    batch = torch.randn(SAMPLES * M, 6)
    plan = folder.parent / "plan.json"
    limit = TIMEOUT if case.fault == "stop" else None
    runner = orrery_torch.Runner(plan, model, cut(batch, M)[0], timeout=limit)
    assert runner.step(batch) > 0
    do = runner.training._do

    def faulty(job: Job) -> dict[Any, Tensor]:
        made = do(job)
        if job == case.job:
            (folder / "at").write_text(str(time.time()))
            made = spoil(case, made)
        return made

    runner.training._do = faulty  # type: ignore[method-assign]
    try:
        runner.step(batch)
    except orrery_torch.Fault as why:
        (folder / f"told-{rank}").write_text(str(why))
        with pytest.raises(orrery_torch.Fault, match="an earlier step has failed"):
            runner.step(batch)


def begun(folder: Path, case: Case, model: nn.Module) -> list[int]:
    folder.mkdir()
    children, meet = [], socket.create_server(("127.0.0.1", 0))
    for rank in range(N):
        child = os.fork()
        if not child:
            try:
                process(rank, folder, case, model, meet)
            except BaseException:  # noqa: BLE001 what the parent would not see
                traceback.print_exc()
            finally:  # by its own clock: who waits for it may be late
                (folder / f"end-{rank}").write_text(str(time.time()))
                os._exit(1)
        children.append(child)
    meet.close()
    return children


def awaited(folder: Path, left: list[int]) -> None:
    """Until all have ended; one that is stopped goes on once the others have."""
    while left := [child for child in left if not os.waitpid(child, os.WNOHANG)[0]]:
        if len(left) == 1 and "stop" in folder.name:
            os.kill(left[0], signal.SIGCONT)
        time.sleep(0.02)


def host(_: int, folder: Path) -> None:
    """Forks the processes of every fault: the model is traced once, here, where no autograd has run,
    whose threads a fork would lack."""
    torch.set_num_threads(1)
    model = Chain()
    traced = trace(model, torch.randn(SAMPLES, 6), torch.device("cpu"))
    running.parted = lambda *_: (traced, split(traced))  # type: ignore[assignment]
    for i in range(0, len(CASES), AT_ONCE):
        started = [(folder / str(c), begun(folder / str(c), c, model)) for c in CASES[i : i + AT_ONCE]]
        for each in started:
            awaited(*each)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, x = tmp_path_factory.mktemp("faults"), torch.randn(SAMPLES, 6)
    planned(folder, Chain(), x, M, f"-w {N} -s zb-h1 --stages {N}", "plan")
    start(host, 1, folder)
    return folder


@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_end_and_say_why(ran: Path, case: Case) -> None:
    folder, job, at = ran / str(case), case.job, case.job.stage
    others = [r for r in range(N) if r != at]
    silent = is_silent(case)
    tell = {r: folder / f"told-{r}" for r in (others if silent else range(N))}
    told = {r: path.read_text() for r, path in tell.items() if path.exists()}  # a late one is ended by its watch
    [fault] = {t.splitlines()[0] for t in told.values()}  # the same on all
    if silent:
        assert not fault.startswith(f"process {at},"), fault
        assert all(f"process {at}: does not answer: ended, or stopped" in text for text in told.values())
    else:
        passes = {"F": "forward", "B": "backward", "W": "gradients of parameters"}
        where = f"{job} ({passes[job.d]} of stage {at}, microbatch {job.b})"
        what = "ArithmeticError: injected" if case.fault == "exception" else "ValueError: "
        assert fault.startswith(f"process {at}, in {where}: {what}"), fault
    for text in told.values():
        assert len(text.splitlines()) == N + 1, text
        assert all(STATE.fullmatch(t) for t in text.splitlines()[1:]), text
    begin = float((folder / "at").read_text())
    ends = [float((folder / f"end-{r}").read_text()) - begin for r in told]
    assert max(ends) < SOON + TIMEOUT * (case.fault == "stop"), ends


def test_who_waits_says_for_what(ran: Path) -> None:
    """At a fault a process may be in a job of its own: that is a matter of time, and of forty faults not all."""
    told = [path.read_text() for path in ran.glob("*/told-*")]
    assert len(told) > 0.9 * sum(N - is_silent(case) for case in CASES)
    assert sum(", waits for " in text for text in told) > len(told) / 4


def test_there_are_40_faults() -> None:
    assert len(CASES) == len({str(c) for c in CASES}) == 40
    assert {c.fault for c in CASES} == {"exception", "kill", "dtype", "shape", "device", "stop"}


def test_nobody_waits_much_longer_than_the_plan() -> None:
    assert limit_of({"makespan": 1e-3}, None).total_seconds() == 60
    assert limit_of({"makespan": 30.0}, None).total_seconds() == 600
    assert limit_of({"makespan": 30.0, "unit": "units"}, None).total_seconds() == 60
    assert limit_of({"makespan": 30.0}, 2.5).total_seconds() == 2.5
    with pytest.raises(ValueError, match="timeout=0: seconds, more than 0"):
        limit_of({}, 0)
