"""PyTorch models as graphs of Orrery, and back."""

from .study import Graph, graph

__all__ = ["Graph", "graph"]
