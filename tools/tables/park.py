"""Memory against step, with stashes where they are and parked in host memory: graphs/PARKED.md is what this writes."""
import os
import tempfile

from common import row
from tensor import MACHINE, step

SCHEDULES = (('1f1b', 1), ('zb-h1', 1), ('gpipe', 1), ('v-half', 2), ('v-min', 2), ('v-zb', 2))   # stages a worker
WAYS = ((), ('--park', 'all'), ('--park', 'all', '--prefetch', 1))


def main(options):
    print('''# Stashes in host memory

The model of 98.5 billion parameters of [TENSOR.md](TENSOR.md) on the same 40 GPUs, split among none (t = 1), where each has a
link of 25 GB/s with its host's memory: all stashes where they are, or parked (`--park all`), moving beside two jobs or one
(`--prefetch`). GB: of the fullest GPU, parameters, gradients and optimizer's state included, and of all hosts together, in
float32. MFU in percent.

Written by `tools/table park ORRERY`.

| schedule | stages | GB | MFU | GB, parked, 2 ahead | MFU | GB, parked, 1 ahead | MFU | GB in hosts |
|---|---|---|---|---|---|---|---|---|''')
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open('nodes.dot', 'w') as file:   # floats here take twice as many bytes as there, as links do
            file.write(MACHINE.replace('ports=true;', 'ports=true; host="50GB/s,10us";'))
        for schedule, folds in SCHEDULES:
            cells = []
            for park in WAYS:
                told, mfu, memory = step(options.orrery, 40 * folds, schedule, *park)
                cells += [f'{memory:.0f}', f'{mfu:.1f}']
            print(row(f'`{schedule}`', 40 * folds, *cells, f'{told["peak_host_bytes"] / 1e9:.0f}'), flush=True)
    print('''
1F1B keeps its speed in half of the memory, GPipe in less than a fifth: one job is enough to move a stash behind. Where the
weight gradient is a job of its own (`zb-h1`), the last stages run B soon after F and W much later, and between those nothing
is parked.''')
