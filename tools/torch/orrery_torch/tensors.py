"""Tensors in files, by the standard library and torch alone: safetensors, .npy and CSV."""

import ast
import ctypes
import json
import struct
from pathlib import Path

import torch
from torch import Tensor

SAFETENSORS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
# as f4 is F32: the kind, and bytes
NPY = {f"{name[0].lower()}{dtype.itemsize}": dtype for name, dtype in SAFETENSORS.items() if name[0] != "B"}


class Safetensors:
    """A file of safetensors, read tensor by tensor: nothing else of it takes memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            try:
                (length,) = struct.unpack("<Q", file.read(8))
                self.header = dict(json.loads(file.read(min(length, path.stat().st_size))))
            except (TypeError, ValueError, struct.error):
                raise ValueError(f"{path}: no file of safetensors") from None
        self.header.pop("__metadata__", None)
        self.body = 8 + length

    def __contains__(self, name: str) -> bool:
        return name in self.header

    def load(self, name: str) -> Tensor:
        try:
            told = self.header[name]
            begin, end = told["data_offsets"]
            with self.path.open("rb") as file:
                file.seek(self.body + begin)
                data = bytearray(file.read(end - begin))
            return _tensor(data, SAFETENSORS[told["dtype"]], told["shape"])
        except (KeyError, TypeError, ValueError):
            raise ValueError(
                f"{self.path}: no file of safetensors, or its end is missing ({name}): copy it again"
            ) from None

    def read(self, name: str, into: Tensor) -> None:
        """The tensor of this name, whose shape is that of `into`; the types may differ."""
        check_shape(self.path, name, self.header[name]["shape"], into)
        into.copy_(self.load(name))


def check_shape(path: Path, name: str, there: list[int], into: Tensor) -> None:
    if there != list(into.shape):
        raise ValueError(f"{path}: {name} is {there} there and {list(into.shape)} in the model")


def _tensor(data: bytearray, dtype: torch.dtype, shape: list[int], at: int = 0) -> Tensor:
    count = 1
    for size in shape:
        count *= size
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype, count=count, offset=at).reshape(shape)


def load_safetensors(path: Path) -> dict[str, Tensor]:
    file = Safetensors(path)
    return {name: file.load(name) for name in file.header}


def save_safetensors(path: Path, tensors: dict[str, Tensor]) -> None:
    names = {dtype: name for name, dtype in SAFETENSORS.items()}
    header, bodies, at = {}, [], 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        body = ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
        header[name] = {
            "dtype": names[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + len(body)],
        }
        bodies.append(body)
        at += len(body)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.writelines(bodies)


def load_npy(path: Path) -> Tensor:
    data = bytearray(path.read_bytes())
    form, begin = ("<H", 10) if data[6] == 1 else ("<I", 12)
    (length,) = struct.unpack_from(form, data, 8)
    fields = ast.literal_eval(data[begin : begin + length].decode())
    if fields["fortran_order"]:
        raise ValueError(f"{path}: in Fortran's order")
    return _tensor(data, NPY[fields["descr"].lstrip("<|=")], list(fields["shape"]), begin + length)


def load_csv(path: Path) -> Tensor:
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    try:
        float(lines[0].split(",")[0])
    except ValueError:
        del lines[0]  # the heading
    return torch.tensor([[float(cell) for cell in line.split(",")] for line in lines if line])


def load_data(path: Path) -> dict[str, Tensor]:
    """A data set: its tensors by their names, the only one of a .npy or a CSV as ""."""
    with path.open("rb") as file:
        magic = file.read(6)
    if magic == b"\x93NUMPY":
        return {"": load_npy(path)}
    return load_safetensors(path) if path.suffix == ".safetensors" else {"": load_csv(path)}
