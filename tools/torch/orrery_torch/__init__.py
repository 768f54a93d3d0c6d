"""PyTorch models as graphs of Orrery, and back."""

from .convert import Program, convert
from .runner import Runner, run
from .study import Graph, graph
from .weights import load

__all__ = ["Graph", "Program", "Runner", "convert", "graph", "load", "run"]
