"""A module as the list of its calls, in the order in which they run: torch.export, else torch.fx."""

import operator
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import Node, saved_tensors_hooks
from torch.utils._pytree import tree_leaves, tree_map

Inputs = Tensor | Sequence[Any] | Mapping[str, Any]

VIEWS = frozenset(
    """alias chunk contiguous detach expand expand_as flatten getitem permute reshape select size
    slice split split_with_sizes squeeze t transpose unbind unflatten unsqueeze view
    view_as""".split()
)


def words(inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and named arguments of forward()."""
    if isinstance(inputs, Tensor):
        return (inputs,), {}
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return tuple(inputs), {}


def say(text: str) -> None:
    """A message, on standard error unless a filter of `warnings` says otherwise."""
    warnings.warn(f"orrery_torch: {text}", stacklevel=2)


@dataclass
class Trace:
    """The calls of a module, on the module's own parameters."""

    model: nn.Module
    module: fx.GraphModule
    refused: str = ""  # why torch.export does not take it: then the calls are those of torch.fx
    tied: dict[str, str] = field(default_factory=dict)  # each parameter: the first of its names
    own_backwards: list[str] = field(default_factory=list)  # functions and hooks: lost here

    def __post_init__(self) -> None:
        first: dict[int, str] = {}
        for name, p in self.model.named_parameters(remove_duplicate=False):
            self.tied[name] = first.setdefault(id(p), name)

        for n in reversed(self.module.graph.nodes):
            if is_for_nothing(n):
                self.module.graph.erase_node(n)
        self.all_calls = [n for n in self.module.graph.nodes if n.op.startswith("call_")]
        self.data: dict[fx.Node, None] = {}  # what is data as it comes or the same every time
        for node in self.all_calls:
            if self._is_data(node):
                self.data[node] = None
        self.calls = [n for n in self.all_calls if n not in self.data]

    def _is_data(self, node: fx.Node) -> bool:
        if node.op == "call_module" or "rand" in function_of(node):
            return False
        if any(n.op != "placeholder" and n not in self.data for n in node.all_input_nodes):
            return False
        return self.only_looks(node) or not node.all_input_nodes

    @property
    def inputs(self) -> list[fx.Node]:
        return [n for n in self.module.graph.nodes if n.op == "placeholder"]

    @property
    def results(self) -> list[fx.Node]:
        return self.module.graph.output_node().all_input_nodes

    def returned(self) -> Counter[fx.Node]:
        """How often forward() returns each value."""
        counts: Counter[fx.Node] = Counter()
        fx.node.map_arg(self.module.graph.output_node().args, lambda n: counts.update([n]))
        return counts

    def stack(self, node: fx.Node) -> list[tuple[str, type[nn.Module]]]:
        """The calls of modules that it is in, the outermost first: a path, with @1 if it is the
        second call of that module, and the module's type."""
        if node.op == "call_module":
            return [(str(node.target), type(self.model.get_submodule(str(node.target))))]
        found = []
        for key, (path, _) in (node.meta.get("nn_module_stack") or {}).items():
            again = key.partition("@")[2]
            if path:
                kind = type(self.model.get_submodule(path))
                found.append((f"{path}@{again}" if again else path, kind))
        return found

    def owned(self, node: fx.Node) -> dict[str, Tensor]:
        """Parameters and buffers that it reads, by the first of their names."""
        if node.op == "call_module":
            held = self.module.get_submodule(str(node.target))
            tensors = {
                f"{node.target}.{name}": t
                for name, t in [*held.named_parameters(), *held.named_buffers()]
            }
        else:
            tensors = {
                str(n.target): attribute(self.module, str(n.target))
                for n in node.all_input_nodes
                if n.op == "get_attr"
            }
        return {self.tied.get(n, n): t for n, t in tensors.items() if isinstance(t, Tensor)}

    def only_looks(self, node: fx.Node) -> bool:
        """Does it give what it reads in another shape, computing nothing?"""
        if node.op == "call_module" or not node.all_input_nodes:
            return False
        return function_of(node) in VIEWS


def attribute(module: nn.Module, path: str) -> Any:
    return operator.attrgetter(path)(module)


def function_of(node: fx.Node) -> str:
    """The name of what it calls: linear of aten.linear.default and of torch.nn.functional.linear."""
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.name.partition("::")[2]
    if isinstance(node.target, str):
        return node.target.rpartition(".")[2]
    return getattr(node.target, "__name__", str(node.target))


def is_for_nothing(node: fx.Node) -> bool:
    """Does it change nothing, which nobody reads? What draws numbers changes those of the next, and parameters stay."""
    if node.op != "call_function" or node.users:
        return False
    if function_of(node).startswith("_assert"):
        return True  # a check of what export assumed
    call, draws = node.target, torch.Tag.nondeterministic_seeded
    owns = any(n.op == "get_attr" for n in node.all_input_nodes)
    return isinstance(call, torch._ops.OpOverload) and not (owns or call._schema.is_mutable or draws in call.tags)


def first_line(why: Exception) -> str:
    return str(why).strip().partition("\n")[0] or type(why).__name__


@contextmanager
def fakes(
    model: nn.Module, mode: FakeTensorMode, device: torch.device | None
) -> Iterator[Callable[[Any], Any]]:
    """The model with fake tensors, which have shapes and no memory, in the place of its own, and
    what makes the fake of any other value. device: where those on the meta device will be."""
    memo: dict[int, tuple[Tensor, Tensor]] = {}

    def fake(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        if id(value) not in memo:
            there = device if device and value.is_meta else value.device
            with mode:
                made = torch.empty_strided(
                    value.size(), value.stride(), dtype=value.dtype, device=there
                )
            if isinstance(value, nn.Parameter):
                made = nn.Parameter(made, value.requires_grad)
            memo[id(value)] = (made.requires_grad_(value.requires_grad), value)
        return memo[id(value)][0]

    held = [
        (tensors, name, t)
        for module in model.modules()
        for tensors in (module._parameters, module._buffers)
        for name, t in tensors.items()
        if t is not None
    ]
    for tensors, name, t in held:
        tensors[name] = fake(t)
    try:
        yield fake
    finally:
        for tensors, name, t in held:
            tensors[name] = t


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Buffers and random numbers are afterwards what they were."""
    state = [(b, b.clone()) for b in model.buffers()]
    devices = {p.device for p in model.parameters() if p.is_cuda}
    try:
        with torch.random.fork_rng(devices), torch.enable_grad():
            yield
    finally:
        with torch.no_grad():
            for buffer, before in state:
                buffer.copy_(before)


def on_fakes(
    model: nn.Module,
    inputs: Inputs,
    device: torch.device | None,
    run: Callable[[Inputs, Callable[[Any], Any]], Any],
) -> Any:
    """run(inputs, fake) on fake tensors; on the model's own if shapes depend on data, which a model
    on the meta device does not have."""
    try:
        mode = FakeTensorMode(allow_non_fake_inputs=True)  # as constants are
        with fakes(model, mode, device) as fake, mode, torch.enable_grad():
            return run(tree_map(fake, inputs), fake)
    except Exception as why:  # noqa: BLE001 of any kind, as the model's own code runs under it
        reason = first_line(why)
    if any(t.is_meta for t in [*model.parameters(), *model.buffers()]):
        raise ValueError(
            f"fake tensors do not run the model ({reason}), and one on the meta device has no "
            "others: make it on the device that it trains on"
        )
    say(f"fake tensors do not run the model ({reason}): all of it runs once, on its own")
    with unchanged(model):
        return run(inputs, lambda value: value)


@contextmanager
def heard() -> Iterator[set[str]]:
    """The hooks that are set meanwhile on tensors, on the nodes of autograd behind them, and on what these keep; not those
    of torch's own, which keep values as they are. Those on tensors are not set."""
    names: set[str] = set()

    def listen(frame: FrameType, event: str, call: Any) -> None:
        if event != "c_call":
            return
        if call.__name__ in ("register_hook", "register_prehook") and isinstance(call.__self__, Node):
            names.add("Node.register_hook")
        elif call.__name__ == "_push_saved_tensors_default_hooks":
            own = type(frame.f_locals.get("self"))
            if own is saved_tensors_hooks or not own.__module__.startswith("torch."):
                names.add("saved_tensors_hooks")

    other = sys.getprofile()
    if other:
        say("a profiler listens: hooks on grad_fn and saved_tensors_hooks are not looked for")
    with patch.object(Tensor, "register_hook") as on_tensors:
        try:
            if not other:
                sys.setprofile(listen)
            yield names
        finally:
            if not other:
                sys.setprofile(None)
            if on_tensors.called:
                names.add("Tensor.register_hook")


def own_backwards(
    model: nn.Module, inputs: Inputs, device: torch.device | None = None
) -> list[str]:
    """The torch.autograd.Functions on the way to a result, those of torch's modules and checkpoints, too, and hooks,
    found by a run: what they compute is traced, how they go back is not. Operators of torch.library are kept."""

    def run(given: Inputs, _: Callable[[Any], Any]) -> tuple[list[Any], set[str]]:
        args, kwargs = words(given)
        with heard() as hooks:
            return tree_leaves(model(*args, **kwargs)), hooks

    results, names = on_fakes(model, inputs, device, run)
    left = [t.grad_fn for t in results if isinstance(t, Tensor) and t.grad_fn]
    seen = set(left)
    for function in left:  # which grows
        forward = getattr(function, "_forward_cls", None)
        if forward and not forward.__module__.startswith(("torch._library.", "torch._higher_order_ops.")):
            names.add(forward.__name__)
        more = {f for f, _ in function.next_functions if f} - seen
        left += more
        seen |= more
    return sorted(names)


def copied(to: Tensor, value: Tensor, _: bool = False) -> Tensor:
    """What copy_() leaves in a tensor: PyTorch's own call for that has no backward."""
    return value.to(to).expand_as(to)


def exported(model: nn.Module, inputs: Any, functional: bool) -> fx.GraphModule:
    program = torch.export.export(model, *inputs)
    if functional:
        program = program.run_decompositions({torch.ops.aten.copy.default: copied})
    return program.module(check_guards=False)


def export(
    model: nn.Module, inputs: Inputs, device: torch.device | None, functional: bool = False
) -> fx.GraphModule:
    """By torch.export. A model on the meta device is exported on fakes of the device where it will
    be, since calls that make tensors name it; the module then reads the model's own."""
    own = dict(model.named_parameters(remove_duplicate=False))
    own |= dict(model.named_buffers(remove_duplicate=False))
    given = words(inputs)
    if device is None or not any(t.is_meta for t in own.values()):
        return exported(model, given, functional)
    with fakes(model, FakeTensorMode(allow_non_fake_inputs=True), device) as fake:
        module = exported(model, tree_map(fake, given), functional)
    for path, t in own.items():
        holder, _, name = path.rpartition(".")
        for tensors in _held(module, holder):
            if name in tensors:
                tensors[name] = t
    return module


def _held(module: nn.Module, path: str) -> list[dict[str, Any]]:
    """Parameters and buffers of a submodule; none of one that nothing calls."""
    try:
        held = module.get_submodule(path)
    except AttributeError:
        return []
    return [held._parameters, held._buffers]


def trace(
    model: nn.Module, inputs: Inputs, device: torch.device | None = None, functional: bool = False
) -> Trace:
    """Its calls for inputs of these sizes; device: where tensors on the meta device will be;
    functional: without changes in place. What torch.export refuses goes to torch.fx, which knows
    modules and functions as they are called and not what is in them; a message says so."""
    try:
        found = Trace(model, export(model, inputs, device, functional))
        found.own_backwards = own_backwards(model, inputs, device)
        return found
    except Exception as refused:  # noqa: BLE001 of any kind, as the model's own code runs under it
        reason = first_line(refused)
    try:
        traced = Trace(model, fx.symbolic_trace(model), reason)
    except Exception as also:  # noqa: BLE001
        raise ValueError(
            f"torch.export refuses the model ({reason}), and torch.fx: {first_line(also)}"
        ) from also
    if any(n.target is torch.autograd.grad for n in traced.calls):
        raise ValueError("torch.autograd.grad in forward() would go back through calls run apart")
    say(f"torch.export refuses the model ({reason}): torch.fx instead")
    return traced
