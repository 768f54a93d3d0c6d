"""A plan of Orrery, run with the user's modules: a process a worker, over torch.distributed."""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..costs.costs import Calls
from ..trace.changes import check_backwards, check_changes, check_moved, parted
from ..trace.inputs import check_inputs
from ..trace.parts import split
from ..trace.trace import Inputs
from .alarm import LEAST, Alarm, attempt, limit_of
from .batch import cut
from .checkpoint import check_names, contents, load_more, load_optimizer, place, write
from .clock import gathered, offset
from .evaluate import Evaluation, Evaluator
from .own import Distributed, Own, source_of
from .pipeline import Pipeline, autocast_of, uncast
from .plan import Job, plan_of, read_plan
from .post import Channels
from .rounds import Rounds
from .sums import Sums

COMPILES = 1800.0  # seconds that nobody waits longer than, if the first step compiles


class Runner:
    """step() runs a minibatch as the plan says, and leaves the gradients in the parameters of this
    process's stages, as backward() of the mean loss of the microbatches would.

    model: the same in every process, with the same weights, or on the meta device, and then
    materialise() comes before the first step. example_inputs: one microbatch. level, whole: as for
    the graph() that the plan is of.

    compile: each stage by torch.compile, by its backend of this name or the usual one; not in
    evaluate(), nor for a last microbatch of another size.

    timeout: seconds that a process waits for another within a step; 20 times what the plan says of
    the whole step, and a minute at least; half an hour at least if stages are compiled.

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
        compile: bool | str = False,  # noqa: A002 PyTorch's word
    ) -> None:
        check_inputs(model, example_inputs)
        kept = next((name for name, m in model.named_modules() if hasattr(m, "_orig_mod")), None)
        if kept is not None:
            raise ValueError(
                f"{kept or 'the model'} is made by torch.compile, which would be lost here: give the "
                "module itself, and compile=True"
            )
        self.model = model
        self.device = device_of(model)
        parts_of = partial(split, level=level, whole=whole)
        with uncast(self.device):
            traced, parts = parted(model, example_inputs, parts_of, self.device)
        if traced.refused and any(True for _ in model.buffers()):
            raise ValueError("torch.export refuses the model, and it has buffers: not run here")
        check_changes(traced, parts)
        check_backwards(traced)
        told = plan_of(plan)
        self.plan = read_plan(told, traced, parts)
        self.me, n = dist.get_rank(), len(self.plan.orders)
        if dist.get_world_size() != n:
            raise ValueError(f"plan: {n} workers, but {dist.get_world_size()} processes")
        check_moved(traced, [stage.parts for stage in self.plan.stages])
        self.modes = modes_of(model)
        self.alarm = Alarm()
        backend = compile if isinstance(compile, str) else "inductor" if compile else ""
        split_here = next((s.number for s in self.plan.stages if self.plan.splits(s)), None)
        if backend and split_here is not None:
            raise ValueError(
                f"compile={compile!r}: the plan has B and W of stage {split_here} apart, and what "
                "torch.compile makes has one backward: take a schedule without W, such as 1f1b"
            )
        limit = limit_of(told, timeout, COMPILES if backend else LEAST)
        channels = Channels(self.me, self.device, limit)
        self.training = Pipeline(
            model, Calls(traced), self.plan, example_inputs, channels, self.alarm, backend
        )
        if not self.training.losses:
            raise ValueError("forward() has to give a loss, a number that a gradient comes from")
        self.training.post.open()
        self.sums = Sums(self.plan, model, self.device, limit)
        self.newer = False  # whether others may have updated what is here, too
        held = [part for stage in self.plan.stages for part in stage.parts]
        self.own = Own(model, self.training.parts, held, self.device)
        self.nothing = nn.Parameter(torch.zeros(1, device=self.device))
        self.own.names[id(self.nothing)] = []
        self.inputs = self.training.inputs
        self.evaluator = Evaluator(self.training, parts_of)
        self.rounds = Rounds(self.training, parts_of, partial(read_plan, told))
        self.rounds.made[self.rounds.sizes.parts] = self.training

    @property
    def timeline(self) -> list[tuple[str, float, float]]:
        """The jobs of the last step with as many microbatches as the plan has, in this process, and
        when by its clock each began and ended."""
        return self.training.timeline

    def parameters(self) -> list[nn.Parameter]:
        """Those of this process's stages, or its share of them if replicas divide the optimizer's
        state: what its optimizer has to train. Where nothing is to train, a number 0 whose gradient
        is 0 is the last of them, since optimizers and scalers refuse to have none."""
        own = [p for p in self.own.parameters() if id(p) not in self.sums.elsewhere]
        return own if self.sums.updates else [*own, self.nothing]

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The same with their names in the model, a shared one by the first of them, and that 0 as
        nothing."""
        return (([*self.own.names[id(p)], "nothing"][0], p) for p in self.parameters())

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

    def save(
        self, path: Path | str, optimizer: torch.optim.Optimizer | None = None, **more: Any
    ) -> None:
        """Writes a folder of torch.distributed.checkpoint, which all processes see: each the tensors
        of its own stages and its optimizer's state of them. Every process has to call it. The
        folder has its name once all of it is there.

        more: whatever is the same in every process and has state_dict() and load_state_dict(), such
        as a scheduler, a scaler or a loader, by a name."""

        def ready() -> tuple[Path, dict[str, Any]]:
            self.own.check("save()")
            check_names(more)
            rest = self.own.rest if self.me == 0 else {}
            return place(Path(path), self.me), {**contents(self.own, rest, optimizer), **more}

        self._renew()
        part, state = self._agreed(ready)
        self._agreed(lambda: write(state, part))
        self._agreed(lambda: part.rename(path) if self.me == 0 else None)

    def load(
        self, path: Path | str, optimizer: torch.optim.Optimizer | None = None, **more: Any
    ) -> None:
        """Reads what save() has written under any plan: tensors of this process's stages, also into
        a model on the meta device, the optimizer's state, and more. Every process has to call it.
        """

        def ready() -> Distributed:
            source = source_of(path)
            if not isinstance(source, Distributed):
                raise ValueError(f"load(): {path} is a file: materialise(checkpoint=) reads it")
            self.own.check_names(source)
            check_names(more)
            return source

        source = self._agreed(ready)

        def read() -> None:
            self.own.materialise(None, path)
            if optimizer is not None:
                load_optimizer(source, self.own, optimizer)
            load_more(source, more)

        self.own.old.update(self.own.others)
        self._agreed(read)

    def _agreed(self, work: Callable[[], Any]) -> Any:
        """What it gives, once all processes have it; if it fails in one, all refuse."""
        made, why = attempt(work)
        self.alarm.agree(why, autocast_of(self.device), self.device)
        return made

    @torch.no_grad()
    def collect(self) -> None:
        """Parameters and buffers of all stages, as the processes that train them have them."""
        if self.own.partial:
            raise ValueError("collect(): the model was made on the meta device, for want of memory")
        self._renew()
        self._agreed(lambda: self.own.check("collect()"))
        for stage in self.plan.stages:
            owner = self.plan.where[Job(stage.number, "F", 0)]
            for part in stage.parts:
                for name in sorted(part.tensors):
                    whole = part.tensors[name].data.contiguous()
                    dist.broadcast(whole, owner)
                    part.tensors[name].data.copy_(whole)
        self.own.old.clear()

    # ---- a step ----

    def step(self, batch: Inputs, scaler: torch.amp.GradScaler | None = None) -> float:
        """The loss: the mean of those of the microbatches. Gradients are added to those that are
        there. Of a batch of another size, such as a last one, the last microbatch may be smaller;
        each then counts by its samples.

        scaler: gradients are those of the loss times its scale; if one of any process is infinite,
        all processes skip their next scaler.step()."""
        self._renew()
        rounds, scale = self.rounds.agreed(batch, self._check), 1.0
        if scaler is not None:
            scale = scaler.scale(torch.ones((), device=self.device)).item()
        self.sums.begin()
        with self.alarm.watch(self._close), torch.enable_grad():
            loss = torch.zeros((), dtype=torch.float64, device=self.device)
            for each in rounds:
                loss += each.pipeline.run(each.given, each.share, scale)
            self.alarm.enter("after its jobs, adds up gradients and losses")
            self.sums.end()
            self.nothing.grad = torch.zeros_like(self.nothing)
            dist.all_reduce(loss, group=self.sums.all)
            if scaler is not None:
                self.sums.spread([p.grad for p in self.parameters() if p.grad is not None])
        self.own.old.update(self.own.others, self._shared())
        self.newer = self.plan.divides
        return loss.item()

    def evaluate(
        self, batch: Inputs, metric: Callable[[Any, Inputs], Any] | None = None
    ) -> Evaluation:
        """The forward pass alone, in eval mode and without gradients, of a batch of any size.
        Training is not disturbed: modes, buffers, random numbers and gradients stay as they are.
        Every process has to call it.

        metric(outputs, inputs): a number, for what forward() returns of a microbatch; it is called
        where that is made, and the sum is everywhere. Outputs are then not kept."""
        self._renew()
        found = self.evaluator.run(batch, metric, self.own, self.sums, self._close)
        if self.newer:
            self.own.old.update(self._shared())
        return found

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

    def _shared(self) -> set[str]:
        """Names of what this process has, and another updates."""
        return {name for key in self.sums.elsewhere for name in self.own.names[key]}

    @torch.no_grad()
    def _renew(self) -> None:
        """What another process has updated since the last step, if replicas divide that."""
        if self.newer:
            with self.alarm.watch(self._close):
                self.alarm.enter("gives others what it has updated")
                self.sums.renew()
            self.own.old.difference_update(self._shared())

    def _check(self) -> None:
        """Before a step."""
        if modes_of(self.model) != self.modes:
            raise ValueError("train() or eval() was called on the model: make a new Runner")
        self.own.check("step()")

    def _close(self) -> None:
        self.training.post.close()
        self.sums.close()

    def _meet(self) -> None:
        """Nobody comes out before all have come in."""
        all_there = torch.zeros(1, device=self.device)
        dist.all_reduce(all_there)
        all_there.item()

    def measured(self) -> dict[str, Any]:
        """That timeline of all workers, by one clock, from 0: what `orrery simulate --measured`
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


def modes_of(model: nn.Module) -> list[bool]:
    return [m.training for m in model.modules()]


def run(
    plan: Path | str | Mapping[str, Any], model: nn.Module, batch: Inputs, **options: Any
) -> float:
    """One step of a Runner: the loss; the gradients are in the parameters of this process."""
    told = plan_of(plan)
    example = cut(batch, int(told["microbatches"]))[0]
    return Runner(told, model, example, **options).step(batch)
