"""What a model does that is lost where its calls run apart: changes in place that others see, since
parts have tensors of their own, and backwards of its own."""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx, nn

from .parts import Part
from .trace import Inputs, Trace, attribute, function_of, trace


def schema_of(node: fx.Node) -> torch.FunctionSchema | None:
    return node.target._schema if isinstance(node.target, torch._ops.OpOverload) else None


def given(node: fx.Node) -> Iterator[tuple[torch.Argument, Any]]:
    """The arguments of a call of ATen, and what it has for each."""
    schema = schema_of(node)
    for i, a in enumerate(schema.arguments if schema else ()):
        value = node.kwargs.get(a.name, a.default_value)
        yield a, node.args[i] if i < len(node.args) else value


def arguments(node: fx.Node) -> Iterator[tuple[torch.Argument, fx.Node]]:
    """Those that are nodes."""
    for a, value in given(node):
        for n in value if isinstance(value, (tuple, list)) else [value]:
            if isinstance(n, fx.Node):
                yield a, n


def written(trace: Trace, node: fx.Node) -> list[fx.Node]:
    """What a call changes."""
    if schema_of(node):
        return [n for a, n in arguments(node) if a.alias_info and a.alias_info.is_write]
    name = function_of(node)
    if node.op == "call_module":
        module = trace.module.get_submodule(str(node.target))
        changes = bool(getattr(module, "inplace", False))
    else:
        changes = (
            (name.endswith("_") and not name.endswith("__"))
            or node.target is operator.setitem
            or bool(node.kwargs.get("inplace"))
        )
    return node.all_input_nodes[:1] if changes else []


def looks_at(trace: Trace, node: fx.Node) -> fx.Node | None:
    """The node whose memory its value lies in."""
    schema = schema_of(node)
    if schema:
        sets = [r.alias_info.before_set for r in schema.returns if r.alias_info]
        shared = [n for a, n in arguments(node) if a.alias_info and a.alias_info.before_set in sets]
        return shared[0] if shared else None
    made = schema_of(node.args[0]) if node.target is operator.getitem else None
    if made and len(made.returns) > 1 and not any(r.alias_info for r in made.returns):
        return None  # of several tensors, each has memory of its own
    if node.op.startswith("call_") and (
        trace.only_looks(node) or node.target is operator.getitem or written(trace, node)
    ):
        return node.all_input_nodes[0]
    return None


def chain(trace: Trace, node: fx.Node) -> list[fx.Node]:
    """It, what it looks at, and so on."""
    found = [node]
    while (base := looks_at(trace, found[-1])) is not None:
        found.append(base)
    return found


def missed(trace: Trace) -> Iterator[tuple[fx.Node, fx.Node, fx.Node]]:
    """A call that changes a tensor, one after it that reads it by another name than the value of
    that call, and that name."""
    chains = {n: chain(trace, n) for n in trace.module.graph.nodes}
    position = {n: i for i, n in enumerate(trace.module.graph.nodes)}
    for node in trace.calls:
        for target in written(trace, node):
            root = chains[target][-1]
            for name, names in chains.items():
                if names[-1] is root and root.op != "get_attr" and node not in names:
                    yield from ((node, u, name) for u in name.users if position[u] > position[node])


def check_buffers(trace: Trace, part: Part) -> None:
    """Refuses a buffer that a part changes through what another has made of it: that is a copy."""
    for node in part.calls:
        for target in written(trace, node):
            names = chain(trace, target)
            if names[-1].op == "get_attr" and any(n not in part.calls for n in names[:-1]):
                raise ValueError(
                    f"{part.name}: {function_of(node)} changes buffer {names[-1].target} in "
                    "several calls: name a module around them in whole="
                )


def check_changes(trace: Trace, parts: list[Part] | None = None) -> None:
    """Refuses changes that others than the part around them see; without parts, all that anybody
    sees."""
    of = {n: part for part in parts or [] for n in part.calls}
    for each in parts or []:
        check_buffers(trace, each)

    def sees(part: Part | None, target: fx.Node, name: fx.Node) -> bool:
        """Is the change in the value that the part has, or gives, by that name?"""
        ways = [[n for n in chain(trace, n) if of.get(n) is not part] for n in (target, name)]
        return part is not None and of.get(name) is part and ways[0][:1] == ways[1][:1]

    for node, reader, name in missed(trace):
        if any(sees(of.get(node), t, name) for t in written(trace, node)):
            continue
        part, data = of.get(node), chain(trace, name)[-1] in trace.data
        cure = "" if parts is None or data else "name a module around both in whole=, or "
        raise ValueError(
            f"{part.name if part else node.name}: {function_of(node)} changes a tensor that "
            f"{reader.name} reads as {name.name}: {cure}write a new tensor (torch.where, "
            "torch.cat, x * mask)"
        )


