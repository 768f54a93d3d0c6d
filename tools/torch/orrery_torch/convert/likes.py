"""Calls of ATen, and the operators of Orrery that are like them."""

from dataclasses import replace

from torch import fx

from .attention import (
    attention,
    both,
    chosen,
    compared_with_range,
    filled,
    heads_of,
    inverted,
    softmax,
)
from .elements import (
    add,
    at_least,
    broadcast,
    concat,
    converted,
    divide,
    dropout,
    expand,
    gelu,
    getitem,
    length,
    multiply,
    padded,
    permute,
    power,
    same,
    scaled,
    select,
    slice_,
    split,
    subtract,
    subtracted,
    transpose,
    unary,
    unbind,
    view,
)
from .emitter import Emitter
from .experts import topk
from .formulas import Formula
from .layers import (
    added_product,
    batch_norm,
    conv1d,
    conv2d,
    embedding,
    group_norm,
    layer_norm,
    linear,
    mean,
    mean_of_all,
    pool,
    product,
    rms_norm,
)
from .losses import compared, cross_entropy, differs, summed
from .values import (
    Like,
    Rows,
)


def spelt(c: Emitter, node: fx.Node, f: Formula, x: Rows) -> Rows:
    if f.op == "rotary":
        heads = heads_of(x)
        return replace(x, name=c.emit(node, "rotary", [x], heads=heads, **f.says))
    if f.op in ("rmsnorm", "normalise"):
        x.columns_last()
    return replace(x, name=c.emit(node, f.op, [x], f.tensors, **f.says))


# those that masks and attention's products go through
ATTENTION = set(
    """view reshape flatten unflatten unsqueeze squeeze contiguous clone alias to _to_copy type_as
    expand expand_as slice getitem matmul bmm baddbmm add sub rsub mul div masked_fill where softmax
    dropout logical_not bitwise_not logical_and bitwise_and __and__
    scaled_dot_product_attention""".split()
)
LIKES: dict[str, Like] = {
    **dict.fromkeys(["view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze"], view),
    **dict.fromkeys(["contiguous", "clone", "alias", "lift_fresh_copy"], same),
    **dict.fromkeys(["to", "_to_copy", "type_as"], converted),
    **dict.fromkeys(["expand", "expand_as"], expand),
    **dict.fromkeys(["transpose", "t", "numpy_T"], transpose),
    **dict.fromkeys(
        ["mT", "adjoint", "matrix_H"], lambda c, node, x: transpose(c, node, x, -2, -1)
    ),
    **dict.fromkeys(["chunk", "split", "split_with_sizes"], split),
    **{op: unary(op) for op in ("relu", "silu", "sigmoid", "tanh")},
    "broadcast_tensors": broadcast,
    "permute": permute,
    "slice": slice_,
    "select": select,
    "unbind": unbind,
    "getitem": getitem,
    "cat": concat,
    "gelu": gelu,
    "dropout": dropout,
    "add": add,
    "mul": multiply,
    "div": divide,
    "linalg_vector_norm": length,
    **dict.fromkeys(["clamp_min", "clamp"], at_least),
    **dict.fromkeys(["ne", "not_equal"], differs),
    "sum": summed,
    "linear": linear,
    "embedding": embedding,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "group_norm": group_norm,
    "batch_norm": batch_norm,
    "conv1d": conv1d,
    "conv2d": conv2d,
    "max_pool2d": pool("max_pool"),
    "avg_pool2d": pool("mean_pool"),
    "adaptive_avg_pool2d": mean_of_all,
    "mean": mean,
    "scaled_dot_product_attention": attention,
    "softmax": softmax,
    "topk": topk,
    **dict.fromkeys(["matmul", "mm", "bmm"], product),
    **dict.fromkeys(["addmm", "baddbmm"], added_product),
    "constant_pad_nd": padded,
    "pad": padded,
    "neg": lambda c, node, x: scaled(c, node, x, -1.0),
    **dict.fromkeys(["pow", "square"], power),
    "sub": subtract,
    "rsub": subtracted,
    **dict.fromkeys(["lt", "le", "gt", "ge"], compared_with_range),
    **dict.fromkeys(["logical_not", "bitwise_not"], inverted),
    **dict.fromkeys(["logical_and", "bitwise_and", "__and__"], both),
    "where": chosen,
    "masked_fill": filled,
    "cross_entropy_loss": cross_entropy,
    "mse_loss": compared("mse"),
    "binary_cross_entropy_with_logits": compared("bce"),
}
