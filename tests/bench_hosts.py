#!/usr/bin/env python3
"""Training on several hosts beside its simulation. A host is a network namespace, one core of this machine and one
worker; a pair of virtual Ethernet devices joins every two of them, each end shaped by tbf, so that a link carries its
rate each way; the hosts of `uplink` are in two racks, whose transfers share a link. No address outside of these namespaces is used. Prints a table in Markdown: the step simulated and
measured, their ratio, and of the time in which a link between two hosts carries anything the share in which it carries
both ways.
Usage: bench_hosts.py ORRERY SOURCE [-n ROUNDS] [-o MPIRUN_OPTIONS] [NAME...]. NAMEs: only cases whose name has one of
them. Exit code 77: no namespaces can be made here, there is no mpirun, or the build has no MPI; 1: a case is further
from its simulation than WITHIN."""
import argparse
import json
import os
import pathlib
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
from hosts import Hosts, Racks, mpirun, write_agent

WITHIN = 5       # percent
FRAME, DATA = 1514, 1448   # bytes that tbf counts of a full frame, and what TCP carries in it
SAMPLE_S, BUSY = 0.02, 0.2   # of the counters; a direction is in use from this share of its rate on
# Models whose messages take far longer than their jobs, so that a step is what the links make of it: between stages
# (`narrow`, WIDTH of a stage's output, `towers` that meet in the last stage) and between replicas or tied stages (`square`,
# `tied`, their parameters); /N: N stages, not one a host
CHAIN = """digraph chain {{ data="digits.csv";
pixels [op=input, columns="0:64", scale=0.0625{first}];
digit [op=input, columns="64"{last}]; loss [op=softmax_cross_entropy{last}];
{nodes}
digit -> loss; }}"""
# name, hosts, Mbit/s of a link each way, model, options of train
CASES = [
    ('1f1b', 2, 20, 'narrow:8192', '--batch 96 -s 1f1b -m 8'),
    ('1f1b, large', 2, 20, 'narrow:8192', '--batch 192 -s 1f1b -m 4'),
    ('1f1b, small', 2, 20, 'narrow:512', '--batch 96 -s 1f1b -m 16'),
    ('zb-h1', 2, 20, 'narrow:8192', '--batch 96 -s zb-h1 -m 8'),
    ('gpipe', 2, 20, 'narrow:8192', '--batch 96 -s gpipe -m 8'),
    ('ddp', 2, 100, 'square:512', '--batch 16 -s ddp -m 4'),
    ('ddp, small', 2, 20, 'square:128', '--batch 16 -s ddp -m 4'),
    ('fsdp', 2, 100, 'square:512', '--batch 16 -s fsdp -m 4'),
    ('split', 2, 20, 'narrow:2048', '--batch 96 -s 1f1b -m 2 --split 2'),
    ('1f1b', 3, 20, 'narrow:8192', '--batch 96 -s 1f1b -m 8'),
    ('zb-h1', 3, 20, 'narrow:8192', '--batch 96 -s zb-h1 -m 8'),
    ('ddp', 3, 100, 'square:512', '--batch 24 -s ddp -m 6'),
    ('1f1b', 4, 20, 'narrow:8192', '--batch 96 -s 1f1b -m 8'),
    ('gpipe', 4, 20, 'narrow:8192', '--batch 96 -s gpipe -m 8'),
    ('ddp', 4, 100, 'square:512', '--batch 16 -s ddp -m 4'),
    ('fsdp', 4, 100, 'square:512', '--batch 16 -s fsdp -m 4'),
    ('split', 4, 20, 'narrow:2048', '--batch 96 -s 1f1b -m 2 --split 2'),
    ('interleaved', 2, 20, 'narrow:4096/4', '--batch 96 -s interleaved -m 8'),
    ('v-half', 2, 20, 'narrow:4096/4', '--batch 96 -s v-half -m 8'),
    ('towers', 3, 20, 'towers:8192', '--batch 96 -s 1f1b -m 8'),
    ('towers, zb-h1', 3, 20, 'towers:8192', '--batch 96 -s zb-h1 -m 8'),
    ('tied', 3, 100, 'tied:512', '--batch 96 -s 1f1b -m 8'),
    ('replicas', 4, 20, 'narrow:4096/2', '--batch 96 -s 1f1b -m 8 --replicas 2'),
    ('chimera', 4, 100, 'narrow:2048', '--batch 96 -s chimera -m 8'),
    ('uplink, replicas', 4, 20, 'narrow:4096/2', '--batch 96 -s 1f1b -m 8 --replicas 2'),
    ('uplink, interleaved', 4, 20, 'narrow:2048/8', '--batch 96 -s interleaved -m 8'),
]
# of the hosts of `uplink`, in two racks
MACHINE = """graph racks {{ bandwidth="{fast}B/s"; ports=true; model=shared;
subgraph cluster_one {{ uplink="{slow}B/s"; one [repeat={half}]; }}
subgraph cluster_two {{ uplink="{slow}B/s"; two [repeat={half}]; }} }}"""


