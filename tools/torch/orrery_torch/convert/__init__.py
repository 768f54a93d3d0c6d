"""A model as a graph that computes: `convert()` and `load()`."""
