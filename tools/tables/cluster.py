"""Measured steps of clusters beside the simulator's, with one constant each.

FOLDER has tables of what others measured. primus_1f1b.csv: every job of 20 iterations under 1F1B on 8 GPUs of one node, and
primus_1f1b_iterations.csv: how long each rank took. They are replayed with each job's own duration; the lag of a transfer is
fitted to every second iteration. The first three warm up and are left out; a step is its longest rank's.

bigscience_a100.csv: GPTs of 18 to 206 billion parameters on A100s, under 1F1B with recomputation, split among the 8 GPUs of a
node or fewer, and in replicas. Of the rows of one day, shape, split and microbatch the first gives the speed of a GPU (`orrery
fit`), and the others are met with it. A FLOP of the head, one product that is not recomputed, takes less than one of a layer:
how much less, one pair of rows says. Links have 4 x 100 Gbit/s a node, shared by its GPUs; the optimizer's time is left out.

Its memory, too, before 28 February: of each parameter the fullest GPU has 4 + 16/d bytes: weights, gradients and, divided among
d replicas (ZeRO 1), optimizer's state and a gradient in fp32 (the latter inferred from rows of one and of two replicas). And it
has what the simulated step stashes, where each layer is computed again from its input in 16 bits, and holds meanwhile what
[Korthikanti23] counts, attention's scores included. What is left, of libraries and buffers, is one constant, from every second
row. On the 8 GPUs of primus_1f1b.csv memory is a constant and one for each stash, from two ranks.

primus_speeds.csv: six schedules of one model on the 8 GPUs of a node, of which only ratios to 1F1B are looked at. That row gives
the speed of a GPU, v-half the lag of its links, and v-min how much more a FLOP of attention takes than one of a product: its
stages wait for each other in every microbatch unless F, B and W are as long, and attention has a B, of 2.5 forwards since it
computes its scores again, and no W. How many stashes the zero-bubble row of the page's own search had is not said: it is held
against zb-1p and zb-2p.
The model of 235 billion parameters is left out: its number of microbatches is not said, nor what its experts exchange.

megatron_bridge.csv: Llama 3 of 70 and 405 billion parameters. An operator's time is that of its FLOP at the vendor's peak, or
of its bytes: products have the row's precision, attention and head bfloat16. Tensor parallelism exchanges over NVLink at its
peak, beside nothing. All get one share of these peaks, which the first row of a release, task, GPU and precision gives, and the
others are met with it. Links between stages are free. Left out are a run whose virtual stages are not said, and mixtures of
experts, since recipes say which of their exchanges are hidden, and not the table.
"""
import collections
import os
import statistics
import tempfile

from common import ask, row, rows_of

TOKENS, WORDS = 2048, 250000
PEAK_FLOPS = 312e12
GPU_BYTES_PER_S = 4 * 12.5e9 / 8
CLOSE_HEAD = 0.01
WARM_UP = 3
MOST_LAG_MS = 20
CLOSE_MS = 0.001
LLAMA2 = {"layers": 16, "hidden": 4096, "mlp": 11008, "groups": 32, "heads": 32, "words": 32000, "tokens": 4096, "causal": 1}
SIZES = ("layers", "hidden", "heads", "tensor", "pipeline", "data", "micro_batch_samples")
MOST_MS = 5
MOST_TIMES = 8
SHAPE = ("model", "gpu", "precision", "sequence_tokens", "micro_batch_samples", "tensor", "pipeline", "context", "virtual",
         "microbatches_per_replica")
# of the primus page, and here
SCHEDULES = [("1f1b", "1f1b"), ("1f1b-interleaved", "interleaved"), ("zbb", "zb-1p"), ("zbb", "zb-2p"), ("zbv", "v-zb"),
             ("v-half", "v-half"), ("v-min", "v-min")]
LLAMA3 = {
    "LLAMA3_70B": {"layers": 80, "hidden": 8192, "mlp": 28672, "groups": 8, "heads": 64, "words": 128256, "causal": 0.5},
    "LLAMA3.1_405B": {"layers": 126, "hidden": 16384, "mlp": 53248, "groups": 8, "heads": 128, "words": 128256, "causal": 0.5},
}
# TFLOP/s in bf16, fp8 and fp4, TB/s of memory, and GB/s to the others of a node or a rack
PEAKS = {"H100": (989, 1979, 0, 3.35, 450), "B200": (2250, 4500, 9000, 8, 900), "GB200": (2500, 5000, 10000, 8, 900),
         "GB300": (2500, 5000, 15000, 8, 900)}


def arguments(parser):
    parser.add_argument("folder", metavar="FOLDER")


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


def bisected(most, close, is_above):
    """From 0: the bounds of where it begins, that close to each other."""
    low, high = 0, most
    while high - low > close:
        middle = (low + high) / 2
        low, high = (low, middle) if is_above(middle) else (middle, high)
    return low, high


