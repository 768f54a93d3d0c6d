#!/usr/bin/env python3
"""Policies that no built-in schedule has (policy_plugin.c), trained in bf16 across ranks: with several owners a stage the losses
and the weights are, to the bit, those of one process; with one owner those of one worker. And where passes of a microbatch are on workers of their own, stashes of as many bytes move as
are simulated.
Usage: test_policies.py ORRERY SOURCE MODULES few | drawn N SEED | all
all: a worker reads its own copy of a stage and another's, on 2 and 4 ranks, with every optimizer and split. few: that once each,
on two memories of one process, and some drawn ones. Exit code 77: there is no mpirun, or the build has no MPI."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ORRERY, SOURCE, MODULES = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:4])
STEPS = '3'
# A worker reads its own copy of a stage for some microbatches, and another's for others.
BOTH_COPIES = 'compute=sum,weights=pairs'

if not shutil.which('mpirun'):
    print('SKIP: there is no mpirun')
    sys.exit(77)
work = pathlib.Path(tempfile.mkdtemp())
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', STARPU_HOME=str(work), OMPI_MCA_orte_tmpdir_base=str(work))
# fewer rows of data: each training ends with the loss of its test rows
(work / 'data').mkdir()
(work / 'data/digits.csv').write_text(''.join(pathlib.Path(SOURCE, 'graphs/data/digits.csv').read_text().splitlines(keepends=True)[:480]))
for graph in ('digits', 'gpt', 'clip', 'moe'):
    shutil.copy(f'{SOURCE}/graphs/{graph}.dot', work)
count = {'the bits of one process': 0, 'the bits of one worker': 0, 'refused': 0, 'differ or fail': 0}


# A worker a memory: what is read of another's is a copy there, as it is on another rank.
os.environ.pop('HWLOC_COMPONENTS', None)  # it would keep hwloc from the memories
MEMORIES = {'STARPU_HOSTNAME': 'orrery-numa', 'STARPU_USE_NUMA': '1',
            'HWLOC_COMPONENTS': 'synthetic', 'HWLOC_SYNTHETIC': 'pack:2 [numa(memory=1GB)] core:1 pu:1'}


def train(model, policy, options, n_ranks=1, more=None):
    """(what failed, losses, weights)"""
    command = ['mpirun', '--oversubscribe', '-n', str(n_ranks)] if n_ranks > 1 else []
    command += [ORRERY, 'train', f'{work}/{model}.dot', '-s', policy, *options, '--steps', STEPS]
    for file in ('loss.csv', 'weights.safetensors'):
        (work / file).unlink(missing_ok=True)
    command += ['--loss', f'{work}/loss.csv', '--save-weights', f'{work}/weights.safetensors']
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env={**os.environ, **(more or {})})
    if 'was not found when it was configured' in done.stderr:
        print('SKIP: the build has no MPI')
        sys.exit(77)
    if done.returncode:
        return f'exit {done.returncode}: {done.stderr.strip()}', None, None
    return None, (work / 'loss.csv').read_bytes(), (work / 'weights.safetensors').read_bytes()


def check(model, words, n_workers, n_ranks, options=(), order='strict', split=False, more=None):
    """On n_ranks ranks, or with more in the environment, as in one process or, where each stage has one owner, on one worker."""
    module = f'{MODULES}/plugin_policy_{order}{"_split" if split else ""}.so'
    one_owner = any(f'weights={way},' in f'{words},' for way in ('stage', 'placed'))
    options = ['--precision', 'bf16', *options]
    name = f'{model}: {order}{" split" if split else ""} {words}, {n_workers} workers on {n_ranks} ranks: {" ".join(options)}'
    fails, *expected = train(model, f'{module}:{words}', ['-w', str(1 if one_owner else n_workers), *options])
    if fails and fails.startswith('exit 2') and 'orrery: ' in fails and 'plug-in' not in fails:
        count['refused'] += 1
        print(f'refused: {name}: {fails}', flush=True)
        return
    if not fails:
        fails, *found = train(model, f'{module}:{words}', ['-w', str(n_workers), *options], n_ranks, more)
    if not fails and found != expected:
        fails = f'other {"losses" if found[0] != expected[0] else "weights"}'
    if fails:
        print(f'FAILED: {name}: {fails}', flush=True)
        count['differ or fail'] += 1
    else:
        count[f'the bits of one {"worker" if one_owner else "process"}'] += 1


def check_stashes(model, words, split=False, precision='fp32'):
    """F, B and W of a microbatch on three workers, each a rank, which receives the stashes that are simulated."""
    options = [f'{work}/{model}.dot', '-s', f'{MODULES}/plugin_policy_strict{"_split" if split else ""}.so:{words}']
    options += ['-w', '3', '-m', '4', '--precision', precision, '--json']
    ranks = ['mpirun', '--oversubscribe', '-n', '3']
    reports = []
    for command in ([ORRERY, 'simulate', *options], [*ranks, ORRERY, 'train', *options, '--steps', STEPS]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        reports += [json.loads(done.stdout)] if not done.returncode else []
        if done.returncode:
            print(f'FAILED: {" ".join(command)}: {done.stderr}')
            count['differ or fail'] += 1
            return
    simulated = [int(STEPS) * worker['recv_stash_bytes'] for worker in reports[0]['worker']]
    counted = [rank['received'].get('stash', {'bytes': 0})['bytes'] for rank in reports[1]['traffic']]
    if simulated != counted or not any(counted):
        print(f'FAILED: stashes of {options}: {counted} bytes received, {simulated} simulated')
        count['differ or fail'] += 1


def check_drawn(draw, several):
    n_workers = draw.randint(2, 4)
    owners = ['microbatch', 'pairs', 'drawn', 'by-pass', 'here'] if several else ['stage', 'placed']
    words = {
        'compute': draw.choice(['stage', 'microbatch', 'sum', 'pass', 'apart', 'drawn', 'drawn']),
        'weights': draw.choice(owners),
        'turn': draw.choice(['depth', 'breadth', 'wave', 'last']),
        'again': draw.choice([0, 0, 50, 100]),
        'seed': draw.randrange(10**6),
    }
    if words['turn'] == 'depth' and draw.random() < 0.5:
        words['cap'] = draw.randint(1, 3)
    options = ['-m', str(draw.choice([2, 3, 4, 6])), '--prefetch', str(draw.randint(0, 3))]
    options += draw.choice([[], ['--clip', '0.5']])
    options += ['--optimizer', draw.choice(['adamw', 'adamw', 'adam', 'momentum', 'sgd'])]
    options += draw.choice([[], ['--shard-optimizer']]) if several else []
    model = draw.choice(['digits', 'digits', 'digits', 'gpt', 'clip', 'moe'])
    if model == 'clip':  # one worker for the stage that gathers the minibatch
        words['compute'] = draw.choice(['stage', 'pass'])
    check(model, ','.join(f'{key}={value}' for key, value in words.items()), n_workers, draw.randint(1, n_workers), options,
          draw.choice(['strict', 'greedy']), draw.random() < 0.5)


mode = sys.argv[4]
if mode == 'all':
    for ranks in (2, 4):
        for optimizer in ('adamw', 'adam', 'momentum', 'sgd'):
            for more in ([], ['--shard-optimizer'], ['--clip', '0.5']):
                for backward in (False, True):
                    check('digits', BOTH_COPIES, ranks, ranks, ['-m', '4', '--optimizer', optimizer, *more], split=backward)
        for way in ('2', '2:copied', '4'):
            if ranks % int(way[0]) == 0:
                check('digits', BOTH_COPIES, ranks, ranks, ['-m', '4', '--split', way])
                check('gpt', BOTH_COPIES, ranks, ranks, ['-m', '4', '--split', way])
else:
    for ranks in (2, 4) if mode == 'few' else ():
        check('digits', BOTH_COPIES, ranks, ranks, ['-m', '4'])
    if mode == 'few':
        check('digits', BOTH_COPIES, 2, 1, ['-m', '4'], more=MEMORIES)
        for split in (False, True):
            check_stashes('digits', 'compute=pass', split)
        check_stashes('gpt', 'compute=pass', True, 'bf16')
        check_stashes('moe', 'compute=pass,again=60', True)
    n, seed = (4, 1) if mode == 'few' else (int(sys.argv[5]), int(sys.argv[6]))
    for i in range(n):
        check_drawn(random.Random(seed * 1000003 + i), i % 6 != 5)
shutil.rmtree(work)
print(', '.join(f'{number} {what}' for what, number in count.items()))
trained = count['the bits of one process'] + count['the bits of one worker']
sys.exit(count['differ or fail'] > 0 or trained <= count['refused'])
