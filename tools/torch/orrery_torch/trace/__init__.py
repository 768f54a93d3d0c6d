"""The calls of a model, and the parts that they make."""
