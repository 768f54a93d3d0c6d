"""What the DAG of a published model costs beside its chain: graphs/MODELS.md is what this writes."""
import json
import math
import tempfile
from pathlib import Path

from common import GRAPHS, ask, row, run

WORKERS = 16
MACHINE = ["-w", WORKERS, "-m", 32, "--batch", 32, "--flops", "400000000000000", "--bandwidth", "50GB/s"]
WAYS = {"1f1b": ["--stages", WORKERS], "interleaved": ["--stages", 2 * WORKERS, "--schedule", "interleaved"]}
ROWS = [
    ("attention residuals, 93 layers", "attention_residuals"),
    ("residual streams, 4", "hyper_connections"),
    ("experts and a shared one", "shared_experts"),
    ("vision of 6B and language, trained", "internvl"),
    ("the same, adapters", "internvl_lora"),
    ("the same, frozen", "internvl_frozen"),
    ("thinker and talker", "thinker_talker"),
    ("CLIP, two towers", "clip_l14"),
    ("six towers", "imagebind"),
    ("LLaVA", "llava"),
    ("sight, sound and language", "sight_and_sound"),
    ("windows, then language of 72B", "qwen_vl"),
    ("four vision encoders", "four_encoders"),
    ("vision before every fourth layer", "flamingo"),
    ("Evoformer, two tracks", "evoformer"),
    ("diffusion with skips", "u_vit"),
]

ABOVE = """\
# What a DAG costs beside its chain

Frameworks whose stages are a chain (PyTorch's `PipelineStage`, Megatron's) send only to the next stage: what a later one
reads is passed on by all in between, a branch waits for the one before it, and so does every gradient. For each published
model with operators in `studies/`, the step of its DAG beside that of its chain: the same stages one behind the other, each handing
on all that later ones read. 16 workers of 400 TFLOP/s, links of 50 GB/s, 32 microbatches of one sample, activations of 32-bit
floats, `simulate`'s own cut into 16 stages (1F1B) and 32 (interleaved). GB: received by all workers; of
the stash, on the worker with the most. The head of each file says where its sizes come from.

Written by `tools/table models ORRERY`.

| model | file | schedule | step, DAG | step, chain | faster | GB, DAG | GB, chain | stash GB, DAG | GB, chain |
|---|---|---|---|---|---|---|---|---|---|"""


def crossings(operators, samples, stage_of, stages):
    """Behind each stage, bytes of the values that cross there, and of those that a gradient comes back for."""
    trained, last = {}, {}
    for o in operators:
        trained[o["name"]] = bool(o["parameters"]) and not o["frozen"] or any(trained[x] for x in o["inputs"])
        for x in o["inputs"]:
            last[x] = max(last.get(x, 0), stage_of.get(o["name"], 0))
    found = [[0, 0] for _ in range(stages)]
    for o in (o for o in operators if o["op"] != "input"):
        size = 4 * samples * math.prod(o["shape"])
        for boundary in range(stage_of[o["name"]], last.get(o["name"], 0)):
            found[boundary][0] += size
            found[boundary][1] += size if trained[o["name"]] else 0
    return found


def chain_of(show, plan):
    """The stages of a plan one behind the other, as DOT."""
    stage_of = {o: s for s, stage in enumerate(plan["stages"]) for o in stage["operators"]}
    behind = crossings(show["operators"], plan["samples"], stage_of, len(plan["stages"]))
    lines = []
    for s, (stage, costs) in enumerate(zip(plan["stages"], plan["pipeline"]["stages"])):
        times = {"forward": stage["forward"], "backward": costs["backward"], "weight": costs["weight"]}
        # without a weight, half of a backward beside frozen stages would be one
        given = {name: time or 0 for name, time in times.items() if time or name == "weight" and costs["backward"]}
        says = [f'{name}="{round(1e9 * time)}ns"' for name, time in given.items()]
        says += [f'stash="{costs["stash_bytes"]}B"', f'parameters="{stage["parameter_bytes"]}B"']
        says += ["frozen=true"] if stage["frozen"] else []
        lines.append(f"s{s} [{', '.join(says)}];")
        if s:
            sent, back = behind[s - 1]
            lines.append(f's{s - 1} -> s{s} [bytes="{sent}B", {f"gradient_bytes={back}" if back else "gradient=false"}];')
    return "digraph chain {\n" + "\n".join(lines) + "\n}\n"


