"""A model as a graph of costs: `graph()`."""
