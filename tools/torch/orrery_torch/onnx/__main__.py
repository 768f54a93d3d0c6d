"""python -m orrery_torch.onnx MODEL.onnx -o GRAPH.dot: the graph, and its weights beside it."""

import argparse
import sys
from pathlib import Path

from . import convert


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m orrery_torch.onnx",
        description="Writes a model in ONNX as a graph of Orrery, and its weights as GRAPH.safetensors "
        "for orrery train --init.",
    )
    parser.add_argument("model", type=Path, metavar="MODEL.onnx")
    parser.add_argument("-o", type=Path, required=True, metavar="GRAPH.dot", dest="graph")
    words = parser.parse_args()
    try:
        program = convert(words.model)
        program.write(words.graph)
        if program.lacking:
            print(f"{program.lacking}: no weights are written", file=sys.stderr)
        else:
            program.save_weights(words.graph.with_suffix(".safetensors"))
    except (OSError, ValueError) as why:
        print(f"orrery_torch.onnx: {why}", file=sys.stderr)
        return 2
    return 0


sys.exit(main())
