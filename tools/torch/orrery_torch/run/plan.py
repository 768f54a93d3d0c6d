"""A plan of Orrery, as `orrery plan -o` and `orrery simulate -o` write it, and what has to be sent."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from torch import fx

from ..trace.parts import Part
from ..trace.trace import Trace

WRITE_AGAIN = "write it again with `orrery plan -o` or `orrery simulate -o`"


class Job(NamedTuple):
    stage: int
    d: str  # F, B or W
    b: int

    def __str__(self) -> str:
        return f"{self.stage}{self.d}{self.b}"


class Message(NamedTuple):
    """A value, or its gradient from one of the stages that read it, from worker to worker."""

    node: fx.Node
    b: int
    reader: int  # the stage that the gradient comes from; -1 for the value
    source: int
    target: int


@dataclass
class Stage:
    number: int
    parts: list[Part]
    recompute: bool
    reads: list[fx.Node] = field(default_factory=list)  # of other stages
    gives: list[fx.Node] = field(default_factory=list)  # to other stages, or as a result


@dataclass
class Plan:
    stages: list[Stage]
    orders: list[list[Job]]  # of each worker
    microbatches: int
    divides: bool = False  # replicas of a stage each update a part of its parameters
    where: dict[Job, int] = field(default_factory=dict)
    maker: dict[fx.Node, Stage] = field(default_factory=dict)
    readers: dict[fx.Node, list[Stage]] = field(default_factory=dict)

    def connect(self, trace: Trace) -> None:
        owner = {n: stage for stage in self.stages for part in stage.parts for n in part.calls}
        for stage in self.stages:
            reads = dict.fromkeys(n for part in stage.parts for n in part.reads)
            stage.reads = [n for n in reads if n in owner and owner[n] is not stage]
            for n in stage.reads:
                self.readers.setdefault(n, []).append(stage)
        for stage in self.stages:
            nodes = [n for part in stage.parts for n in part.gives]
            stage.gives = [n for n in nodes if n in self.readers or n in trace.results]
            self.maker |= {n: stage for n in stage.gives}
        for worker, order in enumerate(self.orders):
            self.where |= {job: worker for job in order}
        for n, readers in self.readers.items():
            on = {self.where.get(Job(s.number, "F", 0)) for s in (self.maker[n], *readers)}
            size = getattr(n.meta.get("val"), "shape", ())
            if len(on) > 1 and not all(isinstance(length, int) for length in size):
                raise ValueError(
                    f"{n.name}: data chooses its size, and messages of a step are all alike: plan what "
                    "reads it on one worker, or name a module around both in whole="
                )

    def back(self, stage: Stage, b: int) -> Job | None:
        """The first job of a stage that reads gradients; None of a stage without any."""
        jobs = (Job(stage.number, d, b) for d in "BW")
        return next((job for job in jobs if job in self.where), None)

    def splits(self, stage: Stage) -> bool:
        return Job(stage.number, "W", 0) in self.where

    def sends(self, job: Job, gradients: Mapping[fx.Node, bool]) -> Iterator[Message]:
        """What others read of a job, in one order; gradients says of which values there are any."""
        stage, here = self.stages[job.stage], self.where[job]
        if job.d == "F":
            for n in stage.gives:
                readers = self.readers.get(n, [])
                targets = {self.where[Job(r.number, "F", job.b)] for r in readers}
                yield from (Message(n, job.b, -1, here, to) for to in sorted(targets - {here}))
        elif job.d == "B":
            for n in stage.reads:
                back = self.back(self.maker[n], job.b)
                if gradients[n] and back and self.where[back] != here:
                    yield Message(n, job.b, stage.number, here, self.where[back])

    def check(self) -> None:
        """What is not run here is refused, and a plan that lost jobs; that an order has no deadlock
        was proved by Orrery."""
        for stage in self.stages:
            passes = {d for d in "FBW" if Job(stage.number, d, 0) in self.where}
            for b in range(self.microbatches):
                for d in "FBW":
                    job = Job(stage.number, d, b)
                    if (job in self.where) != (d in passes | {"F"}):
                        there = "no" if d in passes | {"F"} else "a"
                        raise ValueError(f"plan: {there} worker has job {job}: {WRITE_AGAIN}")
        if sum(map(len, self.orders)) != len(self.where):
            raise ValueError(f"plan: a job is there twice: {WRITE_AGAIN}")
        for job, worker in self.where.items():
            first = self.where.get(Job(job.stage, "F", job.b))
            if first is None or job.stage >= len(self.stages) or job.b >= self.microbatches:
                raise ValueError(
                    f"plan: job {job}, of {len(self.stages)} stages and {self.microbatches} "
                    f"microbatches: {WRITE_AGAIN}"
                )
            if first != worker:
                raise ValueError(
                    f"plan: {job} is on worker {worker}, F of it on {first}: what F keeps does not "
                    "move between processes; take a schedule with F, B and W of a stage on one worker"
                )


def plan_of(plan: Path | str | Mapping[str, Any]) -> Mapping[str, Any]:
    """The plan itself, whose keys are there."""
    told: Any = plan
    name = "plan" if isinstance(plan, Mapping) else str(plan)
    if not isinstance(plan, Mapping):
        try:
            told = json.loads(Path(plan).read_text())
        except OSError as why:
            raise ValueError(f"{name}: {why.strerror}: {WRITE_AGAIN}") from None
        except ValueError as why:
            raise ValueError(f"{name}: no plan: {why}: {WRITE_AGAIN}") from None
    kinds = {"stages": list, "worker": list, "microbatches": int}
    for key, kind in kinds.items():
        if not isinstance(told, Mapping) or not isinstance(told.get(key), kind):
            raise ValueError(f"{name}: no plan, without {key}: {WRITE_AGAIN}")
    for key, inside in (("stages", "operators"), ("worker", "order")):
        for each in told[key]:
            if not isinstance(each, Mapping) or not isinstance(each.get(inside), list):
                raise ValueError(f"{name}: no plan, {key} without {inside}: {WRITE_AGAIN}")
    return dict(told)


def check_way(told: Mapping[str, Any]) -> None:
    """Refuses what `orrery train` does and a Runner does not."""
    if "stream" in told:
        raise ValueError(f"plan: {told.get('schedule')} never flushes: only schedules with a flush")
    if any("park" in stage for stage in told["stages"]):
        raise ValueError("plan: stages park their stashes, which a Runner does not: plan without --park")
    if told.get("split"):
        raise ValueError(
            f"plan: operators are split among workers ({told['split']}), which a Runner does not do: "
            "plan without --split"
        )


def read_job(text: str, schedule: str) -> Job:
    found = re.fullmatch(r"(\d+)([FBW])(\d+)", text)
    if not found:
        raise ValueError(
            f"plan: {schedule} has job {text}: only F, B and W on the worker that owns the parameters "
            "are run here: take a schedule such as ddp, 1f1b or lpp"
        )
    return Job(int(found[1]), found[2], int(found[3]))


def read_plan(plan: Path | str | Mapping[str, Any], trace: Trace, parts: list[Part]) -> Plan:
    """The plan, its operators found among the parts of the model."""
    told = plan_of(plan)
    check_way(told)
    named = {p.name: p for p in parts}
    planned = [str(name) for s in told["stages"] for name in s["operators"]]
    if len(planned) != len(set(planned)):
        raise ValueError(f"plan: an operator is in two stages: {WRITE_AGAIN}")
    wrong = sorted(set(planned) ^ set(named))
    if wrong:
        raise ValueError(
            f"plan: operators {', '.join(wrong[:5])}{' ...' if len(wrong) > 5 else ''} are not both "
            "in the plan and in the model: give level= and whole= as to graph()"
        )
    stages = [
        Stage(
            i,
            sorted((named[name] for name in s["operators"]), key=lambda p: p.number),
            bool(s.get("recompute")),
        )
        for i, s in enumerate(told["stages"])
    ]
    schedule = str(told.get("schedule", "its schedule"))
    orders = [[read_job(str(job), schedule) for job in w["order"]] for w in told["worker"]]
    result = Plan(stages, orders, int(told["microbatches"]), bool(told.get("shard_optimizer")))
    result.connect(trace)
    result.check()
    return result


def laid_over(plan: Plan, trace: Trace, parts: list[Part]) -> Plan:
    """The stages of a plan, and F of them, for another trace of its model: in another mode, or of
    another size. An operator that has no name there goes to the first stage that has its parameters
    and what it reads."""
    named = {p.name: s.number for s in plan.stages for p in s.parts}
    held = [{id(t) for part in s.parts for t in part.tensors.values()} for s in plan.stages]
    before: list[set[int]] = []  # each stage, and all that its values come from
    for s in plan.stages:
        makers = {plan.maker[n].number for n in s.reads}
        before.append({s.number}.union(*(before[i] for i in makers)))
    stages = [Stage(s.number, [], False) for s in plan.stages]
    where: dict[fx.Node, int] = {}
    for part in parts:
        reads = {where[n] for n in part.reads if n in where}
        known = {id(t) for t in part.tensors.values()} & set().union(*held)
        able = [i for i in range(len(stages)) if known <= held[i] and reads <= before[i]]
        meta = [name for name, t in part.tensors.items() if t.is_meta and id(t) not in known]
        if meta:
            raise ValueError(
                f"{part.name} reads {meta[0]} in eval mode alone, and it is on the meta device: make "
                "the model where it trains"
            )
        if not able:
            raise ValueError(
                f"{part.name}: in eval mode no stage of the plan has its parameters and, before it, "
                "what it reads: plan the model in eval mode, and evaluate with a Runner of that"
            )
        number = named[part.name] if named.get(part.name) in able else able[0]
        stages[number].parts.append(part)
        where |= dict.fromkeys(part.calls, number)
    orders = [[job for job in order if job.d == "F"] for order in plan.orders]
    result = Plan(stages, orders, plan.microbatches)
    result.connect(trace)
    return result
