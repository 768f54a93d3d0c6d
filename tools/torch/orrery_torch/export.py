"""A plan as what others train and simulate by: Megatron-LM's pipeline layout, torchtitan's module names, Chakra traces.

    python -m orrery_torch.export PLAN.json megatron
    python -m orrery_torch.export PLAN.json torchtitan
    python -m orrery_torch.export PLAN.json chakra PREFIX          PREFIX.0.et, PREFIX.1.et, ...

PLAN.json is what `orrery plan -o` or `orrery simulate -o` wrote. This file needs nothing but Python, and runs by its path, too.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

Plan = dict[str, Any]

# ---- layers ----

LAYER = re.compile(r"(?:b|block|blocks|h|l|layer|layers)(\d+)")


def layer_of(operator: str) -> int | None:
    """Of "q.3" and "layers_3_mlp_fc1", a part that is a number; of "b3_norm1", the first part; else none."""
    parts = re.split(r"[._/]", operator)
    whole = next((part for part in parts[1:] if part.isdigit()), None)
    begun = LAYER.fullmatch(parts[0])
    return int(whole) if whole else int(begun[1]) if begun else None


@dataclass
class Part:
    """What of the model a stage has: layers, and whether it begins and ends it."""

    layers: list[int] = field(default_factory=list)
    begins: bool = False
    ends: bool = False


def parts_of(plan: Plan) -> list[Part]:
    """The stages of a transformer, in order. ValueError names one that begins or ends inside of a layer, and one that is
    not where its layers are."""
    parts = [Part() for _ in plan["stages"]]
    before = (0, "")
    owner: dict[int, tuple[int, str]] = {}  # of a layer, its stage and an operator of it
    for s, stage in enumerate(plan["stages"]):
        for operator in stage["operators"]:
            layer = layer_of(operator)
            if layer is None:
                continue
            if layer < before[0]:
                raise ValueError(f"stage {s} has {operator} behind {before[1]}: layers are counted anew, and a layout has those of one tower")
            before = layer, operator
            first, other = owner.setdefault(layer, (s, operator))
            if first != s:
                cure = "plan a graph whose operators are whole layers, or pin each layer to a stage"
                raise ValueError(f"stage {s} begins inside of layer {layer}: it has {operator}, and stage {first} has {other}: {cure}")
            if layer not in parts[s].layers:
                parts[s].layers.append(layer)
    if not owner:
        raise ValueError("no operator has the number of a layer, as q.3 and b3_q have: nothing says which layers a stage has")
    layers = [layer for part in parts for layer in part.layers]
    if layers != list(range(len(layers))):
        s = next(s for s, part in enumerate(parts) for layer in part.layers if layers[layer : layer + 1] != [layer])
        raise ValueError(f"stage {s} has layers {parts[s].layers}, and those of all stages are not 0, 1, 2, ... one after the other")
    parts[0].begins = parts[-1].ends = True
    check_ends(plan, parts)
    return parts


def check_ends(plan: Plan, parts: list[Part]) -> None:
    """What comes before the first layer is in the first stage, what comes behind the last in the last: others have no name for it."""
    first = next(s for s, part in enumerate(parts) if part.layers)
    last = max(s for s, part in enumerate(parts) if part.layers)
    for s, stage in enumerate(plan["stages"]):
        apart = [operator for operator in stage["operators"] if layer_of(operator) is None]
        if apart and not (s <= first or s >= last):
            raise ValueError(f"stage {s} has {apart[0]}, which is of no layer, between stages that have layers: pin it to the first or the last")
        if apart and 0 < s < len(parts) - 1 and not parts[s].layers:
            raise ValueError(f"stage {s} has {apart[0]} and no layer: the embedding is in the first stage, the loss in the last")


def check_placed(plan: Plan) -> int:
    """Workers; stage s is on worker s mod workers, as under 1F1B and interleaved, alone."""
    n = int(plan["workers"])
    for s, stage in enumerate(plan["stages"]):
        if stage["workers"] != [s % n]:
            cure = "give the plan to others as layers a stage without replicas (`plan --straight --contiguous`)"
            raise ValueError(f"stage {s} is on workers {stage['workers']}, and these frameworks put it on {s % n}: {cure}")
    return n


def squeezed(text: str) -> str:
    """Letters that follow each other as t*3."""
    return "".join(f"{x}*{n}" if (n := len(list(same))) > 1 else x for x, same in groupby(text))


def megatron(plan: Plan) -> str:
    """Megatron-LM's --pipeline-model-parallel-layout: E the embedding, t a layer, L the loss, | between stages, "Et*3|t*2|tL"
    (docs/user-guide/features/pipeline_parallel_layout.md). Stage s is of pipeline rank s mod --pipeline-model-parallel-size,
    the number of the plan's workers. ValueError names the stage that it cannot say."""
    parts = parts_of(plan)
    check_placed(plan)
    stages = [squeezed("E" * part.begins + "t" * len(part.layers) + "L" * part.ends) for part in parts]
    alike = [(text, len(list(same))) for text, same in groupby(stages[:-1])]
    before = "".join(f"({text}|)*{n}" if n > 2 else f"{text}|" * n for text, n in alike)
    return before + stages[-1]