def figures(report):
    received = sum(w["recv_activation_bytes"] + w["recv_gradient_bytes"] for w in report["worker"])
    return report["makespan"], received / 1e9, max(w["peak_stash_bytes"] for w in report["worker"]) / 1e9


def line(orrery, text, name, way):
    graph = GRAPHS / "studies" / f"{name}.dot"
    with tempfile.TemporaryDirectory() as folder:
        plan, chain = Path(folder, "plan.json"), Path(folder, "chain.dot")
        run(orrery, "simulate", graph, *MACHINE, *WAYS[way], "-o", plan)
        chain.write_text(chain_of(ask(orrery, "show", graph), json.loads(plan.read_text())))
        dag = figures(json.loads(plan.read_text()))
        beside = figures(ask(orrery, "simulate", chain, *MACHINE, *WAYS[way]))
    cells = [f"{x:.4g}" for pair in zip(dag, beside) for x in pair]
    return row(text, f"`{name}.dot`", way, *cells[:2], f"{beside[0] / dag[0]:.3f}", *cells[2:])


LIMIT = """
Where both are alike, each stage is read by the next alone: the DAG's branches, as the shared expert beside the routed ones or
adapters beside what is frozen, lie inside of stages, and what hyper-connections cost is the width of what is sent, not a branch.
Frozen encoders have no backward and no stash, with adapters they have both; the difference of the three rows is what training
the encoder costs.

## Attention residuals under a limit of links

A block's output is sent once to each worker that has a later reader, and its gradient comes back from each stage. Of p
workers with v stages each, of which every one ends a block, m microbatches of outputs of A bytes are sent m A (p - 1)(pv -
p/2) bytes of activations, and would be m A (pv (pv - 1) - pv (v - 1))/2 if each stage received its own, as gradients are; a
chain hands on m A pv (pv - 1)/2 each way (`tests/test_by_hand.py`). So more stages a worker hold the bubble down and the
links up. Here 8 workers receive one thing at a time, at the speed in the first column; port: how long the busiest one
receives, to hold against the busy time of a worker. `plan`: `orrery plan --straight --contiguous`.

| GB/s | cut | busy, s | port, s | step, s |
|---|---|---|---|---|"""


def limit_lines(orrery):
    graph = GRAPHS / "studies/attention_residuals.dot"
    with tempfile.TemporaryDirectory() as folder:
        machine, plan = Path(folder, "machine.dot"), Path(folder, "plan.json")
        for rate in (50, 10, 5):
            machine.write_text(f'graph {{ bandwidth="{rate}GB/s"; ports=true; w [repeat=8]; }}')
            words = ["--machine", machine, *MACHINE[2:-2]]
            run(orrery, "plan", graph, *words, "--straight", "--contiguous", "-o", plan)
            for text, said in (
                ("32 stages, interleaved", [graph, *words, "--stages", 32, "--schedule", "interleaved"]),
                ("8 stages, 1f1b", [graph, *words, "--stages", 8]),
                ("plan", [plan]),
            ):
                report = ask(orrery, "simulate", *said)
                bytes_in = (w["recv_activation_bytes"] + w["recv_gradient_bytes"] for w in report["worker"])
                busy = max(w["busy"] for w in report["worker"])
                yield row(rate, text, *(f"{x:.4g}" for x in (busy, max(bytes_in) / rate / 1e9, report["makespan"])))


def main(options):
    print(ABOVE)
    for text, name in ROWS:
        for way in WAYS:
            print(line(options.orrery, text, name, way), flush=True)
    print(LIMIT)
    print("\n".join(limit_lines(options.orrery)))
