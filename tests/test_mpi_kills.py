#!/usr/bin/env python3
"""A random rank is killed at a random time: the others end in time, and the training goes on under another
schedule and on another number of ranks, to bitwise the parameters of one that nothing disturbed.
Usage: test_mpi_kills.py ORRERY SOURCE KILLS [SEED]. Exit code 77: there is no mpirun, or the build has no MPI."""
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ORRERY, SOURCE = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
N_KILLS, SEED = int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 1
N_STEPS, EVERY = 40, 4
MOST_SECONDS = 300  # from the kill to the end of the last rank: what takes longer hangs

# With one owner a stage every schedule comes to the same parameters; with replicas, those with the same replicas.
FAMILIES = {
    'one owner': ['1f1b', 'fsdp', 'v-half', 'fslpp:G=2,R=2', 'zb-h1', 'gpipe'],
    'ddp': ['ddp'],
    'two owners': ['lpp:G=2,R=2', 'lpp:G=2,R=2,order=breadth'],
}

if not shutil.which('mpirun'):
    print('SKIP: there is no mpirun')
    sys.exit(77)
work = pathlib.Path(tempfile.mkdtemp())
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1', STARPU_HOME=str(work), OMPI_MCA_orte_tmpdir_base=str(work))
draw = random.Random(SEED)


def newest(folder):
    """The step of its newest checkpoint, or 0."""
    return max((int(path.name[5:]) for path in folder.glob('step-*')), default=0)


def start(schedule, n_ranks, folder):
    command = [ORRERY, 'train', str(work / 'digits.dot'), '--stages', '8', '-w', '4', '-m', '8', '--batch', '24',
               '--schedule', schedule, '--checkpoint', str(folder), '--every', str(EVERY), '--keep', '2',
               '--steps', str(N_STEPS)]
    if newest(folder):
        command.append('--resume')
    if n_ranks:
        command = ['mpirun', '--oversubscribe', '-n', str(n_ranks)] + command
    with open(work / 'err', 'w', encoding='utf-8') as err:
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=err)


def said():
    return (work / 'err').read_text(encoding='utf-8', errors='replace')


def ranks_of(folder):
    """The processes that mpirun has started, by rank."""
    found = {}
    for process in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            words = (process / 'cmdline').read_bytes().split(b'\0')
            if words[0] == ORRERY.encode() and str(folder).encode() in words:
                rank = re.search(rb'\0OMPI_COMM_WORLD_RANK=(\d+)', (process / 'environ').read_bytes())
                found[int(rank[1])] = int(process.name)
        except (OSError, TypeError):
            pass  # it has just ended
    return found


def tensors(folder):
    """All that its newest checkpoint holds, or the reason why there is none."""
    listing = subprocess.run([SOURCE + '/tests/tensors', str(folder)], capture_output=True, text=True, check=False)
    return listing.stdout if listing.returncode == 0 else listing.stderr


class Wrong(Exception):
    """What must not be after a kill."""


def kill_one(schedules, folder):
    """Start, wait for a drawn checkpoint and then for a drawn time, and kill a drawn rank. Who it was, and the
    seconds until all ranks had ended; None: they had before."""
    schedule, n_ranks = draw.choice(schedules), draw.randint(2, 4)
    victim, step, pause = draw.randrange(n_ranks), draw.randrange(0, N_STEPS, EVERY), draw.uniform(0, 0.5)
    job = start(schedule, n_ranks, folder)
    while job.poll() is None and newest(folder) < step:
        time.sleep(0.01)
    time.sleep(pause)
    while job.poll() is None and victim not in (there := ranks_of(folder)):
        time.sleep(0.01)
    if job.poll() is not None:
        return None
    try:
        os.kill(there[victim], signal.SIGKILL)
    except ProcessLookupError:
        job.wait()
        return None
    who = f'{schedule} on {n_ranks}, rank {victim}'
    begin = time.monotonic()
    try:
        code = job.wait(MOST_SECONDS)
    except subprocess.TimeoutExpired:
        job.kill()
        raise Wrong(f'{who}: not ended after {MOST_SECONDS} s') from None
    while ranks_of(folder) and time.monotonic() - begin < MOST_SECONDS:
        time.sleep(0.01)
    if ranks_of(folder):
        raise Wrong(f'{who}: a rank goes on')
    if not code and newest(folder) < N_STEPS:  # else the rank had done all its work
        raise Wrong(f'{who}: exit code 0')
    return who, time.monotonic() - begin


def go_on(schedules, folder, expected):
    """Under a drawn schedule on drawn ranks, up to the end."""
    schedule, n_ranks = draw.choice(schedules), draw.randint(2, 4)
    if start(schedule, n_ranks, folder).wait():
        raise Wrong(f'{schedule} on {n_ranks} does not go on')
    if tensors(folder) != expected:
        raise Wrong(f'{schedule} on {n_ranks} comes to other parameters')
    return f'{schedule} on {n_ranks}'


def main():
    """Returns how many went wrong."""
    probe = subprocess.run(['mpirun', '--oversubscribe', '-n', '2', ORRERY, 'train', 'none.dot'], check=False,
                           capture_output=True, text=True)
    if 'was not found when it was configured' in probe.stderr:
        print('SKIP: the build has no MPI')
        sys.exit(77)
    model = pathlib.Path(SOURCE, 'graphs/digits.dot').read_text(encoding='utf-8')
    (work / 'digits.dot').write_text(re.sub('stage=[0-9]*', '', model), encoding='utf-8')
    shutil.copytree(pathlib.Path(SOURCE, 'graphs/data'), work / 'data')
    calm, n_killed, n_wrong, n_resumed, longest = {}, 0, 0, 0, 0.0
    while n_killed < N_KILLS:
        family = list(FAMILIES)[n_killed % len(FAMILIES)]
        if family not in calm:
            folder = work / f'calm-{len(calm)}'
            if start(FAMILIES[family][0], 0, folder).wait():
                sys.exit('undisturbed: ' + said())
            calm[family] = tensors(folder)
            assert calm[family].startswith(f'step-{N_STEPS:08}\n'), calm[family]
        folder = work / 'killed'
        shutil.rmtree(folder, ignore_errors=True)
        try:
            killed = kill_one(FAMILIES[family], folder)
            if not killed:
                continue
            step = newest(folder)
            after = go_on(FAMILIES[family], folder, calm[family])
            n_resumed += step > 0
            longest = max(longest, killed[1])
            print(f'kill {n_killed + 1}: {killed[0]}; all ended after {killed[1]:.2f} s; {after} goes on from step '
                  f'{step}: the same', flush=True)
        except Wrong as wrong:
            n_wrong += 1
            print(f'FAILED: kill {n_killed + 1}: {wrong}: {said()}', flush=True)
        n_killed += 1
    print(f'{n_killed} kills (seed {SEED}), {n_resumed} after the first checkpoint; the longest end took '
          f'{longest:.2f} s; {n_wrong} went wrong')
    return n_wrong


try:
    sys.exit(1 if main() else 0)
finally:
    shutil.rmtree(work)
