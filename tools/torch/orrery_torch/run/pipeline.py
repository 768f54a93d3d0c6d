"""The stages of a plan with the calls of a traced model, and a process's jobs, run in its order."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..costs.costs import Calls, Values
from ..trace.trace import Inputs, on_fakes
from .alarm import Alarm
from .batch import kinds_of
from .clock import Stopwatch
from .plan import Job, Message, Plan, Stage
from .post import Channels, Post
from .stage import Pass, Ready, apart

AHEAD = 4  # jobs whose messages are awaited before they begin


class Pipeline:
    """The model as it is traced for microbatches of one size and in one mode. What others make is
    received, and what they read is sent, in the plan's order. backend: of torch.compile, if any."""

    def __init__(
        self,
        model: nn.Module,
        calls: Calls,
        plan: Plan,
        example: Inputs,
        channels: Channels,
        alarm: Alarm,
        backend: str = "",
    ) -> None:
        self.model, self.calls, self.plan, self.alarm = model, calls, plan, alarm
        self.me, self.device = channels.me, channels.device
        self.example, self.kinds = example, kinds_of(example)
        self.shapes = {autocast_of(self.device): self._shapes()}  # of messages
        self.post = Post(plan, self.shapes[autocast_of(self.device)], channels)
        self.needs = {job: self._needs(job) for job in plan.orders[self.me]}
        self.reads = self._reads()
        own = sorted({job.stage for job in plan.orders[self.me]})
        self.ready = {i: self._ready(plan.stages[i], backend) for i in own}
        self.parts = [part for i in own for part in plan.stages[i].parts]
        self.needed = calls.needed(self.parts)
        keys = calls.keys(example)
        self.inputs = [keys[n] for n in keys if n in self.needed and keys[n] is not None]
        self.watch = Stopwatch(self.device)
        self.timeline: list[tuple[str, float, float]] = []  # of this process, by its clock

    def _ready(self, stage: Stage, backend: str) -> list[Ready]:
        if self.plan.splits(stage):
            return [Ready(self.calls, parts) for parts in apart(stage.parts)]
        return [Ready(self.calls, stage.parts, backend)]

    def _shapes(self) -> Values:
        """What goes over the edges, as it is for an example under the autocast of now."""

        def run(given: Inputs, fake: Callable[[Any], Any]) -> Values:
            values = self.calls.given(given, made=fake)
            self.calls.run(self.calls.trace.calls, values)
            return values

        values = on_fakes(self.model, self.example, self.device, run)
        crossing = {n: values[n] for n in self.plan.maker}
        for n, t in crossing.items():
            if not isinstance(t, Tensor):
                raise ValueError(f"{n.name}: only tensors go from stage to stage, not {type(t)}")
        returned = self.calls.trace.returned()
        self.losses = {
            n: returned[n]  # times, since their sum is trained
            for n, t in crossing.items()
            if n in returned and t.numel() == 1 and t.requires_grad
        }
        return {
            n: torch.empty(t.shape, dtype=t.dtype, device="meta").requires_grad_(t.requires_grad)
            for n, t in crossing.items()
        }

    def given(self, microbatches: list[Inputs]) -> list[Values]:
        """Their values, of the sizes and types of the example where this process reads them."""
        unread = self.kinds.keys() - {str(key) for key in self.inputs}
        for inputs in microbatches[:1]:  # all are alike
            there = kinds_of(inputs)
            if {**{k: self.kinds[k] for k in unread}, **there} != self.kinds:
                raise ValueError(
                    f"batch: microbatches of {there}, and the example was {self.kinds}"
                )
        if autocast_of(self.device) not in self.shapes:
            self.shapes[autocast_of(self.device)] = self._shapes()
        return [self.calls.given(inputs, self.needed) for inputs in microbatches]

    def returned(self, values: Values) -> Any:
        """What forward() returns, of these values; None in place of all others."""
        graph = self.calls.trace.module.graph
        return graph.process_outputs(fx.node.map_arg(graph.output_node().args[0], values.get))

    # ---- a step ----

    def run(
        self,
        given: list[Values],
        share: float,
        scale: float = 1.0,
        done: Callable[[int, Values], None] | None = None,
    ) -> Tensor:
        """The jobs of so many microbatches: the sum of the losses that are made here, each times
        share. Gradients are those of that, times scale.

        done: called with a microbatch and those of its results that are made here."""
        self.given_values, self.share, self.scale, self.done = given, share, scale, done
        self.passes: dict[tuple[int, int], Pass] = {}
        self.values: dict[tuple[fx.Node, int], Tensor] = {}
        self.gradients: dict[tuple[fx.Node, int, int], Tensor] = {}
        self.results: dict[int, Values] = {}
        self.unread = dict(self.reads)
        self.loss = torch.zeros((), dtype=torch.float64, device=self.device)
        self.post.begin(self.shapes[autocast_of(self.device)], len(given))
        self._run_jobs([job for job in self.plan.orders[self.me] if job.b < len(given)])
        del self.passes, self.values, self.gradients, self.given_values
        return self.loss

    def _run_jobs(self, order: list[Job]) -> None:
        marks: list[Any] = []
        self.watch.begin()
        for i, job in enumerate(order):
            self.alarm.begin(job)
            for later in order[i : i + AHEAD]:
                self.post.expect(self.needs[later])
            self._collect(job)
            marks.append(self.watch.mark())
            made = self._do(job)
            marks.append(self.watch.mark())
            self.post.send(job, made)
        self.alarm.enter("after its jobs, waits until its messages have left")
        self.post.end()
        if len(order) == len(self.plan.orders[self.me]):
            times = self.watch.seconds(marks)
            self.timeline = list(zip(map(str, order), times[::2], times[1::2]))

    # ---- a job ----

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
        for m in self.needs[job]:
            maker = self.plan.maker[m.node].number
            made = Job(maker, "F", m.b) if m.reader < 0 else Job(m.reader, "B", m.b)
            self.alarm.waits = m, made
            if m.reader >= 0:
                self.gradients[m.node, m.b, m.reader] = self.post.take(m)
            elif (m.node, m.b) not in self.values:
                needs_gradient = self.post.shapes[m.node].requires_grad
                self.values[m.node, m.b] = self.post.take(m).requires_grad_(needs_gradient)
        self.alarm.waits = None

    def _do(self, job: Job) -> dict[fx.Node, Tensor]:
        """What it makes for other stages: values, or gradients."""
        if job.d == "F":
            return self._forward(job)
        stage = self.plan.stages[job.stage]
        run, split_here = self.passes[job.stage, job.b], self.plan.splits(stage)
        made: dict[fx.Node, Tensor] = {}
        if self.plan.back(stage, job.b) == job:
            made = self._backward(job, run, split_here)
        if job.d == "W":
            with uncast(self.device):
                run.weights()
        if job.d == "W" or not split_here:
            del self.passes[job.stage, job.b]
        return made

    def _forward(self, job: Job) -> dict[fx.Node, Tensor]:
        stage, b = self.plan.stages[job.stage], job.b
        inputs = {n: self.values[n, b] for n in stage.reads}
        run = Pass(stage, self.ready[job.stage], self.given_values[b], inputs)
        made = run.forward()
        for n in stage.reads:
            self._has_read(n, b)
        for n, t in made.items():
            if (n, b) in self.unread:
                self.values[n, b] = t.detach().requires_grad_(t.requires_grad)
            if n in self.losses:
                part = self.losses[n] * self.share
                self.loss += part * t.detach().double().reshape(())
        if self.done:
            self._keep(b, made, self.done)
        if self.plan.back(stage, b):
            self.passes[job.stage, b] = run
        return made

    def _keep(self, b: int, made: Values, done: Callable[[int, Values], None]) -> None:
        """Results, until all that this process makes of a microbatch are there."""
        own = {n for n in self.calls.trace.results if n in self.plan.maker}
        own = {n for n in own if self.plan.where[Job(self.plan.maker[n].number, "F", b)] == self.me}
        kept = self.results.setdefault(b, {})
        kept |= {n: made[n].detach() for n in made.keys() & own}
        if kept and len(kept) == len(own):
            done(b, self.results.pop(b))

    def _reads(self) -> dict[tuple[fx.Node, int], int]:
        """How often jobs of this process read each value: after that it is forgotten."""
        counts: dict[tuple[fx.Node, int], int] = {}
        for job in self.plan.orders[self.me]:
            if job.d == "F":
                for n in self.plan.stages[job.stage].reads:
                    counts[n, job.b] = counts.get((n, job.b), 0) + 1
        return counts

    def _has_read(self, n: fx.Node, b: int) -> None:
        self.unread[n, b] -= 1
        if not self.unread[n, b]:
            del self.values[n, b]

    def _backward(self, job: Job, run: Pass, split_here: bool) -> dict[fx.Node, Tensor]:
        stage, b = self.plan.stages[job.stage], job.b
        if stage.recompute:
            run.again()
        gradients: dict[fx.Node, Tensor] = {}
        for n in stage.gives:
            for reader in self._senders(n, b):
                g = self.gradients.pop((n, b, reader))
                gradients[n] = gradients[n] + g if n in gradients else g
            if n in self.losses:
                share = torch.full_like(
                    self.post.shapes[n],
                    self.scale * self.losses[n] * self.share,
                    device=self.device,
                    requires_grad=False,
                )
                gradients[n] = gradients[n] + share if n in gradients else share
        with uncast(self.device):  # which F has seen to
            found = run.backward(gradients, split_here)
        return self._pass_on(job, found) if job.d == "B" else {}

    def _pass_on(self, job: Job, found: dict[fx.Node, Tensor]) -> dict[fx.Node, Tensor]:
        """Gradients to the stages before, 0 where none comes out, as they are waited for."""
        sent = {m.node for m in self.post.sent[job]}
        made: dict[fx.Node, Tensor] = {}
        for n in self.plan.stages[job.stage].reads:
            back = self.plan.back(self.plan.maker[n], job.b)
            if not self.post.shapes[n].requires_grad or not back:
                continue
            g = found.get(n)
            nothing = torch.zeros_like(self.post.shapes[n], device=self.device).detach()
            made[n] = nothing if g is None else g
            if n not in sent:
                self.gradients[n, job.b, job.stage] = made[n]
        return made


def autocast_of(device: torch.device) -> str:
    if not torch.is_autocast_enabled(device.type):
        return "no autocast"
    return f"autocast to {torch.get_autocast_dtype(device.type)}"


def uncast(device: torch.device) -> torch.autocast:
    """No autocast, whatever is around it."""
    return torch.autocast(device.type, enabled=False)
