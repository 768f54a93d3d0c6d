"""A graph of Orrery as a torch.nn.Module, its tensors named as in Orrery's checkpoints."""

from typing import Any

import torch
from torch import Tensor, nn

from .operators import COMPUTE, LOSSES, Operator, Pass, right


class Model(nn.Module):
    """All operators of a graph. forward() gets the columns of each input, by its name, and returns
    the losses by theirs; total() is what is trained. state_dict() has Orrery's names."""

    def __init__(self, graph: dict[str, Any]) -> None:
        super().__init__()
        self.moment = Pass()
        self.decays: set[str] = set()  # the parameters that weight decay does not spare
        self.operators: list[Operator] = []
        shapes: dict[str, tuple[int, int]] = {}
        shared: dict[str, nn.Module] = {}
        for number, o in enumerate(graph["operators"]):
            if o["op"] != "input" and o["op"] not in COMPUTE:
                raise SystemExit(
                    f"{o['name']}: {o['op']} is not in COMPUTE of tools/torch/peer/operators.py"
                )
            holder = shared.setdefault(o.get("share", o["name"]), nn.Module())
            if o["tensors"]:
                self._hold(holder, o)
            shapes[o["name"]] = tuple(o["shape"])
            self.operators.append(
                Operator(
                    name=o["name"],
                    op=o["op"],
                    inputs=o["inputs"],
                    attributes=o["attributes"],
                    shape=shapes[o["name"]],
                    input_shapes=[shapes[name] for name in o["inputs"]],
                    detached=[name in o.get("detached", []) for name in o["inputs"]],
                    number=number,
                    holder=holder,
                    frozen=o.get("frozen", False),
                )
            )

    def _hold(self, holder: nn.Module, o: dict[str, Any]) -> None:
        """Its parameters and running means, all 0, where the operator's name says."""
        for p in o["tensors"]:
            if p["name"] in holder._parameters or p["name"] in holder._buffers:
                continue  # of an operator before, which shares them
            value = torch.zeros(p["shape"])
            if p.get("role") == "averaged":
                holder.register_buffer(p["name"], value)
            else:
                if p.get("role", "weight") == "weight":
                    self.decays.add(f"{o['name']}.{p['name']}")
                holder._parameters[p["name"]] = nn.Parameter(value, not o["frozen"])
        # past the checks of nn.Module: a name may be that of one of its methods
        *path, last = o["name"].split(".")
        modules: dict[str, Any] = self._modules
        for part in path:
            modules = modules.setdefault(part, nn.Module())._modules
        modules[last] = holder

    def forward(self, columns: dict[str, Tensor]) -> dict[str, Tensor]:
        values: dict[str, Tensor] = {}
        dtype = next(self.parameters()).dtype
        for o in self.operators:
            if o.op == "input":
                x = columns[o.name].to(dtype)
                values[o.name] = x.reshape(len(x), *o.shape)
                continue
            inputs = [
                values[name].detach() if detached else values[name]
                for name, detached in zip(o.inputs, o.detached)
            ]
            values[o.name] = COMPUTE[o.op](o, self.moment, *inputs)
        self.__dict__["values"] = values  # not by nn.Module: an operator may be called so
        return {o.name: values[o.name] for o in self.losses()}

    def losses(self) -> list[Operator]:
        return [o for o in self.operators if o.op in LOSSES]

    def total(self, losses: dict[str, Tensor]) -> Tensor:
        return sum(losses[o.name] * o.attributes.get("weight", 1.0) for o in self.losses())

    def begin(self, **moment: Any) -> None:
        """What holds for the passes from here on, see Pass."""
        self.__dict__["moment"] = Pass(**moment)

    def trained(self) -> dict[bool, list[nn.Parameter]]:
        """Parameters that are trained: those that weight decay spares, and the others."""
        groups: dict[bool, list[nn.Parameter]] = {False: [], True: []}
        for name, parameter in self.named_parameters():
            if parameter.requires_grad:
                groups[name in self.decays].append(parameter)
        return groups

    def right(self) -> Tensor:
        """After a pass: of everything that the losses classified, whether it was right."""
        return torch.cat(
            [right(o, *(self.values[name] for name in o.inputs)) for o in self.losses()]
        )
