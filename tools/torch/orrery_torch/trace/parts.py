"""The operators of a traced module: its calls, put together by the modules that make them."""

import operator
import re
from dataclasses import dataclass, field

from torch import Tensor, fx, nn

from .trace import Trace, function_of

LEVELS = ("module", "aten")


@dataclass
class Part:
    """Calls that run as one: those of a module, or one alone and the views of what it gives."""

    name: str
    kind: str  # the module's type or the function's name
    owner: str  # the path of the module that makes the calls
    calls: list[fx.Node]
    number: int  # in the order in which they run
    tensors: dict[str, Tensor] = field(default_factory=dict)  # parameters and buffers it reads
    reads: list[fx.Node] = field(default_factory=list)  # of other parts and of the model's inputs
    gives: list[fx.Node] = field(default_factory=list)  # to other parts, or as the model's result

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        return {name: t for name, t in self.tensors.items() if isinstance(t, nn.Parameter)}

    @property
    def trained(self) -> list[nn.Parameter]:
        return [p for p in self.parameters.values() if p.requires_grad]

    @property
    def module(self) -> str:
        """The path of its module, whichever call of it this is."""
        return re.sub(r"@\d+", "", self.owner)


class Splitter:
    """Calls that follow one another and have one owner are a part. Such a part is never on a way
    that leaves it and comes back, since the calls in between would stand between its own."""

    def __init__(self, trace: Trace, level: str, whole: tuple[type, ...]) -> None:
        self.trace, self.level, self.whole = trace, level, whole
        self.callers = {path for n in trace.calls for path, _ in trace.stack(n)[:-1]}
        self.parts: list[Part] = []
        self.of: dict[fx.Node, Part] = {}
        self.names: set[str] = set()

    def _path(self, node: fx.Node) -> str:
        stack = self.trace.stack(node)
        return stack[-1][0] if stack else ""

    def _module(self, node: fx.Node) -> tuple[str, str] | None:
        """The module whose calls are one part: its path and its type."""
        stack = self.trace.stack(node)
        for path, kind in stack:
            if issubclass(kind, self.whole):
                return path, kind.__name__
        if self.level == "aten" or not stack or stack[-1][0] in self.callers:
            return None
        path, kind = stack[-1]
        return path, kind.__name__

    def _begin(self, name: str, kind: str, owner: str, node: fx.Node) -> None:
        base, again = name, 1
        while name in self.names:
            again += 1
            name = f"{base}_{again}"
        self.names.add(name)
        self.of[node] = Part(name, kind, owner, [node], len(self.parts))
        self.parts.append(self.of[node])

    def _viewed(self, node: fx.Node) -> Part | None:
        """The part that a view looks at, where it looks at nothing else."""
        read = [n for n in node.all_input_nodes if n.op != "get_attr"]
        owners = {id(self.of[n]): self.of[n] for n in read if n in self.of}
        if self.trace.only_looks(node) and len(owners) == 1 and all(n in self.of for n in read):
            return next(iter(owners.values()))
        return None

    def _counts(self, node: fx.Node) -> Part | None:
        """The part before a call that nothing joins to others, such as a batch norm's count of its batches: alone it
        would be in no connected stage."""
        alone = not node.users and all(n.op == "get_attr" for n in node.all_input_nodes)
        return self.parts[-1] if alone and self.parts else None

    def split(self) -> list[Part]:
        running = None  # the module that the last call belongs to
        for node in self.trace.calls:
            module, joined = self._module(node), self._viewed(node) or self._counts(node)
            if module and module == running:
                part = self.parts[-1]
            elif joined and (not module or node.target is operator.getitem):
                module, part = None, joined
            else:
                path = module[0] if module else self._path(node)
                name, kind = module or (self._call_name(node), function_of(node))
                self._begin(name, kind, path, node)
                running = module
                continue
            part.calls.append(node)
            self.of[node] = part
            running = module
        self._connect()
        return self.parts

    def _call_name(self, node: fx.Node) -> str:
        path = self._path(node)
        return f"{path}.{function_of(node)}" if path else function_of(node)

    def _connect(self) -> None:
        for part in self.parts:
            reads: dict[fx.Node, None] = {}
            for node in part.calls:
                part.tensors |= self.trace.owned(node)
                for n in node.all_input_nodes:
                    if n.op != "get_attr" and self.of.get(n) is not part:
                        reads[n] = None
            part.reads = list(reads)
            results = self.trace.results
            part.gives = [
                n
                for n in part.calls
                if n in results or any(u.op != "output" and self.of[u] is not part for u in n.users)
            ]


def split(trace: Trace, level: str = "module", whole: tuple[type, ...] = ()) -> list[Part]:
    """Operators: an innermost module or, with level="aten", a call; of the types in `whole`, all
    that a module does."""
    if level not in LEVELS:
        raise ValueError(f"level={level!r}: one of {', '.join(LEVELS)}")
    return Splitter(trace, level, whole).split()
