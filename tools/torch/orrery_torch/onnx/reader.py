"""A model in ONNX as a module of PyTorch: a step a node, on the file's weights."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import torch
from google.protobuf.message import DecodeError
from onnx import external_data_helper, helper, numpy_helper, shape_inference
from torch import Tensor, nn

from ..trace.trace import first_line
from .operators import FUNCTIONS, Beyond, Function, Node

AGAIN = "a damaged model, export it again"
MOST = 10_000_000  # numbers along a dimension
NUMBERS = set(  # operators that take a constant of one number as a number
    """Add Sub Mul Div Pow Max Min Clip Where Equal Less LessOrEqual Greater GreaterOrEqual Gather
    Range Dropout""".split()
)
RECURRENT = {"LSTM", "GRU", "RNN"}
SHAPES = {"Shape", "Size"}
NAMES = {"", "ai.onnx"}  # of ONNX's own operators


@torch.library.custom_op("orrery::unknown", mutates_args=())
def unknown(inputs: list[Tensor], sizes: list[int], whole: bool, flop: int) -> Tensor:
    """A value of this shape, of an operator that is not known here. flop: those of its forward pass;
    -1: nothing is known of them."""
    return torch.zeros(sizes, dtype=torch.int64 if whole else torch.float32)


@unknown.register_fake
def _(inputs: list[Tensor], sizes: list[int], whole: bool, flop: int) -> Tensor:
    return torch.empty(sizes, dtype=torch.int64 if whole else torch.float32)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.shapes, ctx.sizes = [t.shape for t in inputs[0]], inputs[1]


def _back(ctx: Any, _: Any) -> Any:
    return [torch.zeros(shape) for shape in ctx.shapes], None if ctx.sizes else [], None, None


unknown.register_autograd(_back, setup_context=_keep)


class Step(nn.Module):
    """A node. Its inputs: names of values before it, of the module's own tensors, or numbers."""

    def __init__(self, name: str, node: Node, function: Function) -> None:
        super().__init__()
        self.called, self.node, self.function = name, node, function
        self.reads: list[tuple[str, Any]] = []
        self.gives: list[str] = []

    def forward(self, *x: Any) -> Any:
        return self.function(self.node, *x)


class Model(nn.Module):
    """The nodes that the outputs need, in their order."""

    def __init__(self, inputs: list[str], outputs: list[str]) -> None:
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        self.steps = nn.ModuleList()

    def values(self, step: Step, before: dict[str, Any]) -> Iterator[Any]:
        for kind, what in step.reads:
            yield before[what] if kind == "value" else getattr(self, what) if kind == "own" else what

    def forward(self, *inputs: Tensor) -> Any:
        values: dict[str, Any] = dict(zip(self.inputs, inputs))
        for step in self.steps:
            assert isinstance(step, Step)
            given = step(*self.values(step, values))
            values.update(zip(step.gives, given if isinstance(given, tuple) else [given]))
        return tuple(values[name] for name in self.outputs)


@dataclass
class Read:
    """A file as it was read."""

    model: Model
    example: tuple[Tensor, ...]
    lacking: str = ""  # why the weights are not there


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for a in node.attribute:
        value = helper.get_attribute_value(a)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        elif isinstance(value, onnx.TensorProto):
            value = torch.from_numpy(numpy_helper.to_array(value).copy())
        elif a.name == "to":
            value = getattr(torch, str(helper.tensor_dtype_to_np_dtype(value)))
        elif a.ints or a.floats:
            value = list(value)
        found[a.name] = value
    return found


def reads_of(node: onnx.NodeProto) -> list[str]:
    """Its inputs, and what its bodies read from outside."""
    names = list(node.input)
    for a in node.attribute:
        for body in [a.g, *a.graphs]:
            own = {t.name for t in [*body.input, *body.initializer]}
            for inner in body.node:
                names += [name for name in reads_of(inner) if name and name not in own | set(names)]
                own.update(inner.output)
    return names


