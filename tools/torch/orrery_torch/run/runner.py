"""A plan of Orrery, run with the user's modules: a process a worker, over torch.distributed."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, fx, nn

from ..trace.changes import check_backwards, check_changes, check_moved
from .alarm import Alarm, limit_of
from .clock import Stopwatch, gathered, offset
from ..costs.costs import Calls, Values
from ..trace.inputs import check_inputs
from ..trace.parts import split
from .plan import Job, Message, plan_of, read_plan
from .own import Own
from .post import Post
from .stage import Pass, Ready
from .sums import Sums
from ..trace.trace import Inputs, on_fakes, trace, words

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


class Runner:
    """step() runs a minibatch as the plan says, and leaves the gradients in the parameters of this
    process's stages, as backward() of the mean loss of the microbatches would.

    model: the same in every process, with the same weights, or on the meta device, and then
    materialise() comes before the first step. example_inputs: one microbatch. level, whole: as for
    the graph() that the plan is of.

    timeout: seconds that a process waits for another within a step; 20 times what the plan says of
    the whole step, and a minute at least.

    inputs: places or names of what this process reads of a batch: the rest of it may be None."""

    def __init__(
        self,
        plan: Path | str | Mapping[str, Any],
        model: nn.Module,
        example_inputs: Inputs,
        *,
        level: str = "module",
        whole: tuple[type[nn.Module], ...] = (),
        timeout: float | None = None,
    ) -> None:
        check_inputs(model, example_inputs)
        self.model = model
        self.device = device_of(model)
        with uncast(self.device):
            self.trace = trace(model, example_inputs, self.device)
        self.calls = Calls(self.trace)
        if not self.trace.exported and any(True for _ in model.buffers()):
            raise ValueError("torch.export refuses the model, and it has buffers: not run here")
        parts = split(self.trace, level, whole)
        check_changes(self.trace, parts)
        check_backwards(self.trace)
        told = plan_of(plan)
        self.plan = read_plan(told, self.trace, parts)
        self.me, n = dist.get_rank(), len(self.plan.orders)
        if dist.get_world_size() != n:
            raise ValueError(f"plan: {n} workers, but {dist.get_world_size()} processes")
        check_moved(self.trace, [stage.parts for stage in self.plan.stages])
        self.example, self.modes = kinds_of(example_inputs), modes_of(model)
        self.like = example_inputs
        self.shapes = {autocast_of(self.device): self._shapes()}  # of messages
        shapes, limit = self.shapes[autocast_of(self.device)], limit_of(told, timeout)
        self.alarm = Alarm()
        self.post = Post(self.plan, shapes, self.me, self.device, limit)
        self.sums = Sums(self.plan, model, self.device, limit)
        self.needs = {job: self._needs(job) for job in self.plan.orders[self.me]}
        self.reads = self._reads()
        own = {job.stage for job in self.plan.orders[self.me]}
        self.ready = {
            i: [Ready(self.calls, part) for part in self.plan.stages[i].parts] for i in own
        }
        parts = [part for i in sorted(own) for part in self.plan.stages[i].parts]
        self.own = Own(model, parts, self.device)
        self.needed = self.calls.needed(parts)
        keys = self.calls.keys(example_inputs)
        self.inputs = [keys[n] for n in keys if n in self.needed and keys[n] is not None]
        self.watch = Stopwatch(self.device)
        self.timeline: list[tuple[str, float, float]] = []  # of this process, by its clock

    def _shapes(self) -> Values:
        """What goes over the edges, as it is for an example under the autocast of now."""

        def run(given: Inputs, fake: Callable[[Any], Any]) -> Values:
            values = self.calls.given(given, made=fake)
            self.calls.run(self.trace.calls, values)
            return values

        values = on_fakes(self.model, self.like, self.device, run)
        crossing = {n: values[n] for n in self.plan.maker}
        for n, t in crossing.items():
            if not isinstance(t, Tensor):
                raise ValueError(f"{n.name}: only tensors go from stage to stage, not {type(t)}")
        returned = self.trace.returned()
        self.losses = {
            n: returned[n]  # times, since their sum is trained
            for n, t in crossing.items()
            if n in returned and t.numel() == 1 and t.requires_grad
        }
        if not self.losses:
            raise ValueError("forward() has to give a loss, a number that a gradient comes from")
        return {
            n: torch.empty(t.shape, dtype=t.dtype, device="meta").requires_grad_(t.requires_grad)
            for n, t in crossing.items()
        }

    def parameters(self) -> list[nn.Parameter]:
        """Those of this process's stages: what its optimizer has to train."""
        return self.own.parameters()

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The same with their names in the model, a shared one by the first of them."""
        return ((self.own.names[id(p)][0], p) for p in self.own.parameters())

    def materialise(
        self,
        init: Callable[[str, Tensor], object] | None = None,
        *,
        checkpoint: Path | str | None = None,
    ) -> None:
        """Gives the parameters and buffers of this process's stages their memory and their values;
        those of other stages stay on the meta device. Every process has to call it.

        checkpoint: a file of safetensors or a folder of torch.distributed.checkpoint, with the
        model's names; of it only those tensors are read. init(name, tensor) fills what the
        checkpoint lacks, in place, as in `lambda name, t: nn.init.normal_(t, std=0.02)`. The
        generator is seeded for each tensor by its name and the seed of process 0, so values are the
        same under any plan. ValueError names a tensor that neither gives, or of another shape."""
        self.own.materialise(init, checkpoint)

    @torch.no_grad()
    def collect(self) -> None:
        """Parameters and buffers of all stages, as the processes that train them have them."""
        if self.own.partial:
            raise ValueError("collect(): the model was made on the meta device, for want of memory")
        for stage in self.plan.stages:
            owner = self.plan.where[Job(stage.number, "F", 0)]
            for part in stage.parts:
                for name in sorted(part.tensors):
                    whole = part.tensors[name].data.contiguous()
                    dist.broadcast(whole, owner)
                    part.tensors[name].data.copy_(whole)

    # ---- a step ----

    def step(self, batch: Inputs, scaler: torch.amp.GradScaler | None = None) -> float:
        """The loss: the mean of those of the microbatches. Gradients are added to those that are
        there.

        scaler: gradients are those of the loss times its scale; if one of any process is infinite,
        all processes skip their next scaler.step()."""
        self.given = self._ready(batch)
        self.scale = 1.0
        if scaler is not None:
            self.scale = scaler.scale(torch.ones((), device=self.device)).item()
        self.passes: dict[tuple[int, int], Pass] = {}
        self.values: dict[tuple[fx.Node, int], Tensor] = {}
        self.gradients: dict[tuple[fx.Node, int, int], Tensor] = {}
        self.unread = dict(self.reads)
        self.loss = torch.zeros((), dtype=torch.float64, device=self.device)
        self.sums.begin()
        self.post.begin(self.shapes[autocast_of(self.device)])
        with self.alarm.watch(self._close), torch.enable_grad():
            self._run_jobs()
            self.alarm.enter("after its jobs, adds up gradients and losses")
            self.sums.end()
            dist.all_reduce(self.loss, group=self.sums.all)
            if scaler is not None:
                self.sums.spread([p.grad for p in self.parameters() if p.grad is not None])
        del self.passes, self.values, self.gradients, self.given
        return self.loss.item()

    @torch.no_grad()
    def clip_grad_norm_(
        self, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
    ) -> Tensor:
        """torch.nn.utils.clip_grad_norm_ of the whole model: the norm of the gradients of all
        processes, each parameter counted once. Every process has to call it."""
        with self.alarm.watch(self._close):
            self.alarm.enter("adds up norms")
            norm = self.sums.norm(norm_type)
        if error_if_nonfinite and not norm.isfinite():
            raise RuntimeError(f"the total norm of order {norm_type} of the gradients is {norm}")
        torch.nn.utils.clip_grads_with_norm_(self.parameters(), max_norm, norm)
        return norm

    def _ready(self, batch: Inputs) -> list[Values]:
        """The microbatches, once all processes have one that they can run."""
        given: list[Values] = []
        why: Exception | None = None
        try:
            parts = cut(batch, self.plan.microbatches)
            self._check(parts[0])
            if autocast_of(self.device) not in self.shapes:
                self.shapes[autocast_of(self.device)] = self._shapes()
            self.own.check()
            given = [self.calls.given(inputs, self.needed) for inputs in parts]
        except Exception as refused:  # noqa: BLE001 of any kind, as data's calls run
            why = refused
        self.alarm.agree(why, autocast_of(self.device), self.device)
        return given

    def _close(self) -> None:
        self.post.close()
        self.sums.close()

    def _check(self, microbatch: Inputs) -> None:
        unread = self.example.keys() - {str(key) for key in self.inputs}
        there = kinds_of(microbatch)
        if {**{k: self.example[k] for k in unread}, **there} != self.example:
            raise ValueError(f"batch: microbatches of {there}, and the example was {self.example}")
        if modes_of(self.model) != self.modes:
            raise ValueError("train() or eval() was called on the model: make a new Runner")

    def _meet(self) -> None:
        """Nobody comes out before all have come in."""
        all_there = torch.zeros(1, device=self.device)
        dist.all_reduce(all_there)
        all_there.item()

    def _run_jobs(self) -> None:
        order, marks = self.plan.orders[self.me], []
        self.watch.begin()
        for i, job in enumerate(order):
            self.alarm.begin(job)
            for later in order[i : i + AHEAD]:
                self.post.expect(self.needs[later])
            self._collect(job)
            marks.append(self.watch.mark())
            made = self._do(job)
            marks.append(self.watch.mark())
            for message in self.post.sent[job]:
                self.post.send(message, made[message.node])
        self.alarm.enter("after its jobs, waits until its messages have left")
        self.post.end()
        times = self.watch.seconds(marks)
        self.timeline = list(zip(map(str, order), times[::2], times[1::2]))

    def measured(self) -> dict[str, Any]:
        """The last step on all workers, by one clock, from 0: what `orrery simulate --measured`
        draws beside the plan. Every process has to call it."""
        if not self.timeline and self.plan.orders[self.me]:
            raise ValueError("no step has run: step() comes before its timeline")
        shift, orders = offset(self._meet, self.device), self.plan.orders
        mine = [time + shift for _, begin, end in self.timeline for time in (begin, end)]
        told = gathered(mine, 2 * max(map(len, orders)), self.device)
        first = min((times[0] for times, order in zip(told, orders) if order), default=0.0)
        ran = [[round(time - first, 9) for time in times] for times in told]
        return {
            "worker": [
                {
                    "order": list(map(str, order)),
                    "start": times[: 2 * len(order) : 2],
                    "end": times[1 : 2 * len(order) : 2],
                }
                for order, times in zip(orders, ran)
            ]
        }

    def write_timeline(self, path: Path | str) -> None:
        """measured() as a file, by process 0. Every process has to call it."""
        told = self.measured()
        if self.me == 0:
            Path(path).write_text(json.dumps(told))

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
        run = Pass(self.calls, stage, self.ready[job.stage], self.given[b], inputs)
        run.forward()
        for n in stage.reads:
            self._has_read(n, b)
        for n, t in run.outputs.items():
            if (n, b) in self.unread:
                self.values[n, b] = t.detach().requires_grad_(t.requires_grad)
            if n in self.losses:
                part = self.losses[n] / self.plan.microbatches
                self.loss += part * t.detach().double().reshape(())
        made = run.outputs
        if self.plan.back(stage, b):
            self.passes[job.stage, b] = run
        return made

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
                    self.scale * self.losses[n] / self.plan.microbatches,
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


def device_of(model: nn.Module) -> torch.device:
    """That of all of its parameters, which the backend has to serve; of those on the meta device,
    the backend's."""
    tensors = [*model.parameters(), *model.buffers()]
    devices = {t.device for t in tensors if not t.is_meta}
    if len(devices) > 1:
        raise ValueError(f"the model is on {', '.join(sorted(map(str, devices)))}: one device each")
    backend = dist.get_backend()
    current = torch.cuda.current_device() if tensors and backend == "nccl" else None
    served = torch.device("cpu") if current is None else torch.device("cuda", current)
    device = devices.pop() if devices else served
    if (backend, device.type) in (("gloo", "cuda"), ("nccl", "cpu")):
        raise ValueError(f"the model is on {device}, whose tensors {backend} does not send")
    return device


def kinds_of(inputs: Inputs) -> dict[str, str]:
    """Shape and type of each tensor, by its place or its name."""
    args, kwargs = words(inputs)
    named = {**{str(i): t for i, t in enumerate(args)}, **kwargs}
    tensors = {name: t for name, t in named.items() if isinstance(t, Tensor)}
    return {name: f"{list(t.shape)} {t.dtype}" for name, t in tensors.items()}


def autocast_of(device: torch.device) -> str:
    if not torch.is_autocast_enabled(device.type):
        return "no autocast"
    return f"autocast to {torch.get_autocast_dtype(device.type)}"


def uncast(device: torch.device) -> torch.autocast:
    """No autocast, whatever is around it."""
    return torch.autocast(device.type, enabled=False)


def modes_of(model: nn.Module) -> list[bool]:
    return [m.training for m in model.modules()]


def run(
    plan: Path | str | Mapping[str, Any], model: nn.Module, batch: Inputs, **options: Any
) -> float:
    """One step of a Runner: the loss; the gradients are in the parameters of this process."""
    told = plan_of(plan)
    example = cut(batch, int(told["microbatches"]))[0]
    return Runner(told, model, example, **options).step(batch)
