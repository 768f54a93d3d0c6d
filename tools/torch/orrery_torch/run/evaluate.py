"""The forward pass alone: the model traced again in eval mode, in the stages of its plan."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..costs.costs import Calls, Values
from ..trace.changes import check_changes, check_moved
from ..trace.parts import split
from ..trace.trace import Inputs, trace
from .alarm import attempt
from .batch import Sizes
from .own import Own
from .pipeline import Pipeline, autocast_of, uncast
from .plan import Job, laid_over
from .post import Channels
from .sums import Sums


@dataclass
class Evaluation:
    """loss: the mean over the samples, the same everywhere; NaN of a model that gives none in eval
    mode. metric: the sum over microbatches, the same everywhere. outputs: what forward() returns of
    each microbatch, None in place of what other processes have; none are kept for a metric."""

    loss: float = float("nan")
    metric: float = 0.0
    outputs: list[Any] = field(default_factory=list)


class Round(NamedTuple):
    """Microbatches of one size, as many as the plan has at most."""

    pipeline: Pipeline
    inputs: list[Inputs]
    given: list[Values]
    share: float  # of each in the mean


class Evaluator:
    """training: the pipeline by whose plan, channels and example it runs."""

    def __init__(
        self, training: Pipeline, channels: Channels, level: str, whole: tuple[type[nn.Module], ...]
    ) -> None:
        self.training, self.channels, self.level, self.whole = training, channels, level, whole
        self.sizes = Sizes(training.example)
        self.made: dict[int, Pipeline] = {}  # by the parts of their microbatches: Sizes

    def run(
        self,
        batch: Inputs,
        metric: Callable[[Any, Inputs], Any] | None,
        own: Own,
        sums: Sums,
        close: Callable[[], None],
    ) -> Evaluation:
        model, device = self.training.model, self.training.device
        with undisturbed(model, device):
            rounds = self._agreed(batch, own, metric is not None)
            for each in rounds:
                each.pipeline.post.open()
            with self.training.alarm.watch(close):
                return self._evaluate(rounds, metric, sums)

    def _agreed(self, batch: Inputs, own: Own, metric: bool) -> list[Round]:
        """What to run, once all processes have a batch of one size that they can run."""
        alarm, device = self.training.alarm, self.training.device
        count, why = attempt(lambda: (own.check("evaluate()"), self.sizes.count(batch))[1])
        parts = alarm.agree(why, autocast_of(device), device, -1 if count is None else count)
        if parts < 0:  # of which nobody reads a tensor
            parts = self.sizes.parts * self.training.plan.microbatches
        rounds, why = attempt(lambda: list(self._rounds(batch, parts, metric)))
        alarm.agree(why, autocast_of(device), device)
        return rounds or []

    def _rounds(self, batch: Inputs, parts: int, metric: bool) -> Iterator[Round]:
        size, most = self.sizes.parts, self.training.plan.microbatches
        begins = list(range(0, parts - parts % size, size))
        groups = [(begins[i : i + most], size) for i in range(0, len(begins), most)]
        if parts % size:
            groups.append(([parts - parts % size], parts % size))
        for each, long in groups:
            inputs = [self.sizes.piece(batch, b, b + long) for b in each]
            pipeline = self._pipeline(long)
            if metric:
                check_results(pipeline)
            yield Round(pipeline, inputs, pipeline.given(inputs), long / parts)

    def _pipeline(self, parts: int) -> Pipeline:
        """The one for microbatches of this size, traced when the first comes."""
        if parts not in self.made:
            train = self.training
            example = self.sizes.piece(train.example, 0, parts)
            fast = torch.backends.mha.get_fastpath_enabled()
            torch.backends.mha.set_fastpath_enabled(False)  # one call in place of a layer's modules
            try:
                with torch.enable_grad(), uncast(train.device):
                    traced = trace(train.model, example, train.device)
            finally:
                torch.backends.mha.set_fastpath_enabled(fast)
            operators = split(traced, self.level, self.whole)
            check_changes(traced, operators)
            plan = laid_over(train.plan, traced, operators)
            check_moved(traced, [stage.parts for stage in plan.stages])
            self.made[parts] = Pipeline(
                train.model, Calls(traced), plan, example, self.channels, train.alarm
            )
        return self.made[parts]

    def _evaluate(
        self, rounds: list[Round], metric: Callable[[Any, Inputs], Any] | None, sums: Sums
    ) -> Evaluation:
        told = Evaluation()
        totals = torch.zeros(2, dtype=torch.float64, device=self.training.device)
        for pipeline, inputs, given, share in rounds:
            outputs: list[Any] = [pipeline.returned({})] * len(inputs)

            def done(b: int, values: Values) -> None:
                made = pipeline.returned({**given[b], **values})  # noqa: B023 called in this turn
                if metric is None:
                    outputs[b] = made  # noqa: B023
                else:
                    totals[1] += float(metric(made, inputs[b]))  # noqa: B023

            totals[0] += pipeline.run(given, share, done=done)
            told.outputs += outputs if metric is None else []
        self.training.alarm.enter("after its jobs, adds up losses and metrics")
        dist.all_reduce(totals, group=sums.all)
        loss, told.metric = totals.tolist()
        told.loss = loss if all(r.pipeline.losses for r in rounds) else told.loss
        return told


def check_results(pipeline: Pipeline) -> None:
    """A metric takes all that forward() returns, in one process."""
    plan = pipeline.plan
    made = [n for n in pipeline.calls.trace.results if n in plan.maker]
    for b in range(plan.microbatches):
        where = {n: plan.where[Job(plan.maker[n].number, "F", b)] for n in made}
        other = next((n for n in made if where[n] != where[made[0]]), None)
        if other is not None:
            raise ValueError(
                f"metric: forward() returns {made[0].name} and {other.name}, which two processes "
                "make: plan both in one stage, or take the outputs without a metric"
            )


@contextmanager
def undisturbed(model: nn.Module, device: torch.device) -> Iterator[None]:
    """Eval mode without gradients; modes, buffers and random numbers are afterwards what they were.
    No train() or eval() of the model's own is called, which may do more than that."""
    modes = [(module, module.training) for module in model.modules()]
    buffers: list[tuple[Tensor, Tensor]] = [(b, b.clone()) for b in model.buffers()]
    devices = [device] if device.type == "cuda" else []
    try:
        with torch.random.fork_rng(devices), torch.no_grad():
            for module, _ in modes:
                module.training = False
            yield
    finally:
        for module, training in modes:
            module.training = training
        with torch.no_grad():
            for buffer, before in buffers:
                buffer.copy_(before)
