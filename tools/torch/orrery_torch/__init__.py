"""PyTorch models as graphs of Orrery, and back."""

from .convert import Program, convert
from .study import Graph, graph
from .weights import load

__all__ = ["Graph", "Program", "convert", "graph", "load"]
