"""A step that fails in one process fails in all: a watch beside each, and what each was waiting for."""

import itertools
import os
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from ..trace.trace import first_line
from .plan import Job, Message

POLL, GATHER, GRACE = 0.2, 1.0, 2.5  # seconds: between looks, for answers, until a process is ended
SLOWER, LEAST = 20.0, 60.0  # times the planned step, and seconds, that nobody waits longer than
PASSES = {"F": "forward", "B": "backward", "W": "gradients of parameters"}
SILENT = "does not answer: ended, or stopped"
T = TypeVar("T")
NUMBERS = itertools.count()  # of Runners, which all processes make in one order


class Fault(RuntimeError):
    """A step failed, here or in another process: no process can go on with this Runner."""


def limit_of(plan: Mapping[str, Any], given: float | None, least: float = LEAST) -> timedelta:
    """The longest that a process waits for another within a step."""
    if given is not None and not given > 0:
        raise ValueError(f"timeout={given!r}: seconds, more than 0")
    planned = plan.get("makespan")
    timed = isinstance(planned, (int, float)) and plan.get("unit", "seconds") == "seconds"
    return timedelta(seconds=given or max(least, SLOWER * planned if timed else 0.0))


def long(job: Job) -> str:
    return f"{job} ({PASSES[job.d]} of stage {job.stage}, microbatch {job.b})"


def within(seconds: float, ask: Callable[[], Any], otherwise: Any) -> Any:
    """What a store says, unless it has gone, or stands still with the process that it is in."""
    told = [otherwise]

    def run() -> None:
        try:
            told[0] = ask()
        except Exception:  # noqa: BLE001 of any kind, as stores differ
            pass

    asking = threading.Thread(target=run, daemon=True)
    asking.start()
    asking.join(seconds)
    return told[0]


def attempt(work: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """What it gives, or why it does not: for agree()."""
    try:
        return work(), None
    except Exception as why:  # noqa: BLE001 of any kind, as data's calls run
        return None, why


class Alarm:
    """What this process does in a step, and the first fault of any process, which they tell each
    other over torch.distributed's store: it needs nobody to come and read a message."""

    def __init__(self) -> None:
        self.me, self.n = dist.get_rank(), dist.get_world_size()
        there = dist.group.WORLD.get_group_store().clone()
        self.store = dist.PrefixStore(f"orrery/{next(NUMBERS)}", there)
        self.job: Job | None = None
        self.waits: tuple[Message, Job] | None = None  # for this, which that job makes
        self.phase = "at the begin of a step"
        self.called = False  # has another process failed?
        self.told = ""  # the fault, once this process has failed
        self.numbers = itertools.count()  # of steps

    # ---- where it is ----

    def doing(self) -> str:
        if self.waits:
            m, made = self.waits
            what = "the value of" if m.reader < 0 else "the gradient of"
            return f"in {self.job}, waits for {what} {m.node.name}, of {made} of process {m.source}"
        return f"in {long(self.job)}" if self.job else self.phase

    def begin(self, job: Job) -> None:
        """Between jobs: has another process failed?"""
        self.job = job
        if self.called:
            raise Fault("another process has failed")

    def enter(self, phase: str) -> None:
        self.job, self.phase = None, phase

    # ---- a step ----

    @contextmanager
    def watch(self, close: Callable[[], None]) -> Iterator[None]:
        """A step. close: gives up its channels, on which others may wait."""
        over = threading.Event()
        self.phase, self.job, self.waits = "at the begin of a step", None, None
        threading.Thread(target=self._beside, args=(over,), daemon=True).start()
        try:
            yield
        except BaseException as why:
            over.set()
            self.told = self._report(why, close)
            if not isinstance(why, Exception):
                raise  # somebody wants this process to end
            raise Fault(self.told) from why
        finally:
            over.set()

    def _beside(self, over: threading.Event) -> None:
        """Answers when a process has failed, and ends this one if it does not come to see it: it
        may be deep in an operator, or wait for a device."""
        while not over.wait(POLL):
            try:
                self.called = self.store.check(["fault"])
            except RuntimeError:
                return  # the store has gone, with its process
            if not self.called:
                continue
            self.store.set(f"doing/{self.me}", self.doing())
            if not over.wait(GRACE):
                fault = within(POLL, lambda: self.store.get("fault").decode(), "")
                print(f"{fault}\nprocess {self.me} is ended: {self.doing()}", file=sys.stderr)
                sys.stderr.flush()
                os._exit(1)
            return

    def _report(self, why: BaseException, close: Callable[[], None]) -> str:
        """The first fault of all, and what every process did then."""
        doing, waiting = self.doing(), self.waits or not self.job
        mine = f"process {self.me}, {doing}: {type(why).__name__}: {first_line(why)}"
        if waiting:  # then most likely another is to blame, and says so
            traceback.clear_frames(why.__traceback__)  # which hold channels open
            within(3 * POLL, lambda: self.store.wait(["fault"], timedelta(seconds=3 * POLL)), None)
        ask = lambda: self.store.compare_set("fault", "", mine).decode()  # noqa: E731
        fault = within(GATHER, ask, mine)
        within(POLL, lambda: self.store.set(f"doing/{self.me}", doing), None)
        close()
        answers = dict(self._answers()) | {self.me: doing}
        within(POLL, lambda: self.store.set(f"read/{self.me}", ""), None)
        if self.me == 0:  # the store may be this process's, and would go with it
            keys = [f"read/{rank}" for rank, told in answers.items() if told]
            within(GATHER, lambda: self.store.wait(keys, timedelta(seconds=GATHER)), None)
        told = (f"    process {r}: {answers[r] or SILENT}" for r in range(self.n))
        return "\n".join([fault, *told])

    def _answers(self) -> Iterator[tuple[int, str]]:
        """What each says that it does; nothing of one that does not."""
        end = time.monotonic() + GATHER
        for rank in range(self.n):
            left = max(end - time.monotonic(), POLL / 4)
            ask = lambda key=f"doing/{rank}": self._get(key, left)  # noqa: E731, B023
            yield rank, within(left + POLL / 4, ask, "")

    def _get(self, key: str, seconds: float) -> str:
        self.store.wait([key], timedelta(seconds=seconds))
        return str(self.store.get(key).decode())

    # ---- before a step ----

    def agree(self, why: Exception | None, cast: str, device: torch.device, size: int = -1) -> int:
        """Nobody comes out before all have come in; if one refuses, all do. cast: the types of
        messages, and size: of the batch, -1 where nobody reads of it, have to be the same. Gives
        the size."""
        if self.told:
            raise Fault(f"an earlier step has failed: make new processes\n{self.told}")
        number = next(self.numbers)
        if why is not None:
            self.store.set(f"refused/{number}", f"process {self.me}: {first_line(why)}")
        key, least = zlib.crc32(cast.encode()), -size if size >= 0 else -(2**62)
        told = torch.tensor(
            [why is not None, key, -key, size, least], dtype=torch.int64, device=device
        )
        dist.all_reduce(told, dist.ReduceOp.MAX)
        refused, most_key, least_key, most, least = told.tolist()
        if why is not None:
            raise why
        if refused:
            raise ValueError(self.store.get(f"refused/{number}").decode())
        if most_key != -least_key:
            raise ValueError(f"processes step under several autocasts, this one under {cast}")
        if most >= 0 and most != -least:
            raise ValueError(f"batch: processes have {-least} to {most} parts: give all the same")
        return most
