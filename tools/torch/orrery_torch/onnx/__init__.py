"""Models in ONNX as graphs of Orrery, by the package `onnx`."""

from pathlib import Path

from ..convert.convert import Apart, Program, finished
from ..trace.trace import Trace, export, first_line
from .opaque import Opaque
from .reader import read

__all__ = ["convert"]


def converted(path: Path) -> Program:
    found = read(path)
    trace = Trace(found.model, export(found.model, found.example, None))
    apart: set[str] = set()
    while True:
        converter = Opaque(trace, found, apart)
        converter.run()
        try:
            program = finished(converter, path.name)
        except Apart as which:
            apart.add(which.name)
            continue
        program.table, program.lacking = True, found.lacking and f"{path}: {found.lacking}"
        return program


def convert(path: Path | str) -> Program:
    """The model as a graph that computes; what has nothing like it in Orrery is an opaque operator,
    with costs. ValueError says in a line what is wrong with the file."""
    try:
        return converted(Path(path))
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError) as why:
        raise ValueError(
            f"{path}: no ONNX model, or a damaged one: export it again ({first_line(why)})"
        ) from why