def parted(
    model: nn.Module,
    inputs: Inputs,
    parts_of: Callable[[Trace], list[Part]],
    device: torch.device | None = None,
) -> tuple[Trace, list[Part]]:
    """Calls and operators; where these would lose changes in place, new tensors take their place, if that changes nothing
    else: regions such as torch.no_grad() would be lost, and a buffer that autograd has kept would change under it."""
    traced = trace(model, inputs, device)
    parts = parts_of(traced)
    try:
        check_changes(traced, parts)
    except ValueError:
        if not traced.refused and not any(inner_graph(traced.module, n) for n in traced.module.graph.nodes):
            again = trace(model, inputs, device, functional=True)
            changed = [chain(again, t)[-1].op for n in again.calls for t in written(again, n)]
            if "get_attr" not in changed:
                return again, parts_of(again)
    return traced, parts


def inner_graph(module: fx.GraphModule, node: Any) -> fx.GraphModule | None:
    """The calls of a region, as it is handed to the call that runs it."""
    held = isinstance(node, fx.Node) and node.op == "get_attr"
    found = attribute(module, str(node.target)) if held else None
    return found if isinstance(found, fx.GraphModule) else None


CURES = {
    "BackwardHookFunction": "a backward hook of a module does not run here: write what it does into forward()",
    "CheckpointFunction": "the backward of checkpoint() is lost in torch.export: give it use_reentrant=False",
    "Node.register_hook": "a hook on a tensor's grad_fn does not run here: write what it does into forward()",
    "Tensor.register_hook": "a hook on a tensor does not run here: write what it does into forward()",
    "saved_tensors_hooks": "what it does to tensors that backward reads is lost here: write it into forward()",
}
FUNCTION = "the backward of a torch.autograd.Function is lost in torch.export: write its forward in PyTorch's functions alone"


def check_backwards(trace: Trace) -> None:
    """Refuses what torch.export keeps the forward of alone."""
    for name in trace.own_backwards:
        raise ValueError(f"{name}: {CURES.get(name, FUNCTION)}")


def moved(trace: Trace, node: fx.Node, module: fx.GraphModule) -> Iterator[fx.Node]:
    """What a call of this module changes: by its schema; running means, which no schema tells; and
    in graphs that it calls, as under torch.no_grad()."""
    found = list(written(trace, node))
    if any(a.name in ("training", "use_input_stats") and value for a, value in given(node)):
        found += [n for a, n in arguments(node) if a.name in ("running_mean", "running_var")]
    yield from (chain(trace, n)[-1] for n in found)
    for i, n in enumerate(node.args):
        if inner := inner_graph(module, n):
            holes = [p for p in inner.graph.nodes if p.op == "placeholder"]
            outer = dict(zip(holes, node.args[i + 1 :]))
            for call in (c for c in inner.graph.nodes if c.op.startswith("call_")):
                for root in moved(trace, call, inner):
                    if isinstance(outer.get(root), fx.Node):
                        yield chain(trace, outer[root])[-1]


def check_moved(trace: Trace, stages: list[list[Part]]) -> None:
    """Refuses a buffer that a stage changes and another reads: each process has its own."""
    readers: dict[int, set[int]] = {}
    for i, parts in enumerate(stages):
        for t in (t for part in parts for t in part.tensors.values()):
            readers.setdefault(id(t), set()).add(i)
    for part in (part for parts in stages for part in parts):
        for root in (r for call in part.calls for r in moved(trace, call, trace.module)):
            held = root.op == "get_attr" and attribute(trace.module, str(root.target))
            if len(readers.get(id(held), ())) > 1:
                raise ValueError(
                    f"{part.name}: buffer {root.target} is changed here and read in another stage: "
                    "plan both in one stage, or name a module around both in whole="
                )
