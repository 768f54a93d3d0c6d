#!/usr/bin/env python3
"""Graphs that are split among workers train across ranks: under every schedule with one owner a stage, on several ranks
as in one process, to the same losses to the bit; and what the ranks count of their messages is what is simulated, in bf16 half as much of
activations, but for sums between the blocks of a GPT, which are kept in float32.
Usage: test_mpi_split.py ORRERY SOURCE. Exit code 77: there is no mpirun, or the build has no MPI."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ORRERY, SOURCE = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
STEPS = 3
# a tensor that three stages read, another that two of them do, and one that each of these alone reads
SHARED = '''digraph { data="digits.csv"; x [op=input, columns="0:64", scale=0.0625]; digit [op=input, columns=64];
    node [op=linear]; a [features=24, stage=0]; a2 [features=24, stage=0]; a3 [features=24, stage=0]; b [stage=1, op=add];
    c [features=24, stage=2]; d [stage=3, op=add]; e [stage=3, features=10]; loss [op=softmax_cross_entropy, stage=3];
    x -> a -> a2 -> a3; a -> b; a3 -> b -> c -> d -> e -> loss; a -> d; a2 -> d; a3 -> d; digit -> loss; }'''
# model, its split, workers, precision, and under each group of schedules the same losses; of the first one also on 2 ranks, where
# the members of a group share one; those after `:` only in the benchmark, and `few` has the first one alone
SWEEPS = os.environ.get('ORRERY_SWEEPS')
CASES = [
    ('gpt', '2', 4, 'fp32', [['1f1b', 'fsdp', ':', 'zb-h1', 'v-half'], ['ddp']]),
    ('gpt', '4:copied', 4, 'bf16', [['gpipe']]),
    ('gpt', None, 4, 'bf16', [['1f1b']]),
    ('digits', None, 6, 'bf16', [['1f1b']]),
    ('moe', '4', 4, 'bf16', [['1f1b']]),
    ('clip', 'left=2', 4, 'fp32', [['auto', ':', 'gpipe']]),
    ('digits', '2', 4, 'fp32', [['1f1b', 'zb-h2']]),
    ('shared', None, 2, 'fp32', [['v-half', 'fsdp', ':', 'interleaved', 'gpipe']]),
]

if not shutil.which('mpirun'):
    print('SKIP: there is no mpirun')
    sys.exit(77)
work = pathlib.Path(tempfile.mkdtemp())
(work / 'shared.dot').write_text(SHARED)
# fewer rows of data: each training ends with the loss of its test rows
rows = pathlib.Path(SOURCE, 'graphs/data/digits.csv').read_text().splitlines(keepends=True)[:480]
(work / 'data').mkdir()
for name in ('digits.csv', 'data/digits.csv'):
    (work / name).write_text(''.join(rows))
for model in {case[0] for case in CASES} - {'shared'}:
    shutil.copy(f'{SOURCE}/graphs/{model}.dot', work)
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', STARPU_HOME=str(work), OMPI_MCA_orte_tmpdir_base=str(work))


def run(command, n_ranks=0):
    if n_ranks:
        command = ['mpirun', '--oversubscribe', '-n', str(n_ranks)] + command
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    if 'was not found when it was configured' in done.stderr:
        print('SKIP: the build has no MPI')
        sys.exit(77)
    assert done.returncode == 0, f'{" ".join(command)}: {done.stderr}'
    return done.stdout


def check_traffic(report, simulated):
    """Each rank is one worker, and what it receives in all steps as much as is simulated of each, but for less than 64 zeros
    before each of the up to 6 layers of a stage."""
    for rank, worker in zip(report['traffic'], simulated['worker'], strict=True):
        received = rank['received']
        for kind in ('activation', 'gradient', 'stash', 'parameter'):
            counted = received.get(kind, {'bytes': 0, 'messages': 0})
            zeros = counted['bytes'] - STEPS * worker[f'recv_{kind}_bytes']
            assert 0 <= zeros <= (6 * 4 * 63 * counted['messages'] if kind == 'parameter' else 0), (kind, received, worker)
        if any(len(tied['owners']) > len(tied['stages']) for tied in simulated.get('tied', [])):
            continue  # replicas, that add up all gradients of their stage besides
        counted = received.get('all_reduce', {'bytes': 0})['bytes']
        assert counted == STEPS * worker['all_reduce_bytes'], (counted, worker)


def check(model, split, workers, precision, schedules, on_two):
    losses = set()
    if SWEEPS != 'all' and ':' in schedules:
        schedules = schedules[:schedules.index(':')]
    for schedule in [name for name in schedules if name != ':'][:1 if SWEEPS == 'few' else None]:
        options = [f'{work}/{model}.dot', '-w', str(workers), '-m', '4', '--batch', '24', '--schedule', schedule]
        options += ['--split', split] if split else []
        wide = json.loads(run([ORRERY, 'simulate', *options, '--json']))
        options += ['--precision', precision]
        simulated = json.loads(run([ORRERY, 'simulate', *options, '--json']))
        assert not split or simulated['split']['groups'][0] == 0
        less = 1 if model == 'gpt' else 2
        if not split and precision == 'bf16':  # a split also sends parts of the data and sums of losses, which stay
            for half, whole in zip(simulated['worker'], wide['worker'], strict=True):
                for kind in ('activation', 'gradient'):
                    assert less * half[f'recv_{kind}_bytes'] == whole[f'recv_{kind}_bytes'], (half, whole)
        alone = (0,) if schedule == schedules[0] else ()
        for n_ranks in (*alone, *((2,) if alone and on_two else ()), workers):
            csv = work / 'loss.csv'
            report = json.loads(run([ORRERY, 'train', *options, '--steps', str(STEPS), '--json', '--loss', str(csv)], n_ranks))
            losses.add(csv.read_text())
            assert len(losses) == 1, f'{model} split {split}, {schedule} on {n_ranks} ranks: {losses}'
            if n_ranks == workers:
                check_traffic(report, simulated)
    last = [float(line.split(',')[2]) for line in losses.pop().splitlines()[1:]]
    assert len(last) == STEPS and min(last) < last[0], last


for case in CASES:
    for group in case[4]:
        check(*case[:4], group, on_two=case[1] and group == case[4][0])
shutil.rmtree(work)