def fit(orrery, steps):
    """The lag with which these steps are right on average: a step grows with it."""
    return sum(bisected(MOST_LAG_MS, CLOSE_MS, lambda lag: sum(errors(orrery, steps, lag)) > 0)) / 2


def errors(orrery, steps, lag_ms):
    return [100 * (simulated_ms(orrery, costs, lag_ms) / measured - 1) for costs, measured in steps]


def summary(of, lines):
    print(f"\n| simulated | {of} | mean | size, mean | median | worst |\n|---|---:|---:|---:|---:|---:|")
    for what, off in lines.items():
        sizes = [abs(x) for x in off]
        figures = (statistics.mean(sizes), statistics.median(sizes), max(sizes))
        print(row(what, len(off), f"{statistics.mean(off):+.2f}%", *(f"{x:.2f}%" for x in figures)))


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
    return sum(bisected(1, CLOSE_HEAD, lambda head: met(orrery, room, rows, head)[0] <= 0)) / 2


def beside(names, off):
    return "; ".join(f"{name}: {x:+.1f}%" for name, x in zip(names, off))


def meet_a100(orrery, folder, room):
    of, every = groups(folder), []
    first = next(key for key, rows in of.items() if rows[0]["pipeline"] != rows[1]["pipeline"])
    head = fit_head(orrery, of.pop(first), room)
    print(f"A FLOP of the head takes {head:.2f} of one of a layer, from {', '.join(first)}\n")
    print("| day, hidden, heads, tensor, micro batch | fitted to | met |\n|---|---|---|")
    for key, rows in of.items():
        off = met(orrery, room, rows, head)
        names = [f"{x['layers']} layers, p{x['pipeline']} d{x['data']} m{x['microbatches_per_replica']}" for x in rows]
        print(row(", ".join(key), names[0], beside(names[1:], off)))
        every += off
    summary("rows", {"A100, rows that were not fitted to": every})


# ---- memory ----

def layers_again(row, each):
    """Layers that are computed again from the sums between them, which are kept."""
    hidden, part = int(row["hidden"]), int(row["tensor"])
    unit = TOKENS * int(row["micro_batch_samples"]) * hidden
    scores = 5 * int(row["heads"]) * TOKENS / hidden
    lines = [f'digraph gpt {{ node [forward="1ms", backward="2ms", activation="{2 * unit}B"]; s [stage=0];']
    for i in range(int(row["layers"])):
        stage = f"stage={min(i // each, int(row['pipeline']) - 1)}"
        lines.append(f'l{i} [{stage}, stash="{unit * (10 + (24 + scores) / part):.0f}B", recompute=true]; '
                     f's{i} [{stage}]; {"s" if i == 0 else f"s{i - 1}"} -> l{i} -> s{i};')
    return "\n".join([*lines, "}"])


