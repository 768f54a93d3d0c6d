"""A plan run over torch.distributed: `Runner`."""
