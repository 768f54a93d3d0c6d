#!/usr/bin/env python3
"""An example as a graph of costs, measured on this machine for a microbatch.
Usage: graph.py clip|vit|gpt2|encoder-decoder|resnet FILE.dot"""

import sys

import orrery_torch
import torch
from models import EXAMPLES, SAMPLES


def main() -> None:
    name, path = sys.argv[1:]
    torch.set_num_threads(1)  # as a worker of one core has it
    example = EXAMPLES[name]
    graph = orrery_torch.graph(example.model(), example.batch(SAMPLES))
    graph.write(path)
    print(f"{path}: {len(graph.parts)} operators")


main()
