"""Orrery's operators and training in PyTorch, for races and checks."""


def apart(losses: list[float], others: list[float]) -> float:
    """The largest relative difference of two trainings' losses."""
    return max(abs(x - y) / abs(y) for x, y in zip(losses, others, strict=True))
