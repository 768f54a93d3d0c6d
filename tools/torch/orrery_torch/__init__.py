"""PyTorch models as graphs of Orrery, and back."""

from .convert import Program, convert
from .runner import Runner, run
from .schedule import Simulated, schedule
from .study import Graph, graph
from .weights import load

__all__ = ["Graph", "Program", "Runner", "Simulated", "convert", "graph", "load", "run", "schedule"]
