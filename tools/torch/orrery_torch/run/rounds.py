"""A batch of any size, as rounds of microbatches of one size each: what is left over at its end is
the last one."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from ..costs.costs import Calls, Values
from ..trace.changes import check_changes, check_moved, parted
from ..trace.parts import Part
from ..trace.trace import Inputs, Trace, unchanged
from .alarm import attempt
from .batch import Sizes
from .pipeline import Pipeline, autocast_of, uncast
from .plan import Plan


class Round(NamedTuple):
    """Microbatches of one size, as many as the plan has at most."""

    pipeline: Pipeline
    inputs: list[Inputs]
    given: list[Values]
    share: float  # of each in the mean


class Rounds:
    """parts_of, lay: the operators and the plan, for another trace of the model. training: the pipeline of the example's
    size, whose channels all take turns in."""

    def __init__(
        self, training: Pipeline, parts_of: Callable[[Trace], list[Part]], lay: Callable[[Trace, list[Part]], Plan]
    ) -> None:
        self.training, self.parts_of, self.lay, self.sizes = training, parts_of, lay, Sizes(training.example)
        self.made: dict[int, Pipeline] = {}  # by the parts of their microbatches: Sizes

    def agreed(
        self,
        batch: Inputs,
        before: Callable[[], None],
        check: Callable[[Pipeline], None] = lambda _: None,
    ) -> list[Round]:
        """What to run, once all processes have a batch of one size that they can run."""
        alarm, device = self.training.alarm, self.training.device
        usual = self.sizes.parts * self.training.plan.microbatches

        def ready() -> tuple[int, list[Round]]:
            before()
            count = self.sizes.count(batch)
            return count, list(self._rounds(batch, usual if count < 0 else count, check))

        made, why = attempt(ready)
        count, rounds = made or (-1, [])
        parts = alarm.agree(why, autocast_of(device), device, count)
        if parts not in (-1, usual):  # where nothing of it is read, that is news
            if count < 0:
                again, why = attempt(lambda: list(self._rounds(batch, parts, check)))
                rounds = again or []
            alarm.agree(why, autocast_of(device), device)
        for each in rounds:
            if each.pipeline is not self.training:
                each.pipeline.post.open()
        return rounds

    def _rounds(
        self, batch: Inputs, parts: int, check: Callable[[Pipeline], None]
    ) -> Iterator[Round]:
        size, most = self.sizes.parts, self.training.plan.microbatches
        begins = list(range(0, parts - parts % size, size))
        groups = [(begins[i : i + most], size) for i in range(0, len(begins), most)]
        if parts % size:
            groups.append(([parts - parts % size], parts % size))
        for each, long in groups:
            inputs = [self.sizes.piece(batch, b, b + long) for b in each]
            pipeline = self._pipeline(long)
            check(pipeline)
            yield Round(pipeline, inputs, pipeline.given(inputs), long / parts)

    def _pipeline(self, parts: int) -> Pipeline:
        """The one for microbatches of this size, traced when the first comes."""
        if parts not in self.made:
            train = self.training
            example = self.sizes.piece(train.example, 0, parts)
            fast = torch.backends.mha.get_fastpath_enabled()
            torch.backends.mha.set_fastpath_enabled(False)  # one call in place of a layer's modules
            try:
                with unchanged(train.model), uncast(train.device):
                    traced, operators = parted(train.model, example, self.parts_of, train.device)
            finally:
                torch.backends.mha.set_fastpath_enabled(fast)
            check_changes(traced, operators)
            plan = self.lay(traced, operators)
            check_moved(traced, [stage.parts for stage in plan.stages])
            self.made[parts] = Pipeline(train.model, Calls(traced), plan, example, train.post.channels, train.alarm)
        return self.made[parts]
