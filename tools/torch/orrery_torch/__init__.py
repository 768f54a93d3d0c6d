"""PyTorch models as graphs of Orrery, and back."""
