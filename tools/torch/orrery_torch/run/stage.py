"""One stage of a model and one microbatch: F, B and W on the user's own modules."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..costs.costs import Calls, Values, changed, changes_input, tensors_in
from ..trace.parts import Part
from .plan import Stage


class Ready:
    """Parts that run as one, in one function of Python's, with what is the same at every run:
    parameters, buffers and other constants of their calls. backend: of torch.compile, if any."""

    def __init__(self, calls: Calls, parts: list[Part], backend: str = "") -> None:
        self.trained = list({id(t): t for part in parts for t in part.trained}.values())
        made = dict.fromkeys(n for part in parts for n in part.calls)
        given = [n for part in parts for n in part.gives]
        results = calls.trace.results
        self.gives = [n for n in given if n in results or any(u not in made for u in n.users)]
        self.reads = [n for n in dict.fromkeys(n for p in parts for n in p.reads) if n not in made]
        read = dict.fromkeys(n for call in made for n in call.all_input_nodes if n.op == "get_attr")
        tensors = {n: calls.constants[n] for n in read if isinstance(calls.constants[n], Tensor)}
        self.parameters = {n: t for n, t in tensors.items() if isinstance(t, nn.Parameter)}
        self.buffers = {n: t for n, t in tensors.items() if n not in self.parameters}
        self.constants = list(self.parameters.values())

        graph = fx.Graph()
        holes = [*self.reads, *self.parameters, *self.buffers]
        copies = {n: graph.placeholder(n.name) for n in holes}
        copies |= {n: graph.node_copy(n) for n in read if n not in tensors}
        for part in parts:
            own = {}  # of what it changes: autograd forbids that of a leaf, and others read it
            if changes_input(calls.trace, part):
                own = {n: graph.call_function(clone, (copies[n],)) for n in part.reads}
            for call in part.calls:
                now = {**copies, **own}
                copies[call] = graph.node_copy(call, now.__getitem__)
        graph.output(tuple(copies[n] for n in self.gives))
        module = fx.GraphModule(calls.trace.module, graph)
        self.run: Callable[..., Any] = module.forward
        if backend:
            self.run = torch.compile(module, backend=backend, dynamic=False)


def clone(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def copies_of(buffers: Values) -> Values:
    return {n: t.clone() for n, t in buffers.items()}


Key = Any  # what a gradient is of: a node, or a node and a place among several tensors


def keyed(n: fx.Node, value: Any) -> list[tuple[Key, Tensor]]:
    """The tensors of a value that have gradients."""
    several = [((n, i), t) for i, t in enumerate(tensors_in(value))] if not isinstance(value, Tensor) else [(n, value)]
    return [(key, t) for key, t in several if t.requires_grad]


@dataclass
class Link:
    """What has run as one: what it read and gave, and the gradients of that for W."""

    ready: Ready
    leaves: dict[Key, Tensor]
    outputs: list[tuple[Key, Tensor]]
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
    """What F of a stage keeps for B and W. A stage whose B and W are one job is one graph of
    autograd. Where they are two every part with parameters to train is one of its own, so that W
    computes the gradients of those and nothing again that B has computed."""

    def __init__(self, stage: Stage, parts: list[Ready], given: Values, inputs: Values) -> None:
        self.stage, self.parts = stage, parts
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
        leaves: dict[Key, Tensor] = {}
        reads = [values[n] for n in ready.reads]
        for i, n in enumerate(ready.reads):
            own = {key: t.detach().requires_grad_() for key, t in keyed(n, reads[i])}
            if own:
                in_place = {id(t): own[key] for key, t in keyed(n, reads[i])}
                reads[i] = changed(lambda t: in_place.get(id(t), t), reads[i])  # noqa: B023 at once
                leaves |= own
        copies = copies_of(buffers)
        made = dict(zip(ready.gives, ready.run(*reads, *ready.constants, *copies.values())))
        outputs = [each for n, value in made.items() for each in keyed(n, value)]
        self.links.append(Link(ready, leaves, outputs))
        values |= made
        return [(t, copies[n]) for n, t in ready.buffers.items()]

    def backward(self, gradients: dict[Key, Tensor], split: bool) -> dict[fx.Node, Tensor]:
        """From the gradients of its outputs to those of what it read, and, unless W does that, into
        the parameters."""
        for link in reversed(self.links):
            reached = [(t, gradients[n]) for n, t in link.outputs if n in gradients]
            link.reached = [t for t, _ in reached]
            link.incoming = [g for _, g in reached]
            leaves = list(link.leaves.values())
            wanted = leaves if split else leaves + link.ready.trained
            if not reached or not wanted:
                continue
            if split:
                found = torch.autograd.grad(
                    link.reached, leaves, link.incoming, retain_graph=True, allow_unused=True
                )
            else:
                torch.autograd.backward(link.reached, link.incoming, inputs=wanted)
                found = tuple(t.grad for t in leaves)
            for n, g in zip(link.leaves, found):
                if g is not None:
                    gradients[n] = gradients[n] + g if n in gradients else g
        return {n: gradients[n] for n in self.stage.reads if n in gradients}

    def weights(self) -> None:
        """All graphs in one call."""
        links = [link for link in self.links if link.reached and link.ready.trained]
        reached = [t for link in links for t in link.reached]
        incoming = [g for link in links for g in link.incoming]
        trained = {id(p): p for link in links for p in link.ready.trained}
        if reached:
            torch.autograd.backward(reached, incoming, inputs=list(trained.values()))


def apart(parts: list[Part]) -> Iterator[list[Part]]:
    """The graphs of a stage whose B and W are two jobs."""
    for trains, run in groupby(parts, lambda part: bool(part.trained)):
        yield from ([part] for part in run) if trains else [list(run)]
