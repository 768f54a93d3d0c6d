"""PyTorch models as graphs of Orrery, and back."""

from .calls import Compared, Planned, Simulated, compare, plan, simulate
from .command import Page, page
from .convert.convert import Program, convert
from .convert.weights import load
from .costs.study import Graph, graph
from .run.alarm import Fault
from .run.evaluate import Evaluation
from .run.runner import Runner, run
from .schedule import schedule

__all__ = [
    "Compared",
    "Evaluation",
    "Fault",
    "Graph",
    "Page",
    "Planned",
    "Program",
    "Runner",
    "Simulated",
    "compare",
    "convert",
    "graph",
    "load",
    "page",
    "plan",
    "run",
    "schedule",
    "simulate",
]