class Reader:
    """Goes through the nodes once, on two samples: what is known without data is worked out."""

    def __init__(self, path: Path, model: onnx.ModelProto) -> None:
        self.path, self.file, self.graph = path, model, model.graph
        self.opset = max((o.version for o in model.opset_import if o.domain in NAMES), default=17)
        self.lacking = ""
        self.weights = {t.name: self._weight(t) for t in self.graph.initializer}
        self.inferred: dict[str, onnx.ValueInfoProto] = {}

    def fail(self, what: str) -> ValueError:
        return ValueError(f"{self.path}: {what}")

    def _weight(self, t: onnx.TensorProto) -> Tensor:
        if not all(0 <= size <= MOST for size in t.dims):
            raise self.fail(f"constant {t.name}: no such shape: {AGAIN}")
        outside = t.data_location == onnx.TensorProto.EXTERNAL
        try:
            if outside:
                external_data_helper.load_external_data_for_tensor(t, str(self.path.parent))
            value = torch.from_numpy(numpy_helper.to_array(t).copy())
        except Exception as why:  # noqa: BLE001 of any kind, of files and of their bytes
            if not outside:
                raise self.fail(f"constant {t.name}: {first_line(why)}: {AGAIN}") from None
            self.lacking = self.lacking or (
                f"weights {t.name} lie in a file beside it: {first_line(why)}"
            )
            return 0.1 * torch.randn(tuple(t.dims), generator=torch.Generator().manual_seed(1))
        return value.float() if value.is_floating_point() else value

    # ---- inputs and their order ----

    def _live(self) -> list[onnx.NodeProto]:
        """Nodes that the outputs need, checked to be in order."""
        made: dict[str, int] = {}
        for i, node in enumerate(self.graph.node):
            for name in filter(None, node.output):
                if name in made or name in self.weights:
                    raise self.fail(f"tensor {name} is made twice: {AGAIN}")
                made[name] = i
        given = {i.name for i in self.graph.input} | set(self.weights)
        needed, live = {o.name for o in self.graph.output}, []
        for name in needed:
            if name not in made and name not in given:
                raise self.fail(f"output {name} is made by no node: {AGAIN}")
        for i, node in reversed(list(enumerate(self.graph.node))):
            if not needed.intersection(node.output):
                continue
            live.append(node)
            for name in filter(None, reads_of(node)):
                if name not in made and name not in given:
                    raise self.fail(
                        f"node {title(node)} reads {name}, which nothing before it makes: {AGAIN}"
                    )
                if made.get(name, -1) >= i:
                    raise self.fail(
                        f"node {title(node)} reads {name}, which node {made[name]} makes: they are "
                        "in no order, export the model again"
                    )
                needed.add(name)
        self.needed = needed
        return live[::-1]

    def _inputs(self) -> dict[str, tuple[int, list[int], int]]:
        """Of each that is read: the batch, or 0 where the file leaves it open; the other dimensions;
        and its type."""
        found: dict[str, tuple[int, list[int], int]] = {}
        for value in self.graph.input:
            if value.name in self.weights or value.name not in self.needed:
                continue
            type_ = value.type.tensor_type
            if not value.type.HasField("tensor_type") or not type_.HasField("shape"):
                raise self.fail(
                    f"input {value.name} has no shape of tensors: export the model with its shapes"
                )
            dims = type_.shape.dim
            for i, dim in enumerate(dims):
                if i and not dim.HasField("dim_value"):
                    raise self.fail(
                        f"input {value.name}: dimension {i} ({dim.dim_param}) has no number, as the "
                        "batch alone may: export the model with it fixed"
                    )
                if not 0 <= dim.dim_value <= MOST:
                    raise self.fail(
                        f"input {value.name}: dimension {i} is {dim.dim_value}: it must be 0 to "
                        f"{MOST}: export the model with another"
                    )
            batch = dims[0].dim_value if dims else 0
            if not dims or batch not in {b for b, _, _ in found.values()} | ({batch} if not found else set()):
                raise self.fail(
                    f"input {value.name}: its first dimension must be the batch, the same for every "
                    "input: export the model so"
                )
            found[value.name] = (batch, [d.dim_value for d in dims[1:]], type_.elem_type)
        if not found:
            raise self.fail("no input changes its outputs: nothing to do")
        return found

    # ---- shapes that are not known here ----

    def _shape(self, name: str, samples: int) -> tuple[list[int], bool] | None:
        """As the file has it, or as ONNX's own inference finds it: with whole numbers in it?"""
        if not self.inferred:
            for value in self.graph.input:
                dims = value.type.tensor_type.shape.dim
                if value.name not in self.weights and dims:
                    dims[0].dim_value = samples
            try:
                found = shape_inference.infer_shapes(self.file, data_prop=True).graph
            except Exception:  # noqa: BLE001 the file's own shapes, then
                found = self.graph
            self.inferred = {v.name: v for v in [*found.output, *found.value_info]}
        type_ = self.inferred[name].type.tensor_type if name in self.inferred else None
        if not type_ or not type_.HasField("shape"):
            return None
        sizes = [d.dim_value if d.HasField("dim_value") else 0 for d in type_.shape.dim]
        if sizes and not sizes[0]:
            sizes[0] = samples
        real = helper.tensor_dtype_to_np_dtype(type_.elem_type).kind == "f" if type_.elem_type else True
        return None if 0 in sizes else (sizes, not real)

    def _opaque(self, node: onnx.NodeProto, read: list[Any], samples: int) -> Function:
        known = node.domain in NAMES and not any(a.g.node or a.graphs for a in node.attribute)
        results = []
        for name in node.output:
            shape = self._shape(name, samples) if name else ([1], False)
            if shape is None and (self.needed & {name} or name == node.output[0]):
                raise self.fail(
                    f"node {title(node)}: operator {node.op_type} is not known here, and the file "
                    f"has no shape for {name}: run onnx.shape_inference on it, or export it with "
                    "its shapes"
                )
            sizes, whole = shape or ([1], False)
            flop = torch.Size(sizes).numel() if known else -1
            if node.op_type in RECURRENT:  # both products, for each token
                flop = 2 * read[0].shape[0] * read[0].shape[1] * (read[1].numel() + read[2].numel())
            results.append((sizes, whole, 0 if results and known else flop))

        def run(n: Node, *x: Any) -> tuple[Tensor, ...]:
            floats = [t for t in x if isinstance(t, Tensor)]
            return tuple(unknown(floats, *result) for result in results)

        return run

    # ---- the module ----

    def read(self) -> Read:
        nodes = self._live()
        for node in nodes:  # equal weights, of which exporters write one
            if node.op_type == "Identity" and node.input[0] in self.weights:
                self.weights[node.output[0]] = self.weights[node.input[0]]
        inputs = self._inputs()
        self.merged = self._biases(nodes)
        fixed = next(iter(inputs.values()))[0]
        try:
            return self._read(nodes, inputs, fixed or 2)
        except ValueError:
            if fixed:
                raise
            self.inferred.clear()
            try:
                return self._read(nodes, inputs, 1)  # its inside may be for one sample alone
            except ValueError:
                pass
            raise

    def _biases(self, nodes: list[onnx.NodeProto]) -> dict[str, onnx.NodeProto]:
        """Sums with a bias, by the product alone that they read."""
        readers: dict[str, list[onnx.NodeProto]] = {}
        for node in nodes:
            for name in reads_of(node):
                readers.setdefault(name, []).append(node)
        found = {}
        outputs = {o.name for o in self.graph.output}
        for node in nodes:
            after = readers.get(node.output[0], [])
            if node.op_type != "MatMul" or len(after) != 1 or node.output[0] in outputs:
                continue
            if after[0].op_type != "Add" or node.input[1] not in self.weights:
                continue
            weight = self.weights[node.input[1]]
            bias = self.weights.get(next((i for i in after[0].input if i != node.output[0]), ""))
            if weight.dim() == 2 and bias is not None and bias.shape == weight.shape[1:]:
                found[node.output[0]] = after[0]
        return found

    def _read(self, nodes: list[onnx.NodeProto], inputs: dict[str, Any], samples: int) -> Read:
        draws = torch.Generator().manual_seed(1)
        example = []
        for _, sizes, kind in inputs.values():
            dtype = getattr(torch, str(helper.tensor_dtype_to_np_dtype(kind)), torch.float32)
            shape = (samples, *sizes)
            real = dtype.is_floating_point
            example.append(torch.randn(shape, generator=draws) if real else torch.zeros(shape, dtype=dtype))
        self.model = Model(list(inputs), [o.name for o in self.graph.output])
        self.result = Read(self.model, tuple(example), lacking=self.lacking)
        self.values: dict[str, Any] = dict(zip(inputs, example))
        self.data = set(inputs)
        trained = {name for node in nodes if node.op_type == "Exp" for name in node.input}  # a temperature
        self.constants: set[str] = {
            name
            for name, t in self.weights.items()
            if not t.is_floating_point() or not (t.dim() or name in trained)
        }
        self.values |= self.weights
        self.uses: dict[str, int] = {}
        done: set[int] = set()
        with torch.no_grad():
            for node in nodes:
                if id(node) in done:
                    continue
                bias = self.merged.get(node.output[0])
                if bias:
                    done.add(id(bias))
                self._node(node, bias, samples)
        if not self.data.intersection(self.model.outputs):
            raise self.fail("no input changes its outputs: nothing to do")
        self.model.outputs = [name for name in self.model.outputs if name in self.data]
        return self.result

    def _node(self, proto: onnx.NodeProto, bias: onnx.NodeProto | None, samples: int) -> None:
        known = proto.domain in NAMES
        names = reads_of(proto)
        gives = list(proto.output)
        if bias:
            names.append(next(i for i in bias.input if i != gives[0]))
            gives = [bias.output[0]]
        attributes = attributes_of(proto)
        if known and proto.op_type in SHAPES:
            sizes = torch.tensor(self.values[names[0]].shape, dtype=torch.int64)
            part = slice(attributes.get("start"), attributes.get("end"))
            self.values[gives[0]] = sizes[part] if proto.op_type == "Shape" else sizes.prod()
            self.constants.add(gives[0])
            return
        if known and proto.op_type == "Constant":
            self.values[gives[0]] = constant(attributes)
            self.constants.add(gives[0])
            return
        if known and proto.op_type == "Identity" and names[0] in self.weights:
            return  # whose other name is among them
        node = Node(proto.op_type, attributes | {"outputs": len(gives)}, self.opset)
        step = Step(title(proto), node, FUNCTIONS.get(proto.op_type) if known else None)  # type: ignore[arg-type]
        step.gives = gives
        read = [self.values[name] if name else None for name in names]
        for i, (name, value) in enumerate(zip(names, read)):
            if name:
                node.given.add(i)
            if name in self.constants and not value.is_floating_point():
                node.known[i] = value.flatten().tolist()
        if step.node.op == "BatchNormalization":  # which moves its means
            read = [t if t is None else t.clone() for t in read]
        found = self._run(proto, step, read, samples)
        for name, value in zip(gives, found if isinstance(found, tuple) else [found]):
            self.values[name] = value
            if all(n in self.constants for n in names if n):
                self.constants.add(name)
            elif self.data.intersection(names):
                self.data.add(name)
        if gives[0] in self.constants:
            return
        step.reads = [self._spec(step, i, name) for i, name in enumerate(names)]
        self.model.steps.append(step)

    def _run(self, proto: onnx.NodeProto, step: Step, read: list[Any], samples: int) -> Any:
        try:
            if step.function is not None:
                return step.function(step.node, *read)
        except Beyond:
            pass
        except Exception as why:  # noqa: BLE001 of any kind, as PyTorch checks its arguments
            raise self.fail(
                f"node {title(proto)}: no such {proto.op_type}: {first_line(why)}: export the model "
                "again, with its batch open (dynamic_shapes)"
            ) from None
        step.function = self._opaque(proto, read, samples)
        return step.function(step.node, *read)

    def _spec(self, step: Step, i: int, name: str) -> tuple[str, Any]:
        """How the module has what a node reads."""
        if not name:
            return "number", None
        value = self.values[name]
        if name in self.data:
            return "value", name
        single = value.numel() == 1 and (name in self.weights or name in self.constants)
        if single and step.node.op in NUMBERS:
            return "number", value.item()
        if name not in self.weights and name not in self.constants:
            return "value", name  # made of weights
        buffer = name in self.constants or (step.node.op == "BatchNormalization" and i > 2)
        # equal vectors, which exporters write once, are each reader's own
        again = self.uses.get(name, 0) if value.dim() < 2 or buffer else 0
        self.uses[name] = self.uses.get(name, 0) + 1
        own = f"t{list(self.values).index(name)}" + (f"_{again}" if again else "")
        if not hasattr(self.model, own):
            if buffer:
                self.model.register_buffer(own, value.clone())
            else:
                self.model.register_parameter(own, nn.Parameter(value.clone()))
        return "own", own


def constant(attributes: dict[str, Any]) -> Tensor:
    value = next(iter(attributes.values()))
    t = value if isinstance(value, Tensor) else torch.tensor(value)
    return t.float() if t.is_floating_point() else t


def title(node: onnx.NodeProto) -> str:
    return node.name or next(iter(node.output), node.op_type)


def read(path: Path) -> Read:
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as why:
        raise ValueError(f"{path}: cannot open it: {why.strerror}") from None
    except DecodeError:
        model = None
    if model is None or not model.graph.node:
        raise ValueError(f"{path}: no ONNX model, or a damaged one: export it again")
    return Reader(path, model).read()
