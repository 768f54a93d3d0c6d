"""Nine placements that papers on schedule search use, on any even number of workers.

    tools/table placements build/tools/orrery --write graphs/studies    the files, for 4 workers
    tools/table placements build/tools/orrery --workers 8               what auto makes of them, beside the bound of their period

Blocks take one unit forward and three back, those on all workers one and one, unless PLACEMENTS below says otherwise. The
memory is the peak that 1f1b has on the same placement. The bound is the work of a worker on one microbatch, times the
microbatches: that leaves no time to fill the pipeline or to drain it. [Lin24, see src/REFERENCES.md]
"""
import os
import tempfile

from common import ask


def placements(n):
    """name: (defaults, stages in order with what is theirs, chains of stages)"""
    one = {"forward": 1, "backward": 3, "stash": '"1MB"'}
    everywhere = {"gang": f'"0:{n}"', "backward": 1, "stash": 0}
    row = [f"s{i}" for i in range(n)]

    def on(names, **more):
        return [(name, {"gang": f'"{w}:{w + 1}"', **more}) for w, name in enumerate(names)]

    def on_all(*names, **more):
        return [(name, {**everywhere, **more}) for name in names]

    half = n // 2
    frozen = {"backward": 0, "stash": 0, "frozen": "true"}
    back = [f"r{i}" for i in range(n)]
    before = [[f"{letter}{i}" for i in range(n)] for letter in "pq"]
    found = {
        "v": (one, on(row), [row]),
        "x": (one, on(row) + on(back), [row, back[::-1]]),
        "nn": (one, on_all("all0", "all1") + on(row), [["all0", *row[:half], "all1", *row[half:]]]),
        "mllm": (one, on_all("all0", "all1") + on(row), [["all0", *row, "all1"]]),
        "m": (one, on_all("all0") + on(row), [["all0", *row]]),
        "k": (one, on_all("loss", stash=f'"{n}MB"') + on(row), [[*row[:half], "loss"], [*row[half:], "loss"]]),
        "finetune": ({**one, "backward": 2}, on_all("all0", **frozen) + on(row), [["all0", *row]]),
        "alphafold": ({**one, "backward": 1}, on(before[0], **frozen) + on(before[1], **frozen) + on(row),
                      [before[0] + before[1] + row]),
    }
    if n == 4:
        found["nn-eager"] = (one, on_all("all0", "all1") + on(row), [["all0", "s0", "all1", *row[1:]]])
    return found


def attributes(values):
    return ", ".join(f"{key}={value}" for key, value in values.items())


def dot(name, n, defaults, stages, chains):
    lines = [f"// {n} workers; written by tools/table placements", f'digraph "{name}" {{', f"\tnode [{attributes(defaults)}];"]
    lines += [f"\t{stage} [{attributes(own)}];" for stage, own in stages]
    lines += ["\t" + " -> ".join(chain) + ";" for chain in chains]
    return "\n".join(lines) + "\n}\n"


def work(stages, defaults):
    """Units that the busiest worker computes for one microbatch."""
    busy = {}
    for _, own in stages:
        first, end = own["gang"].strip('"').split(":")
        for w in range(int(first), int(end)):
            values = {**defaults, **own}
            busy[w] = busy.get(w, 0) + values["forward"] + values["backward"]
    return max(busy.values())


def path(folder, name):
    return os.path.join(folder, f"placement_{name}.dot")


def write(folder, n):
    for name, (defaults, stages, chains) in placements(n).items():
        with open(path(folder, name), "w", encoding="utf-8") as file:
            file.write(dot(name, n, defaults, stages, chains))


def simulate(orrery, file, n, m, schedule):
    return ask(orrery, "simulate", file, "-w", n, "-m", m, "--schedule", schedule)


def measure(orrery, folder, n, m):
    """(name, work, bytes, makespan of 1f1b, makespan of auto, its proven bound)"""
    for name, (defaults, stages, _) in sorted(placements(n).items()):
        file = path(folder, name)
        known = simulate(orrery, file, n, m, "1f1b")
        memory = max(w["peak_stash_bytes"] for w in known["worker"])
        found = simulate(orrery, file, n, m, f"auto:memory={memory}B")
        assert all(w["peak_stash_bytes"] <= memory for w in found["worker"]), name
        yield name, work(stages, defaults), memory, known["makespan"], found["makespan"], found["lower_bound"]


def arguments(parser):
    parser.add_argument("--workers", "-w", type=int, default=4)
    parser.add_argument("--microbatches", "-m", type=int, default=64)
    parser.add_argument("--write", metavar="FOLDER", help="write the files, and no table")
    parser.add_argument("--within", type=float, help="fail where auto is above the bound by more, in percent")


def main(options):
    if options.write:
        write(options.write, options.workers)
        return 0
    worst = 0
    print(f"{options.workers} workers, {options.microbatches} microbatches\n")
    print("placement   work   memory     bound      1f1b      auto  above the bound  proven bound")
    with tempfile.TemporaryDirectory() as folder:
        write(folder, options.workers)
        for name, units, memory, known, found, proven in measure(options.orrery, folder, options.workers,
                                                                 options.microbatches):
            bound = units * options.microbatches
            worst = max(worst, 100 * (found / bound - 1))
            print(f"{name:10s} {units:5d} {memory // 1000000:5d} MB {bound:9d} {known:9g} {found:9g}"
                  f" {100 * (found / bound - 1):15.2f}% {proven:13g}", flush=True)
    return int(options.within is not None and worst > options.within)
