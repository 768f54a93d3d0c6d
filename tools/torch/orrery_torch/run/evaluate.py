"""The forward pass alone: the model traced again in eval mode, in the stages of its plan."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from ..costs.costs import Values
from ..trace.parts import Part
from ..trace.trace import Inputs, Trace, unchanged
from .own import Own
from .pipeline import Pipeline
from .plan import Job, laid_over
from .rounds import Round, Rounds
from .sums import Sums


@dataclass
class Evaluation:
    """loss: the mean over the samples, the same everywhere; NaN of a model that gives none in eval
    mode. metric: the sum over microbatches, the same everywhere. outputs: what forward() returns of
    each microbatch, None in place of what other processes have; none are kept for a metric."""

    loss: float = float("nan")
    metric: float = 0.0
    outputs: list[Any] = field(default_factory=list)


class Evaluator(Rounds):
    """In the stages of the plan of training."""

    def __init__(self, training: Pipeline, parts_of: Callable[[Trace], list[Part]]) -> None:
        super().__init__(training, parts_of, partial(laid_over, training.plan))

    def run(
        self,
        batch: Inputs,
        metric: Callable[[Any, Inputs], Any] | None,
        own: Own,
        sums: Sums,
        close: Callable[[], None],
    ) -> Evaluation:
        def check(pipeline: Pipeline) -> None:
            if metric:
                check_results(pipeline)

        with undisturbed(self.training.model):
            rounds = self.agreed(batch, lambda: own.check("evaluate()"), check)
            with self.training.alarm.watch(close):
                return self._evaluate(rounds, metric, sums)

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
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Eval mode without gradients; modes, buffers and random numbers are afterwards what they were.
    No train() or eval() of the model's own is called, which may do more than that."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        with unchanged(model), torch.no_grad():
            for module, _ in modes:
                module.training = False
            yield
    finally:
        for module, training in modes:
            module.training = training