def torchtitan(
    plan: Plan, first: Iterable[str] = ("tok_embeddings",), last: Iterable[str] = ("norm", "lm_head")
) -> list[list[str]]:
    """torchtitan's parallelism.module_fqns_per_model_part, one list for each stage: first and last are the modules before and
    behind the layers, as the model calls them. ValueError as megatron()."""
    parts = parts_of(plan)
    check_placed(plan)
    return [
        [*(first if part.begins else ()), *(f"layers.{layer}" for layer in part.layers), *(last if part.ends else ())]
        for part in parts
    ]


# ---- Chakra ----

COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7  # NodeType
ALL_REDUCE = 0  # CollectiveCommType


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def number(key: int, value: int) -> bytes:
    return varint(key << 3) + varint(value)


def text(key: int, value: bytes) -> bytes:
    return varint(key << 3 | 2) + varint(len(value)) + value


def attribute(name: str, key: int, value: int) -> bytes:
    """AttributeProto: int32_val is 7, int64_val 9, bool_val 27."""
    return text(10, text(1, name.encode()) + number(key, value))


@dataclass
class Node:
    name: str
    type: int
    after: list[int]  # nodes of this worker that it waits for
    duration_us: int = 0
    size: int = 0
    ends: tuple[int, int, int] | None = None  # from, to, tag

    def message(self, index: int) -> bytes:
        """Node of MLCommons Chakra's schema/protobuf/et_def.proto, in the attributes that its feeder for ASTRA-sim reads."""
        out = number(1, index) + text(2, self.name.encode()) + number(3, self.type)
        out += text(5, b"".join(map(varint, self.after)))
        if self.duration_us:
            out += number(7, self.duration_us)
        out += attribute("is_cpu_op", 27, 0)
        if self.type == COMPUTE:
            return out + attribute("num_ops", 9, 0) + attribute("tensor_size", 9, 0)
        out += attribute("comm_size", 9, self.size)
        if self.type == COLLECTIVE:
            return out + attribute("comm_type", 9, ALL_REDUCE)
        for name, value in zip(("comm_src", "comm_dst", "comm_tag"), self.ends or ()):
            out += attribute(name, 7, value)
        return out


JOB = re.compile(r"(\d+)([FBW])(\d+)")


