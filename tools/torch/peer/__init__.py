"""Orrery's operators and training in PyTorch, for races and checks."""
