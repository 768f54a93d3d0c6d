"""One stage of a model and one microbatch: F, B and W on the user's own modules."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

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
        alone = [bool(part.trained) for part in parts].count(True) == 1 and parts[0].trained
        self.learns = parts[0].gives if alone else []  # what W begins with
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
            if part is parts[0]:  # others read a view of it, whose gradient has nothing of its own calls'
                copies |= {n: graph.call_function(viewed, (copies[n],)) for n in self.learns}
        graph.output(tuple(copies[n] for n in (*self.gives, *self.learns)))
        module = fx.GraphModule(calls.trace.module, graph)
        self.run: Callable[..., Any] = module.forward
        if backend:
            self.run = torch.compile(module, backend=backend, dynamic=False)


def clone(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def viewed(value: Any) -> Any:
    return changed(lambda t: t.view_as(t), value)


def copies_of(buffers: Values) -> Values:
    return {n: t.clone() for n, t in buffers.items()}


Key = Any  # what a gradient is of: a node, or a node and a place among several tensors


def keyed(n: fx.Node, value: Any) -> list[tuple[Key, Tensor]]:
    """The tensors of a value that have gradients."""
    if isinstance(value, Tensor):
        return [(n, value)] if value.requires_grad else []
    return [((n, i), t) for i, t in enumerate(tensors_in(value)) if t.requires_grad]


@dataclass
class Link:
    """What has run as one: what it read, where its graph of autograd gives what others read, and
    where that of its operator with parameters does, with the gradients there, for W."""

    ready: Ready
    leaves: dict[Key, Tensor]
    outputs: list[tuple[Key, GradientEdge]]
    learns: list[GradientEdge]
    slopes: list[Tensor | None] = field(default_factory=list)


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
    autograd. Where they are two every part with parameters to train begins one of its own, and B
    leaves the gradients of what that part gives, so that W computes those of its parameters and
    nothing again that B has computed."""

    def __init__(self, stage: Stage, parts: list[Ready], given: Values, inputs: Values) -> None:
        self.stage, self.parts = stage, parts
        self.given, self.inputs = given, inputs  # data, and what comes from other stages
        self.links: list[Link] = []
        self.random = Random() if stage.recompute else None
        self.buffers: list[Values] = []  # as they were, of each part, where F runs again

    def forward(self) -> dict[fx.Node, Tensor]:
        """What it gives."""
        values = {**self.given, **self.inputs}
        for part in self.parts:
            if self.stage.recompute:
                self.buffers.append(copies_of(part.buffers))
            for buffer, moved in self._run(part, values, part.buffers):
                buffer.data.copy_(moved)
        if self.stage.recompute:
            self.links = []
        return {n: values[n] for n in self.stage.gives}

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
            own = {id(t): (key, t.detach().requires_grad_()) for key, t in keyed(n, reads[i])}
            if own:
                reads[i] = changed(lambda t: own[id(t)][1] if id(t) in own else t, reads[i])  # noqa: B023 at once
                leaves |= own.values()
        copies = copies_of(buffers)
        found = ready.run(*reads, *ready.constants, *copies.values())
        made = dict(zip(ready.gives, found))
        outputs = [(key, get_gradient_edge(t)) for n, value in made.items() for key, t in keyed(n, value)]
        learns = zip(ready.learns, found[len(made) :])
        edges = [get_gradient_edge(t) for n, value in learns for _, t in keyed(n, value)]
        self.links.append(Link(ready, leaves, outputs, edges))
        values |= made
        return [(t, copies[n]) for n, t in ready.buffers.items()]

    def backward(self, gradients: dict[Key, Tensor], split: bool) -> dict[fx.Node, Tensor]:
        """From the gradients of its outputs to those of what it read, and, unless W does that, into
        the parameters."""
        for link in reversed(self.links):
            reached = [(edge, gradients.pop(n)) for n, edge in link.outputs if n in gradients]
            edges, incoming = [e for e, _ in reached], [g for _, g in reached]
            leaves = list(link.leaves.values())
            wanted = leaves + (link.learns if split else link.ready.trained)
            if not reached or not wanted:
                continue
            if split:
                found = torch.autograd.grad(edges, wanted, incoming, retain_graph=True, allow_unused=True)
                link.slopes = list(found[len(leaves) :])
            else:
                torch.autograd.backward(edges, incoming, inputs=wanted)
                found = tuple(t.grad for t in leaves)
            for n, g in zip(link.leaves, found):
                if g is not None:
                    gradients[n] = gradients[n] + g if n in gradients else g
        return {n: gradients[n] for n in self.stage.reads if n in gradients}

    def weights(self) -> None:
        """All graphs in one call."""
        pairs = [(e, g) for link in self.links for e, g in zip(link.learns, link.slopes) if g is not None]
        trained = {id(p): p for link in self.links for p in link.ready.trained if link.slopes}
        if pairs:
            torch.autograd.backward([e for e, _ in pairs], [g for _, g in pairs], inputs=list(trained.values()))


def apart(parts: list[Part]) -> list[list[Part]]:
    """The graphs of a stage whose B and W are two jobs."""
    graphs: list[list[Part]] = []
    for part in parts:
        if part.trained or not graphs:
            graphs.append([])
        graphs[-1].append(part)
    return graphs
