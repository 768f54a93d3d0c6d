"""A plan of Orrery, run with the user's modules: a process a worker, over torch.distributed."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, fx, nn

from .costs import Calls, Values
from .parts import split
from .plan import Job, Message, Plan, read_plan
from .stage import Pass, trained_of
from .trace import Inputs, trace, words

AHEAD = 4  # jobs whose messages are awaited before they begin


def cut(inputs: Inputs, m: int) -> list[Inputs]:
    """The microbatches of a minibatch: its tensors, cut along their first dimension."""
    args, kwargs = words(inputs)
    for t in [*args, *kwargs.values()]:
        if isinstance(t, Tensor) and (not t.dim() or len(t) % m):
            raise ValueError(f"batch: {list(t.shape)} is not cut into {m} equal microbatches")

    def part(value: Any, b: int) -> Any:
        return value.chunk(m)[b] if isinstance(value, Tensor) else value

    if kwargs:
        return [{name: part(v, b) for name, v in kwargs.items()} for b in range(m)]
    return [tuple(part(v, b) for v in args) for b in range(m)]


class Post:
    """Messages of one step. What one worker sends another arrives in the order in which it is made,
    so both count alike; a send never waits, so nobody waits for one who waits for him."""

    def __init__(self, plan: Plan, shapes: Values, me: int) -> None:
        self.plan, self.shapes, self.me = plan, shapes, me
        gradients = {n: t.requires_grad for n, t in shapes.items()}
        self.sent = {
            job: list(plan.sends(job, gradients)) for order in plan.orders for job in order
        }
        self.number: dict[Message, int] = {}
        self.queue: dict[int, list[Message]] = {}  # by the worker it comes from
        counts: dict[tuple[int, int], int] = {}
        for order in plan.orders:
            for job in order:
                for m in self.sent[job]:
                    pair = (m.source, m.target)
                    self.number[m] = counts.get(pair, 0)
                    counts[pair] = self.number[m] + 1
                    if m.target == me:
                        self.queue.setdefault(m.source, []).append(m)
        self.begin()

    def begin(self) -> None:
        self.posted = dict.fromkeys(self.queue, 0)
        self.coming: dict[Message, tuple[Tensor, Any]] = {}
        self.going: list[tuple[Any, Tensor]] = []

    def send(self, m: Message, value: Tensor) -> None:
        held = value.detach().contiguous()
        self.going = [(w, t) for w, t in self.going if not w.is_completed()]
        self.going.append((dist.isend(held, m.target, tag=self.number[m]), held))

    def post(self, m: Message) -> None:
        """Awaits it, and all that come from the same worker before it."""
        queue = self.queue[m.source]
        while self.posted[m.source] <= self.number[m]:
            each = queue[self.posted[m.source]]
            room = torch.empty_like(self.shapes[each.node], memory_format=torch.contiguous_format)
            work = dist.irecv(room, each.source, tag=self.number[each])
            self.coming[each] = (room.detach(), work)
            self.posted[m.source] += 1

    def take(self, m: Message) -> Tensor:
        self.post(m)
        room, work = self.coming.pop(m)
        work.wait()
        return room

    def end(self) -> None:
        for work, _ in self.going:
            work.wait()


class Runner:
    """step() runs a minibatch as the plan says, and leaves the gradients in the parameters of this
    process's stages, as backward() of the mean loss of the microbatches would.

    model: the same in every process, with the same weights. example_inputs: one microbatch.
    level, whole: as for the graph() that the plan is of."""

    def __init__(
        self,
        plan: Path | str | Mapping[str, Any],
        model: nn.Module,
        example_inputs: Inputs,
        *,
        level: str = "module",
        whole: tuple[type[nn.Module], ...] = (),
    ) -> None:
        self.model = model
        self.trace = trace(model, example_inputs)
        self.calls = Calls(self.trace)
        if not self.trace.exported and any(True for _ in model.buffers()):
            raise ValueError("torch.export refuses the model, and it has buffers: not run here")
        self.plan = read_plan(plan, self.trace, split(self.trace, level, whole))
        self.me, n = dist.get_rank(), len(self.plan.orders)
        if dist.get_world_size() != n:
            raise ValueError(f"plan: {n} workers, but {dist.get_world_size()} processes")
        if dist.get_backend() != "gloo":
            raise ValueError(f"runs over gloo, not {dist.get_backend()}")
        self.post = Post(self.plan, self._shapes(example_inputs), self.me)
        self.groups = self._groups()
        self.timeline: list[tuple[str, float, float]] = []

    def _shapes(self, inputs: Inputs) -> Values:
        """What goes over the edges, as it is for an example."""
        state = [(b, b.clone()) for b in self.model.buffers()]
        values = self.calls.given(inputs)
        with torch.random.fork_rng(), torch.enable_grad():
            for stage in self.plan.stages:
                for part in stage.parts:
                    self.calls.run(part.calls, values)
        with torch.no_grad():
            for buffer, before in state:
                buffer.copy_(before)
        crossing = {n: values[n] for n in self.plan.maker}
        for n, t in crossing.items():
            if not isinstance(t, Tensor):
                raise ValueError(f"{n.name}: only tensors go from stage to stage, not {type(t)}")
        self.losses = [
            n
            for n, t in crossing.items()
            if n in self.trace.results and not t.dim() and t.requires_grad
        ]
        if not self.losses:
            raise ValueError("forward() has to give a loss, a number that a gradient comes from")
        return {
            n: torch.empty_like(t).detach().requires_grad_(t.requires_grad)
            for n, t in crossing.items()
        }

    def _groups(self) -> list[tuple[Tensor, Any]]:
        """Parameters that several workers have, and who they are: they add up the gradients."""
        holders: dict[int, tuple[Tensor, set[int]]] = {}
        for stage in self.plan.stages:
            workers = {
                self.plan.where[Job(stage.number, "F", b)] for b in range(self.plan.microbatches)
            }
            for part in stage.parts:
                for t in trained_of(part):
                    holders.setdefault(id(t), (t, set()))[1].update(workers)
        sets = sorted({tuple(sorted(w)) for _, w in holders.values() if len(w) > 1})
        groups = {workers: dist.new_group(list(workers)) for workers in sets}
        order = {id(p): i for i, p in enumerate(self.model.parameters())}
        common = [
            (order[key], t, groups[tuple(sorted(w))])
            for key, (t, w) in holders.items()
            if len(w) > 1 and self.me in w
        ]
        return [(t, group) for _, t, group in sorted(common, key=lambda c: c[0])]

    def parameters(self) -> list[nn.Parameter]:
        """Those of this process's stages: what its optimizer has to train."""
        mine = {job.stage for job in self.plan.orders[self.me]}
        held = {
            id(t) for i in mine for part in self.plan.stages[i].parts for t in part.tensors.values()
        }
        return [p for p in self.model.parameters() if id(p) in held]

    @torch.no_grad()
    def collect(self) -> None:
        """Parameters and buffers of all stages, as the processes that train them have them."""
        for stage in self.plan.stages:
            owner = self.plan.where[Job(stage.number, "F", 0)]
            for part in stage.parts:
                for name in sorted(part.tensors):
                    dist.broadcast(part.tensors[name].data, owner)

    # ---- a step ----

    def step(self, batch: Inputs) -> float:
        """The loss: the mean of those of the microbatches. Gradients are added to those that are
        there."""
        m = self.plan.microbatches
        self.given = [self.calls.given(inputs) for inputs in cut(batch, m)]
        self.done: set[Job] = set()
        self.passes: dict[tuple[int, int], Pass] = {}
        self.values: dict[tuple[fx.Node, int], Tensor] = {}
        self.gradients: dict[tuple[fx.Node, int, int], Tensor] = {}
        self.left: dict[tuple[int, int], int] = {}
        self.loss = torch.zeros((), dtype=torch.float64)
        self.timeline = []
        self.post.begin()
        order = self.plan.orders[self.me]
        dist.barrier()
        start = time.perf_counter()
        for i, job in enumerate(order):
            for later in order[i : i + AHEAD]:
                for message in self._needs(later):
                    self.post.post(message)
            self._collect(job)
            begin = time.perf_counter() - start
            self._do(job)
            self.timeline.append((str(job), begin, time.perf_counter() - start))
        self.post.end()
        return self._finish()

    def _finish(self) -> float:
        for p, group in self.groups:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad, group=group)
        dist.all_reduce(self.loss)
        del self.passes, self.values, self.gradients, self.given
        return self.loss.item()

    def _needs(self, job: Job) -> list[Message]:
        """The messages that a job waits for."""
        stage, plan = self.plan.stages[job.stage], self.plan
        if job.d == "F":
            makers = [(n, plan.where[Job(plan.maker[n].number, "F", job.b)]) for n in stage.reads]
            return [Message(n, job.b, -1, w, self.me) for n, w in makers if w != self.me]
        if plan.back(stage, job.b) != job:
            return []
        return [
            Message(n, job.b, reader, plan.where[Job(reader, "B", job.b)], self.me)
            for n in stage.gives
            for reader in self._senders(n, job.b)
            if plan.where[Job(reader, "B", job.b)] != self.me
        ]

    def _senders(self, n: fx.Node, b: int) -> list[int]:
        """Stages that give a gradient of this value."""
        if not self.post.shapes[n].requires_grad:
            return []
        readers = self.plan.readers.get(n, [])
        return [r.number for r in readers if Job(r.number, "B", b) in self.plan.where]

    def _collect(self, job: Job) -> None:
        for m in self._needs(job):
            if m.reader >= 0:
                self.gradients[m.node, m.b, m.reader] = self.post.take(m)
            elif (m.node, m.b) not in self.values:
                needs_gradient = self.post.shapes[m.node].requires_grad
                self.values[m.node, m.b] = self.post.take(m).requires_grad_(needs_gradient)

    def _do(self, job: Job) -> None:
        stage = self.plan.stages[job.stage]
        if job.d == "F":
            self._forward(job)
        else:
            run, split_here = self.passes[job.stage, job.b], self.plan.splits(stage)
            if self.plan.back(stage, job.b) == job:
                self._backward(job, run, split_here)
            if job.d == "W":
                run.weights()
            if job.d == "W" or not split_here:
                del self.passes[job.stage, job.b]

    def _forward(self, job: Job) -> None:
        stage, b = self.plan.stages[job.stage], job.b
        inputs = {n: self.values[n, b] for n in stage.reads}
        run = Pass(self.calls, stage, self.given[b], inputs)
        run.forward()
        for n, t in run.outputs.items():
            self.values[n, b] = t.detach().requires_grad_(t.requires_grad)
            if n in self.losses:
                self.loss += t.detach().double() / self.plan.microbatches
        for m in self.post.sent[job]:
            self.post.send(m, run.outputs[m.node])
        if self.plan.back(stage, b):
            self.passes[job.stage, b] = run
        self.done.add(job)
        self._forget(b)

    def _forget(self, b: int) -> None:
        """Values that no stage of this process has still to read."""
        for n in self.plan.maker:
            if (n, b) in self.values and all(
                self._has_read(r.number, b) for r in self.plan.readers.get(n, [])
            ):
                del self.values[n, b]

    def _has_read(self, reader: int, b: int) -> bool:
        job = Job(reader, "F", b)
        return self.plan.where[job] != self.me or job in self.done

    def _backward(self, job: Job, run: Pass, split_here: bool) -> None:
        stage, b = self.plan.stages[job.stage], job.b
        if stage.recompute:
            run.again()
        gradients: dict[fx.Node, Tensor] = {}
        for n in stage.gives:
            for reader in self._senders(n, b):
                g = self.gradients.pop((n, b, reader))
                gradients[n] = gradients[n] + g if n in gradients else g
            if n in self.losses:
                share = torch.full_like(self.post.shapes[n], 1 / self.plan.microbatches)
                gradients[n] = gradients[n] + share if n in gradients else share
        found = run.backward(gradients, split_here)
        if job.d == "B":
            self._pass_on(job, found)

    def _pass_on(self, job: Job, found: dict[fx.Node, Tensor]) -> None:
        """Gradients to the stages before, 0 where none comes out, as they are waited for."""
        sent = {m.node: m for m in self.post.sent[job]}
        for n in self.plan.stages[job.stage].reads:
            if not self.post.shapes[n].requires_grad or not self.plan.back(
                self.plan.maker[n], job.b
            ):
                continue
            g = found.get(n)
            g = torch.zeros_like(self.post.shapes[n]).detach() if g is None else g
            if n in sent:
                self.post.send(sent[n], g)
            else:
                self.gradients[n, job.b, job.stage] = g


def run(
    plan: Path | str | Mapping[str, Any], model: nn.Module, batch: Inputs, **options: Any
) -> float:
    """One step of a Runner: the loss; the gradients are in the parameters of this process."""
    told = plan if isinstance(plan, Mapping) else json.loads(Path(plan).read_text())
    example = cut(batch, int(told["microbatches"]))[0]
    return Runner(told, model, example, **options).step(batch)
