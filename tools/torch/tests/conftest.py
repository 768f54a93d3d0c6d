"""One thread, since the runs of a test are small, and the command from the build tree."""

import pytest
import torch


@pytest.fixture(autouse=True)
def same_every_time() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