@dataclass
class Trace:
    """Nodes of every worker, as its jobs are found; a job waits for the one before it and for what it receives."""

    plan: Plan
    nodes: list[list[Node]]
    last: list[int | None]  # job of each worker
    elapsed_ns: list[int]
    sent: dict[tuple[int, str, int, int], int] = field(default_factory=dict)  # a value to a worker: the node that has it there
    made: dict[tuple[int, str, int], tuple[int, int]] = field(default_factory=dict)  # a job: its worker and node
    tags: int = 0

    def add(self, w: int, node: Node) -> int:
        self.nodes[w].append(node)
        return len(self.nodes[w]) - 1

    def compute(self, w: int, name: str, ns: int, after: Iterable[int]) -> int:
        """Microseconds are those of the sums so far, so that a worker's add up to its time."""
        before = self.elapsed_ns[w]
        self.elapsed_ns[w] += ns
        micros = (self.elapsed_ns[w] + 500) // 1000 - (before + 500) // 1000
        own = self.last[w]
        waits = sorted({*after, *([] if own is None else [own])})
        self.last[w] = self.add(w, Node(name, COMPUTE, waits, micros))
        return self.last[w]

    def move(self, key: tuple[int, str, int], to: int, size: int, once: bool, name: str) -> int:
        """The node on worker `to` behind which it has what job `key` made; once: for all readers there."""
        w, node = self.made[key]
        if w == to:
            return node
        where = (*key, to)
        if once and where in self.sent:
            return self.sent[where]
        self.tags += 1
        ends = (w, to, self.tags)
        self.add(w, Node(f"send {name}", SEND, [node], 0, size, ends))
        got = self.add(to, Node(f"receive {name}", RECEIVE, [], 0, size, ends))
        return self.sent.setdefault(where, got) if once else got


def nanoseconds(seconds: float | None) -> int:
    return round(1e9 * (seconds or 0))


def durations(plan: Plan, split: bool) -> list[dict[str, int]]:
    found = []
    for stage, costs in zip(plan["stages"], plan["pipeline"]["stages"]):
        back = nanoseconds(costs["backward" if split else "whole"])  # a forward that is run again is in it
        found.append({"F": nanoseconds(stage["forward"]), "B": back, "W": nanoseconds(costs["weight"])})
    return found


def jobs_in_order(plan: Plan) -> Iterator[tuple[int, int, str, int]]:
    """(worker, stage, pass, microbatch), each behind all that it waits for; the plan has no deadlock."""
    edges = [(a, b) for a, b, *_ in plan["pipeline"]["edges"]]
    orders = [[JOB.match(job) for job in worker["order"]] for worker in plan["worker"]]
    there = {(int(j[1]), j[2], int(j[3])) for order in orders for j in order if j}
    at, done = [0] * len(orders), set()
    while any(i < len(order) for i, order in zip(at, orders)):
        moved = False
        for w, order in enumerate(orders):
            while at[w] < len(order):
                job = order[at[w]]
                assert job
                s, d, b = int(job[1]), job[2], int(job[3])
                needs = {(a, "F", b) for a, c in edges if c == s} if d == "F" else {(s, "F", b)}
                needs |= {(c, "B", b) for a, c in edges if a == s} if d == "B" else set()
                needs |= {(s, "B", b)} if d == "W" else set()
                if needs & there - done:
                    break
                yield w, s, d, b
                done.add((s, d, b))
                at[w] += 1
                moved = True
        if not moved:
            raise ValueError("the plan's orders wait for each other: plan again")


def check_said(plan: Plan) -> None:
    """What a trace of jobs and transfers does not say."""
    wrong = (
        ("unit" in plan and plan["unit"] == "units", "its times are units, and a trace has microseconds: give --costs 1ms,2ms"),
        ("split" in plan, "its operators are split among workers"),
        ("pipeline" not in plan, "it was written by `orrery plan`: `orrery simulate PLAN.json -o FILE.json` has the jobs' costs"),
        (any("@" in job for w in plan["worker"] for job in w["order"]), "parameters are fetched from other workers"),
        (any(w.get("recv_stashes") for w in plan["worker"]), "stashes move between workers"),
        ("microbatch_costs" in plan, "its microbatches differ, and a stage has one cost here"),
        ("stream" in plan, "it never flushes"),
        ("shard_optimizer" in plan and plan["shard_optimizer"], "the optimizer's state is sharded"),
        (
            any(w["all_reduce_bytes"] for w in plan["worker"]) and all(len(x["owners"]) < 2 for x in plan["stages"]),
            "stages share parameters",
        ),
    )
    for holds, why in wrong:
        if holds:
            raise ValueError(why)