def fullest_gb(orrery, room, row):
    hidden, part, stages, n = (int(row[x]) for x in ("hidden", "tensor", "pipeline", "layers"))
    each, path = -(-n // stages), os.path.join(room, "again.dot")
    with open(path, "w", encoding="utf-8") as file:
        file.write(layers_again(row, each))
    told = ask(orrery, "simulate", path, "-s", "1f1b", "-m", row["microbatches_per_replica"])["worker"]

    def parameters(s):
        return (12 * hidden ** 2 * min(each, n - each * s) + WORDS * hidden * (s in (0, stages - 1))) / part

    return max(parameters(s) * (4 + 16 / int(row["data"])) + told[s]["peak_stash_bytes"] for s in range(stages)) / 1e9


def meet_memory(orrery, folder, room):
    rows = [row for row in rows_of(folder, "bigscience_a100.csv") if row["heads"] and row["date"] < "2022-02-28"
            and (row["memory_per_gpu_gb"] or row["fits"] == "no")]
    told = [(row, fullest_gb(orrery, room, row)) for row in rows]
    measured = [(row, float(row["memory_per_gpu_gb"]), gb) for row, gb in told if row["fits"] == "yes"]
    rest = statistics.mean(was - gb for _, was, gb in measured[::2])
    print(f"Memory of the fullest GPU: {rest:.1f} GB beside parameters and stashes, from every second row\n")
    print("| layers, hidden, heads, tensor, pipeline, data, micro batch | GB | simulated |\n|---|---:|---:|")
    lines = [(x, f"{was:.0f}", gb) for x, was, gb in measured[1::2]]
    lines += [(x, "more than 80", gb) for x, gb in told if x["fits"] == "no"]
    for x, was, gb in lines:
        print(row(", ".join(x[name] for name in SIZES), was, f"{gb + rest:.1f}"))
    off = [100 * ((gb + rest) / was - 1) for _, was, gb in measured[1::2]]
    summary("rows", {"A100, memory, rows that were not fitted to": off})


def meet_ranks(orrery, folder):
    most, told = [0] * 8, ask(orrery, "simulate", "chain:8", "-m", 16, "-s", "1f1b")["worker"]
    for x in rows_of(folder, "primus_1f1b_iterations.csv"):
        most[int(x["rank"])] = max(most[int(x["rank"])], float(x["memory_reserved_gib"]))
    stashes = [worker["peak_stash"] for worker in told]
    each = (most[1] - most[6]) / (stashes[1] - stashes[6])
    rest = most[1] - each * stashes[1]
    others = [r for r in range(8) if r not in (1, 6)]
    print(f"\nMemory by rank under 1F1B: {rest:.1f} GiB and {each:.2f} a stash, from ranks 1 and 6; the others: "
          + beside(others, [100 * ((rest + each * stashes[r]) / most[r] - 1) for r in others]))


def replay(orrery, folder, room):
    jobs = collections.defaultdict(list)
    for job in rows_of(folder, "primus_1f1b.csv"):
        jobs[int(job["iteration"])].append(job)
    total = collections.defaultdict(float)
    for x in rows_of(folder, "primus_1f1b_iterations.csv"):
        total[int(x["iteration"])] = max(total[int(x["iteration"])], float(x["total_ms"]))
    steps = []
    for i in sorted(jobs):
        if i > WARM_UP:
            costs = os.path.join(room, f"{i}.csv")
            write_costs(costs, jobs[i])
            steps.append((costs, total[i]))
    lag = fit(orrery, steps[::2])
    print(f"{len(steps)} iterations of 8 GPUs, 16 microbatches, under 1F1B; a lag of {lag:.2f} ms a transfer")
    summary("iterations", {
        "free links": errors(orrery, steps, 0),
        "with the lag, those that it was fitted to": errors(orrery, steps[::2], lag),
        "with the lag, the others": errors(orrery, steps[1::2], lag),
    })


def layer_flops(x):
    """Of a token, forward: in products, and in attention."""
    h = x["hidden"]
    products = 2 * (2 * h ** 2 + 2 * h ** 2 * x["groups"] / x["heads"] + 3 * h * x["mlp"])
    return products, 4 * x["causal"] * x["tokens"] * h


def write_chain(path, stages, bytes_of_edge):
    """Stages in a row, [(F, B, W)] in seconds."""
    with open(path, "w", encoding="utf-8") as file:
        file.write("digraph chain {\n")
        for i, (forward, backward, weight) in enumerate(stages):
            file.write(f's{i} [stage={i}, forward="{round(forward * 1e9)}ns", backward="{round(backward * 1e9)}ns", '
                       f'weight="{round(weight * 1e9)}ns", activation="{bytes_of_edge}B"];\n')
        file.write(" -> ".join(f"s{i}" for i in range(len(stages))) + ";\n}\n")


# ---- schedules ----

def primus_step(orrery, room, schedule, virtual, link_ms, dear):
    """A FLOP of a product takes 1 fs, and one of attention so many times as long; link_ms: what a transfer takes."""
    products, attention = (flops * LLAMA2["tokens"] / 1e15 for flops in layer_flops(LLAMA2))
    head = 2 * LLAMA2["hidden"] * LLAMA2["words"] * LLAMA2["tokens"] / 1e15
    n = 8 * virtual
    each = LLAMA2["layers"] // n
    stages = [[each * (products + dear * attention), each * (products + 2.5 * dear * attention), each * products]] * n
    stages[-1] = [seconds + head for seconds in stages[-1]]
    path = os.path.join(room, "primus.dot")
    write_chain(path, stages, 1)
    words = [path, "-w", "8", "-m", "32", "-s", schedule, "--latency", f"{round(link_ms * 1e6)}ns"]
    return ask(orrery, "simulate", *words)["makespan"]


def meet_primus(orrery, folder, room):
    rows = {row["schedule"]: row for row in rows_of(folder, "primus_speeds.csv") if row["model"] == "llama2-7b"}
    measured = {name: float(row["tokens_per_s_per_gpu"]) / float(rows["1f1b"]["tokens_per_s_per_gpu"]) for name, row in rows.items()}

    def ratio(name, schedule, link_ms, dear):
        virtual = 1 if name == "zbb" else int(rows[name]["virtual"])
        return (primus_step(orrery, room, "1f1b", 1, link_ms, dear) /
                primus_step(orrery, room, schedule, virtual, link_ms, dear))

    def lag(dear):
        return bisected(MOST_MS, 0.01, lambda ms: ratio("v-half", "v-half", ms, dear) <= measured["v-half"])[0]

    dear, _ = bisected(MOST_TIMES, 0.05, lambda dear: ratio("v-min", "v-min", lag(dear), dear) <= measured["v-min"])
    link_ms, (products, attention) = lag(dear), layer_flops(LLAMA2)
    share = 100 * link_ms / ((products + dear * attention) * LLAMA2["tokens"] / 1e12)
    print(f"A FLOP of attention takes {dear:.1f} times one of a product, from v-min; "
          f"a transfer {share:.0f}% of a layer's forward, from v-half\n")
    print("| schedule | simulated as | speed, 1f1b = 1 | simulated | off | a FLOP is a FLOP, free links |\n"
          "|---|---|---:|---:|---:|---:|")
    every = []
    for name, schedule in SCHEDULES:
        here, plain = ratio(name, schedule, link_ms, dear), ratio(name, schedule, 0, 1)
        off = 100 * (here / measured[name] - 1)
        print(f"| {name} | {schedule} | {measured[name]:.3f} | {here:.3f} | {off:+.1f}% | {plain:.3f} |")
        if name not in ("1f1b", "v-half", "v-min"):
            every.append(off)
    summary("rows", {"ratios of schedules, rows that were not fitted to": every})


# ---- published configurations ----

def kind(row):
    """Where its peak is, in PEAKS."""
    return 0 if row["precision"] == "bf16" else 2 if "fp4" in row["precision"] else 1


def bridge_step(orrery, room, row):
    """Seconds at the vendor's peaks."""
    x = dict(LLAMA3[row["model"]], tokens=int(row["sequence_tokens"]))
    peaks, tokens = PEAKS[row["gpu"]], x["tokens"] * int(row["micro_batch_samples"]) / int(row["tensor"]) / int(row["context"])
    products, attention = layer_flops(x)
    moved = 2 * (8.25 * x["hidden"] + 4 * x["mlp"])  # bytes of all outputs of a layer, each written and read
    product_s, attention_s = products / peaks[kind(row)] / 1e12, attention / peaks[0] / 1e12
    bytes_s, head_s = moved / peaks[3] / 1e12, 2 * x["hidden"] * x["words"] / peaks[0] / 1e12
    workers, chunks = int(row["pipeline"]), int(row["virtual"])
    n, ends = workers * chunks, 2 if x["layers"] % (workers * chunks) else 0  # then embedding and head stand for a layer each
    link_s = 4 * 2 * (int(row["tensor"]) - 1) * x["hidden"] / peaks[4] / 1e9  # 4 exchanges of 2 bytes a number
    stages = []
    for i in range(n):
        layers = (x["layers"] + ends) // n - (ends > 0 and i in (0, n - 1))
        head = head_s if i == n - 1 else 0
        stages.append([tokens * (layers * seconds + head) for seconds in (
            product_s + attention_s + 2 * bytes_s + link_s, product_s + 2.5 * attention_s + 3 * bytes_s + link_s, product_s)])
    path = os.path.join(room, "bridge.dot")
    write_chain(path, stages, 0)
    words = [path, "-w", workers, "-m", row["microbatches_per_replica"], "-s", "interleaved" if chunks > 1 else "1f1b"]
    return ask(orrery, "simulate", *words)["makespan"]


def meet_bridge(orrery, folder, room):
    of, every, cache = collections.defaultdict(list), [], {}
    for run in rows_of(folder, "megatron_bridge.csv"):
        if run["model"] in LLAMA3 and run["virtual"]:
            of[run["release"], run["task"], run["gpu"], run["precision"]].append(run)
    print("| release, task, GPU, precision | share of peaks, from | met |\n|---|---|---|")
    for key, runs in sorted(of.items()):
        shares = []
        for run in sorted(runs, key=lambda run: -LLAMA3[run["model"]]["layers"]):
            shape = tuple(run[x] for x in SHAPE)
            cache[shape] = cache.get(shape) or bridge_step(orrery, room, run)
            tokens = int(run["global_batch_samples"]) * int(run["sequence_tokens"]) / int(run["gpus"])
            shares.append((cache[shape] * float(run["tokens_per_s_per_gpu"]) / tokens, run))
        (share, first), *others = shares
        if not others:
            continue
        off = [100 * (x / share - 1) for x, _ in others]  # of the step
        names = [f"{run['model']} t{run['tensor']} p{run['pipeline']} v{run['virtual']}" for _, run in others]
        print(row(", ".join(key), f"{share:.3f}, {first['model']}", beside(names, off)))
        every += off
    summary("rows", {"published, rows that were not fitted to": every})


def main(options):
    with tempfile.TemporaryDirectory() as room:
        for i, meet in enumerate((replay, meet_a100, meet_memory, meet_primus, meet_bridge)):
            print(end="\n" if i else "")
            meet(options.orrery, options.folder, room)
        meet_ranks(options.orrery, options.folder)
