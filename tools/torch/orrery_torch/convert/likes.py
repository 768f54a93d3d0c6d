"""Calls of ATen, and the operators of Orrery that are like them."""

from . import attention, elements, experts, layers, losses
from .emitter import Emitter
from .formulas import Formula
from .values import Like, Rows


def spelt(c: Emitter, f: Formula, x: Rows) -> Rows:
    if f.op == "rotary":
        heads = attention.heads_of(x)
        return c.alike("rotary", [x], heads=heads, **f.says)
    if f.op in ("rmsnorm", "normalise"):
        x.columns_last()
    return c.alike(f.op, [x], f.tensors, **f.says)


# those that masks and attention's products go through
ATTENTION = set(
    """view reshape flatten unflatten unsqueeze squeeze contiguous clone alias to _to_copy type_as
    expand expand_as slice getitem matmul bmm baddbmm add sub rsub mul div masked_fill where softmax
    dropout logical_not bitwise_not logical_and bitwise_and __and__
    scaled_dot_product_attention""".split()
)
LIKES: dict[str, Like] = {
    **dict.fromkeys(
        ["view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze"], elements.view
    ),
    **dict.fromkeys(["contiguous", "clone", "alias", "lift_fresh_copy"], elements.same),
    **dict.fromkeys(["to", "_to_copy", "type_as"], elements.converted),
    **dict.fromkeys(["expand", "expand_as"], elements.expand),
    **dict.fromkeys(["transpose", "t", "numpy_T"], elements.transpose),
    **dict.fromkeys(
        ["mT", "adjoint", "matrix_H"], lambda c, x: elements.transpose(c, x, -2, -1)
    ),
    **dict.fromkeys(["chunk", "split", "split_with_sizes"], elements.split),
    **{op: elements.unary(op) for op in ("relu", "silu", "sigmoid", "tanh")},
    "broadcast_tensors": elements.broadcast,
    "permute": elements.permute,
    "slice": elements.slice_,
    "select": elements.select,
    "unbind": elements.unbind,
    "getitem": elements.getitem,
    "cat": elements.concat,
    "gelu": elements.gelu,
    "dropout": elements.dropout,
    "add": elements.add,
    "mul": elements.multiply,
    "div": elements.divide,
    **dict.fromkeys(["clamp_min", "clamp"], elements.at_least),
    **dict.fromkeys(["ne", "not_equal"], losses.differs),
    "sum": losses.summed,
    "linear": layers.linear,
    "embedding": layers.embedding,
    "layer_norm": layers.layer_norm,
    "rms_norm": layers.rms_norm,
    "group_norm": layers.group_norm,
    "batch_norm": layers.batch_norm,
    "conv1d": layers.conv1d,
    "conv2d": layers.conv2d,
    "max_pool2d": layers.pool("max_pool"),
    "avg_pool2d": layers.pool("mean_pool"),
    "adaptive_avg_pool2d": layers.mean_of_all,
    "mean": layers.mean,
    "scaled_dot_product_attention": attention.attention,
    "softmax": attention.softmax,
    "topk": experts.topk,
    **dict.fromkeys(["matmul", "mm", "bmm"], layers.product),
    **dict.fromkeys(["addmm", "baddbmm"], layers.added_product),
    "constant_pad_nd": elements.padded,
    "pad": elements.padded,
    "neg": lambda c, x: elements.scaled(c, x, -1.0),
    **dict.fromkeys(["pow", "square"], elements.power),
    "sub": elements.subtract,
    "rsub": elements.subtracted,
    **dict.fromkeys(["lt", "le", "gt", "ge"], attention.compared_with_range),
    **dict.fromkeys(["logical_not", "bitwise_not"], attention.inverted),
    **dict.fromkeys(["logical_and", "bitwise_and", "__and__"], attention.both),
    "where": attention.chosen,
    "masked_fill": attention.filled,
    "cross_entropy_loss": losses.cross_entropy,
    "mse_loss": losses.compared("mse"),
    "binary_cross_entropy_with_logits": losses.compared("bce"),
}