def check_busy(plan: Plan, trace: Trace) -> None:
    for w, worker in enumerate(plan["worker"]):
        if abs(trace.elapsed_ns[w] - nanoseconds(worker["busy"])) > len(worker["order"]) + 1:
            why = "workers differ in speed, or several compute a job, of which the stages' costs say nothing"
            raise ValueError(f"worker {w} is busy for {worker['busy']:g} s, and its jobs take {trace.elapsed_ns[w] / 1e9:g} s: {why}")


def traced(plan: Plan) -> list[list[Node]]:
    """The nodes of every worker. ValueError says what a trace cannot say of the plan."""
    check_said(plan)
    n = len(plan["worker"])
    trace = Trace(plan, [[] for _ in range(n)], [None] * n, [0] * n)
    split = any("W" in job for w in plan["worker"] for job in w["order"])
    takes = durations(plan, split)
    sizes = {(a, b): (sent, back) for a, b, sent, back in plan["pipeline"]["edges"]}
    for w, s, d, b in jobs_in_order(plan):
        after = [trace.made[s, before, b][1] for before in "FB" if before < d != "F" and (s, before, b) in trace.made]
        if d == "F":
            after += [trace.move((a, "F", b), w, size, True, f"{a}F{b}") for (a, c), (size, _) in sizes.items() if c == s]
        elif d == "B":
            after += [
                trace.move((c, "B", b), w, back, False, f"{c}B{b} to {s}")
                for (a, c), (_, back) in sizes.items()
                if a == s and (c, "B", b) in trace.made
            ]
        trace.made[s, d, b] = w, trace.compute(w, f"{s}{d}{b}", takes[s][d], after)
    finish(plan, trace)
    check_busy(plan, trace)
    return trace.nodes


def finish(plan: Plan, trace: Trace) -> None:
    """The step's end: a stage's owners add up its gradients, and update it."""
    for s, stage in enumerate(plan["stages"]):
        for w in stage["owners"]:
            own = trace.last[w]
            if len(stage["owners"]) > 1 and not stage["frozen"]:
                size = stage["parameter_bytes"]
                own = trace.add(w, Node(f"all-reduce of stage {s}", COLLECTIVE, [] if own is None else [own], 0, size))
            if stage["update"]:
                trace.compute(w, f"update of stage {s}", nanoseconds(stage["update"]), [] if own is None else [own])


def chakra(plan: Plan, prefix: Path | str) -> list[Path]:
    """Writes PREFIX.w.et for each worker w, as ASTRA-sim's --workload-configuration PREFIX wants them, and gives their paths: a
    GlobalMetadata and the Nodes of MLCommons Chakra's schema/protobuf/et_def.proto, each behind its length. A job's duration is
    in microseconds, rounded so that a worker's add up. ValueError says what of the plan a trace cannot say."""
    paths = []
    for w, nodes in enumerate(traced(plan)):
        messages = [text(1, b"0.0.4"), *(node.message(i) for i, node in enumerate(nodes))]
        path = Path(f"{prefix}.{w}.et")
        path.write_bytes(b"".join(varint(len(message)) + message for message in messages))
        paths.append(path)
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("as_what", choices=["megatron", "torchtitan", "chakra"])
    parser.add_argument("prefix", nargs="?", help="of the files of chakra")
    given = parser.parse_args()
    if (given.as_what == "chakra") != bool(given.prefix):
        parser.error("chakra writes files, and wants a PREFIX; the others print")
    try:
        plan = json.loads(given.plan.read_text())
        if given.as_what == "chakra":
            print("\n".join(map(str, chakra(plan, given.prefix))))
        else:
            said = megatron(plan) if given.as_what == "megatron" else json.dumps(torchtitan(plan))
            print(said)
    except (OSError, ValueError) as why:
        print(f"{given.plan}: {why}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
