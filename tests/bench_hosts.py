#!/usr/bin/env python3
"""Training on several hosts beside its simulation. A host is a network namespace, one core of this machine and one
worker; a pair of virtual Ethernet devices joins every two of them, each end shaped by tbf, so that a link carries its
rate each way. No address outside of these namespaces is used. Prints a table in Markdown: the step simulated and
measured, their ratio, and of the time in which a link between two hosts carries anything the share in which it carries
both ways.
Usage: bench_hosts.py ORRERY SOURCE [-n ROUNDS] [-o MPIRUN_OPTIONS] [NAME...]. NAMEs: only cases whose name has one of
them. Exit code 77: no namespaces can be made here, there is no mpirun, or the build has no MPI; 1: a case is further
from its simulation than WITHIN."""
import argparse
import contextlib
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

WITHIN = 5       # percent
FRAME, DATA = 1514, 1448   # bytes that tbf counts of a full frame, and what TCP carries in it
SAMPLE_S, BUSY = 0.02, 0.2   # of the counters; a direction is in use from this share of its rate on
# Models whose messages take far longer than their jobs, so that a step is what the links make of it: between stages
# (`narrow`, WIDTH of a stage's output) and between replicas (`square`, its parameters)
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
]


def model(what, n):
    """narrow: a stage for each of n hosts; square: six products of as many features, in as many stages as -s makes."""
    kind, width = what.split(':')
    nodes, before = [], 'pixels'
    sizes = [(k, size) for k in range(n) for size in (64, int(width))] if kind == 'narrow' else [(None, int(width))] * 6
    for at, (k, size) in enumerate(sizes + [(sizes[-1][0], 10)]):
        pin = '' if k is None else f', stage={k}'
        nodes.append(f'a{at} [op=linear, features={size}{pin}]; {before} -> a{at};')
        before = f'a{at}'
    pins = ['', ''] if kind == 'square' else [', stage=0', f', stage={n - 1}']
    return CHAIN.format(first=pins[0], last=pins[1], nodes='\n'.join(nodes + [f'{before} -> loss;']))


def skip(why):
    print('SKIP:', why)
    sys.exit(77)


def call(command):
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f'{command}: {done.stderr.strip()}')
    return done.stdout


class Hosts:
    """n namespaces, joined by links of `mbit` each way; gone at the end, with all that runs in them."""

    def __init__(self, n, mbit):
        self.names = [f'orrery-{os.getpid()}-{k}' for k in range(n)]
        self.mbit = mbit
        self.idle = []   # a process in each, whose /proc has the counters

    def __enter__(self):
        try:
            for name in self.names:
                call(f'ip netns add {name}')
                call(f'ip -n {name} link set lo up')
                # A slow link stands for a fast one: no slow start after a pause, and no more under way in the shaper than
                # a few frames, behind which the other connection's frames would wait for many milliseconds.
                for setting, value in {'tcp_slow_start_after_idle': 0, 'tcp_limit_output_bytes': self.mbit * 200}.items():
                    call(f"ip netns exec {name} sh -c 'echo {value} >/proc/sys/net/ipv4/{setting}'")
            for i, name in enumerate(self.names):
                for k in range(i):
                    call(f'ip -n {name} link add name to{k} type veth peer name to{i} netns {self.names[k]}')
            for i, name in enumerate(self.names):
                others = [k for k in range(len(self.names)) if k != i]
                call(f'ip -n {name} address add {address(i)}/32 dev to{others[0]}')
                for k in others:
                    # a burst is sent at once after a pause, which is time won by each pause: two frames, where the
                    # rate allows it
                    call(f'ip netns exec {name} tc qdisc add dev to{k} root tbf rate {self.mbit}mbit '
                         f'burst {max(4000, self.mbit * 1000 // 8)} limit 4000000')
                    call(f'ip -n {name} link set to{k} gso_max_segs {max(1, self.mbit // 16)} up')
                for k in others:
                    call(f'ip -n {name} route add {address(k)}/32 dev to{k} src {address(i)}')
                self.idle.append(subprocess.Popen(['ip', 'netns', 'exec', name, 'sleep', 'infinity']))
            while len(self.counters()) < len(self.names) * (len(self.names) - 1):   # it has not yet moved in
                time.sleep(0.01)
        except (OSError, FileNotFoundError):
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.idle:
            process.kill()
            process.wait()
        for name in self.names:
            with contextlib.suppress(OSError):
                for pid in call(f'ip netns pids {name}').split():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(int(pid), 9)
                call(f'ip netns delete {name}')

    def counters(self):
        """Bytes that each host has sent over each of its links: {(from, to): bytes}."""
        found = {}
        for i, process in enumerate(self.idle):
            for line in pathlib.Path(f'/proc/{process.pid}/net/dev').read_text(encoding='ascii').splitlines()[2:]:
                name, numbers = line.split(':')
                if name.strip().startswith('to'):
                    found[i, int(name.strip()[2:])] = int(numbers.split()[8])
        return found

    def losses(self):
        """Of all hosts: frames that shapers dropped, and TCP's segments sent again and timeouts."""
        found = {'dropped': 0, 'RetransSegs': 0, 'TCPTimeouts': 0}
        for name, process in zip(self.names, self.idle):
            found['dropped'] += sum(link.get('drops', 0) for link in json.loads(call(f'ip netns exec {name} tc -s -j qdisc')))
            for file in 'snmp', 'netstat':
                lines = pathlib.Path(f'/proc/{process.pid}/net/{file}').read_text(encoding='ascii').splitlines()
                for names, numbers in zip(lines[::2], lines[1::2]):
                    for key, number in zip(names.split(), numbers.split()):
                        if key in found:
                            found[key] += int(number)
        return found


