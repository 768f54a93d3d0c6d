"""Measured steps of clusters beside the simulator's, with one constant each.

FOLDER has tables of what others measured. primus_1f1b.csv: every job of 20 iterations under 1F1B on 8 GPUs of one node, and
primus_1f1b_iterations.csv: how long each rank took. They are replayed with each job's own duration; the lag of a transfer is
fitted to every second iteration. The first three warm up and are left out; a step is its longest rank's.

bigscience_a100.csv: GPTs of 18 to 206 billion parameters on A100s, under 1F1B with recomputation, split among the 8 GPUs of a
node or fewer, and in replicas. Of the rows of one day, shape, split and microbatch the first gives the speed of a GPU (`orrery
fit`), and the others are met with it. A FLOP of the head, one product that is not recomputed, takes less than one of a layer:
how much less, one pair of rows says. Links have 4 x 100 Gbit/s a node, shared by its GPUs; the optimizer's time is left out.
"""
import collections
import csv
import os
import statistics
import tempfile

from common import ask

TOKENS, WORDS = 2048, 250000
PEAK_FLOPS = 312e12
GPU_BYTES_PER_S = 4 * 12.5e9 / 8
CLOSE_HEAD = 0.01
WARM_UP = 3
MOST_LAG_MS = 20
CLOSE_MS = 0.001


def arguments(parser):
    parser.add_argument("folder", metavar="FOLDER")


