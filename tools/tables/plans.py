"""Branches side by side against the same graph as a chain: graphs/PLANS.md is what this writes."""
from common import GRAPHS, ask, row

ROWS = [
    ("two towers of 3, trunk of 2", "towers:3,3/2", 8, 16),
    ("towers of 4 and 2, trunk of 2", "towers:4,2/2", 8, 16),
    ("four towers of 2, trunk of 2", "towers:2,2,2,2/2", 10, 16),
    ("towers of 5, 3, 2 and 1, trunk of 1", "towers:5,3,2,1/1", 12, 16),
    ("MMT: 4 branches of 8", "mmt.dot", 8, 16),
    ("MMT: 4 branches of 8", "mmt.dot", 32, 64),
    ("branches of 8, 4, 2 and 2", "mixed.dot", 8, 16),
    ("CANDLE-Uno: 7 branches of 4", "candle_uno.dot", 8, 16),
    ("CANDLE-Uno: 7 branches of 4", "candle_uno.dot", 28, 32),
    ("CLIP: 12 image and 12 text layers", "clip.dot", 8, 16),
    ("CLIP: 12 image and 12 text layers", "clip.dot", 16, 32),
    ("DLRM: 7 branches of 4, 7 tables", "dlrm.dot", 8, 16),
    ("DLRM: 7 branches of 4, 7 tables", "dlrm.dot", 16, 32),
]

ABOVE = """\
# Branches side by side

What a plan gains by running branches side by side on different workers, instead of cutting the graph as a chain, in which
each stage waits for the previous one: the length of the longest path, not the number of stages, sets the number of
microbatches in flight. One worker per stage, free links; for each, the best cut that `orrery plan --straight --makespan`
finds. Step: simulated, in seconds (in units for towers:). Stashes and MB: of the worker with the most.
[README.md](README.md#published-models) says where the published models in `studies/` come from.

Written by `tools/table plans ORRERY`.

| model | workers | microbatches | step, chain | step, side by side | faster | stashes, chain | side by side | MB, chain | MB, side by side |
|---|---|---|---|---|---|---|---|---|---|"""


def rounded(value, digits):
    return f"{round(value, digits):.15g}"


def lines(orrery, text, graph, workers, m, memory=()):
    """A row; where the faster plan takes more memory, another in the chain's."""
    plan = ask(orrery, "plan", graph, "-w", workers, "--straight", "--makespan", "-m", m, *memory)
    chain, beside = plan["chain"], plan["side_by_side"]
    yield row(text, workers, m, rounded(chain["makespan"], 3), rounded(beside["makespan"], 3),
              rounded(chain["makespan"] / beside["makespan"], 2), chain["peak_stash"], beside["peak_stash"],
              *(rounded(plan["memory_bytes"] / 1e6, 0) for plan in (chain, beside)))
    if beside["memory_bytes"] > chain["memory_bytes"]:
        limit = ("--memory", f"{chain['memory_bytes']}B")
        yield from lines(orrery, "the same, in the chain's memory", graph, workers, m, limit)


def main(options):
    print(ABOVE)
    for text, graph, workers, m in ROWS:
        path = GRAPHS / "studies" / graph if graph.endswith(".dot") else graph
        print("\n".join(lines(options.orrery, text, path, workers, m)), flush=True)
