"""One stage of a model and one microbatch: F, B and W on the user's own modules."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, fx, nn

from ..costs.costs import Calls, Values, changes_input, tensors_in
from ..trace.parts import Part
from .plan import Stage


class Ready:
    """A part with what is the same at every run: parameters, buffers and other constants of its
    calls, and whether one of them changes what it reads."""

    def __init__(self, calls: Calls, part: Part) -> None:
        self.part, self.trained = part, trained_of(part)
        read = dict.fromkeys(n for call in part.calls for n in call.all_input_nodes)
        self.constants = {n: calls.constants[n] for n in read if n.op == "get_attr"}
        self.buffers = {
            n: t
            for n, t in self.constants.items()
            if isinstance(t, Tensor) and not isinstance(t, nn.Parameter)
        }
        self.changes = changes_input(calls.trace, part)


def copies_of(buffers: Values) -> Values:
    return {n: t.clone() for n, t in buffers.items()}


@dataclass
class Link:
    """A part that has run: what it read and gave, and the gradients of that for W."""

    ready: Ready
    leaves: dict[fx.Node, Tensor]
    outputs: list[tuple[fx.Node, Tensor]]
    incoming: list[Tensor] = field(default_factory=list)
    reached: list[Tensor] = field(default_factory=list)


class Random:
    """Where the generators of random numbers stand."""

    def __init__(self) -> None:
        self.here = torch.get_rng_state()
        self.device = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None

    def again(self) -> None:
        torch.set_rng_state(self.here)
        if self.device is not None:
            torch.cuda.set_rng_state(self.device)


class Pass:
    """What F of a stage keeps for B and W. Every part of it is a graph of autograd of its own, so
    that W computes the gradients of parameters and nothing again that B has computed."""

    def __init__(
        self, calls: Calls, stage: Stage, parts: list[Ready], given: Values, inputs: Values
    ) -> None:
        self.calls, self.stage, self.parts = calls, stage, parts
        self.given, self.inputs = given, inputs  # data, and what comes from other stages
        self.links: list[Link] = []
        self.outputs: dict[fx.Node, Tensor] = {}
        self.random = Random() if stage.recompute else None
        self.buffers: list[Values] = []  # as they were, of each part, where F runs again

    def forward(self) -> None:
        values = {**self.given, **self.inputs}
        for part in self.parts:
            if self.stage.recompute:
                self.buffers.append(copies_of(part.buffers))
            for buffer, moved in self._run(part, values, part.buffers):
                buffer.data.copy_(moved)
        self.outputs = {n: values[n] for n in self.stage.gives}
        if self.stage.recompute:
            self.links = []

    def again(self) -> None:
        """F once more, with the random numbers and the buffers that it had."""
        assert self.random is not None
        now = Random()
        self.random.again()
        values = {**self.given, **self.inputs}
        for part, buffers in zip(self.parts, self.buffers):
            self._run(part, values, buffers)
        now.again()

    def _run(self, ready: Ready, values: Values, buffers: Values) -> list[tuple[Tensor, Tensor]]:
        """Its buffers, and copies of them that it has moved: autograd may keep such a copy, while
        other microbatches move the buffer."""
        part = ready.part
        reads = {n: values[n] for n in part.reads}
        leaves = {
            n: t.detach().requires_grad_()
            for n, t in reads.items()
            if isinstance(t, Tensor) and t.requires_grad
        }
        for n, value in reads.items():
            if n not in leaves and any(t.requires_grad for t in tensors_in(value)):
                raise ValueError(
                    f"{part.name} reads {n.name}, several tensors at once: name a module "
                    "around both in whole="
                )
        copies = copies_of(buffers)
        own = {**reads, **leaves, **ready.constants, **copies}
        if ready.changes:
            own |= {n: own[n].clone() for n in part.reads if isinstance(own[n], Tensor)}
        self.calls.run(part.calls, own)
        given = [(n, own[n]) for n in part.gives]
        outputs = [(n, t) for n, t in given if isinstance(t, Tensor) and t.requires_grad]
        self.links.append(Link(ready, leaves, outputs))
        values |= dict(given)
        return [(t, copies[n]) for n, t in ready.buffers.items()]

    def backward(self, gradients: dict[fx.Node, Tensor], split: bool) -> dict[fx.Node, Tensor]:
        """From the gradients of its outputs to those of what it read, and, unless W does that, into
        the parameters."""
        for link in reversed(self.links):
            reached = [(t, gradients[n]) for n, t in link.outputs if n in gradients]
            link.reached = [t for t, _ in reached]
            link.incoming = [g for _, g in reached]
            trained = [] if split else link.ready.trained
            wanted = [*link.leaves.values(), *trained]
            if not reached or not wanted:
                continue
            found = torch.autograd.grad(
                link.reached, wanted, link.incoming, retain_graph=split, allow_unused=True
            )
            for n, g in zip(link.leaves, found):
                if g is not None:
                    gradients[n] = gradients[n] + g if n in gradients else g
            accumulate(trained, found[len(link.leaves) :])
        return {n: gradients[n] for n in self.stage.reads if n in gradients}

    def weights(self) -> None:
        for link in self.links:
            trained = link.ready.trained
            if link.reached and trained:
                found = torch.autograd.grad(link.reached, trained, link.incoming, allow_unused=True)
                accumulate(trained, found)


def trained_of(part: Part) -> list[Tensor]:
    return [t for t in part.tensors.values() if isinstance(t, nn.Parameter) and t.requires_grad]


def accumulate(parameters: list[Tensor], gradients: tuple[Tensor | None, ...]) -> None:
    for p, g in zip(parameters, gradients):
        if g is not None:
            p.grad = g.clone() if p.grad is None else p.grad.add_(g)
