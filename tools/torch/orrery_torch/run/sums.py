"""What processes add up after a step: gradients of parameters that several have, norms, and whether
a gradient is infinite."""

import math
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .plan import Job, Plan
from .post import give_up


class Sums:
    """limit: how long one waits for another."""

    def __init__(
        self, plan: Plan, model: nn.Module, device: torch.device, limit: timedelta
    ) -> None:
        self.device, self.all = device, dist.new_group(timeout=limit)
        me, order = dist.get_rank(), {id(p): i for i, p in enumerate(model.parameters())}
        held = sorted(holders(plan).items(), key=lambda h: order[h[0]])
        sets = sorted({workers for _, (_, workers) in held if len(workers) > 1})
        groups = {workers: dist.new_group(list(workers), limit) for workers in sets}
        updaters = divided([each for _, each in held]) if plan.divides else {}
        mine = [(t, w) for _, (t, w) in held if me in w]
        # of several processes; and who alone updates it, if they divide that
        self.common = [(t, groups[w], updaters.get(id(t))) for t, w in mine if len(w) > 1]
        self.counted = [t for t, w in mine if updaters.get(id(t), w[0]) == me]  # each in one process
        self.elsewhere = {id(t) for t, _, updater in self.common if updater not in (None, me)}
        self.updates = any(id(t) not in self.elsewhere for t, _ in mine)

    def close(self) -> None:
        for group in dict.fromkeys([self.all, *(group for _, group, _ in self.common)]):
            give_up(group, self.device)
        self.all, self.common = None, []

    def begin(self) -> None:
        """Puts aside gradients that are there already: others have them, too."""
        self.before = [p.grad for p, _, _ in self.common]
        for p, _, _ in self.common:
            p.grad = None

    def end(self) -> None:
        for (p, group, updater), there in zip(self.common, self.before):
            g = torch.zeros_like(p) if p.grad is None else p.grad
            g = g.contiguous()
            if updater is None:
                dist.all_reduce(g, group=group)
            else:
                dist.reduce(g, updater, group=group)
            if id(p) in self.elsewhere:
                p.grad = None
            else:
                p.grad = g if there is None else there.add_(g)

    def renew(self) -> None:
        """What one process has updated, for all that have it."""
        for p, group, updater in self.common:
            if updater is not None:
                whole = p.data.contiguous()
                dist.broadcast(whole, updater, group=group)
                p.data.copy_(whole)

    def spread(self, gradients: list[Tensor]) -> None:
        """If a gradient of any process is infinite or no number, all are: every GradScaler then
        finds that, and skips its step."""
        bad = torch.zeros((), device=self.device)
        for g in gradients:
            bad += 1 - g.isfinite().all().to(bad.dtype)
        dist.all_reduce(bad, group=self.all)
        if bad.item():
            for g in gradients:
                g.fill_(math.inf)

    def norm(self, kind: float) -> Tensor:
        """Of the gradients of all processes, those of each parameter once."""
        own = [p.grad for p in self.counted if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(own, kind).to(self.device, torch.float32)
        if math.isinf(kind):
            dist.all_reduce(norm, dist.ReduceOp.MAX, group=self.all)
            return norm
        norm = norm**kind
        dist.all_reduce(norm, group=self.all)
        return norm ** (1 / kind)


def holders(plan: Plan) -> dict[int, tuple[Tensor, tuple[int, ...]]]:
    """Each trained parameter, and the workers that have it."""
    found: dict[int, tuple[Tensor, set[int]]] = {}
    for stage in plan.stages:
        workers = {plan.where[Job(stage.number, "F", b)] for b in range(plan.microbatches)}
        for t in (t for part in stage.parts for t in part.trained):
            found.setdefault(id(t), (t, set()))[1].update(workers)
    return {key: (t, tuple(sorted(w))) for key, (t, w) in found.items()}


def divided(held: list[tuple[Tensor, tuple[int, ...]]]) -> dict[int, int]:
    """Which of its workers updates each parameter: the one that has the least to update so far, the
    largest first, after those that only one can update."""
    load: dict[int, int] = {}
    found = {}
    for t, workers in sorted(held, key=lambda h: (len(h[1]) > 1, -h[0].nbytes)):
        found[id(t)] = least = min(workers, key=lambda w: (load.get(w, 0), w))
        load[least] = load.get(least, 0) + t.nbytes
    return found