def address(k):
    return f'10.91.7.{k + 1}'


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
    n, n_cores = len(hosts.names), os.cpu_count()
    with tempfile.TemporaryDirectory() as work:
        agent = pathlib.Path(work, 'agent')   # instead of ssh: ADDRESS COMMAND...
        # a host has its own folder for temporary files: two daemons that make one folder at once end the run
        agent.write_text('#!/bin/sh\nhost=$((${1##*.} - 1))\nshift\n'
                         f'export STARPU_HOSTNAME=host$host OMPI_MCA_orte_tmpdir_base={work}/$host\n'
                         'mkdir -p "$OMPI_MCA_orte_tmpdir_base"\n'
                         f'exec ip netns exec orrery-{os.getpid()}-$host taskset -c $((host % {n_cores})) sh -c "$*"\n',
                         encoding='ascii')
        agent.chmod(0o755)
        bandwidth = hosts.mbit * 125000 * DATA / FRAME
        graph = pathlib.Path(work, what.replace(':', '-') + '.dot')
        graph.write_text(model(what, n), encoding='ascii')
        command = ['ip', 'netns', 'exec', hosts.names[0], 'taskset', '-c', '0', 'mpirun', '--bind-to', 'none',
                   '--mca', 'plm_rsh_agent', str(agent), '--mca', 'btl', 'tcp,self',
                   '--mca', 'btl_tcp_if_include', address(0) + '/24', '--mca', 'oob_tcp_if_include', address(0) + '/24',
                   '-n', str(n), '--host', ','.join(address(k) for k in range(n))] + shlex.split(arguments.options)
        command += [arguments.orrery, 'train', str(graph), *options.split(), '--data', f'{arguments.source}/graphs/data/digits.csv', '-w', str(n),
                    '--bandwidth', f'{bandwidth:.0f}B/s', '--json', '--steps', str(arguments.steps)]
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
        with Hosts(n, mbit) as hosts:
            runs = [train(hosts, what, options, arguments) for _ in range(arguments.rounds)]
        simulated = statistics.median(run['predicted_makespan'] for run, _ in runs)
        measured = statistics.median(run['step_seconds'] for run, _ in runs)
        difference = 100 * (measured / simulated - 1)
        far += abs(difference) > WITHIN
        print(f'| {name} | {n} | {mbit} | {1e3 * simulated:.0f} ms | {1e3 * measured:.0f} ms | {difference:+.1f}% | '
              f'{statistics.median(both for _, both in runs):.0f}% |', flush=True)
    return far


if __name__ == '__main__':
    sys.exit(1 if main() else 0)