def model(what, n):
    """narrow: a stage for each of n hosts; towers: all but the last read the pixels; tied: the first and the last have the same
    square; square: six products of as many features, in as many stages as -s makes."""
    kind, _, size = what.partition(':')
    width, _, stages = size.partition('/')
    nodes, n, before = [], int(stages or n), 'pixels'

    def linear(name, features, k, reads, more=''):
        pin = '' if k is None else f', stage={k}'
        nodes.append(f'{name} [op=linear, features={features}{pin}{more}]; {reads} -> {name};')
        return name

    if kind == 'square':
        for i in range(6):
            before = linear(f'a{i}', width, None, before)
        n = None
    for k in range(n or 0):
        if kind == 'towers' and k < n - 1:
            before = 'pixels'
        elif kind == 'towers':
            before = 'sum'
            nodes.append(f'sum [op=add, stage={k}]; {{{" ".join(f"b{i}" for i in range(k))}}} -> sum;')
        before = linear(f'a{k}', 64, k, before)
        before = linear(f'b{k}', width, k, before)
        if kind == 'tied' and k in (0, n - 1):
            before = linear(f'c{k}', width, k, before, ', share=square')
    linear('last', 10, n and n - 1, before)
    pins = ['', ''] if n is None else ['' if kind == 'towers' else ', stage=0', f', stage={n - 1}']
    return CHAIN.format(first=pins[0], last=pins[1], nodes='\n'.join(nodes + ['last -> loss;']))


def skip(why):
    print('SKIP:', why)
    sys.exit(77)


class Watch(threading.Thread):
    """How often both directions of a link are in use, of the samples in which one is."""

    def __init__(self, hosts):
        super().__init__()
        self.hosts, self.ends, self.samples = hosts, False, []

    def run(self):
        while not self.ends:
            self.samples.append((time.monotonic(), self.hosts.counters()))
            time.sleep(SAMPLE_S)

    def show(self):
        for (begin, before), (end, after) in zip(self.samples, self.samples[1:]):
            ways = [(after[a] - before[a]) / (end - begin) / self.hosts.mbit / 1250 for a in sorted(before)]
            print(f'{end - self.samples[0][0]:.3f}', *(f'{way:4.0f}' for way in ways), file=sys.stderr)

    def both(self):
        any_way = both_ways = 0
        for (begin, before), (end, after) in zip(self.samples, self.samples[1:]):
            least = BUSY * self.hosts.mbit * 125000 * (end - begin)
            for i, k in before:
                if i < k:
                    ways = sum(after[a] - before[a] > least for a in ((i, k), (k, i)))
                    any_way += ways > 0
                    both_ways += ways == 2
        return 100 * both_ways / max(1, any_way)