def rows_of(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_costs(path, jobs):
    with open(path, "w", encoding="utf-8") as file:
        file.write("stage,microbatch,pass,duration\n")
        for job in jobs:
            ns = round((float(job["end_ms"]) - float(job["start_ms"])) * 1e6)
            file.write(f"{job['rank']},{job['microbatch']},{job['pass']},{ns}ns\n")


def simulated_ms(orrery, costs, lag_ms):
    """All ranks take their jobs as they did; a transfer arrives its lag later."""
    links = ["--activation", "1B", "--latency", f"{round(lag_ms * 1e6)}ns"] if lag_ms else []
    words = ["chain:8", "-m", "16", "-s", "1f1b", "--costs", "1ms,1ms", "--microbatch-costs", costs, *links]
    return ask(orrery, "simulate", *words)["makespan"] * 1e3


def fit(orrery, steps):
    """The lag with which these steps are right on average: a step grows with it."""
    low, high = 0, MOST_LAG_MS
    while high - low > CLOSE_MS:
        lag = (low + high) / 2
        off = sum(simulated_ms(orrery, costs, lag) / measured - 1 for costs, measured in steps)
        low, high = (low, lag) if off > 0 else (lag, high)
    return (low + high) / 2


def errors(orrery, steps, lag_ms):
    return [100 * (simulated_ms(orrery, costs, lag_ms) / measured - 1) for costs, measured in steps]


def line(what, off):
    sizes = [abs(x) for x in off]
    print(f"| {what} | {len(off)} | {statistics.mean(off):+.2f}% | {statistics.mean(sizes):.2f}% | "
          f"{statistics.median(sizes):.2f}% | {max(sizes):.2f}% |")


def graph(row, head):
    """Layers that a GPU of a group computes its part of, as many a stage as there are, the last one with the rest."""
    layers, hidden, stages = int(row["layers"]), int(row["hidden"]), int(row["pipeline"])
    samples, part = int(row["micro_batch_samples"]), int(row["tensor"])
    layer = 24 * hidden ** 2 + 4 * TOKENS * hidden  # FLOP a token, forward
    each = -(-layers // stages)
    lines = ["digraph gpt {"]

    def add(name, stage, flops, parameters):
        ns = round(flops * TOKENS * samples / part / PEAK_FLOPS * 1e9)
        lines.append(f'{name} [stage={stage}, forward="{ns}ns", backward="{3 * ns}ns", '  # and once more for the backward
                     f'activation="{2 * hidden * TOKENS * samples // part}B", parameters="{2 * parameters // part}B"];')

    for i in range(layers):
        add(f"layer_{i}", min(i // each, stages - 1), layer, 12 * hidden ** 2 + (WORDS * hidden if i == 0 else 0))
    add("head", stages - 1, head * 2 * hidden * WORDS, WORDS * hidden)
    chain = " -> ".join([f"layer_{i}" for i in range(layers)] + ["head"])
    return "\n".join([*lines, chain + ";", "}"])


def met(orrery, folder, rows, head):
    """What the rows after the first are off, in percent; head: the time of its FLOP, a layer's being 1."""
    path = os.path.join(folder, "steps.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.write("graph,workers,replicas,microbatches,seconds,use\n")
        for i, row in enumerate(rows):
            name, replicas = os.path.join(folder, f"{i}.dot"), int(row["data"])
            with open(name, "w", encoding="utf-8") as of:
                of.write(graph(row, head))
            file.write(f"{name},{int(row['pipeline']) * replicas},{replicas},{int(row['microbatches_per_replica']) * replicas},"
                       f"{row['seconds_per_iteration']},{'check' if i else 'fit'}\n")
    words = ["-s", "1f1b", "--constants", "compute", "--bandwidth", f"{GPU_BYTES_PER_S:.0f}B/s"]
    return [100 * (x["simulated"] / x["seconds"] - 1) for x in ask(orrery, "fit", path, *words)["steps"][1:]]


def groups(folder):
    of = collections.defaultdict(list)
    for row in rows_of(folder, "bigscience_a100.csv"):
        if row["seconds_per_iteration"] and row["fits"] == "yes" and row["heads"] and int(row["pipeline"]) > 1 \
                and not row["notes"].startswith("outlier"):
            of[tuple(row[x] for x in ("date", "hidden", "heads", "tensor", "micro_batch_samples"))].append(row)
    return {key: rows for key, rows in sorted(of.items()) if len(rows) > 1}


def fit_head(orrery, rows, room):
    """With which the second row is met: on fewer stages the head is less of the last one, so it is shorter the more it is."""
    low, high = 0, 1
    while high - low > CLOSE_HEAD:
        head = (low + high) / 2
        low, high = (head, high) if met(orrery, room, rows, head)[0] > 0 else (low, head)
    return (low + high) / 2


def meet_a100(orrery, folder):
    of, every = groups(folder), []
    with tempfile.TemporaryDirectory() as room:
        first = next(key for key, rows in of.items() if rows[0]["pipeline"] != rows[1]["pipeline"])
        head = fit_head(orrery, of.pop(first), room)
        print(f"A FLOP of the head takes {head:.2f} of one of a layer, from {', '.join(first)}\n")
        print("| day, hidden, heads, tensor, micro batch | fitted to | met |\n|---|---|---|")
        for key, rows in of.items():
            off = met(orrery, room, rows, head)
            names = [f"{row['layers']} layers, p{row['pipeline']} d{row['data']} m{row['microbatches_per_replica']}" for row in rows]
            print(f"| {', '.join(key)} | {names[0]} | " + "; ".join(f"{name}: {x:+.1f}%" for name, x in zip(names[1:], off)) + " |")
            every += off
    print("\n| simulated | rows | mean | size, mean | median | worst |\n|---|---:|---:|---:|---:|---:|")
    line("A100, rows that were not fitted to", every)


def replay(options):
    jobs = collections.defaultdict(list)
    for job in rows_of(options.folder, "primus_1f1b.csv"):
        jobs[int(job["iteration"])].append(job)
    total = collections.defaultdict(float)
    for row in rows_of(options.folder, "primus_1f1b_iterations.csv"):
        total[int(row["iteration"])] = max(total[int(row["iteration"])], float(row["total_ms"]))
    with tempfile.TemporaryDirectory() as folder:
        steps = []
        for i in sorted(jobs):
            if i > WARM_UP:
                costs = os.path.join(folder, f"{i}.csv")
                write_costs(costs, jobs[i])
                steps.append((costs, total[i]))
        lag = fit(options.orrery, steps[::2])
        print(f"{len(steps)} iterations of 8 GPUs, 16 microbatches, under 1F1B; a lag of {lag:.2f} ms a transfer\n")
        print("| simulated | iterations | mean | size, mean | median | worst |\n|---|---:|---:|---:|---:|---:|")
        line("free links", errors(options.orrery, steps, 0))
        line("with the lag, those that it was fitted to", errors(options.orrery, steps[::2], lag))
        line("with the lag, the others", errors(options.orrery, steps[1::2], lag))


def main(options):
    replay(options)
    print()
    meet_a100(options.orrery, options.folder)