def train(hosts, what, options, arguments):
    """One training: its JSON, and the share of both ways."""
    n = len(hosts.names)
    with tempfile.TemporaryDirectory() as work:
        agent = pathlib.Path(work, 'agent')
        write_agent(agent, hosts, work)
        bandwidth = hosts.mbit * 125000 * DATA / FRAME
        graph = pathlib.Path(work, 'model.dot')
        graph.write_text(model(what, n), encoding='ascii')
        machine = pathlib.Path(work, 'racks.dot')
        machine.write_text(MACHINE.format(fast=round(Racks.FAST * bandwidth), slow=round(bandwidth), half=n // 2), encoding='ascii')
        links = ['--machine', str(machine)] if isinstance(hosts, Racks) else ['-w', str(n), '--bandwidth', f'{bandwidth:.0f}B/s']
        command = ['ip', 'netns', 'exec', hosts.names[0], 'taskset', '-c', '0', *mpirun(hosts, agent), *shlex.split(arguments.options)]
        command += [arguments.orrery, 'train', str(graph), *options.split(), '--data', f'{arguments.source}/graphs/data/digits.csv', *links, '--json', '--steps', str(arguments.steps)]
        if arguments.verbose:
            print(shlex.join(command), file=sys.stderr)
        watch = Watch(hosts)
        watch.start()
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        watch.ends = True
        watch.join()
    if 'was not found when it was configured' in done.stderr:
        skip('the build has no MPI')
    if done.returncode:
        raise OSError(f'{shlex.join(command)}: exit code {done.returncode}: {done.stderr}')
    if arguments.verbose:
        watch.show()
    if 'WARNING' in done.stderr:
        print(done.stderr, file=sys.stderr)
    run, losses = json.loads(done.stdout), hosts.losses()
    if arguments.verbose or run['step_seconds'] > (1 + WITHIN / 100) * run['predicted_makespan']:
        print(f'{what} {options}: {run["step_seconds"]:.3f} s,', ', '.join(f'{key} {n}' for key, n in losses.items()), file=sys.stderr)
    return run, watch.both()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('orrery', type=os.path.abspath)
    parser.add_argument('source', type=os.path.abspath)
    parser.add_argument('names', nargs='*')
    parser.add_argument('-n', '--rounds', type=int, default=3)
    parser.add_argument('-s', '--steps', type=int, default=6)
    parser.add_argument('-o', '--options', default='', help='of mpirun')
    parser.add_argument('-v', '--verbose', action='store_true')
    arguments = parser.parse_intermixed_args()
    if not shutil.which('mpirun') or not shutil.which('ip') or not shutil.which('tc'):
        skip('there is no mpirun, ip or tc')
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', STARPU_HOSTNAME='host0')
    # what StarPU measures of a host, it measures once
    os.environ.setdefault('STARPU_HOME', os.path.join(os.path.dirname(arguments.orrery), 'hosts'))
    try:
        with Hosts(2, 100) as hosts:
            hosts.counters()
    except OSError as why:
        skip(why)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))   # leaves no namespaces behind
    far = 0
    print('| schedule | hosts | Mbit/s | simulated | measured | difference | both ways |')
    print('|---|---|---|---|---|---|---|')
    for name, n, mbit, what, options in CASES:
        if arguments.names and not any(word in f'{name} {n}' for word in arguments.names):
            continue
        with (Racks if name.startswith('uplink') else Hosts)(n, mbit) as hosts:
            runs = [train(hosts, what, options, arguments) for _ in range(arguments.rounds)]
        simulated = statistics.median(run['predicted_makespan'] for run, _ in runs)
        measured = statistics.median(run['step_seconds'] for run, _ in runs)
        difference = 100 * (measured / simulated - 1)
        far += abs(difference) > WITHIN
        both = '' if isinstance(hosts, Racks) else f'{statistics.median(both for _, both in runs):.0f}%'
        print(f'| {name} | {n} | {mbit} | {1e3 * simulated:.0f} ms | {1e3 * measured:.0f} ms | {difference:+.1f}% | '
              f'{both} |', flush=True)
    return far


if __name__ == '__main__':
    sys.exit(1 if main() else 0)
